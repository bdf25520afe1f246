"""A small study that faults are put into: two quick models on the synthetic demo, in a folder that
a row may spoil.
"""

import contextlib
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ecgbench import __main__ as program
from ecgbench import datasets, metrics, models, policies, reports
from ecgbench.errors import EcgbenchError
from ecgbench.study import engines

TESTS = Path(__file__).parents[1]
TINY = TESTS / "tiny.py"
ROOMS = (datasets, engines, metrics, models, reports, policies)
TASK = ("--tasks", "demo", "--limit", 24, "--seeds", 1, "--weights", "random")
LINEAR = (*TASK, "--protocol", "linear", "--set", "training.epochs=3", "--leads", "12,I")
STUDY = (*LINEAR, "--policy", "zero,ridge")
OWN = ("--records", "records", "--labels", "labels.csv", *LINEAR[4:])
TUNED = (*TASK, "--protocol", "finetune", "--set", "training.epochs=3", "--leads", "12,I")
SAID = "said"
"""Folder of what commands have said."""
PICTURES = {
    "png": b"\x89PNG\r\n\x1a\n",
    "svg": b'<svg xmlns="http://www.w3.org/2000/svg"/>',
    "pdf": b"%PDF-1.4\n",
}
"""What figures become here: half of the time of a report is spent on their pixels."""


@dataclass(frozen=True)
class Said:
    """A command, and what came of it."""

    words: str
    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


@dataclass
class Place:
    """A folder with a run, prepared copies and all that commands were given and said there."""

    folder: Path
    models: tuple[Path, ...] = (TINY,)
    """Those in its folder move with it."""
    settings: tuple[object, ...] = LINEAR
    said: list[Said] = field(default_factory=list)
    harmed: list[Path] = field(default_factory=list)
    """Files and folders that the fault is in."""
    begun: int = 0
    """Commands so far."""
    mark: Callable[[], None] = lambda: None
    """To be called when the fault is in and nothing was done about it yet."""

    @property
    def out(self) -> Path:
        return self.folder / "run"

    @property
    def prepared(self) -> Path:
        return self.folder / "prepared"

    def words(self, *more: object) -> tuple[object, ...]:
        """Of the run's command; later words override."""
        named = ("--models", ",".join(map(str, self.models)))
        where = ("--prepared", self.prepared, "--out", self.out)
        return ("run", *named, *self.settings, *where, "--set", "run.report=no", *more)

    def run(self, *more: object) -> Said:
        """The run's command, as it was given before."""
        return self.type(*self.words("--engine", "inline", *more))

    def report(self, *more: object) -> Said:
        """The report of the run, beside it; made again whatever has changed."""
        to = self.folder / "report"
        (to / "made_from.json").unlink(missing_ok=True)
        return self.type("report", self.out, "--to", to, *more)

    def type(self, *words: object) -> Said:
        """An `ecgbench` command in this process, as if it were a new one."""
        for room in ROOMS:
            room.ROOM.forget()
        sys.argv = ["ecgbench", *map(str, words)]
        return self.call(" ".join(sys.argv), program.main)

    def call(self, words: str, work: Callable[[], object]) -> Said:
        """What a command does, in this process: errors end as the command line lets them end."""
        files = self._files()
        return self.heard(words, _worked(work, files), files)

    def start(self, work: Callable[[], object]) -> "Started":
        """A copy of this process that does a command's work, in a group of its own."""
        files = self._files()
        process = os.fork()
        if not process:
            os.setpgid(0, 0)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os._exit(_worked(work, files))
        return Started(process, files)

    def ended(self, started: "Started", words: str) -> Said:
        """What it said; its code is negative where a signal ended it."""
        code = os.waitstatus_to_exitcode(os.waitpid(started.process, 0)[1])
        return self.heard(words, code, [file for file in started.files if file.exists()])

    def heard(self, words: str, code: int, files: list[Path]) -> Said:
        """Notes what a command wrote into files."""
        texts = [file.read_text(errors="replace") for file in files]
        out, err = texts if len(texts) == 2 else ("", "")
        self.said.append(Said(words, code, out, err))
        return self.said[-1]

    def _files(self) -> list[Path]:
        self.begun += 1
        said = self.folder / SAID
        if not said.is_dir():  # after the first command faults may be injected
            said.mkdir()
        return [self.folder / SAID / f"{name}{self.begun}" for name in ("out", "err")]

    def copy(self, to: Path) -> "Place":
        """The same study in another folder."""
        shutil.copytree(self.folder, to, symlinks=True)
        for card in to.glob("run/imported/card.toml"):  # it names the folder of its recordings
            card.write_text(card.read_text().replace(str(self.folder), str(to)))
        inside = [m for m in self.models if m.is_relative_to(self.folder)]
        moved = {m: to / m.relative_to(self.folder) for m in inside}
        (to / SAID).mkdir(exist_ok=True)
        return Place(to, tuple(moved.get(m, m) for m in self.models), self.settings)


@dataclass(frozen=True)
class Started:
    """A process, and the files of its output and errors."""

    process: int
    files: list[Path]


def _worked(work: Callable[[], object], files: list[Path]) -> int:
    """The exit code of a command whose output and errors go to files."""
    with _redirected(files):
        try:
            work()
        except SystemExit as end:
            return int(end.code or 0)
        except (EcgbenchError, OSError) as error:  # as ecgbench.cli does
            print(f"ecgbench: {error}", file=sys.stderr)
            return 2
        except BaseException:
            traceback.print_exc()
            return 1
    return 0


@contextlib.contextmanager
def _redirected(files: list[Path]) -> Iterator[None]:
    """Standard output and error of this process and of what it starts are files meanwhile."""
    kept = [os.dup(number) for number in (1, 2)]
    streams = [sys.stdout, sys.stderr]
    for stream in streams:
        stream.flush()
    try:
        for number, file in zip((1, 2), files):
            handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(handle, number)
            os.close(handle)
        with open(1, "w", closefd=False) as out, open(2, "w", closefd=False) as err:
            sys.stdout, sys.stderr = out, err
            yield
            out.flush()
            err.flush()
    finally:
        sys.stdout, sys.stderr = streams
        for number, handle in zip((1, 2), kept):
            os.dup2(handle, number)
            os.close(handle)


def surroundings(folder: Path, row: str) -> None:
    """This process is of a person who has only `folder`; what it starts carries the row's name."""
    for name in [n for n in os.environ if n.startswith("ECGBENCH_")]:
        del os.environ[name]
    os.environ |= {
        "ECGBENCH_SOAK_ROW": row,
        "ECGBENCH_WEIGHTS": str(folder / "weights"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "NO_COLOR": "1",
        "COLUMNS": "200",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(TESTS.parent),
    }
    os.chdir(folder)


def removed(paths: Iterable[Path]) -> None:
    for path in list(paths):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
