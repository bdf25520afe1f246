"""How numbers and words are spelled for readers: scores x 100, and the escapes of Markdown and
LaTeX.
"""

import re
from datetime import UTC, datetime

from ecgbench.core.text import line

MINUS = "−"

_PAIRS = r"""
\ \textbackslash{}  { \{  } \}  $ \$  & \&  % \%  # \#  _ \_  ~ \textasciitilde{}
^ \textasciicircum{}  < \textless{}  > \textgreater{}  | \textbar{}  " ''  ‘ `  ’ '
“ ``  ” ''  – --  — ---  … \ldots{}
− $-$  × $\times$  · $\cdot$  ± $\pm$  ≤ $\leq$  ≥ $\geq$  → $\rightarrow$  ° $^\circ$
† $\dagger$  ‡ $\ddagger$  µ $\mu$  μ $\mu$  ² $^2$
""".split()  # noqa: SIM905
_LATEX = {**dict(zip(_PAIRS[::2], _PAIRS[1::2])), "\u00a0": "~"}
"""A character and how LaTeX prints it."""


def points(fraction: float | None, digits: int = 1) -> str:
    """A fraction x 100; `--` where there is none. What rounds to nothing has no sign.

    >>> points(0.9456), points(None), points(-0.0001)
    ('94.6', '--', '0.0')
    """
    if fraction is None or fraction != fraction:
        return "--"
    text = f"{100 * fraction:.{digits}f}"
    return text.lstrip("-") if float(text) == 0 else text


def signed(fraction: float | None) -> str:
    """A difference x 100 with its sign (a true minus); a difference that rounds to nothing has
    none.

    >>> signed(-0.0123), signed(0.004), signed(-0.00001)
    ('−1.2', '+0.4', '0.0')
    """
    if fraction is None or fraction != fraction:
        return "--"
    size = points(abs(fraction))
    return size if float(size) == 0 else (MINUS if fraction < 0 else "+") + size


def bracket(low: float | None, high: float | None) -> str:
    """An interval x 100; empty where there is none.

    >>> bracket(0.981, 0.9949), bracket(None, 0.5)
    ('[98.1, 99.5]', '')
    """
    return f"[{points(low)}, {points(high)}]" if _known(low, high) else ""


def sure(value: float | None, low: float | None, high: float | None) -> str:
    """A score x 100 with its interval, or that it has none.

    >>> sure(1.0, 0.553, 1.0), sure(1.0, None, None)
    ('100.0 [55.3, 100.0]', '100.0 (no interval)')
    """
    return f"{points(value)} {bracket(low, high) or '(no interval)'}"


def signed_bracket(low: float | None, high: float | None) -> str:
    """The interval of a difference x 100; empty where there is none.

    >>> signed_bracket(-0.01, 0.025), signed_bracket(None, None)
    ('[−1.0, +2.5]', '')
    """
    return f"[{signed(low)}, {signed(high)}]" if _known(low, high) else ""


def _known(*ends: float | None) -> bool:
    """Whether all ends of an interval are numbers."""
    return all(end is not None and end == end for end in ends)


def margin(fraction: float) -> str:
    """A margin x 100, with the digits it was given with.

    >>> margin(0.02), margin(0.015), margin(0.07)
    ('2', '1.5', '7')
    """
    return f"{100 * fraction:g}"


def p_value(p: float | None) -> str:
    """A p value to three places.

    >>> p_value(0.0304), p_value(0.00001), p_value(None)
    ('0.030', '<0.001', '--')
    """
    if p is None:
        return "--"
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def millions(parameters: int | None) -> str:
    """A number of parameters as tables print it.

    >>> millions(7_104_000), millions(41_000), millions(9), millions(None)
    ('7.1M', '0.041M', '9', '')
    """
    if not parameters or parameters < 1000:
        return str(parameters or "")
    return f"{parameters / 1e6:.1f}M" if parameters >= 1e5 else f"{parameters / 1e6:.2g}M"


def moment(seconds: float) -> str:
    """A time in seconds since 1970 as a date.

    >>> moment(1735787045.0)
    '2025-01-02 03:04 UTC'
    """
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


def latex(text: str) -> str:
    r"""Text that LaTeX prints as it stands, with any engine; a character no standard font holds
    becomes its code point.

    >>> latex("A&B_1 --limit 5 %")
    'A\\&B\\_1 -{}-limit 5 \\%'
    """
    spelled = [
        _LATEX.get(c, c) if c in _LATEX or ord(c) < 0x180 else rf"\texttt{{U+{ord(c):04X}}}"
        for c in line(text).replace("--", "-\0-")
    ]
    return "".join(spelled).replace("\0", "{}")


def markdown(text: str) -> str:
    r"""Text that Markdown prints as it stands, also inside a table.

    >>> markdown("<b> a|b * _c_")
    '\\<b\\> a\\|b \\* \\_c\\_'
    """
    escaped = re.sub(r"([\\`*_\[\]<>|~&#$])", r"\\\1", line(text))
    return re.sub(r"^(\d*)([-+.)])(?= |$)", r"\1\\\2", escaped)  # else it begins a list
