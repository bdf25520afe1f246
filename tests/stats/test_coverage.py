"""A short form of benchmarks/intervals.py: intervals that cover, p that errs as often as it says,
and the error of a family of comparisons.
"""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.special import ndtri

from ecgbench.core.seeds import rng
from ecgbench.datasets.indexing.folds import stratified
from ecgbench.results.evidence import evidence
from ecgbench.stats.auroc import per_label
from tests.invented import cells_in_folds

pytestmark = pytest.mark.long
STUDIES = 100


def error(share: float, studies: int = STUDIES) -> float:
    """Three Monte Carlo standard errors of a share of the studies."""
    return 3 * float(np.sqrt(share * (1 - share) / studies))


@pytest.fixture(scope="module")
def benchmark() -> Iterator[ModuleType]:
    path = Path(__file__).parents[2] / "benchmarks" / "intervals.py"
    spec = importlib.util.spec_from_file_location("intervals_benchmark", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(path.parent)  # as beside a script
        spec.loader.exec_module(module)
    yield module
    sys.modules.pop("folds", None)


@pytest.mark.parametrize(
    ("task", "design"),
    [
        ("super", "independent"),
        ("sub", "labels alike, own"),
        ("sub", "clusters"),
        ("sub", "near 1"),
        ("all", "skew left"),
    ],
)
def test_macro_intervals_cover_and_equal_models_do_not_differ(
    benchmark: ModuleType, task: str, design: str
) -> None:
    """The labels of 243 real records, many with one to five positives. A bootstrap over patients
    covers 60 to 67 % here, and tells equal models apart in 30 % of the studies.
    """
    line = benchmark.macro(243, task, design, STUDIES)
    assert line.coverage >= 0.93 - error(0.95), line
    assert line.p05 <= 0.06 + error(0.05), line
    assert line.p01 <= 0.015 + error(0.01), line


@pytest.mark.parametrize("positives", [1, 3, 10])
def test_intervals_of_one_label_cover(benchmark: ModuleType, positives: int) -> None:
    for design in ("independent", "skew right"):
        line = benchmark.label(positives, design, 0.8, STUDIES)
        assert line.coverage >= benchmark.LABEL_LOW[positives] - error(0.95), line


def test_families_of_equal_models_keep_their_level(benchmark: ModuleType) -> None:
    found = {
        line.design.split(": ")[1]: line.p05
        for line in benchmark.joint(243, "sub", "independent", STUDIES, draws=400)
    }
    assert found["Holm"] <= 0.06 + error(0.05), found
    assert found["max-t"] <= 0.06 + error(0.05), found
    assert found["each pair alone"] > max(found["Holm"], found["max-t"]), found


def test_the_truth_is_what_a_huge_study_finds(benchmark: ModuleType) -> None:
    """An estimand that the simulation does not have would make any coverage meaningless."""
    random = rng("huge")
    target = np.tile(np.array([[0], [1], [0]], np.int8), (40_000, 2))
    real = benchmark.Records(target, np.arange(len(target)) // 2)
    for design in benchmark.DESIGNS:
        true = benchmark.truth(design, 2, random)
        first, second = benchmark.scores(design, real, true, random)
        np.testing.assert_allclose(per_label(target, first), true.auroc, atol=0.008)
        assert per_label(target, second).mean() == pytest.approx(true.auroc.mean(), abs=0.008)


def test_intervals_of_a_mean_over_folds_cover(benchmark: ModuleType) -> None:
    """100 patients. The fits of the folds have true AUROCs of their own, and scores that lie higher
    or lower as a whole; the mean of those true AUROCs is what is covered.
    """
    folds, shares, studies, covered = 5, (0.3,), 40, 0
    random = rng("intervals", "folds", 100, folds, len(shares))
    for _ in range(studies):
        target = (random.random((100, len(shares))) < shares).astype(np.int64)
        held = [[str(k) for k in np.flatnonzero(own)] for own in target]
        names = [f"{i:04d}" for i in range(len(target))]
        fold = np.asarray(stratified("intervals", names, held, folds))
        skill = random.uniform(0.6, 0.9, len(shares))
        true = np.clip(skill + random.normal(0, 0.03, (folds, len(shares))), 0.5, 0.99)
        raised = random.standard_normal((folds, 1))
        noise = random.standard_normal(target.shape)
        shift = np.sqrt(2) * ndtri(true)
        scored = raised[fold - 1] + shift[fold - 1] * target + noise
        found = evidence([cells_in_folds(target, fold, scored)], "undefined").rows[0]
        covered += found.low <= _expected(target, fold, true) <= found.high
    assert covered / studies >= 0.95 - error(0.95, studies)


def _expected(target: np.ndarray, fold: np.ndarray, true: np.ndarray) -> float:
    """Mean over folds of the mean over the labels that have both values there."""
    means = []
    for k in np.unique(fold):
        own = target[fold == k]
        both = own.any(axis=0) & ~own.all(axis=0)
        means += [float(true[k - 1, both].mean())] if both.any() else []
    return float(np.mean(means))
