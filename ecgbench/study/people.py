"""Who the records of a run are of, as the run keeps it: age, sex, device, site, pacing.

    <run>/people/<dataset>.parquet     a row per used record; see COLUMNS
                 <dataset>.sha256      its hash

They are written when a run begins. A table without its hash, or that is not what was hashed, counts
as none; the same `ecgbench run` command writes it again without computing anything.
"""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from ecgbench.core.files import as_parquet, content_of, put, quarantine, sha256_of
from ecgbench.core.registry import folder_name

COLUMNS = ("record", "patient", "age", "sex", "device", "site", "paced", "noted")
"""record, patient, age (years, float64; NaN: unknown), sex ("female", "male"), device, site, paced
and noted (whether a technician noted bad quality; "yes", "no"); "" where it is unknown.
"""


def keep(run: Path, dataset: str, table: pd.DataFrame) -> None:
    """Write the rows of a dataset; a table with a wrong hash is quarantined."""
    file, content = _file(run, dataset), as_parquet(table[list(COLUMNS)])
    if is_damaged(file):
        quarantine(file)
    if not is_known(run, dataset) or content_of(file) != content:
        _hash(file).unlink(missing_ok=True)  # who is killed between the two leaves no false hash
        put(file, content)
        put(_hash(file), sha256_of(file))


def people(run: Path, dataset: str) -> pd.DataFrame:
    """The rows of a dataset; none where the run has no intact table."""
    if not is_known(run, dataset):
        return pd.DataFrame(columns=list(COLUMNS))
    known = pd.read_parquet(_file(run, dataset))
    return known.reindex(columns=list(COLUMNS), fill_value="")  # a run may be older than a column


def is_known(run: Path, dataset: str) -> bool:
    """Whether the run has an intact table of a dataset."""
    file = _file(run, dataset)
    return file.is_file() and _hash(file).is_file() and not is_damaged(file)


def faults(run: Path) -> Iterator[str]:
    """Damaged tables, one sentence each."""
    for file in filter(is_damaged, sorted((run / "people").glob("[!.]*.parquet"))):
        yield (
            f"{file} is not what the run wrote, so that nothing is said of age, sex, device "
            f"and site; the same `ecgbench run` command writes it again"
        )


def is_damaged(file: Path) -> bool:
    """Whether a table has a wrong hash."""
    own = _hash(file)
    return file.is_file() and own.is_file() and content_of(own) != sha256_of(file).encode()


def _hash(file: Path) -> Path:
    return file.with_suffix(".sha256")


def _file(run: Path, dataset: str) -> Path:
    return run / "people" / f"{folder_name(dataset)}.parquet"
