"""Files that are there whole or not at all: a temporary name in the same folder, fsync, rename."""

import io
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

PASSING = ".tmp"
"""Suffix of files that are being written; what a kill leaves behind is removed at the next start."""
_OURS = re.compile(r"\..+\.\d+\.tmp")
"""Names that `put` gives; a folder may hold other people's temporary files."""


def put(path: Path, content: bytes | str) -> Path:
    """Write a file durably and atomically; text is UTF-8 with the line ends it has. Returns the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    passing = path.with_name(f".{path.name}.{os.getpid()}{PASSING}")
    try:
        with passing.open("wb") as out:
            out.write(content.encode() if isinstance(content, str) else content)
            out.flush()
            os.fsync(out.fileno())
        os.replace(passing, path)
    finally:
        passing.unlink(missing_ok=True)
    return path


def sweep(folder: Path) -> None:
    """Remove what dead writers left behind below `folder`; only where no other process writes."""
    for left in folder.rglob(f".*{PASSING}"):
        if _OURS.fullmatch(left.name):
            left.unlink(missing_ok=True)


def as_json(value: Any) -> str:
    """Readable JSON with sorted keys; NaN is an error, a missing number is null."""
    return json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n"


def as_npy(array: np.ndarray) -> bytes:
    """An array in numpy's own format, without pickle."""
    out = io.BytesIO()
    np.save(out, array, allow_pickle=False)
    return out.getvalue()


def as_parquet(table: pd.DataFrame) -> bytes:
    """A table as parquet, without its index."""
    out = io.BytesIO()
    table.to_parquet(out, index=False)
    return out.getvalue()


def lines(rows: Iterable[Iterable[object]]) -> str:
    """Comma-separated lines for small logs."""
    return "".join(",".join(str(v) for v in row) + "\n" for row in rows)
