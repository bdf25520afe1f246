"""A run of built-in models with nothing missing: seen from its receipts, and from nothing less."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ecgbench.study import jobs

WORDS = ("--models", "simple_features", "--tasks", "demo", "--leads", "I", "--limit", "40")
Run = Callable[..., Any]


@pytest.fixture
def again(here: Run, tmp_path: Path) -> Callable[..., Any]:
    def run(*words: object) -> Any:
        usual = (*WORDS, "--engine", "inline", "--set", "run.report=off", "--out", "r")
        return here("run", *usual, *words, cwd=tmp_path)

    # a file that another test gave by path is a plug-in, of which no receipt speaks
    for room in jobs.ROOMS.values():
        room.ROOM.forget()
    assert "1 cell computed" in run().stdout
    return run


def _commands(tmp_path: Path) -> int:
    return len(list((tmp_path / "r/invocations").iterdir()))


def test_a_run_with_nothing_missing_builds_no_network(again: Run, tmp_path: Path) -> None:
    assert "0 cells computed, 1 were there already" in again().stdout
    assert _commands(tmp_path) == 1


@pytest.mark.parametrize("file", ["cells/**/predictions.parquet", "fits/**/head.safetensors"])
def test_a_damaged_file_is_computed_again(again: Run, tmp_path: Path, file: str) -> None:
    (damaged,) = (tmp_path / "r").glob(file)
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    again()
    assert damaged.read_bytes() == whole


def test_what_no_receipt_speaks_of_is_looked_at(again: Run, tmp_path: Path) -> None:
    (receipt,) = (tmp_path / "r/receipts").iterdir()
    receipt.write_text("{}")
    assert "0 cells computed, 1 were there already" in again().stdout
    assert _commands(tmp_path) == 2
    assert "1 cell computed" in again("--leads", "II").stdout
