"""Tables of a dataset as published, read as text: nothing is taken for a number or a missing value
before someone says what it is.
"""

import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import IO

import numpy as np
import pandas as pd

from ecgbench.core.text import one_line
from ecgbench.errors import BadRecord, MissingData

_WORKBOOKS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")
"""First bytes of .xlsx and .ods, and of .xls."""


def read(file: Path, columns: Sequence[str], url: str, ids: Sequence[str] = ()) -> pd.DataFrame:
    """The table in `file`, every value a str; other columns come too.

    ids: columns that say which record or whose it is. MissingData where it is no table, lacks a
    column, has no rows, or a row that ends before one of `ids` or leaves it blank; `url` is where
    it is published.
    """
    try:
        table = pd.read_csv(file, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    except (OSError, ValueError, UnicodeError) as error:  # pandas' parser errors are ValueErrors
        raise MissingData(
            f"{file} is not a table of values ({error}); download it again from {url}"
        ) from error
    return with_columns(table, columns, file, url, ids)


def is_workbook(content: bytes) -> bool:
    """Whether the first bytes of a file are those of a workbook of a spreadsheet program."""
    return content.startswith(_WORKBOOKS)


def workbook(file: Path | IO[bytes]) -> pd.DataFrame:
    """The first sheet of a workbook, every value a str, rows and columns from the first on;
    ValueError where it is none.
    """
    try:
        return pd.read_excel(
            file, header=None, dtype=str, keep_default_na=False, engine="calamine"
        ).fillna("")
    except Exception as error:  # of the reader's library, which names them in its own way
        raise ValueError(f"no workbook with a table: {one_line(error)}") from None


def of_workbook(file: Path, columns: Sequence[str], url: str) -> pd.DataFrame:
    """`read` of a workbook, whose first row names the columns; empty rows are left out."""
    try:
        cells = workbook(file)
    except ValueError as error:
        raise MissingData(f"{file} is {error}; download it again from {url}") from None
    names = [str(name).strip() for name in (cells.iloc[0] if len(cells) else [])]
    table = cells[1:].set_axis(names, axis=1).loc[:, [bool(name) for name in names]]
    table = table[(table != "").any(axis=1)].reset_index(drop=True)
    return with_columns(table, columns, file, url)


def with_columns(
    table: pd.DataFrame, columns: Sequence[str], file: Path, url: str, ids: Sequence[str] = ()
) -> pd.DataFrame:
    """The table, if it keeps what `read` says."""
    what = "" if len(table) else "has no rows"
    if missing := [c for c in columns if c not in table.columns]:
        what = f"lacks the column {', '.join(missing)}"
    for column in () if what else ids:
        if (blank := table[column].str.strip() == "").any():
            what = f"has no {column} in row {1 + int(blank.to_numpy().argmax())} below its names"
    if what:
        raise MissingData(f"{file} {what}; download it again from {url}")
    return table


FLAGS = {"True": 1, "1": 1, "1.0": 1, "False": 0, "0": 0, "0.0": 0}
"""What a table of flags may say."""


def flags(
    table: pd.DataFrame, record: str, columns: Sequence[str], file: Path, url: str
) -> pd.DataFrame:
    """(record, column) int8, 0 or 1, of `columns` of a table that `read` gave; MissingData where a
    cell is neither, with what the column `record` says there.
    """
    found = table[list(columns)].apply(lambda column: column.map(FLAGS))
    for name in table.loc[found.isna().any(axis=1), record]:
        raise MissingData(
            f"{file}: {record} {name} has a flag that is neither 0 nor 1 (True nor False); "
            f"download it again from {url}"
        )
    return found.astype(np.int8)


def within(root: Path, path: str, record: str) -> Path:
    """The file that a table names, below `root`; BadRecord where the name leads out of it."""
    if not below(path):
        raise BadRecord(f"{record}: its table names the file {path!r}, which is not below {root}")
    return root / PurePosixPath(path)


def below(path: str) -> bool:
    """Whether a name leads to a place below the folder it is looked up in.

    >>> [below(path) for path in ("a/b.csv", "", "/etc/passwd", "a/../../b", "a\\0b")]
    [True, False, False, False, False]
    """
    named = PurePosixPath(path)
    return (
        bool(named.parts) and not named.is_absolute() and not {"..", "\0"} & {*named.parts, *path}
    )


def either(root: Path, index_file: str) -> list[Path]:
    """What there is of `A|B` of a card's index files; B may be a folder where a release has no
    table.
    """
    return [root / name for name in index_file.split("|") if os.path.exists(root / name)]


def first(root: Path, index_file: str) -> Path:
    """The file of `A|B` that is there, else A, whose reader says that it is missing."""
    return (either(root, index_file) or [root / index_file.split("|")[0]])[0]


def alike(patient: object) -> str:
    """An identity without what writers of tables do differently: blanks, quotes, capitals, accents
    as letters of their own, 7.0.

    >>> alike(" 'P07'"), alike(7.0), alike("Jose\\u0301  B.") == alike("JOSÉ B.")
    ('p07', '7', True)
    """
    text = " ".join(unicodedata.normalize("NFKC", str(patient)).split())
    text = unicodedata.normalize("NFKC", text.strip(" '\"").casefold())
    return re.sub(r"^(\d+)\.0+$", r"\1", text)


def person(patient: str) -> str:
    """A patient's name for comparison: without blanks around it, differences of Unicode, and zeros
    in front.

    >>> [person(text) for text in (" 00012", "１２", "P-007", "p7")]
    ['12', '12', 'P-007', 'p7']
    """
    text = " ".join(unicodedata.normalize("NFKC", patient).split())
    return text.lstrip("0") or text[:1]


def one_spelling(patients: Iterable[str]) -> list[str]:
    """Each patient as first spelled, so that each is counted and drawn once.

    >>> one_spelling(["007", "7", "8"])
    ['007', '007', '8']
    """
    first: dict[str, str] = {}
    return [first.setdefault(person(patient), patient) for patient in patients]
