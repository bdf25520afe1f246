"""Every metric keeps its promises; and one that does not is found out."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from ecgbench import metrics
from ecgbench.check.metrics import check
from ecgbench.errors import BadSetting
from ecgbench.results.score import Draws, score

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
        ("score.mean()", "None", "one float64 per label"),
        (f"({SHARE}) * (1 - 1e-6 * score[0, 0])", "None", "the order of the records"),
        (f"{SHARE} - 1e-4 * score.mean()", "None", "labels do not depend"),
        (f"1 - {SHARE}", "None", "better predictions"),
        (SHARE, "np.abs(target - score)", "influence values sum to 0"),
    ],
)
def test_a_bad_metric_is_caught(tmp_path: Path, value: str, influence: str, caught_by: str) -> None:
    broken = [row["name"] for row in check(plug_in(tmp_path, value, influence)) if not row["ok"]]
    assert any(name.startswith(caught_by) for name in broken), broken


TOGETHER = "np.append(((score > 0.5) == target).all(1).mean(), np.full(len(labels), np.nan))"


@pytest.mark.parametrize(
    ("value", "caught_by"),
    [
        (TOGETHER, ""),
        (f"({TOGETHER})[1:]", "one float64 per label"),
        (f"{TOGETHER} - 1e-6 * score[0, 0]", "the order of the records"),
    ],
)
def test_a_bad_metric_of_all_labels_together_is_caught(
    tmp_path: Path, value: str, caught_by: str
) -> None:
    path = Path(plug_in(tmp_path, value, "None"))
    text = path.read_text().replace("score):", "score, labels):")
    path.write_text(text.replace('source=""', 'source="", together=True'))
    broken = [row["name"] for row in check(str(path)) if not row["ok"]]
    assert any(name.startswith(caught_by) for name in broken) == bool(caught_by), broken


RANKED = "from ecgbench.stats import auroc\ndef wins(target, score):\n    return "


@pytest.mark.parametrize(
    "wins",
    [
        "auroc.wins(target, 1 - score)",
        "0.5 * auroc.wins(target, score)",
        "auroc.wins(target, score)[:, :1]",
    ],
)
def test_wins_that_do_not_give_the_value_are_refused(tmp_path: Path, wins: str) -> None:
    value = "auroc.per_label(target, score)"
    path = plug_in(tmp_path, value, "None", RANKED + wins)
    broken = [row["name"] for row in check(path) if not row["ok"]]
    assert broken == ["wins are counts that give the value"]
    with pytest.raises(BadSetting, match="check metric"):
        score("mine", predicted(), DRAWS)
    good = plug_in(tmp_path, value, "None", f"{RANKED}auroc.wins(target, score)")
    metrics.ROOM.forget()
    assert [row for row in check(good) if not row["ok"]] == []


@pytest.mark.parametrize(
    "value",
    [
        f"np.nan_to_num({SHARE})",
        f"np.ma.masked_invalid({SHARE})",
        f"{SHARE} + 0.1j",
        f"{SHARE} * np.random.rand()",
    ],
)
def test_what_is_no_number_of_a_label_is_never_averaged(tmp_path: Path, value: str) -> None:
    metrics.resolve(plug_in(tmp_path, value, "None"))
    with pytest.raises(BadSetting, match="check metric"):
        score("mine", predicted(), DRAWS)


DRAWS = Draws(dataset="any", patients=tuple("abcdef"), draws=100, bootstrap="none")


def predicted() -> pd.DataFrame:
    """Of two labels, one of which nobody has."""
    columns = {"record": list("abcdef"), "patient": list("abcdef"), "leads": "I"}
    of = {"target:x": [0, 1, 1, 0, 1, 0], "target:y": 0}
    guesses = {"probability:x": [0.2, 0.4, 0.9, 0.3, 0.8, 0.5], "probability:y": 0.1}
    return pd.DataFrame({**columns, **guesses, **of})


def plug_in(folder: Path, value: str, influence: str, more: str = "") -> str:
    text = f'''
"""Mine."""
import numpy as np
from ecgbench.cards.rooms import MetricCard
from ecgbench.stats import auroc
CARD = MetricCard(
    title="Mine", direction="higher", range=(0, 1), chance=None, summary="", source=""
)

def value(target, score):
    return {value}

def influence(target, score):
    return {influence}
'''
    (folder / "mine.py").write_text(f"{text.lstrip()}\n{more}\n")
    return str(folder / "mine.py")
