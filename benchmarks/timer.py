"""The timer of these scripts, and the machine in words."""

import statistics
import time
from collections.abc import Callable, Sequence

import torch

from ecgbench.profile import clock


def machine(device: str = "cpu") -> str:
    """Name of the device, its threads, and the version of torch."""
    about = clock.about(device)
    return f"{about['device']}, torch {about['torch']}"


def medians(runs: Sequence[Callable[[], object]], repeat: int, device: str = "cpu") -> list[float]:
    """Median seconds of each run after one that warms up; the runs take turns, so that a busy
    moment of the machine meets all of them.
    """
    taken: list[list[float]] = [[] for _ in runs]
    for turn in range(repeat + 1):
        for run, times in zip(runs, taken):
            started = time.perf_counter()
            run()
            if device != "cpu":
                torch.cuda.synchronize()
            if turn:
                times.append(time.perf_counter() - started)
    return [statistics.median(times) for times in taken]
