"""Disks that fill, fail or refuse at any step of writing, then the same command again: of a run
from nothing, and of a report. And folders and files that are not ours to write.
"""

import errno
import fcntl
import resource
import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from tests.faults import KINDS, Faults, failing
from tests.soak.families.results import follow
from tests.soak.place import Place, Said, bound_by_rights
from tests.soak.row import Row

RUN_STEPS = range(1, 241, 5)
REPORT_STEPS = range(1, 161, 10)
LIMITS = (10_000, 20_000, 50_000, 100_000, 500_000, 1_000_000, 2_000_000)
"""Bytes of the longest file that can be written; what a command says is shorter."""
GOES_ON = ("survived", "repaired")
READ_ONLY = ("run", "run/cells", "run/locks", "run/invocations", "run/features", "run/derived")
READ_ONLY += ("prepared", "prepared/demo", "report", ".")


def rows(bases: Mapping[str, Place]) -> Iterator[Row]:
    """In this order."""
    for kind in KINDS:
        for command, steps, base in (("run", RUN_STEPS, "bare"), ("report", REPORT_STEPS, "small")):
            for at in steps:
                act = partial(_failing, command, at, kind)
                yield Row("disk", f"{kind} at step {at} of a {command}", base, act, GOES_ON)
    for command, base in (("run", "bare"), ("report", "small")):
        for limit in LIMITS:
            name = f"no file longer than {limit} bytes during a {command}"
            yield Row("disk", name, base, partial(_limited, command, limit), GOES_ON)
    for folder in READ_ONLY:
        for base, then in (("nothing", "run"), ("small", "run"), ("small", "report")):
            name = f"{folder} cannot be written, {base}, then {then}"
            yield Row("disk", name, base, partial(_read_only, folder, then))
    for locks in ("none", "granted to everybody"):
        for base in ("bare", "small"):
            act = partial(_unlockable, locks)
            yield Row("disk", f"locks: {locks}, {base}", base, act, GOES_ON)


def _command(place: Place, command: str) -> Callable[[], Said]:
    return place.run if command == "run" else place.report


def _failing(command: str, at: int, kind: str, place: Place) -> None:
    place.mark()
    with failing(Faults(place.folder, at, kind)):
        _command(place, command)()
    shutil.rmtree(place.folder / "report", ignore_errors=True)
    follow(command, place)


def _limited(command: str, limit: int, place: Place) -> None:
    place.mark()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        _command(place, command)()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    follow(command, place)


def _read_only(folder: str, then: str, place: Place) -> None:
    (place.folder / folder).mkdir(parents=True, exist_ok=True)
    (place.folder / folder).chmod(0o555)
    bound_by_rights()
    place.mark()
    follow(then, place)


def _unlockable(locks: str, place: Place) -> None:
    plain = fcntl.flock

    def none(handle: int, how: int) -> None:
        if locks == "none":
            raise OSError(errno.ENOLCK, "No locks available")

    fcntl.flock = none
    place.mark()
    try:
        place.run()
    finally:
        fcntl.flock = plain
    follow("run", place)
