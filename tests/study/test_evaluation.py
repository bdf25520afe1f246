"""The records of an evaluation, by split."""

from types import SimpleNamespace

import pandas as pd
import pytest

from ecgbench.ecg.leads import LEADS
from ecgbench.errors import BadSetting
from ecgbench.evaluate.evaluation import Evaluation


@pytest.mark.parametrize(
    ("splits", "windows", "change", "said"),
    [
        (["train", "val"], 1, "", "its test split is empty"),
        (["train", "val", "test"], 4097, "", "no train record"),
        (["train", "val", "test"], 0, "perturb half@1", "under half@1: no train record"),
    ],
)
def test_an_empty_split_is_called_empty_and_one_of_short_records_is_not(
    splits: list[str], windows: int, change: str, said: str
) -> None:
    table = pd.DataFrame({"split": splits, "record": splits, "available": 4095})
    of = SimpleNamespace(
        name="x on y",
        change=change,
        table=table,
        contract=SimpleNamespace(leads=LEADS, seconds=60, windows=lambda samples: windows),
        view=SimpleNamespace(length=lambda record: 5000),
        selection=SimpleNamespace(prepared=SimpleNamespace(name="y")),
    )
    with pytest.raises(BadSetting, match=said):
        Evaluation.records.func(of)  # type: ignore[attr-defined]
