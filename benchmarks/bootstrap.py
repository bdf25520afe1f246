"""Macro-AUROC bootstrap of 2,198 records x 71 labels x 1,000 draws beside a loop over
sklearn.metrics.roc_auc_score, in one process.

`python benchmarks/bootstrap.py`. The loop is timed on a few draws spread over the replicates and
scaled to all; the largest difference on those draws is printed beside the ratio.
"""

import warnings
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import roc_auc_score
from timer import machine, medians

from ecgbench.core.seeds import rng
from ecgbench.stats.auroc import placements, wins
from ecgbench.stats.bootstrap import (
    label_replicates,
    macro_replicates,
    patient_weights,
    percentile_interval,
)
from ecgbench.stats.components import Components
from ecgbench.stats.paired import paired_difference

RECORDS, PATIENTS, LABELS, DRAWS, SKLEARN_DRAWS = 2198, 1905, 71, 1000, 10
TARGET = 150


def problem() -> tuple[NDArray[np.str_], NDArray[np.bool_], NDArray[np.float32]]:
    """Patients, targets and scores of the size of PTB-XL's fold 10; prevalences from 0.1 % to 76
    %.
    """
    random = rng("benchmark", "bootstrap")
    patients = random.integers(0, PATIENTS, RECORDS).astype(str)
    target = random.random((RECORDS, LABELS)) < np.geomspace(0.001, 0.76, LABELS)
    target[:2] = [[True], [False]]
    return patients, target, (random.standard_normal((RECORDS, LABELS)) + target).astype(np.float32)


def sklearn_resampled(
    target: NDArray[Any], score: NDArray[Any], weight: NDArray[Any]
) -> list[float]:
    """One multinomial draw as one usually writes it: the records repeated, a call per label."""
    rows = np.repeat(np.arange(len(weight)), weight)
    y, s = target[rows], score[rows]
    return [roc_auc_score(y[:, k], s[:, k]) for k in range(y.shape[1])]


def seconds(call: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Median wall time of some calls, and the last result."""
    results: list[Any] = []
    (median,) = medians([lambda: results.append(call())], repeats)
    return median, results[-1]


def measure() -> None:
    """Print one line."""
    patients, target, score = problem()
    drawing, weights = seconds(lambda: patient_weights(patients, DRAWS, rng("weights")), 3)
    ours, replicates = seconds(lambda: label_replicates(target, score, weights), 5)
    rows = np.linspace(0, DRAWS - 1, SKLEARN_DRAWS).astype(int)
    took, values = seconds(lambda: [sklearn_resampled(target, score, weights[r]) for r in rows], 2)
    scaled = took * DRAWS / SKLEARN_DRAWS
    np.testing.assert_allclose(replicates[rows], values, rtol=0, atol=1e-9)
    apart = np.nanmax(np.abs(np.array(values) - replicates[rows]))
    print(
        f"{ours:.3f} s for {DRAWS} replicates of {LABELS} labels ({drawing:.3f} s to draw the "
        f"weights, not counted); scikit-learn: {scaled:.1f} s ({SKLEARN_DRAWS} draws in {took:.2f} "
        f"s, scaled) -> {scaled / ours:.0f} times (target {TARGET}); largest difference {apart:.1e}"
    )


def grid() -> None:
    """Eight columns scored and compared: by placements, and by a bootstrap."""
    patients, target, score = problem()
    random = rng("benchmark", "columns")
    scores = [score + random.standard_normal(score.shape).astype(np.float32) for _ in range(8)]
    pairs = list(combinations(range(len(scores)), 2))

    def by_placements() -> None:
        placed = np.stack([placements(target, wins(target, s)) for s in scores])
        made = Components(target, patients, placed)
        for a in range(len(scores)):
            made.interval(a)
            for label in range(LABELS):
                made.label_interval(a, label)
        for a, b in pairs:
            made.difference(a, b)

    def by_draws() -> None:
        weights = patient_weights(patients, DRAWS, rng("weights", "grid"))
        every = [label_replicates(target, s, weights) for s in scores]
        macros = [macro_replicates(r, np.ones(LABELS, bool))[0] for r in every]
        for column in (*macros, *(r for of_one in every for r in of_one.T)):
            percentile_interval(column)
        for a, b in pairs:
            paired_difference(0.5, 0.5, macros[a], macros[b])

    ours, draws = (seconds(way, 3)[0] for way in (by_placements, by_draws))
    print(
        f"8 columns x {LABELS} labels scored and compared: {ours:.3f} s by placements, {draws:.3f} "
        f"s by {DRAWS} draws -> {draws / ours:.1f} times (target 5)"
    )


if __name__ == "__main__":
    warnings.simplefilter("ignore", UndefinedMetricWarning)
    print(f"{machine()}; {RECORDS} records, numpy {np.__version__}")
    measure()
    grid()
