"""A claim of a source, and how numbers are spelled in it."""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["yes", "in part", "no", "open"]
"""Whether it comes out; open: the tables do not tell."""
HALF = 0.0005
"""Half of the last printed place of a score."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One claim, and what its own tables give."""

    where: str
    """Place in the source."""
    says: str
    found: str
    """From its own numbers."""
    agrees: Verdict


def pts(fraction: float, places: int = 1) -> str:
    """A fraction in points.

    >>> pts(0.0439)
    '4.4'
    """
    return f"{100 * fraction:.{places}f}"


def signed(fraction: float, places: int = 1) -> str:
    """The same with its sign.

    >>> signed(-0.0123)
    '−1.2'
    """
    return f"{100 * fraction:+.{places}f}".replace("-", "−")
