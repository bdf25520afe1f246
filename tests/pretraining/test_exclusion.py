"""What evaluation may see stays out of pre-training, under whatever name it comes."""

from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from ecgbench.pretraining.exclusion import Exclusion
from ecgbench.pretraining.guard import Name


def prepared(name: str, rows: list[tuple[str, str, str, str, int]]) -> Any:
    index = pd.DataFrame(rows, columns=["record", "patient", "split", "sha256", "fold"])
    return SimpleNamespace(name=name, index=index, published=index)


PTBXL = prepared(
    "ptbxl",
    [
        ("00001", "p1", "train", "s1", 1),
        ("00002", "p2", "val", "s2", 9),
        ("00003", "p3", "test", "s3", 10),
        ("00004", "p3", "train", "s4", 8),
    ],
)
CHALLENGE = prepared(
    "georgia",
    [
        ("HR00001", "a", "train", "h1", 0),
        ("HR00002", "b", "train", "h2", 0),
        ("g1/HR00003.mat", "c", "train", "h3", 0),
        ("E00001", "d", "train", "s3", 0),
        ("E00002", "e", "train", "e2", 0),
        ("E00003", "f", "test", "e3", 0),
        ("E00004", "f", "train", "e4", 0),
        ("E00005", "g", "train", "e3", 0),
    ],
)


@pytest.mark.parametrize(
    ("dataset", "record", "reason"),
    [
        ("ptbxl", "00001", ""),
        ("ptbxl", "00004", "patient"),
        ("georgia", "HR00001", ""),
        ("georgia", "HR00002", "id"),
        ("georgia", "g1/HR00003.mat", "id"),
        ("georgia", "E00001", "signal"),
        ("georgia", "E00002", ""),
        ("georgia", "E00004", "patient"),
        ("georgia", "E00005", "signal"),
    ],
)
def test_a_recording_is_left_out_by_id_patient_or_signal(
    dataset: str, record: str, reason: str
) -> None:
    exclusion = Exclusion([PTBXL, CHALLENGE])
    assert exclusion(Name(dataset, record)) is not bool(reason)
    assert dict(exclusion.reasons) == ({reason: 1} if reason else {})
