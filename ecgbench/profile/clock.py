"""Time and memory of what runs on a device, and the device's name."""

import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import torch

from ecgbench.core.machine import cpu
from ecgbench.core.text import counted
from ecgbench.errors import BadSetting

MB = 1e6
WARM, FEWEST, MOST, SECONDS = 3, 5, 200, 3.0
"""Passes before the timed ones; timed passes: at least, at most, and the seconds after which no
further one begins.
"""


def ready(device: str) -> None:
    """BadSetting where there is no such device; float32 means float32 afterwards."""
    if device == "cpu":
        return
    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if int(device.partition(":")[2] or 0) >= there:
        raise BadSetting(
            f"--device {device}: torch finds {counted(there, 'CUDA device')} here; use --device cpu"
        )
    torch.cuda.set_device(device if ":" in device else "cuda:0")
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False


def about(device: str) -> dict[str, Any]:
    """device (its name, with the threads of a CPU), torch (its version)."""
    if device == "cpu":
        name = f"{cpu()}, {counted(torch.get_num_threads(), 'thread')}"
    else:
        name = torch.cuda.get_device_name(device)
    return {"device": name, "torch": str(torch.__version__)}


def milliseconds(run: Callable[[], object], device: str, seconds: float = SECONDS) -> float:
    """Median of repeated passes after some that warm up, by CUDA events on a GPU; no further one
    begins after `seconds`.
    """
    spent: list[float] = []
    with torch.inference_mode():
        for _ in range(WARM):
            run()
        begun = time.perf_counter()
        while len(spent) < FEWEST or (len(spent) < MOST and time.perf_counter() - begun < seconds):
            spent.append(_pass(run, device))
    return statistics.median(spent)


def _pass(run: Callable[[], object], device: str) -> float:
    if device == "cpu":
        started = time.perf_counter()
        run()
        return 1000 * (time.perf_counter() - started)
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    run()
    last.record()
    torch.cuda.synchronize()
    return float(first.elapsed_time(last))


def resident(device: str) -> float:
    """Bytes that the process holds before the network is built, once torch's libraries are
    loaded.
    """
    if device != "cpu":
        return 0.0
    with torch.inference_mode():
        convolved = torch.nn.functional.conv1d(torch.ones(1, 16, 64), torch.ones(16, 16, 3))
        convolved.flatten(1) @ torch.ones(992, 64)
    return float(psutil.Process().memory_info().rss)


def peak(run: Callable[[], object], device: str, before: float) -> float | None:
    """MB that weights, input and one pass hold at most: allocated on a GPU, resident beyond
    `before` on a CPU; None where the system does not say.
    """
    with torch.inference_mode():
        if device != "cpu":
            torch.cuda.reset_peak_memory_stats()
            run()
            torch.cuda.synchronize()
            return torch.cuda.max_memory_allocated() / MB
        try:
            # the peak starts anew: building the network has one of its own
            Path("/proc/self/clear_refs").write_text("5")
        except OSError:
            return None
        run()
        # not getrusage's: that is never reset, and begins with what the parent process held
        status = Path("/proc/self/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return (1024 * int(found[1]) - before) / MB if found else None
