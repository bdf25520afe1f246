"""One recording under two records: in one split it is no leak, in two it is."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ecgbench.data.prepare import prepare
from ecgbench.datasets import ptbxl
from ecgbench.errors import MissingData


def _as(data: Path, record: int, other: int) -> None:
    """The samples of `other` under the name of `record` too."""
    folder = data / "ptbxl" / "records500" / "00000"
    shutil.copy(folder / f"{other:05d}_hr.dat", folder / f"{record:05d}_hr.dat")
    text = (folder / f"{other:05d}_hr.hea").read_text()
    (folder / f"{record:05d}_hr.hea").write_text(text.replace(f"{other:05d}", f"{record:05d}"))


def test_the_same_samples_in_two_splits_are_listed_or_refused_as_the_card_says(
    fake_ptbxl: Path, here: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _as(fake_ptbxl, 3, 4)  # both in train
    done = here("data", "prepare", "ptbxl", "--data", fake_ptbxl, cwd=tmp_path)
    assert done.returncode == 0
    assert "splits" not in done.stdout
    _as(fake_ptbxl, 30, 4)
    done = here("data", "prepare", "ptbxl", "--data", fake_ptbxl, cwd=tmp_path)
    assert done.returncode == 0
    named = "00003 (train) = 00004 (train) = 00030 (test)"
    assert (
        f"  1 recording in two splits or more under several records: {named} (all of" in done.stdout
    )
    monkeypatch.setattr(ptbxl, "CARD", replace(ptbxl.CARD, crossing="refused"))
    with pytest.raises(MissingData, match=r"= 00030 \(test\); put each recording"):
        prepare("ptbxl", fake_ptbxl, tmp_path / "q")
