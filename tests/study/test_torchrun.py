"""A study shares its fits out itself."""

import os
import subprocess
import sys
from pathlib import Path


def test_torchrun_is_refused(tmp_path: Path) -> None:
    env = {**os.environ, "WORLD_SIZE": "2", "RANK": "0"}
    words = [sys.executable, "-m", "ecgbench", "run", "--out", str(tmp_path / "run")]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "--engine local:2" in done.stderr
    assert not (tmp_path / "run").exists()
