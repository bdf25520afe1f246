"""Verdicts of invented runs, each number by another computation."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score, roc_curve

from ecgbench.results.joint import Entry, joint
from ecgbench.results.study import Run
from ecgbench.results.verdicts import COLUMNS, MACRO, TESTED, VALIDATION, chance, verdicts
from tests.invented import Data, Made, make

SKILL = {"good": 1.6, "near": 1.4, "simple": 0.8, "odd": 0.3}
MADE = Made(
    data={"first": Data(tasks={"a": 3}, records=400, per_patient=2)},
    models=tuple(SKILL),
    leads="I,12",
    skill=lambda model, leads: SKILL[model] * (0.7 if leads == "I" else 1.0),
    validated=300,
    unknown=3,
)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two trained models, one without a parameter, one with random weights; two records of each
    patient, and a label that is not known of every third record.
    """
    facts: dict[str, Any] = {"simple": {"parameters": 0}, "odd": {"weights": "random"}}
    return make(tmp_path_factory.mktemp("verdicts") / "run", MADE, **facts)


def row(study: Run, model: str, leads: str, label: str = MACRO) -> pd.Series:
    rows = verdicts(study).set_index(["model", "leads", "label"])
    found: pd.Series = rows.loc[(model, leads, label)]
    return found


def predicted(study: Run, model: str, leads: str, label: str) -> pd.DataFrame:
    """Records of which the label is known: patient, target, probability."""
    table = study.result("a", model, leads, "zero").predictions()
    names = {f"target:{label}": "target", f"probability:{label}": "probability"}
    table = table.rename(columns=names)[["patient", "target", "probability"]]
    return table[table["target"] != -1]


def test_scores_and_counts_are_those_of_the_stored_predictions(study: Run) -> None:
    assert list(verdicts(study)) == list(COLUMNS)
    for label in ("A0", "A2"):
        for model in SKILL:
            table, found = predicted(study, model, "I", label), row(study, model, "I", label)
            assert found["auroc"] == pytest.approx(roc_auc_score(table.target, table.probability))
            has = set(table.loc[table.target == 1, "patient"])
            assert found["records_with"] == (table.target == 1).sum()
            assert found["patients_with"] == len(has)
            assert found["patients_without"] == len(set(table["patient"]) - has)
            assert found["patients"] == table["patient"].nunique()
            assert found["counted"] == "patients"
    main = study.main.set_index(["model", "leads"])
    for model in ("simple", "odd"):  # of others the best is chosen
        for leads in ("I", "12"):
            one = row(study, model, leads)[["auroc", "low", "high"]]
            assert list(one) == list(main.loc[(model, leads), ["value", "low", "high"]])


def test_the_interval_of_the_best_of_several_holds_for_all_of_them(study: Run) -> None:
    main = study.main.set_index(["model", "leads"])
    for leads in ("I", "12"):
        own = main.loc[[(m, leads) for m in ("good", "near", "simple")]]
        best, alone = own["value"].idxmax()[0], own.loc[own["value"].idxmax()]
        found = row(study, best, leads)
        assert found["selected_of"] == 3
        assert found["low"] < alone["low"] < alone["high"] < found["high"]
        labels = study.of("auroc").by_label.set_index(["model", "leads", "label"])
        for label in ("A0", "A1", "A2"):
            found, alone = row(study, best, leads, label), labels.loc[(best, leads, label)]
            assert found["low"] <= alone["low"]
            assert found["high"] >= alone["high"]


@pytest.mark.parametrize(("name", "other"), [("simple", "simple"), ("untrained", "odd")])
def test_differences_are_paired_and_p_is_corrected_by_holm(
    study: Run, name: str, other: str
) -> None:
    p = {}
    for model in ("good", "near"):
        entries = [Entry(model, "zero", "I"), Entry(other, "zero", "I")]
        together = joint(study, entries, ["a"])
        found, e = row(study, model, "I"), together.contrast(together.less(*entries))
        said = found[[f"against_{name}{end}" for end in ("", "_low", "_high")]]
        assert found[name] == other
        assert list(said) == pytest.approx([e.value, *e.as_difference()], rel=1e-9)
        p[model] = e.p
    if name == "untrained":
        entries = [Entry("simple", "zero", "I"), Entry(other, "zero", "I")]
        together = joint(study, entries, ["a"])
        p["simple"] = together.contrast(together.less(*entries)).p
    order, corrected = sorted(p, key=lambda m: p[m]), 0.0
    for at, model in enumerate(order):
        corrected = max(corrected, min(1.0, p[model] * (len(p) - at)))
        said = row(study, model, "I")[f"against_{name}_p_holm"]
        assert said == pytest.approx(corrected, rel=1e-9)


def test_fewer_leads_are_compared_with_twelve_of_the_same_model(study: Run) -> None:
    fewer, full = Entry("good", "zero", "I"), Entry("good", "zero", "12")
    together = joint(study, [fewer, full], ["a"])
    found, e = row(study, "good", "I"), together.contrast(together.less(fewer, full))
    names = [f"against_twelve{end}" for end in ("", "_low", "_high")]
    assert list(found[names]) == pytest.approx([e.value, *e.as_difference()], rel=1e-9)
    share = together.share(fewer, full)
    assert list(found[["kept", "kept_low", "kept_high"]]) == pytest.approx(list(share))
    assert share.value == pytest.approx(
        (row(study, "good", "I")["auroc"] - 0.5) / (row(study, "good", "12")["auroc"] - 0.5)
    )
    assert np.isnan(row(study, "good", "12")["against_twelve"])
    for label in ("A0", "A2"):
        few, all_leads = (row(study, "good", leads, label)["auroc"] for leads in ("I", "12"))
        less = row(study, "good", "I", label)
        assert less["against_twelve"] == pytest.approx(few - all_leads)
        assert less["against_twelve_low"] < few - all_leads < less["against_twelve_high"]
        assert less["kept"] == pytest.approx((few - 0.5) / (all_leads - 0.5))


def test_what_is_found_is_counted_at_a_threshold_of_other_records(study: Run) -> None:
    for model in ("good", "simple"):
        table, found = predicted(study, model, "12", "A0"), row(study, model, "12", "A0")
        fit = study.result("a", model, "12", "zero").validation()
        alarms, hits, at = roc_curve(
            fit["target:A0"], fit["probability:A0"], drop_intermediate=False
        )
        positive = table.target == 1
        flagged = table.probability >= at[alarms <= 0.05][-1]
        assert found["found_at_95_specificity"] == pytest.approx(flagged[positive].mean())
        flagged = table.probability >= at[hits >= 0.95][0]
        assert found["false_alarms_at_95_sensitivity"] == pytest.approx(flagged[~positive].mean())
        assert found["found_low"] < found["found_at_95_specificity"] < found["found_high"]
        assert found["threshold_from"] == VALIDATION
    assert row(study, "good", "I", "A0")["threshold_from"] == TESTED


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({}, "above"),
        ({"low": 0.5}, "not shown"),
        ({"low": 0.3, "high": 0.499}, "below"),
        ({"patients": 29}, "too few"),
        ({"patients_with": 4}, "too few"),
        ({"patients_without": 4}, "too few"),
    ],
)
def test_what_is_said_of_chance(change: dict[str, float], word: str) -> None:
    least = {"patients": 30, "patients_with": 5, "patients_without": 5}
    assert chance({"low": 0.501, "high": 0.7, **least, **change}) == word
