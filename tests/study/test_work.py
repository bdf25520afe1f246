"""A worker alone, without a run that started it, leaves results that a report finds."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ecgbench import models
from ecgbench.cards.cell import Training
from ecgbench.cards.plan import Folders, Request
from ecgbench.ecg.draw import parse_leads
from ecgbench.errors import MissingData
from ecgbench.results.study import read
from ecgbench.stats.auroc import macro_auroc
from ecgbench.study import plan as planning
from ecgbench.study.jobs import Job
from ecgbench.study.store import Store, cells_of
from ecgbench.study.stored import read_pooled
from ecgbench.study.work import work

TINY = Path(__file__).parents[1] / "tiny.py"
pytestmark = pytest.mark.usefixtures("one_thread")


LINEAR: dict[str, object] = {"protocol": "linear", "epochs": 2}
TUNED: dict[str, object] = {"protocol": "finetune", "epochs": 2}


def planned(leads: str, **training: object) -> Request:
    models.ROOM.forget()
    how: dict[str, Any] = {"models": (str(TINY),), "tasks": ("demo",), "weights": "random"}
    how["training"] = Training(**(training or LINEAR))  # type: ignore[arg-type]
    return planning.check(Request(leads=parse_leads(leads), seeds=1, limit=60, **how))


@pytest.fixture
def alone(copies: Path, tmp_path: Path) -> Callable[..., Path]:
    """alone(request, **job): writes plan.toml, computes its plan as one job in this process, and
    returns the run folder.
    """

    def compute(request: Request, **job: object) -> Path:
        folders = Folders(data=None, prepared=copies, out=tmp_path / "run")
        plan = Store(folders.out).add_request(request)
        one = Job(model="tiny", plan=plan, dataset="demo", folders=folders, **job)  # type: ignore[arg-type]
        work(one, lambda event: None)
        return folders.out

    return compute


def test_a_worker_alone_leaves_what_a_report_finds(
    alone: Callable[..., Path], typed: Callable[..., int], tmp_path: Path
) -> None:
    run, whole = alone(planned("12,I")), tmp_path / "whole"
    assert typed(whole, "--leads", "12,I") == 0
    study = read(run)
    assert study.main.to_csv() == read(whole).main.to_csv()
    assert list(study.main["status"]) == ["ok", "ok"]
    assert [len(part) for part in (study.models, study.datasets, study.tasks)] == [1, 1, 1]


@pytest.mark.parametrize(
    "training", [{"protocol": "probe"}, LINEAR, TUNED], ids=["probe", "linear", "finetune"]
)
def test_a_fit_keeps_what_it_predicts_for_the_validation_records(
    training: dict[str, object], alone: Callable[..., Path]
) -> None:
    """With all leads; the score of the best epoch is the one of the log. A probe: for the training
    records too, each by heads that were fitted without its patient.
    """
    run = alone(planned("I", **training))
    (done,) = (run / "fits").rglob("DONE")
    table = pd.read_parquet(done.with_name("validation.parquet"))
    note = json.loads(done.with_name("fit.json").read_text())
    probability, target = (
        table[[c for c in table if c.startswith(f"{kind}:")]].to_numpy()
        for kind in ("probability", "target")
    )
    assert macro_auroc(target, probability) == pytest.approx(note["validation"], abs=1e-6)
    tested = pd.read_parquet(next((run / "cells").rglob("predictions.parquet")))
    assert set(table["record"]).isdisjoint(tested["record"])
    assert not list(run.rglob("checkpoint.pt"))


def test_features_that_are_not_wanted_are_not_kept(
    typed: Callable[..., int], tmp_path: Path
) -> None:
    run, kept = tmp_path / "run", tmp_path / "kept"
    assert typed(run, "--set", "run.keep_features=no") == 0
    assert typed(kept) == 0
    assert not [p for p in run.rglob("data") if "features" in p.parts]
    (folder,) = cells_of(run)
    note = json.loads((folder / "cell.json").read_text())
    assert note["features"] is None
    with pytest.raises(MissingData, match="were not kept"):
        read_pooled(run, note["features"], folder)
    assert read(run).main.to_csv() == read(kept).main.to_csv()
    shutil.rmtree(kept / "features")
    (whole,) = cells_of(kept)
    with pytest.raises(MissingData, match="were not kept"):
        read_pooled(kept, json.loads((whole / "cell.json").read_text())["features"], whole)
