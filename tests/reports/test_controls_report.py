"""What the report says of controls that are written by hand."""

import pandas as pd
import pytest

from ecgbench import reports
from ecgbench.reports import Notes, Section
from ecgbench.reports import controls as report
from ecgbench.results.controls import COLUMNS
from ecgbench.results.study import Run
from tests import by_hand as make

ROW = {
    "control": "age_sex",
    "task": "ptbxl_super",
    "leads": "1",
    "model": "laef",
    "policy": "native",
    "verdict": "no number",
    "note": "",
}


def written(study: Run, rows: list[dict], patch: pytest.MonkeyPatch) -> list[Section]:
    patch.setattr(report, "checked", lambda study: pd.DataFrame(rows, columns=COLUMNS))
    return reports.sections("controls", study)


def said_in(section: Section) -> str:
    return " ".join(
        text for part in section.parts if isinstance(part, Notes) for text in part.texts
    )


def test_a_shortcut_is_a_notice_where_the_lower_bound_is_below_0(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = ROW | {"value": 0.65, "low": 0.6, "high": 0.7}
    row |= {"model_value": 0.7, "difference": 0.05, "difference_high": 0.1}
    near = row | {"difference_low": -0.001, "verdict": "undecided"}
    above = row | {"difference_low": 0.001, "verdict": "as expected"}
    (section,) = written(make.two_models(), [near], monkeypatch)
    said = said_in(section)
    assert "age and sex alone reach 65.0 [60.0, 70.0]" in said
    assert "Not clearly above that: LAEF at 1 random lead" in said
    (section,) = written(make.two_models(), [above], monkeypatch)
    assert "alone reach" not in said_in(section)
    (section,) = written(make.two_models(), [near | {"verdict": "not tested"}], monkeypatch)
    assert "alone reach" not in said_in(section)
    # one that rests on the leads is not named by its highest score alone
    other = near | {"leads": "I", "value": 0.55, "low": 0.5, "high": 0.6}
    (section,) = written(make.two_models(), [near, other], monkeypatch)
    said = said_in(section)
    assert "age and sex alone reach 55.0 to 65.0, by the leads." in said
