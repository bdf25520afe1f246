"""Each baseline's forward in float32 and bf16; ECG-CPC's also beside a plain eager reading of its
specification (benchmarks/plain/), of which the other networks are plain readings themselves.

    python benchmarks/baselines.py                 all of them, one window each (--batch), on the
    CPU or --device cuda python benchmarks/baselines.py ecgjepa merl    some of them

One process, one thread, the two sides taking turns; medians. A ratio above 1 means that ours is
faster. The features of both sides must agree, or there is nothing to compare.
"""

import argparse
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from timer import machine, medians
from torch import Tensor

from ecgbench import models
from ecgbench.evaluate.network import Network, build

PLAIN = Path(__file__).with_name("plain")
BASELINES = ("ecgcpc", "ecgfmked", "ecgfounder", "ecgjepa", "hubertecg", "merl", "stmem")
TURNS = 9
"""Timed turns of each side, after one that warms up."""


def plain(name: str) -> Callable[[dict[str, Tensor], Tensor], Tensor] | None:
    """The plain reading of a network, where there is one."""
    file = PLAIN / f"{name}.py"
    if not file.is_file():
        return None
    spec = importlib.util.spec_from_file_location(f"plain_{name}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.features


def measure(name: str, batch: int, device: str) -> str:
    """One line of Markdown."""
    # not in inference mode: what follows from frozen weights could then not be kept
    network = build(name, "random", device)
    with torch.inference_mode():
        return _measured(network, batch, device)


def _measured(network: Network, batch: int, device: str) -> str:
    name = network.name
    fed, module = network.card.contract("paper"), network.module
    x = 0.3 * torch.randn(
        batch, len(fed.leads), fed.received, generator=torch.Generator().manual_seed(0)
    ).to(device)
    measured = torch.ones(x.shape[:2], dtype=torch.bool, device=device)
    state, read = dict(module.state_dict()), plain(name)

    def rough() -> Tensor:
        with torch.autocast(x.device.type, torch.bfloat16):
            return module(x, measured).pooled

    ours, half = module(x, measured).pooled, rough().float()
    moved = float((half - ours).abs().max() / ours.abs().max())
    sides: dict[str, Callable[[], Tensor]] = {
        "ours": lambda: module(x, measured).pooled,
        "bf16": rough,
    }
    if read is not None:
        off = float((read(state, x) - ours).abs().max() / ours.abs().max())
        if off > 1e-4:
            sys.exit(f"{name}: the plain reading differs by {off:.1e} of the largest feature")
        sides["plain"] = lambda: read(state, x)
    spent = medians(list(sides.values()), TURNS, device)
    ms = {side: 1000 * value / batch for side, value in zip(sides, spent)}
    beside = f"{ms['plain']:.1f} ms, {ms['plain'] / ms['ours']:.2f}" if "plain" in ms else ""
    return (
        f"| {network.card.title} | {ms['ours']:.1f} ms | {beside} | "
        f"{ms['bf16']:.1f} ms, {ms['ours'] / ms['bf16']:.2f} | {moved:.1e} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*")
    parser.add_argument(
        "--batch",
        type=int,
        default=None,
        help="windows of one pass; default: 1 on a CPU, 64 on a GPU",
    )
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    torch.set_num_threads(1)
    batch = options.batch or (1 if options.device == "cpu" else 64)
    print(f"{machine(options.device)}, batch {batch}\n")
    print(
        "| model | a window | plain reading, ratio | bf16, ratio to float32 | largest change in "
        "bf16 |"
    )
    print("|---|---|---|---|---|", flush=True)
    for name in map(models.resolve, options.models or BASELINES):
        print(measure(name, batch, options.device), flush=True)


if __name__ == "__main__":
    main()
