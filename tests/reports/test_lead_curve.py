"""The lead curve: what is plotted is the CSV, named sets stay off the curve, the bytes are the same
every time.
"""

import csv
import math

import pytest

from ecgbench import reports
from ecgbench.results.study import Run
from tests import by_hand as make

pytestmark = pytest.mark.rendered


def curve(study: Run) -> reports.Figure:
    return reports.sections("lead_curve", study)[0].parts[0]


def lines(study: Run):
    """Each drawn line of the first panel: (its label-less look, x, y)."""
    with reports.drawing(curve(study)) as sheet:
        drawn = sheet.axes[0].get_lines()
        return [
            (line, list(map(float, line.get_xdata())), list(map(float, line.get_ydata())))
            for line in drawn
        ]


@pytest.mark.long
def test_csv_rows_are_rows_of_the_main_table(tmp_path):
    reports.write(make.crowded(), tmp_path, only=["main_table", "lead_curve"])
    rows, table = (
        list(csv.DictReader((tmp_path / f"{name}.csv").open()))
        for name in ("lead_curve", "main_table")
    )
    shared = [name for name in rows[0] if name in table[0]]
    assert [[row[n] for n in shared] for row in rows] == [
        [row[n] for n in shared] for row in table if row["status"] == "ok"
    ]


def test_the_curve_joins_random_leads_in_order_and_named_sets_stand_apart():
    rows = [
        make.row("ptbxl_super", "laef", leads, 0.6 + 0.01 * i)
        for i, leads in enumerate(["12", "1", "II", "2", "I", "I+II"])
    ]
    drawn = lines(make.build(rows))
    random = [
        (x, y) for line, x, y in drawn if line.get_linestyle() == "-" and line.get_marker() == "o"
    ]
    assert random == [([1.0, 2.0, 12.0], pytest.approx([61.0, 63.0, 60.0]))]
    hollow = [(x, y) for line, x, y in drawn if line.get_linestyle() == "None"]
    assert hollow[0][1] == pytest.approx([62.0, 64.0, 65.0])
    assert all(low < x < high for x, (low, high) in zip(hollow[0][0], [(1, 2), (1, 2), (2, 12)]))
    with reports.drawing(curve(make.build(rows))) as sheet:
        bars = [b for own in sheet.axes[0].collections for b in own.get_segments()]
    ends = sorted(tuple(bar[:, 1]) for bar in bars)
    assert ends[0] == pytest.approx((58.0, 62.0))
    assert len(ends) == 6


def test_a_task_without_any_score_is_said_to_have_none(tmp_path):
    """One test record, or one class: every AUROC is undefined and nothing is drawn."""
    rows = [
        make.row("ptbxl_super", "laef", leads, low=math.nan, high=math.nan)
        for leads in ("1", "II", "12")
    ]
    study = make.build(rows)
    reports.write(study, tmp_path)
    why = "no label has both values among the test records"
    with reports.drawing(curve(study)) as sheet:
        assert [text.get_text() for text in sheet.axes[0].texts] == [why]
    assert why in (tmp_path / "index.html").read_text()
    with (tmp_path / "lead_curve.csv").open() as file:
        assert {row["value"] for row in csv.DictReader(file)} == {""}


@pytest.mark.long
@pytest.mark.parametrize(
    "rows",
    [
        [make.row("ptbxl_super", "laef", leads, 0.9) for leads in ("II", "I")],
        [make.row("ptbxl_super", "laef", "1", status="failed")],
        [make.row("ptbxl_super", "laef", n, 0.5, low=0.51, high=0.6) for n in ("1", "2")],
        [make.row("ptbxl_super", f"m{i}", n, 0.6) for i in range(20) for n in ("1", "V1")],
    ],
    ids=["only named", "nothing", "outside its interval", "more models than colours"],
)
def test_odd_studies_still_draw(rows, tmp_path):
    reports.write(make.build(rows), tmp_path, only=["lead_curve"])
    assert "<svg" in (tmp_path / "lead_curve.svg").read_text()
