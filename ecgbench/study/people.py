"""Who the records of a run are of, as the run keeps it: age, sex, device, site, pacing.

    <run>/people/<dataset>.parquet     a row per used record; see COLUMNS
                 <dataset>.sha256      its hash

They are written when a run begins, so that the same `ecgbench run` command adds them to a run of an
earlier version without computing anything. A table without its hash, or that is not what was
hashed, counts as none.
"""

import hashlib
import io
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from ecgbench.core.files import as_parquet, put, sha256_of
from ecgbench.core.registry import folder_name
from ecgbench.study.quarantine import set_aside

COLUMNS = ("record", "patient", "age", "sex", "device", "site", "paced")
"""record, patient, age (years, float64; NaN: unknown), sex ("female", "male"), device, site, paced
("yes", "no"); "" where it is unknown.
"""
HASH = ".sha256"
"""Suffix of the file beside a table."""


def keep(run: Path, dataset: str, table: pd.DataFrame) -> None:
    """Write the rows of a dataset; a table that is not what was hashed is set aside. WriteError."""
    file, content = _file(run, dataset), as_parquet(table[list(COLUMNS)])
    if is_damaged(file):
        set_aside(run, file, "it is not what the run wrote")
    if not file.is_file() or file.read_bytes() != content:
        _hash(file).unlink(missing_ok=True)  # who is killed between the two leaves no false hash
        put(file, content)
    if _recorded(file) != _sha256(content).encode():
        put(_hash(file), _sha256(content))


def people(run: Path, dataset: str) -> pd.DataFrame:
    """The rows of a dataset; none where the run keeps none that can be believed."""
    file = _file(run, dataset)
    content = file.read_bytes() if file.is_file() else b""
    if _sha256(content).encode() != _recorded(file):
        return pd.DataFrame(columns=list(COLUMNS))
    return pd.read_parquet(io.BytesIO(content), columns=list(COLUMNS))


def is_known(run: Path, dataset: str) -> bool:
    """Whether the run keeps a table of a dataset that can be believed."""
    file = _file(run, dataset)
    return file.is_file() and _recorded(file) == sha256_of(file).encode()


def faults(run: Path) -> Iterator[str]:
    """Tables that are not what was hashed, one sentence each."""
    for file in sorted((run / "people").glob("[!.]*.parquet")):
        if is_damaged(file):
            yield (
                f"{file} is not what the run wrote, so that nothing is said of age, sex, device "
                f"and site; the same `ecgbench run` command writes it again"
            )


def is_damaged(file: Path) -> bool:
    """Whether a table is there with a hash that is another."""
    return file.is_file() and _recorded(file) not in (b"", _sha256(file.read_bytes()).encode())


def _recorded(file: Path) -> bytes:
    own = _hash(file)
    return own.read_bytes() if own.is_file() else b""


def _hash(file: Path) -> Path:
    return file.with_suffix(HASH)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _file(run: Path, dataset: str) -> Path:
    return run / "people" / f"{folder_name(dataset)}.parquet"
