"""Numbers whose error comes from patients: what each patient adds to it, and intervals.

A number keeps what every patient adds to its error: the patient's influence. Records of one patient
go together, means over lead draws or labels are means of these parts, and the sum of their squares
is the variance: that of drawing patients, without drawing them. `benchmarks/folds.py` measures how
often intervals of sensitivities hold the truth over folds.

Many labels are taken together: every shape may begin with axes of labels, written `...`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from ecgbench.stats.components import LEVEL

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
Bools = NDArray[np.bool_]


class Ends(NamedTuple):
    """Bounds of 95 % intervals, each (...); NaN where there is none."""

    low: Floats
    high: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Patients:
    """The patients of some records."""

    of_record: Ints
    """(record,) number of its patient."""
    count: int
    """Number of patients."""
    growth: float = 1.0
    """What variances over these patients are taken times: over folds that train one another as
    `components` says of AUROCs, else 1.
    """

    @classmethod
    def of(cls, names: ArrayLike) -> "Patients":
        """From the name of the patient of each record; patients are in alphabetical order."""
        known, numbers = np.unique(np.asarray(names, dtype=str), return_inverse=True)
        return cls(of_record=numbers, count=len(known))

    @cached_property
    def _each_once(self) -> bool:
        """Whether each patient has one record, in their order."""
        return len(self.of_record) == self.count and bool(
            (self.of_record == np.arange(self.count)).all()
        )

    def sums(self, values: Floats) -> Floats:
        """(..., patient) sums of (..., record)."""
        if self._each_once:
            return values
        rows = _rows(values)
        numbers = self.of_record + self.count * np.arange(len(rows))[:, None]
        made = np.bincount(numbers.ravel(), rows.ravel(), len(rows) * self.count)
        return np.asarray(made.reshape(*values.shape[:-1], self.count), np.float64)

    def only(self, records: Bools) -> "Patients":
        """The same patients, with some of the records."""
        return replace(self, of_record=self.of_record[records])

    def number(self, records: Bools) -> Ints:
        """(...) how many patients have one of these records (..., record)."""
        if self._each_once:
            return np.asarray(np.count_nonzero(records, axis=-1))
        rows = _rows(records)
        there = np.zeros((len(rows), self.count), bool)
        which, record = np.nonzero(rows)
        there[which, self.of_record[record]] = True
        return np.asarray(np.count_nonzero(there, axis=-1).reshape(records.shape[:-1]))


def _rows(values: NDArray[Any]) -> NDArray[Any]:
    """(..., record) as (row, record), also of no record."""
    return values.reshape(prod(values.shape[:-1]), values.shape[-1])


@dataclass(frozen=True, kw_only=True, eq=False)
class Influence:
    """A number, and what each patient adds to its error."""

    value: Floats
    """(...)."""
    parts: Floats
    """(..., patient) their sum is 0."""
    units: Ints
    """(...) patients that it rests on: those of the smaller class where there are two."""
    growth: float = 1.0
    """Of its `Patients`."""
    most: Ints | int = 0
    """(...) how many independent patients a share can be worth, where that is not `units`: a mean
    over labels rests on more than each of them.
    """

    def __getitem__(self, labels: Any) -> "Influence":
        """Of some labels."""
        value, units = np.asarray(self.value)[labels], np.asarray(self.units)[labels]
        return Influence(value=value, parts=self.parts[labels], units=units, growth=self.growth)

    @cached_property
    def variance(self) -> Floats:
        """(...) over draws of patients."""
        more = self.units / np.maximum(np.asarray(self.units) - 1, 1)
        own = np.einsum("...p,...p->...", self.parts, self.parts)
        return np.asarray(self.growth * more * own)

    def interval(self) -> Ends:
        """95 % interval, symmetric, with Student's t; NaN where patients show no difference or one
        patient is all there is.
        """
        none = (np.asarray(self.units) < 2) | ~(self.variance > 0)
        reach = np.where(none, np.nan, _t(self.units) * np.sqrt(self.variance))
        return Ends(self.value - reach, self.value + reach)

    def share_interval(self) -> Ends:
        """95 % interval of a share: Wilson's, of as many independent patients as have its variance
        (Korn and Graubard 1998, "Confidence intervals for proportions with small expected number of
        positive counts estimated from survey data"), and never of more than there are: it has a
        width where all patients agree, too.
        """
        p, n = np.asarray(self.value), np.asarray(self.units, np.float64)
        some, most = self.variance > 0, np.where(np.asarray(self.most) > 0, self.most, n)
        n, most = n / self.growth, most / self.growth
        worth = np.divide(p * (1 - p), self.variance, out=np.array(most), where=some)
        n = np.where(some, np.minimum(most, worth), n)
        low, high = wilson(p, n, _t(self.units))
        none = np.asarray(self.units) < 2
        return Ends(np.where(none, np.nan, low), np.where(none, np.nan, high))


def wilson(share: ArrayLike, n: ArrayLike, quantile: ArrayLike) -> Ends:
    """Wilson's interval of a share of n (1927, doi:10.1080/01621459.1927.10502953), all (...).

    >>> [round(float(end), 4) for end in wilson(0.9, 20, 1.959964)]
    [0.699, 0.9721]
    """
    share = np.asarray(share, np.float64)
    z = np.square(quantile) / np.asarray(n, np.float64)
    reach = np.sqrt(z * share * (1 - share) + z**2 / 4)
    middle = share + z / 2
    low, high = (middle - reach) / (1 + z), (middle + reach) / (1 + z)
    return Ends(np.maximum(0.0, low), np.minimum(1.0, high))


def _t(units: ArrayLike) -> Floats:
    """(...) quantile of Student's t; NaN of fewer than 2 units."""
    units = np.asarray(units)
    made = [_quantile(one) for one in units.ravel().tolist()]
    return np.array(made).reshape(units.shape)


@lru_cache(maxsize=4096)
def _quantile(units: int) -> float:
    return float(stdtrit(units - 1, (1 + LEVEL) / 2)) if units > 1 else float("nan")


def share(hit: ArrayLike, of: Bools, patients: Patients) -> Influence:
    """Mean of `hit` (..., record), between 0 and 1 or any other number, over the records `of`
    (..., record), of which there is one at least.
    """
    n = np.asarray(np.count_nonzero(of, axis=-1))
    hits, counts = np.asarray(hit, dtype=np.float64), of.astype(np.float64)
    # divided last: where all hit the value is 1, and nobody is off by a rounding error
    value = np.asarray(np.einsum("...r,...r->...", hits, counts) / n)
    off = hits - value[..., None]
    off *= counts
    parts = patients.sums(off) / n[..., None]
    return Influence(value=value, parts=parts, units=patients.number(of), growth=patients.growth)


def smaller_class(target: Bools, patients: Patients) -> Ints:
    """(...) patients of the class that fewer have; target (..., record)."""
    return np.minimum(patients.number(target), patients.number(~target))


def mean(estimates: Sequence[Influence]) -> Influence:
    """Mean over lead draws or fits of the same patients."""
    if len(estimates) == 1:
        return estimates[0]
    return Influence(
        value=np.mean([e.value for e in estimates], axis=0),
        parts=np.mean([e.parts for e in estimates], axis=0),
        units=np.min([e.units for e in estimates], axis=0),
        growth=estimates[0].growth,
    )


def mean_of_labels(of: Influence) -> Influence:
    """Mean over labels, the first axis, whose patients differ in part."""
    return Influence(
        value=np.mean(of.value, axis=0),
        parts=np.mean(of.parts, axis=0),
        units=np.min(of.units, axis=0),
        growth=of.growth,
        most=np.sum(of.units, axis=0),
    )


def together(of: Sequence[Influence]) -> Influence:
    """Labels of several estimates of the same patients, one after the other."""
    if len(of) == 1:
        return of[0]
    joined = (
        np.concatenate([getattr(e, name) for e in of]) for name in ("value", "parts", "units")
    )
    value, parts, units = joined
    return Influence(value=value, parts=parts, units=units, growth=of[0].growth)
