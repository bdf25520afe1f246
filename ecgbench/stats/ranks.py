"""Ranks of models over datasets: their means, and which pairs differ.

Ranks ignore how uncertain the scores within a dataset are.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecgbench.stats.paired import holm

Floats = NDArray[np.float64]


class Ranked(NamedTuple):
    """Ranks of models over datasets."""

    ranks: Floats
    """(model,) mean rank; 1 is the best, equal scores have the same rank."""
    p: Floats
    """(model, model) p of Wilcoxon's signed-rank test, two-sided, Holm over all pairs; 1 on the
    diagonal.
    """


def ranked(scores: ArrayLike) -> Ranked:
    """Ranks and tests of scores (dataset, model), where higher is better. ValueError where one is
    missing.

    The test is exact up to 50 datasets without ties (Wilcoxon 1945; Demšar 2006, JMLR 7:1-30;
    pairwise instead of Nemenyi's: Benavoli et al. 2016, JMLR 17:5).
    """
    from scipy.stats import rankdata, wilcoxon

    table = np.asarray(scores, np.float64)
    if table.ndim != 2 or not np.isfinite(table).all():
        raise ValueError(f"scores {table.shape} must be (dataset, model) without gaps")
    ranks = np.array([rankdata(-row) for row in table]).mean(axis=0)
    models = table.shape[1]
    pairs = list(combinations(range(models), 2))
    raw = []
    for i, j in pairs:
        difference = table[:, i] - table[:, j]
        raw.append(float(wilcoxon(difference).pvalue) if difference.any() else 1.0)
    p = np.eye(models)
    for (i, j), value in zip(pairs, holm(raw)):
        p[i, j] = p[j, i] = value
    return Ranked(ranks, p)


def smallest_p(datasets: int) -> float:
    """The smallest p that Wilcoxon's test can give for so many datasets, before Holm.

    >>> smallest_p(5)
    0.0625
    """
    return min(1.0, 2.0 ** (1 - datasets))
