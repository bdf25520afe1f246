"""Tables that people write, in Excel or by hand, as rows of text: whatever the separator, the
encoding and the quoting.
"""

import csv
import io
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from ecgbench.core.files import decoded
from ecgbench.datasets.indexing.tables import alike
from ecgbench.errors import MissingData
from ecgbench.stats.known import UNKNOWN

SEPARATORS = ",;\t"
_PAIRS = """1/0 true/false yes/no y/n t/f pos/neg positive/negative present/absent +/- ja/nein
oui/non"""
PAIRS = dict(pair.split("/") for pair in _PAIRS.split())
"""Words of a cell of a label that mean 1, and those that mean 0."""
_WORDS = """nan na n/a n.a. <na> #n/a #na nat null unknown unkn unk undefined undetermined missing
nd n.d. ? ?? - -- – — . ... #value! #ref! blank empty n.a n.d n/d n/k tbd tba tbc pending unclear
uncertain indeterminate inconclusive unspecified unlabeled unlabelled unbekannt unklar k.a. k.a
inconnu desconocido sconosciuto"""
_NOT = """available known done recorded assessed given determined applicable reported evaluated
tested measured performed specified stated provided documented labeled labelled"""
UNKNOWN_WORDS = frozenset({"", "no data", *_WORDS.split(), *(f"not {w}" for w in _NOT.split())})
"""What a cell says where nobody knows, as `plain` spells it."""
MISSING = re.compile(r"-\d+|9+|88+|77+")
"""Numbers that may stand for a missing value."""


@dataclass(frozen=True)
class Sheet:
    """A table as it was written."""

    file: Path
    rows: pd.DataFrame
    """Every value a str without blanks around it; names of columns as people see them, no two of
    which look alike.
    """
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
        named, rows, lines = _parsed(decoded(content), file)
    except (csv.Error, UnicodeError) as error:
        raise MissingData(f"{file} is not a table of text ({error})") from None
    if not rows:
        raise MissingData(f"{file} has no rows below its line of names")
    table = pd.DataFrame(rows, columns=named, dtype="str")
    spare = [not name and (table.iloc[:, i] == "").all() for i, name in enumerate(named)]
    table = table.loc[:, [not one for one in spare]]
    first: dict[str, str] = {}
    for name in map(str, table):
        if not shown(name).isprintable() or not name:
            raise MissingData(f"{file} has a column with values and without a name ({name!r})")
        if plain(name) in first:
            both = both_of((first[plain(name)], name))
            raise MissingData(f"{file} has the columns {both}; rename one")
        first[plain(name)] = name
    table = table.set_axis([*map(shown, first.values())], axis=1)
    return Sheet(file, table, tuple(lines))


def shown(text: str) -> str:
    r"""A name as people see it: composed letters, single blanks, nothing that has no width.

    >>> shown(" Jose\u0301  B\u200b.")
    'José B.'
    """
    seen = (c for c in unicodedata.normalize("NFC", text) if unicodedata.category(c) != "Cf")
    return " ".join("".join(seen).split())


def plain(text: str) -> str:
    """A word without what writers do differently: case, blanks, quotes, width of letters.

    >>> plain(" 'ＡＦ' "), plain("1,0")
    ('af', '1')
    """
    return re.sub(r"^([01])[.,]0+$", r"\1", alike(shown(text)))


def both_of(words: Iterable[str]) -> str:
    r"""Spellings of one thing, for messages: escaped where people would see no difference.

    >>> both_of(["AF", "af"]), both_of(["\u00e9", "e\u0301"])
    ("'AF' and 'af'", "'\\xe9' and 'e\\u0301'")
    """
    every = [*words]
    write = ascii if len({*map(shown, every)}) < len(every) else repr
    return " and ".join(map(write, every))


def squeezed(name: str) -> str:
    """A column's name without case and gaps.

    >>> squeezed("Patient ID") == squeezed("patient_id") == squeezed("PatientId")
    True
    """
    return re.sub(r"[\W_]+", "", plain(name))


def hot(column: Iterable[str]) -> list[int | None]:
    """1, 0 or UNKNOWN for each cell; None for a cell that says something else. Words such as yes
    and no are understood where the column has both.

    >>> hot(["yes", "NO", "NaN", "maybe"]), hot(["yes", ""]), hot(["1", "-"]), hot(["+", "-"])
    ([1, 0, -1, None], [None, -1], [1, -1], [1, 0])
    """
    words = [plain(cell) for cell in column]
    values = dict.fromkeys(UNKNOWN_WORDS, UNKNOWN)
    for yes, no in PAIRS.items():
        if yes in ("1", "true") or {yes, no} <= {*words}:
            values |= {yes: 1, no: 0}
    return [values.get(word) for word in words]


def _parsed(text: str, file: Path) -> tuple[list[str], list[list[str]], list[int]]:
    """The names of the columns, the rows below and the line of each."""
    source, above = io.StringIO(text, newline=""), 0  # no other character ends a line
    for head in source:
        above += 1
        if head.strip() and not head.lower().startswith("sep="):
            break
    else:
        return [], [], []
    separator = max(SEPARATORS, key=head.count)
    options = {"delimiter": separator, "skipinitialspace": True, "strict": True}
    named = next(csv.reader([head], **options))  # type: ignore[arg-type]
    rows, lines, begun = [], [], 0
    reader = csv.reader(source, **options)  # type: ignore[arg-type]
    for cells in reader:
        number, begun = above + begun + 1, reader.line_num
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(named):
            raise MissingData(
                f"{file.name}, line {number}: {len(cells)} values for {len(named)} columns; put a "
                f"value that holds {separator!r} in double quotes"
            )
        rows.append([cell.strip() for cell in cells])
        lines.append(number)
    return [name.strip() for name in named], rows, lines
