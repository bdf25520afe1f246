"""Features of test records, averaged over their windows: stored once, whichever tasks refer to
them.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save

from ecgbench.core.files import put, sha256_of
from ecgbench.errors import MissingData
from ecgbench.results.aside import set_aside


def store_pooled(
    run: Path, folder: Path, records: Sequence[str], features: np.ndarray
) -> dict[str, str]:
    """Write features (record, dim) float32 into `folder` unless they are there; returns what refers
    to them.

    The name of the file is the sha256 of its content.
    """
    content = save({"features": features}, metadata={"records": json.dumps(list(records))})
    sha256 = hashlib.sha256(content).hexdigest()
    file = folder / f"{sha256}.safetensors"
    if file.exists() and sha256_of(file) != sha256:
        set_aside(run, file, "it does not hold the features that it is named by")
    if not file.exists():
        put(file, content)
    return {"path": file.relative_to(run).as_posix(), "sha256": sha256}


def pooled_file(run: Path, reference: dict[str, Any] | None, cell: Path) -> Path:
    """The file that a cell in the folder `cell` refers to. MissingData where none was kept."""
    if not reference or not (file := run / reference["path"]).is_file():
        raise MissingData(f"features of this cell were not kept; {_again(cell)}")
    return file


def read_pooled(
    run: Path, reference: dict[str, Any] | None, cell: Path
) -> tuple[list[str], np.ndarray]:
    """Records and their features (record, dim) float32. MissingData where none were kept, or where
    they are damaged.
    """
    file = pooled_file(run, reference, cell)
    if is_damaged(run, reference):
        raise MissingData(
            f"{file} is not what the run wrote; the same `ecgbench run` command computes it again"
        )
    with safe_open(file, framework="numpy") as opened:
        return json.loads(opened.metadata()["records"]), opened.get_tensor("features")


def is_damaged(run: Path, reference: dict[str, Any] | None) -> bool:
    """Whether the file that a cell refers to is there and holds something else; that it was not
    kept, or was removed to free disk, is no damage.
    """
    if not reference:
        return False
    return sha256_of(run / reference["path"]) not in ("", reference["sha256"])


def _again(cell: Path) -> str:
    return f"remove {cell} and run the same command again, without run.keep_features=off"
