"""`ecgbench profile` as a person types it."""

import csv
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

TINY = str(Path(__file__).parents[1] / "tiny.py")


pytestmark = pytest.mark.usefixtures("one_thread")
Profile = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def profile(here: Profile) -> Profile:
    """profile(*words, cwd=folder)"""
    return partial(here, "profile")


@pytest.mark.long
def test_counts_without_timing(profile: Profile, tmp_path: Path) -> None:
    words = f"--models {TINY},laef --leads 2,1 --no-timing --device cpu --to out"
    done = profile(*words.split(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    names = {"cost.csv", "cost.md", "cost.tex", "cost_paper.csv", "cost.json", "index.html"}
    assert {p.name for p in (tmp_path / "out").iterdir()} == names
    rows = list(csv.DictReader((tmp_path / "out/cost.csv").open()))
    assert [(r["model"], r["leads"]) for r in rows] == [
        (m, n) for m in ("tiny", "laef") for n in "12"
    ]
    measured = ("batch", "peak_mb", "throughput_samples_s", "latency_ms_sample")
    assert {r[name] for r in rows for name in measured} == {""}
    assert float(rows[3]["gflop_forward"]) > 1.9 * float(rows[2]["gflop_forward"])
    assert rows[0]["gflop_forward"] == rows[1]["gflop_forward"] != ""
    assert "1 thread" in rows[0]["device"]
    head, *printed = done.stdout.split("\n\n")[1].splitlines()
    assert head.split()[:3] == ["Model", "Leads", "Samples"]
    assert "ms/sample" not in head, "a column without a number"
    assert [line.partition("  ")[0] for line in printed] == ["Tiny", "LAEF", "LAEF"]
    assert f"{float(rows[3]['gflop_forward']):.3f}" in printed[2]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--leads", "1,II"), "the cost depends on their number"),
        (("--leads", "13"), "a count of leads is 1 to 12"),
        (("--models", "leaf"), "did you mean laef"),
        (("--models", ","), "no model is named"),
        (("--device", "tpu"), "--device tpu"),
        (("--device", "cuda:99", "--models", "laef", "--leads", "1"), "CUDA device"),
        (("--batch", "0"), "'--batch': "),
        (("--to", TINY), f"cannot write {TINY}"),
        (("--to", "/proc/x"), "cannot write /proc/x"),
    ],
)
def test_bad_input_is_one_line(
    profile: Profile, words: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    done = profile(*words, "--no-timing", cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    complaint = [line for line in done.stderr.splitlines() if line.startswith("ecgbench:")]
    assert len(complaint) == 1
    assert said in complaint[0]
    assert "measurements" not in done.stderr or "--device" in words
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
