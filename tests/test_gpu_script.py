"""benchmarks/gpu.py in a reduced form on the CPU, so that it works when a GPU is there."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "gpu.py"
pytestmark = pytest.mark.long


def test_every_part_gives_rows(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), "--device", "cpu", "--small", "--to", str(tmp_path)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    rows = [json.loads(line) for line in (tmp_path / "gpu.jsonl").read_text().splitlines()]
    assert done.returncode == 0, [row for row in rows if "error" in row] or done.stderr
    exact = [row for row in rows if row.get("precision") == "float32"]
    assert [(row["leads"], row["difference"]) for row in exact] == [(1, 0), (12, 0)]
    assert rows[-2]["largest difference"] == 0
    assert rows[-1]["equal in every bit"]
