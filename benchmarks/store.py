"""A store of 800,000 records: opening it.

`python benchmarks/store.py [--records N] [--files] [--folder DIR]`: a MIMIC-IV-ECG whose list has N
records; those of a part share one recording of zeros. `--files`: also every folder and file that
the list names (minutes). It is opened in a process of its own; beside wall time stands what one
core was busy, for a machine that others use.
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

RECORDS, SAMPLES, PART = 800_000, 5_000, 1_000
TARGET = "target: opening < 1 s"

OPEN = """
import resource, sys, time
from pathlib import Path
from ecgbench.data.prepare import find
from ecgbench.data.source import Source

data = Path(sys.argv[1])
started, busy = time.perf_counter(), time.process_time()
copy = find("mimic_iv_ecg", data, None)
opening, busy = time.perf_counter() - started, time.process_time() - busy
again = time.perf_counter()
source = Source.of("mimic_iv_ecg", data)
again, asked = time.perf_counter() - again, time.perf_counter()
columns = len(copy.index) + len(copy.published)
asked = time.perf_counter() - asked
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(f"opening (find) {opening:.2f} s ({busy:.2f} s busy), Source.of {again:.2f} s; "
      f"reading both indices when they are asked for {asked:.2f} s; peak {peak:.0f} MB")
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
    gain = np.full(12, 1000, "<f4")
    zeros = stored(np.zeros((12, SAMPLES), "<i2"), gain, 500.0)
    about = {"samples": SAMPLES, "fs": 500.0, "available": ALL.bits, "unit": "mV"}
    about |= {"sentences": "[]", **dict.fromkeys(("flat", "found", "fixed", "reason"), "")}
    for number, first in enumerate(range(0, count, PART)):
        names = source.index["record"][first : first + PART]
        work = folder / "part"
        work.mkdir(parents=True)
        (work / DATA).write_bytes(zeros)
        places = {"first": 0, "bytes": len(zeros), "sha256": hashlib.sha256(zeros).hexdigest()}
        rows = {"name": names, **about, "kind": "", "state": "", **places}
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
    print(f"{machine('cpu')}; {options.records:,} records; {TARGET}")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        data = Path(folder) / "data"
        # in a process of its own: what it holds would count as the peak of those that it starts
        maker = multiprocessing.get_context("spawn").Process(
            target=build, args=(data, options.records, options.files)
        )
        maker.start()
        maker.join()
        for _ in range(2):
            done = subprocess.run(
                [sys.executable, "-c", OPEN, str(data)], capture_output=True, text=True
            )
            print(f"  {done.stdout.strip() or done.stderr.strip()}", flush=True)


if __name__ == "__main__":
    main()
