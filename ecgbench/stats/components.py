"""Variances of macro AUROCs and of their differences, from structural components over patients.

The *placement* of a record is the share of the other class on its right side (`auroc.placements`).
Placements of a patient's records, less the AUROC, are the patient's share in the error of the
AUROC: their squares sum to its variance (DeLong et al. 1988, doi:10.2307/2531595; patients with
several records: Obuchowski 1997, doi:10.2307/2533958). That is the variance V0 here. It is too
small where a label has few positives, as a label with one positive has no spread to show. Two
top-ups add what few positives cannot show: the first per label, towards the variance of a binormal
label of that AUROC; the second for records that are positive in several labels.

One positive semi-definite matrix per label serves every row and every difference of rows, so that
all comparisons of a table follow one set of formulas. Degrees of freedom are Satterthwaite's.

Folds of a cross-validation are columns that share a name. Their patients differ, but the patients
that are tested in one train the others: what is true by chance in this sample helps all folds at
once. The variance of a mean over J folds therefore grows by 1 + J n_test / n_train (Nadeau and
Bengio 2003, doi:10.1023/A:1024068626366).

Letters: row a (one column of a table: a model at a lead setting), record i, label k, patient g.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtri, ndtri, owens_t, stdtr, stdtrit

Floats = NDArray[np.float64]

SHRINKING = 10.0
"""Positives that the macro mean counts for where a label's prior variance is taken at its AUROC."""
SCALE_WEIGHT = 5.0
"""Labels with two positives that the binormal prior counts for in its own scale."""
PRIOR_DF = 3.0
"""Degrees of freedom of the prior variance of a label."""
SCORE_PRIOR = 1.25
"""What a score interval of one label allows the positives' variance beyond the binormal one."""
LEVEL = 0.95
ROUNDING = 1e-12
"""Of the rows' own variances: a difference with less has none."""
CERTAIN = 1e-13
"""A mean over labels that is nearer to 0 or 1 is 0 or 1; less than a pair in all pairs of a large
test set, more than what a sum over labels is off.
"""
_EDGE = 1e-6
_GRID = np.unique(np.concatenate([np.linspace(0.0005, 0.9995, 1999), 1 - np.geomspace(1e-5, 5e-4)]))


class Interval(NamedTuple):
    """Bounds of a 95 % interval; NaN where there is none."""

    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A macro AUROC or a difference of two, and how sure it is."""

    value: float
    variance: float
    df: float
    """Degrees of freedom of the variance; infinite where it is certain."""
    share: float
    """Largest share of the variance that comes from one label; NaN where there is no variance."""
    label: int
    """Which label that is, among the `names` of those with both values; -1 where there is no
    variance.
    """

    def plus(self, variance: float, df: float) -> "Estimate":
        """With an independent variance added, of as many degrees of freedom (Welch 1947)."""
        total = self.variance + variance
        if not total > 0:
            return self
        spread = self.variance**2 / self.df + variance**2 / df
        return Estimate(
            value=self.value,
            variance=total,
            df=total**2 / spread if spread > 0 else np.inf,
            share=self.share * self.variance / total,
            label=self.label,
        )

    def shifted(self, constant: float) -> "Estimate":
        """With a constant added to its value."""
        return replace(self, value=self.value + constant)

    @property
    def se(self) -> float:
        """Standard error."""
        return float(np.sqrt(self.variance))

    @property
    def t(self) -> float:
        """Quantile of Student's t that a two-sided 95 % interval takes."""
        # for infinite degrees stdtrit gives NaN
        return float(stdtrit(min(self.df, 1e12), (1 + LEVEL) / 2))

    def as_difference(self) -> Interval:
        """value +- t se."""
        return Interval(self.value - self.t * self.se, self.value + self.t * self.se)

    def as_share(self, t: float | None = None) -> Interval:
        """Interval of a value in 0..1, symmetric in logit, and to one side where the value is 0 or
        1; none without a variance. t: how many standard errors it reaches, if not `self.t`.
        """
        m = self.value
        if not self.variance > 0:
            return Interval(np.nan, np.nan)
        t = self.t if t is None else t
        if not CERTAIN < m < 1 - CERTAIN:
            return Interval(max(m - t * self.se, 0.0), min(m + t * self.se, 1.0))
        half = t * self.se / (m * (1 - m))
        odds = m / (1 - m) * np.exp([-half, half])
        return Interval(*map(float, odds / (1 + odds)))

    @property
    def p(self) -> float:
        """Two-sided p of the value 0; it has no smallest value. 1 where nothing differs at all."""
        if np.isnan(self.value) or np.isnan(self.variance):
            return float("nan")
        if not self.variance > 0:
            return 1.0 if self.value == 0 else float("nan")
        return float(2 * stdtr(min(self.df, 1e12), -abs(self.value) / self.se))


def reach(parts: Iterable[tuple[float, float]], tail: float) -> float:
    """Half the length of an interval about a sum of independent normal parts, of which estimated
    variances and their degrees of freedom are known; tail: what may lie beyond each end.

    It holds the truth at least as often as it says, whatever the true variances are (Banerjee,
    Sankhya 22:357, 1960): given the estimates, coverage is a concave function of the squared
    length, so that of the sum is no less than the mean of what each part alone would have.

    >>> round(reach([(0.01, 2)], 0.025), 3)  # one part: Student's interval
    0.43
    """
    quantiles = [(variance, stdtrit(min(df, 1e12), 1 - tail)) for variance, df in parts]
    return float(np.sqrt(sum(variance * t**2 for variance, t in quantiles)))


def independent_mean(estimates: Sequence[Estimate], weights: ArrayLike | None = None) -> Estimate:
    """Over estimates of other patients each, such as folds; `weights` sum to 1 (default: alike)."""
    n = len(estimates)
    w = np.full(n, 1 / n) if weights is None else np.asarray(weights, np.float64)
    if n == 1:
        return estimates[0]
    of_each = zip(w, estimates)
    total, *rest = (replace(e, value=w * e.value, variance=w * w * e.variance) for w, e in of_each)
    for e in rest:
        total = total.plus(e.variance, e.df).shifted(e.value)
    return replace(total, share=float("nan"), label=-1)


def binormal_variance(auroc: ArrayLike) -> Floats:
    """Variance of the placement of a random positive where both classes are normal with equal
    spread: A - A^2 - 2 T(h, 1/sqrt 3) with h = Phi^-1(A) and Owen's T (Owen 1956).

    >>> float(binormal_variance(0.5).round(6))  # of a uniform number
    0.083333
    """
    a = np.clip(np.asarray(auroc, dtype=np.float64), _EDGE, 1 - _EDGE)
    return np.asarray(a - a * a - 2 * owens_t(ndtri(a), 1 / np.sqrt(3)))


_PRIOR_ON_GRID = binormal_variance(_GRID)


class Components:
    """The AUROCs of some rows on the same records, and the variance of any contrast of the rows.

    `target` (n, k) holds 1, 0, and -1 where a label is not known of a record; `patients` (n,) says
    whose each record is; `placements` (rows, n, k) as `auroc.placements` gives them, or means of
    them over lead draws and fits; `weights` (k,) is what each label counts in a row's value
    (default: the same for each label that has both values, summing to 1). `names` (k,) tell which
    columns are one label, in several folds; default: each is its own. `overlap` (k,) is n_test /
    n_train of the fold of each column, 0 (default) where there is one test set. Labels without both
    values are left out. Raises ValueError on shapes that do not fit.
    """

    def __init__(
        self,
        target: ArrayLike,
        patients: ArrayLike,
        placements: ArrayLike,
        weights: ArrayLike | None = None,
        names: ArrayLike | None = None,
        overlap: ArrayLike = 0.0,
    ) -> None:
        target = np.asarray(target)
        placed = np.asarray(placements, dtype=np.float64)
        if target.ndim != 2 or placed.ndim != 3 or placed.shape[1:] != target.shape:
            raise ValueError(
                f"placements {placed.shape} must be (row, record, label) of target {target.shape}"
            )
        positive, negative = target == 1, target == 0
        self.defined: NDArray[np.bool_] = positive.any(axis=0) & negative.any(axis=0)
        """(k,) labels with both values."""
        positive, negative = positive[:, self.defined], negative[:, self.defined]
        placed = placed[:, :, self.defined]
        self.positives, self.negatives = positive.sum(axis=0), negative.sum(axis=0)
        """(k,) records with each of the defined labels, and without it."""
        alike = np.full(len(self.defined), 1 / max(self.defined.sum(), 1))
        self.weights = np.asarray(alike if weights is None else weights, np.float64)[self.defined]

        called = np.arange(len(self.defined)) if names is None else np.asarray(names)
        kept = called[self.defined].tolist()
        numbers = {name: i for i, name in enumerate(dict.fromkeys(kept))}
        self.names = tuple(numbers)
        """Of the defined labels, each once."""
        self.label_of = np.array([numbers[name] for name in kept], np.intp)
        """(k,) place among `names` of each of the defined columns."""
        self._overlap_of_folds = np.broadcast_to(np.asarray(overlap, float), len(called))
        codes = np.unique(np.asarray(patients), return_inverse=True)[1]
        if codes.shape != (len(target),):
            raise ValueError(f"{len(codes)} patients of {len(target)} records")
        order = np.argsort(codes, kind="stable")
        starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
        self.patients = len(starts)
        each_once = len(starts) == len(order)

        def by_patient(values: Floats) -> Floats:
            """(..., n, k) -> (..., patient, k)."""
            if each_once:
                return values[..., order, :]
            return np.asarray(np.add.reduceat(values[..., order, :], starts, axis=-2))

        self.aurocs: Floats = np.where(positive, placed, 0.0).sum(axis=1) / self.positives
        """(rows, k) of the defined labels."""
        centred = placed - self.aurocs[:, None]
        of_positives = np.where(positive, centred, 0.0)
        of_positives /= self.positives
        self._positive = by_patient(of_positives)
        centred[:, ~negative] = 0.0  # in its own memory: these are the largest arrays of a report
        centred /= self.negatives
        self._both = by_patient(centred)
        self._both += self._positive
        self._share_of_positives = by_patient(positive / self.positives)
        self._crowding = (by_patient(negative / self.negatives) ** 2).sum(axis=0)
        """(k,) 1 over how many patients' worth of negatives a label has."""

    @property
    def size(self) -> int:
        """Bytes that its arrays take, about."""
        return self._positive.nbytes + self._both.nbytes + self._share_of_positives.nbytes

    @property
    def values(self) -> Floats:
        """(rows,) macro AUROC."""
        return np.asarray(self.aurocs @ self.weights)

    @cached_property
    def _growth(self) -> Floats:
        """(k,) what the variance of each column is taken times."""
        folds = np.bincount(self.label_of, minlength=1)[self.label_of]
        return np.asarray(1 + folds * self._overlap_of_folds[self.defined])

    @cached_property
    def _counts(self) -> Floats:
        """(k,) what the error of each column counts in that of a row's value."""
        return np.asarray(self.weights * np.sqrt(self._growth))

    @cached_property
    def _perfect(self) -> NDArray[np.bool_]:
        """(rows,) whether all pairs are ordered, or none: such a row shows no variance."""
        none, every = self.aurocs < CERTAIN, self.aurocs > 1 - CERTAIN
        return np.asarray(none.all(axis=1) | every.all(axis=1))

    @cached_property
    def _sizes(self) -> Floats:
        """(k,) m: how many patients' worth of positives a label has; n1 where each has one."""
        return np.asarray(1 / (self._share_of_positives**2).sum(axis=0))

    @cached_property
    def _overlap(self) -> tuple[Floats, Floats]:
        """(k, k) X, how far two labels' positives are the same patients, and E, the part of it that
        centring leaves visible.
        """
        w = self._share_of_positives
        x, cubic = w.T @ w, (w**2).T @ w
        return x, x - cubic - cubic.T + x * x

    @cached_property
    def _psi(self) -> Floats:
        """(rows, patient) each patient's share in the error of the macro."""
        return np.asarray(self._both @ self._counts)

    @cached_property
    def _together(self) -> Floats:
        """(rows, patient) each patient's share in the errors of all labels by its positives."""
        return np.asarray(self._positive.sum(axis=2))

    @cached_property
    def _carried(self) -> Floats:
        """(k, rows, rows) covariances of the rows' errors in each label."""
        return np.asarray((self._psi @ self._both).transpose(2, 1, 0))

    @cached_property
    def _spread(self) -> tuple[Floats, Floats]:
        """(k, rows, rows) S, the positives' squares, and Sigma, the same with its prior."""
        by_label = self._positive.transpose(2, 0, 1)
        m = self._sizes[:, None, None]
        s = m * m * (by_label @ by_label.transpose(0, 2, 1))
        sigma = (s + PRIOR_DF * self._prior(s)) / (m - 1 + PRIOR_DF)
        return s, sigma

    def _prior(self, s: Floats) -> Floats:
        """(k, rows, rows) Q: binormal variances of the rows, scaled to what all labels show, with
        the correlation between rows that all labels show.
        """
        n1, macro = self.positives, self.values[:, None]
        shrunk = (n1 * self.aurocs + SHRINKING * macro) / (n1 + SHRINKING)
        binormal = binormal_variance(shrunk)
        observed = np.einsum("kaa->a", s)
        few = SCALE_WEIGHT * binormal.mean(axis=1)
        scale = (observed + few) / ((binormal * (self._sizes - 1)).sum(axis=1) + few)
        deviation = np.sqrt(binormal * scale[:, None]).T
        total = s.sum(axis=0)
        size = np.sqrt(np.diag(total))
        # rows whose positives show no spread show no correlation either: taken as unrelated
        correlation = np.eye(len(total))
        known = size > 0
        correlation[np.ix_(known, known)] = total[np.ix_(known, known)] / np.outer(
            size[known], size[known]
        )
        np.fill_diagonal(correlation, 1.0)
        return np.asarray(deviation[:, :, None] * deviation[:, None, :] * correlation)

    def _doubted(self, found: Estimate, c: Floats, weights: Floats) -> Estimate:
        """A contrast of the rows (rows,) with the uncertainty of its perfect rows.

        A perfect row reaches as far as a score interval of the mean does: to all AUROCs that the
        data do not refuse, where the errors of the labels, as in `label_interval`, add, which no
        dependence between labels exceeds; variances of folds add. Between two perfect rows the
        difference reaches as far as one of them.
        """
        inwards = np.where(self._perfect, np.where(self.values > 0.5 * weights.sum(), c, -c), 0.0)
        farthest = max(inwards[inwards > 0].sum(), -inwards[inwards < 0].sum())
        if not farthest > 0:
            return found
        spread = weights**2 * self._growth * (SCORE_PRIOR / self._sizes + self._crowding)
        df = 2 * np.bincount(self.label_of, self._sizes * (weights > 0)) + 4
        far = stdtrit(df, (1 + LEVEL) / 2) @ np.sqrt(np.bincount(self.label_of, spread))
        inside = np.argmax(weights.sum() * (1 - _GRID) <= far * np.sqrt(_PRIOR_ON_GRID))
        low = float(_GRID[inside]) if inside else 0.0
        least = float(df[df > 4].min())
        se = farthest * weights.sum() * (1 - low) / float(stdtrit(least, (1 + LEVEL) / 2))
        return found.plus(float(se) ** 2, least)

    def contrast(self, weights: ArrayLike) -> Estimate:
        """The sum of the rows' values with these weights (rows,), e.g. (1, -1) for a difference.

        NaN variance with fewer than two patients or no label that has both values.
        """
        c = np.asarray(weights, dtype=np.float64)
        if c.shape != (len(self.aurocs),):
            raise ValueError(f"weights {c.shape} must be ({len(self.aurocs)},), one per row")
        return self._estimate(c)[0]

    def row(self, a: int) -> Estimate:
        """The value of one row."""
        return self.contrast(np.eye(len(self.aurocs))[a])

    def difference(self, a: int, b: int) -> Estimate:
        """Row a less row b."""
        one = np.eye(len(self.aurocs))
        return self.contrast(one[a] - one[b])

    def interval(self, a: int, added: float = 0.0) -> Interval:
        """Of a row's value, to which a constant may be `added`: that of its label where it has one
        label, else symmetric in logit.
        """
        if len(self.names) == 1 and not added:
            return self.label_interval(a, 0)
        return self.row(a).shifted(added).as_share()

    def _estimate(self, c: Floats) -> tuple[Estimate, float, float]:
        """The contrast, V0 and its second top-up."""
        value = float(c @ self.values) if len(self.weights) else np.nan
        if self.patients < 2 or not len(self.weights):
            nothing = Estimate(value=value, variance=np.nan, df=np.nan, share=np.nan, label=-1)
            return nothing, np.nan, np.nan
        g, m, w = self.patients, self._sizes, self._counts
        used = np.flatnonzero(np.where(self._perfect, 0.0, c))
        s_matrix, sigma_matrix = (x[:, used][:, :, used] for x in self._spread)
        few = c[used]
        psi = few @ self._psi[used]
        v0 = float(psi @ psi) * g / (g - 1)
        s = np.einsum("kab,a,b->k", s_matrix, few, few)
        sigma2 = np.maximum(np.einsum("kab,a,b->k", sigma_matrix, few, few), 0.0)
        of_label = sigma2 / m
        first = w**2 * np.maximum(of_label - s / m**2, 0.0)

        x, e = self._overlap
        sigma = np.sqrt(sigma2)
        both = np.outer(sigma, sigma)
        np.fill_diagonal(both, 0.0)
        together = few @ self._together[used]
        observed = float(together @ together - (s / m**2).sum())
        expected = float((e * both).sum())
        rho = float(np.clip(observed / expected, 0, 1)) if expected > 0 else 0.0
        across = rho * (x - e) * both * np.outer(w, w)
        second = max(float(across.sum()), 0.0)
        variance = v0 + float(first.sum()) + second
        # what rows that order all records alike leave of their own variances is rounding
        unshared = float((w**2 * (np.einsum("kaa,a->k", sigma_matrix, few**2) / m)).sum())
        if not variance > ROUNDING * unshared:
            value = 0.0 if abs(value) < ROUNDING else value
            same = Estimate(value=value, variance=0.0, df=np.inf, share=np.nan, label=-1)
            return self._doubted(same, c, self.weights), 0.0, 0.0

        c_matrix = rho * x * both * np.outer(w, w)
        np.fill_diagonal(c_matrix, w**2 * of_label)
        f = m + PRIOR_DF - 1
        spread = float((c_matrix**2 / np.sqrt(np.outer(f, f))).sum())
        rest = max(variance - float(c_matrix.sum()), 0.0)
        df1 = variance**2 / (spread + rest**2 / g)
        fourth = float(((psi**2) ** 2).sum()) - v0**2 / g
        df = 1 / (1 / df1 + (fourth / (2 * v0**2) if fourth > 0 and v0 > 0 else 0.0))

        own = np.einsum("kab,a,b->k", self._carried[:, used][:, :, used], few, few) * w
        shares = (g / (g - 1) * own + first) / variance
        if second > 0:
            shares = shares + across.sum(axis=0) / variance
        shares = np.bincount(self.label_of, shares)  # of one label in all its folds
        label = int(np.argmax(shares))
        estimate = Estimate(
            value=value, variance=variance, df=df, share=float(shares[label]), label=label
        )
        return self._doubted(estimate, c, self.weights), v0, second

    def by_label(self, weights: ArrayLike) -> list[Estimate]:
        """A contrast of the rows (rows,) in each of `names` by itself: `contrast` with all weight
        on the columns of one label, whose prior the other labels still inform.
        """
        c = np.asarray(weights, dtype=np.float64)
        columns = self._by_column(c)
        made = []
        for label in range(len(self.names)):
            own = self._within(label)
            found = independent_mean([columns[k] for k in np.flatnonzero(own)], own[own > 0])
            growth = float(self._growth[np.argmax(own)])
            found = replace(found, variance=found.variance * growth)
            if found.variance > 0:
                found = replace(found, share=1.0, label=label)
            made.append(self._doubted(found, c, own))
        return made

    def _within(self, label: int) -> Floats:
        """(k,) what each of the defined columns counts in the value of one of `names`."""
        own = np.where(self.label_of == label, self.weights, 0.0)
        return np.asarray(own / own.sum())

    def _by_column(self, c: Floats) -> list[Estimate]:
        """A contrast of the rows in each of the defined columns."""
        used = np.flatnonzero(np.where(self._perfect, 0.0, c))
        few = c[used]
        g, m = self.patients, self._sizes
        values = c @ self.aurocs
        if g < 2:
            return [
                Estimate(value=float(v), variance=np.nan, df=np.nan, share=np.nan, label=-1)
                for v in values
            ]
        s_matrix, sigma_matrix = (x[:, used][:, :, used] for x in self._spread)
        squares = np.tensordot(few, self._both[used], 1) ** 2
        v0 = squares.sum(axis=0) * g / (g - 1)
        fourths = (squares**2).sum(axis=0) - v0**2 / g
        s = np.einsum("kab,a,b->k", s_matrix, few, few)
        own = np.maximum(np.einsum("kab,a,b->k", sigma_matrix, few, few), 0.0) / m
        variance = v0 + np.maximum(own - s / m**2, 0.0)
        unshared = np.einsum("kaa,a->k", sigma_matrix, few**2) / m
        made = []
        for k in range(len(m)):
            v, value = float(variance[k]), float(values[k])
            if not v > ROUNDING * unshared[k]:
                value = 0.0 if abs(value) < ROUNDING else value
                made.append(Estimate(value=value, variance=0.0, df=np.inf, share=np.nan, label=-1))
                continue
            rest = max(v - float(own[k]), 0.0)
            f = m[k] + PRIOR_DF - 1
            inverse = (own[k] ** 2 / f + rest**2 / g) / v**2
            if fourths[k] > 0 and v0[k] > 0:
                inverse += fourths[k] / (2 * v0[k] ** 2)
            df = float(1 / inverse)
            made.append(Estimate(value=value, variance=v, df=df, share=np.nan, label=-1))
        return made

    def label_interval(self, a: int, label: int, t: float | None = None) -> Interval:
        """95 % score interval of the AUROC of one of `names` in a row; t: as in `as_share`.

        All AUROCs theta that the data do not refuse, |A - theta| <= t sqrt(variance at theta); the
        variance at theta is at least the binormal one, so that one positive that lies above all
        negatives does not look like certainty. Variances of folds add.
        """
        if self.patients < 2:
            return Interval(np.nan, np.nan)
        share = self._within(label)
        of = np.flatnonzero(share)
        auroc, m, crowding = float(share @ self.aurocs[a]), self._sizes[of], self._crowding[of]
        counts = share[of] ** 2 * self._growth[of]
        positive = self._positive[a][:, of]
        negative = self._both[a][:, of] - positive
        # the same patients as both: their placements err together
        shared = np.maximum(2 * np.einsum("gk,gk->k", positive, negative), 0.0)
        observed, others = (np.einsum("gk,gk->k", x, x) for x in (positive, negative))
        observed *= np.divide(m, m - 1, out=np.zeros_like(m), where=m > 1)
        others = np.divide(others, 1 - crowding, out=np.zeros_like(m), where=crowding < 1)
        variance = (
            np.maximum(counts @ observed, SCORE_PRIOR * _PRIOR_ON_GRID * (counts @ (1 / m)))
            + np.maximum(counts @ others, _PRIOR_ON_GRID * (counts @ crowding))
            + counts @ shared
        )
        t = float(stdtrit(2 * m.sum() + 4, (1 + LEVEL) / 2)) if t is None else t
        inside = np.flatnonzero(np.abs(auroc - _GRID) <= t * np.sqrt(variance))
        if not len(inside):
            return Interval(auroc, auroc)
        low = 0.0 if inside[0] == 0 else float(_GRID[inside[0]])
        high = 1.0 if inside[-1] == len(_GRID) - 1 else float(_GRID[inside[-1]])
        return Interval(min(low, auroc), max(high, auroc))

    def joint(self, contrasts: ArrayLike, draws: ArrayLike, random: np.random.Generator) -> Floats:
        """Joint draws (draw, contrast) of the studentised errors of some contrasts (contrast,
        rows), for statements about all of them at once: maximum, order, tiers.

        `draws` (draw, patient), standard normal, patients in sorted order: the same patients' draws
        in another table make both move together. The rest, what the top-ups add and one chi-square
        for all contrasts, comes from `random`. A contrast without variance gives NaN.
        """
        rows = np.asarray(contrasts, dtype=np.float64)
        normal = np.asarray(draws, dtype=np.float64)
        if normal.ndim != 2 or normal.shape[1] != self.patients:
            raise ValueError(f"draws {normal.shape} must be (draw, {self.patients} patients)")
        if self.patients < 2 or not len(self.weights):
            return np.full((len(normal), len(rows)), np.nan)
        made = [self._estimate(c) for c in rows]
        variance = np.array([e.variance for e, _, _ in made])
        second = np.array([s for _, _, s in made])
        psi = self._psi.T @ rows.T
        patients = np.sqrt(self.patients / max(self.patients - 1, 1)) * (normal @ psi)
        s, sigma = self._spread
        m, w = self._sizes[:, None, None], self._counts[:, None, None]
        first = rows @ (w * w * (sigma / m - s / m**2)).sum(axis=0) @ rows.T
        size = np.sqrt(np.maximum(np.einsum("cd,cd->c", rows @ sigma.sum(axis=0), rows), 1e-300))
        alike = rows @ sigma.sum(axis=0) @ rows.T / np.outer(size, size)
        value, vector = np.linalg.eigh(first + np.sqrt(np.outer(second, second)) * alike)
        root = vector * np.sqrt(np.maximum(value, 0.0))
        errors = patients + random.standard_normal((len(normal), len(rows))) @ root.T
        now = (psi**2).sum(axis=0) * self.patients / max(self.patients - 1, 1) + (root**2).sum(
            axis=1
        )
        df = np.minimum([e.df for e, _, _ in made], 1e9)
        chance = random.random((len(normal), 1))
        chi = chdtri(df[None, :], 1 - chance) / df[None, :]
        with np.errstate(invalid="ignore", divide="ignore"):
            studentised = errors / np.sqrt(now) / np.sqrt(chi)
        return np.asarray(np.where(variance > 0, studentised, np.nan))
