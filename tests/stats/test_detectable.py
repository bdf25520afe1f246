"""The smallest difference that a study finds: simulated, and before it from the labels alone."""

import numpy as np
import pytest
from scipy.special import ndtri

from ecgbench.stats.auroc import placements, wins
from ecgbench.stats.components import Components
from ecgbench.stats.detectable import detectable, expected


def found(shift: float, seed: int) -> tuple[float, float | None]:
    """p of two models, the second worse by `shift` standard deviations, and what was detectable."""
    random = np.random.default_rng(seed)
    target = (np.arange(600) < 120).astype(int)[:, None]
    common = random.standard_normal((600, 1)) * np.sqrt(0.5)
    scores = [
        target * (1.466 - drop) + common + np.sqrt(0.5) * random.standard_normal((600, 1))
        for drop in (0.0, shift)
    ]
    placed = np.stack([placements(target, wins(target, s)) for s in scores])
    e = Components(target, np.arange(600), placed).difference(0, 1)
    return e.p, detectable(e)


def test_a_difference_of_that_size_is_found_four_times_of_five() -> None:
    told = expected([120], [480], 0.85, 0.5)
    told_after = np.mean([found(0.0, seed)[1] for seed in range(20)])  # type: ignore[misc]
    assert told == pytest.approx(told_after, rel=0.15)
    # AUROC 0.85 less that is Phi((1.466 - drop) / sqrt 2)
    drop = 1.466 - np.sqrt(2) * ndtri(0.85 - told)
    power = np.mean([found(drop, seed)[0] < 0.05 for seed in range(100, 400)])
    assert power == pytest.approx(0.8, abs=0.08)


def test_labels_without_both_values_say_nothing() -> None:
    assert np.isnan(expected([0, 5], [10, 0], 0.85, 0.5))
    assert expected([0, 50], [10, 50], 0.85, 0.5) == expected([50], [50], 0.85, 0.5)
