"""One lead: the mean of the twelve leads less the mixed one, as the main table has them."""

from pathlib import Path

import pytest

from ecgbench import reports
from ecgbench.ecg.leads import LEADS
from ecgbench.reports import records, signed_bracket
from tests.invented import Data, Made, make

MADE = Made(
    data={"first": Data(tasks={"a": 2}, records=150)},
    leads=",".join(["1", "12", *LEADS]),
    seeds=1,
    skill=lambda model, leads: 0.5 if leads == "1" and model == "good" else 1.5,
)


def test_the_difference_is_that_of_the_main_table_and_lies_in_its_interval(tmp_path: Path) -> None:
    study = make(tmp_path / "run", MADE)
    section = reports.sections("lead_curve", study)[-1]
    rows = {row["model"]: row for row in records(section.parts[0].numbers)}
    value = study.main.set_index(["model", "leads"])["value"]
    for model in ("good", "weak"):
        within = sum(value[model, lead] for lead in LEADS) / 12
        row = rows[model]
        assert (row["within"], row["mixed"]) == pytest.approx((within, value[model, "1"]))
        assert row["difference"] == pytest.approx(within - value[model, "1"])
        assert row["low"] < row["difference"] < row["high"]
    assert rows["good"]["low"] > 0
    assert rows["weak"]["low"] < 0 < rows["weak"]["high"]
    spelled = section.parts[0].rows[1]["difference"]
    assert spelled.small == signed_bracket(rows["weak"]["low"], rows["weak"]["high"])
    assert "[−" in spelled.small
