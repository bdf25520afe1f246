"""Free memory of the heap goes back to the system."""

import platform
import subprocess
import sys

import pytest

HOLES = """
import torch
from ecgbench import heap

def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * 4096 / 1e6

blocks = [torch.ones(25_000) for _ in range(3_000)]  # 300 MB in pieces that malloc does not map
del blocks[:-1]  # the last one, at the top of the heap, stays
before = resident()
heap.trim()
print(before - resident())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_holes_go_back_to_the_system() -> None:
    """300 MB of freed tensors below one that stays are no longer this process's afterwards."""
    child = subprocess.run(
        [sys.executable, "-c", HOLES], capture_output=True, text=True, check=True, timeout=120
    )
    assert float(child.stdout) > 200
