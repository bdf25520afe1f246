"""A short version of benchmarks/coverage.py: intervals that cover, a bootstrap that does not, and the error of a family with the best."""

import importlib.util
from itertools import permutations
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from ecgbench.seeds import rng
from ecgbench.stats.auroc import macro_auroc
from ecgbench.stats.paired import holm, holm_with_best, p_value

STUDIES = 300
ERROR = 0.0126
"""Monte Carlo standard error of a coverage of 95 % in 300 studies."""


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("coverage_benchmark", Path(__file__).parents[2] / "benchmarks" / "coverage.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("which", [0, 1])
def test_the_interval_covers_the_truth_and_one_over_records_does_not(benchmark: ModuleType, which: int) -> None:
    missed = benchmark.coverage(benchmark.DESIGNS[which], STUDIES, draws=400)
    covered = {kind: 1 - below - above for kind, (below, above) in missed.items()}
    for kind in ("bayesian", "multinomial"):
        assert abs(covered[kind] - 0.95) < 0.015 + 2.5 * ERROR, covered  # 93.5 to 96.5 %, and what chance adds in 300 studies
    assert covered["records"] < 0.9, covered
    assert covered["records"] < min(covered["bayesian"], covered["multinomial"]) - 0.03, covered


def test_the_truth_is_what_a_huge_study_finds(benchmark: ModuleType) -> None:
    """Also where the sick have more records: an estimand that the simulation does not have would make any coverage meaningless."""
    for design in benchmark.DESIGNS:
        large = benchmark.Design(**{**design.__dict__, "patients": 60_000})
        study = benchmark.simulate(large, rng("huge", design.name), models=2, alike=0.6)
        for scores in study.scores:
            assert macro_auroc(study.target, scores) == pytest.approx(design.truth, abs=0.008)
        records = np.bincount([int(p[1:]) for p in study.patients])
        assert records.max() == len(design.records)
        np.testing.assert_allclose(np.bincount(records)[1:] / len(records), design.records, atol=0.01)
        np.testing.assert_allclose(study.target[np.unique(study.patients, return_index=True)[1]].mean(axis=0), design.prevalence, atol=0.01)


def test_records_of_a_patient_resemble_one_another(benchmark: ModuleType) -> None:
    study = benchmark.simulate(benchmark.DESIGNS[0], rng("alike"))
    patient = np.array(study.patients)
    same = patient[1:] == patient[:-1]
    left, right = study.target[:-1, 0][same], study.target[1:, 0][same]
    assert np.corrcoef(left, right)[0, 1] > 0.4


def simulated(generator: np.random.Generator, models: int) -> tuple[list[float], list[np.ndarray]]:
    """Estimates of equal skill and their replicates: what a bootstrap gives, without its cost."""
    estimates = generator.normal(0, 1, models)
    return list(estimates), list(estimates[:, None] + generator.normal(0, 1, (models, 999)))


def test_the_family_with_the_best_keeps_its_level_and_the_naive_family_does_not() -> None:
    """Six models of equal skill in 1,500 studies: the standard error of 5 % is 0.6 points."""
    generator, wrong, naive, studies = rng("family"), 0, 0, 1500
    for _ in range(studies):
        estimates, replicates = simulated(generator, 6)
        best = int(np.argmax(estimates))
        wrong += bool(np.nanmin(holm_with_best(estimates, replicates, best)) <= 0.05)
        others = [k for k in range(6) if k != best]
        p = [p_value(replicates[best] - replicates[k], estimates[best] - estimates[k]) for k in others]
        naive += bool(holm(p).min() <= 0.05)
    assert wrong / studies <= 0.055
    assert naive / studies > 0.07


def test_holm_with_best_by_hand() -> None:
    """Three models: p of the pairs 01, 02, 12 is 0.002, 0.002 and 0.09 with 999 draws."""
    draws = np.zeros((3, 999))
    draws[0], draws[2, :44] = 1.0, 0.5
    draws[2, 44:] = -0.5
    adjusted = holm_with_best([1.0, 0.0, -0.5], list(draws), best=0)
    np.testing.assert_allclose(adjusted, [np.nan, 0.006, 0.006])
    np.testing.assert_allclose(holm_with_best([1.0, 0.0, -0.5], list(draws), best=1), [0.006, np.nan, 0.09])
    # a fourth model without a number: six pairs, of which three have p = 1
    np.testing.assert_allclose(holm_with_best([1.0, 0.0, -0.5], list(draws), best=0, planned=4), [np.nan, 0.012, 0.012])
    np.testing.assert_allclose(holm_with_best([1.0], [draws[0]], best=0), [np.nan])


def test_holm_with_best_does_not_depend_on_the_order_of_the_models() -> None:
    estimates, replicates = simulated(rng("order"), 4)
    best = int(np.argmax(estimates))
    expected = holm_with_best(estimates, replicates, best)
    for order in permutations(range(4)):
        found = holm_with_best([estimates[k] for k in order], [replicates[k] for k in order], order.index(best))
        np.testing.assert_array_equal(found, expected[list(order)])
        assert np.isnan(found[order.index(best)])
