"""Debiased linear CKA of many records: time and memory.

`python benchmarks/cka.py [--records 20000]`: features of 768 and 1,024 dimensions. The target is
less than 5 s on two cores, in memory of the matrices and d x e. The bound is arithmetic: three
products of (d, records) and (records, e).
"""

import argparse
import resource
import time

import numpy as np

from ecgbench.stats.cka import cka

DIMENSIONS = 768, 1024
TARGET = 5.0


def main() -> None:
    """Print seconds, the arithmetic that took them, and the peak of memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=20_000)
    records = parser.parse_args().records
    random = np.random.default_rng(0)
    x, y = (random.normal(size=(records, d)).astype(np.float32) for d in DIMENSIONS)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    value = cka(x, y)
    took = time.perf_counter() - started
    d, e = DIMENSIONS
    flop = 2 * records * (d * d + e * e + d * e)
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e6
    print(f"{records:,} records, {d} x {e}: CKA {value:.4f} in {took:.2f} s (target {TARGET:g} s)")
    print(f"{flop / took / 1e9:.0f} GFLOP/s; {peak:.2f} GB more than the features")


if __name__ == "__main__":
    main()
