from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from ecgbench import metrics
from ecgbench.cards.cell import Bootstrap, Cell, Fit, Scoring
from ecgbench.core.note import Note
from ecgbench.ecg.draw import Count
from ecgbench.errors import LeakError
from ecgbench.results.compare import LEAST_PATIENTS, Row, compare, correct
from ecgbench.results.evidence import Evidence, evidence
from ecgbench.results.score import Draws, Scored, distinct_mean, same_as, score
from ecgbench.stats.paired import holm
from ecgbench.study.scores import Predicted, Predictions, wins_of, with_wins
from tests.invented import scored_cell

LABELS = ("CD", "MI", "NORM")
SCORING = Scoring(draws=300)
SURE = partial(evidence, absent="undefined")
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
            f"import numpy as np\nfrom ecgbench.cards.rooms import MetricCard\n{card}{none}{body}"
        )
        return metrics.resolve(str(tmp_path / f"{name}.py"))

    yield enter
    metrics.ROOM.forget()


def predicted(n: int = 120, seed: int = 0, skill: float = 1.0) -> Predictions:
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
    patients: list[str], number: int = 300, kind: Bootstrap = "multinomial", dataset: str = "d"
) -> Draws:
    return Draws(
        dataset=dataset, patients=tuple(sorted(set(patients))), draws=number, bootstrap=kind
    )


def scored(p: Predictions, model: str, seed: int = 0, keep: np.ndarray | None = None) -> Scored:
    """Draws over all test patients, also where a model leaves some records out."""
    table = p.table() if keep is None else p.table().iloc[keep].reset_index(drop=True)
    cell = Cell(
        fit=Fit(task="t", model=model, contract="paper", weights="random", seed=0),
        task="t",
        setting=Count(1, seed),
        policy="zero",
    )
    return scored_cell(cell, table, draws(p.patients, SCORING.draws, SCORING.bootstrap))


def rescored(one: Scored, names: frozenset[str]) -> Scored:
    """A cell on some of its records, with draws over the patients of those alone."""
    own = one.predictions().only(names)
    scores = score("auroc", own, draws(own.patients.tolist(), SCORING.draws, "none"))
    return replace(
        one,
        columns=scores.columns,
        replicates=scores.replicates,
        records=" ".join(sorted(names)),
        predictions=lambda: own,
    )


def compared(rows: list[Row]) -> None:
    """A group that is the whole table."""
    compare(rows, rescored, SURE)
    correct(rows)


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
    p = predicted(60, seed=3)
    body = (
        "def value(target, score):\n    return (target * (score > 0.5)).mean(axis=0) / "
        "target.mean(axis=0)\n"
    )
    drawn = score(plugin("drawn", body), p.table(), draws(p.patients))
    assert drawn.bootstrap == "multinomial"
    counts = draws(p.patients).weights(p.patients)
    rows = [np.repeat(np.arange(len(p.records)), c) for c in counts]
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
    weights = draws(p.patients).weights(p.patients).astype(float)
    share, of_positive = p.probability > 0.5, p.target == 1
    exact = np.mean(
        [(weights @ (share & of_positive)[:, k]) / (weights @ of_positive[:, k]) for k in range(3)],
        axis=0,
    )
    np.testing.assert_allclose(smooth.replicates, exact, atol=0.03)  # to first order in the weights
    assert np.corrcoef(smooth.replicates, exact)[0, 1] > 0.95


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
    assert weights[:, ::2].sum(1).tolist() == [60] * 50


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


def test_untrained_columns_compete_with_nobody() -> None:
    """A frozen encoder with random weights that scores highest: no best, no family, no p."""
    names = ("untrained", "good", "weak", "weaker")
    skills = (3.0, 1.2, 1.0, 0.9)
    rows = [
        row(n, scored(predicted(seed=k, skill=s), n))
        for k, (n, s) in enumerate(zip(names, skills, strict=True))
    ]
    rows[0].untrained = True
    compared(rows)
    assert [r.best for r in rows] == [False, True, False, False]
    assert rows[0].difference is not None
    assert rows[0].difference.difference < 0
    assert np.isfinite(rows[0].sure.low)
    assert np.isnan([rows[0].p, rows[0].p_holm]).all()
    last = SURE([rows[2].cells, rows[3].cells]).difference(0, 1)
    three = holm([rows[2].p, rows[3].p, last.p])
    assert [r.p_holm for r in rows[2:]] == pytest.approx(list(three[:2]))


def test_what_is_not_tested_says_why_and_keeps_its_interval() -> None:
    few = predicted(2 * LEAST_PATIENTS - 2)
    rows = [row("good", scored(few, "good")), row("weak", scored(predicted(58, 1, 0.5), "weak"))]
    compared(rows)
    assert not any(r.best for r in rows)
    assert np.isnan([rows[1].p, rows[1].p_holm]).all()
    assert rows[1].notes == [Note("test", "not tested: 29 test patients, fewer than 30")]
    assert rows[1].difference is not None
    assert np.isfinite([rows[1].difference.low, rows[1].sure.low]).all()

    # two labels of many positives and one of a single one, which carries the variance
    def rare(seed: int) -> Scored:
        p = predicted(400, seed)
        target = p.target.copy()
        target[:, 0] = np.arange(400) == 7
        return scored(replace(p, target=target), f"m{seed}")

    rows = [row("a", rare(1)), row("b", rare(2))]
    compared(rows)
    other = rows[0] if rows[1].difference is None else rows[1]
    assert [n.kind for n in other.notes] == ["test"]
    assert np.isnan(other.p)


def test_wins_are_stored_in_the_smallest_type_and_believed_only_where_they_fit() -> None:
    p = predicted()
    table = with_wins(["auroc"], p.table())
    columns = [f"wins:auroc:{n}" for n in LABELS]
    assert {str(t) for t in table[columns].dtypes} == {"uint16"}
    values = score("auroc", table, draws(p.patients, kind="none")).table["value"][1:]
    stored, anew = (wins_of("auroc", Predicted.of(one)) for one in (table, p.table()))
    np.testing.assert_array_equal(stored, anew)
    spoilt = table.assign(**{columns[0]: table[columns[0]] // 2})
    np.testing.assert_array_equal(wins_of("auroc", Predicted.of(spoilt), values.to_numpy()), anew)
    pd.testing.assert_frame_equal(
        score("auroc", spoilt, draws(p.patients, kind="none")).table,
        score("auroc", p.table(), draws(p.patients, kind="none")).table,
    )


@pytest.mark.parametrize("kind", ["none", "multinomial", "records"])
def test_the_reference_benchmark_counts_a_label_without_both_values_as_half(
    kind: Bootstrap,
) -> None:
    p = predicted()
    p.target[:, 1] = 0
    units = p.records if kind == "records" else p.patients
    drawn = draws(units, kind=kind)
    left_out, half = score("auroc", p.table(), drawn), score("auroc", p.table(), drawn, "half")
    values = left_out.table["value"][1:]
    assert half.table["value"][0] == pytest.approx((values.sum() + 0.5) / 3)
    # the constant narrows the interval by a third
    width = [float(s.table["high"][0] - s.table["low"][0]) for s in (left_out, half)]
    assert width[1] < 0.8 * width[0]
    assert half.table["low"][0] < half.table["value"][0] < half.table["high"][0]


def test_what_was_computed_of_pairs_reads_both_ways() -> None:
    cells = [[scored(predicted(seed=s), f"m{s}")] for s in range(4)]
    found = SURE(cells)
    assert isinstance(found, Evidence)
    for a in range(4):
        for b in range(4):
            if a != b:
                one, other = found.difference(a, b), SURE([cells[a], cells[b]]).difference(0, 1)
                assert one.difference == pytest.approx(found.rows[a].value - found.rows[b].value)
                assert (one.low, one.high) == pytest.approx(
                    (-found.difference(b, a).high, -found.difference(b, a).low)
                )
                # other rows beside a pair only inform its prior
                assert one.se == pytest.approx(other.se, rel=0.1)


def test_of_a_metric_whose_lower_values_are_better_the_lowest_is_best() -> None:
    rows = [
        row("weak", scored(predicted(seed=1, skill=0.2), "weak")),
        row("good", scored(predicted(seed=2, skill=2), "good")),
    ]
    for r in rows:
        r.sign = -1
    compared(rows)
    assert [r.best for r in rows] == [True, False]
    difference = rows[1].difference
    assert difference is not None
    assert difference.difference == pytest.approx(rows[0].score - rows[1].score)
    assert difference.high < 0
    assert difference.p < 0.05


@pytest.mark.parametrize("kind", ["none", "multinomial"])
def test_a_masked_label_has_the_numbers_of_its_known_records(kind: Bootstrap) -> None:
    """Value, interval, n and positives, under the same draws of patients."""
    whole = predicted()
    hidden = np.random.default_rng(4).random(whole.target.shape) < [0.0, 0.3, 0.5]
    table = replace(whole, target=np.where(hidden, -1, whole.target).astype(np.int8)).table()
    drawn = draws(whole.patients, 200, kind)
    made = score("auroc", with_wins(["auroc"], table), drawn)
    found = made.table.set_index("label")
    for k, label in enumerate(LABELS):
        known = table[~hidden[:, k]].reset_index(drop=True)
        known = known[["record", "patient", "leads", f"probability:{label}", f"target:{label}"]]
        alone = score("auroc", known, drawn).table.set_index("label").loc[label]
        assert found.loc[label, "n"] == alone["n"] == len(known)
        assert found.loc[label, "positives"] == (known[f"target:{label}"] == 1).sum()
        for column in ("value", "low", "high"):
            assert found.loc[label, column] == pytest.approx(alone[column], abs=1e-9)
        assert alone["value"] == pytest.approx(
            roc_auc_score(known[f"target:{label}"], known[f"probability:{label}"]), abs=1e-12
        )
    assert found.loc["macro", "value"] == pytest.approx(found["value"].iloc[1:].mean())
    assert found.loc["macro", "n"] == len(table)


def test_a_label_that_one_patient_knows_has_no_interval_from_draws() -> None:
    whole = predicted()
    target = whole.target.copy()
    target[:, 1] = -1
    target[:2, 1] = 0, 1
    table = replace(whole, target=target).table()
    found = score("auroc", table, draws(whole.patients)).table.set_index("label")
    assert np.isfinite(found.loc["MI", "value"])
    assert np.isnan(found.loc["MI", ["low", "high"]].astype(float)).all()
    assert np.isfinite(found.loc["macro", ["low", "high"]].astype(float)).all()


def test_a_metric_never_meets_an_unknown_label(plugin: Plugin) -> None:
    """Whichever way its intervals are made, and a label that nobody knows is never shown to it."""
    strict = "    assert len(target)\n    assert set(np.unique(target)) <= {0, 1}\n"
    value = f"def value(target, score):\n{strict}    return target.mean(axis=0).astype(float)\n"
    influence = f"def influence(target, score):\n{strict}    return target - target.mean(axis=0)\n"
    mean = "weights @ target / weights.sum(axis=1, keepdims=True)"
    counts = f"def replicates(target, score, weights):\n{strict}    return {mean}\n"
    whole = predicted()
    hidden = np.random.default_rng(4).random(whole.target.shape) < [0.0, 0.3, 1.0]
    target = np.where(hidden, -1, whole.target).astype(np.int8)
    table = replace(whole, target=target).table()
    for name, body in (("a", value), ("b", value + influence), ("c", value + influence + counts)):
        made = score(plugin(name, body), table, draws(whole.patients)).table
        rate = target[target[:, 1] >= 0, 1].mean()
        assert made["value"].iloc[2] == pytest.approx(rate)
        assert made["low"].iloc[2] < rate < made["high"].iloc[2]
        assert np.isnan(made["value"].iloc[3])
        assert made["n"].tolist() == [120, 120, (~hidden[:, 1]).sum(), 0]


def test_identical_columns_count_once_by_their_mean() -> None:
    draw = np.random.default_rng(0)
    a, b, other = draw.random((3, 200)) < [[0.1], [0.3], [0.2]]
    masked = np.where(draw.random(200) < 0.5, a, -1)
    # two labels without positives are not said to be alike
    target = np.stack([a, b, a, a | other, 0 * a, 0 * a, masked], axis=1).astype(np.int8)
    assert same_as(target, "abcdefg") == ["", "", "a", "", "", "", ""]
    values = np.array([0.6, 0.7, 0.8, 0.9, np.nan, np.nan, 0.5])
    told = [(0.6 + 0.8) / 2, 0.7, 0.9, 0.5]
    assert distinct_mean(values, target, "undefined") == (pytest.approx(np.mean(told)), 4)
    assert distinct_mean(values, target, "half") == (pytest.approx(np.mean([*told, 0.5])), 5)
    apart = [0, 1, 3]
    assert distinct_mean(values[apart], target[:, apart], "undefined") == (
        pytest.approx(values[apart].mean()),
        3,
    )
    value, labels = distinct_mean(np.full(7, np.nan), target, "undefined")
    assert (np.isnan(value), labels) == (True, 0)
