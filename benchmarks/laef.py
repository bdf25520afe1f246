"""LAEF as it runs beside LAEF by torch's convolutions and torch_geometric's GATv2Conv, in one
process.

`python benchmarks/laef.py`: ms per sample of the embedder, one GATv2 layer, both blocks and the
whole forward at 1, 2 and 12 leads, and of a training step; the embedder as a share of the rate of
plain matrix products, the layer beside its two linear maps; GFLOP as torch's counter sees them.
Times are medians of alternating repetitions. `--compiled` lets the pairwise scores run compiled, as
in a run over enough windows. On a GPU also samples/s and peak memory at batch 64, in fp32 and under
bf16 autocast, beside the paper's figures and as a share of the arithmetic limit (`--peak` where the
GPU is not in the list).
"""

import argparse
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from ecgbench.models import laef

LAYER_TARGET, LINEAR_TARGET, EMBEDDER_TARGET = 8.0, 2.0, 0.75
PAPER = {1: (9438.2, 384.0), 12: (771.2, 5858.5)}
"""Leads -> samples/s and MB of GPU memory: the paper's table of computational cost, on one A100."""
PEAK = {
    "A100": (19.5, 312.0),
    "H100 PCIe": (51.2, 756.0),
    "H100": (66.9, 989.4),
    "H200": (66.9, 989.4),
}
"""Dense TFLOP/s in fp32 (no TF32) and bf16 by a part of the device's name: NVIDIA's data sheets."""


def machine(device: str) -> str:
    """Name of the device, number of threads and version of torch."""
    if device != "cpu":
        return f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    info = Path("/proc/cpuinfo")
    lines = (
        [
            x.split(":")[1].strip()
            for x in info.read_text().splitlines()
            if x.startswith("model name")
        ]
        if info.exists()
        else []
    )
    return (
        f"{lines[0] if lines else platform.processor() or platform.machine()}, "
        f"{torch.get_num_threads()} threads, torch {torch.__version__}"
    )


def medians(runs: list[Callable[[], object]], repeat: int, device: str) -> list[float]:
    """Median seconds of each run; the runs take turns, so that a busy moment of the machine meets
    all of them.
    """
    taken: list[list[float]] = [[] for _ in runs]
    for turn in range(repeat + 1):
        for run, times in zip(runs, taken):
            started = time.perf_counter()
            run()
            if device != "cpu":
                torch.cuda.synchronize()
            if turn:  # the first turn warms up
                times.append(time.perf_counter() - started)
    return [sorted(times)[len(times) // 2] for times in taken]


def row(title: str, seconds: list[float], batch: int, note: str = "") -> None:
    ours, theirs = (s / batch * 1e3 for s in seconds[:2])
    print(f"  {title:<22}{ours:9.2f}{theirs:11.2f}{theirs / ours:9.1f} x  {note}")


def products(leads: int, device: str) -> Callable[[], object]:
    """The three convolutions between 768 channels as plain products of contiguous matrices."""
    pairs = [
        (torch.randn(leads * rows, depth, device=device), torch.randn(depth, 768, device=device))
        for rows, depth in ((81, 2304), (40, 2304), (20, 1536))
    ]
    return lambda: [a @ b for a, b in pairs]


def throughput(network: laef.Laef, leads: int, half: bool, options: argparse.Namespace) -> None:
    """Samples/s and peak memory of one forward at batch 64 on a GPU."""
    batch = 64
    signal, measured = example(batch, leads, "cuda")

    def run() -> None:
        with torch.inference_mode(), torch.autocast("cuda", torch.bfloat16, enabled=half):
            network(signal, measured)

    run()
    torch.cuda.reset_peak_memory_stats()
    rate = batch / medians([run], options.repeat, "cuda")[0]
    memory = torch.cuda.max_memory_allocated() / 1e6
    known = next(
        (peaks for part, peaks in PEAK.items() if part in torch.cuda.get_device_name()), None
    )
    peak = options.peak or (known and known[half])
    share = (
        f"{rate * gflop(network, leads, 'cuda') / 1e3 / peak:7.1%} of {peak:g} TFLOP/s"
        if peak
        else "  peak unknown (--peak)"
    )
    paper = (
        "paper, A100: {:.1f} samples/s, {:.1f} MB".format(*PAPER[leads]) if leads in PAPER else ""
    )
    print(
        f"  {leads:2} leads {'bf16' if half else 'fp32'}{rate:11.1f} samples/s{memory:9.1f} "
        f"MB{share}  {paper}"
    )


def train_step(network: laef.Laef, signal: Tensor, measured: Tensor) -> None:
    network.zero_grad()
    network(signal, measured).pooled.square().sum().backward()


def example(batch: int, leads: int, device: str) -> tuple[Tensor, Tensor]:
    return torch.rand(batch, leads, 500, device=device) * 2 - 1, torch.ones(
        batch, leads, dtype=torch.bool, device=device
    )


def gflop(network: laef.Laef, leads: int, device: str) -> float:
    # eager: the counter cannot look into what is compiled
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(*example(1, leads, device))
    return float(counter.get_total_flops()) / 1e9


def inference(ours: laef.Laef, theirs: laef.Laef, leads: int, options: argparse.Namespace) -> None:
    batch, device = options.batch, options.device
    signal, measured = example(batch, leads, device)
    layers: list[Any] = [network.blocks[0].attention for network in (ours, theirs)]
    dense = layers[0]
    print(
        f"{leads} leads: GFLOP {gflop(ours, leads, device):.6f} dense, "
        f"{gflop(theirs, leads, device):.6f} reference"
    )

    def timed(*runs: Callable[[], object]) -> list[float]:
        return medians(list(runs), options.repeat, device)

    with torch.inference_mode():
        tokens = ours.embed_leads(signal)
        seconds = timed(
            lambda: ours.embed_leads(signal),
            lambda: theirs.embed_leads(signal),
            products(batch * leads, device),
        )
        row(
            "embedder",
            seconds,
            batch,
            (
                f"{seconds[2] / seconds[0]:.0%} of the rate of plain products (target "
                f"{EMBEDDER_TARGET:.0%})"
            ),
        )
        seconds = timed(
            lambda: dense(tokens),
            lambda: layers[1](tokens),
            lambda: (dense.source(tokens), dense.target(tokens)),
        )
        note = f"(target {LAYER_TARGET:g}) " if leads == 12 else ""
        row(
            "one GATv2 layer",
            seconds,
            batch,
            (
                f"{note}{seconds[0] / seconds[2]:.1f} times its two linear maps (target "
                f"{LINEAR_TARGET:g})"
            ),
        )
        row(
            "both blocks",
            timed(lambda: ours.encode(tokens, measured), lambda: theirs.encode(tokens, measured)),
            batch,
        )
        difference = ours(signal, measured).sequence - theirs(signal, measured).sequence
        note = f"largest difference {float(difference.abs().max()):.1e}"
        row(
            "forward",
            timed(lambda: ours(signal, measured), lambda: theirs(signal, measured)),
            batch,
            note,
        )
    if leads != 2:
        ours.requires_grad_(True)  # the parameters are shared
        row(
            "forward and backward",
            timed(*(lambda n=n: train_step(n, signal, measured) for n in (ours, theirs))),
            batch,
        )
        ours.requires_grad_(False).zero_grad(set_to_none=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--peak", type=float, help="TFLOP/s of the GPU")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    ours = laef.build().eval().requires_grad_(False).to(options.device)
    theirs = laef.reference(ours)
    how = laef.choose_path(ours, laef.REPAID if options.compiled else 0)
    print(
        f"{machine(options.device)}, {how}, batch {options.batch}\n  ms per sample{'':<12}dense  "
        f"reference"
    )
    for leads in (1, 2, 12):
        inference(ours, theirs, leads, options)
    if options.device != "cpu":
        print("batch 64")
        for leads, half in ((n, h) for n in (1, 2, 12) for h in (False, True)):
            throughput(ours, leads, half, options)


if __name__ == "__main__":
    main()
