"""What the columns of the CSV files of a run are. columns.csv says it, a row for each: reports take
their headings from it, and docs/reference/columns.md prints it.
"""

import csv
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import NamedTuple


class Meaning(NamedTuple):
    """A row of columns.csv."""

    column: str
    """Its name; * stands for any letters, as in `*_low`."""
    file: str
    """The CSV files, without .csv, in which it means this, * likewise; "": all others."""
    heading: str
    """For readers; "" where no table prints it."""
    unit: str
    meaning: str


@cache
def dictionary() -> list[Meaning]:
    """Every row; where several fit a column, the first holds: names before families of names, the
    longest name of a file before others.
    """
    text = (files("ecgbench.results") / "columns.csv").read_text(encoding="utf-8")
    rows = [Meaning(*row) for row in csv.reader(text.splitlines()[1:])]
    return sorted(rows, key=lambda row: ("*" in row.column, -len(row.file)))


@cache
def meaning(column: str, file: str) -> Meaning | None:
    """Of a column of a CSV file (without .csv); None of one that is in no row."""
    for row in dictionary():
        if fnmatchcase(column, row.column) and fnmatchcase(file, row.file or "*"):
            return row
    return None
