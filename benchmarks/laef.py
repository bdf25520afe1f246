"""LAEF as it runs beside LAEF by torch's convolutions and torch_geometric's GATv2Conv, in one
process.

`python benchmarks/laef.py`: ms per sample of the embedder, one GATv2 layer, both blocks and the
whole forward at 1, 2 and 12 leads, and of a training step; the embedder as a share of the rate of
plain matrix products, the layer beside its two linear maps.
"""

import argparse
from collections.abc import Callable
from typing import Any

import torch
from timer import machine, medians
from torch import Tensor

from ecgbench.models import laef

LAYER_TARGET, LINEAR_TARGET, EMBEDDER_TARGET = 8.0, 2.0, 0.75


def example(batch: int, leads: int) -> tuple[Tensor, Tensor]:
    return torch.rand(batch, leads, 500) * 2 - 1, torch.ones(batch, leads, dtype=torch.bool)


def row(title: str, seconds: list[float], batch: int, note: str = "") -> None:
    ours, theirs = (s / batch * 1e3 for s in seconds[:2])
    print(f"  {title:<22}{ours:9.2f}{theirs:11.2f}{theirs / ours:9.1f} x  {note}")


def products(leads: int) -> Callable[[], object]:
    """The three convolutions between 768 channels as plain products of contiguous matrices."""
    pairs = [
        (torch.randn(leads * rows, depth), torch.randn(depth, 768))
        for rows, depth in ((81, 2304), (40, 2304), (20, 1536))
    ]
    return lambda: [a @ b for a, b in pairs]


def train_step(network: laef.Laef, signal: Tensor, measured: Tensor) -> None:
    network.zero_grad()
    network(signal, measured).pooled.square().sum().backward()


def compared(ours: laef.Laef, theirs: laef.Laef, leads: int, batch: int, repeat: int) -> None:
    """Print the rows of so many leads."""
    signal, measured = example(batch, leads)
    layers: list[Any] = [network.blocks[0].attention for network in (ours, theirs)]
    dense = layers[0]
    print(f"{leads} leads")
    with torch.inference_mode():
        tokens = ours.embed_leads(signal)
        runs = [lambda n=n: n.embed_leads(signal) for n in (ours, theirs)]
        seconds = medians([*runs, products(batch * leads)], repeat)
        share = f"{seconds[2] / seconds[0]:.0%} of the rate of plain products"
        row("embedder", seconds, batch, f"{share} (target {EMBEDDER_TARGET:.0%})")
        maps = lambda: (dense.source(tokens), dense.target(tokens))  # noqa: E731
        seconds = medians([lambda: dense(tokens), lambda: layers[1](tokens), maps], repeat)
        beside = f"{seconds[0] / seconds[2]:.1f} times its two linear maps (at most "
        note = f"(target {LAYER_TARGET:g}) " if leads == 12 else ""
        row("one GATv2 layer", seconds, batch, f"{note}{beside}{LINEAR_TARGET:g})")
        runs = [lambda n=n: n.encode(tokens, measured) for n in (ours, theirs)]
        row("both blocks", medians(runs, repeat), batch)
        difference = ours(signal, measured).sequence - theirs(signal, measured).sequence
        runs = [lambda n=n: n(signal, measured) for n in (ours, theirs)]
        note = f"largest difference {float(difference.abs().max()):.1e}"
        row("forward", medians(runs, repeat), batch, note)
    if leads != 2:
        ours.requires_grad_(True)  # the parameters are shared
        runs = [lambda n=n: train_step(n, signal, measured) for n in (ours, theirs)]
        row("forward and backward", medians(runs, repeat), batch)
        ours.requires_grad_(False).zero_grad(set_to_none=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--repeat", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    ours = laef.build().eval().requires_grad_(False)
    theirs = laef.reference(ours)
    print(f"{machine()}, batch {options.batch}\n  ms per sample{'':<12}dense  reference")
    for leads in (1, 2, 12):
        compared(ours, theirs, leads, options.batch, options.repeat)


if __name__ == "__main__":
    main()
