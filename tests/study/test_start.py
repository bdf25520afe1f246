"""What a run says before it computes: records and cells."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TINY = Path(__file__).parents[1] / "tiny.py"


@pytest.mark.long
def test_a_run_that_computes_says_its_records_and_cells(
    here: Callable[..., Any], tmp_path: Path
) -> None:
    usual = ("--models", TINY, "--tasks", "demo", "--weights", "random", "--limit", "60")
    usual += ("--out", "run", "--device", "cpu", "--engine", "inline", "--leads", "12")

    def said(*words: object) -> str:
        return str(here("run", *usual, *words, cwd=tmp_path).stderr)

    records = "demo: 60 records (train 40, val 7, test 13)"
    assert f"{records}\n1 cell to compute of 1\n" in said()
    assert records not in said()
    two = said("--policy", "native,zero")  # the tiny network cannot be shown all leads natively
    assert "1 cell to compute of 2" in two
    assert records not in said("--policy", "native,zero")
