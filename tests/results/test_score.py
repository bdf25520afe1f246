from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from ecgbench import metrics
from ecgbench.cells import Bootstrap, Cell, Fit, Scoring
from ecgbench.ecg.draw import Count
from ecgbench.errors import BadSetting, LeakError
from ecgbench.results.compare import Row, Scored, compare
from ecgbench.results.score import Draws, Predictions, score, score_table
from ecgbench.stats.paired import paired_difference

LABELS = ("CD", "MI", "NORM")
SCORING = Scoring(draws=300)
Plugin = Callable[[str, str], str]
"""(name, functions) -> the name by which the metric entered."""


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[Plugin]:
    """Writes a metric to a file and lets it in; without an `influence` of its own it has none."""

    def enter(name: str, body: str) -> str:
        card = (
            f"CARD = MetricCard(title={name!r}, direction='higher', range=(0, 1), chance=None, "
            f"summary='', source='')\n"
        )
        none = "" if "def influence" in body else "def influence(target, score):\n    return None\n"
        (tmp_path / f"{name}.py").write_text(
            f"import numpy as np\nfrom ecgbench.cards import MetricCard\n{card}{none}{body}"
        )
        return metrics.resolve(str(tmp_path / f"{name}.py"))

    yield enter
    metrics.ROOM.forget()


def predicted(n: int = 60, seed: int = 0, skill: float = 1.0) -> Predictions:
    """Two records per patient; probabilities lean towards the targets, which do not depend on the
    seed.
    """
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


def draws(
    patients: list[str], number: int = 300, kind: Bootstrap = "bayesian", dataset: str = "d"
) -> Draws:
    return Draws(
        dataset=dataset, patients=tuple(sorted(set(patients))), draws=number, bootstrap=kind
    )


def scored(p: Predictions, model: str, seed: int = 0, keep: np.ndarray | None = None) -> Scored:
    """Draws over all test patients, also where a model leaves some records out."""
    table = p.table() if keep is None else p.table().iloc[keep].reset_index(drop=True)
    scores = score("auroc", table, draws(p.patients, SCORING.draws, SCORING.bootstrap))
    cell = Cell(
        fit=Fit(task="t", model=model, contract="paper", weights="random", seed=0),
        task="t",
        setting=Count(1, seed),
        policy="zero",
    )
    return Scored(
        cell=cell,
        metric="auroc",
        table=scores.table,
        replicates=scores.replicates,
        records=" ".join(table["record"]),
        predictions=lambda: table,
    )


def rescored(one: Scored, names: frozenset[str]) -> Scored:
    """A cell on some of its records, with draws over the patients of those alone."""
    table = one.predictions()[one.predictions()["record"].isin(names)]
    scores = score("auroc", table, draws(list(table["patient"]), SCORING.draws))
    return replace(
        one,
        table=scores.table,
        replicates=scores.replicates,
        records=" ".join(sorted(names)),
        predictions=lambda: table,
    )


def row(model: str, *cells: Scored) -> Row:
    return Row(task="t", model=model, leads="1", policy="zero", metric="auroc", cells=list(cells))


def test_scores_are_those_of_sklearn() -> None:
    p = predicted()
    found = score("auroc", p.table(), draws(p.patients))
    assert list(found.table["label"]) == ["macro", *LABELS]
    expected = roc_auc_score(p.target, p.probability, average=None)
    np.testing.assert_allclose(found.table["value"], [np.mean(expected), *expected], atol=1e-12)
    np.testing.assert_array_equal(found.table["positives"], [3, *p.target.sum(0)])
    weights = draws(p.patients).weights(p.patients)
    again = np.array(
        [roc_auc_score(p.target, p.probability, average=None, sample_weight=w) for w in weights]
    )
    np.testing.assert_allclose(found.replicates, again.mean(axis=1), atol=1e-6)
    every = np.column_stack([again.mean(axis=1), again])
    np.testing.assert_allclose(found.table["low"], np.quantile(every, 0.025, axis=0), atol=1e-6)
    np.testing.assert_allclose(found.table["high"], np.quantile(every, 0.975, axis=0), atol=1e-6)


def test_what_a_cell_stores_is_long_and_names_its_metrics(plugin: Plugin) -> None:
    p = predicted()
    other = plugin(
        "wrong", "def value(target, score):\n    return 1 - np.abs(target - score).mean(axis=0)\n"
    )
    table = score_table(("auroc", other), p.table())
    assert list(table) == ["metric", "label", "value", "n", "positives"]
    assert list(zip(table["metric"], table["label"])) == [
        (m, n) for m in ("auroc", other) for n in ("macro", *LABELS)
    ]
    pd.testing.assert_frame_equal(
        table[table["metric"] == "auroc"][["label", "value", "n", "positives"]],
        score("auroc", p.table(), draws(p.patients)).table[["label", "value", "n", "positives"]],
    )


def test_a_label_without_both_values_is_not_a_number_and_not_in_the_macro() -> None:
    p = predicted()
    p.target[:, 1] = 0
    table = score("auroc", p.table(), draws(p.patients)).table.set_index("label")
    assert np.isnan(table.loc["MI", ["value", "low", "high"]].to_numpy(float)).all()
    kept = [0, 2]
    assert table.loc["macro", "value"] == pytest.approx(
        roc_auc_score(p.target[:, kept], p.probability[:, kept], average="macro")
    )
    assert table.loc["macro", "positives"] == 2
    nothing = score("auroc", replace(p, target=np.zeros_like(p.target)).table(), draws(p.patients))
    assert nothing.table["value"].isna().all()
    assert np.isnan(nothing.replicates).all()


def test_a_metric_without_replicates_draws_patients_or_goes_by_influence(plugin: Plugin) -> None:
    """The share of positives among the records above one half, by all three ways."""
    p = predicted(seed=3)
    body = (
        "def value(target, score):\n    return (target * (score > 0.5)).mean(axis=0) / "
        "target.mean(axis=0)\n"
    )
    drawn = score(plugin("drawn", body), p.table(), draws(p.patients))
    assert drawn.bootstrap == "multinomial"
    counts = draws(p.patients).weights(p.patients, "multinomial")
    rows = [np.repeat(np.arange(60), c) for c in counts]
    expected = [
        np.mean((p.target[r] * (p.probability[r] > 0.5)).mean(axis=0) / p.target[r].mean(axis=0))
        for r in rows
    ]
    np.testing.assert_allclose(drawn.replicates, expected, rtol=0, atol=1e-12)
    slope = (
        "def influence(target, score):\n    return target * ((score > 0.5) - value(target, "
        "score)) / target.mean(axis=0)\n"
    )
    smooth = score(plugin("smooth", body + slope), p.table(), draws(p.patients))
    assert smooth.bootstrap == "bayesian"
    weights = draws(p.patients).weights(p.patients).astype(float)
    share, of_positive = p.probability > 0.5, p.target == 1
    exact = np.mean(
        [(weights @ (share & of_positive)[:, k]) / (weights @ of_positive[:, k]) for k in range(3)],
        axis=0,
    )
    np.testing.assert_allclose(smooth.replicates, exact, atol=0.03)  # to first order in the weights
    assert np.corrcoef(smooth.replicates, exact)[0, 1] > 0.95


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (
            "def value(target, score):\n    return score.mean()\n",
            r"metric 'bad' gives \(\) where \(3,\) belongs; try: ecgbench check metric bad",
        ),
        (
            "def value(target, score):\n    return score[0] / 'x'\n",
            r"metric 'bad' failed at bad.py:\d+: .*TypeError",
        ),
        (
            "def value(target, score):\n    return score[0] - 5\n",
            r"metric 'bad' gives -\S+, and its CARD says that it lies in 0 to 1",
        ),
        (
            "def value(target, score):\n    return score[0] + np.inf\n",
            r"metric 'bad' gives inf, and its CARD says that it lies in 0 to 1",
        ),
    ],
)
def test_a_bad_metric_is_named_in_one_line(plugin: Plugin, body: str, complaint: str) -> None:
    with pytest.raises(BadSetting, match=complaint) as caught:
        score(plugin("bad", body), predicted().table(), draws(predicted().patients))
    assert "\n" not in str(caught.value)


def test_draws_belong_to_the_patients_of_a_dataset() -> None:
    """Whatever the order of the records; the records of a patient share their weight; a fold has
    draws of its own.
    """
    p = predicted()
    weights = draws(p.patients, 50).weights(p.patients)
    order = np.random.default_rng(1).permutation(len(p.patients))
    np.testing.assert_array_equal(
        draws(p.patients, 50).weights([p.patients[i] for i in order]), weights[:, order]
    )
    np.testing.assert_array_equal(weights[:, 0::2], weights[:, 1::2])
    assert not np.array_equal(weights, draws(p.patients, 50, dataset="other").weights(p.patients))
    assert not np.array_equal(weights, replace(draws(p.patients, 50), fold="3").weights(p.patients))
    assert (
        draws(p.patients, 50, "multinomial").weights(p.patients)[:, ::2].sum(1).tolist()
        == [30] * 50
    )


@pytest.mark.parametrize("fault", ["nan", "missing", "double", "unknown"])
def test_predictions_that_cannot_be_scored_are_refused(fault: str) -> None:
    p = predicted(4)
    probability, records = p.probability.copy(), list(p.records)
    if fault == "nan":
        probability[2, 1] = np.nan
    if fault == "double":
        records[1] = records[0]
    if fault == "unknown":
        records[1] = "r999"
    expected = p.expected | {"r007"} if fault == "missing" else p.expected
    with pytest.raises(LeakError):
        replace(p, records=records, probability=probability, expected=expected)


def test_table_holds_what_was_predicted() -> None:
    p = predicted(4)
    table = p.table()
    assert list(table) == [
        "record",
        "patient",
        "leads",
        *(f"{kind}:{n}" for kind in ("probability", "target") for n in LABELS),
    ]
    np.testing.assert_array_equal(table["probability:MI"], p.probability[:, 1])
    np.testing.assert_array_equal(table["target:NORM"], p.target[:, 2])


def test_seeds_are_averaged_and_their_replicates_draw_by_draw() -> None:
    cells = [scored(predicted(seed=s), "a", s) for s in range(3)]
    one = row("a", *cells)
    macros = [
        roc_auc_score(
            c.predictions().filter(like="target:"), c.predictions().filter(like="probability:")
        )
        for c in cells
    ]
    assert one.score == pytest.approx(np.mean(macros))
    assert one.std == pytest.approx(np.std(macros, ddof=1))
    np.testing.assert_allclose(one.replicates, sum(c.replicates for c in cells) / 3)
    assert np.isnan(row("a", cells[0]).std)


def test_the_best_is_compared_on_shared_draws() -> None:
    rows = [
        row("weak", scored(predicted(seed=1, skill=0.2), "weak")),
        row("good", scored(predicted(seed=2, skill=2), "good")),
    ]
    rows.append(row("ill"))
    rows[2].status = "failed"
    compare(rows, rescored)
    assert [r.best for r in rows] == [False, True, False]
    patients = list(rows[0].cells[0].predictions()["patient"])
    weights = draws(patients).weights(patients)
    truth = []
    for w in weights[:40]:
        good, weak = (
            roc_auc_score(t.filter(like="target:"), t.filter(like="probability:"), sample_weight=w)
            for t in (rows[1].cells[0].predictions(), rows[0].cells[0].predictions())
        )
        truth.append(good - weak)
    np.testing.assert_allclose(rows[1].replicates[:40] - rows[0].replicates[:40], truth, atol=1e-6)
    found = rows[0].difference
    assert found is not None
    assert found.difference == pytest.approx(rows[1].score - rows[0].score)
    assert found.low > 0
    # the family is the plan's: the pairs of the failed row count
    assert rows[0].p_holm == pytest.approx(3 * found.p)
    assert rows[1].difference is rows[2].difference is None


def test_models_with_other_records_are_compared_on_the_same_records_and_draws() -> None:
    """The best model leaves out short records: both sides are scored anew on what is common,
    patient for patient.
    """
    keep = np.flatnonzero(np.arange(60) % 7 != 0)[:41]
    good, weak = predicted(seed=2, skill=2), predicted(seed=2, skill=1.5)
    rows = [row("good", scored(good, "good", keep=keep)), row("weak", scored(weak, "weak"))]
    compare(rows, rescored)
    assert rows[0].best
    patients = [good.patients[i] for i in keep]
    a, b = (score("auroc", p.table().iloc[keep], draws(patients)) for p in (good, weak))
    expected = paired_difference(
        a.table["value"][0], b.table["value"][0], a.replicates, b.replicates
    )
    assert rows[1].difference == expected
    assert pd.notna(rows[1].p_holm)


def test_of_a_metric_whose_lower_values_are_better_the_lowest_is_best() -> None:
    rows = [
        row("weak", scored(predicted(seed=1, skill=0.2), "weak")),
        row("good", scored(predicted(seed=2, skill=2), "good")),
    ]
    for r in rows:
        r.sign = -1
    compare(rows, rescored)
    assert [r.best for r in rows] == [True, False]
    difference = rows[1].difference
    assert difference is not None
    assert difference.difference == pytest.approx(rows[0].score - rows[1].score)
    assert difference.high < 0
    assert difference.p < 0.05


def test_a_score_over_folds_is_the_mean_of_the_scores_within_them() -> None:
    """Folds test other records: nothing is scored anew where all models have the same records in
    each fold.
    """

    def folds(model: str, skill: float) -> Row:
        halves = [np.arange(30), np.arange(30, 60)]
        whole = [scored(predicted(seed=2, skill=skill), model, keep=half) for half in halves]
        return row(
            model,
            *(
                replace(c, cell=replace(c.cell, fit=replace(c.cell.fit, fold=str(i))))
                for i, c in enumerate(whole)
            ),
        )

    rows = [folds("good", 2), folds("weak", 1)]
    compare(rows, lambda one, names: pytest.fail("it was scored anew"))
    for r in rows:
        assert r.score == pytest.approx(np.mean([c.value for c in r.cells]))
        assert np.isnan(r.std)  # one draw of leads: folds are no spread over draws
    assert rows[0].best
    rows[1].cells.pop()
    compare(rows, lambda one, names: pytest.fail("it was scored anew"))
    assert rows[1].ragged


def test_one_patient_gives_no_interval() -> None:
    p = replace(predicted(12), patients=["p"] * 12)
    one = score("auroc", p.table(), draws(p.patients, 200))
    assert np.isfinite(one.table["value"].iloc[0])
    assert one.table[["low", "high"]].isna().all(axis=None)
