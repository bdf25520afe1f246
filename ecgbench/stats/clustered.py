"""Estimates whose error comes from patients: each patient's part in the error, and intervals.

An estimate keeps what each patient adds to its error (its influence). Records of one patient go
together, means over lead draws or labels are means of these parts, and the sum of their squares is
the variance: that of drawing patients, without drawing them. `benchmarks/operating.py` measures
what the intervals cover, beside those of drawn patients.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from ecgbench.stats.components import LEVEL, Interval

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]


@dataclass(frozen=True, kw_only=True, eq=False)
class Patients:
    """Whose the records are."""

    of_record: Ints
    """(record,) place of its patient."""
    count: int
    """How many places there are."""

    @classmethod
    def of(cls, names: ArrayLike) -> "Patients":
        """Of the patient of each record, in alphabetical order."""
        known, places = np.unique(np.asarray(names, dtype=str), return_inverse=True)
        return cls(of_record=places, count=len(known))

    def sums(self, values: Floats) -> Floats:
        """(patient,) sums of (record,)."""
        return np.asarray(np.bincount(self.of_record, values, self.count), np.float64)

    def only(self, records: NDArray[np.bool_]) -> "Patients":
        """The same places, of some records."""
        return Patients(of_record=self.of_record[records], count=self.count)

    def number(self, records: NDArray[np.bool_]) -> int:
        """How many patients have one of these records."""
        return int(np.count_nonzero(np.bincount(self.of_record[records], minlength=1)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimate:
    """A number, and what each patient adds to its error."""

    value: float
    parts: Floats
    """(patient,) their sum is 0."""
    units: int
    """Patients that it rests on: those of the smaller class where there are two."""
    most: int = 0
    """How many independent patients a share can be worth, where that is not `units`: a mean over
    labels rests on more than each of them.
    """

    @cached_property
    def variance(self) -> float:
        """Over draws of patients."""
        more = self.units / max(self.units - 1, 1)
        return float(more * (self.parts**2).sum())

    def interval(self) -> Interval:
        """95 % interval, symmetric, with Student's t; NaN where patients show no difference or one
        patient is all there is.
        """
        if self.units < 2 or self.variance <= 0:
            return Interval(float("nan"), float("nan"))
        reach = _t(self.units) * np.sqrt(self.variance)
        return Interval(float(self.value - reach), float(self.value + reach))

    def share_interval(self) -> Interval:
        """95 % interval of a share: Wilson's, of as many independent patients as have its variance
        (Korn and Graubard 1998, "Confidence intervals for proportions with small expected number of
        positive counts estimated from survey data"), and never of more than there are: it has a
        width where all patients agree, too.
        """
        if self.units < 2:
            return Interval(float("nan"), float("nan"))
        p, n = self.value, float(self.units)
        if self.variance > 0:
            n = min(float(self.most or self.units), p * (1 - p) / self.variance)
        return wilson(p, n, _t(self.units))


def wilson(share: float, n: float, quantile: float) -> Interval:
    """Wilson's interval of a share of n (1927, doi:10.1080/01621459.1927.10502953).

    >>> [round(end, 4) for end in wilson(0.9, 20, 1.959964)]
    [0.699, 0.9721]
    """
    z = quantile**2 / n
    reach = np.sqrt(z * share * (1 - share) + z**2 / 4)
    middle = share + z / 2
    ends = (middle - reach) / (1 + z), (middle + reach) / (1 + z)
    return Interval(float(max(0.0, ends[0])), float(min(1.0, ends[1])))


def _t(units: int) -> float:
    return float(stdtrit(units - 1, (1 + LEVEL) / 2))


def share(hit: ArrayLike, of: NDArray[np.bool_], patients: Patients) -> Estimate:
    """Mean of `hit` (record,), between 0 and 1 or any other number, over the records `of`
    (record,), of which there is one at least.
    """
    values = np.asarray(hit, dtype=np.float64)[of]
    whose = patients.only(of)
    value = float(values.mean())
    return Estimate(
        value=value,
        parts=whose.sums(values - value) / len(values),
        units=patients.number(of),
    )


def mean(estimates: Sequence[Estimate]) -> Estimate:
    """Over lead draws or fits, of the same patients."""
    return Estimate(
        value=float(np.mean([e.value for e in estimates])),
        parts=np.mean([e.parts for e in estimates], axis=0),
        units=min(e.units for e in estimates),
    )


def mean_of_labels(estimates: Sequence[Estimate]) -> Estimate:
    """Over labels, whose patients are others in part."""
    return replace(mean(estimates), most=sum(e.units for e in estimates))
