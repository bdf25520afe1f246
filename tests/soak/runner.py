"""Carries rows out: each in a copy of a process that has imported everything, on a copy of its
study, with a time limit; what came of it is noted at once, so that a soak that was stopped goes on.
"""

import contextlib
import ctypes
import hashlib
import importlib
import json
import math
import os
import shutil
import signal
import stat
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.soak.bases import MADE
from tests.soak.judge import Before, Tables, judge, look, tables
from tests.soak.place import PICTURES, SAID, Place, removed, surroundings
from tests.soak.row import Row, Verdict

FAMILIES = Path(__file__).parent / "families"
MAKING = 1200.0
"""Seconds that a study may take to be made."""
LATE = ("lightning_fabric", "torch._dynamo", "matplotlib.figure", "matplotlib.style", "jinja2")
LATE += ("matplotlib.backends.backend_agg", "scipy.signal", "scipy.ndimage", "pyarrow.dataset")
LATE += ("typer._adapters", "ecgbench.data.own.importing", "ecgbench.study.run")
"""What commands import when they need it: a third of the time of a row."""
POLL = 0.01
LEAVING = 5.0
"""Seconds that a process may take to end after the command that started it."""
PR_SET_PDEATHSIG = 1
"""Of prctl(2)."""


@dataclass(frozen=True)
class Home:
    """The folder of a soak: the studies, the rows that are being tried, and what came of others."""

    folder: Path

    def base(self, name: str) -> Path:
        return self.folder / "bases" / name

    def told(self, name: str) -> Path:
        """Is there when the study is made, and says with which words."""
        return self.folder / "bases" / f"{name}.json"

    def tables(self, name: str) -> Tables:
        """What a study must come to."""
        file = self.told(MADE[name].comes_to or name).with_suffix(".tables")
        found = json.loads(file.read_text())
        return {k: [tuple(line) for line in lines] for k, lines in found.items()}

    def place(self, name: str) -> Place:
        """A study as it was made."""
        told = json.loads(self.told(name).read_text())
        return Place(self.base(name), tuple(map(Path, told["models"])), tuple(told["settings"]))


def prepare_process() -> None:
    """Everything is imported once; and what takes time and matters to no row is left out."""
    from ecgbench import reports
    from ecgbench.study import run, work  # noqa: F401

    for name in reports.names():
        reports.get(name)
    for name in LATE:
        importlib.import_module(name)
    importlib.import_module("torch").set_num_threads(1)
    figures = importlib.import_module("ecgbench.reports._figure")
    figures.rendered = lambda sheet, kinds: {kind: PICTURES[kind] for kind in kinds}
    os.fsync = lambda handle: None


@dataclass
class Studies(Mapping[str, Place]):
    """The studies of a soak by name, each made when it is asked for, in a process of its own."""

    home: Home

    def __getitem__(self, name: str) -> Place:
        if not self.home.told(name).exists():
            self.make([name])
        return self.home.place(name)

    def __iter__(self) -> Iterator[str]:
        return iter(MADE)

    def __len__(self) -> int:
        return len(MADE)

    def make(self, wanted: Iterable[str], workers: int = 1) -> None:
        """Those that are not there, and what they rest on."""
        names = set(wanted)
        names |= {n for name in names for n in (MADE[name].of, MADE[name].comes_to) if n}
        missing = [n for n in MADE if n in names and not self.home.told(n).exists()]
        for copied in (False, True):
            made = [n for n in missing if bool(MADE[n].of) == copied]
            tasks = [Task(f"study {n}", lambda n=n: _make(self.home, n), MAKING) for n in made]
            for told in _apart(tasks, workers):
                if not told.result:
                    raise SystemExit(f"{told.task.name} cannot be made: {told.why}")


def _make(home: Home, name: str) -> str:
    base, folder = MADE[name], home.base(name)
    shutil.rmtree(folder, ignore_errors=True)
    if base.of:
        place = home.place(base.of).copy(folder)
        place.settings = base.settings
    else:
        folder.mkdir(parents=True)
        place = Place(folder, settings=base.settings)
    surroundings(folder, name)
    base.make(place)
    if not base.comes_to:
        home.told(name).with_suffix(".tables").write_text(json.dumps(tables(place)))
    leftovers = [f for f in folder.iterdir() if f.name in (SAID, "report")]
    removed(leftovers)
    told = {"models": list(map(str, place.models)), "settings": list(place.settings)}
    home.told(name).write_text(json.dumps(told))
    return "made"


def families() -> list[str]:
    """The files that hold rows."""
    return sorted(file.stem for file in FAMILIES.glob("[!_]*.py"))


def rows(studies: Studies, of: Iterable[str]) -> list[Row]:
    """Of families, in their order."""
    modules = [importlib.import_module(f"tests.soak.families.{name}") for name in of]
    found = [row for module in modules for row in module.rows(studies)]
    names = Counter(row.id for row in found)
    assert len(names) == len(found), names.most_common(3)
    return found


def carry_out(
    home: Home, wanted: list[Row], workers: int, until: float = math.inf
) -> Iterator[Verdict]:
    """What came of each row, as they end; none begins after `until`, of time.monotonic."""
    _clear(home.folder / "rows")  # of a soak that was killed
    (home.folder / "rows").mkdir()
    Studies(home).make({row.base for row in wanted}, workers)
    expected = {row.base: home.tables(row.base) for row in wanted}
    tasks = [
        Task(row.id, lambda row=row: _try(home, row, expected[row.base]), row.seconds)
        for row in wanted
    ]
    for told in _apart(tasks, workers, until):
        if told.result:
            found = Verdict(**json.loads(told.result))
        else:
            found = Verdict(told.task.name, "other", told.why)
        if told.left and found.outcome not in ("traceback", "silent wrong number", "lost"):
            found = Verdict(told.task.name, "other", f"left behind: {told.left}")
        _clear(home.folder / "rows" / _folder(told.task.name))
        yield found


def _folder(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:16]


def _try(home: Home, row: Row, expected: Tables) -> str:
    """In a process of its own: the row's verdict as JSON."""
    place = home.place(row.base).copy(home.folder / "rows" / _folder(row.id))
    surroundings(place.folder, row.id)
    before: list[Before] = []
    place.mark = lambda: before.append(look(place))
    row.act(place)
    return json.dumps(asdict(judge(row, place, before[0], expected)))


def _clear(folder: Path) -> None:
    """Also where a fault has taken the right to do so."""
    for at, _, _ in os.walk(folder):
        with contextlib.suppress(OSError):
            os.chmod(at, stat.S_IRWXU)
    shutil.rmtree(folder, ignore_errors=True)


# processes


@dataclass(frozen=True)
class Task:
    """Work for a process of its own, and after how many seconds it has hung."""

    name: str
    work: Callable[[], str]
    seconds: float


@dataclass(frozen=True)
class Told:
    """What came of a task: its result, or why there is none; and what it left running."""

    task: Task
    result: str = ""
    why: str = ""
    left: str = ""


@dataclass
class _Running:
    task: Task
    process: int
    pipe: int
    until: float
    text: bytes = b""
    hung: bool = False


def _apart(tasks: list[Task], workers: int, until: float = math.inf) -> Iterator[Told]:
    """Tasks in processes, so many at once; told as they end."""
    waiting, running = list(reversed(tasks)), list[_Running]()
    try:
        while waiting or running:
            if time.monotonic() > until:
                waiting.clear()
            while waiting and len(running) < workers:
                running.append(_started(waiting.pop()))
            time.sleep(POLL)
            for one in list(running):
                with contextlib.suppress(BlockingIOError):
                    while data := os.read(one.pipe, 1 << 16):
                        one.text += data
                if not one.hung and time.monotonic() > one.until:
                    one.hung = True
                    os.kill(one.process, signal.SIGKILL)
                if os.waitpid(one.process, os.WNOHANG)[0]:
                    running.remove(one)
                    yield _told(one)
    finally:
        for one in running:
            os.kill(one.process, signal.SIGKILL)
            os.waitpid(one.process, 0)
            _told(one)


def _started(task: Task) -> _Running:
    ours, theirs = os.pipe()
    process = os.fork()
    if not process:
        os.close(ours)
        os.setpgid(0, 0)
        _end_with_parent()
        try:
            text = "=" + task.work()
        except BaseException:
            text = "!" + traceback.format_exc()
        with open(theirs, "w") as out:
            out.write(text)
        os._exit(0)
    os.close(theirs)
    os.set_blocking(ours, False)
    return _Running(task, process, ours, time.monotonic() + task.seconds)


def _end_with_parent() -> None:
    """Where the system can: a soak that is killed leaves nothing behind."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _told(one: _Running) -> Told:
    with contextlib.suppress(BlockingIOError):
        while data := os.read(one.pipe, 1 << 16):
            one.text += data
    os.close(one.pipe)
    left = _ended_what_is_left(one.task.name)
    text = one.text.decode(errors="replace")
    if one.hung:
        return Told(one.task, why=f"did not end within {one.task.seconds:g} s")
    if not text.startswith("="):
        return Told(one.task, why=text[1:][-2500:] or "its process ended without a word", left=left)
    return Told(one.task, text[1:], left=left)


def _ended_what_is_left(name: str) -> str:
    """Ends the processes that a row has left behind, those that do not end by themselves; what
    they are.
    """
    until = time.monotonic() + LEAVING
    while (found := _of_row(name)) and time.monotonic() < until:
        time.sleep(POLL)
    for process in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    return ", ".join(found.values())


def _of_row(name: str) -> dict[int, str]:
    """Processes that carry a row's name: their commands."""
    mark, found = f"ECGBENCH_SOAK_ROW={name}".encode(), {}
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (place / "environ").read_bytes().split(b"\0"):
                words = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                found[int(place.name)] = words.strip()[:80]
    return found
