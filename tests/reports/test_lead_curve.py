"""The lead curve: what is plotted is the CSV, named sets stay off the curve, the bytes are the same every time."""

import csv
import io
import math
import runpy
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest

from ecgbench.reports import lead_curve, main_table

make = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("make_study.py"))))


def lines(facts):
    """Each drawn line of the first panel: (its label-less look, x, y)."""
    with lead_curve._figure(facts) as figure:
        return [(line, list(map(float, line.get_xdata())), list(map(float, line.get_ydata()))) for line in figure.axes[0].get_lines()]


def test_csv_rows_are_rows_of_the_main_table():
    study = make.crowded()
    facts = lead_curve.facts(study)
    rows = list(csv.DictReader(io.StringIO(lead_curve.csv_text(facts))))
    table = list(csv.DictReader(io.StringIO(main_table.csv_text(main_table.facts(study)))))
    shared = [name for name in lead_curve.COLUMNS if name in table[0]]
    assert [[row[n] for n in shared] for row in rows] == [[row[n] for n in shared] for row in table if row["status"] == "ok"]


def test_the_curve_joins_random_leads_in_order_and_named_sets_stand_apart():
    rows = [make.row("ptbxl_super", "laef", leads, 0.6 + 0.01 * i) for i, leads in enumerate(["12", "1", "II", "2", "I", "I+II"])]
    facts = lead_curve.facts(make.build(rows))
    drawn = lines(facts)
    curve = [(x, y) for line, x, y in drawn if line.get_linestyle() == "-" and line.get_marker() == "o"]
    assert curve == [([1.0, 2.0, 12.0], pytest.approx([61.0, 63.0, 60.0]))]
    hollow = [(x, y) for line, x, y in drawn if line.get_linestyle() == "None"]
    assert hollow[0][1] == pytest.approx([62.0, 64.0, 65.0])
    assert all(low < x < high for x, (low, high) in zip(hollow[0][0], [(1, 2), (1, 2), (2, 12)]))
    bars = sorted(y for _, x, y in drawn if len(x) == 2 and x[0] == x[1])
    assert bars[0] == pytest.approx([58.0, 62.0])
    assert len(bars) == 6


def test_bytes_are_deterministic_whatever_the_user_configured(tmp_path):
    import matplotlib

    facts = lead_curve.facts(make.two_models())
    first = [path.read_bytes() for path in lead_curve.draw(facts, tmp_path / "a")]
    with matplotlib.rc_context({"font.size": 20, "lines.linewidth": 9, "svg.fonttype": "none"}):
        second = [path.read_bytes() for path in lead_curve.draw(lead_curve.facts(make.two_models()), tmp_path / "b")]
        assert matplotlib.rcParams["font.size"] == 20
    assert first == second
    width, height = struct.unpack(">II", first[0][16:24])
    assert 1000 < width < 1600
    assert height < width
    assert b"<dc:date>" not in first[1]


def test_titles_captions_and_legend_say_what_must_be_said():
    facts = lead_curve.facts(make.crowded())
    with lead_curve._figure(facts) as figure:
        assert [ax.get_title(loc="left") for ax in figure.axes[:3]] == ["PTB-XL All", "PTB-XL Diag", "Demo (synthetic)"]
        legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend[1:3] == ["ST-MEM zero", "ST-MEM native"]
    assert legend[3].endswith("(random weights)")
    caption = lead_curve.caption(facts)
    assert "at 12, Demo (synthetic) (failed)" in caption
    assert "Demo: 60 records only (--limit)." in caption
    assert "Hollow" not in caption


@pytest.mark.parametrize(
    "rows",
    [
        [make.row("ptbxl_super", "laef", "12", 0.9)],
        [make.row("ptbxl_super", "laef", "II", 0.9)],
        [make.row("ptbxl_super", "laef", "1", status="failed")],
        [
            make.row("ptbxl_super", "laef", "1", 0.5, low=0.51, high=0.6),
            make.row("ptbxl_super", "laef", "2", 0.6, low=math.nan, high=math.nan),
        ],
        [make.row("ptbxl_super", f"m{i}", leads, 0.6) for i in range(20) for leads in ("1", "V1", "V2")],
    ],
    ids=["only 12", "only named", "nothing", "estimate outside or without interval", "more models than colours"],
)
def test_odd_studies_still_draw(rows):
    assert lead_curve.svg_text(lead_curve.facts(make.build(rows))).startswith("<svg")


def test_each_of_many_models_looks_different():
    looks = [tuple(sorted(lead_curve._look(i).items())) for i in range(24)]
    assert len(set(looks)) == 24
