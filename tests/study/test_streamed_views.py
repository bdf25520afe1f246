"""`--views stream`: the same features and scores to the bit, and no view on the disk."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ecgbench.data.prepare import find


@pytest.mark.long
def test_what_is_computed_while_reading_gives_the_same_files(
    typed: Callable[..., int], tmp_path: Path
) -> None:
    files = {}
    for views in ("stream", "keep"):
        run, home = tmp_path / views, tmp_path / f"prepared {views}"
        words = ("--leads", "1,12", "--prepared", str(home), "--set", f"run.views={views}")
        assert typed(run, *words) == 0
        kept = find("demo", None, home, 60).folder / "views"
        assert kept.exists() == (views == "keep")
        found = [*run.rglob("*.safetensors"), *(run / "cells").rglob("*.parquet")]
        files[views] = {str(f.relative_to(run)): f.read_bytes() for f in found}
    assert files["stream"] == files["keep"]
    assert len(files["keep"]) >= 4
