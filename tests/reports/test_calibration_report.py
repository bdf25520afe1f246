"""The report of calibration and of decision curves: numbers again from the stored tables; labels
that every row has; a shift that is found.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import logit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss

from ecgbench import reports
from ecgbench.reports import write
from ecgbench.results.study import Run
from ecgbench.study.stored import Result
from tests.invented import make, rows, seen, shifted

pytestmark = pytest.mark.rendered

KEYS = ["model", "leads", "label"]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make(tmp_path_factory.mktemp("calibration") / "run")


def found(study: Run, name: str = "calibration") -> pd.DataFrame:
    (section,) = reports.sections("calibration", study)
    return rows(section.parts, name)


def test_numbers_again_from_the_stored_predictions(study: Run) -> None:
    table = found(study).set_index(KEYS)
    for label in (f"A{k}" for k in range(3)):
        made = []
        for setting in ("1@seed0", "1@seed1"):
            own = study.result("a", "good", setting, "zero").predictions()
            target, p = own[f"target:{label}"], own[f"probability:{label}"]
            fitted = LogisticRegression(C=1e12, tol=1e-12, max_iter=999)
            fitted.fit(logit(p).to_numpy()[:, None], target)
            made.append((brier_score_loss(target, p), fitted.coef_[0, 0]))
        row = table.loc[("good", "1", label)]
        assert [row["brier"], row["slope"]] == pytest.approx(np.mean(made, axis=0), abs=1e-4)
        for name in ("brier", "slope", "intercept"):
            assert row[f"{name}_low"] < row[name] < row[f"{name}_high"]
        assert 0 < row["ece_by_chance"] < row["ece"]
        assert row["patients"] == 150
    mean = table.loc[("good", "1", "mean of labels")]
    single = table.loc[("good", "1", [f"A{k}" for k in range(3)]), :]
    for name in ("brier", "slope", "intercept", "ece"):
        assert mean[name] == pytest.approx(single[name].mean())
    assert (
        mean["slope_high"] - mean["slope_low"] < (single["slope_high"] - single["slope_low"]).mean()
    )


def test_probabilities_that_are_all_too_high_have_a_low_intercept_and_the_same_slope(
    study: Run,
) -> None:
    before = found(study).set_index(KEYS)
    after = found(seen(study, lambda _, table: shifted(table, 1.0))).set_index(KEYS)
    np.testing.assert_allclose(after["slope"], before["slope"], atol=1e-6)
    np.testing.assert_allclose(after["intercept"], before["intercept"] - 1, atol=1e-6)


def test_a_label_without_a_slope_in_one_row_is_in_no_mean(study: Run, tmp_path: Path) -> None:
    def perfect(result: Result, table: pd.DataFrame) -> pd.DataFrame:
        sure = 0.1 + 0.8 * table["target:A0"]
        here = result.cell.fit.model == "good" and result.cell.setting.typed == "12"
        return table.assign(**{"probability:A0": sure}) if here else table

    changed = seen(study, perfect)
    (section,) = reports.sections("calibration", changed)
    table = rows(section.parts, "calibration").set_index(KEYS)
    assert "no slope" in table.loc[("good", "12", "A0"), "reason"]
    assert (table.xs("mean of labels", level="label")["labels"] == 3 - 1).all()
    weak = table.loc["weak"].loc["12"]
    assert weak.loc["mean of labels", "slope"] == pytest.approx(
        weak.loc[["A1", "A2"], "slope"].mean()
    )
    # beside the means, in the files for a paper too
    assert any("A0" in text and "no slope" in text for text in section.parts[0].notes)
    write(changed, tmp_path, only=["calibration"], pictures=["png"])
    assert "A0: in some row" in (tmp_path / "calibration.md").read_text()


def test_net_benefit_again_and_of_flagging_everybody(study: Run) -> None:
    _, section = reports.sections("operating", study)
    table = rows(section.parts, "decision_curves")
    own = study.result("a", "weak", "12", "zero").predictions()
    for chance in (0.05, 0.2, 0.5):
        target, flagged = own["target:A2"] == 1, own["probability:A2"] >= chance
        odds = chance / (1 - chance)
        expected = ((flagged & target).sum() - odds * (flagged & ~target).sum()) / len(own)
        row = table[(table["model"] == "weak") & (table["leads"] == "12")]
        row = row[(row["label"] == "A2") & (row["threshold_probability"] == chance)].iloc[0]
        assert row["net_benefit"] == pytest.approx(expected)
        assert row["flag_all"] == pytest.approx(target.mean() - odds * (~target).mean())
        assert row["low"] < row["net_benefit"] < row["high"]
