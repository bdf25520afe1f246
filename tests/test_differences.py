"""tools/differences.py: its numbers again, from the files alone or the slow way."""

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

TOOLS = Path(__file__).parents[1] / "tools"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("differences", TOOLS / "differences.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_halves_come_from_the_shipped_report(script: ModuleType) -> None:
    table = pd.read_csv(script.SHIPPED / "main_table.csv", dtype={"leads": str})
    mine = table[(table["model"] == "laef") & (table["policy"] == "native")]
    value = mine.set_index(["task", "leads"])
    for row in script.halved():
        own = value.loc[(row.task, row.leads)]
        assert row.ours == pytest.approx(own["value"], abs=1e-9)
        assert row.undefined == own["n_undefined"]
        count = own["n_labels"]
        half = (own["value"] * (count - row.undefined) + 0.5 * row.undefined) / count
        assert row.theirs == pytest.approx(half, abs=1e-9)
    assert len(script.halved()) == len(mine)


@pytest.mark.long
def test_the_benchmarks_interval_the_slow_way(script: ModuleType) -> None:
    draw = np.random.default_rng(3)
    target = np.zeros((40, 3), int)
    target[:12, 0], target[:2, 1] = 1, 1  # the third label nobody has
    score = draw.normal(size=(40, 3)) + target
    found = script._reference(target, score)

    def macro(rows: np.ndarray) -> float:
        one = [
            roc_auc_score(t, s) if 0 < t.sum() < len(t) else 0.5
            for t, s in zip(target[rows].T, score[rows].T)
        ]
        return float(np.mean(one))

    assert found["value"] == pytest.approx(macro(np.arange(40)))
    drawn = [macro(draw.integers(0, 40, 40)) for _ in range(600)]
    ends = np.percentile(drawn, [2.5, 97.5])
    assert [found["low"], found["high"]] == pytest.approx(ends, abs=0.02)
    assert found["lost"] == pytest.approx((1 - 2 / 40) ** 40, abs=0.03)


def test_lost_labels_from_counts_are_those_that_draws_lose(script: ModuleType) -> None:
    """Of the same labels and records, whichever fit."""
    lost = {task: n for task, n, _ in script.lost_labels()}
    measured = {task: row["lost"] for (task, _), row in script.of(script.REFERENCE).items()}
    for task, expected in lost.items():
        assert measured[task] == pytest.approx(expected, abs=0.1)
