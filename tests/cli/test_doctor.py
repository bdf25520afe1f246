"""`ecgbench doctor` as a person types it: everything is told, and a model that ends or hangs its
process costs its own line only.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ecgbench.core import machine as limits

TINY = Path(__file__).parents[1] / "tiny.py"
CODE = "import sys; sys.argv[0] = 'ecgbench'; from ecgbench.cli import main; main()"


def doctor(*words: str, cwd: Path, **env: str) -> subprocess.CompletedProcess:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("ECGBENCH_")}
    env = {**kept, "XDG_CACHE_HOME": str(cwd / "cache"), "OMP_NUM_THREADS": "1", **env}
    line = [sys.executable, "-c", CODE, "doctor", *map(str, words)]
    return subprocess.run(line, cwd=cwd, capture_output=True, text=True, timeout=300, env=env)


def plug_in(folder: Path, name: str, code: str) -> Path:
    """Tiny, whose `build` first does what `code` says."""
    path = folder / f"{name}.py"
    body = TINY.read_text().replace(
        "    network = Tiny()\n", f"    import os, sys\n    {code}\n    network = Tiny()\n"
    )
    assert code in body
    path.write_text(body)
    return path


@pytest.mark.long
def test_every_fact_is_told_and_bad_models_cost_their_own_line_only(tmp_path):
    bad = [
        plug_in(tmp_path, "aborts", "os.abort()"),
        plug_in(
            tmp_path,
            "shouts",
            "print('{\"ok\": true}' * 9); sys.stderr.write('x' * 10**6); raise ValueError('a\\nb')",
        ),
        plug_in(tmp_path, "quits", "os._exit(0)"),
    ]
    names = ",".join([*map(str, bad), str(TINY), "laef"])
    done = doctor("--json", "--models", names, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert found["ok"] is False
    told = {m["name"]: m for m in found["models"]}
    assert told["aborts"]["error"] == "its process was killed by SIGABRT"
    assert told["shouts"]["error"] == "ValueError: a b"
    assert told["quits"]["error"].startswith("its process ended with exit code 0")
    for name, parameters in (("tiny", 8_616), ("laef", 7_104_000)):
        assert told[name]["ok"]
        assert (told[name]["parameters"], told[name]["leads"]) == (parameters, 12)
        assert told[name]["ms"] > 0
    assert len(found["problems"]) == 3
    assert "torch" in found["versions"]["packages"]
    assert found["torch"]["threads"] == 1
    assert found["memory"]["total"] > found["memory"]["available"] > 0
    assert all(not d["reason"] and d["free"] > 0 for d in found["disk"])
    assert not (tmp_path / "runs").exists()
    assert done.stderr.count("one forward pass of") == 5


@pytest.mark.long
def test_a_model_that_hangs_is_killed_and_the_next_one_tried(tmp_path):
    hangs = plug_in(tmp_path, "hangs", "import time; time.sleep(600)")
    after = plug_in(tmp_path, "after", "os._exit(7)")
    done = doctor("--json", "--models", f"{hangs},{after}", "--timeout", "5", cwd=tmp_path)
    told = {m["name"]: m["error"] for m in json.loads(done.stdout)["models"]}
    assert told["hangs"] == "no answer within 5 s, so it was killed"
    # on a busy machine the second may not come so far in 5 s
    assert told["after"] in ("its process ended with exit code 7", told["hangs"])


def test_broken_things_are_all_told_with_what_mends_them(tmp_path):
    """No torch, and a file where each folder should be."""
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')\n")
    (tmp_path / "runs").write_text("in the way")
    (tmp_path / "afile").write_text("in the way")
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    done = doctor("--prepared", tmp_path / "afile/prepared", cwd=tmp_path, PYTHONPATH=path)
    assert done.returncode == 1
    text = " ".join(done.stdout.split())
    for said in (
        "no torch here",
        "pip install torch",
        "runs cannot be written",
        "--out DIR",
        "afile/prepared cannot",
        "--prepared DIR",
    ):
        assert said in text
    assert text.startswith("3 things to repair; then: ecgbench doctor BROKEN: torch cannot be used")


def test_bad_words_are_one_line(tmp_path):
    for words, said in (
        (("-m", "leaf"), "did you mean laef?"),
        (("--timeout", "0"), "'--timeout': "),
    ):
        done = doctor(*words, cwd=tmp_path)
        assert (done.returncode, len(done.stderr.strip().splitlines())) == (2, 1)
        assert said in done.stderr


def test_limits_of_the_cgroup_are_those_of_the_tightest_group_around(tmp_path):
    """Limits as containers set them, at the process's own group."""
    inner = tmp_path / "sys/fs/cgroup/outer/inner"
    inner.mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/outer/inner\n")
    (inner.parent / "memory.max").write_text("1024000\n")
    (inner / "memory.max").write_text("max\n")
    assert limits.memory(tmp_path)["limit"] == 1_024_000
    nowhere = tmp_path / "nowhere"
    assert limits.memory(nowhere)["limit"] is None
