"""Models that were scored on different records are compared on those that both have."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from ecgbench.errors import BadSetting
from ecgbench.results.joint import Entry, joint, why_missing
from ecgbench.results.study import Run
from tests.invented import Data, Made, make

LEFT = {"weak": set(range(5, 13)), "third": set(range(10, 22))}
"""Model -> numbers of the records that it cannot take."""


SKILL = {"good": 1.5, "weak": 0.5, "third": 0.8}
MADE = Made(
    data={"d": Data(tasks={"a": 3})},
    models=tuple(SKILL),
    leads="I,12",
    skill=lambda model, leads: SKILL[model],
    change=lambda model, table: table[
        [int(r[1:]) not in LEFT.get(model, ()) for r in table["record"]]
    ],
)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make(tmp_path_factory.mktemp("uneven") / "run", MADE)


def test_a_mean_over_fewer_labels_is_compared_with_none(tmp_path: Path) -> None:
    def unknown(model: str, table: pd.DataFrame) -> pd.DataFrame:
        return table.assign(**{"target:A0": np.int8(-1)}) if model == "good" else table

    study = make(tmp_path / "run", replace(MADE, change=unknown))
    main = study.main[study.main["leads"] == "12"].set_index("model")
    assert main["n_undefined"].to_dict() == {"good": 1, "weak": 0, "third": 0}
    assert (main["low"] < main["value"]).all()
    assert (main["value"] < main["high"]).all()
    assert {*study.comparisons["model"]} == {"weak"}
    entries = [Entry(model, "zero", "12") for model in ("good", "third")]
    assert "labels" in why_missing(study, entries, ["a"])["a"]


def macro(study: Run, model: str, records: set[str]) -> float:
    rows = study.predictions("a", model, "12", "zero")
    rows = rows[rows["record"].isin(records)]
    each = rows.groupby("label")[["target", "probability"]]
    return float(np.mean([roc_auc_score(r["target"], r["probability"]) for _, r in each]))


def test_each_pair_is_compared_on_the_records_that_both_have(study: Run) -> None:
    rows = {m: set(study.predictions("a", m, "12", "zero")["record"]) for m in LEFT}
    whole = set(study.predictions("a", "good", "12", "zero")["record"])
    found = study.comparisons[study.comparisons["leads"] == "12"].set_index("model")
    main = study.main[study.main["leads"] == "12"].set_index("model")
    for model, own in rows.items():
        expected = macro(study, "good", own & whole) - macro(study, model, own & whole)
        assert found.loc[model, "difference"] == pytest.approx(expected, abs=1e-12)
        assert found.loc[model, "n_records"] == found.loc[model, "n_patients"] == len(own)
        assert f"scored on {len(own)} of 120 records" in str(main.loc[model, "note"])
        assert main.loc[model, "value"] == pytest.approx(macro(study, model, own), abs=1e-12)
        both = joint(study, [Entry(m, "zero", "12") for m in ("good", model)])
        assert both.contrast([1, -1]).value == pytest.approx(expected, abs=1e-12)
        assert both.least_patients == len(own)
    assert "scored on" not in str(main.loc["good", "note"])


def test_several_cells_of_a_row_are_an_error_that_names_what_chooses_one(tmp_path: Path) -> None:
    study = make(tmp_path, Made(data={"d": Data(tasks={"a": 2})}, folds=3, fits=(0, 1)))
    for leads, given, said in (
        ("12", {"fit_seed": 1}, "3 cells .*fit_seed=1"),
        ("12", {"fold": "2/3"}, "2 cells .*fit_seed=0.*fit_seed=1"),
        ("1", {"fold": "2/3", "fit_seed": 0}, "1@seed0 .* and 1@seed1"),
    ):
        with pytest.raises(BadSetting, match=said):
            study.result("a", "good", leads, "zero", **given)
    one = study.result("a", "good", "12", "zero", fold="2/3", fit_seed=1)
    every = study.predictions("a", "good", "12", "zero")
    assert every.groupby(["fold", "fit_seed"])["record"].nunique().eq(40).all()
    assert every["record"].nunique() == 120
    mine = every[(every["fold"] == "2/3") & (every["fit_seed"] == 1) & (every["label"] == "A1")]
    stored = one.predictions()
    assert mine["record"].tolist() == stored["record"].tolist()
    assert (mine["probability"].to_numpy() == stored["probability:A1"].to_numpy()).all()
    assert (mine["target"].to_numpy() == stored["target:A1"].to_numpy()).all()
