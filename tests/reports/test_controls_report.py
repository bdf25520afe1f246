"""What the report says of controls that are written by hand, and of headlines without models that
met the source of a task.
"""

import runpy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from ecgbench.reports import Section
from ecgbench.reports import controls as report
from ecgbench.results.controls import COLUMNS
from ecgbench.results.study import Study

make = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("make_study.py"))))
ROW = {
    "control": "age_sex",
    "task": "ptbxl_super",
    "leads": "1",
    "model": "laef",
    "policy": "native",
    "verdict": "no number",
    "note": "",
}


def written(study: Study, rows: list[dict], patch: pytest.MonkeyPatch) -> list[Section]:
    patch.setattr(report, "checked", lambda study: pd.DataFrame(rows, columns=COLUMNS))
    return report.sections(study)


def met(study: Study, model: str) -> Study:
    """The same, with a model that was pre-trained on PTB-XL."""
    models = [
        replace(m, corpora=("PTB-XL",) if m.name == model else ("Hefei",)) for m in study.models
    ]
    return replace(study, models=models)


def test_a_shortcut_is_a_notice_where_the_lower_bound_is_below_0(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = ROW | {"value": 0.65, "low": 0.6, "high": 0.7}
    row |= {"model_value": 0.7, "difference": 0.05, "difference_high": 0.1}
    near = row | {"difference_low": -0.001, "verdict": "undecided"}
    above = row | {"difference_low": 0.001, "verdict": "as expected"}
    section, _ = written(make.two_models(), [near], monkeypatch)
    said = section.parts[0].texts[-1]  # type: ignore[union-attr]
    assert "age and sex alone reach 65.0 [60.0, 70.0]" in said
    assert "Not clearly above that: LAEF at 1 random lead" in said
    section, _ = written(make.two_models(), [above], monkeypatch)
    assert "reach" not in section.parts[0].texts[-1]  # type: ignore[union-attr]
    # one that rests on the leads is not named by its highest score alone
    other = near | {"leads": "I", "value": 0.55, "low": 0.5, "high": 0.6}
    section, _ = written(make.two_models(), [near, other], monkeypatch)
    said = section.parts[0].texts[-1]  # type: ignore[union-attr]
    assert "age and sex alone reach 55.0 to 65.0, by the leads." in said


@pytest.mark.parametrize(
    ("model", "left", "changes"),
    [
        ("laef", "ST-MEM is the best", "another model is the best"),
        ("stmem", "LAEF is the best", ""),
    ],
)
def test_the_best_without_the_model_that_met_the_source(
    model: str, left: str, changes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = ROW | {"note": "skipped: not known"}
    _, unmet = written(met(make.two_models(), model), [row], monkeypatch)
    (table,) = (part for part in unmet.parts if part.kind == "table")
    by_leads = {r["leads"]: r for r in table.rows}
    assert by_leads["I"]["without"].startswith(left)
    assert by_leads["I"]["changes"] == changes
    # at twelve leads ST-MEM is the best
    assert bool(by_leads["12"]["changes"]) == (model == "stmem")
    moved = sum(r["changes"] == "another model is the best" for r in table.rows)
    sentence = f"Of {len(table.rows)} headlines, another model is the best: {moved}."
    assert unmet.parts[0].texts == [sentence]  # type: ignore[union-attr]


def test_a_headline_without_a_model_is_not_counted_as_one_with_another_best(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = ROW | {"note": "skipped: not known"}
    study = make.two_models()
    all_met = replace(study, models=[replace(m, corpora=("PTB-XL",)) for m in study.models])
    _, unmet = written(all_met, [row], monkeypatch)
    (table,) = (part for part in unmet.parts if part.kind == "table")
    (text,) = unmet.parts[0].texts  # type: ignore[union-attr]
    assert text == f"Of {len(table.rows)} headlines, no model is left: {len(table.rows)}."


def test_a_run_of_models_that_met_nothing_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    row = ROW | {"note": "skipped: not known"}
    study = met(make.two_models(), "nobody")
    _, unmet = written(study, [row], monkeypatch)
    assert "No model of this run is known to have met" in unmet.parts[0].texts[0]  # type: ignore[union-attr]
