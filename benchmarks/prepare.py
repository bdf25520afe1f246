"""Preparing PTB-XL from its native files, each size in a fresh process: wall time and peak resident
memory.

`python benchmarks/prepare.py --data DIR` (or ECGBENCH_REAL_DATA or ECGBENCH_DATA; DIR/ptbxl as
published). 500, 1,000 and 2,000 records are the first of the index; the recordings themselves are
linked, not copied. Files that were read a moment ago come from the system's cache, so the first
size also pays for a cold disk.
"""

import argparse
import csv
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SIZES = (500, 1000, 2000)
TARGET, GROWTH = 60.0, 12.0
"""Seconds for the largest size; KiB by which each further record may raise the peak: its line of
the index, and no tenth of its signal.
"""
TABLES = ("ptbxl_database.csv", "scp_statements.csv")

CHILD = """
import sys, time
from pathlib import Path

from ecgbench.data.prepare import prepare

started = time.perf_counter()
copy = prepare("ptbxl", Path(sys.argv[1]), Path(sys.argv[2]))
seconds = time.perf_counter() - started
lines = Path("/proc/self/status").read_text().splitlines()
peak = next(int(x.split()[1]) for x in lines if x.startswith("VmHWM"))
print(len(copy.index), len(copy.quarantined), seconds, peak / 1024)
"""


def reduced(root: Path, to: Path, count: int) -> None:
    """A folder like `root` whose index has the first `count` rows."""
    to.mkdir()
    (to / "records500").symlink_to((root / "records500").resolve())
    (to / TABLES[1]).symlink_to((root / TABLES[1]).resolve())
    with (
        (root / TABLES[0]).open(newline="", encoding="utf-8") as whole,
        (to / TABLES[0]).open("w", newline="", encoding="utf-8") as part,
    ):
        for _, line in zip(range(count + 1), csv.reader(whole)):
            csv.writer(part, lineterminator="\n").writerow(line)


def measure(root: Path, count: int) -> tuple[int, int, float, float]:
    """Records kept and quarantined, seconds, and peak MiB, of one size in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        data.mkdir()
        reduced(root, data / "ptbxl", count)
        command = [sys.executable, "-c", CHILD, str(data), str(Path(folder) / "prepared")]
        kept, lost, seconds, peak = subprocess.run(
            command, check=True, capture_output=True, text=True
        ).stdout.split()
    return int(kept), int(lost), float(seconds), float(peak)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder that holds ptbxl/")
    named = [
        parser.parse_args().data,
        *map(os.environ.get, ("ECGBENCH_REAL_DATA", "ECGBENCH_DATA")),
    ]
    data = next(
        (
            Path(d)
            for d in named
            if d and all((Path(d) / "ptbxl" / n).exists() for n in (*TABLES, "records500"))
        ),
        None,
    )
    if data is None:
        print("skipped: no folder with ptbxl/records500/ is named by --data or ECGBENCH_DATA")
        return
    peaks: list[float] = []
    for count in SIZES:
        kept, lost, seconds, peak = measure(data / "ptbxl", count)
        peaks.append(peak)
        print(
            f"{kept + lost} records ({lost} quarantined): {seconds:.1f} s, "
            f"{1e3 * seconds / count:.1f} ms each, peak {peak:.0f} MiB"
        )
    print(f"target for {SIZES[-1]} records: <= {TARGET:g} s")
    growth = 1024 * (peaks[-1] - peaks[0]) / (SIZES[-1] - SIZES[0])
    print(
        f"peak memory grows by {growth:.1f} KiB a record (target <= {GROWTH:g}; the signal of one "
        f"record takes 117)"
    )


if __name__ == "__main__":
    main()
