"""Labels that are counted on the complete release, and stand uncounted on a part of it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ecgbench.cards.dataset import Task
from ecgbench.data.copy import counted, is_counted
from ecgbench.datasets import demo
from ecgbench.errors import BadSetting
from ecgbench.results.study import read

TASK = Task(name="t", title="T", labels=("a", "b"), least=2, complete=4)


def published(**columns: list[int]) -> pd.DataFrame:
    return pd.DataFrame({f"t:{name}": values for name, values in columns.items()})


def test_the_complete_release_is_counted_and_a_part_is_not() -> None:
    whole = published(a=[1, 0, 0, 0], b=[1, 1, 0, 0], c=[1, 1, 1, -1])
    assert counted(TASK, whole).labels == ("c", "b")
    assert is_counted(TASK, whole)
    assert counted(TASK, whole.iloc[:3]) is TASK
    assert is_counted(TASK, whole.iloc[:3]) is False
    fixed = Task(name="t", title="T", labels=("a",))
    assert counted(fixed, whole) is fixed
    assert is_counted(fixed, whole) is None
    with pytest.raises(BadSetting, match="least and complete belong together"):
        Task(name="t", title="T", labels=("a",), least=2)


PLUG_IN = '''"""The demo with a label that hardly anybody has; its card does not know all others."""

from dataclasses import replace

from ecgbench.datasets import demo

OWN = demo.CARD.tasks[0]
TASK = replace(OWN, name="few", labels=("rare", *OWN.labels[:2]), least=30, complete=COMPLETE)
CARD = replace(demo.CARD, title="Few", tasks=(TASK,))


def index(root):
    table = demo.index(root).rename(columns=lambda c: c.replace("demo:", "few:"))
    return table.assign(**{"few:rare": (table["record"] == table["record"].iloc[3]).astype("int8")})


def read(root, row):
    return demo.read(root, {n.replace("few:", "demo:"): v for n, v in row.items()})
'''


@pytest.mark.long
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("complete", [True, False])
def test_a_run_is_trained_and_scored_on_them(
    complete: bool, typed: Callable[..., int], tmp_path: Path
) -> None:
    table = demo.index(None)
    name = "whole" if complete else "part"
    source = tmp_path / f"{name}.py"
    text = PLUG_IN.replace("COMPLETE", str(len(table) + (not complete)))
    source.write_text(text.replace("few", name).replace("Few", name))
    assert typed(tmp_path / "out", "--tasks", str(source)) == 0
    study = read(tmp_path / "out")
    labels = set(study.labels["label"]) - {"macro"}
    own = demo.CARD.tasks[0]
    frequent = {n for n in own.labels if np.sum(table[f"demo:{n}"]) >= 30}
    assert labels == (frequent if complete else {"rare", *own.labels[:2]})
    said = [note for note in map(str, study.notes) if "vocabulary, not counted" in note]
    assert bool(said) is not complete
