"""Runs that end at any step of their writing by a signal, real processes and workers that are
killed at random moments, and four runs in one folder.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from functools import partial

import psutil

from ecgbench import __main__ as program
from ecgbench.core.seeds import rng
from tests.faults import Faults, failing
from tests.soak.families.results import follow
from tests.soak.place import Place
from tests.soak.row import Row

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
STEPS = range(2, 242, 8)
"""Of a run from nothing, which are about 230."""
MOMENTS = 6
"""Random moments of real processes, of each victim."""
SECONDS = 12.0
"""That such a process takes, at least where nothing else works."""
ROUNDS = 12


class Killing(Faults):
    """A signal comes when so many steps are done."""

    after: int
    how: signal.Signals

    def step(self, act: str, path: object) -> None:
        super().step(act, path)
        if len(self.steps) == self.after:
            os.kill(os.getpid(), self.how)


def rows(bases: Mapping[str, Place]) -> Iterator[Row]:
    """In this order."""
    for how in SIGNALS:
        for at in STEPS:
            name = f"{how.name} after step {at} of a run"
            yield Row("kills", name, "bare", partial(_at_step, how, at), ("survived", "repaired"))
    for victim in ("the run", "its group", "its worker"):
        for turn in range(MOMENTS):
            name = f"{victim} at random moment {turn + 1}"
            act = partial(_at_moment, victim, name)
            yield Row("kills", name, "bare", act, ("survived", "repaired", "named"))
    for turn in range(ROUNDS):
        name = f"four runs in one folder, round {turn + 1}"
        base = ("bare", "nothing")[turn % 2]
        yield Row("kills", name, base, _together, ("survived", "repaired"))


def _at_step(how: signal.Signals, at: int, place: Place) -> None:
    place.mark()

    def work() -> None:
        killing = Killing(place.folder)
        killing.after, killing.how = at, how
        with failing(killing):
            program.main()

    sys.argv = ["ecgbench", *map(str, place.words("--engine", "inline"))]
    place.ended(place.start(work), f"a run that ends by {how.name}")
    follow("run", place)


def _at_moment(victim: str, name: str, place: Place) -> None:
    place.mark()
    command = [sys.executable, "-m", "ecgbench", *map(str, place.words())]
    files = [place.folder / "killed.out", place.folder / "killed.err"]
    with files[0].open("w") as out, files[1].open("w") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, start_new_session=True)
        time.sleep(float(rng("soak", name).uniform(0.3, 1)) * SECONDS)
        with contextlib.suppress(ProcessLookupError, StopIteration, psutil.Error):
            if victim == "its worker":
                worker = next(w for w in psutil.Process(process.pid).children() if _works(w))
                worker.kill()
            elif victim == "its group":
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
        process.wait()
    place.heard(f"a run whose {victim} is killed", process.returncode, files)
    follow("run", place)


def _works(process: psutil.Process) -> bool:
    return "spawn_main" in " ".join(process.cmdline())


def _together(place: Place) -> None:
    place.mark()
    sys.argv = ["ecgbench", *map(str, place.words("--engine", "inline"))]
    started = [place.start(program.main) for _ in range(4)]
    for one in started:
        place.ended(one, "one of four runs")
    follow("run", place)
