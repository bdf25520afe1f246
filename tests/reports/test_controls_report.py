"""What the report says of controls that are written by hand."""

import pandas as pd
import pytest

from ecgbench import reports
from ecgbench.reports import Notes
from ecgbench.reports import controls as report
from ecgbench.results.controls import COLUMNS
from tests import by_hand as make

ROW = {"control": "age_sex", "task": "ptbxl_super", "leads": "1", "model": "laef"}
ROW |= {"policy": "native", "note": ""}


def test_a_shortcut_is_a_notice_where_the_lower_bound_is_below_0(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = ROW | {"value": 0.65, "low": 0.6, "high": 0.7}
    row |= {"model_value": 0.7, "difference": 0.05, "difference_high": 0.1}
    near = row | {"difference_low": -0.001, "verdict": "undecided"}
    above = row | {"difference_low": 0.001, "verdict": "as expected"}
    told = "alone reach 65.0 [60.0, 70.0]"
    for row, said in ((near, True), (above, False), (near | {"verdict": "not tested"}, False)):
        table = pd.DataFrame([row], columns=COLUMNS)
        monkeypatch.setattr(report, "checked", lambda study, table=table: table)
        (section,) = reports.sections("controls", make.two_models())
        notes = [text for part in section.parts if isinstance(part, Notes) for text in part.texts]
        assert any(told in text for text in notes) == said
