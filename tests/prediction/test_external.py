"""An external test beside scikit-learn and scipy: every number of it, and what cannot be meant."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq
from sklearn.metrics import roc_auc_score

from ecgbench.errors import BadSetting
from ecgbench.prediction.external import labelled, lines, mapping, scored

N = 120


@pytest.fixture
def predicted() -> pd.DataFrame:
    """What `predict` gives of 120 files, of which one could not be read."""
    random = np.random.default_rng(0)
    made = pd.DataFrame(
        {
            "record": [f"A{i:03}" for i in range(N)],
            "file": [f"new/A{i:03}.csv" for i in range(N)],
            "reason": "",
            "probability:AFIB": random.random(N),
            "probability:PVC": random.random(N),
        }
    )
    made["flag:AFIB"] = (made["probability:AFIB"] > 0.8).astype("Int8")
    made["flag:PVC"] = pd.array([None] * N, dtype="Int8")
    made.loc[7, ["reason", "probability:AFIB"]] = "too short", np.nan
    return made


@pytest.fixture
def table(predicted: pd.DataFrame, tmp_path: Path) -> Path:
    random = np.random.default_rng(1)
    p = predicted["probability:AFIB"].fillna(0.5).to_numpy()
    words = np.where(random.random(N) < p**2, "A", np.where(random.random(N) < 0.5, "N", "~"))
    rows = pd.DataFrame({"record": predicted["record"], "label": words})
    rows["patient"] = [f"p{i // 2}" for i in range(N)]
    rows.to_csv(tmp_path / "reference.csv", index=False)
    return tmp_path / "reference.csv"


def test_every_number_is_that_of_another_implementation(
    predicted: pd.DataFrame, table: Path
) -> None:
    found = scored(predicted, labelled(table, {}), {"AFIB": "A"})
    (row,) = found.to_dict("records")
    there = predicted["reason"] == ""
    has = (pd.read_csv(table)["label"] == "A").to_numpy()[there]
    p = predicted["probability:AFIB"][there].to_numpy(float)
    flagged = p > 0.8
    assert (row["records"], row["with_it"], row["patients"]) == (N - 1, has.sum(), N // 2)
    assert row["auroc"] == pytest.approx(roc_auc_score(has, p), abs=1e-12)
    assert row["auroc_low"] < row["auroc"] < row["auroc_high"]
    assert row["sensitivity"] == pytest.approx(flagged[has].mean(), abs=1e-12)
    assert row["specificity"] == pytest.approx((~flagged)[~has].mean(), abs=1e-12)
    assert row["brier"] == pytest.approx(((p - has) ** 2).mean(), abs=1e-12)
    odds = np.log(p / (1 - p))

    def off(shift: float) -> float:
        return float((1 / (1 + np.exp(-(odds + shift))) - has).sum())

    assert row["intercept"] == pytest.approx(brentq(off, -20, 20), abs=1e-6)
    assert row["prevalence"] == pytest.approx(has.mean())
    assert found.attrs["left_out"] == 1
    assert any("left out" in text for text in lines(found))


def test_a_label_without_a_threshold_has_no_decisions(predicted: pd.DataFrame, table: Path) -> None:
    (row,) = scored(predicted, labelled(table, {}), {"PVC": "N"}).to_dict("records")
    assert np.isfinite(row["auroc"])
    assert np.isnan(row["sensitivity"])
    assert "threshold" in row["note"]


@pytest.mark.parametrize(
    ("pairs", "named"), [({"SR": "N"}, "AFIB"), ({"AFIB": "AF"}, "'AF'"), ({}, "--map AFIB=")]
)
def test_labels_that_do_not_meet_are_asked_about(
    predicted: pd.DataFrame, table: Path, pairs: dict[str, str], named: str
) -> None:
    with pytest.raises(BadSetting) as error:
        scored(predicted, labelled(table, pairs), pairs)
    assert named in str(error.value)


def test_advice_is_of_a_command_that_has_the_option(
    predicted: pd.DataFrame, tmp_path: Path
) -> None:
    table = tmp_path / "words.csv"
    rows = {"record": [f"x{i}" for i in range(N)], "label": ["AFIB", "no"] * (N // 2)}
    pd.DataFrame(rows).to_csv(table, index=False)
    with pytest.raises(BadSetting, match=r"--partial.*ecgbench data import"):
        scored(predicted, labelled(table, {}), {})


def test_what_is_no_pair() -> None:
    assert mapping("AFIB=A, SR=~") == {"AFIB": "A", "SR": "~"}
    for text in ("AFIB", "=A", "AFIB=", "AFIB=A,AFIB=B"):
        with pytest.raises(BadSetting):
            mapping(text)


def test_a_table_that_an_import_would_ask_about_says_where(tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("record,af\na,ja\nb,nein\n")
    with pytest.raises(BadSetting, match=r"--label-columns.*data import.*NAME/records.csv"):
        labelled(tmp_path / "new.csv", {})
