"""Segment descriptors and codes as they are made beside a loop over windows, in one process.

`python benchmarks/descriptors.py`: windows (5 s, 12 leads, 240 segments) per second of every
preset. Beside MFCC, librosa's in three loops: a call per segment, as the public recipe of
HuBERT-ECG calls torchaudio's; a call per lead; a call per window of all leads at once. Beside the
16 time-frequency values, numpy and scipy per segment. Then the assignment of codes to descriptors,
and to nodes of LAEF's first block. One thread.
"""

import argparse
import warnings
from collections.abc import Callable

import numpy as np
import torch
from scipy.stats import kurtosis, skew
from timer import machine, medians
from torch import Tensor

from ecgbench.models import laef
from ecgbench.pretrain.codebook import Nodes, fit
from ecgbench.pretrain.descriptors import PRESETS, SAMPLES, Descriptor

TARGET = 100
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


def descriptors(windows: Tensor, repeat: int) -> None:
    """Print the rates of all presets."""
    print(f"\n  {'descriptors':<18}{'windows/s':>10}   beside")
    plain = windows.numpy()
    for name, described in PRESETS.items():
        beside = loops(described, plain) if len(described.parts) == 1 else {}
        runs = [lambda d=described: d(windows), *(run for _, run in beside.values())]
        taken = medians(runs, repeat)
        ours = taken[0] / len(windows)
        print(f"  {name:<18}{1 / ours:10.0f}")
        for (title, (count, _)), seconds in zip(beside.items(), taken[1:]):
            theirs = seconds / count
            goal = f"   (target {TARGET})" if "per segment" in title else ""
            print(f"{'':31}{title:<34}{1 / theirs:9.1f} windows/s{theirs / ours:9.0f} x{goal}")


def codes(vectors: Tensor, size: int, repeat: int) -> None:
    """Print the rate of the assignment of so many codes to vectors (window, lead, segment, dim)."""
    book = fit([vectors], (size,), seed=0, facts={})[size]
    (seconds,) = medians([lambda: book.assign(vectors)], repeat)
    print(f"  {vectors.shape[-1]} values: {size} codes {len(vectors) / seconds:10.0f} windows/s")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--windows", type=int, default=200, help="windows of one batch")
    parser.add_argument("--latents", type=int, default=16, help="windows that LAEF reads")
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    # the five of `mfcc-paper`: librosa tells of them too
    warnings.filterwarnings("ignore", "Empty filters detected")
    print(f"{machine()}; batches of {options.windows} windows of 12 leads")
    shape = (options.windows, 12, 500)
    walk = torch.randn(shape).cumsum(-1) + 0.1 * torch.randn(shape)
    low, high = walk.aminmax(dim=-1, keepdim=True)
    windows = 2 * (walk - low) / (high - low) - 1
    descriptors(windows, options.repeat)
    codes(PRESETS["mixed-ecg"](windows), 50, options.repeat)
    nodes = Nodes(laef.build().eval().requires_grad_(False))
    codes(nodes(windows[: options.latents]), 500, options.repeat)


if __name__ == "__main__":
    main()
