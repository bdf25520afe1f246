"""The README's run on genuine recordings, end to end, on few of them: bookkeeping, not AUROC
values.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from ecgbench.ecg.draw import draw

pytestmark = [pytest.mark.real, pytest.mark.long]


@pytest.fixture(scope="module")
def report(
    real_ptbxl: Path,
    here: Callable[..., "subprocess.CompletedProcess[str]"],
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, Path]:
    place = tmp_path_factory.mktemp("real")
    run = (
        "-m ecgbench run --models laef,stmem --tasks ptbxl_super --leads 1,12 --seeds 1 --weights random "
        "--protocol linear --limit 24 --out runs/ptbxl"
    )
    done = subprocess.run(
        [sys.executable, *run.split(), "--data", str(real_ptbxl)],
        cwd=place,
        capture_output=True,
        text=True,
        env={**os.environ, "ECGBENCH_PREPARED": str(real_ptbxl / "prepared")},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    done = here("report", "runs/ptbxl", "--to", "out/ptbxl", cwd=place)
    assert done.returncode == 0, done.stderr
    return place / "runs/ptbxl", place / "out/ptbxl"


def test_table_has_every_cell_asked_for(report):
    table = pd.read_csv(report[1] / "main_table.csv")
    assert list(zip(table["model"], table["leads"], table["policy"])) == [
        ("laef", 1, "native"),
        ("laef", 12, "native"),
        ("stmem", 1, "zero"),
        ("stmem", 12, "zero"),
    ]
    assert (table["status"] == "ok").all()
    assert (table["n_records"] == 3).all()
    found = pd.read_parquet(next((report[0] / "cells").rglob("predictions.parquet")))
    positives = found.filter(like="target:").sum()
    both = positives.between(1, len(found) - 1)
    assert 0 < both.sum() < 5
    assert (table["n_labels"] == 5).all()
    assert (table["n_undefined"] == 5 - both.sum()).all()
    assert (table["weights"] == "random").all()
    assert not table["best"].any()  # frozen encoders with random weights


def test_both_models_saw_the_same_leads_of_the_same_records(report):
    seen = {}
    for model in ("laef", "stmem"):
        (folder,) = (report[0] / "cells/ptbxl_super" / model / "1@seed0").iterdir()
        predictions = pd.read_parquet(folder / "predictions.parquet")
        seen[model] = predictions[
            ["record", "patient", "leads", *(c for c in predictions if c.startswith("target:"))]
        ]
    pd.testing.assert_frame_equal(seen["laef"], seen["stmem"])
    assert [str(draw(1, 0, r)) for r in seen["laef"]["record"]] == list(seen["laef"]["leads"])


def test_page_says_what_was_left_out(report):
    page = (report[1] / "index.html").read_text()
    for word in ("--limit 24", "2,000", "andom", "10.13026"):
        assert word in page or word.replace(",", "") in page
