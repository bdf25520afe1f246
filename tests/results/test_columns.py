"""The data dictionary: it has every column of every CSV file of a run, and nothing else."""

import csv
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from ecgbench import reports
from ecgbench.ecg.leads import LEADS
from ecgbench.reports import (
    Column,
    Table,
    cka,
    controls,
    gap,
    labels_used,
    lead_importance,
    robustness,
)
from ecgbench.results.columns import Meaning, dictionary, meaning
from ecgbench.results.controls import COLUMNS
from ecgbench.results.gap import COLUMNS as GAP
from ecgbench.results.gap import TERMS
from ecgbench.results.labels_used import COLUMNS as USED
from ecgbench.results.labels_used import EXCHANGE
from ecgbench.results.options import Options
from ecgbench.results.robustness import COLUMNS as PERTURBED
from ecgbench.results.robustness import RETEST
from ecgbench.results.study import Run, read
from ecgbench.study import frozen, people
from tests.invented import Data, Made, write

N = 240
MADE = Made(
    data={
        "first": Data(tasks={"ptbxl_super": 2}, records=N),
        "second": Data(tasks={"other": 2}, records=N),
    },
    models=("laef", "merl"),
    leads=",".join(["1", "12", *LEADS]),
    seeds=1,
    skill=lambda model, leads: {"laef": 1.5, "merl": 1.0}[model] * (0.6 if leads == "1" else 1.0),
    validated=200,
)
HYPOTHESIS = frozen.Hypothesis(
    name="better",
    kind="superiority",
    family="primary",
    metric="auroc",
    tasks=("other",),
    model="laef",
    leads="1",
    against_model="merl",
    against_leads="1",
)
PLACE = {"task": "other", "leads": "1", "model": "laef", "policy": "zero"}
CONTROL = {"control": "age_sex", **PLACE}
PEOPLE = {
    "age": range(20, 20 + N),
    "sex": ["female", "male"] * (N // 2),
    "site": "",
    "paced": "",
    "noted": "",
}


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run with something for every report; features and controls are stated."""
    run, when = tmp_path / "run", {"date": "2026-01-31T12:00:00Z", "version": "1"}
    plan = frozen.Frozen(
        title="", alpha=0.05, plan="", hypotheses=(HYPOTHESIS,), commit=None, dirty=None, **when
    )
    frozen.write(run, plan, scored=False)
    write(run, MADE)
    who = {"record": [f"r{i:05}" for i in range(N)], "patient": [f"p{i:05}" for i in range(N)]}
    people.keep(run, "first", pd.DataFrame({**who, **PEOPLE, "device": "A"}))
    known = {"perturbation": "em@6", "label": "macro", "status": "ok", "reason": "", **PLACE}
    known |= {"task": "ptbxl_super"}
    perturbed = pd.DataFrame([known, known | {"perturbation": "em@12"}], columns=PERTURBED)
    perturbed[["clean", "value", "low", "high"]] = 0.5
    budget = pd.DataFrame([PLACE | {"label": "macro", "reason": ""}], columns=GAP)
    budget[[name for name in GAP if name.startswith(TERMS)]] = 0.0
    used = pd.DataFrame([PLACE | {"label": "macro", "labelled": 25}], columns=USED)
    rate = pd.DataFrame([PLACE | {"equal": 0.0}], columns=EXCHANGE)
    halves = pd.DataFrame([PLACE | {"label": "OTHER0"}], columns=RETEST)
    halves[["icc", "kappa"]] = 0.5
    alike = dict.fromkeys(cka.NUMBERS, 0.5) | {"patients": N, "patients_seen": N}
    checked = pd.DataFrame([CONTROL | {"verdict": "no number", "note": ""}], columns=COLUMNS)
    monkeypatch.setattr(cka, "alike", lambda first, second: alike)
    monkeypatch.setattr(controls, "checked", lambda study: checked)
    monkeypatch.setattr(robustness, "robustness", lambda study: perturbed)
    monkeypatch.setattr(robustness, "retest", lambda study: halves)
    monkeypatch.setattr(gap, "gap", lambda study: budget)
    monkeypatch.setattr(labels_used, "labels_used", lambda study: used)
    monkeypatch.setattr(labels_used, "exchange", lambda study: rate)
    monkeypatch.setattr(lead_importance, "categories", lambda: {"OTHER0": "block"})
    return replace(read(run), options=Options(against=("paper",)))


@pytest.mark.long
def test_every_column_of_a_report_has_its_meaning_and_every_meaning_a_column(
    study: Run, tmp_path: Path
) -> None:
    files = [p for p in reports.write(study, tmp_path / "to", pictures=()) if p.suffix == ".csv"]
    section = reports.sections("against", study)[0]
    heads = {p.name: list(p.numbers) for p in section.parts if isinstance(p, Table)}
    for file in files:
        with file.open(encoding="utf-8", newline="") as rows:
            heads[file.stem] = next(csv.reader(rows))
    found = {(name, stem): meaning(name, stem) for stem, names in heads.items() for name in names}
    assert [where for where, known in found.items() if known is None] == []
    assert set(dictionary()) - set(found.values()) == set()


def test_a_meaning_is_short_and_said_once() -> None:
    rows = dictionary()
    assert len({(row.column, row.file) for row in rows}) == len(rows)
    assert [row for row in rows if not 0 < len(row.meaning.split()) <= 15] == []


def test_the_nearest_meaning_holds_and_gives_the_heading_where_a_report_has_none() -> None:
    def of(column: str, file: str) -> Meaning:
        found = meaning(column, file)
        assert found is not None
        return found

    assert of("kept", "verdicts").unit == "fraction"
    assert of("kept", "operating_points_2_by_leads").file == "operating_points*"
    assert of("difference", "lead_importance_pairs_3").file == "lead_importance_pairs*"
    assert of("ppv_0.01_low", "operating_points").column == "*_low"
    assert of("I+II", "survival_auroc").file == "survival_*"
    assert of("task", "survival_auroc").file == ""
    assert meaning("mine", "mine") is None
    columns = [Column("seconds"), Column("fs", "Rate"), Column("mine")]
    assert [c.title for c in Table(name="models", columns=columns, rows=[]).columns] == [
        *("Window, s", "Rate", "mine")
    ]
