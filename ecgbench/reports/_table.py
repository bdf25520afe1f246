"""Tables in CSV, Markdown and LaTeX, in the form of the paper that introduced LAEF: three ranks a
row, an asterisk, daggers.
"""

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

from ecgbench.core.text import aligned, visible
from ecgbench.reports._section import Cell, Code, Column, Link, Numbers, Row, Score, Section, Table
from ecgbench.reports._text import bracket, latex, markdown, points

SPREAD = "Random leads: mean (standard deviation over lead draws)."
NONE = "--"
_FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]|[\t\n]")
"""How a cell begins that spreadsheet programs compute instead of showing it (OWASP, CSV Injection;
full-width signs too).
"""
_RANK_LATEX = {1: r"\uno{%s}", 2: r"\due{%s}", 3: r"\tre{%s}", None: "%s"}
_RANK_MARKDOWN = {1: "**%s**", 2: "<ins>%s</ins>", 3: "*%s*", None: "%s"}
_SIGNS = {"†": r"$^\dagger$", "‡": r"$^\ddagger$"}
_RANKS = r"""% \uno, \due, \tre: best, second and third of a row, in the paper's red, blue and green.
\providecommand{\uno}[1]{\textcolor{red!70!black}{#1}}
\providecommand{\due}[1]{\textcolor{blue!70!black}{#1}}
\providecommand{\tre}[1]{\textcolor{green!50!black}{#1}}
"""  # noqa: E501
LONG = 45
"""Rows beyond which a table in LaTeX runs over several pages."""

Spell = Callable[[Column, Any], str]


def csv_text(columns: Sequence[str], rows: Iterable[Row]) -> str:
    r"""CSV text, LF line ends; floats in the shortest form that reads back equal, booleans
    true/false, nothing for None.

    Text that a spreadsheet program would compute (it begins with = + - @, a tab or a line end) gets
    an apostrophe before it, which such programs read as "this is text"; numbers never do. Text is
    `visible`.

    >>> csv_text(["a", "b", "c"], [{"a": 0.1, "b": True, "c": None}])
    'a,b,c\n0.1,true,\n'
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([[_field(row.get(c)) for c in columns] for row in rows])
    return out.getvalue()


def _field(value: Any) -> str:
    # floats and text are most of it
    if type(value) is float:
        return "" if value != value else repr(value)
    if type(value) is str:
        return _text(value)
    value = value.value if isinstance(value, Score) else value
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    return _text(plain(value))


@lru_cache(4096)
def _text(value: str) -> str:
    text = visible(value)
    return f"'{text}" if _FORMULA.match(text) else text


def numbers(table: Table) -> Numbers:
    """What the CSV file of a table holds."""
    if table.numbers is not None:
        return table.numbers
    names = [c.name for c in table.columns]
    return Numbers(columns=names, rows=table.rows, summary=table.summary)


def plain(value: Any) -> str:
    """A value without its marks."""
    return value.text if isinstance(value, Cell | Code | Link) else str(value)


def scores(table: Table) -> list[Score]:
    """All scores of a table."""
    return [value for row in table.rows for value in row.values() if isinstance(value, Score)]


def ranked(table: Table) -> bool:
    """Whether any row of a table compares two scores or more."""
    return any(score.rank for score in scores(table))


def spread(table: Table) -> bool:
    """Whether any score of a table is a mean over several lead draws."""
    return any(score.std is not None for score in scores(table))


def score_text(score: Score) -> str:
    """`94.6 (1.0)`: mean and standard deviation over lead draws, x 100; without the second where
    there is one draw.
    """
    return points(score.value) + ("" if score.std is None else f" ({points(score.std)})")


def groups(table: Table) -> Iterator[tuple[Any, list[Row]]]:
    """(what the column of kind group holds, or None; its rows) of neighbouring rows that belong
    together.
    """
    by = next((column.name for column in table.columns if column.kind == "group"), None)
    for value, rows in groupby(table.rows, key=lambda row: None if by is None else row.get(by)):
        yield value, list(rows)


def markdown_text(section: Section) -> str:
    """NAME.md: each table with its caption, marks, footnotes and notes; empty where no table is
    shown in Markdown.
    """
    blocks = [block for table in tables(section, "md") for block in _markdown_blocks(table)]
    return "\n\n".join(blocks) + "\n" if blocks else ""


def tables(section: Section, kind: str) -> list[Table]:
    """The tables of a section that are shown in one format."""
    return [part for part in section.parts if isinstance(part, Table) and kind in part.formats]


def _markdown_blocks(table: Table) -> Iterator[str]:
    there = scores(table)
    ranks = "**Best**, <ins>second</ins> and *third* of a row, ranked before rounding."
    caption = [
        markdown(table.caption),
        SPREAD if spread(table) else "",
        "One draw: estimate [95 % interval]." if there else "",
        ranks if ranked(table) else "",
    ]
    if any(caption):
        yield " ".join(filter(None, caption))
    yield _markdown_table(table, _markdown_cell)
    notes = [f"{markdown(sign)} {markdown(meaning)}." for sign, meaning in table.marks.items()]
    footnotes = enumerate(map(markdown, table.footnotes), 1)
    notes += [f"<sup>{number}</sup> {text}" for number, text in footnotes]
    notes += map(markdown, table.notes)
    if notes:
        yield "\n".join(f"- {note}" for note in notes)
    if any(score.low is not None for score in there):
        yield "95 % intervals, × 100."
        yield _markdown_table(table, _interval_or(_markdown_cell))


def _markdown_table(table: Table, spell: Spell) -> str:
    heads = [
        markdown(c.title) + c.mark + (f" ({markdown(c.note)})" if c.note else "")
        for c in table.columns
    ]
    lines = [heads, [":--" if c.kind in ("group", "text") else "--:" for c in table.columns]]
    lines += [[spell(c, value) for c, value in line] for _, line in _lines(table)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _lines(table: Table) -> Iterator[tuple[int, list[tuple[Column, Any]]]]:
    """Each row with its size of group, 0 in all but the first row of a group, where the group's
    value is left out.
    """
    for _, rows in groups(table):
        for number, row in enumerate(rows):
            yield (
                0 if number else len(rows),
                [
                    (c, "" if c.kind == "group" and number else row.get(c.name, ""))
                    for c in table.columns
                ],
            )


def terminal_lines(table: Table) -> list[str]:
    """A table for a terminal, without the columns that hold nothing."""
    columns = [c for c in table.columns if any(row.get(c.name) is not None for row in table.rows)]
    words = [[spelled(c, row.get(c.name, "")) for c in columns] for row in table.rows]
    numbers = [place for place, c in enumerate(columns) if c.kind == "number"]
    return aligned([[c.title for c in columns], *words], numbers)


def _interval_or(spell: Spell) -> Spell:
    """Scores as their intervals."""

    def interval(column: Column, value: Any) -> str:
        if isinstance(value, Score):
            return bracket(value.low, value.high) or NONE
        return spell(column, value)

    return interval


def _markdown_cell(column: Column, value: Any) -> str:
    if isinstance(value, Score):
        note = f"<sup>{value.footnote}</sup>" if value.footnote else ""
        if value.value is None:
            return NONE + note
        text = _RANK_MARKDOWN[value.rank] % score_text(value) + (r"\*" if value.star else "") + note
        interval = bracket(value.low, value.high) if value.std is None else ""
        return f"{text} {interval}".strip()
    if isinstance(value, Cell):
        return (markdown(value.text) + value.mark + " " + markdown(value.small)).strip()
    return markdown(spelled(column, value))


def spelled(column: Column, value: Any, page: bool = False) -> str:
    """A value as its column prints it."""
    if value is None:
        return NONE
    if value == "" or isinstance(value, Cell | Code | Link):
        return plain(value)
    return (column.on_page or column.spell)(value) if page else column.spell(value)


def latex_text(section: Section) -> str:
    """NAME.tex: its tables, ready for `\\input`; empty where no table is shown in LaTeX."""
    shown = tables(section, "tex")
    if not shown:
        return ""
    head = r"% Needs \usepackage{booktabs}, \usepackage{longtable} and \usepackage{xcolor}."
    ranks = [_RANKS] if any(map(scores, shown)) else []
    return "\n".join([head, *ranks, *(text for table in shown for text in _latex_tables(table))])


def _latex_tables(table: Table) -> Iterator[str]:
    """A table, and another of its intervals where it has scores."""
    ranks = r"\uno{Best}, \due{second} and \tre{third} of a row, ranked before rounding."
    signs = {sign: f"{_sign(sign)}~{latex(text)}." for sign, text in table.marks.items()}
    caption = [
        latex(table.caption),
        SPREAD if spread(table) else "",
        ranks if ranked(table) else "",
        *signs.values(),
    ]
    footnotes = enumerate(map(latex, table.footnotes), 1)
    notes = [rf"\textsuperscript{{{number}}}~{text}" for number, text in footnotes]
    notes += map(latex, table.notes)
    label = table.name.removesuffix("_table").replace("_", "-")
    yield _latex_table(table, _latex_cell, (label, " ".join(filter(None, caption))), notes)
    if any(score.low is not None for score in scores(table)):
        # it may land on another page; an interval has no asterisk
        text = [latex("95 % intervals, × 100."), *(signs[sign] for sign in signs if sign != "*")]
        names = f"{label}-intervals", " ".join(text)
        yield _latex_table(table, _interval_or(_latex_cell), names, [])


def _latex_table(table: Table, spell: Spell, names: tuple[str, str], notes: Sequence[str]) -> str:
    """A table that floats, or one over several pages where it is long."""
    kinds = {"group": "l", "text": "l", "number": "r", "score": "c"}
    columns = "".join(kinds[c.kind] for c in table.columns)
    title = rf"\caption{{{names[1]}}}\label{{tab:ecgbench-{names[0]}}}"
    heads = [r"\toprule", *_latex_heads(table), r"\midrule"]
    rows = _latex_rows(table, spell)
    small = r"\scriptsize\setlength{\tabcolsep}{3pt}"
    below = [rf"\par\smallskip\parbox{{\linewidth}}{{\scriptsize {note}}}" for note in notes]
    if len(table.rows) > LONG:
        begin = ["{" + small, rf"\begin{{longtable}}{{{columns}}}", title + r"\\"]
        lines = [*begin, *heads, r"\endfirsthead", *heads, r"\endhead", *rows, r"\bottomrule"]
        return "\n".join([*lines, r"\end{longtable}}", *below, ""])
    begin = [r"\begin{table}[htb!]", r"\centering" + small, title]
    lines = [*begin, rf"\begin{{tabular}}{{{columns}}}", *heads, *rows, r"\bottomrule"]
    return "\n".join([*lines, r"\end{tabular}", *below, r"\end{table}", ""])


def _latex_heads(table: Table) -> Iterator[str]:
    yield " & ".join(latex(c.title) + _sign(c.mark) for c in table.columns) + r" \\"
    if any(c.note for c in table.columns):
        yield " & ".join(f"({latex(c.note)})" if c.note else "" for c in table.columns) + r" \\"


def _latex_rows(table: Table, spell: Spell) -> Iterator[str]:
    grouped = any(c.kind == "group" for c in table.columns)
    for number, (size, line) in enumerate(_lines(table)):
        if size and grouped and number:
            yield r"\midrule"
        yield " & ".join(spell(c, v) for c, v in line) + r" \\"


def _latex_cell(column: Column, value: Any) -> str:
    if isinstance(value, Score):
        note = rf"\textsuperscript{{{value.footnote}}}" if value.footnote else ""
        if value.value is None:
            return NONE + note
        return _RANK_LATEX[value.rank] % score_text(value) + ("*" if value.star else "") + note
    if isinstance(value, Cell):
        return (latex(value.text) + _sign(value.mark) + " " + latex(value.small)).strip()
    text = spelled(column, value)
    return text if text == NONE else latex(text)


def _sign(sign: str) -> str:
    return _SIGNS.get(sign) or latex(sign)
