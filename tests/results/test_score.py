from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from ecgbench.cells import Cell, Fit, Scoring
from ecgbench.ecg.draw import Count
from ecgbench.errors import LeakError
from ecgbench.results.compare import Row, Scored, compare
from ecgbench.results.score import Predictions, draws_of_patients, score
from ecgbench.stats.paired import paired_difference

LABELS = ("CD", "MI", "NORM")
SCORING = Scoring(draws=300)


def predicted(n: int = 60, seed: int = 0, skill: float = 1.0) -> Predictions:
    """Two records per patient; probabilities lean towards the targets, which do not depend on the seed."""
    target = (np.random.default_rng(99).random((n, 3)) < 0.4).astype(np.int8)
    leaning = skill * target + np.random.default_rng(seed).normal(size=(n, 3))
    records = [f"r{i:03d}" for i in range(n)]
    return Predictions(
        records=records,
        patients=[f"p{i // 2:03d}" for i in range(n)],
        leads=["II"] * n,
        labels=LABELS,
        probability=1 / (1 + np.exp(-leaning)),
        target=target,
        expected=frozenset(records),
    )


def scored(p: Predictions, model: str, seed: int = 0, keep: np.ndarray | None = None) -> Scored:
    """As the run stores it: draws over all test patients, also where a model leaves some records out."""
    kept = np.arange(len(p.records)) if keep is None else keep
    weights = draws_of_patients("d", p.patients, SCORING.draws, SCORING.bootstrap)[:, kept]
    found = score(LABELS, p.target[kept], p.probability[kept], weights)
    cell = Cell(fit=Fit(task="t", model=model, contract="paper", weights="random", seed=0), task="t", setting=Count(1, seed), policy="zero")
    table = p.table().iloc[kept].reset_index(drop=True)
    return Scored(cell=cell, dataset="d", scores=found.table, replicates=found.replicates, predictions=table)


def row(model: str, *cells: Scored) -> Row:
    return Row(task="t", model=model, leads="1", policy="zero", cells=list(cells))


def test_scores_are_those_of_sklearn() -> None:
    p = predicted()
    weights = draws_of_patients("d", p.patients, 300, "bayesian")
    found = score(LABELS, p.target, p.probability, weights)
    assert list(found.table["label"]) == ["macro", *LABELS]
    expected = roc_auc_score(p.target, p.probability, average=None)
    np.testing.assert_allclose(found.table["auroc"], [np.mean(expected), *expected], atol=1e-12)
    np.testing.assert_array_equal(found.table["positives"], [3, *p.target.sum(0)])
    for draw in (0, 150, 299):
        again = roc_auc_score(p.target, p.probability, average=None, sample_weight=weights[draw])
        np.testing.assert_allclose(found.replicates[draw], [np.mean(again), *again], atol=1e-6)
    np.testing.assert_allclose(found.table["low"], np.quantile(found.replicates, 0.025, axis=0), atol=1e-9)
    np.testing.assert_allclose(found.table["high"], np.quantile(found.replicates, 0.975, axis=0), atol=1e-9)


def test_a_label_without_both_values_is_not_a_number_and_not_in_the_macro() -> None:
    p = predicted()
    p.target[:, 1] = 0
    weights = draws_of_patients("d", p.patients, 300, "bayesian")
    table = score(LABELS, p.target, p.probability, weights).table.set_index("label")
    assert np.isnan(table.loc["MI", ["auroc", "low", "high"]].to_numpy(float)).all()
    kept = [0, 2]
    assert table.loc["macro", "auroc"] == pytest.approx(roc_auc_score(p.target[:, kept], p.probability[:, kept], average="macro"))
    assert table.loc["macro", "positives"] == 2
    nothing = score(LABELS, np.zeros_like(p.target), p.probability, weights)
    assert nothing.table["auroc"].isna().all()
    assert np.isnan(nothing.replicates).all()


def test_draws_belong_to_the_patients_of_a_dataset() -> None:
    """Whatever the order of the records; the records of a patient share their weight."""
    p = predicted()
    weights = draws_of_patients("d", p.patients, 50, "bayesian")
    order = np.random.default_rng(1).permutation(len(p.patients))
    np.testing.assert_array_equal(draws_of_patients("d", [p.patients[i] for i in order], 50, "bayesian"), weights[:, order])
    np.testing.assert_array_equal(weights[:, 0::2], weights[:, 1::2])
    assert not np.array_equal(weights, draws_of_patients("other", p.patients, 50, "bayesian"))
    assert draws_of_patients("d", p.patients, 50, "multinomial")[:, ::2].sum(1).tolist() == [30] * 50


@pytest.mark.parametrize("fault", ["nan", "missing", "double", "stranger"])
def test_predictions_that_cannot_be_scored_are_refused(fault: str) -> None:
    p = predicted(4)
    probability, records = p.probability.copy(), list(p.records)
    if fault == "nan":
        probability[2, 1] = np.nan
    if fault == "double":
        records[1] = records[0]
    if fault == "stranger":
        records[1] = "r999"
    expected = p.expected | {"r007"} if fault == "missing" else p.expected
    with pytest.raises(LeakError):
        replace(p, records=records, probability=probability, expected=expected)


def test_table_holds_what_was_predicted() -> None:
    p = predicted(4)
    table = p.table()
    assert list(table) == ["record", "patient", "leads", *(f"{kind}:{n}" for kind in ("probability", "target") for n in LABELS)]
    np.testing.assert_array_equal(table["probability:MI"], p.probability[:, 1])
    np.testing.assert_array_equal(table["target:NORM"], p.target[:, 2])


def test_seeds_are_averaged_and_their_replicates_draw_by_draw() -> None:
    cells = [scored(predicted(seed=s), "a", s) for s in range(3)]
    one = row("a", *cells)
    macros = [roc_auc_score(c.predictions.filter(like="target:"), c.predictions.filter(like="probability:")) for c in cells]
    assert one.score == pytest.approx(np.mean(macros))
    assert one.std == pytest.approx(np.std(macros, ddof=1))
    np.testing.assert_allclose(one.replicates, (cells[0].replicates + cells[1].replicates + cells[2].replicates)[:, 0] / 3)
    assert np.isnan(row("a", cells[0]).std)


def test_the_best_is_compared_on_shared_draws() -> None:
    rows = [row("weak", scored(predicted(seed=1, skill=0.2), "weak")), row("good", scored(predicted(seed=2, skill=2), "good"))]
    rows.append(row("ill"))
    rows[2].status = "failed"
    compare(rows, SCORING)
    assert [r.best for r in rows] == [False, True, False]
    weights = draws_of_patients("d", list(rows[0].cells[0].predictions["patient"]), 300, "bayesian")
    truth = []
    for w in weights[:40]:
        good, weak = (
            roc_auc_score(t.filter(like="target:"), t.filter(like="probability:"), sample_weight=w)
            for t in (rows[1].cells[0].predictions, rows[0].cells[0].predictions)
        )
        truth.append(good - weak)
    np.testing.assert_allclose(rows[1].replicates[:40] - rows[0].replicates[:40], truth, atol=1e-6)
    found = rows[0].difference
    assert found is not None
    assert found.difference == pytest.approx(rows[1].score - rows[0].score)
    assert found.low > 0
    assert rows[0].p_holm == pytest.approx(3 * found.p)  # the family is the plan's: the pairs of the failed row count
    assert rows[1].difference is rows[2].difference is None


def test_models_with_other_records_are_compared_on_the_same_records_and_draws() -> None:
    """The best model leaves out short records: both sides are scored anew on what is common, patient for patient."""
    keep = np.flatnonzero(np.arange(60) % 7 != 0)[:41]
    good, weak = predicted(seed=2, skill=2), predicted(seed=2, skill=1.5)
    rows = [row("good", scored(good, "good", keep=keep)), row("weak", scored(weak, "weak"))]
    compare(rows, SCORING)
    assert rows[0].best
    patients = [good.patients[i] for i in keep]
    weights = draws_of_patients("d", patients, 300, "bayesian")
    a, b = (score(LABELS, p.target[keep], p.probability[keep], weights) for p in (good, weak))
    expected = paired_difference(a.table["auroc"][0], b.table["auroc"][0], a.replicates[:, 0], b.replicates[:, 0])
    assert rows[1].difference == expected
    assert pd.notna(rows[1].p_holm)


def test_one_patient_gives_no_interval() -> None:
    p = predicted(12)
    one = score(LABELS, p.target, p.probability, draws_of_patients("d", ["p"] * 12, 200, "bayesian"))
    assert np.isfinite(one.table["auroc"].iloc[0])
    assert one.table[["low", "high"]].isna().all(axis=None)
