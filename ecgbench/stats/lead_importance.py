"""How well each condition is detected from one lead alone, and how certain that profile is.

Everything is made of placements (`auroc.placements`): their means over the positives are AUROCs,
exactly. AUROCs of half of the patients, and AUROCs after leads were exchanged, are the first-order
ones: mean placement of the positives + mean placement of the negatives - the AUROC (Hoeffding's
decomposition; DeLong et al. 1988, doi:10.2307/2531595). What they leave out is of the order of one
pair in all pairs.

Letters: lead l, record n, patient p, label k, draw d.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

HALVINGS = 100
EXCHANGES = 200
LEVEL = 0.95
"""A range above this quantile of the ranges of exchanged leads is not explained by chance."""
FLAT = 1e-12
"""Differences between leads that are smaller are rounding errors."""
FEWEST_HALVINGS = 20
"""Halvings in which a label has both values on both sides, below which it has no reliability."""


class Null(NamedTuple):
    """Ranges over leads where the leads of each patient are exchanged at random."""

    expected: float
    """Mean."""
    bound: float
    """Their quantile LEVEL."""


@dataclass(frozen=True, eq=False)
class Profiles:
    """Of some columns, each a label in one fold of a cross-validation, or the label itself.

    `target` (n, k) holds 1, 0, and -1 where a column is not known of a record; `patients` (n,) says
    whose each record is; `placements` (l, n, k) as `auroc.placements` gives them, or means of them
    over fits; `names` (k,) tell which columns are one label. ValueError on shapes that do not fit.
    """

    target: NDArray[np.int8]
    patients: NDArray[np.str_]
    placements: Floats
    names: Sequence[str]

    def __post_init__(self) -> None:
        n, k = self.target.shape
        if self.placements.shape[1:] != (n, k) or len(self.patients) != n or len(self.names) != k:
            raise ValueError(
                f"placements {self.placements.shape}, {len(self.patients)} patients and "
                f"{len(self.names)} names must fit the target {self.target.shape}"
            )

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Each label once, in the order of the columns."""
        return tuple(dict.fromkeys(self.names))

    @cached_property
    def positives(self) -> NDArray[np.int64]:
        """(label,) records that have it, in all folds."""
        return np.array(
            [(self.target[:, self._columns(label)] == 1).sum() for label in self.labels]
        )

    @cached_property
    def aurocs(self) -> Floats:
        """(l, label), the mean over folds; NaN where a label has no fold with both values."""
        return self._by_label(self._aurocs)

    def halves(self, draws: int, random: np.random.Generator) -> Floats:
        """(d, 2, l, label) AUROCs in halves of the patients, means over the folds in which a half
        has both values, the same folds for all leads; NaN where it has them in none.
        """
        patients = len(self._sums[0])
        chosen = np.zeros((draws, patients))
        for row in chosen:
            row[random.permutation(patients)[: patients // 2]] = 1.0
        return np.stack([self._within(chosen), self._within(1 - chosen)], axis=1)

    def exchanged(self, draws: int, random: np.random.Generator) -> Floats:
        """(d, l, label) AUROCs where the leads of each patient were put in an order of their own:
        what is expected if all leads are equally good.
        """
        positive, negative, of_positives, of_negatives = self._sums
        leads, columns = self._aurocs.shape
        with np.errstate(invalid="ignore", divide="ignore"):
            share = positive / of_positives.sum(axis=0) + negative / of_negatives.sum(axis=0)
        middle = self._aurocs.mean(axis=0)
        found = np.empty((draws, leads, columns))
        rows, first = share.reshape(-1, columns), leads * np.arange(len(share))
        for draw in found:
            order = np.argsort(random.random((len(share), leads)), axis=1)
            for lead in range(leads):
                draw[lead] = rows[first + order[:, lead]].sum(axis=0) - middle
        return self._by_label(found)

    def _columns(self, label: str) -> list[int]:
        return [i for i, name in enumerate(self.names) if name == label]

    def _by_label(self, values: Floats) -> Floats:
        """(..., column) -> (..., label): the mean over the columns that have both values."""
        defined = np.asarray(np.isfinite(self._aurocs).all(axis=0))
        parts = []
        for label in self.labels:
            mine = [i for i in self._columns(label) if defined[i]]
            nothing = np.full(values.shape[:-1], np.nan)
            parts.append(values[..., mine].mean(axis=-1) if mine else nothing)
        return np.stack(parts, axis=-1)

    @cached_property
    def _aurocs(self) -> Floats:
        """(l, column)."""
        positive, _, of_positives, _ = self._sums
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(positive.sum(axis=0) / of_positives.sum(axis=0))

    @cached_property
    def _sums(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Of each patient: sums of placements of positives and of negatives (p, l, column), and
        how many there are (p, 1, column).
        """
        of_record = np.unique(self.patients, return_inverse=True)[1]
        order = np.argsort(of_record, kind="stable")
        starts = np.flatnonzero(np.diff(of_record[order], prepend=-1))
        both = np.asarray(np.isfinite(self.placements).all(axis=0))

        def by_patient(values: Floats) -> Floats:
            return np.asarray(np.add.reduceat(values[order], starts, axis=0))

        made = []
        for value in (1, 0):
            mine = ((self.target == value) & both)[:, None]
            placed = np.where(mine, self.placements.transpose(1, 0, 2), 0.0)
            made += [by_patient(placed), by_patient(np.asarray(mine, np.float64))]
        positive, of_positives, negative, of_negatives = made
        return positive, negative, of_positives, of_negatives

    def _within(self, chosen: Floats) -> Floats:
        """(d, l, label) AUROCs among the patients that are `chosen` (d, p)."""
        positive, negative, of_positives, of_negatives = (
            np.tensordot(chosen, part, 1) for part in self._sums
        )
        with np.errstate(invalid="ignore", divide="ignore"):
            values = positive / of_positives + negative / of_negatives - self._aurocs
        known = np.isfinite(values)
        parts = []
        for label in self.labels:
            mine = self._columns(label)
            count = known[..., mine].sum(axis=-1)
            total = np.where(known, values, 0.0)[..., mine].sum(axis=-1)
            parts.append(np.where(count > 0, total / np.maximum(count, 1), np.nan))
        return np.stack(parts, axis=-1)


def points(aurocs: ArrayLike) -> Floats:
    """AUROCs (l, ...) less their mean over leads; NaN where one of them is."""
    values = np.asarray(aurocs, dtype=np.float64)
    return np.asarray(values - values.mean(axis=0))


def z_scores(aurocs: ArrayLike) -> Floats:
    """(l, ...) over the leads, with the standard deviation of just these leads (ddof 0); NaN where
    that is 0 or where an AUROC is NaN.
    """
    values = np.asarray(aurocs, dtype=np.float64)
    spread = values.std(axis=0)
    same = np.ptp(values, axis=0) < FLAT
    return np.asarray(points(values) / np.where(same, np.nan, spread))


def reliability(halves: ArrayLike) -> Floats:
    """(...,) how far a profile over leads is the same in other patients, 0 to 1, from AUROCs
    (d, 2, l, ...) of both halves: the median of Pearson's r between the halves, stepped up to all
    patients (Spearman 1910, Brown 1910: 2 r / (1 + r)); 0 where r is below 0, NaN with fewer than
    FEWEST_HALVINGS.
    """
    values = np.asarray(halves, dtype=np.float64)
    off = values - values.mean(axis=2, keepdims=True)
    off[np.abs(off) < FLAT] = 0.0
    first, second = off[:, 0], off[:, 1]
    size = np.sqrt((first**2).sum(axis=1) * (second**2).sum(axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        r = (first * second).sum(axis=1) / size
    known = np.isfinite(r)
    enough = known.sum(axis=0) >= FEWEST_HALVINGS
    median = np.nanmedian(np.where(enough, np.where(known, r, np.nan), 0.0), axis=0)
    positive = np.maximum(median, 0.0)
    return np.asarray(np.where(enough, 2 * positive / (1 + positive), np.nan))


def null(exchanged: ArrayLike) -> list[Null]:
    """Of AUROCs (d, l, k), for each k: ranges over leads where leads are exchangeable."""
    ranges = np.ptp(np.asarray(exchanged, dtype=np.float64), axis=1)
    bounds = np.quantile(ranges, LEVEL, axis=0)
    return [Null(float(mean), float(bound)) for mean, bound in zip(ranges.mean(axis=0), bounds)]


def simultaneous(values: ArrayLike, errors: ArrayLike, studentised: ArrayLike) -> Floats:
    """(2, contrast) 95 % bounds of contrasts that hold for all of them at once.

    `values` and standard `errors` (contrast,); `studentised` (d, contrast) joint draws of their
    errors over the standard ones (`Components.joint`). The largest of the lower bounds and the
    largest of the upper ones bound the largest of all the true values.
    """
    value, error = np.asarray(values, np.float64), np.asarray(errors, np.float64)
    largest = np.abs(np.asarray(studentised, dtype=np.float64)).max(axis=1)
    reach = float(np.quantile(largest, LEVEL))
    return np.stack([value - reach * error, value + reach * error])
