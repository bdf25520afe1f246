"""The index of a dataset, kept where making it takes long: a table of 345,779 lines, or 35,000
headers, and their stratification.

    <prepared>/<dataset>/index-<what it rests on>-<sha256 of the file>.parquet

It rests on the dataset's card and code, on the content of its tables, and on name, size and time of
every file below its folder.
"""

import hashlib
import os
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from types import ModuleType

import pandas as pd

from ecgbench.cards import facts
from ecgbench.datasets import ROOM
from ecgbench.errors import WriteError
from ecgbench.files import as_parquet, put
from ecgbench.indexing.tables import either

LONG = 2.0
"""Seconds from which an index is kept."""


def kept(
    name: str,
    module: ModuleType,
    root: Path | None,
    home: Path,
    make: Callable[[], pd.DataFrame],
) -> pd.DataFrame:
    """What `make` gives, or gave before for the very same files."""
    if root is None:
        return make()
    folder = home / name
    key = _rests_on(name, module, root)[:16]
    for path in folder.glob(f"index-{key}-*.parquet"):
        with suppress(OSError, ValueError):
            content = path.read_bytes()
            if path.stem.rpartition("-")[2] == _sha(content):
                return pd.read_parquet(path)
    started = time.monotonic()
    index = make()
    if time.monotonic() - started > LONG and isinstance(index, pd.DataFrame):
        with suppress(OSError, WriteError):  # it can be made again
            content = as_parquet(index)
            put(folder / f"index-{key}-{_sha(content)}.parquet", lambda out: out.write(content))
            for old in folder.glob("index-*.parquet"):
                if old.name != f"index-{key}-{_sha(content)}.parquet":
                    old.unlink()
    return index


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _rests_on(name: str, module: ModuleType, root: Path) -> str:
    """sha256 of the card, the code that makes the index, and the files that it reads."""
    card, total = module.CARD, hashlib.sha256(repr(facts(module.CARD)).encode())
    package = Path(str(files("ecgbench")))
    total.update((ROOM.source_hash(name) or "").encode())
    code = [Path(str(module.__file__)), package / "vocabulary.py", package / "seeds.py"]
    for own in ("indexing/*.py", "ecg/readers/*.py", "datasets/labels/*.csv"):
        code += sorted(package.glob(own))
    tables = [t for f in card.index_files for t in either(root, f) if t.is_file()]
    for file in [*code, *tables]:
        total.update(hashlib.sha256(file.read_bytes()).digest())
    for folder, _, names in sorted(os.walk(root)):
        states = [(n, *_state(os.path.join(folder, n))) for n in sorted(names)]
        total.update(repr((os.path.relpath(folder, root), states)).encode())
    return total.hexdigest()


def _state(path: str) -> tuple[int, int]:
    stat = os.stat(path)
    return stat.st_size, stat.st_mtime_ns
