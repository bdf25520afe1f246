"""What rows of the main table answer to questions of their labels."""

from pathlib import Path

import pytest

from ecgbench.results import precompute
from ecgbench.results.by_label import blocks, repeats_of
from ecgbench.results.calibration import Calibration
from ecgbench.results.operating import NetBenefit, Operating
from ecgbench.results.questions import answers
from ecgbench.results.study import read
from tests.invented import make

ROW = ("a", "good", "zero", "1")


def test_what_processes_compute_is_what_is_computed_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = make(tmp_path / "run")
    expected = [answers(here, question) for question in (Calibration, Operating, NetBenefit)]
    monkeypatch.setattr(precompute, "MOMENT", 0.0)
    study = read(here.path)
    assert [answers(study, one) for one in (Calibration, Operating, NetBenefit)] == expected
    assert study.main.equals(here.main)


def test_means_are_over_the_labels_that_every_row_has(tmp_path: Path) -> None:
    study = make(tmp_path / "run")
    asked, own = Calibration(), blocks(repeats_of(study.finished[ROW]))
    there = asked.labels(own)
    slopes = {
        names: asked.numbers(own, there, {"calibration": names})["calibration"]["slope"]
        for names in ((), ("A0",), ("A0", "A2"))
    }
    mean, first, _, third = slopes["A0", "A2"]
    assert mean == pytest.approx((first + third) / 2)
    assert slopes["A0",][0] == slopes["A0",][1]
    assert slopes[()][0] is None
