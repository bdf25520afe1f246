"""Every metric keeps its promises; and one that does not is found out."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ecgbench import metrics
from ecgbench.check.metrics import check

PLUGIN = Path(__file__).parents[1] / "plugins" / "youden.py"


@pytest.fixture(autouse=True)
def _nobody_stays() -> Iterator[None]:
    yield
    metrics.ROOM.forget()  # the room outlives the test


@pytest.mark.parametrize("name", [*metrics.names(), str(PLUGIN)])
def test_metrics(name: str) -> None:
    assert [row for row in check(name) if not row["ok"]] == []


SHARE = "np.where(target.all(0) | ~target.any(0), np.nan, 1 - np.abs(target - score).mean(0))"


@pytest.mark.parametrize(
    ("value", "influence", "caught_by"),
    [
        ("np.full(target.shape[1], 0.5)", "None", "NaN where a label"),
        (f"2 * {SHARE}", "None", "one float64 per label"),
        ("score.mean()", "None", "one float64 per label"),
        (f"({SHARE}) * (1 - 1e-6 * score[0, 0])", "None", "the order of the records"),
        (f"{SHARE} - 1e-4 * score.mean()", "None", "labels do not depend"),
        (f"1 - {SHARE}", "None", "better predictions"),
        (SHARE, "np.abs(target - score)", "influence values sum to 0"),
        (
            SHARE,
            "5 * (np.abs(target - score).mean(0) - np.abs(target - score))",
            "influence values sum to 0",
        ),
    ],
)
def test_a_bad_metric_is_caught(tmp_path: Path, value: str, influence: str, caught_by: str) -> None:
    broken = [row["name"] for row in check(plug_in(tmp_path, value, influence)) if not row["ok"]]
    assert any(name.startswith(caught_by) for name in broken), broken


def plug_in(folder: Path, value: str, influence: str) -> str:
    text = f'''
"""Mine."""
import numpy as np
from ecgbench.core.cards import MetricCard
CARD = MetricCard(
    title="Mine", direction="higher", range=(0, 1), chance=None, summary="", source=""
)

def value(target, score):
    return {value}

def influence(target, score):
    return {influence}
'''
    (folder / "mine.py").write_text(text.lstrip())
    return str(folder / "mine.py")
