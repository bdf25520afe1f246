"""What is kept of labels: read again it is not computed again, and a changed row is."""

from dataclasses import replace
from pathlib import Path

import pytest

from ecgbench.results.by_label import ByLabel, Question
from ecgbench.results.calibration import Calibration
from ecgbench.results.operating import NetBenefit, Operating
from ecgbench.results.study import Study, read
from tests.reports.validated_run import MADE, make
from tests.results.made_run import write

ROW = ("a", "good", "zero", "1")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return make(tmp_path_factory.mktemp("by_label") / "run")


def numbers(study: Study, question: Question) -> object:
    asked = ByLabel(question=question, scorer=study.scorer)
    repeats = [[r] for r in study.finished[ROW]]
    there = asked.there(repeats)
    return there, asked.numbers(repeats, question.shared([there]))


@pytest.mark.parametrize("question", [Calibration(), Operating(), NetBenefit()])
def test_what_was_computed_once_is_read(
    study: Study, question: Question, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = numbers(study, question)
    again = read(study.path)
    monkeypatch.setattr("ecgbench.study.stored.Result.predictions", None)
    assert numbers(again, question) == first


def test_nothing_is_kept_of_a_study_whose_tables_somebody_changed(tmp_path: Path) -> None:
    study = make(tmp_path)
    derived = study.path / "derived"
    before = sorted(derived.glob("*/*"))
    assert numbers(replace(study, scorer=None), Operating())[1]
    assert sorted(derived.glob("*/*")) == before


def test_another_fit_gives_other_numbers(tmp_path: Path) -> None:
    """Thresholds are of the fit's validation records, which are no part of the cell."""
    study = make(tmp_path / "first")
    before = numbers(study, Operating())
    fit = study.path / study.finished[ROW][0].document["fit"]
    other = make(tmp_path / "run", MADE, validated=150)
    for name in ("validation.parquet", "DONE"):
        (fit / name).write_bytes(
            (other.path / other.finished[ROW][0].document["fit"] / name).read_bytes()
        )
    assert numbers(read(study.path), Operating()) != before


def test_means_are_over_the_labels_that_every_row_has(tmp_path: Path) -> None:
    write(tmp_path / "run", replace(MADE, validated=200))
    study = read(tmp_path / "run")
    asked = ByLabel(question=Calibration(), scorer=study.scorer)
    repeats = [[r] for r in study.finished[ROW]]
    slopes = {
        names: asked.numbers(repeats, {"calibration": names})["calibration"]["slope"]
        for names in ((), ("A0",), ("A0", "A2"))
    }
    mean, first, _, third = slopes["A0", "A2"]
    assert mean == pytest.approx((first + third) / 2)
    assert slopes["A0",][0] == slopes["A0",][1]
    assert slopes[()][0] is None
