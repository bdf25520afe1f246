"""Complete folders: a finished cell or fit appears by one rename, with `DONE`, which holds the hash
of each of its files.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ecgbench.core.files import (
    DAMAGED,
    OUTDATED,
    Content,
    as_json,
    content_of,
    making,
    move,
    put_into,
    quarantine,
    sha256_of,
)
from ecgbench.errors import Damaged

if TYPE_CHECKING:
    import pyarrow

DONE = "DONE"


def finished(folder: Path) -> bool:
    """Whether a folder of the store exists: only complete ones get their name."""
    return os.path.exists(f"{folder}/{DONE}")  # of ten thousand cells; pathlib takes three times


def below(run: Path, part: str, levels: int) -> list[str]:
    """Folders so many levels below a part of a run, each as PART/NAME/NAME...; without hidden,
    unfinished and quarantined ones. Only names are read.
    """
    found = [part]
    for _ in range(levels):
        found = [f"{folder}/{name}" for folder in found for name in _names(f"{run}/{folder}")]
    return found


def _names(folder: str) -> list[str]:
    with suppress(FileNotFoundError, NotADirectoryError):
        names = os.listdir(folder)
        return [n for n in names if not n.startswith(".") and not n.endswith((DAMAGED, OUTDATED))]
    return []


def intact(folder: Path) -> bool:
    """Whether the files of a folder have the hashes in DONE."""
    with suppress(Damaged):
        demand_intact(folder)
        return True
    return False


def demand_intact(
    folder: Path,
    but: Callable[[str], bool] = lambda name: False,
    hashes: Mapping[str, str] | None = None,
) -> None:
    """Compare every file of a finished folder with its hash; Damaged names the first wrong or
    missing one. Added files have no hash and are never read.

    but: whether to skip a file. hashes: content of DONE, if it was read already.
    """
    for name, sha256 in (hashes or recorded(folder)).items():
        if not but(name) and sha256_of(f"{folder}/{name}") != sha256:
            raise damaged(folder / name, folder)


def publish(folder: Path, content: Mapping[str, Content]) -> bool:
    """Write a complete folder and rename it. False if an intact one exists: then the new one is
    discarded. A damaged one is quarantined.
    """
    with making(folder) as unfinished:
        hashes = {
            name: sha256_of(put_into(unfinished, name, data)) for name, data in content.items()
        }
        put_into(unfinished, DONE, as_json(hashes))
        while not move(unfinished, folder):
            if intact(folder):
                return False
            quarantine(folder)
    return True


def document(file: Path) -> dict[str, Any]:
    """Content of a JSON file of a run; Damaged where it is missing or not valid."""
    found = _parsed(_content(str(file)))
    if found is None:
        raise damaged(file)
    return found


def _parsed(content: bytes) -> dict[str, Any] | None:
    """An object of JSON; None where it is none."""
    with suppress(ValueError, RecursionError):
        found = json.loads(content)
        if isinstance(found, dict):
            return found
    return None


def _content(file: str) -> bytes:
    """Of a file, which is empty where there is none. Tens of thousands are read when a run is
    opened: a Path for each would take as long as reading it.
    """
    with suppress(FileNotFoundError, IsADirectoryError):
        return content_of(file)
    return b""


def damaged(file: Path, folder: Path | None = None, what: str = "") -> Damaged:
    """The error of a damaged file. folder: the finished folder that it belongs to, which a run
    computes again. what: the fault, where the hash is right.
    """
    again = f"sets {folder} aside and computes it again" if folder else "does without it"
    remedy = "the same `ecgbench run` command" if folder else f"remove {file} and the same command"
    return Damaged(f"{file} {what or 'is not what the run wrote'}; {remedy} {again}")


def read_json(folder: Path, name: str, hashes: Mapping[str, str] | None = None) -> dict[str, Any]:
    """A JSON file of a finished folder, checked against DONE. hashes: content of DONE, if it was
    read already.
    """
    found = _parsed(read_bytes(folder, name, hashes))
    if found is None:
        raise damaged(folder / name, folder)
    return found


def read_table(folder: Path, name: str) -> "pyarrow.Table":
    """A parquet file of a finished folder, checked against DONE."""
    import pyarrow  # a listing reads no table
    from pyarrow import parquet

    content = pyarrow.BufferReader(read_bytes(folder, name))
    try:
        # one thread, as processes are copied
        return parquet.ParquetFile(content).read(use_threads=False)
    except (OSError, ValueError, KeyError) as error:  # its hash fits, and it is no table
        raise damaged(folder / name, folder) from error


def read_bytes(folder: Path, name: str, hashes: Mapping[str, str] | None = None) -> bytes:
    """A file of a finished folder; Damaged where it is missing or has a wrong hash."""
    data = _content(f"{folder}/{name}")
    if hashlib.sha256(data).hexdigest() != (hashes or recorded(folder)).get(name):
        raise damaged(folder / name, folder)
    return data


def recorded(folder: Path) -> dict[str, str]:
    """File -> its hash in DONE; Damaged where DONE is not valid."""
    found = _parsed(_content(f"{folder}/{DONE}"))
    if not found or not all(isinstance(sha256, str) and sha256 for sha256 in found.values()):
        raise damaged(folder / DONE, folder)
    return found
