"""How long a person waits for help and lists: wall time of each command as a process of its own.

`python benchmarks/startup.py`: the median of 7 after one to warm up, and whether torch was loaded,
which costs most.
"""

import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

COMMANDS = ("--help", "list models", "list tasks", "list reports", "run --help")
REPEATS, TARGET = 7, 0.5

PROGRAM = """
import sys

sys.argv[0] = "ecgbench"
from ecgbench.cli import main

try:
    main()
finally:
    sys.stderr.write(str("torch" in sys.modules))
"""


def program() -> str:
    """The command beside this interpreter, as a person would find it."""
    beside = Path(sys.executable).with_name("ecgbench")
    return str(beside) if beside.exists() else shutil.which("ecgbench") or "ecgbench"


def seconds(command: list[str]) -> float:
    """Median wall time of a command."""
    taken = []
    for turn in range(REPEATS + 1):
        started = time.perf_counter()
        subprocess.run([program(), *command], check=True, capture_output=True)
        if turn:
            taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def loads_torch(command: list[str]) -> bool:
    """Whether a command imports torch."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *command], capture_output=True, text=True, check=False
    ).stderr.endswith("True")


if __name__ == "__main__":
    print(
        f"{os.cpu_count()} cores, Python {sys.version.split()[0]}; median of {REPEATS}, target < "
        f"{TARGET:g} s each"
    )
    for command in COMMANDS:
        note = ", loads torch" if loads_torch(command.split()) else ""
        print(f"  ecgbench {command:<12}{seconds(command.split()):6.2f} s{note}")
