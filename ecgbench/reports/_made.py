"""Whether a report is what it would be if it were made again: what it was made from lies beside
it.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ecgbench.core import provenance
from ecgbench.core.files import put_proved, read_proved, sha256_of
from ecgbench.core.keys import key

NOTE = "made_from.json"
REPORT = (NOTE, "index.html")
"""A folder that holds one of these is a report."""
_NOT_READ = ("locks", "logs", "receipts", "__pycache__")
"""Folders that no report reads."""


def made_from(folder: Path, asked: Mapping[str, Any] = {}, others: Sequence[Path] = ()) -> str:
    """sha256 (hex) of all that a report of a folder rests on: names, sizes and times of its files
    and of `others` (files and folders), what was asked, and the code. To be computed before the
    folder is read.
    """
    code = [provenance.files(), provenance.versions(), sys.version]
    files = [_files(place) for place in (folder, *others)]
    return key({"files": files, "asked": dict(asked), "code": code})


def note(folder: Path, made_from: str, files: Sequence[Path]) -> None:
    """Keep what the report in a folder was made from, and what its files are."""
    hashes = {file.name: sha256_of(file) for file in files}
    put_proved(folder / NOTE, {"made_from": made_from, "files": hashes})


def up_to_date(folder: Path, made_from: str) -> bool:
    """Whether the report in a folder was made from this, and its files are as they were written."""
    known = read_proved(folder / NOTE) or {}
    files = known.get("files", {})
    return known.get("made_from") == made_from and files == {
        name: sha256_of(folder / name) for name in files
    }


def _files(place: Path) -> list[tuple[str, int, int]]:
    """Name, size and time of a file, or of all below a folder, but of reports; linked folders are
    followed, each once.
    """
    found = [place] if place.is_file() else []
    met = {os.path.realpath(place)}
    for at, folders, names in os.walk(place, followlinks=True):
        inner = [name for name in folders if name not in _NOT_READ]
        inner = [n for n in inner if not any(Path(at, n, own).exists() for own in REPORT)]
        folders[:] = [n for n in inner if os.path.realpath(Path(at, n)) not in met]
        met |= {os.path.realpath(Path(at, name)) for name in folders}
        found += [Path(at, name) for name in names]
    made = []
    for file in sorted(found):
        with suppress(FileNotFoundError):  # another process removed it
            known = file.stat()
            made.append((os.path.relpath(file, place), known.st_size, known.st_mtime_ns))
    return made
