"""Operating points: thresholds and rates again from the stored tables with scikit-learn; what a
shift at fewer leads does to frozen thresholds and to own ones; folds, masks, gaps.
"""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import confusion_matrix, roc_curve

from ecgbench import reports
from ecgbench.results.study import Run, read
from ecgbench.study.stored import Result
from tests.invented import VALIDATED, Data, in_folds, make, rows, seen, shifted

pytestmark = pytest.mark.rendered

FROZEN, OWN = "frozen at 12 leads", "own, 2-fold cross-fitted"
KEYS = ["model", "leads", "label", "kept", "thresholds"]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make(tmp_path_factory.mktemp("operating") / "run")


def found(study: Run, name: str = "operating_points") -> pd.DataFrame:
    section, _ = reports.sections("operating", study)
    return rows(section.parts, name)


def threshold(table: pd.DataFrame, label: str, kept: str) -> float:
    """By scikit-learn's ROC curve: the point that keeps 95 %."""
    target, score = table[f"target:{label}"], table[f"probability:{label}"]
    alarms, hits, at = roc_curve(target, score, drop_intermediate=False)
    if kept == "specificity":
        return float(at[alarms <= 0.05][-1])
    return float(at[hits >= 0.95][0])


@pytest.mark.parametrize("kept", ["specificity", "sensitivity"])
def test_frozen_thresholds_and_their_rates_again(study: Run, kept: str) -> None:
    table = found(study).set_index(KEYS)
    for model in ("good", "weak"):
        for leads, settings in {"1": ("1@seed0", "1@seed1"), "12": ("12",)}.items():
            for label in (f"A{k}" for k in range(3)):
                rates = []
                for setting in settings:
                    cell = study.result("a", model, setting, "zero")
                    at = threshold(cell.validation(), label, kept)
                    own = cell.predictions()
                    flagged = own[f"probability:{label}"] >= at
                    counts = confusion_matrix(own[f"target:{label}"], flagged)
                    rates.append(np.diag(counts) / counts.sum(axis=1))
                row = table.loc[(model, leads, label, kept, FROZEN)]
                specificity, sensitivity = np.mean(rates, axis=0)
                assert row["sensitivity"] == pytest.approx(sensitivity)
                assert row["specificity"] == pytest.approx(specificity)
                assert row["sensitivity_low"] < sensitivity < row["sensitivity_high"]
        mean = table.loc[(model, "1", "mean of labels", kept, FROZEN)]
        single = table.loc[(model, "1", [f"A{k}" for k in range(3)], kept, FROZEN), :]
        assert mean["sensitivity"] == pytest.approx(single["sensitivity"].mean())
        assert mean["labels"] == 3


def test_scores_that_rise_at_one_lead_spoil_frozen_thresholds_and_not_own_ones(
    study: Run,
) -> None:
    def higher(result: Result, table: pd.DataFrame) -> pd.DataFrame:
        return shifted(table, 2.0) if result.cell.setting.typed == "1" else table

    before, after = (
        found(s).set_index(KEYS)["specificity"][:, :, "mean of labels", "specificity"]
        for s in (study, seen(study, higher))
    )
    for model in ("good", "weak"):
        assert before[model, "1", FROZEN] > 0.9
        assert after[model, "1", FROZEN] < 0.7
        assert after[model, "1", OWN] == before[model, "1", OWN] > 0.9
        assert after[model, "12", FROZEN] == before[model, "12", FROZEN]


def test_thresholds_are_those_of_each_fold(study: Run) -> None:
    """Fits that score higher as a whole have higher thresholds, and the rates stay."""
    apart, alike = (found(in_folds(study, 3, shift)).set_index(KEYS) for shift in (3.0, 0.0))
    names = ["sensitivity", "specificity", "sensitivity_low", "positives", "patients"]
    pd.testing.assert_frame_equal(apart[names], alike[names])
    assert (apart["threshold"].dropna() > alike["threshold"].dropna()).all()
    whole = found(study).set_index(KEYS)
    assert (alike["positives"].dropna() == whole["positives"].dropna()).all()
    frozen = slice(None), slice(None), slice(None), slice(None), FROZEN
    pd.testing.assert_series_equal(
        alike.loc[frozen, "sensitivity"], whole.loc[frozen, "sensitivity"]
    )


def test_records_of_which_a_label_is_not_known_are_left_out_of_it(study: Run) -> None:
    def masked(_: Result, table: pd.DataFrame) -> pd.DataFrame:
        unknown = np.arange(len(table)) % 3 == 0
        return table.assign(**{"target:A1": table["target:A1"].where(~unknown, -1)})

    def fewer(_: Result, table: pd.DataFrame) -> pd.DataFrame:
        return table[np.arange(len(table)) % 3 != 0].reset_index(drop=True)

    names = ["sensitivity", "specificity", "threshold", "positives", "sensitivity_low"]
    made, rest, whole = (
        found(s).set_index(KEYS)[names]
        for s in (seen(study, masked, masked), seen(study, fewer, fewer), study)
    )
    for way in (("specificity", FROZEN), ("sensitivity", FROZEN), ("specificity", OWN)):
        pd.testing.assert_series_equal(
            made.loc[("good", "12", "A0", *way)], whole.loc[("good", "12", "A0", *way)]
        )
    for way in (("specificity", FROZEN), ("sensitivity", FROZEN)):
        pd.testing.assert_series_equal(
            made.loc[("good", "12", "A1", *way)], rest.loc[("good", "12", "A1", *way)]
        )


def test_what_has_no_number_says_why(tmp_path: Path) -> None:
    made = replace(
        VALIDATED,
        data={"first": Data(tasks={"a": 3}, records=300)},
        lacking=[("a", "weak", "1")],
    )
    study = make(tmp_path / "run", made)
    table = found(study).set_index(KEYS)
    row = table.loc[("weak", "1", "mean of labels", "specificity", FROZEN)]
    assert (row["status"], "it broke" in row["reason"]) == ("failed", True)
    assert np.isnan(row["sensitivity"])
    section, _ = reports.sections("operating", study)
    shown = [r for r in section.parts[0].rows if r["leads"] == "1"]
    assert {getattr(r["labels"], "text", r["labels"]) for r in shown} == {3, "failed"}
    shutil.rmtree(tmp_path / "run" / "fits" / "a" / "good")
    table = found(read(tmp_path / "run")).set_index(KEYS)
    row = table.loc[("good", "12", "A0", "specificity", FROZEN)]
    assert "run the same command again" in row["reason"]
    assert table.loc[("good", "12", "A0", "specificity", OWN), "sensitivity"] > 0.3
