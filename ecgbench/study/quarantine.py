"""What was found damaged in a run: moved out of the way, not removed, so that it is computed again
and can still be looked at.

    <run>/set_aside/<its place in the run>-<n>   the folder or file as it was found
                    why.jsonl                    a line for each: its place, where it is now, why
"""

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path

from ecgbench.core.files import append, writing
from ecgbench.study.index import Index

FOLDER = "set_aside"
_WHY = "why.jsonl"


@dataclass(frozen=True, kw_only=True)
class Moved:
    """Something that was set aside; places are relative to the run."""

    place: str
    """Where it was."""
    now: str
    why: str


def set_aside(run: Path, path: Path, why: str) -> Moved | None:
    """Move a folder or file of a run to its `set_aside`; None where it is gone already, for another
    process was faster. WriteError.
    """
    place = path.relative_to(run)
    home = (run / FOLDER / place).parent
    with writing(home):
        home.mkdir(parents=True, exist_ok=True)
    there = next(to for n in count(1) if not (to := home / f"{path.name}-{n}").exists())
    try:
        with writing(there, but=FileNotFoundError):
            os.rename(path, there)
    except FileNotFoundError:
        return None
    moved = Moved(place=place.as_posix(), now=there.relative_to(run).as_posix(), why=why)
    append(run / FOLDER / _WHY, [json.dumps(asdict(moved))])
    if place.parts[0] == "cells":
        Index(run).add_gone([path.name])
    return moved


def listed(run: Path) -> list[Moved]:
    """What was set aside and is still there, the first first."""
    file, found = run / FOLDER / _WHY, []
    for line in file.read_bytes().splitlines() if file.exists() else ():
        with suppress(ValueError, TypeError, RecursionError):  # a writer died on it
            found.append(Moved(**{name: str(value) for name, value in json.loads(line).items()}))
    return [moved for moved in found if (run / moved.now).exists()]
