"""An engine that is one file enters by path and gives the tables that inline gives."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ecgbench.results.study import read

HERE = Path(__file__).parent
ENGINE, TINY = HERE / "pairwise.py", HERE.parent / "tiny.py"
USUAL = "--tasks demo --weights random --limit 60 --protocol linear --seeds 1 --leads 12,I"


@pytest.mark.long
def test_the_table_is_that_of_inline(
    one_thread: None, here: Callable[..., Any], tmp_path: Path
) -> None:
    """Of two models, each in a process of its own."""
    (tmp_path / "twin.py").write_text(TINY.read_text())
    words = ("run", "--models", f"{TINY},twin.py", *USUAL.split(), "--set", "training.epochs=2")
    tables = []
    for engine in (ENGINE, "inline"):
        out = tmp_path / f"by {Path(engine).stem}"
        done = here(*words, "--engine", engine, "--out", out, cwd=tmp_path, OMP_NUM_THREADS="1")
        assert done.returncode == 0, done.stderr
        assert "4 cells computed, 0 were there already, 0 skipped, 0 failed" in done.stdout
        tables.append(read(out).main.to_csv(index=False))
    assert tables[0] == tables[1]
