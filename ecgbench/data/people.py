"""Patients and recorders: age, sex, device, site and paced rhythm of the records of a prepared
copy, in the same form for every dataset.

A dataset's index holds the publisher's columns `age` (years), `sex`, `device` and `site` as text;
only this file reads them. Missing or unreadable values are unknown and never guessed.
"""

import numpy as np
import pandas as pd

from ecgbench.data.copy import Copy

OLDEST = 120.0
"""Years; a larger age is a code, and unknown."""
_SEX = {"female": "female", "f": "female", "male": "male", "m": "male"}
_UNKNOWN = ("", "nan", "none", "null", "na", "n/a", "unknown", "-1")
_PACED = (
    "ptbxl_all:PACE",
    "ningbo:PR",
    "georgia:atrial pacing pattern",
    "georgia:ventricular pacing pattern",
    "zzu_corrected:Pacing rhythm",
)
"""Label columns of paced rhythms."""


def people(copy: Copy, index: pd.DataFrame | None = None) -> pd.DataFrame:
    """A row per record of `index`, some rows of `copy.index` or all of them, in their order, with
    the columns of `study.people`.

    age: float64, years; NaN where it is unknown. sex: "female", "male" or "". device, site: as
    published, or "". paced, noted (whether a technician
    noted bad quality): "yes", "no", or "" where nothing says it.
    """
    rows = copy.index if index is None else index
    published = copy.published.set_index("record").loc[rows["record"]]
    return pd.DataFrame(
        {
            "record": published.index.to_numpy(),
            "patient": rows["patient"].to_numpy(),
            "age": ages(_column(published, "age")),
            "sex": sexes(_column(published, "sex")),
            **{name: _texts(_column(published, name)) for name in ("device", "site")},
            "paced": _paced(published),
            "noted": _texts(_column(published, "noted")),
        }
    )


def ages(values: pd.Series) -> np.ndarray:
    """(record,) float64 years; NaN where the text is no age from 0 to 120.

    >>> ages(pd.Series(["63", "57.0", "", "NaN", "-1", "300"])).tolist()
    [63.0, 57.0, nan, nan, nan, nan]
    """
    years = pd.to_numeric(values, errors="coerce").to_numpy(np.float64)
    return np.where((years >= 0) & (years <= OLDEST), years, np.nan)


def sexes(values: pd.Series) -> list[str]:
    """(record,) "female", "male" or "".

    >>> sexes(pd.Series(["FEMALE", " m", "Unknown", "", "F"]))
    ['female', 'male', '', '', 'female']
    """
    return [_SEX.get(str(one).strip().casefold(), "") for one in values]


def _texts(values: pd.Series) -> list[str]:
    words = [" ".join(str(one).split()) for one in values]
    return ["" if word.casefold() in _UNKNOWN else word for word in words]


def _column(published: pd.DataFrame, name: str) -> pd.Series:
    return published.get(name, pd.Series("", index=published.index, dtype=object))


def _paced(published: pd.DataFrame) -> list[str]:
    columns = [name for name in _PACED if name in published]
    if not columns:
        return [""] * len(published)
    return np.where((published[columns] == 1).any(axis=1), "yes", "no").tolist()
