"""A protocol of one's own, given by path: trained, stored, found again and reported."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ecgbench.results.study import read

MEANS = """
import numpy as np

from ecgbench.evaluate import rows
from ecgbench.evaluate.protocols import Trained

SETTINGS = ("leads",)
frozen = True
SCALE = 1.0


def needs(evaluation, fit):
    learn, check = (rows.complete(evaluation.records[split]) for split in ("train", "val"))
    return rows.Needed([learn], check)


def fit(evaluation, fit, needed, checkpoint):
    features = evaluation.cache(evaluation.trained(fit)).take(needed.drawn[0])
    owner = rows.records_of_windows(evaluation.records["train"])
    target = evaluation.target("train", evaluation.task(fit).columns)[owner].T == 1
    between = [features[yes].mean(0) - features[~yes].mean(0) for yes in target]
    weight = SCALE * np.stack(between)
    bias = -weight @ features.mean(0)
    return Trained(head=(weight, bias), warnings=["by two means"], summary="means")
"""


@pytest.mark.long
def test_a_protocol_by_path(typed: Callable[..., int], tmp_path: Path) -> None:
    file, run = tmp_path / "means.py", tmp_path / "run"
    file.write_text(MEANS)
    words = ("--protocol", str(file), "--set", "training.epochs=100", "--leads", "12,I")
    assert typed(run, *words) == 0
    (fit,) = (run / "fits").rglob("fit.json")
    note = json.loads(fit.read_text())
    assert note["protocol"] == note["key_facts"]["training"]["protocol"] == "means"
    assert set(note["key_facts"]["training"]) == {"protocol", "leads", "protocol_source"}
    study = read(run)
    assert list(study.main["status"]) == ["ok"] * 2
    assert "by two means" in study.results[0].marks
    written = fit.stat().st_mtime_ns
    assert typed(run, *words) == 0
    assert fit.stat().st_mtime_ns == written
    file.write_text(MEANS.replace("SCALE = 1.0", "SCALE = 2.0"))
    assert typed(tmp_path / "other", *words) == 0
    (other,) = (tmp_path / "other" / "fits").rglob("fit.json")
    assert other.parent.name != fit.parent.name
    assert typed(tmp_path / "bad", *words, "--set", "training.epochs=3") == 2
