"""A streamed corpus of 1,000,000 windows: packing it, a pass with cold and with warm page cache.

`python benchmarks/stream.py [--windows N] [--folder DIR]`: recordings of 5 s (12 x 500 float16,
12 kB; 12 GB in all) are packed into shards by the project's own code, and read in batches of 448 in
the order of pre-training. Reading runs in a process of its own, whose anonymous and mapped memory
is looked at every 20 ms. Beside it: a plain sequential read of the same files, batches with their
masks as the training loop receives them, and cuts from a corpus in memory in the same process. Cold
means that the system was asked to forget the files (posix_fadvise); the machine's own cache of its
disk, if it has one, is not emptied by that.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from laef import machine

WINDOWS, SAMPLES, POOL, SEED = 1_000_000, 500, 64, 0
RATE, MEMORY = 5_000, 2e9
"""Targets: windows/s, and bytes of a process that reads, mapped ones too."""

READ = """
import os, sys, threading, time
from pathlib import Path
import numpy as np
import pandas as pd
from ecgbench.models import laef
from ecgbench.pretraining.batches import Batches
from ecgbench.pretraining.corpus import Corpus
from ecgbench.pretraining.guard import Guard, Name
from ecgbench.pretraining.shards import opened
from ecgbench.pretraining.streamed import Streamed

BATCH, BESIDE = 448, 50_000
folder, count = Path(sys.argv[1]), int(sys.argv[2])
peak = {"RssAnon": 0, "RssFile": 0, "VmRSS": 0}


def watch():
    while True:
        for line in open("/proc/self/status"):
            name, _, rest = line.partition(":")
            if name in peak:
                peak[name] = max(peak[name], int(rest.split()[0]) * 1024)
        time.sleep(0.02)


def memory():
    anonymous, mapped, whole = (peak[n] / 1e6 for n in ("RssAnon", "RssFile", "VmRSS"))
    return f"peak memory {whole:.0f} MB ({anonymous:.0f} anonymous, {mapped:.0f} mapped)"


def forget():
    for file in folder.iterdir():
        with file.open("rb") as handle:
            os.posix_fadvise(handle.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def plain():
    started, total = time.perf_counter(), 0
    buffer = bytearray(2**20)
    for file in sorted(folder.glob("shard-*.f16")):
        with file.open("rb", buffering=0) as handle:
            while n := handle.readinto(buffer):
                total += n
    return total / 1e6 / (time.perf_counter() - started)


def passed(corpus, epoch, windows):
    started, busy, total = time.perf_counter(), time.process_time(), 0.0
    for first in range(0, windows - BATCH + 1, BATCH):
        rows = corpus.shuffled(first, first + BATCH, "pre-training order", 0, epoch)
        total += float(corpus.cut(rows, corpus.starts(rows, "start", first))[0, 0, 0])
    seconds, busy = time.perf_counter() - started, time.process_time() - busy
    rate = windows // BATCH * BATCH / seconds
    spent = f"{seconds:.1f} s, {busy:.1f} s busy"
    return rate, f"{rate:,.0f} windows/s, {12e-3 * rate:,.0f} MB/s ({spent})"


def batches(corpus, threads, steps=400):
    made = Batches(
        corpus=corpus, seed=5, batch=BATCH, micro=BATCH, ratio=0.4, edge_drop=0.2, threads=threads
    )
    started = time.perf_counter()
    for pieces in made.between(0, steps):
        pass
    return f"{steps * BATCH / (time.perf_counter() - started):,.0f} windows/s"


threading.Thread(target=watch, daemon=True).start()
started = time.perf_counter()
guard = Guard({"synthetic": pd.array([f"w{i:07}" for i in range(count)], dtype="str")}, {})
given = time.perf_counter()
corpus = Streamed(opened(folder, "synthetic"), guard)
print(
    f"opening, hashes of the tables, the guard of {count:,} names: "
    f"{time.perf_counter() - given:.1f} s; {memory()}"
)
forget()
print(f"plain sequential read, cold: {plain():,.0f} MB/s, warm: {plain():,.0f} MB/s")
forget()
cold, said = passed(corpus, 0, count)
print(f"first pass, cold, every block compared with its sha256: {said}; {memory()}")
forget()
print(f"second pass, cold: {passed(corpus, 1, count)[1]}")
warm, said = passed(corpus, 2, count)
print(f"third pass, warm: {said}; {memory()}")
fits = peak["VmRSS"] < float(sys.argv[4])
for threads in (1, 2):
    print(f"with masks, as a step receives them, {threads} threads: {batches(corpus, threads)}")
names = [Name("synthetic", f"w{i:07}") for i in range(min(BESIDE, count))]
noise = np.random.default_rng(0).uniform(-1, 1, (12, 500)).astype(np.float16)
contract = laef.CARD.contracts[0]
held = Corpus(guard, dict.fromkeys(names, 500), lambda name: noise, contract=contract)
passed(held, 0, len(names))
print(f"in memory, {len(names):,} recordings, beside it: {passed(held, 1, len(names))[1]}")
sys.exit(not (fits and min(cold, warm) >= float(sys.argv[3])))
"""


def pack(folder: Path, windows: int) -> None:
    """Write the synthetic corpus and print how long that takes."""
    from ecgbench.pretraining.guard import Guard
    from ecgbench.pretraining.shards import Source
    from ecgbench.pretraining.shards import pack as written

    pool = np.random.default_rng(SEED).uniform(-1, 1, (POOL, 12, SAMPLES + POOL))
    pool = pool.astype(np.float16)

    def read(row: int) -> np.ndarray:
        shift = row // POOL % POOL
        return pool[row % POOL, :, shift : shift + SAMPLES]

    records = [f"w{i:07}" for i in range(windows)]
    names = pa.table({"dataset": pa.array(["synthetic"] * windows), "record": pa.array(records)})
    source = Source(
        names=names,
        lengths=np.full(windows, SAMPLES),
        read=read,
        about={"samples": SAMPLES, "too_short": 0, "left_out": {}},
    )
    started = time.perf_counter()
    shards = written(source, Guard({"synthetic": records}, {}), folder, "synthetic")
    seconds = time.perf_counter() - started
    print(
        f"packing {windows:,} windows, {shards.size / 1e9:.1f} GB in "
        f"{len(shards.index['shards'])} shards: {seconds:.0f} s, {windows / seconds:,.0f} a second "
        f"on {len(os.sched_getaffinity(0))} cores, {shards.size / 1e6 / seconds:,.0f} MB/s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--windows", type=int, default=WINDOWS)
    parser.add_argument("--folder", type=Path, help="where the shards are written, and removed")
    options = parser.parse_args()
    print(f"{machine('cpu')}; targets: >= {RATE:,} windows/s, < {MEMORY / 1e9:.0f} GB")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        pack(Path(folder) / "shards", options.windows)
        words = [str(Path(folder) / "shards"), str(options.windows), str(RATE), str(MEMORY)]
        sys.exit(subprocess.run([sys.executable, "-c", READ, *words], check=False).returncode)


if __name__ == "__main__":
    main()
