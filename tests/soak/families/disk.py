"""Disks that fill, fail or refuse at any step of writing, then the same command again: of a run
from nothing, and of a report.
"""

import errno
import fcntl
import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from tests.faults import KINDS, Faults, failing
from tests.soak.families.results import follow
from tests.soak.place import Place, Said
from tests.soak.row import Row

RUN_STEPS = range(1, 241, 5)
REPORT_STEPS = range(1, 161, 10)
GOES_ON = ("survived", "repaired")


def rows(bases: Mapping[str, Place]) -> Iterator[Row]:
    """In this order."""
    for kind in KINDS:
        for command, steps, base in (("run", RUN_STEPS, "bare"), ("report", REPORT_STEPS, "small")):
            for at in steps:
                act = partial(_failing, command, at, kind)
                yield Row("disk", f"{kind} at step {at} of a {command}", base, act, GOES_ON)
    for base in ("bare", "small"):
        yield Row("disk", f"a disk without locks, {base}", base, _unlockable, GOES_ON)


def _command(place: Place, command: str) -> Callable[[], Said]:
    return place.run if command == "run" else place.report


def _failing(command: str, at: int, kind: str, place: Place) -> None:
    place.mark()
    with failing(Faults(place.folder, at, kind)):
        _command(place, command)()
    shutil.rmtree(place.folder / "report", ignore_errors=True)
    follow(command, place)


def _unlockable(place: Place) -> None:
    plain = fcntl.flock

    def none(handle: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    fcntl.flock = none
    place.mark()
    try:
        place.run()
    finally:
        fcntl.flock = plain
    follow("run", place)
