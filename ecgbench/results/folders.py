"""Complete folders: a finished cell or fit appears by one rename, with `DONE`, which holds the hash
of each of its files.
"""

import hashlib
import io
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd

from ecgbench.errors import BadSetting
from ecgbench.files import Content, as_json, making, move, put, writing

DONE = "DONE"
DAMAGED = ".damaged"
"""Prefix of the new name of a folder whose files were not what its DONE says, when another was
finished in its place.
"""


def finished(folder: Path) -> bool:
    """Whether a folder of the store is there: only complete ones get their name."""
    return (folder / DONE).exists()


def intact(folder: Path) -> bool:
    """Whether the files of a folder are what its DONE says."""
    with suppress(OSError, BadSetting):
        hashes = document(folder / DONE)
        return all(_sha256(folder / name) == sha256 for name, sha256 in hashes.items())
    return False


def publish(folder: Path, content: Mapping[str, Content]) -> bool:
    """Write a complete folder and give it its name. False where an intact one has it: then ours is
    discarded.
    """
    with making(folder) as unfinished:
        hashes = {name: _sha256(put(unfinished / name, data)) for name, data in content.items()}
        put(unfinished / DONE, as_json(hashes))
        while not move(unfinished, folder):
            if intact(folder):
                return False
            with writing(folder), suppress(FileNotFoundError):  # another process was faster
                os.rename(folder, folder.with_name(f"{DAMAGED}-{folder.name}-{time.time_ns()}"))
    return True


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def document(file: Path, data: bytes | None = None, remove: Path | None = None) -> dict[str, Any]:
    """What a JSON file of a run says; BadSetting where it is gone or is not what a run wrote.

    data: its content, where it was read already. remove: what must go, where it is more than the
    file.
    """
    with suppress(FileNotFoundError, ValueError, RecursionError):
        content = json.loads(file.read_bytes() if data is None else data)
        if isinstance(content, dict):
            return content
    raise _damaged(file, remove or file)


def _damaged(file: Path, remove: Path) -> BadSetting:
    return BadSetting(
        f"{file} is not what the run wrote; remove {remove} and run the same command again"
    )


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """A JSON file of a finished folder, checked against DONE."""
    return document(folder / name, read_bytes(folder, name), folder)


def read_table(folder: Path, name: str) -> pd.DataFrame:
    """A parquet file of a finished folder, checked against DONE."""
    return pd.read_parquet(io.BytesIO(read_bytes(folder, name)))


def read_bytes(folder: Path, name: str) -> bytes:
    """A file of a finished folder; BadSetting where it is gone or is not what DONE says."""
    data = (folder / name).read_bytes() if (folder / name).is_file() else b""
    if hashlib.sha256(data).hexdigest() != document(folder / DONE, remove=folder).get(name):
        raise _damaged(folder / name, folder)
    return data
