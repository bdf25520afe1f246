"""What a report says of itself and what it returns: sections of text, tables and figures, which
`write` turns into files.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import pandas as pd

from ecgbench.cards.rooms import ReportCard as ReportCard
from ecgbench.errors import BadSetting
from ecgbench.results.columns import meaning

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Sheet

Format = Literal["csv", "md", "tex", "html"]
Row = Mapping[str, Any]
SIGNS = {
    "†": "evaluation only: the labels are columns of another task's predictions",
    "‡": "untrained: a frozen encoder with random weights; not ranked and not tested",
}
"""Signs that stand behind a name in many tables, and what they mean."""
_COUNTS = (
    *("n_records", "n_patients", "n_labels", "n_undefined", "n_distinct", "fewest_positives"),
    *("n", "positives", "seed", "fit_seed", "excluded", "lost"),
)
"""Columns that count; pandas makes them float where a row has none."""


@dataclass(frozen=True)
class Code:
    """Text in the letters of a machine: digests, commands."""

    kind: ClassVar = "code"
    text: str


@dataclass(frozen=True)
class Link:
    """Text that leads to an address."""

    kind: ClassVar = "link"
    text: str
    address: str


@dataclass(frozen=True)
class TableCell:
    """Text of a table with a raised sign behind it (a sign of Table.marks) and small print."""

    kind: ClassVar = "cell"
    text: str
    mark: str = ""
    small: str = ""
    tone: Literal["", "good", "bad", "open"] = ""
    """How the page colours it."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """A score of a table, as fractions, printed x 100 with its interval and its place
    among its row.
    """

    kind: ClassVar = "score"
    value: float | None
    low: float | None = None
    high: float | None = None
    rank: int | None = None
    """1, 2, 3, or None."""
    star: bool = False
    """Whether the asterisk of Table.marks stands behind it."""
    footnote: str = ""
    """Why there is no value, or why it is not tested."""


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    name: str
    """Its key in each row, and its name in the CSV."""
    heading: str = ""
    """For readers; if empty that of columns.csv, or `name`."""
    kind: Literal["group", "text", "number", "score"] = "text"
    """group: neighbouring rows with the same value stand together under it; score: of `Score`."""
    spell: Callable[[Any], str] = str
    """How a value is printed for readers; None is printed as --, a key that is not there as
    nothing.
    """
    note: str = ""
    """Second line of the heading."""
    mark: str = ""
    """A sign of Table.marks behind the heading."""
    of: str = ""
    """Title of the column of scores whose spread it holds."""
    cell: Callable[[Row], Any] | None = None
    """Of a table whose rows are a DataFrame: what is printed in a row, from all its numbers."""

    @property
    def title(self) -> str:
        """The heading."""
        return self.heading or self.name

    def of_file(self, file: str) -> "Column":
        """With the heading that it has in a CSV file, where it was given none."""
        known = None if self.heading else meaning(self.name, file)
        return replace(self, heading=known.heading) if known else self


@dataclass(kw_only=True)
class Table:
    """A table, for readers in Markdown, LaTeX and HTML, and its numbers in CSV.

    Without columns, or without rows, it is written as CSV alone.
    """

    kind: ClassVar = "table"
    name: str
    """Stem of its CSV file, and its label in LaTeX."""
    columns: Sequence[Column] = ()
    """What is printed."""
    rows: Any
    """A DataFrame with a row per line and the columns of the CSV file, unrounded; or a list of
    dictionaries by the names of `columns`. After construction: the rows as they are printed.
    """
    caption: str = ""
    notes: Sequence[str] = ()
    """Sentences under it."""
    marks: Mapping[str, str] = field(default_factory=dict)
    """Sign (*, °) -> what it means, of the signs that are used; those of SIGNS come by themselves.
    """
    footnotes: Sequence[str] = field(default=(), init=False)
    """Those of its scores, numbered from 1."""
    numbers: Any = None
    """A DataFrame: what the CSV file holds, where that is not `rows`."""
    summary: str = ""
    """What a row of the CSV file is, for the list of files."""
    formats: Sequence[Format] = ("csv", "md", "tex", "html")
    """Where it is shown."""
    grid: bool = False
    """Whether its cells are marks, whose small print the page shows on press alone."""

    def __post_init__(self) -> None:
        named(self.name, "table")
        self.columns = [c.of_file(self.name) for c in self.columns]
        names = [c.name for c in self.columns]
        frame = self.rows
        if isinstance(frame, pd.DataFrame):
            cells = [(c.name, c.cell) for c in self.columns if c.cell]
            shown = records(frame) if self.columns else []
            self.rows = [row | {name: cell(row) for name, cell in cells} for row in shown]
        else:
            frame = pd.DataFrame(self.rows, columns=names, dtype=object)
        if self.numbers is None:
            self.numbers = frame
        values = [row[name] for row in self.rows for name in names if name in row]
        shown_cells = [v for v in values if isinstance(v, TableCell)]
        signs = {c.mark for c in self.columns} | {v.mark for v in shown_cells}
        self.marks = {**self.marks, **{s: text for s, text in SIGNS.items() if s in signs}}
        self.footnotes = list(
            dict.fromkeys(v.footnote for v in values if isinstance(v, Score) and v.footnote)
        )
        if not values:
            self.formats = tuple(kind for kind in self.formats if kind == "csv")

    def note_number(self, score: Score) -> int:
        """Of the footnote of a score, from 1; 0 where it has none."""
        return self.footnotes.index(score.footnote) + 1 if score.footnote else 0


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure: one drawing as PNG, SVG, PDF and on the page, and its numbers in CSV."""

    kind: ClassVar = "figure"
    name: str
    """Stem of its files."""
    draw: Callable[["Sheet"], Sequence[Any] | None]
    """Draws on an empty matplotlib figure in the style of all figures; returns the handles of the
    legend above it (see `handle`).
    """
    caption: str = ""
    size: tuple[float, float] = (7.4, 4.6)
    """Width and height in inches."""
    page: bool = True
    """Whether the page shows it."""
    numbers: Any = None
    """A DataFrame: what its CSV file holds; without one there is none."""
    summary: str = ""
    """What a row of the CSV file is, for the list of files."""

    def __post_init__(self) -> None:
        named(self.name, "figure")


@dataclass(frozen=True, kw_only=True)
class Opening:
    """What stands first on a page: the answer, what voids it, and a figure."""

    kind: ClassVar = "opening"
    lines: Sequence[tuple[str, str]]
    """What is said, and what supports it."""
    before: str = ""
    """What voids its numbers; it stands before them."""
    about: str = ""
    """What its words mean."""
    figure: Figure | None = None
    """Where a section has a figure of that name, the page shows it here alone."""
    more: str = ""
    """Name of the figure of which this one shows a part."""


@dataclass(frozen=True, kw_only=True)
class Filters:
    """By what a page filters: titles as its tables spell them."""

    tasks: Sequence[str]
    models: Sequence[str]
    policies: Sequence[str]
    leads: Sequence[str]
    """As typed."""
    columns: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """A column as tables name it -> the places of its model and of its policy."""
    series: Sequence[tuple[int, int]] = ()
    """Of the columns in their order."""


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    kind: ClassVar = "text"
    text: str | Code
    style: Literal["plain", "fine"] = "plain"


@dataclass(frozen=True)
class Notes:
    """Sentences, one below the other; `findings` stand in large letters."""

    kind: ClassVar = "notes"
    texts: Sequence[str]
    style: Literal["plain", "fine", "findings"] = "fine"


@dataclass(frozen=True)
class Facts:
    """Words and what they stand for; a value may consist of several pieces."""

    kind: ClassVar = "facts"
    items: Mapping[str, Any]


@dataclass(frozen=True)
class Group:
    """Parts under a heading of their own, or folded away under a line."""

    kind: ClassVar = "group"
    title: str
    parts: Sequence["Part"]
    folded: bool = False
    unfolded: bool = False
    """Whether what is folded is shown at first."""


Part = Text | Notes | Facts | Group | Opening | Table | Figure


@dataclass(frozen=True, kw_only=True)
class Section:
    """One section of the page; its tables in Markdown and LaTeX stand together in NAME.md and
    NAME.tex.
    """

    name: str
    title: str = ""
    """Its heading; a section without one stands above the table of contents."""
    short: str = ""
    """The heading in the table of contents."""
    parts: Sequence[Part] = ()
    page: bool = True
    """Whether the page shows it; else it is a line with its files."""

    def __post_init__(self) -> None:
        named(self.name, "section")


@dataclass(frozen=True, kw_only=True)
class Heading:
    """The head of a page."""

    title: str
    lines: Sequence[str] = ()
    banners: Sequence[tuple[str, str]] = ()
    """What nobody may overlook: a word and a sentence."""
    in_banners: Sequence[str] = ()
    """Notes that stand in the banners: no table repeats them on the page."""
    version: str = ""
    """Of ecgbench, which made the numbers."""
    filters: Filters | None = None
    """By what its tables and figures are filtered."""


class Kind(NamedTuple):
    """One kind of folder that can be reported."""

    source: type
    """What its reports receive."""
    files: Sequence[str]
    """A folder that holds one of these is of this kind."""
    read: Callable[[Path], Any]
    heading: Callable[[Any], Heading]


def named(name: str, what: str) -> None:
    """BadSetting where a name is not fit for a file and an anchor."""
    if not re.fullmatch("[a-z][a-z0-9_-]*", name):
        raise BadSetting(
            f"{what} {name!r}: its name becomes that of a file; use small letters, digits, - and _"
        )


def records(frame: pd.DataFrame) -> list[dict[Any, Any]]:
    """The rows of a DataFrame as dictionaries of Python's own values: see `native`."""
    names = list(frame.columns)
    return [dict(zip(names, row)) for row in zip(*(native(frame[n]) for n in names))]


def native(column: Any) -> list[Any]:
    """The values of a column as Python's own: counts are int, and whatever stands for "missing" is
    None; nothing that is not known to be the best is.
    """
    if column.name in _COUNTS and column.dtype.kind == "f":
        column = column.astype("Int64")
    missing = column.isna().to_numpy()
    values: list[Any] = column.astype(object).tolist()
    if not missing.any():
        return values
    instead = False if column.name == "best" else None
    return [instead if gone else value for value, gone in zip(values, missing)]
