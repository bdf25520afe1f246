"""Ways to damage any file. Each takes its path; those that need another file take one of the same
kind where there is one.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.soak.place import Place

Damage = Callable[[Path, Path | None], None]


def _flip(share: float) -> Damage:
    def flip(file: Path, other: Path | None) -> None:
        data = bytearray(file.read_bytes())
        data[min(int(share * len(data)), len(data) - 1)] ^= 1 << 4
        file.write_bytes(data)

    return flip


def _truncate(share: float) -> Damage:
    def truncate(file: Path, other: Path | None) -> None:
        os.truncate(file, min(int(share * file.stat().st_size), file.stat().st_size - 1))

    return truncate


def _zeros(file: Path, other: Path | None) -> None:
    file.write_bytes(b"\0" * file.stat().st_size)


def _append(file: Path, other: Path | None) -> None:
    with file.open("ab") as out:
        out.write(b"\0" * 64)


def _folder(file: Path, other: Path | None) -> None:
    file.unlink()
    file.mkdir()


def _copied(file: Path, other: Path | None) -> None:
    assert other is not None
    shutil.copyfile(other, file)


def _swapped(file: Path, other: Path | None) -> None:
    assert other is not None
    mine, theirs = file.read_bytes(), other.read_bytes()
    file.write_bytes(theirs)
    other.write_bytes(mine)


ALONE: dict[str, Damage] = {
    "bit flipped at the start": _flip(0),
    "bit flipped in the middle": _flip(0.5),
    "bit flipped at the end": _flip(1),
    "cut in half": _truncate(0.5),
    "last byte cut": _truncate(1),
    "empty": _truncate(0),
    "zeros": _zeros,
    "bytes appended": _append,
    "removed": lambda file, other: file.unlink(),
    "a folder in its place": _folder,
}
PAIRED: dict[str, Damage] = {
    "copied from another": _copied,
    "swapped with another": _swapped,
}
EMPTY = ("removed", "a folder in its place")
"""Of ALONE, those that an empty file can suffer."""


def harm(how: str, place: Place, file: Path, other: Path | None = None) -> None:
    """Damages a file of a study."""
    {**ALONE, **PAIRED}[how](file, other)
    place.harmed += [file, *([other] if other and how in PAIRED else [])]
