"""What a dataset of an installed package declares, found out without importing it here: a process
of its own imports it, and what it says is kept for that version of its distribution.

`python -m ecgbench.declared` is that process.
"""

import hashlib
import importlib
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

import platformdirs

import ecgbench
from ecgbench import processes
from ecgbench.core.registry import Room
from ecgbench.core.sealed import seal, unsealed
from ecgbench.errors import BadSetting, EcgbenchError, WriteError

SECONDS = 60.0
"""That an import may take."""
_LATE: dict[EntryPoint, str] = {}
"""Those that took longer, and what was said of them: a command asks several times."""


@dataclass(frozen=True)
class Declared:
    """What is asked of a plug-in before anybody has named it."""

    tasks: tuple[str, ...] = ()
    """Names of a dataset's tasks."""


def of(room: Room, name: str) -> Declared:
    """What a plug-in declares. One of an installed package is imported in a process of its own,
    once for each version of it; one that is built in or given by path, here.

    BadSetting: it cannot be imported, or ends its process.
    """
    point = room.installed(name)
    if point is None:
        return _of_module(room.get(name))
    file = _file(point)
    if (kept := _kept(file)) is not None:
        return kept
    said = _answer(room, point)
    if "reason" in said:
        raise BadSetting(said["reason"])
    if file is not None:
        with suppress(WriteError):  # it is asked again
            seal(file, said)
    return Declared(tuple(said["tasks"]))


def _answer(room: Room, point: EntryPoint) -> dict[str, Any]:
    if reason := _LATE.get(point):
        return {"reason": reason}
    try:
        return processes.ask(__name__, [room.package, point.name], SECONDS)
    except processes.DiedError as died:
        reason = (
            f"{room.kind} {point.name!r} ({point.value}) cannot be imported: {died}; repair or "
            f"uninstall its package"
        )
        if isinstance(died, processes.LateError):
            _LATE[point] = reason
            print(f"ecgbench: {reason}", file=sys.stderr)  # why this command took a minute
        return {"reason": reason}


def _of_module(module: ModuleType) -> Declared:
    card = getattr(module, "CARD", None)  # an adapter has none
    return Declared(tuple(task.name for task in getattr(card, "tasks", ())))


def _file(point: EntryPoint) -> Path | None:
    """Where an answer is kept; None for a package that may change without a new version."""
    about = point.dist
    if about is None or '"editable": true' in (about.read_text("direct_url.json") or ""):
        return None
    # of one name and version there may be another in another environment
    where = (about.name, about.version, str(about.locate_file("")), point.group, point.name)
    words = json.dumps([*where, point.value, ecgbench.__version__])
    key = hashlib.sha256(words.encode()).hexdigest()[:32]
    return Path(platformdirs.user_cache_dir("ecgbench")) / "declared" / f"{key}.sealed"


def _kept(file: Path | None) -> Declared | None:
    """What was kept; None where nothing was, or something else than was written."""
    said = unsealed(file) if file is not None else None
    return None if said is None else Declared(tuple(said["tasks"]))


def work(arguments: Sequence[str]) -> dict[str, Any]:
    """In the child: PACKAGE NAME; what the plug-in declares, or `error` and `reason`."""
    package, name = arguments
    room: Room = importlib.import_module(package).ROOM
    try:
        return {"tasks": list(_of_module(room.get(name)).tasks)}
    except EcgbenchError as error:
        # whole: `answer` would shorten it
        return {"error": type(error).__name__, "reason": str(error)}


if __name__ == "__main__":
    processes.answer(work)
