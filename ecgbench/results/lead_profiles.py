"""Profiles over the twelve leads: what `results.lead_importance` computes of a column of a task."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

Trained = Literal["same", "random", "all"]
"""Which leads training saw; see `cells.Training.leads`."""


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Of a condition, a category, or the macro mean; fractions, by lead in the order of LEADS. NaN
    where there is no number.
    """

    name: str
    aurocs: Sequence[float]
    difference: Sequence[float]
    """AUROC of a lead less the mean over the twelve."""
    low: Sequence[float]
    """95 % interval of the difference."""
    high: Sequence[float]
    z: Sequence[float]
    """Over the twelve leads; of a category the mean over its conditions."""
    reliability: float
    """0 to 1; NaN where no halves can be made."""
    expected: float
    """Range over leads where leads are exchangeable: its mean."""
    bound: float
    """95 % of such ranges are not above it."""

    @property
    def shrunk(self) -> list[float]:
        """The differences times the reliability."""
        return [self.reliability * d for d in self.difference]

    @property
    def range(self) -> float:
        """Highest less lowest AUROC."""
        return float(np.ptp(self.aurocs))

    @property
    def beyond(self) -> bool:
        """Whether the range is not what exchangeable leads give."""
        return self.range > self.bound


@dataclass(frozen=True, kw_only=True)
class Condition(Profile):
    """A label that has a category."""

    category: str
    positives: int
    left_out: str
    """Why it counts in no category; "" where it does."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A lead less another."""

    first: str
    second: str
    difference: float
    low: float
    """95 % bounds that hold for all 66 pairs of leads at once."""
    high: float


@dataclass(frozen=True, kw_only=True)
class Group(Profile):
    """The mean over some conditions: a category, or the macro mean over all labels."""

    conditions: int
    """In the mean."""
    few: int
    """Left out for want of positives."""
    within: int
    """Left out as their range is what exchangeable leads give."""
    pairs: Sequence[Pair]
    """All of them."""

    @property
    def bounds(self) -> tuple[float, float]:
        """Of the range, at least 95 %: the largest difference is above the largest of the lower
        bounds of all pairs, and not above the largest of the upper ones.
        """
        low = max(max(p.low, -p.high) for p in self.pairs)
        high = max(max(p.high, -p.low) for p in self.pairs)
        return max(low, 0.0), high


@dataclass(frozen=True, kw_only=True)
class Importance:
    """A column of a task."""

    task: str
    model: str
    policy: str
    trained: Trained
    patients: int
    macro: Group
    categories: Sequence[Group]
    """Those that some label has, in the order of the labels; NaN where no condition counts."""
    conditions: Sequence[Condition]
    unassigned: Sequence[str]
    """Labels without a category."""
