"""What a page opens with: one of three forms, by what was asked; what voids a number stands before
it; "best" only where a test allows it.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ecgbench import reports
from ecgbench.reports import across, records
from ecgbench.results.study import Run
from ecgbench.results.verdicts import verdicts
from tests.invented import Data, Made, make


def opening(study: Run) -> Any:
    """What the page begins with."""
    return reports.sections("verdicts", study)[0].parts[0]


HEART = Data(tasks={"heart": 2}, records=300)
Build = Callable[..., Run]


@pytest.fixture
def built(tmp_path: Path) -> Build:
    """built(skills, leads, more...): skills of a model by leads as typed, of twelve unless said."""

    def run(
        skills: dict[str, dict[str, float]], leads: str = "I,12", data: Data = HEART, **more: Any
    ) -> Run:
        facts = {name: more.pop(name) for name in skills if name in more}
        made = Made(
            data={"real": data},
            models=tuple(skills),
            leads=leads,
            seeds=1,
            skill=lambda model, leads: skills[model].get(leads, skills[model]["12"]),
            **more,
        )
        return make(tmp_path / str(len(list(tmp_path.iterdir()))), made, **facts)

    return run


def numbers(text: str) -> list[float]:
    return [float(n) for n in re.findall(r"\d+(?:\.\d+)?", text)]


def test_own_recordings_have_a_line_for_each_diagnosis(built: Build) -> None:
    """How many of the patients with it are found; nobody said whose recordings they are."""
    data = replace(HEART, facts={"licence": "own recordings", "patients_known": False})
    skills = {"good": {"12": 1.5}, "weak": {"12": 0.5}}
    study = built(skills, data=data, validated=300)
    shown = opening(study)
    rows = verdicts(study).set_index(["model", "leads", "label"])
    assert [head.split()[0] for head, _ in shown.lines] == sorted(
        ("HEART0", "HEART1"), key=lambda n: -rows.loc[("good", "I", n), "patients_with"]
    )
    for head, rest in shown.lines:
        row = rows.loc[("good", "I", head.split()[0])]
        found = round(row["found_at_95_specificity"] * row["records_with"])
        assert f"finds {found} of {row['records_with']} recordings" in rest
        assert round(100 * row["auroc"], 1) in numbers(rest)
    assert "same person" in shown.before
    named = built(skills, "I", replace(HEART, facts={"licence": "own recordings"}), validated=300)
    assert opening(named).before == ""
    assert "patients with it" in opening(named).lines[0][1]


@pytest.mark.parametrize(("skill", "best"), [(0.3, True), (1.48, False)])
def test_of_several_models_one_is_best_only_where_that_is_no_chance(
    built: Build, skill: float, best: bool
) -> None:
    study = built({"good": {"12": 1.5}, "other": {"12": skill}}, shared=0.3)
    ((head, rest),) = opening(study).lines
    (row,) = [r for r in study.comparisons.to_dict("records") if r["leads"] == "I"]
    assert (row["p_holm"] < 0.05) is best
    assert ("is best" in head) is best
    winner = verdicts(study).query("leads == 'I' and label == 'macro'").nlargest(1, "auroc").iloc[0]
    assert numbers(rest)[:3] == [round(100 * winner[n], 1) for n in ("auroc", "low", "high")]
    assert numbers(rest)[3] == round(100 * row["difference"], 1)


def test_what_is_compared_with_none_is_not_best_first_or_second(built: Build) -> None:
    """The highest score is a mean over other labels."""

    def fewer(model: str, table: pd.DataFrame) -> pd.DataFrame:
        lost = model == "odd" and "target:HEART1" in table
        return table.assign(**{"target:HEART1": np.int8(-1)}) if lost else table

    skills = dict(zip(("odd", "good", "other", "weak", "poor"), (3.0, 1.5, 0.4, 0.3, 0.2)))
    data = Data(tasks={"heart": 2, "lung": 2}, records=300)
    study = built({m: {"12": s} for m, s in skills.items()}, data=data, shared=0.3, change=fewer)
    (head, rest), *_ = opening(study).lines
    assert head == "With lead I on Heart, Good is best of those compared: "
    value = {m: study.value("heart", m, "zero", "I") for m in skills}
    assert value["odd"] > value["good"]
    assert numbers(rest)[0] == round(100 * value["good"], 1)
    second = max(v for model, v in value.items() if model not in ("odd", "good"))
    assert numbers(rest)[3] == round(100 * (value["good"] - second), 1)
    (table, *_) = [p for p in reports.sections("main_table", study)[0].parts if p.kind == "table"]
    assert [table.rows[0][str(n)].rank for n in range(2)] == [None, 1]  # odd, good
    means = across.rows(study).query("model == 'good' and leads == 'I'").iloc[0]
    assert means["first"] == 1  # of lung, odd is


def test_too_few_patients_have_no_verdict_against_twelve_leads(built: Build) -> None:
    """The rare label clearly loses, of four patients."""
    study = built({"good": {"I": -9.0, "12": 9.0}}, prevalence={"HEART1": 0.015})
    rows = verdicts(study).query("leads == 'I' and label == 'HEART1'")
    assert rows["patients_with"].between(1, 4).all()
    assert (rows["against_twelve_high"] < -0.05).all()
    assert rows["verdict"].tolist() == ["cannot be told"]


def test_what_a_device_costs_stands_beside_a_difference_that_has_an_interval(
    built: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = built({"good": {"I": 0.5, "12": 1.5}})
    shown = {"task": "heart", "model": "good", "policy": "zero", "leads": "I", "label": "macro"}
    cost = {"reason": "", "difference": -0.1, "difference_low": -0.2, "difference_high": -0.05}
    rows = pd.DataFrame([shown | cost | {"perturbation": "em@6"}])
    monkeypatch.setattr("ecgbench.reports._opening.robustness", lambda study: rows)
    ends = verdicts(study).query("leads == 'I' and label == 'macro'").iloc[0]
    less = [100 * ends[f"against_twelve{end}"] for end in ("", "_low", "_high")]
    said = "these leads less twelve: {:+.1f} [{:+.1f}, {:+.1f}]".format(*less).replace("-", "−")
    assert said in opening(study).lines[-1][1]


def test_one_model_and_random_leads_say_what_they_keep(built: Build) -> None:
    """The share and Fieller's interval, of the setting with the fewest leads."""
    study = built({"good": {"1": 0.9, "12": 1.5}}, "2,1,12")
    ((head, rest),) = opening(study).lines
    row = verdicts(study).query("leads == '1' and label == 'macro'").iloc[0]
    kept = [round(100 * row[name]) for name in ("kept", "kept_low", "kept_high")]
    assert numbers(head) == kept
    full = study.value("heart", "good", "zero", "12")
    assert numbers(rest)[:2] == [round(100 * v, 1) for v in (row["auroc"], full)]


@pytest.mark.parametrize("leads", ["1", "I"])
def test_a_model_that_misleads_is_said_to(built: Build, leads: str) -> None:
    study = built({"good": {leads: -1.0, "12": 1.5}}, leads)
    assert all("misleads" in rest for _, rest in opening(study).lines)


def test_what_voids_a_number_stands_before_it(built: Build) -> None:
    fine = built({"good": {"12": 1.5}})
    assert opening(fine).before == ""
    random = built({"good": {"12": 1.5}}, "1,12", good={"weights": "random"})
    assert "Random weights" in opening(random).before
    void = replace(HEART, facts={"synthetic": True})
    synthetic = built({"good": {"12": 1.5}}, "2,12", data=void, good={"corpora": ["Real"]})
    assert "Synthetic" in opening(synthetic).before
    assert "pre-training" in opening(synthetic).before


def test_a_perfect_model_has_its_interval_wherever_it_has_a_score(tmp_path: Path) -> None:
    """Nine patients, all ordered: the bound of the label, and no row that is surely as good."""
    data = {"real": Data(tasks={"heart": 1}, records=9)}
    study = make(tmp_path / "run", Made(data=data, skill=lambda *of: 50.0, leads="12,1", seeds=1))
    low, high = study.labels.loc[study.labels["label"] == "HEART0", ["low", "high"]].iloc[0]
    assert (study.main["value"] == 1).all()
    assert study.main[["low", "high"]].to_numpy() == pytest.approx(np.array([[low, high]] * 4))
    assert high == 1
    assert 0 < low < 0.7
    reports.write(study, tmp_path / "out", only=["main_table"])
    assert (tmp_path / "out" / "main_table.csv").read_text().count(repr(float(low))) == 4
    for row in study.comparisons.to_dict("records"):
        assert row["difference"] == 0
        assert (row["low"], row["high"]) == pytest.approx((low - 1, 1 - low))
    rows = [p for p in reports.sections("non_inferiority", study)[0].parts if p.kind == "table"]
    assert {r["margin_0.02"] for r in records(rows[0].numbers)} == {"not tested"}
