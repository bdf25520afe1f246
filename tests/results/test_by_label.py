"""What is kept of labels: read again it is not computed again, and a changed row is."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ecgbench.results import precompute
from ecgbench.results.by_label import Question, compute, repeats_of
from ecgbench.results.calibration import Calibration
from ecgbench.results.operating import NetBenefit, Operating
from ecgbench.results.study import Study, read
from ecgbench.study.stored import Result
from tests.invented import VALIDATED, make

ROW = ("a", "good", "zero", "1")


def numbers(
    study: Study, question: type[Question], rows: Sequence[tuple[str, ...]] = (ROW,)
) -> object:
    asked = question(study.scorer)
    repeats = [repeats_of(study.finished[row]) for row in rows]  # type: ignore[index]
    there = [asked.labels(one) for one in repeats]
    return there, [asked.numbers(one, asked.shared(there)) for one in repeats]


def test_what_processes_keep_is_what_would_be_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precompute, "MOMENT", 0.0)
    study = make(tmp_path / "run")
    rows, questions = list(study.finished), (Calibration, Operating, NetBenefit)
    expected = [numbers(replace(study, scorer=None), q, rows) for q in questions]
    every = [q(study.scorer) for q in questions]
    compute(every, [[repeats_of(study.finished[row]) for row in rows]], None)
    for name in ("predicted", "validation"):
        monkeypatch.setattr(Result, name, None)
    again = read(study.path)
    assert [numbers(again, q, rows) for q in questions] == expected
    assert again.main.equals(study.main)


def test_nothing_is_kept_of_a_study_whose_tables_somebody_changed(tmp_path: Path) -> None:
    study = make(tmp_path)
    derived = study.path / "derived"
    before = sorted(derived.glob("*/*"))
    assert numbers(replace(study, scorer=None), Operating)
    assert sorted(derived.glob("*/*")) == before


def test_another_fit_gives_other_numbers(tmp_path: Path) -> None:
    """Thresholds are of the fit's validation records, which are no part of the cell."""
    study = make(tmp_path / "first")
    before = numbers(study, Operating)
    fit = study.path / study.finished[ROW][0].document["fit"]
    other = make(tmp_path / "run", replace(VALIDATED, validated=150))
    for name in ("validation.parquet", "DONE"):
        (fit / name).write_bytes(
            (other.path / other.finished[ROW][0].document["fit"] / name).read_bytes()
        )
    assert numbers(read(study.path), Operating) != before


def test_means_are_over_the_labels_that_every_row_has(tmp_path: Path) -> None:
    study = make(tmp_path / "run")
    asked = Calibration(study.scorer)
    repeats = [[r] for r in study.finished[ROW]]
    slopes = {
        names: asked.numbers(repeats, {"calibration": names})["calibration"]["slope"]
        for names in ((), ("A0",), ("A0", "A2"))
    }
    mean, first, _, third = slopes["A0", "A2"]
    assert mean == pytest.approx((first + third) / 2)
    assert slopes["A0",][0] == slopes["A0",][1]
    assert slopes[()][0] is None
