"""Tables in CSV, Markdown and LaTeX, in the form of the paper that introduced LAEF: three ranks a
row, an asterisk, daggers.
"""

import csv
import io
import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ecgbench.core.text import aligned, visible
from ecgbench.reports._section import (
    Code,
    Column,
    Group,
    Link,
    Row,
    Score,
    Section,
    Table,
    TableCell,
    native,
)
from ecgbench.reports._text import bracket, latex, markdown, points

SPREAD = "Random leads: mean; Std is the standard deviation over lead draws."
INTERVALS = "In brackets: 95 % intervals."
NONE = "--"
_FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]|[\t\n]")
"""How a cell begins that spreadsheet programs compute instead of showing it (OWASP, CSV Injection;
full-width signs too).
"""
_SIGNS = {"†": r"$^\dagger$", "‡": r"$^\ddagger$"}
_RANKS = r"""% \uno, \due, \tre: best, second and third of a row, in the paper's red, blue and green.
\providecommand{\uno}[1]{\textcolor{red!70!black}{#1}}
\providecommand{\due}[1]{\textcolor{blue!70!black}{#1}}
\providecommand{\tre}[1]{\textcolor{green!50!black}{#1}}
"""  # noqa: E501
LONG = 45
"""Rows beyond which a table in LaTeX runs over several pages."""
NOTES = 3
"""Notes under a table in LaTeX; further ones are comments."""
WIDE = 28
"""Characters beyond which the text of a column in LaTeX is broken into lines."""
_PACKAGES = ("booktabs", "longtable", "array", "graphicx", "xcolor")
_FIT = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
"""A table as wide as it is, and no wider than the text."""


class Style(NamedTuple):
    """How a format spells what all tables have."""

    escape: Callable[[str], str]
    sign: Callable[[str], str]
    ranks: Mapping[int | None, str]
    number: str
    """Of a footnote."""
    star: str
    interval: str
    """Below or behind a score."""


MARKDOWN = Style(
    escape=markdown,
    sign=markdown,
    ranks={1: "**%s**", 2: "<ins>%s</ins>", 3: "*%s*", None: "%s"},
    number="<sup>%s</sup>",
    star=r"\*",
    interval="%s %s",
)
LATEX = Style(
    escape=latex,
    sign=lambda sign: _SIGNS.get(sign) or latex(sign),
    ranks={1: r"\uno{%s}", 2: r"\due{%s}", 3: r"\tre{%s}", None: "%s"},
    number=r"\textsuperscript{%s}",
    star="*",
    interval=r"\shortstack{%s\\{\tiny %s}}",
)


def csv_text(frame: pd.DataFrame) -> str:
    r"""CSV text, LF line ends; floats in the shortest form that reads back equal, booleans
    true/false, nothing for what is missing.

    Text that a spreadsheet program would compute (it begins with = + - @, a tab or a line end) gets
    an apostrophe before it, which such programs read as "this is text"; numbers never do. Text is
    `visible`.

    >>> csv_text(pd.DataFrame({"a": [0.1], "b": [True], "c": [None]}))
    'a,b,c\n0.1,true,\n'
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(frame.columns)
    columns = [(frame[name].dtype.kind, native(frame[name])) for name in frame]
    writer.writerows(
        zip(*(own if kind in "fi" else map(_field, own) for kind, own in columns), strict=True)
    )
    return out.getvalue()


def _field(value: Any) -> Any:
    value = value.value if isinstance(value, Score) else value
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return float(value) if isinstance(value, float) else value
    return _text(plain(value))


@lru_cache(4096)
def _text(value: str) -> str:
    text = visible(value)
    return f"'{text}" if _FORMULA.match(text) else text


def plain(value: Any) -> str:
    """A value without its marks."""
    return value.text if isinstance(value, TableCell | Code | Link) else str(value)


def scores(table: Table) -> list[Score]:
    """All scores of a table."""
    return [value for row in table.rows for value in row.values() if isinstance(value, Score)]


def ranked(table: Table) -> bool:
    """Whether any row of a table compares two scores or more."""
    return any(score.rank for score in scores(table))


def spread(table: Table) -> bool:
    """Whether any score of a table is a mean over several lead draws."""
    return any(column.of for column in table.columns)


def groups(table: Table) -> Iterator[tuple[Any, list[Row]]]:
    """(what the column of kind group holds, or None; its rows) of neighbouring rows that belong
    together.
    """
    by = next((column.name for column in table.columns if column.kind == "group"), None)
    for value, rows in groupby(table.rows, key=lambda row: None if by is None else row.get(by)):
        yield value, list(rows)


def tables(section: Section, kind: str) -> list[Table]:
    """The tables of a section that are shown in one format; on the page some are folded away."""
    parts = [
        each
        for part in section.parts
        for each in (part.parts if isinstance(part, Group) and part.folded else [part])
    ]
    return [part for part in parts if isinstance(part, Table) and kind in part.formats]


def _caption(style: Style, table: Table) -> str:
    best, second, third = (style.ranks[n] % w for n, w in enumerate(("Best", "second", "third"), 1))
    sentences = [
        style.escape(table.caption),
        SPREAD if spread(table) else "",
        style.escape(INTERVALS) if any(s.low is not None for s in scores(table)) else "",
        f"{best}, {second} and {third} of a row, ranked before rounding." if ranked(table) else "",
    ]
    return " ".join(filter(None, sentences))


def _notes(style: Style, table: Table) -> list[str]:
    """What its signs and the numbers of footnotes mean, and its notes."""
    marks = [f"{style.sign(sign)} {style.escape(text)}." for sign, text in table.marks.items()]
    footnotes = enumerate(map(style.escape, table.footnotes), 1)
    numbered = [f"{style.number % number} {text}" for number, text in footnotes]
    return [*marks, *numbered, *map(style.escape, table.notes)]


def _lines(style: Style, table: Table) -> Iterator[tuple[bool, list[str]]]:
    """Whether a row begins a group, and the words of its cells; a group is named in its first row
    alone.
    """
    for _, rows in groups(table):
        for number, row in enumerate(rows):
            values = [
                "" if c.kind == "group" and number else row.get(c.name, "") for c in table.columns
            ]
            yield (
                not number,
                [_cell(style, table, c, value) for c, value in zip(table.columns, values)],
            )


def _cell(style: Style, table: Table, column: Column, value: Any) -> str:
    if isinstance(value, Score):
        number = table.note_number(value)
        note = style.number % number if number else ""
        if value.value is None:
            return NONE + note
        score = style.ranks[value.rank] % points(value.value) + style.star * value.star + note
        ends = bracket(value.low, value.high)
        return style.interval % (score, style.escape(ends)) if ends else score
    text, mark, small = spelled(column, value), "", ""
    if isinstance(value, TableCell):
        mark, small = style.sign(value.mark), style.escape(value.small)
    if text != NONE and column.kind != "score":  # an interval is text of ours
        text = style.escape(text)
    return f"{text}{mark} {small}".strip()


def spelled(column: Column, value: Any) -> str:
    """A value as its column prints it."""
    if value is None:
        return NONE
    if value == "" or isinstance(value, TableCell | Code | Link):
        return plain(value)
    return column.spell(value)


def terminal_lines(table: Table) -> list[str]:
    """A table for a terminal, without the columns that hold nothing."""
    columns = [c for c in table.columns if any(row.get(c.name) is not None for row in table.rows)]
    words = [[spelled(c, row.get(c.name, "")) for c in columns] for row in table.rows]
    numbers = [place for place, c in enumerate(columns) if c.kind == "number"]
    return aligned([[c.title for c in columns], *words], numbers)


def markdown_text(section: Section) -> str:
    """NAME.md: each table with its caption, marks, footnotes and notes; empty where no table is
    shown in Markdown.
    """
    blocks = []
    for table in tables(section, "md"):
        heads = [
            markdown(c.title) + c.mark + (f" ({markdown(c.note)})" if c.note else "")
            for c in table.columns
        ]
        sides = [":--" if c.kind in ("group", "text") else "--:" for c in table.columns]
        lines = [heads, sides, *(line for _, line in _lines(MARKDOWN, table))]
        notes = "\n".join(f"- {note}" for note in _notes(MARKDOWN, table))
        rows = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        blocks += [_caption(MARKDOWN, table), rows, notes]
    return "\n\n".join(filter(None, blocks)) + "\n" if blocks else ""


def latex_text(section: Section) -> str:
    """NAME.tex: its tables, ready for `\\input`; empty where no table is shown in LaTeX."""
    shown = tables(section, "tex")
    if not shown:
        return ""
    head = "% Needs " + ", ".join(rf"\usepackage{{{name}}}" for name in _PACKAGES) + "."
    ranks = [_RANKS] if any(map(scores, shown)) else []
    return "\n".join([head, *ranks, *map(_latex_table, shown)])


def _latex_table(table: Table) -> str:
    """A table that floats, or one over several pages where it is long."""
    label = table.name.replace("_table", "").replace("_", "-")
    title = rf"\caption{{{_caption(LATEX, table)}}}\label{{tab:ecgbench-{label}}}"
    heads = [r"\toprule", *_latex_heads(table), r"\midrule"]
    rows: list[str] = []
    grouped = any(c.kind == "group" for c in table.columns)
    for first, line in _lines(LATEX, table):
        rows += [r"\midrule"] if first and grouped and rows else []
        rows.append(" & ".join(line) + r" \\")
    columns = _latex_columns(table)
    small = r"\scriptsize\setlength{\tabcolsep}{3pt}\setlength{\belowcaptionskip}{4pt}"
    notes = _notes(LATEX, table)
    below = [rf"\par\smallskip\parbox{{\linewidth}}{{\scriptsize {n}}}" for n in notes[:NOTES]]
    below += [f"% {note}" for note in notes[NOTES:]]
    if len(table.rows) > LONG:
        begin = ["{" + small, rf"\begin{{longtable}}{{{columns}}}", title + r"\\"]
        lines = [*begin, *heads, r"\endfirsthead", *heads, r"\endhead", *rows, r"\bottomrule"]
        return "\n".join([*lines, r"\end{longtable}", *below, "}", ""])
    begin = [r"\begin{table}[htb!]", r"\centering" + small, title, _FIT]
    lines = [*begin, rf"\begin{{tabular}}{{{columns}}}", *heads, *rows, r"\bottomrule"]
    return "\n".join([*lines, r"\end{tabular}}", *below, r"\end{table}", ""])


def _latex_columns(table: Table) -> str:
    """Letters of the columns; text that is long has lines of a part of the width."""
    kinds = {"group": "l", "text": "l", "number": "r", "score": "c"}
    wide = [
        c.name
        for c in table.columns
        if c.kind == "text"
        and any(len(spelled(c, row.get(c.name, ""))) > WIDE for row in table.rows)
    ]
    share = min(0.3, 0.6 / max(len(wide), 1))
    lines = rf">{{\raggedright\arraybackslash}}p{{{share:.2f}\linewidth}}"
    return "".join(lines if c.name in wide else kinds[c.kind] for c in table.columns)


def _latex_heads(table: Table) -> Iterator[str]:
    yield " & ".join(latex(c.title) + LATEX.sign(c.mark) for c in table.columns) + r" \\"
    if any(c.note for c in table.columns):
        yield " & ".join(f"({latex(c.note)})" if c.note else "" for c in table.columns) + r" \\"
