"""Charts of the page: a point stands where its number is, read off the axis that is written beside
it.
"""

import csv
import math
import re
import runpy
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from ecgbench import reports

make = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("make_study.py"))))


def plot(folder: Path) -> ElementTree.Element:
    """The first chart of a page."""
    page = (folder / "index.html").read_text()
    inner = page[page.index('<svg class="plot"') :].partition("</svg>")[0]
    return ElementTree.fromstring(f"{inner}</svg>")


def numbers(line: str) -> list[float]:
    return [float(word) for word in re.findall(r"-?[0-9.]+", line)]


def test_every_point_of_the_page_is_a_row_of_the_csv_and_stands_at_its_value(
    tmp_path: Path,
) -> None:
    study = make.two_models()
    reports.write(study, tmp_path, only=["lead_curve"])
    held = [
        tuple(100 * float(row[name]) for name in ("low", "value", "high"))
        for row in csv.DictReader((tmp_path / "lead_curve.csv").open())
    ]
    drawn = plot(tmp_path)
    marks = {
        float(tick.text or ""): float(tick.attrib["y"])
        for tick in drawn.iter("text")
        if tick.attrib.get("class") == "tick end"
    }
    (low, at_low), (high, at_high) = min(marks.items()), max(marks.items())

    def read(y: float) -> float:
        return low + (high - low) * (y - at_low) / (at_high - at_low)

    seen = []
    for dot in drawn.iter("g"):
        if dot.attrib.get("class", "").startswith("at"):
            _, bottom, top = numbers(dot[0].attrib["d"])
            seen.append((read(bottom), read(float(dot.attrib["data-y"])), read(top)))
    assert len(seen) == len(held) == 12
    for ours, theirs in zip(sorted(seen), sorted(held)):
        assert ours == pytest.approx(theirs, abs=0.05)


def test_numbers_of_leads_stand_a_doubling_apart() -> None:
    (section,) = reports.get("lead_curve").sections(make.two_models())
    axis = section.parts[0].panels[0].x
    step = axis.share(2) - axis.share(1)
    assert axis.share(12) - axis.share(2) == pytest.approx(step * math.log2(6))


def test_a_panel_says_its_result_to_who_hears_it(tmp_path: Path) -> None:
    reports.write(make.crowded(), tmp_path, only=["lead_curve"])
    drawn = plot(tmp_path)
    title, said = drawn[0], drawn[1]
    assert drawn.attrib["aria-labelledby"].split() == [title.attrib["id"], said.attrib["id"]]
    assert "LAEF: 1 random lead 74.4 [72.4, 76.4] and 12 leads 95.0 [93.0, 97.0]." in (
        said.text or ""
    )
    assert "(random weights): 12 leads 51.0" in (said.text or "")
