"""Several processes on one run, and a run of 100,000 cells: `python benchmarks/scaling.py
[--workers 1,2,4,8] [--seconds 5] [--cells 100000] [--folder DIR]`.

Workers: N models that sleep in their forward pass on N processes of `--engine local:N`, 57 lead
settings each, so that two cores do not matter but where programs start. Efficiency: the time of one
model on one process, over that of N models on N. The harness's own time of a cell: from the first
to the last cell of a model, whose features are there by then. Targets: 0.95 at 8 processes, 50 ms.

Store: cells written by hand, of 8 models on as many tasks as the paper has (18), with as many draws
of leads as it takes. `ecgbench runs status` and `ecgbench runs ls`, as commands (target: 2 s);
`ecgbench report --tasks` of one of them (target: 60 s); files and folders per cell.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from laef import machine

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
EFFICIENCY, A_CELL, LISTED, REPORTED = 0.95, 0.050, 2.0, 60.0
LEADS, WINDOWS = "1-12", 20
"""Lead settings, and windows of each on the test split of 24 recordings of the demo."""
TASKS, MODELS = 18, tuple(f"m{n}" for n in range(8))
SLEEPER = '''"""Sleeps: a model that costs time and no processor."""

import os
import time

import torch
from torch import nn

from ecgbench.core.cards import InputContract, ModelCard
from ecgbench.ecg.leads import LEADS
from ecgbench.models import Features

CARD = ModelCard(
    title="Sleeper", summary="sleeps", paper="none", origin="benchmark", licence="MIT",
    parameters=12, dim=12, native=False, groups={{"early": ("scale",), "late": ()}},
    contracts=(InputContract(
        name="paper", fs=100, seconds=2.5, leads=LEADS, unit="mV", filter=None,
        normalisation="none", fill="before", policy="zero", absent="0 mV"),),
)


class Sleeper(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(12))

    def forward(self, signal, measured):
        time.sleep({seconds} * len(signal))
        with open({log!r}, "a") as out:
            out.write(f"{{len(signal)}}\\n")
        tokens = (signal * self.scale[:, None]).std(-1)[:, None]
        return Features(tokens, tokens[:, 0])


def build(weights=None):
    return Sleeper()
'''


def command(*words: object, cwd: Path) -> float:
    """Seconds that `ecgbench WORDS` takes."""
    line = [sys.executable, "-m", "ecgbench", *map(str, words)]
    started = time.perf_counter()
    done = subprocess.run(line, cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(line)}: {done.stderr[-2000:]}")
    return time.perf_counter() - started


def grid(workers: int, seconds: float, home: Path) -> tuple[float, float, float, int]:
    """So many sleepers on as many processes: seconds of the command, seconds that a sleeper slept,
    of the harness for a cell, cells.
    """
    for number in range(workers):
        text = SLEEPER.format(seconds=seconds / WINDOWS, log=str(home / f"slept{number}"))
        (home / f"sleeper{number}.py").write_text(text)
    models = ",".join(f"./sleeper{number}.py" for number in range(workers))
    usual = ("--tasks", "demo", "--weights", "random", "--limit", 24, "--leads", LEADS)
    out = f"run{workers}"
    took = command(
        *("run", "--models", models, *usual, "--engine", f"local:{workers}", "--out", out), cwd=home
    )
    slept = [
        seconds / WINDOWS * sum(map(int, (home / f"slept{number}").read_text().split()))
        for number in range(workers)
    ]
    done = sorted((home / out).glob("cells/*/*/*/*/DONE"))
    by_model: dict[str, list[float]] = {}
    for file in done:
        by_model.setdefault(file.parts[-4], []).append(file.stat().st_mtime)
    own = [(max(times) - min(times)) / (len(times) - 1) for times in by_model.values()]
    return took, sum(slept) / len(slept), sum(own) / len(own), len(done)


def scaled(counts: list[int], seconds: float, folder: Path | None) -> bool:
    """Print what N processes take; whether the targets are reached."""
    first, met = 0.0, True
    for workers in counts:
        with tempfile.TemporaryDirectory(dir=folder) as home:
            if not first:  # the demo is prepared before the clock starts
                command("data", "prepare", "demo", cwd=Path(home))
            took, slept, own, cells = grid(workers, seconds, Path(home))
        first = first or took
        met &= first / took >= EFFICIENCY and own < A_CELL
        print(
            f"{workers} processes, {cells} cells: {took:.0f} s, each model slept {slept:.0f} s of "
            f"it; efficiency {first / took:.3f} (target {EFFICIENCY}); the harness needs "
            f"{1000 * own:.0f} ms a cell (target {1000 * A_CELL:.0f})",
            flush=True,
        )
    return met


def listed(cells: int, folder: Path | None) -> bool:
    """Print what a run of many cells takes to list and to report; whether the targets are
    reached.
    """
    from ecgbench import suites
    from ecgbench.study import plan_file
    from tests.results.made_run import Data, Made, write

    with tempfile.TemporaryDirectory(dir=folder) as place:
        home, names = Path(place), plan_file.load(suites.path("paper")).request().tasks
        seeds = max(1, round((cells / TASKS / len(MODELS) - 1) / 11))
        data = {
            f"d{n}": Data(tasks={name: 5}, records=200, prevalence=0.3, title=f"d{n}")
            for n, name in enumerate(names[:TASKS])
        }
        made = Made(data=data, models=MODELS, leads=LEADS, seeds=seeds, skill=lambda m, k: 1.0)
        run, wait = home / "runs" / "large", os.fsync
        os.fsync = lambda handle: None  # of half a million files nobody needs to be sure
        write(run, made)
        os.fsync = wait
        count = sum(1 for _ in run.glob("cells/*/*/*/*/DONE"))
        inodes = sum(1 for _ in (run / "cells").rglob("*"))
        print(f"{count:,} cells; files and folders per cell: {inodes / count:.1f}", flush=True)
        looked = [command("runs", "status", run, cwd=home) for _ in range(3)]
        shown = [command("runs", "ls", home / "runs", cwd=home) for _ in range(3)]
        print(
            f"status {min(looked):.1f} s, runs ls {min(shown):.1f} s (target {LISTED:.0f} s)",
            flush=True,
        )
        took = command("report", run, "--tasks", names[0], "--to", home / "report", cwd=home)
        print(f"report of one of the {TASKS} tasks {took:.0f} s (target {REPORTED:.0f} s)")
    return max(min(looked), min(shown)) < LISTED and took < REPORTED


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", default="1,2,4,8")
    parser.add_argument("--seconds", type=float, default=5.0, help="of a cell's forward passes")
    parser.add_argument("--cells", type=int, default=100_000)
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    # features of models from outside are computed again in another process, those of ours are not
    print(machine("cpu"))
    counts = [int(word) for word in asked.workers.split(",") if word]
    met = scaled(counts, asked.seconds, asked.folder)
    if asked.cells:
        met &= listed(asked.cells, asked.folder)
    sys.exit(not met)


if __name__ == "__main__":
    main()
