"""Who the records of a run are of, as the run keeps it: age, sex, device, site, pacing.

    <run>/people/<dataset>.parquet     a row per used record; see COLUMNS

It is written when a run begins, so that the same `ecgbench run` command adds it to a run of an
earlier version without computing anything.
"""

from pathlib import Path

import pandas as pd

from ecgbench.errors import BadSetting
from ecgbench.files import as_parquet, put
from ecgbench.room import folder_name

COLUMNS = ("record", "patient", "age", "sex", "device", "site", "paced")
"""record, patient, age (years, float64; NaN: unknown), sex ("female", "male"), device, site, paced
("yes", "no"); "" where it is unknown.
"""


def keep(run: Path, dataset: str, table: pd.DataFrame) -> None:
    """Write the rows of a dataset; WriteError."""
    file, content = _file(run, dataset), as_parquet(table[list(COLUMNS)])
    if not file.is_file() or file.read_bytes() != content:
        put(file, content)


def people(run: Path, dataset: str) -> pd.DataFrame:
    """The rows of a dataset; none where the run keeps none. BadSetting: the file is damaged."""
    file = _file(run, dataset)
    if not file.is_file():
        return pd.DataFrame(columns=list(COLUMNS))
    try:
        return pd.read_parquet(file, columns=list(COLUMNS))
    except (OSError, ValueError, KeyError) as error:
        raise BadSetting(
            f"{file} is not what the run wrote ({type(error).__name__}); remove it and run the "
            f"same ecgbench run command again"
        ) from error


def _file(run: Path, dataset: str) -> Path:
    return run / "people" / f"{folder_name(dataset)}.parquet"
