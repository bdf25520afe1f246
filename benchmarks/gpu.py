"""What this project does on a GPU, measured by one command in a few minutes.

    python benchmarks/gpu.py --to OUT        (also: make gpu)
    python benchmarks/gpu.py --device cpu --small --to OUT    the same on a small scale, to try it

LAEF and the other models in float32, TF32 and bf16 beside the CPU's features, LAEF's rate beside
the paper's; a step of pre-training; a small study on the device and on the CPU; a fine-tuning that
is made twice. OUT/gpu.jsonl gets a row as soon as it is there. What fails is a row with its error,
and costs itself alone. Signals are drawn at random, recordings are the synthetic demo.
"""

import argparse
import copy
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from timer import machine, medians
from torch import Tensor, nn

from ecgbench import models, read
from ecgbench.evaluate.network import build
from ecgbench.models import laef
from ecgbench.pretrain import masking
from ecgbench.pretrain.objective import MaskedNodes
from ecgbench.profile import clock

PAPER = {1: (9438.2, 384.0), 12: (771.2, 5858.5)}
"""Leads -> samples/s and MB of GPU memory: the paper's table of computational cost, on one A100."""
TOLERANCE = 0.005
"""By which a macro AUROC of a study on a GPU may differ from the CPU's: features differ in their
last bits, and fits end in slightly other places.
"""
TINY = Path(__file__).resolve().parents[1] / "tests" / "tiny.py"
Row = dict[str, Any]


def rates(name: str, leads: int | None, options: argparse.Namespace) -> Iterator[Row]:
    """Samples/s, peak memory and distance from the CPU's features, in each precision."""
    network = build(name, "random")
    contract, batch = network.card.contract("paper"), 2 if options.small else 64
    shape = (batch, leads or len(contract.leads), contract.received)
    signal = 0.3 * torch.randn(shape, generator=torch.Generator().manual_seed(0))
    measured = torch.ones(shape[:2], dtype=torch.bool)
    with torch.inference_mode():
        exact = network.module(signal[:2], measured[:2]).pooled
    moved = copy.deepcopy(network.module).to(options.device)
    x = signal.to(options.device), measured.to(options.device)
    for precision in ("float32", "TF32", "bf16"):
        row = {"model": name, "leads": shape[1], "precision": precision, "batch": batch}
        yield guarded(row, partial(rate, moved, x, precision, exact, options.device))


def rate(
    network: nn.Module, x: tuple[Tensor, Tensor], precision: str, exact: Tensor, device: str
) -> Row:
    tf32 = precision == "TF32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32

    def run() -> Tensor:
        rough = precision == "bf16"
        with torch.inference_mode(), torch.autocast(x[0].device.type, torch.bfloat16, rough):
            return network(*x).pooled.float()

    apart = (run()[: len(exact)].cpu() - exact).abs().max() / exact.abs().max()
    row = {"samples/s": len(x[0]) / medians([run], 5, device)[0], "difference": float(apart)}
    row["peak MB"] = clock.peak(run, device, 0.0) if device != "cpu" else None
    paper, memory = PAPER.get(x[0].shape[1], (None, None))
    if isinstance(network, laef.Laef) and paper:
        row |= {"times the paper's rate": row["samples/s"] / paper, "paper's MB": memory}
    return row


def pretraining_step(batch: int, drop: float, codes: int, device: str) -> Row:
    """Seconds of a step of masked node modelling with its optimiser, in bf16."""
    drawn = masking.draw(0, 1, range(batch), masking.MASKED, drop)
    model = MaskedNodes(laef.build(), [codes]).train().to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4)
    shown = [
        None if a is None else torch.from_numpy(a).to(device)
        for a in (drawn.measured, drawn.masked, drawn.dropped)
    ]
    signal = torch.randn(batch, 12, 500, device=device)
    target = torch.randint(codes, (1, *drawn.masked.shape), device=device)

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        with torch.autocast(device.partition(":")[0], torch.bfloat16):
            entropy = model(signal, shown[0], shown[1], target, shown[2]).entropy
        entropy.sum().backward()
        optimiser.step()

    return {"seconds": medians([step], 3, device)[0]}


def study(name: str, device: str, out: Path, *more: str) -> dict[str, float]:
    """Scores of a small study of synthetic recordings."""
    words = ["run", "--models", f"laef,{TINY}", "--tasks", "demo", "--weights", "random"]
    words += ["--leads", "1,12", "--seeds", "1", "--device", device, "--out", str(out / name)]
    words += ["--prepared", str(out / "prepared"), "--set", "run.report=no", *more]
    subprocess.run([sys.executable, "-m", "ecgbench", *words], check=True, capture_output=True)
    cells = read(out / name).cells
    return dict(zip(cells["model"] + " " + cells["setting"], cells["value"].astype(float)))


def as_on_cpu(device: str, out: Path, limit: str) -> Row:
    here, there = (
        study(n, d, out, "--limit", limit) for n, d in (("here", device), ("cpu", "cpu"))
    )
    apart = max(abs(here[cell] - there[cell]) for cell in there)
    if not apart <= TOLERANCE:
        raise AssertionError(f"a score is {apart:.4f} apart from the CPU's, more than {TOLERANCE}")
    return {"cells": len(there), "largest difference": apart}


def twice(device: str, out: Path) -> Row:
    """Whether two fine-tunings end with the same bytes."""
    more = ("--models", str(TINY), "--limit", "60", "--protocol", "finetune")
    heads = []
    for name in ("first", "second"):
        study(name, device, out, *more, "--set", "training.epochs=2")
        heads.append(next((out / name).rglob("head.safetensors")).read_bytes())
    return {"equal in every bit": heads[0] == heads[1]}


def guarded(row: Row, measure: Callable[[], Row]) -> Row:
    """The row with what was measured, or with the error in place of it."""
    try:
        return {**row, **measure()}
    except Exception as error:  # one that fails must not cost the others
        return {**row, "error": f"{type(error).__name__}: {str(error)[:200]}"}


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Everything, the most valuable first."""
    device, small = options.device, options.small
    yield {"machine": machine(device), "numpy": np.__version__}
    for leads in (1, 12):
        yield from rates("laef", leads, options)
    batch = 2 if small else 448
    for stage, drop, codes in ((1, 0.0, 50), (2, masking.EDGE_DROP, 500)):
        row = {"pre-training stage": stage, "records": batch}
        yield guarded(row, partial(pretraining_step, batch, drop, codes, device))
    limit = "30" if small else "120"
    yield guarded({"study": "as on the CPU"}, partial(as_on_cpu, device, options.to, limit))
    yield guarded({"fine-tuning": "twice"}, partial(twice, device, options.to))
    for name in () if small else models.names():
        if models.ROOM.built_in(name) and name != "laef":
            yield from rates(name, None, options)


def main() -> None:
    """Print and keep each row; exit code 1 where one has an error."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--to", type=Path, required=True, help="folder for what is measured")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1, or cpu to try the script")
    parser.add_argument("--small", action="store_true", help="small batches, and LAEF alone")
    options = parser.parse_args()
    options.to.mkdir(parents=True, exist_ok=True)
    failed = False
    with (options.to / "gpu.jsonl").open("w") as out:
        for row in rows(options):
            out.write(json.dumps(row) + "\n")
            out.flush()
            print(
                "  ".join(
                    f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()
                )
            )
            failed |= "error" in row
    sys.exit(failed)


if __name__ == "__main__":
    main()
