"""A corpus of 1,000,000 windows: packing it, and batches of pre-training from it.

`python benchmarks/stream.py [--windows N] [--folder DIR]`: recordings of 5 s (12 x 500 float16,
12 kB; 12 GB in all) are packed by the project's own code, filters left out, and read in batches of
448 in the order of pre-training, in this process: cold, each compared with its hash; cold again;
from memory; and with masks as a step receives them. Cold means that the system was asked to forget
the files (posix_fadvise); the machine's own cache of its disk, if it has one, is not emptied.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from timer import machine

from ecgbench.data.views import View
from ecgbench.ecg.leads import ALL
from ecgbench.models import laef
from ecgbench.pretrain.batches import Batches
from ecgbench.pretrain.corpus import Corpus, gather
from ecgbench.pretrain.exclusion import LeakCheck

WINDOWS, BATCH, POOL, SEED = 1_000_000, 448, 64, 0
RATE = 30_000
"""Target: windows/s with masks, two threads on two idle cores."""
CONTRACT = laef.CARD.contracts[0]


def copy(folder: Path, windows: int) -> Any:
    """What the corpus asks of a prepared copy, of noise."""
    records = [f"w{i:07}" for i in range(windows)]
    rows = {record: i for i, record in enumerate(records)}
    table = {"record": records, "sha256": records, "fs": CONTRACT.fs, "split": "train"}
    index = pd.DataFrame(table | {"available": ALL.bits})
    samples = np.full(windows, CONTRACT.samples)
    return SimpleNamespace(
        name="synthetic", folder=folder, index=index, samples=samples, row=rows.__getitem__
    )


def noise(view: View, record: str) -> np.ndarray:
    """A window of its own for each record, in place of a filtered recording."""
    return np.roll(_POOL[int(record[1:]) % POOL], int(record[1:]) // POOL, axis=1)


_POOL = np.random.default_rng(SEED).uniform(-1, 1, (POOL, 12, CONTRACT.samples)).astype(np.float32)


def forget(folder: Path) -> None:
    for file in folder.rglob("data"):
        with file.open("rb") as handle:
            os.posix_fadvise(handle.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def passed(corpus: Corpus, epoch: int) -> str:
    """A pass over the corpus without masks."""
    started, busy, windows = time.perf_counter(), time.process_time(), len(corpus)
    for first in range(0, windows - BATCH + 1, BATCH):
        rows = corpus.shuffled(first, first + BATCH, "pre-training order", 0, epoch)
        corpus.cut(rows, corpus.starts(rows, "start", first))
    seconds, busy = time.perf_counter() - started, time.process_time() - busy
    return f"{windows / seconds:,.0f} windows/s ({seconds:.1f} s, {busy:.1f} s busy); {memory()}"


def masked(corpus: Corpus, threads: int, steps: int = 400) -> float:
    """Windows/s as a step receives them."""
    made = Batches(
        corpus=corpus, seed=5, batch=BATCH, micro=BATCH, ratio=0.4, edge_drop=0.2, threads=threads
    )
    started = time.perf_counter()
    for _ in made.between(0, steps):
        pass
    return steps * BATCH / (time.perf_counter() - started)


def memory() -> str:
    """Of this process: its own, and files that it has mapped."""
    lines = Path("/proc/self/status").read_text().splitlines()
    own, mapped = (next(line.split()[1] for line in lines if n in line) for n in ("Anon", "File"))
    return f"{int(own) / 1e3:,.0f} MB of its own, {int(mapped) / 1e3:,.0f} MB mapped"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--windows", type=int, default=WINDOWS)
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    View.get = noise  # type: ignore[method-assign, assignment]
    print(machine())
    with tempfile.TemporaryDirectory(dir=asked.folder) as place:
        prepared = copy(Path(place), asked.windows)
        check, started = LeakCheck.of([prepared]), time.perf_counter()
        corpus = gather([prepared], check, CONTRACT)
        print(f"packing: {asked.windows / (time.perf_counter() - started):,.0f} windows/s")
        forget(prepared.folder)
        print(f"first pass, cold, each recording hashed: {passed(corpus, 0)}")
        forget(prepared.folder)
        print(f"second pass, cold: {passed(corpus, 1)}")
        print(f"third pass, warm: {passed(corpus, 2)}")
        rates = [masked(corpus, threads) for threads in (1, 2)]
        print(f"with masks: one thread {rates[0]:,.0f} windows/s, two {rates[1]:,.0f}")
    return int(max(rates) < RATE)


if __name__ == "__main__":
    sys.exit(main())
