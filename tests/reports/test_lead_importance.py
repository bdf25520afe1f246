"""The report of single leads: planted leads are found, what is not known is grey, and every number
again from the predictions that the run stored.
"""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from sklearn.metrics import roc_auc_score

from ecgbench import reports
from ecgbench.datasets._labels import categories, table
from ecgbench.ecg.leads import LEADS
from ecgbench.reports import lead_importance as report
from ecgbench.reports import write
from ecgbench.results.lead_importance import PAIRS, columns, importance
from ecgbench.results.study import Run
from tests import invented

HEART = {"A0": "infarction", "A1": "infarction", "A2": "block", "A3": "rhythm", "A4": "rhythm"}
"""A5 has no category."""
RIGHT = {("V2", "A0"): 2.6, ("V3", "A1"): 2.4, ("V1", "A2"): 2.6, ("II", "A2"): 1.9}


def made(**more: object) -> invented.Made:
    usual = {
        "data": {"alpha": invented.Data(tasks={"a": 6}, records=500, per_patient=2)},
        "models": ("good",),
        "leads": "12," + ",".join(LEADS),
        "seeds": 1,
        "prevalence": {"A4": 0.004},
        "lost": {(lead, f"A{k}"): 0.8 for lead in LEADS for k in range(6)} | RIGHT,
    }
    return invented.Made(**{**usual, **more})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return invented.make(tmp_path_factory.mktemp("leads") / "run", made())


@pytest.fixture(autouse=True)
def of_the_heart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "categories", lambda: HEART)


def predictions(study: Run, lead: str) -> pd.DataFrame:
    return study.result("a", "good", lead, "zero").predictions().sort_values("record")


def test_the_planted_leads_come_first_and_noise_is_left_out(study: Run) -> None:
    found = importance(study, "a", ("good", "zero"), HEART)
    first = {c.name: LEADS[int(np.argmax(c.difference))] for c in found.conditions}
    assert (first["A0"], first["A1"], first["A2"]) == ("V2", "V3", "V1")
    left = {c.name: c.left_out for c in found.conditions}
    assert left["A0"] == left["A1"] == left["A2"] == ""
    assert left["A3"] == "range not beyond that of exchangeable leads"
    assert left["A4"] == "fewer than 10 positives"
    told = {c.name: c.reliability for c in found.conditions}
    assert min(told["A0"], told["A2"]) > 0.7
    groups = {g.name: g for g in found.categories}
    assert [g.conditions for g in groups.values()] == [2, 1, 0]
    assert (groups["rhythm"].few, groups["rhythm"].within) == (1, 1)
    assert math.isnan(groups["rhythm"].reliability)
    assert found.unassigned == ["A5"]
    names = [(LEADS[a], LEADS[b]) for a, b in PAIRS]
    apart = {name: ends for name, (_, *ends) in zip(names, groups["block"].pairs)}
    assert apart["V1", "V6"][0] > 0
    assert apart["I", "V1"][1] < 0


def test_numbers_are_those_of_the_predictions(study: Run) -> None:
    found = importance(study, "a", ("good", "zero"), HEART)
    values = {
        name: [
            roc_auc_score(p[f"target:{name}"], p[f"probability:{name}"])
            for p in (predictions(study, lead) for lead in LEADS)
        ]
        for name in [*HEART, "A5"]
    }
    for c in found.conditions:
        np.testing.assert_allclose(c.aurocs, values[c.name], atol=1e-12)
        np.testing.assert_allclose(c.z, scipy.stats.zscore(values[c.name]))
        assert all(lo < d < hi for lo, d, hi in zip(c.low, c.difference, c.high))
        np.testing.assert_allclose(c.shrunk, c.reliability * np.array(c.difference))
    infarction = next(g for g in found.categories if g.name == "infarction")
    mean = np.mean([values["A0"], values["A1"]], axis=0)
    np.testing.assert_allclose(infarction.difference, mean - mean.mean())
    macro = np.mean(list(values.values()), axis=0)
    np.testing.assert_allclose(found.macro.aurocs, macro, atol=1e-12)
    of_table = study.main.set_index("leads")["value"]
    np.testing.assert_allclose(found.macro.aurocs, [of_table[lead] for lead in LEADS], atol=1e-12)
    low, high = found.macro.bounds
    assert 0 <= low <= found.macro.range <= high
    assert found.macro.range > found.macro.bound > found.macro.expected > 0


def test_the_page_and_the_files(study: Run, tmp_path: Path) -> None:
    files = {f.name: f for f in write(study, tmp_path, only=["lead_importance"])}
    assert {n for n in files if n.endswith(".png")} == {"lead_importance_map.png"}
    assert len(pd.read_csv(files["lead_importance.csv"])) == 4 * 12
    rows = pd.read_csv(files["lead_importance_conditions.csv"])
    assert len(rows) == 5 * 12
    assert set(rows.loc[rows["left_out"].notna(), "name"]) == {"A3", "A4"}
    assert len(pd.read_csv(files["lead_importance_pairs.csv"])) == 3 * 66
    assert "In no category: A5" in files["index.html"].read_text()


@pytest.mark.parametrize("lacking", ["V4", "aVR"])
def test_a_lead_that_has_no_score_leaves_nothing(lacking: str, tmp_path: Path) -> None:
    small = {"alpha": invented.Data(tasks={"a": 2}, records=60)}
    without = made(data=small, lacking=[("a", "good", lacking)])
    study = invented.make(tmp_path / "run", without)
    assert columns(study, "a") == []
    assert reports.sections("lead_importance", study) == []


def test_every_code_of_ptbxl_has_a_category_but_normal() -> None:
    known = categories()
    for name in ("ptbxl_all", "ptbxl_sub", "ptbxl_super"):
        assert [r["code"] for r in table(name) if r["code"] not in known] == ["NORM"]
    of_paper = {r["category"] for r in table("cardio_learning")}
    assert {r["category"] for r in table("ptbxl_categories")} - {""} <= of_paper
    # what both lists have under one code has one category; MI and CD are words for other things
    both = {r["code"]: r["category"] for r in table("cardio_learning")}
    for row in table("ptbxl_categories"):
        if row["level"] == "code" and row["code"] in both and row["code"] != "NORM":
            assert row["category"] == both[row["code"]], row["code"]
