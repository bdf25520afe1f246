"""Segment descriptors and codebooks as they run beside a loop over windows, in one process, and how
long 9.2 M ECGs would take.

`python benchmarks/descriptors.py`: windows (5 s, 12 leads, 240 segments) per second of every
preset. Beside MFCC, librosa's in three loops: a call per segment, as the public recipe of
HuBERT-ECG calls torchaudio's; a call per lead; a call per window of all leads at once. Beside the
16 time-frequency values, numpy and scipy per segment. Then the fit of codebooks, the assignment of
codes, and the nodes of LAEF's first block, which the second codebook is fitted on; from these both
steps for the paper's pre-training set, one window per ECG as there. One thread unless `--threads`
says otherwise; `--device cuda` runs ours on a GPU.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import torch
from laef import machine, medians
from scipy.stats import kurtosis, skew
from torch import Tensor

from ecgbench.models import laef
from ecgbench.pretrain.codebook import fit
from ecgbench.pretrain.descriptors import PRESETS, SAMPLES, Descriptor

TARGET, ECGS, MONTH = 100, 9.2e6, 30 * 24
FIRST, SECOND = (50, 70, 100), (500, 1000, 1500)
"""Codebook sizes that the paper fits in its two stages."""
POVEY = np.hanning(SAMPLES) ** 0.85


def loop_over(windows: np.ndarray, low: float, high: float, fft: int) -> None:
    """librosa's MFCC of each array along the first axis: segments, leads or windows; the same
    filters, DCT and lifter as ours.
    """
    from librosa.feature import mfcc

    for x in windows:
        mfcc(
            y=x,
            sr=100,
            n_mfcc=13,
            lifter=22,
            n_fft=fft,
            win_length=SAMPLES,
            window=POVEY,
            hop_length=SAMPLES,
            center=False,
            n_mels=23,
            fmin=low,
            fmax=high,
            htk=True,
            norm=None,
        )


def padded(x: np.ndarray, fft: int) -> np.ndarray:
    """librosa wants as many samples as its FFT has: zeros behind the last segment."""
    return np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, fft - SAMPLES)])


def time_frequency(segments: np.ndarray) -> None:
    for x in segments:
        s, rms, peak = np.abs(np.fft.fft(x) ** 2) / len(x), np.sqrt((x**2).mean()), np.abs(x).max()
        wave = (
            x.min(),
            x.max(),
            x.mean(),
            rms,
            x.var(),
            x.std(),
            (x**2).mean(),
            peak,
            np.ptp(x),
            peak / rms,
            skew(x),
            kurtosis(x),
        )
        np.array([*wave, s.max(), s.sum(), s.mean(), s.var()])


def loops(
    described: Descriptor, windows: np.ndarray
) -> dict[str, tuple[int, Callable[[], object]]]:
    """Title -> number of windows and the loop over them."""
    part = described.parts[0]
    segments = windows[0].reshape(-1, SAMPLES)
    if part.kind == "time-frequency":
        return {"numpy and scipy, per segment": (1, lambda: time_frequency(segments))}
    options = (part.low, part.high, part.fft)  # type: ignore[union-attr]
    each, leads, whole = (
        padded(segments, part.fft),
        padded(windows[:4].reshape(-1, 500), part.fft),
        padded(windows[:16], part.fft),
    )  # type: ignore[union-attr]
    return {
        "librosa, per segment": (1, lambda: loop_over(each, *options)),
        "librosa, per lead": (4, lambda: loop_over(leads, *options)),
        "librosa, per window of 12 leads": (16, lambda: loop_over(whole, *options)),
    }


def descriptors(windows: Tensor, options: argparse.Namespace) -> tuple[float, float]:
    """Prints the rates of all presets; returns seconds a window of the slowest, and of librosa's
    loop over segments.
    """
    print(f"\n  {'descriptors':<18}{'windows/s':>10}   beside")
    plain, slowest, slow_loop = windows.cpu().numpy(), 0.0, 0.0
    for name, described in PRESETS.items():
        beside = loops(described, plain) if len(described.parts) == 1 else {}
        taken = medians(
            [lambda d=described: d(windows), *(run for _, run in beside.values())],
            options.repeat,
            options.device,
        )  # type: ignore[misc]
        ours = taken[0] / len(windows)
        slowest = max(slowest, ours)
        print(f"  {name:<18}{1 / ours:10.0f}")
        for (title, (count, _)), seconds in zip(beside.items(), taken[1:]):
            theirs = seconds / count
            slow_loop = theirs if title == "librosa, per segment" else slow_loop
            goal = f"   (target {TARGET})" if "per segment" in title else ""
            print(f"{'':31}{title:<34}{1 / theirs:9.1f} windows/s{theirs / ours:9.0f} x{goal}")
    return slowest, slow_loop


def codebooks(vectors: Tensor, sizes: tuple[int, ...], options: argparse.Namespace) -> float:
    """Prints rates over vectors (window, lead, segment, dim); returns seconds a window of one step
    of the fit of all sizes.
    """
    started: list[float] = []

    def stream() -> Iterator[Tensor]:
        for _ in range(options.repeat + 1):
            started.append(time.perf_counter())
            yield vectors
        started.append(time.perf_counter())

    books = fit(stream(), sizes, seed=0, facts={})
    first, *steps = np.diff(started)  # the first step chooses the first centres too, once
    step, dim = float(np.median(steps)) / len(vectors), vectors.shape[-1]
    print(
        f"\n  {dim} values: fit of {', '.join(map(str, sizes))} codes at once{1 / step:10.0f} "
        f"windows/s (first step {first:.1f} s)"
    )
    for size, seconds in zip(
        sizes,
        medians(
            [lambda b=b: b.assign(vectors) for b in books.values()], options.repeat, options.device
        ),
    ):  # type: ignore[misc]
        print(f"  {dim} values: codes of {size:<24}{len(vectors) / seconds:10.0f} windows/s")
    return step


def nodes(windows: Tensor, options: argparse.Namespace) -> tuple[Tensor, float]:
    """Nodes after LAEF's first block, random weights, (window, lead, segment, 768), and seconds a
    window.
    """
    network = laef.build().eval().requires_grad_(False).to(options.device)
    few = windows[: options.latents]

    def run() -> Tensor:
        with torch.inference_mode():
            parts = [
                network.blocks[0](network.embed_leads(part))
                for part in few.split(8 if options.device == "cpu" else 64)
            ]
        return torch.cat(parts)

    seconds = medians([run], 3, options.device)[0] / len(few)
    print(f"\n  nodes of LAEF's first block {1 / seconds:10.1f} windows/s")
    return run().clone(), seconds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--windows", type=int, default=200, help="windows of one batch")
    parser.add_argument("--latents", type=int, default=16, help="windows that LAEF reads")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    # the five of `mfcc-paper`: librosa tells of them too
    warnings.filterwarnings("ignore", "Empty filters detected")
    print(
        f"{machine(options.device)}; loops on the CPU, {options.threads} threads of torch; "
        f"batches of {options.windows} windows of 12 leads"
    )
    walk = torch.randn(options.windows, 12, 500).cumsum(-1) + 0.1 * torch.randn(
        options.windows, 12, 500
    )
    low, high = walk.aminmax(dim=-1, keepdim=True)
    windows = (2 * (walk - low) / (high - low) - 1).to(options.device)
    describing, slow_loop = descriptors(windows, options)
    clustering = codebooks(PRESETS["mixed-ecg"](windows), FIRST, options)
    latent, reading = nodes(windows, options)
    refining = codebooks(latent, SECOND, options)
    print(
        f"\n  {ECGS / 1e6:g} M ECGs of 12 leads, 5 s each, at these rates (the paper: about a "
        f"month, {MONTH} h, for each of the two steps)"
    )
    for title, seconds in (
        ("librosa's loop over segments", slow_loop),
        ("descriptors, slowest preset", describing),
        (f"codebooks {FIRST}, one pass", clustering),
        ("nodes of LAEF's first block", reading),
        (f"codebooks {SECOND}, one pass", refining),
    ):
        hours = seconds * ECGS / 3600
        print(f"  {title:<38}{hours:10.2f} h   {MONTH / hours:10.1f} times as fast as a month")


if __name__ == "__main__":
    main()
