"""A metric is one file: by path, from `ecgbench run` to the page, with
scikit-learn's numbers.
"""

import csv
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_curve

from ecgbench import metrics

pytestmark = pytest.mark.long

YOUDEN = Path(__file__).with_name("youden.py")
TINY = Path(__file__).parents[1] / "tiny.py"
Here = Callable[..., "subprocess.CompletedProcess[str]"]
STUDY = shlex.split("--weights random --leads 1,12 --seeds 2 --protocol linear --limit 120 --out r")


@pytest.fixture(scope="module")
def place(here: Here, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `r` is a run of the demo whose metrics were AUROC and, by path, the Youden index."""
    folder = tmp_path_factory.mktemp("youden")
    more = ("--models", TINY, "--set", "training.epochs=10", "--metrics", f"auroc,{YOUDEN}")
    done = here("run", *STUDY, *more, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def youden(target: Any, score: Any) -> float:
    """By scikit-learn."""
    alarms, found, _ = roc_curve(target, score)
    return float((found - alarms).max())


def expected(run: Path, setting: str) -> float:
    """The mean over the labels of the Youden index by scikit-learn, from what a cell predicted."""
    (file,) = run.glob(f"cells/demo/tiny/{setting}/*/predictions.parquet")
    table = pd.read_parquet(file)
    labels = [c[7:] for c in table if c.startswith("target:") and table[c].nunique() == 2]
    return float(np.mean([youden(table[f"target:{n}"], table[f"probability:{n}"]) for n in labels]))


def rows(folder: Path) -> dict[tuple[str, str], dict[str, str]]:
    """Rows of the main table by metric and leads."""
    with (folder / "main_table.csv").open() as file:
        return {(row["metric"], row["leads"]): row for row in csv.DictReader(file)}


def test_what_was_asked_for_is_stored_with_each_cell(place: Path) -> None:
    for setting in ("1@seed0", "1@seed1", "12"):
        (file,) = (place / "r").glob(f"cells/demo/tiny/{setting}/*/scores.parquet")
        scores = pd.read_parquet(file)
        assert list(dict.fromkeys(scores["metric"])) == ["auroc", "youden"]
        macro = scores[(scores["metric"] == "youden") & (scores["label"] == "macro")][
            "value"
        ].item()
        assert macro == pytest.approx(expected(place / "r", setting), abs=1e-12)


def test_it_stands_on_the_page(here: Here, place: Path) -> None:
    done = here("report", "r", "--to", "page", "--metrics", f"auroc,{YOUDEN}", cwd=place)
    assert done.returncode == 0, done.stderr
    table = rows(place / "page")
    assert list(table) == [("auroc", "1"), ("auroc", "12"), ("youden", "1"), ("youden", "12")]
    seeds = [expected(place / "r", f"1@seed{s}") for s in range(2)]
    assert float(table["youden", "1"]["value"]) == pytest.approx(np.mean(seeds), abs=1e-12)
    assert float(table["youden", "1"]["std"]) == pytest.approx(np.std(seeds, ddof=1), abs=1e-12)
    assert float(table["youden", "12"]["value"]) == pytest.approx(
        expected(place / "r", "12"), abs=1e-12
    )
    assert all(float(r["low"]) < float(r["value"]) < float(r["high"]) for r in table.values())
    assert "Youden index" in (place / "page/index.html").read_text()


def test_it_is_scikit_learn_s_youden_index_with_ties_too() -> None:
    generator = np.random.default_rng(0)
    target, score = generator.random((300, 6)) < 0.2, generator.integers(0, 9, (300, 6)) / 8
    target[:, 4], target[:, 5] = False, True
    try:
        values = metrics.get(str(YOUDEN)).value(target.astype(np.int8), score)
    finally:
        metrics.ROOM.forget()
    known = [youden(target[:, k], score[:, k]) for k in range(4)]
    np.testing.assert_allclose(values, [*known, np.nan, np.nan], rtol=0, atol=1e-12)
