"""A store of 800,000 records: opening it, a shuffled epoch of windows, random windows.

`python benchmarks/store.py [--records N] [--files] [--folder DIR]`: a MIMIC-IV-ECG whose list has N
records; the first 20,000 hold numbers of their own (2.4 GB), the others of a part share one
recording of zeros, so that random windows are copied from the page cache.
`--files`: also every folder and file that the list names (minutes). Each part runs in a process of
its own; beside wall time stands what one core was busy, for a machine that others use.
"""

import argparse
import hashlib
import multiprocessing
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from laef import machine

RECORDS, REAL, SAMPLES, LENGTH, BATCH, PART = 800_000, 20_000, 5_000, 500, 256, 1_000
TARGETS = "targets: opening < 1 s, epoch < 2 GB, >= 20,000 windows/s"

OPEN = """
import resource, sys, time
from pathlib import Path
import numpy as np
from ecgbench.data.prepare import find
from ecgbench.data.source import Source

data, what = Path(sys.argv[1]), sys.argv[2]
started, busy = time.perf_counter(), time.process_time()
copy = find("mimic_iv_ecg", data, None)
opening, busy = time.perf_counter() - started, time.process_time() - busy
rows = np.random.default_rng(0).permutation(len(copy.samples))


def windows(rows):
    starts = np.random.default_rng(len(rows)).integers(0, SAMPLES - LENGTH + 1, len(rows))
    return copy.windows(rows, starts, LENGTH)


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if what == "open":
    again = time.perf_counter()
    source = Source.of("mimic_iv_ecg", data)
    again, asked = time.perf_counter() - again, time.perf_counter()
    columns = len(copy.index) + len(copy.published)
    asked = time.perf_counter() - asked
    print(f"opening (find) {opening:.2f} s ({busy:.2f} s busy), Source.of {again:.2f} s; "
          f"reading both indices when they are asked for {asked:.2f} s; peak {peak():.0f} MB")
elif what == "epoch":
    started, total = time.perf_counter(), 0.0
    for i in range(0, len(rows), BATCH):
        total += float(windows(rows[i : i + BATCH])[0, 0, 0])
    seconds = time.perf_counter() - started
    print(f"one shuffled epoch of {len(rows):,} windows in batches of {BATCH}: {seconds:.0f} s, "
          f"{len(rows) / seconds:,.0f} windows/s, peak {peak():.0f} MB")
else:
    held = rows[rows < REAL]
    rates, busy = [], []
    for turn in range(6):  # the first compares with hashes and fills the page cache
        chosen = np.random.default_rng(turn).permutation(held)
        started, began = time.perf_counter(), time.process_time()
        for i in range(0, len(chosen), BATCH):
            windows(chosen[i : i + BATCH])
        rates.append(len(chosen) / (time.perf_counter() - started))
        busy.append(len(chosen) / (time.process_time() - began))
    print(f"random windows of 12 x {LENGTH} from the page cache: {max(rates[1:]):,.0f} windows/s "
          f"at best ({min(rates[1:]):,.0f} at worst), {np.median(busy[1:]):,.0f} per busy second, "
          f"peak {peak():.0f} MB")
"""


def listed(count: int) -> pd.DataFrame:
    """A record list in the published layout: five studies a patient."""
    study = [f"{40_000_000 + 7 * i}" for i in range(count)]
    subject = [f"{10_000_000 + i // 5}" for i in range(count)]
    path = [f"files/p{p[:4]}/p{p}/s{s}/{s}" for p, s in zip(subject, study)]
    when = "2180-07-23 08:44:00"
    return pd.DataFrame({"subject_id": subject, "study_id": study, "ecg_time": when, "path": path})


def build(data: Path, count: int, files: bool) -> None:
    """The list, perhaps its files, and a finished copy as `prepare` leaves it."""
    from ecgbench.core.files import as_parquet
    from ecgbench.core.parts import DATA, TABLE
    from ecgbench.data.reading import stored
    from ecgbench.data.source import Source, where
    from ecgbench.ecg.leads import ALL

    root = data / "mimic-iv-ecg"
    root.mkdir(parents=True)
    table = listed(count)
    table.to_csv(root / "record_list.csv", index=False)
    for path in table["path"] if files else ():
        (root / path).parent.mkdir(parents=True)
        for suffix in (".hea", ".dat"):
            (root / (path + suffix)).touch()
    started = time.perf_counter()
    source = Source.of("mimic_iv_ecg", data)
    print(
        f"first look at the list{' and every file' if files else ''}: "
        f"{time.perf_counter() - started:.0f} s"
    )
    folder = source.folder(where(None, data))
    draw, gain = np.random.default_rng(0), np.full(12, 1000, "<f4")
    zeros = stored(np.zeros((12, SAMPLES), "<i2"), gain, 500.0)
    empty = hashlib.sha256(zeros).hexdigest()
    about = {"samples": SAMPLES, "fs": 500.0, "available": ALL.bits, "unit": "mV"}
    about |= {"sentences": "[]", **dict.fromkeys(("flat", "found", "fixed", "reason"), "")}
    for number, first in enumerate(range(0, count, PART)):
        names = source.index["record"][first : first + PART]
        proofs, work = [empty] * len(names), folder / "part"
        work.mkdir(parents=True)
        places = {"first": np.zeros(len(names), np.int64), "bytes": len(zeros)}
        with (work / DATA).open("wb") as out:
            for i in range(len(names) if first < REAL else 0):
                steps = draw.integers(-2000, 2000, (12, SAMPLES)).astype("<i2")
                content = stored(steps, gain, 500.0)
                proofs[i], places["first"][i] = hashlib.sha256(content).hexdigest(), out.tell()
                out.write(content)
            if first >= REAL:
                out.write(zeros)
        rows = {"name": names, **about, "kind": "", "state": "", **places, "sha256": proofs}
        table = as_parquet(pd.DataFrame(rows))
        (work / TABLE).write_bytes(table)
        work.rename(folder / f"part-{number:06d}-{hashlib.sha256(table).hexdigest()[:16]}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--files", action="store_true", help="make every file that is listed")
    parser.add_argument("--folder", type=Path, help="where to build it")
    options = parser.parse_args()
    print(f"{machine('cpu')}; {options.records:,} records; {TARGETS}")
    code = f"SAMPLES, LENGTH, BATCH, REAL = {SAMPLES}, {LENGTH}, {BATCH}, {REAL}\n{OPEN}"
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        data = Path(folder) / "data"
        # in a process of its own: what it holds would count as the peak of those that it starts
        maker = multiprocessing.get_context("spawn").Process(
            target=build, args=(data, options.records, options.files)
        )
        maker.start()
        maker.join()
        for what in ("open", "open", "windows", "epoch"):
            done = subprocess.run(
                [sys.executable, "-c", code, str(data), what], capture_output=True, text=True
            )
            print(f"  {done.stdout.strip() or done.stderr.strip()}", flush=True)


if __name__ == "__main__":
    main()
