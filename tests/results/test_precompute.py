"""Processes beside a report: what they keep is what the report would have computed."""

from dataclasses import replace
from pathlib import Path

import pytest

from ecgbench.results import precompute
from ecgbench.results.by_label import ByLabel, repeats_of
from ecgbench.results.calibration import Calibration
from ecgbench.results.operating import Operating
from ecgbench.results.study import read
from ecgbench.study.stored import Result
from tests.reports.validated_run import MADE
from tests.results.made_run import write


def test_what_they_keep_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "run", MADE)
    monkeypatch.setattr(precompute, "MOMENT", 0.0)
    study = read(tmp_path / "run")
    asked = ByLabel(question=Calibration(), scorer=study.scorer)
    lines = [repeats_of(results) for results in study.finished.values()]
    precompute.labels([asked, replace(asked, question=Operating())], [lines], None)
    monkeypatch.setattr(Result, "predictions", None)
    there = [asked.there(repeats) for repeats in lines]
    shared = asked.question.shared(there)
    assert all(asked.numbers(repeats, shared)["calibration"]["slope"][0] for repeats in lines)
    assert read(tmp_path / "run").main.equals(study.main)
