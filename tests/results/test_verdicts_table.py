"""verdicts.csv: each number against another computation, each word at its border."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from ecgbench.results.joint import Entry, joint
from ecgbench.results.study import Study, read
from ecgbench.results.verdicts import MACRO, chance, verdicts
from ecgbench.stats.paired import holm
from tests.results.made_run import Data, Made, write

THREE = Made(
    data={"first": Data(tasks={"a": 3}, records=240, per_patient=2, prevalence=0.25)},
    models=("good", "weak", "plain", "blank"),
    leads="I,12",
    skill=lambda model, leads: (
        {"good": 1.6, "weak": 1.2}.get(model, 0.8) * (0.6 if leads == "I" else 1.0)
    ),
    validated=200,
)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Study:
    path = tmp_path_factory.mktemp("verdicts") / "run"
    write(path, THREE, plain={"parameters": 0}, blank={"weights": "random"})
    return read(path)


def at(table: pd.DataFrame, model: str, leads: str, label: str = MACRO) -> pd.Series:
    rows = table[(table["model"] == model) & (table["leads"] == leads) & (table["label"] == label)]
    assert len(rows) == 1
    return rows.iloc[0]


def test_a_label_counts_patients_of_whom_it_is_known(three: Study) -> None:
    own = three.result("a", "good", "12", "zero").predicted()
    for k, label in enumerate(own.labels):
        row = at(verdicts(three), "good", "12", label)
        has = set(own.patients[own.target[:, k] == 1])
        assert row["patients_with"] == len(has)
        assert row["patients_without"] == len(set(own.patients) - has)
        assert row["records_with"] == (own.target[:, k] == 1).sum()
        auroc = roc_auc_score(own.target[:, k], own.probability[:, k])
        assert row["auroc"] == pytest.approx(auroc, abs=1e-12)


def test_differences_are_those_of_the_same_patients(three: Study) -> None:
    table = verdicts(three)
    plain, full = Entry("plain", "zero", "I"), Entry("good", "zero", "12")
    good = Entry("good", "zero", "I")
    row = at(table, "good", "I")
    found = joint(three, [good, plain], ["a"]).contrast((1, -1))
    assert row["simple"] == "plain"
    numbers = row[["against_simple", "against_simple_low", "against_simple_high"]]
    assert [*numbers] == pytest.approx([found.value, *found.as_difference()], rel=1e-9)
    blank = joint(three, [good, Entry("blank", "zero", "I")], ["a"]).contrast((1, -1))
    assert (row["untrained"], row["against_untrained"]) == ("blank", pytest.approx(blank.value))
    both = joint(three, [good, full], ["a"])
    less = both.contrast((1, -1))
    assert row["against_twelve"] == pytest.approx(less.value, rel=1e-9)
    assert [*row[["kept", "kept_low", "kept_high"]]] == pytest.approx([*both.share(good, full)])
    models = [at(table, m, "I") for m in ("good", "weak")]
    p = [
        joint(three, [Entry(m, "zero", "I"), plain], ["a"]).contrast((1, -1)).p
        for m in ("good", "weak")
    ]
    assert [m["against_simple_p_holm"] for m in models] == pytest.approx(holm(p).tolist())


def test_the_best_of_several_has_the_interval_of_all_of_them(three: Study) -> None:
    table = verdicts(three)
    own = three.main[(three.main["model"] == "good") & (three.main["leads"] == "12")].iloc[0]
    row = at(table, "good", "12")
    assert row["selected_of"] == 3
    assert row["low"] < own["low"] < own["high"] < row["high"]
    other = three.main[(three.main["model"] == "plain") & (three.main["leads"] == "12")].iloc[0]
    assert (at(table, "plain", "12")["low"], other["low"]) == (other["low"], other["low"])


def test_a_threshold_is_never_of_the_scored_records(three: Study) -> None:
    """Of twelve leads it is that of the validation records, counted here by hand."""
    result = three.result("a", "good", "12", "zero")
    checked, own = result.validation(), result.predicted()
    label = own.labels[0]
    score = checked[f"probability:{label}"].to_numpy()
    negative = np.sort(score[checked[f"target:{label}"] == 0])
    highest = negative[len(negative) - 1 - int(0.05 * len(negative) + 1e-9)]
    threshold = score[score > highest].min()
    has = own.target[:, 0] == 1
    row = at(verdicts(three), "good", "12", label)
    assert row["found_at_95_specificity"] == (own.probability[has, 0] >= threshold).mean()
    assert row["threshold_from"].startswith("validation")
    assert at(verdicts(three), "good", "I", label)["threshold_from"].startswith("test records, by")


@pytest.mark.parametrize(
    ("low", "high", "with_it", "patients", "word"),
    [
        (0.501, 0.9, 5, 30, "above"),
        (0.5, 0.9, 5, 30, "not shown"),
        (0.1, 0.499, 5, 30, "below"),
        (0.6, 0.9, 4, 30, "too few"),
        (0.6, 0.9, 5, 29, "too few"),
    ],
)
def test_words_at_their_borders(
    low: float, high: float, with_it: int, patients: int, word: str
) -> None:
    row = {"low": low, "high": high, "patients": patients}
    assert chance(row | {"patients_with": with_it, "patients_without": patients - with_it}) == word


def test_over_folds_a_label_has_one_interval_that_is_wider(tmp_path: Path) -> None:
    """Than that of as many patients in one test set, which other fits did not train."""
    made = replace(THREE, models=("good",), leads="12", shared=1.0, validated=0)
    write(tmp_path / "one", made)
    write(tmp_path / "five", replace(made, folds=5))
    one, five = (verdicts(read(tmp_path / name)) for name in ("one", "five"))
    for label in one["label"]:
        a, b = at(one, "good", "12", label), at(five, "good", "12", label)
        # its fit is not stored: as if two folds of five did not train, sqrt(1 + 5 / 3)
        assert (b["high"] - b["low"]) / (a["high"] - a["low"]) == pytest.approx(1.6, abs=0.3)
        assert (a["patients_with"], a["counted"]) == (b["patients_with"], "patients")
