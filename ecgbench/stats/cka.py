"""Debiased linear CKA: how alike two sets of features of the same records are, up to rotation and
scale.

Linear CKA compares the matrices of inner products of the records under two networks (Kornblith et
al. 2019, arXiv:1905.00414). Its plain form grows with the number of features and falls with the
number of records: independent features of as many dimensions as records are far from 0. The
numerators here are unbiased (Song et al. 2012, JMLR 13:1393), so that independent features have a
mean of 0. They are computed from features, X (record, d) and Y (record, e) with centred columns, as

    H(X, Y) = |X'Y|^2 - n/(n-2) sum_i |x_i|^2 |y_i|^2 + |X|^2 |Y|^2 / ((n-1)(n-2))

in memory of d x e, or from the (record, record) inner products where records are few; both are the
same number. CKA = H(X, Y) / sqrt(H(X, X) H(Y, Y)). It is not clipped: by chance it may be below 0
or above 1.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

LEAST = 4
"""The fewest records for which H is defined."""
FLAT = 1e-10
"""Of the squared norm: what is left of features without their means, and of |X|^4 what H(X, X) is;
features with no more do not vary, and have no CKA.
"""
BLOCK = 4096
"""Records that are multiplied at a time."""
DRAWS = 200
"""Permutations, and halves."""
MOST = 500
"""Records whose inner products are kept for permutations and halves."""


class Drawn(NamedTuple):
    """A CKA with its interval and its permutation test."""

    value: float
    """CKA of these records."""
    low: float
    high: float
    """95 % interval of the CKA of all records; NaN where there is none."""
    p: float
    """Two-sided p of the hypothesis that there is no relation; at least 1 / (draws + 1)."""
    null: float
    """Mean CKA over the permutations."""
    records: int
    """How many they are."""


def cka(x: ArrayLike, y: ArrayLike) -> float:
    """Debiased linear CKA of features (record, d) and (record, e) of the same records.

    NaN where the features of one side do not vary, or there are fewer than LEAST records.
    ValueError where they are not finite or not of the same records.
    """
    first, second = _centred(x), _centred(y)
    if len(first) != len(second):
        raise ValueError(f"{len(first)} records on one side, {len(second)} on the other")
    if len(first) < LEAST:
        return float("nan")
    self_similarity = _h(first, first), _h(second, second)
    floors = (FLAT * float(np.square(side).sum()) ** 2 for side in (first, second))
    if not all(h > floor for h, floor in zip(self_similarity, floors)):
        return float("nan")
    return float(_h(first, second) / np.sqrt(self_similarity[0] * self_similarity[1]))


def standardised(x: ArrayLike) -> Floats:
    """Features (record, d) with columns of mean 0 and deviation 1; those that do not vary are 0.

    A few columns of large numbers rule the raw CKA.
    """
    centred = _centred(x)
    deviation = np.sqrt(np.square(centred).mean(axis=0))
    return np.asarray(np.divide(centred, deviation, out=0 * centred, where=deviation > 0))


def _centred(x: ArrayLike) -> Floats:
    """Without the means of the columns; zeros where no more than rounding is left."""
    features: Floats = np.asarray(x, dtype=np.float64)
    if features.ndim != 2 or not np.isfinite(features).all():
        raise ValueError(f"features {features.shape} must be (record, dim) and finite")
    centred: Floats = np.subtract(features, features.mean(axis=0))
    if np.square(centred).sum() <= FLAT * np.square(features).sum():
        centred[:] = 0.0
    return centred


def _h(x: Floats, y: Floats) -> float:
    """H of features with centred columns."""
    n = len(x)
    squares = np.square(x).sum(axis=1), np.square(y).sum(axis=1)
    if n < min(x.shape[1], y.shape[1]):
        shared = float(np.vdot(x @ x.T, y @ y.T))
    else:
        blocks = (slice(at, at + BLOCK) for at in range(0, n, BLOCK))
        shared = float(np.square(sum(x[b].T @ y[b] for b in blocks)).sum())
    twice = float(squares[0] @ squares[1])
    whole = float(squares[0].sum() * squares[1].sum())
    return shared - n / (n - 2) * twice + whole / ((n - 1) * (n - 2))


@dataclass(frozen=True, eq=False)
class Products:
    """Inner products (record, record) of features of a few records, for draws of them."""

    values: Floats
    """The diagonal is 0."""
    squares: Floats
    """(record,): what stood on the diagonal."""

    @classmethod
    def of(cls, features: ArrayLike) -> "Products":
        """Of features (record, dim)."""
        centred = _centred(features)
        values = centred @ centred.T
        np.fill_diagonal(values, 0.0)
        return cls(values, np.square(centred).sum(axis=1))

    @cached_property
    def self_similarity(self) -> float:
        """H of these features with themselves."""
        return self.h(self, np.arange(len(self.values)))

    @property
    def flat(self) -> bool:
        """Whether they do not vary."""
        return not self.self_similarity > FLAT * float(self.squares.sum()) ** 2

    def h(self, other: "Products", order: NDArray[np.intp]) -> float:
        """H with the other side's records in this order: from sums that do not depend on the
        origin of the features.
        """
        n, mine = len(self.values), self.values
        theirs = other.values[np.ix_(order, order)]
        sums = mine.sum(axis=1), theirs.sum(axis=1)
        ends = sums[0].sum() * sums[1].sum() / ((n - 1) * (n - 2))
        return float(np.vdot(mine, theirs) + ends - 2 / (n - 2) * (sums[0] @ sums[1]))

    def part(self, records: NDArray[np.intp]) -> "Products":
        """Of some of the records."""
        return Products(self.values[np.ix_(records, records)], self.squares[records])


def ratio(first: Products, second: Products, order: NDArray[np.intp] | None = None) -> float:
    """CKA from inner products; `order`: of the second side's records. NaN where one side does not
    vary, or there are fewer than LEAST records.
    """
    n = len(first.values)
    if n < LEAST or first.flat or second.flat:
        return float("nan")
    order = np.arange(n) if order is None else order
    return first.h(second, order) / float(np.sqrt(first.self_similarity * second.self_similarity))


def drawn(first: Products, second: Products, records: int, random: np.random.Generator) -> Drawn:
    """Interval and permutation test of a CKA, from one record of each patient.

    records: number of records of the whole set, of which these are a part. The standard deviation
    of CKA over random halves of the records is its standard error for all of them: a half that is
    drawn without replacement varies about the whole as much as the whole varies about the truth.
    For a larger set it is smaller by the root of the ratio of the numbers of records.
    """
    n = len(first.values)
    value = ratio(first, second)
    if np.isnan(value):
        return Drawn(value, value, value, value, value, n)
    null = np.array([ratio(first, second, random.permutation(n)) for _ in range(DRAWS)])
    beyond = int((np.abs(null) >= abs(value)).sum())
    halves = [np.sort(random.permutation(n)[: n // 2]) for _ in range(DRAWS)]
    parts = np.array([ratio(first.part(half), second.part(half)) for half in halves])
    known = parts[np.isfinite(parts)]
    wide = (
        1.96 * float(known.std(ddof=1)) * float(np.sqrt(n / records)) if len(known) > 1 else np.nan
    )
    return Drawn(
        value=value,
        low=value - wide,
        high=value + wide,
        p=(beyond + 1) / (DRAWS + 1),
        null=float(null.mean()),
        records=n,
    )
