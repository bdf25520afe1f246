"""Peak resident memory of LAEF beside LAEF by torch's convolutions and torch_geometric's GATv2Conv,
each in a fresh process.

`python benchmarks/laef_memory.py`: one forward at 12 leads without gradients. "peak" is the most
the whole process ever held (ru_maxrss, with Python, torch and the weights); "forward" what the
forward added to what it held just before.
"""

import argparse
import resource
import subprocess
import sys
from pathlib import Path

TARGET = 1 / 3
MB = 1e6


def resident() -> float:
    """Bytes resident now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def measure(which: str, batch: int, leads: int, threads: int) -> None:
    """Print bytes held before a forward and at the peak of this process."""
    import torch

    from ecgbench.models import laef

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    network = laef.build().eval().requires_grad_(False)
    network = network if which == "dense" else laef.reference(network)
    signal, measured = (
        torch.rand(batch, leads, 500) * 2 - 1,
        torch.ones(batch, leads, dtype=torch.bool),
    )
    before = resident()
    with torch.inference_mode():
        network(signal, measured)
    print(before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def fresh(which: str, batch: int, options: argparse.Namespace) -> tuple[float, float]:
    """Median bytes before the forward and at the peak, of fresh processes."""
    command = [
        sys.executable,
        __file__,
        "--one",
        which,
        "--batches",
        batch,
        "--leads",
        options.leads,
        "--threads",
        options.threads,
    ]
    measured = []
    for _ in range(options.repeat):
        text = subprocess.run(
            [str(x) for x in command], check=True, capture_output=True, text=True
        ).stdout
        measured.append(tuple(float(x) for x in text.split()))
    before, peak = (sorted(x)[len(measured) // 2] for x in zip(*measured))
    return before, peak


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batches", type=int, nargs="+", default=[8, 64])
    parser.add_argument("--leads", type=int, default=12)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--one", choices=("dense", "reference"), help="measure in this process")
    options = parser.parse_args()
    if options.one:
        measure(options.one, options.batches[0], options.leads, options.threads)
        return
    print(
        f"MB, {options.leads} leads, {options.threads} threads\n  {'':<10}{'':<12}before   "
        f"forward      peak"
    )
    for batch in options.batches:
        measured = {which: fresh(which, batch, options) for which in ("dense", "reference")}
        for which, (before, peak) in measured.items():
            print(
                f"  {f'batch {batch}':<10}{which:<12}{before / MB:6.0f}"
                f"{(peak - before) / MB:10.0f}{peak / MB:10.0f}"
            )
        (ours_before, ours), (their_before, theirs) = measured.values()
        growth = (ours - ours_before) / (theirs - their_before)
        print(f"  {'':<10}{'share':<18}{growth:10.2f}{ours / theirs:10.2f}  (target {TARGET:.2f})")


if __name__ == "__main__":
    main()
