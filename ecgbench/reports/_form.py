"""How numbers and words are spelled: x 100 for readers, fractions for CSV, and the escapes of Markdown and LaTeX."""

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

Fact = Mapping[str, Any]

MINUS = "−"

_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
    '"': "''", "\u2018": "`", "\u2019": "'", "\u201c": "``", "\u201d": "''", "–": "--", "—": "---", "−": "$-$", "\u00a0": "~",
    "…": r"\ldots{}", "×": r"$\times$", "·": r"$\cdot$", "±": r"$\pm$", "≤": r"$\leq$", "≥": r"$\geq$", "→": r"$\rightarrow$",
    "°": r"$^\circ$", "†": r"$\dagger$", "‡": r"$\ddagger$", "µ": r"$\mu$", "μ": r"$\mu$", "²": r"$^2$",
}  # fmt: skip

_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]|[\t\n]")
"""How a cell begins that spreadsheet programs compute instead of showing it (OWASP, CSV Injection; full-width signs too)."""


def points(fraction: float | None, digits: int = 1) -> str:
    """A fraction x 100; `--` where there is none.

    >>> points(0.9456), points(None)
    ('94.6', '--')
    """
    return "--" if fraction is None else f"{100 * fraction:.{digits}f}"


def visible(text: str) -> str:
    r"""Text in which what a reader cannot see, but a program obeys, is spelled: control characters, marks that turn the direction of
    writing, halves of characters. Line ends are LF.

    >>> visible("a\u202eb\x1b[2J")
    'aU+202EbU+001B[2J'
    """
    lines = str(text).replace("\r\n", "\n").replace("\r", "\n")
    return _HIDDEN.sub(lambda found: f"U+{ord(found[0]):04X}", lines)


def shortened(text: str, most: int) -> str:
    """One line of at most `most` characters, for a figure.

    >>> shortened("PTB-XL Super", 8)
    'PTB-XL …'
    """
    whole = line(text)
    return whole if len(whole) <= most else whole[: most - 1] + "…"


def signed(fraction: float | None) -> str:
    """A difference x 100 with its sign (a true minus); a difference that rounds to nothing has none.

    >>> signed(-0.0123), signed(0.004), signed(-0.00001)
    ('−1.2', '+0.4', '0.0')
    """
    if fraction is None:
        return "--"
    size = points(abs(fraction))
    return size if float(size) == 0 else (MINUS if fraction < 0 else "+") + size


def bracket(low: float | None, high: float | None) -> str:
    """An interval x 100; empty where there is none.

    >>> bracket(0.981, 0.9949), bracket(None, 0.5)
    ('[98.1, 99.5]', '')
    """
    return "" if low is None or high is None else f"[{points(low)}, {points(high)}]"


def score(cell: Fact) -> str:
    """`94.6 (1.0)`: mean and standard deviation over lead draws, x 100; without the second where there is one draw."""
    std = cell["std"]
    return points(cell["macro_auroc"]) + ("" if std is None else f" ({points(std)})")


def chance(p: float | None) -> str:
    """A p value to three places.

    >>> chance(0.0304), chance(0.00001), chance(None)
    ('0.030', '<0.001', '--')
    """
    if p is None:
        return "--"
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def millions(parameters: int | None) -> str:
    """A number of parameters as tables print it.

    >>> millions(7_104_000), millions(41_000), millions(None)
    ('7.1M', '0.041M', '')
    """
    if not parameters:
        return ""
    return f"{parameters / 1e6:.1f}M" if parameters >= 1e5 else f"{parameters / 1e6:.2g}M"


def enumerated(words: Sequence[str]) -> str:
    """Words as a sentence lists them.

    >>> enumerated(["1", "2", "12"])
    '1, 2 and 12'
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def counted(count: int | None, noun: str) -> str:
    """A count with its noun.

    >>> counted(1, "record"), counted(2000, "record"), counted(None, "record")
    ('1 record', '2,000 records', 'an unknown number of records')
    """
    if count is None:
        return f"an unknown number of {noun}s"
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def clock(seconds: float | None) -> str:
    """A duration in words.

    >>> clock(59.2), clock(754), clock(7322)
    ('59 s', '12 min 34 s', '2 h 2 min')
    """
    if seconds is None:
        return ""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"


def moment(seconds: float | str | None) -> str:
    """A time in seconds since 1970 as a date; text as it is.

    >>> moment(1735787045.0)
    '2025-01-02 03:04 UTC'
    """
    if seconds is None or isinstance(seconds, str):
        return seconds or ""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


def latex(text: str) -> str:
    r"""Text that LaTeX prints as it stands, with any engine; a character no standard font holds becomes its code point.

    >>> latex("A&B_1 --limit 5 %")
    'A\\&B\\_1 -{}-limit 5 \\%'
    """
    spelled = [
        _LATEX.get(c, c) if c in _LATEX or ord(c) < 0x180 else rf"\texttt{{U+{ord(c):04X}}}" for c in line(text).replace("--", "-\0-")
    ]
    return "".join(spelled).replace("\0", "{}")


def markdown(text: str) -> str:
    r"""Text that Markdown prints as it stands, also inside a table.

    >>> markdown("<b> a|b * _c_")
    '\\<b\\> a\\|b \\* \\_c\\_'
    """
    escaped = re.sub(r"([\\`*_\[\]<>|~&#$])", r"\\\1", line(text))
    return re.sub(r"^(\d*)([-+.)])(?= |$)", r"\1\\\2", escaped)  # else it begins a list


def line(text: str) -> str:
    """One line: every run of blanks and control characters becomes one space; see `visible`."""
    return visible(re.sub(r"[\s\x00-\x1f\x7f]+", " ", str(text)).strip())


def table_text(columns: Sequence[str], rows: Iterable[Fact]) -> str:
    r"""CSV text, LF line ends; floats in the shortest form that reads back equal, booleans true/false, nothing for None.

    Text that a spreadsheet program would compute (it begins with = + - @, a tab or a line end) gets an apostrophe before it, which
    such programs read as "this is text"; numbers never do. Text is `visible`.

    >>> table_text(["a", "b", "c"], [{"a": 0.1, "b": True, "c": None}])
    'a,b,c\n0.1,true,\n'
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([[_field(row[c]) for c in columns] for row in rows])
    return out.getvalue()


def _field(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    text = visible(value)
    return f"'{text}" if _FORMULA.match(text) else text
