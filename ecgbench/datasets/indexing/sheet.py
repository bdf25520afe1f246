"""Users' tables, of Excel or of text with any separator, encoding and quoting, as rows of text."""

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from ecgbench.core.files import decoded
from ecgbench.datasets.indexing.tables import alike, is_workbook, workbook
from ecgbench.errors import MissingData
from ecgbench.stats.known import UNKNOWN

SEPARATORS = ",;\t"
PAIRS = {"1": "0", "true": "false", "yes": "no"}
"""Words of a cell that mean 1, and their opposites that mean 0."""
UNKNOWN_WORDS = frozenset({"", "nan", "na", "n/a", "<na>", "null", "unknown"})
"""Cells of unknown values, as `plain` spells them."""


@dataclass(frozen=True)
class Sheet:
    """A table as text."""

    file: Path
    rows: pd.DataFrame
    """Every value a str, as `stripped` spells it; so are the unique names of the columns. Indexed
    by the line of the file on which a row begins.
    """

    def at(self, line: object) -> str:
        """File and line of a row, for messages: "labels.csv, line 7"."""
        return f"{self.file.name}, line {line}"


def read(file: Path) -> Sheet:
    """The table in a file whose first line names the columns; MissingData in one line where it is
    none. Of a workbook the first sheet.
    """
    try:
        content = file.read_bytes()
    except OSError as error:
        raise MissingData(f"{file} cannot be read ({error.strerror})") from None
    try:
        lines = dict(_rows(content) if is_workbook(content) else _lines(decoded(content)))
    except (csv.Error, ValueError) as error:
        raise MissingData(f"{file} is not a table of text ({error})") from None
    names = lines.pop(min(lines)) if lines else []
    if not lines:
        raise MissingData(f"{file} has no rows below its line of names")
    for line, cells in lines.items():
        if len(cells) != len(names):
            raise MissingData(
                f"{file.name}, line {line}: {len(cells)} values for the {len(names)} columns that "
                f"its first line names; put a value that holds a separator in double quotes"
            )
    table = pd.DataFrame([*lines.values()], [*lines], names, dtype="str")
    counter = [str(i) for i in range(len(table))]  # the index of pandas
    used = [
        bool(n) or [*table.iloc[:, i]] not in ([""] * len(table), counter)
        for i, n in enumerate(names)
    ]
    table = table.loc[:, used]
    first: dict[str, str] = {}
    for name in map(str, table):
        if not name.isprintable() or not name:
            raise MissingData(
                f"{file} has a column with values and without a name ({name!r}); its first line "
                f"that is not empty must name the columns: take out what stands above it"
            )
        if plain(name) in first:
            raise MissingData(
                f"{file} has the columns {first[plain(name)]!r} and {name!r}; rename one"
            )
        first[plain(name)] = name
    return Sheet(file, table)


def _rows(content: bytes) -> Iterator[tuple[int, list[str]]]:
    """The number of each row of a workbook that holds something, and its cells."""
    for line, values in enumerate(workbook(io.BytesIO(content)).to_numpy().tolist(), 1):
        if any(cells := [*map(stripped, values)]):
            yield line, cells


def _lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """The number of each line that holds something, and its cells."""
    head = next((s for s in io.StringIO(text) if s.strip()), "")
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=max(SEPARATORS, key=head.count),
        skipinitialspace=True,
        strict=True,
    )
    begin = 1
    for values in reader:
        cells = [*map(stripped, values)]
        if any(cells):
            yield begin, cells
        begin = reader.line_num + 1


def stripped(text: str) -> str:
    r"""A text without characters that have no width, blanks around it, and the ="" by which a
    table keeps Excel from changing a number.

    >>> stripped(" A12\u200b "), stripped('="007"')
    ('A12', '007')
    """
    visible = "".join(c for c in text if unicodedata.category(c) != "Cf").strip()
    return re.sub(r'^="(.*)"$', r"\1", visible)


def plain(text: str) -> str:
    """A word without differences of case, blanks, quotes and width of letters.

    >>> plain(" 'ＡＦ' "), plain("1,0")
    ('af', '1')
    """
    return re.sub(r"^([01])[.,]0+$", r"\1", alike(text))


def squeezed(name: str) -> str:
    """A column's name without case and gaps.

    >>> squeezed("Patient ID") == squeezed("patient_id") == squeezed("PatientId")
    True
    """
    return re.sub(r"[\W_]+", "", plain(name))


def hot(column: Iterable[str]) -> list[int | None]:
    """1, 0 or UNKNOWN for each cell; None for any other cell. Yes and no are understood where the
    column has both.

    >>> hot(["yes", "NO", "NaN", "maybe"]), hot(["yes", ""]), hot(["1", ""])
    ([1, 0, -1, None], [None, -1], [1, -1])
    """
    words = [plain(cell) for cell in column]
    values = dict.fromkeys(UNKNOWN_WORDS, UNKNOWN)
    for yes, no in PAIRS.items():
        if yes in ("1", "true") or {yes, no} <= {*words}:
            values |= {yes: 1, no: 0}
    return [values.get(word) for word in words]
