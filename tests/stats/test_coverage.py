"""A short version of benchmarks/intervals.py: intervals that cover, a bootstrap that does not, and
the error of a family with the best.
"""

import importlib.util
from itertools import permutations
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

from ecgbench.cells import Cell, Fit, Plan, Scoring
from ecgbench.ecg.draw import Fixed
from ecgbench.ecg.leads import ALL
from ecgbench.results.compare import Row, Scored, compare
from ecgbench.results.score import MACRO
from ecgbench.seeds import rng
from ecgbench.stats.auroc import macro_auroc
from ecgbench.stats.paired import holm, holm_with_best

STUDIES = 300
ERROR = 0.0126
"""Monte Carlo standard error of a coverage of 95 % in 300 studies."""


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "coverage_benchmark", Path(__file__).parents[2] / "benchmarks" / "intervals.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("which", [0, 1])
def test_the_interval_covers_the_truth_and_one_over_records_does_not(
    benchmark: ModuleType, which: int
) -> None:
    missed = benchmark.coverage(benchmark.DESIGNS[which], STUDIES, draws=400)
    covered = {kind: 1 - below - above for kind, (below, above) in missed.items()}
    for kind in ("bayesian", "multinomial"):
        # 93.5 to 96.5 %, and what chance adds in 300 studies
        assert abs(covered[kind] - 0.95) < 0.015 + 2.5 * ERROR, covered
    assert covered["records"] < 0.9, covered
    assert covered["records"] < min(covered["bayesian"], covered["multinomial"]) - 0.03, covered


def test_the_truth_is_what_a_huge_study_finds(benchmark: ModuleType) -> None:
    """Also where the sick have more records: an estimand that the simulation does not have would
    make any coverage meaningless.
    """
    for design in benchmark.DESIGNS:
        large = benchmark.Design(**{**design.__dict__, "patients": 60_000})
        study = benchmark.simulate(large, rng("huge", design.name), models=2, alike=0.6)
        for scores in study.scores:
            assert macro_auroc(study.target, scores) == pytest.approx(design.truth, abs=0.008)
        records = np.bincount([int(p[1:]) for p in study.patients])
        assert records.max() == len(design.records)
        np.testing.assert_allclose(
            np.bincount(records)[1:] / len(records), design.records, atol=0.01
        )
        np.testing.assert_allclose(
            study.target[np.unique(study.patients, return_index=True)[1]].mean(axis=0),
            design.prevalence,
            atol=0.01,
        )


def test_records_of_a_patient_resemble_one_another(benchmark: ModuleType) -> None:
    study = benchmark.simulate(benchmark.DESIGNS[0], rng("alike"))
    patient = np.array(study.patients)
    same = patient[1:] == patient[:-1]
    left, right = study.target[:-1, 0][same], study.target[1:, 0][same]
    assert np.corrcoef(left, right)[0, 1] > 0.4


def simulated(
    generator: np.random.Generator, models: int, draws: int = 999
) -> tuple[list[float], list[np.ndarray]]:
    """Estimates of equal skill and their replicates: what a bootstrap gives, without its cost."""
    estimates = generator.normal(0, 1, models)
    return list(estimates), list(estimates[:, None] + generator.normal(0, 1, (models, draws)))


def test_a_report_keeps_the_level_of_its_family_and_comparisons_with_the_best_alone_would_not() -> (
    None
):
    """Six models of equal skill through `compare`, with the draws of their plan; the standard error
    is 0.7 points.
    """
    fits = [
        Fit(task="toy", model=f"m{k}", contract="paper", weights="random", seed=0) for k in range(6)
    ]
    cells = tuple(Cell(fit=f, task="toy", setting=Fixed(ALL), policy="zero") for f in fits)
    scoring = Plan(name="toy", cells=cells, scoring=Scoring(draws=100)).powered().scoring
    assert scoring.draws == 1500
    generator, wrong, naive, studies = rng("family"), 0, 0, 1000
    for _ in range(studies):
        rows = []
        for cell, estimate, drawn in zip(
            cells, *simulated(generator, 6, scoring.draws), strict=True
        ):
            table = pd.DataFrame({"label": [MACRO], "value": [estimate]})
            one = Scored(
                cell=cell, metric="auroc", table=table, replicates=drawn, records="the same"
            )
            rows.append(
                Row(
                    task="toy",
                    model=cell.fit.model,
                    leads="12",
                    policy="zero",
                    metric="auroc",
                    cells=[one],
                )
            )
        compare(rows, lambda one, names: one)
        wrong += bool(np.nanmin([r.p_holm for r in rows]) <= 0.05)
        naive += bool(holm([r.difference.p for r in rows if r.difference]).min() <= 0.05)
    # 3.9 % by the studentised range; 0 would mean that nothing is ever told apart
    assert 0.015 < wrong / studies <= 0.055
    assert naive / studies > 0.07


def test_holm_with_best_by_hand() -> None:
    """Three models: p of the pairs 01, 02, 12 is 0.002, 0.002 and 0.09 with 999 draws."""
    draws = np.zeros((3, 999))
    draws[0], draws[2, :44] = 1.0, 0.5
    draws[2, 44:] = -0.5
    adjusted = holm_with_best([1.0, 0.0, -0.5], list(draws), best=0)
    np.testing.assert_allclose(adjusted, [np.nan, 0.006, 0.006])
    np.testing.assert_allclose(
        holm_with_best([1.0, 0.0, -0.5], list(draws), best=1), [0.006, np.nan, 0.09]
    )
    # a fourth model without a number: six pairs, of which three have p = 1
    np.testing.assert_allclose(
        holm_with_best([1.0, 0.0, -0.5], list(draws), best=0, planned=4), [np.nan, 0.012, 0.012]
    )
    np.testing.assert_allclose(holm_with_best([1.0], [draws[0]], best=0), [np.nan])


def test_holm_with_best_does_not_depend_on_the_order_of_the_models() -> None:
    estimates, replicates = simulated(rng("order"), 4)
    best = int(np.argmax(estimates))
    expected = holm_with_best(estimates, replicates, best)
    for order in permutations(range(4)):
        found = holm_with_best(
            [estimates[k] for k in order], [replicates[k] for k in order], order.index(best)
        )
        np.testing.assert_array_equal(found, expected[list(order)])
        assert np.isnan(found[order.index(best)])
