"""Two parts of benchmarks/gpu.py in a reduced form on the CPU, and parts that fail."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "gpu.py"
CHOSEN = "machine,laef"
pytestmark = pytest.mark.long


def learn(to: Path, *words: str) -> tuple[int, dict]:
    command = [sys.executable, str(SCRIPT), "--device", "cpu", "--small", "--to", str(to), *words]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    return done.returncode, json.loads((to / "gpu.json").read_text())


def test_every_part_gives_rows(tmp_path: Path) -> None:
    code, parts = learn(tmp_path / "out", "--minutes", "30", "--only", CHOSEN)
    assert {name: part["state"] for name, part in parts.items()} == dict.fromkeys(
        CHOSEN.split(","), "done"
    )
    assert code == 0
    assert all(part["rows"] for part in parts.values())
    assert not any("error" in row for part in parts.values() for row in part["rows"])
    rows = parts["laef"]["rows"]
    assert {(r["leads"], r["way"]) for r in rows} >= {(1, "float32"), (12, "float32")}
    assert all(r["difference from CPU"] == 0 for r in rows if r["way"] == "float32")
    assert "| leads | way |" in (tmp_path / "out" / "gpu.md").read_text()


def test_a_part_that_fails_or_hangs_costs_itself_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a copy of the script whose first part raises after a row and whose second hangs."""
    (tmp_path / "gpu.py").write_text(SCRIPT.read_text())
    (tmp_path / "gpu_parts.py").write_text(
        "import time\nfrom collections import namedtuple\n"
        "Part = namedtuple('Part', 'title share rows')\n"
        "Where = namedtuple('Where', 'device small folder until')\n"
        "def bad(where):\n    yield {'a': 1}\n    raise ValueError('no kernel')\n"
        "def slow(where):\n    yield {'b': 2}\n    time.sleep(600)\n"
        "def good(where):\n    yield {'c': 3}\n"
        "PARTS = {f.__name__: Part(f.__name__, 1, f) for f in (bad, slow, good)}\n"
    )
    monkeypatch.setattr(sys.modules[__name__], "SCRIPT", tmp_path / "gpu.py")
    code, parts = learn(tmp_path / "out", "--minutes", "0.6")
    assert code == 1
    assert parts["bad"]["state"] == "failed: ValueError: no kernel"
    assert parts["slow"]["state"].startswith("stopped after its ")
    assert parts["good"]["state"] == "done"
    assert [part["rows"] for part in parts.values()] == [[{"a": 1}], [{"b": 2}], [{"c": 3}]]
    assert "raise ValueError" in (tmp_path / "out" / "bad.error.txt").read_text()
