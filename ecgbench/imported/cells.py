"""Tables that people write, in Excel or by hand, as rows of text: whatever the separator, the
encoding and the quoting.
"""

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from ecgbench.errors import MissingData
from ecgbench.files import decoded
from ecgbench.stats.known import UNKNOWN

SEPARATORS = ",;\t"
VALUES = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "0,0": 0, "1,0": 1, "false": 0, "true": 1}
"""What a cell of a label may say, in small letters."""


@dataclass(frozen=True)
class Sheet:
    """A table as it was written."""

    file: Path
    rows: pd.DataFrame
    """Every value a str without blanks around it."""
    lines: tuple[int, ...]
    """Of the file, for each row."""

    def place(self, row: int) -> str:
        """Where a row stands, for messages: "labels.csv, line 7"."""
        return f"{self.file.name}, line {self.lines[row]}"


def read(file: Path) -> Sheet:
    """The table in a file whose first line names the columns; MissingData in one line where it is
    none.
    """
    try:
        content = file.read_bytes()
    except OSError as error:
        raise MissingData(f"{file} cannot be read ({error.strerror})") from None
    if content.startswith(b"PK"):
        raise MissingData(f"{file} is an Excel workbook; save its sheet as CSV and give that file")
    try:
        named, separator, body = _opened(decoded(content))
        rows, lines = _rows(named, body, separator, file)
    except (csv.Error, UnicodeError) as error:
        raise MissingData(f"{file} is not a table of text ({error})") from None
    if not rows:
        raise MissingData(f"{file} has no rows below its line of names")
    table = pd.DataFrame(rows, columns=named, dtype="str")
    spare = [not name and (table.iloc[:, i] == "").all() for i, name in enumerate(named)]
    table = table.loc[:, [not one for one in spare]]
    names = [str(name) for name in table.columns]
    if odd := [name for name in names if not name or not name.isprintable()]:
        raise MissingData(f"{file} has a column with values and without a name ({odd[0]!r})")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise MissingData(f"{file} has two columns called {twice[0]!r}; rename one")
    return Sheet(file, table, tuple(lines))


def hot(column: Iterable[str]) -> list[int | None]:
    """1, 0 or UNKNOWN for each cell; None for a cell that says something else."""
    return [UNKNOWN if cell == "" else VALUES.get(cell.lower()) for cell in column]


def _opened(text: str) -> tuple[list[str], str, list[tuple[int, str]]]:
    """The names of the columns, what separates them, and the other lines with their numbers."""
    lines = list(enumerate(text.splitlines(keepends=True), 1))
    while lines and (not lines[0][1].strip() or lines[0][1].lower().startswith("sep=")):
        lines = lines[1:]
    if not lines:
        return [], ",", []
    first = lines[0][1]
    separator = max(SEPARATORS, key=first.count)
    named = next(csv.reader([first], delimiter=separator, skipinitialspace=True))
    return [name.strip() for name in named], separator, lines[1:]


def _rows(
    named: list[str], body: list[tuple[int, str]], separator: str, file: Path
) -> tuple[list[list[str]], list[int]]:
    rows, numbers = [], []
    reader = csv.reader(
        (line for _, line in body), delimiter=separator, skipinitialspace=True, strict=True
    )
    begun = 0
    for cells in reader:
        number, begun = body[begun][0], reader.line_num
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(named):
            raise MissingData(
                f"{file.name}, line {number}: {len(cells)} values for {len(named)} columns; put a "
                f"value that holds {separator!r} in double quotes"
            )
        rows.append([cell.strip() for cell in cells])
        numbers.append(number)
    return rows, numbers
