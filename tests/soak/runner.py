"""Carries rows out: each in a copy of a process that has imported everything, on a copy of its
study, with a time limit; what came of it is noted at once, so that a soak that was stopped goes on.
"""

import contextlib
import hashlib
import importlib
import json
import multiprocessing
import os
import shutil
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import psutil

from tests.soak.bases import MADE
from tests.soak.judge import Before, Tables, judge, look, tables
from tests.soak.place import PICTURES, SAID, Place, removed, surroundings
from tests.soak.row import Row, Verdict

FAMILIES = Path(__file__).parent / "families"
MAKING = 1200.0
"""Seconds that a study may take to be made."""
LATE = ("lightning_fabric", "torch._dynamo", "matplotlib.figure", "matplotlib.style", "jinja2")
LATE += ("matplotlib.backends.backend_agg", "scipy.signal", "scipy.ndimage", "pyarrow.dataset")
LATE += ("typer._adapters", "ecgbench.data.imported.importing", "ecgbench.study.run")
"""What commands import when they need it: a third of the time of a row."""
LEAVING = 5.0
"""Seconds that a process may take to end after the command that started it."""


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
            tasks = [Task(f"study {n}", partial(_make, self.home, n), MAKING) for n in made]
            for task, result, why in _apart(tasks, workers):
                if why:
                    raise SystemExit(f"{task.name} cannot be made: {why or result}")


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


def carry_out(home: Home, wanted: list[Row], workers: int) -> Iterator[Verdict]:
    """What came of each row, as they end."""
    shutil.rmtree(home.folder / "rows", ignore_errors=True)  # of a soak that was killed
    (home.folder / "rows").mkdir()
    Studies(home).make({row.base for row in wanted}, workers)
    expected = {row.base: home.tables(row.base) for row in wanted}
    tasks = [Task(r.id, partial(_try, home, r, expected[r.base]), r.seconds) for r in wanted]
    for task, result, why in _apart(tasks, workers):
        found = Verdict(**json.loads(result)) if result else Verdict(task.name, "other", why)
        if why and found.outcome not in ("traceback", "silent wrong number", "lost"):
            found = Verdict(task.name, "other", why)
        shutil.rmtree(home.folder / "rows" / _folder(task.name), ignore_errors=True)
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


# processes


@dataclass(frozen=True)
class Task:
    """Work for a process of its own, and after how many seconds it has hung."""

    name: str
    work: Callable[[], str]
    seconds: float


class _Running:
    """A copy of this process that does a task."""

    def __init__(self, task: Task) -> None:
        context = multiprocessing.get_context("fork")
        self.task, self.until = task, time.monotonic() + task.seconds
        self.pipe, theirs = context.Pipe(duplex=False)
        self.process = context.Process(target=_work, args=(task, theirs))
        self.process.start()
        theirs.close()

    def told(self) -> tuple[Task, str, str]:
        """The task, its result, and what went wrong, or ""."""
        hung = time.monotonic() > self.until
        if hung:
            self.process.kill()
        result, why = "", "its process ended without a word"
        with contextlib.suppress(EOFError):
            result, why = self.pipe.recv()
        self.process.join(LEAVING)
        self.process.kill()
        self.process.join()
        left = _ended_what_is_left(self.task.name)
        if hung:
            why = f"did not end within {self.task.seconds:g} s"
        return self.task, result, why or (f"left behind: {left}" if left else "")


def _apart(tasks: list[Task], workers: int) -> Iterator[tuple[Task, str, str]]:
    """Tasks in processes, so many at once; what came of them, as they end."""
    waiting, running = deque(tasks), list[_Running]()
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                running.append(_Running(waiting.popleft()))
            time.sleep(0.01)
            for one in list(running):
                if one.pipe.poll() or time.monotonic() > one.until:
                    running.remove(one)
                    yield one.told()
    finally:
        for one in running:
            one.process.kill()


def _work(task: Task, pipe: Connection) -> None:
    os.setpgid(0, 0)
    try:
        pipe.send((task.work(), ""))
    except BaseException:
        pipe.send(("", traceback.format_exc()[-2500:]))


def _ended_what_is_left(name: str) -> str:
    """Ends the processes that a row has left behind, those that do not end by themselves; what
    they are.
    """
    until = time.monotonic() + LEAVING
    while (found := _of_row(name)) and time.monotonic() < until:
        time.sleep(0.01)
    for process in found:
        with contextlib.suppress(psutil.Error):
            process.kill()
    return ", ".join(found.values())


def _of_row(name: str) -> dict[psutil.Process, str]:
    """Processes that carry a row's name: their commands."""
    found = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("ECGBENCH_SOAK_ROW") == name:
                found[process] = " ".join(process.cmdline())[:80]
    return found
