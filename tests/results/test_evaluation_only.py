"""Tasks that are columns of another's predictions: their labels' scores are the same, to the last
bit.
"""

from collections.abc import Callable
from math import fsum
from pathlib import Path

import pandas as pd
import pytest

from ecgbench.results.study import read

pytestmark = pytest.mark.usefixtures("one_thread")
PARTS = ("ptbxl_diag", "ptbxl_form", "ptbxl_rhythm")


@pytest.fixture(scope="module")
def run(
    typed: Callable[..., int], _made_ptbxl: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    out = tmp_path_factory.mktemp("columns") / "run"
    words = ("--data", str(_made_ptbxl), "--tasks", ",".join(("ptbxl_all", *PARTS)))
    assert typed(out, *words, "--leads", "1,12", "--seeds", "1") == 0
    return out


def test_71_is_44_and_19_and_12_less_4_on_our_own_predictions(run: Path) -> None:
    labels = read(run).labels
    for _, cell in labels.groupby("setting"):
        scores = cell.set_index(["task", "label"])["value"]
        whole = scores["ptbxl_all"].dropna()
        parts = pd.concat([scores[part] for part in PARTS])
        assert (len(scores["ptbxl_all"]), len(parts)) == (71, 44 + 19 + 12)
        once = parts[~parts.index.duplicated()]
        assert len(once) == 71
        assert (parts == scores["ptbxl_all"][parts.index])[parts.notna()].all()
        assert fsum(once.dropna()) == fsum(whole)
        assert 0 < len(whole) < 71
