"""Rows over folds: each fold is scored by itself, folds in which a label cannot be scored give none
for it, and patients of different folds are independent.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from ecgbench.cards.cell import Bootstrap
from ecgbench.core.note import Notes
from ecgbench.reports import write
from ecgbench.results.compare import Row, compare
from ecgbench.results.evidence import evidence
from ecgbench.results.score import Scored, over_folds
from ecgbench.results.verdicts import verdicts
from ecgbench.stats.auroc import placements, wins
from ecgbench.stats.components import Components
from tests.invented import Data, Made, cells_in_folds, make


def row(model: str, of: Sequence[Scored]) -> Row:
    return Row(task="t", model=model, leads="12", policy="zero", metric="auroc", cells=list(of))


def study(
    seed: int, records: int = 200, folds: int = 5
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """target (record, 2), fold, and scores of two models that lie elsewhere in every fold."""
    draw = np.random.default_rng(seed)
    target = (draw.random((records, 2)) < (0.3, 0.15)).astype(int)
    fold = 1 + draw.permutation(records) % folds
    raised = draw.normal(0, 5, (folds + 1, 2))[fold]
    common = draw.normal(size=target.shape)
    models = [raised + gain * target + common + draw.normal(size=target.shape) for gain in (2, 1)]
    return target, fold, *models


def within(target: np.ndarray, fold: np.ndarray, scored: np.ndarray) -> float:
    """The mean over folds of the mean over the labels with both values there, by scikit-learn."""
    means = []
    for k in np.unique(fold):
        y, x = target[fold == k], scored[fold == k]
        own = [roc_auc_score(a, b) for a, b in zip(y.T, x.T) if 0 < a.sum() < len(a)]
        means += [np.mean(own)] if own else []
    return float(np.mean(means))


def test_of_scores_that_lie_elsewhere_in_every_fold_only_their_order_within_counts() -> None:
    target, fold, first, second = study(0)
    one, other = cells_in_folds(target, fold, first), cells_in_folds(target, fold, second, "n")
    found = evidence([one, other], "undefined")
    values = within(target, fold, first), within(target, fold, second)
    assert found.rows[0].value == pytest.approx(values[0])
    assert found.difference(0, 1).difference == pytest.approx(values[0] - values[1])
    shifted = evidence([cells_in_folds(target, fold, first + 100 * fold[:, None])], "undefined")
    alone = evidence([one], "undefined")
    assert (shifted.rows[0].low, shifted.rows[0].high) == (alone.rows[0].low, alone.rows[0].high)
    assert roc_auc_score(target[:, 0], first[:, 0]) < values[0] - 0.1  # pooled over folds


@pytest.mark.parametrize("bootstrap", ["none", "multinomial"])
def test_folds_are_independent_so_the_mean_of_five_has_a_fifth_of_their_variance(
    bootstrap: Bootstrap,
) -> None:
    target, fold, first, second = study(1, 600)
    made = [cells_in_folds(target, fold, s, m, bootstrap) for s, m in ((first, "m"), (second, "n"))]

    def width(of: Sequence[Sequence[Scored]]) -> np.ndarray:
        found = evidence(of, "undefined")
        bounds = found.rows[0], found.difference(0, 1)
        return np.array([b.high - b.low for b in bounds])

    single = np.array([width([[a], [b]]) for a, b in zip(*made)])
    expected = np.sqrt((single**2).mean(axis=0) / 5)
    np.testing.assert_allclose(width(made), expected, rtol=0.1)


@pytest.mark.parametrize("bootstrap", ["none", "multinomial"])
def test_a_label_counts_in_the_folds_where_it_has_both_values(bootstrap: Bootstrap) -> None:
    target, fold, first, second = study(2)
    target[fold == 2, 1] = 0  # the second label is absent from a fold
    target[fold == 4] = 0  # and both from another one
    rows = [
        row(m, cells_in_folds(target, fold, s, m, bootstrap))
        for s, m in ((first, "m"), (second, "n"))
    ]
    compare(rows, lambda one, names: one, lambda of: evidence(of, "undefined"))
    expected = [within(target, fold, s) for s in (first, second)]
    for r, value in zip(rows, expected):
        assert r.score == pytest.approx(value)
        assert r.sure.value == pytest.approx(value)
        assert r.distinct == pytest.approx(value)
        assert r.sure.low < value < r.sure.high
        assert r.patients == 200
    difference = rows[1].difference
    assert difference is not None
    assert difference.difference == pytest.approx(expected[0] - expected[1])
    assert np.isfinite(difference.p)
    counts = over_folds(rows[0].cells).set_index("label")
    assert counts["valued"].to_dict() == {"L0": 4, "L1": 3}
    assert counts["positives"].to_dict() == {f"L{k}": target[:, k].sum() for k in (0, 1)}
    assert counts["n"].tolist() == [200, 200]


def test_patients_of_all_folds_together_decide_whether_there_are_enough_to_test() -> None:
    target, fold, first, second = study(4, 100, 5)
    assert np.bincount(fold).max() == 20
    rows = [row(m, cells_in_folds(target, fold, s, m)) for s, m in ((first, "m"), (second, "n"))]
    compare(rows, lambda one, names: one, lambda of: evidence(of, "undefined"))
    assert np.isfinite(rows[1].p)
    few = [row(r.model, r.cells[:1]) for r in rows]
    compare(few, lambda one, names: one, lambda of: evidence(of, "undefined"))
    assert "20 test patients, fewer than 30" in str(Notes(few[1].notes))


def test_stored_folds_of_a_run_have_the_interval_that_is_made_by_hand(tmp_path: Path) -> None:
    """Of the table that is written: placements within each fold, the variance of their mean as if
    folds were independent, times 1 + 5 x (1/5) / (3/5).
    """
    data = {"first": Data(tasks={"a": 2}, records=300)}
    study = make(tmp_path / "run", Made(data=data, models=("good",), leads="12", folds=5))
    write(study, tmp_path / "out", only=["main_table"])
    row = pd.read_csv(tmp_path / "out" / "main_table.csv").iloc[0]
    tables = sorted((r.predictions() for r in study.results), key=lambda t: t["record"][0])
    records = sum(map(len, tables))
    target, placed = np.full((records, 10), -1), np.zeros((1, records, 10))
    start, values = 0, []
    for k, table in enumerate(tables):
        own = slice(start, start := start + len(table)), slice(2 * k, 2 * k + 2)
        known, score = (
            table[[f"{kind}:A{n}" for n in (0, 1)]].to_numpy() for kind in ("target", "probability")
        )
        target[own] = known
        placed[0][own] = placements(known, wins(known, score))
        values += [roc_auc_score(known, score)]
    facts = target, np.arange(records), placed, None, [0, 1] * 5
    alone = Components(*facts).row(0)
    low, high = replace(alone, variance=alone.variance * (1 + 5 / 3)).as_share()
    assert row["value"] == pytest.approx(np.mean(values))
    assert (row["low"], row["high"]) == pytest.approx((low, high))
    assert row["se"] == pytest.approx(alone.se * np.sqrt(1 + 5 / 3))
    labels = verdicts(study).set_index("label").loc[["A0", "A1"], ["low", "high"]]
    expected = [Components(*facts, 1 / 3).label_interval(0, k) for k in (0, 1)]
    assert labels.to_numpy() == pytest.approx(np.array(expected))


def test_the_share_of_a_label_is_that_of_all_its_folds() -> None:
    """Two labels have no share worth telling, however many folds; of three, one is in all folds."""
    target, fold, first, _ = study(5)
    assert evidence([cells_in_folds(target, fold, first)], "undefined").rows[0].share_label == ""
    rare = np.zeros((200, 1), int)
    rare[[np.flatnonzero(fold == k)[j] for k in range(1, 6) for j in (0, 1)]] = 1
    scored = np.hstack([first, np.random.default_rng(0).normal(size=(200, 1))])
    found = evidence([cells_in_folds(np.hstack([target, rare]), fold, scored)], "undefined").rows[0]
    assert found.share_label == "L2"
    assert found.share > 0.5
