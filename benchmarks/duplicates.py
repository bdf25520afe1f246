"""How often `ecgbench data duplicates` errs and misses, on genuine recordings, and what it takes.

`python benchmarks/duplicates.py --data DIR` (or ECGBENCH_REAL_DATA or ECGBENCH_DATA; DIR/ptbxl as
published, of which all records that are there are used). False matches: of all pairs of different
records, and of those of one patient. Hits: of each record an altered copy, looked for among the
copies of all. Time of the join for 100,000 records: their hashes are put together from the times
and shapes of genuine beats, so that hashes are as common as they are in PTB-XL.

Exit 1 where a false match is found, or fewer than 98 % of the copies of any kind.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Sequence

import numpy as np
from genuine import arguments, copy_of
from laef import machine
from scipy.signal import butter, resample_poly, sosfilt

from ecgbench.data.copy import Copy
from ecgbench.data.duplicates import BYTES, CONFIRMED, Table, candidates, confirmed
from ecgbench.ecg.fingerprint import LENGTH, Fingerprint, agreement, fingerprint

ENOUGH = 0.98
LARGE, NEAR = 100_000, 5
Altered = Callable[[np.ndarray, float], tuple[np.ndarray, float]]


def shifted(seconds: float) -> Altered:
    """Begins later."""
    return lambda signal, fs: (signal[:, round(seconds * fs) :], fs)


def high_passed(signal: np.ndarray, fs: float) -> tuple[np.ndarray, float]:
    """0.5 Hz, second order, forwards only, as a recorder filters."""
    return sosfilt(butter(2, 0.5, "highpass", fs=fs, output="sos"), signal, axis=1), fs


def rounded(signal: np.ndarray, fs: float) -> tuple[np.ndarray, float]:
    """The record's largest value becomes that of 16 bits."""
    return np.rint(signal / np.abs(signal).max() * (2**15 - 1)), fs


def everything(signal: np.ndarray, fs: float) -> tuple[np.ndarray, float]:
    """Cut by 3 s, at 400 Hz, high-passed, in whole uV."""
    cut = resample_poly(signal[:, round(3 * fs) :], 4, 5, axis=1)
    return np.rint(1000 * high_passed(cut, 400.0)[0]), 400.0


ALTERED: dict[str, Altered] = {
    "0.5 s later": shifted(0.5),
    "1.513 s later": shifted(1.513),
    "3 s later": shifted(3.0),
    "500 to 400 to 500 Hz": lambda x, fs: (
        resample_poly(resample_poly(x, 4, 5, axis=1), 5, 4, axis=1),
        fs,
    ),
    "at 400 Hz": lambda x, fs: (resample_poly(x, 4, 5, axis=1), 400.0),
    "at 100 Hz": lambda x, fs: (resample_poly(x, 1, 5, axis=1), 100.0),
    "rounded to 16 bits": rounded,
    "in steps of 4.88 uV": lambda x, fs: (np.rint(x / 0.00488) * 0.00488, fs),
    "times 1000": lambda x, fs: (1000 * x, fs),
    "0.5 Hz high-pass": high_passed,
    "3 s later, 400 Hz, high-pass, uV": everything,
}


def false_matches(copy: Copy) -> int:
    """Prints and returns how many pairs of different records are taken for one."""
    started = time.perf_counter()
    table = Table.of([copy], lambda done, total: None)
    made = time.perf_counter() - started
    found = candidates(table, within=True)
    started = time.perf_counter()
    pairs = confirmed(table, found, lambda done, total: None)
    compared = time.perf_counter() - started
    records = len(copy.index)
    sizes = copy.index["patient"].value_counts().to_numpy()
    same = int((sizes * (sizes - 1) // 2).sum())
    of_one = sum(p.first.patient == p.second.patient for p in pairs)
    print(f"false matches: {len(pairs)} of {records * (records - 1) // 2:,} pairs of records")
    print(f"  of one patient: {of_one} of {same:,} pairs")
    print(f"  candidates that were compared: {len(found):,}")
    print(
        f"a record: {1000 * made / records:.1f} ms to read and hash, "
        f"{len(table.hashes) / records:.1f} hashes, "
        f"{BYTES * len(table.hashes) / records:.0f} bytes; a comparison "
        f"{1000 * compared / max(len(found), 1):.0f} ms"
    )
    return len(pairs)


def hits(
    copy: Copy, prints: Sequence[Fingerprint], records: Sequence[int], altered: Altered
) -> tuple[float, int]:
    """Share of `records` whose altered copy is found among all, and the wrong pairs beside them."""

    def changed(place: int) -> tuple[np.ndarray, float]:
        recording = copy.recording(copy.index["record"].iloc[place])
        return altered(recording.rows.astype(float), recording.fs)

    total = len(prints)
    copies = [fingerprint(*changed(place)) for place in records]
    table = Table.made([*prints, *copies], np.array([total, total + len(copies)]))
    found = wrong = 0
    for one, two, shift in candidates(table, within=False):
        place = records[two - total]
        whole = copy.recording(copy.index["record"].iloc[one])
        if agreement(whole.rows, whole.fs, *changed(place), shift)[0] > CONFIRMED:
            found += one == place
            wrong += one != place
    return found / len(records), wrong


def large(prints: Sequence[Fingerprint]) -> None:
    """Prints what joining LARGE records takes: each has the shapes of one genuine record, and the
    times of another with up to NEAR steps more or less, so that no two are the same.
    """
    some, draw = [p for p in prints if len(p.hashes)], np.random.default_rng(0)
    made = []
    for i in range(LARGE):
        turn, own = divmod(i, len(some))
        made.append(mixed(some[own], some[(own + turn + 1) % len(some)], draw))
    started = time.perf_counter()
    table = Table.made(made, np.array([LARGE]))
    found = candidates(table, within=True)
    print(
        f"{LARGE:,} records: joined in {time.perf_counter() - started:.0f} s, "
        f"{BYTES * len(table.hashes) / 1e6:.0f} MB, {len(found):,} candidates"
    )


def mixed(shapes: Fingerprint, times: Fingerprint, draw: np.random.Generator) -> Fingerprint:
    """The beats of one record, moved a little, with the shapes of another's."""
    both_times = np.uint64(2 * LENGTH)
    shape = shapes.hashes >> both_times
    drawn = shape[np.arange(len(times.hashes)) % len(shape)] << both_times
    low = np.uint64(LENGTH)
    parts = times.hashes & np.uint64(2 ** (2 * LENGTH) - 1)
    both = [parts >> low, parts & np.uint64(2**LENGTH - 1)]
    moved = [
        np.clip(part.astype(np.int64) + draw.integers(-NEAR, NEAR + 1, len(part)), 0, 2**LENGTH - 1)
        for part in both
    ]
    steps = (moved[0] << LENGTH | moved[1]).astype(np.uint64)
    return Fingerprint(drawn | steps, times.times)


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--copies", type=int, default=500, help="records that are altered")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        copy = copy_of("ptbxl", options, folder)
        print(machine("cpu"))
        wrong = false_matches(copy)
        prints = []
        for name in copy.index["record"]:
            recording = copy.recording(name)
            prints.append(fingerprint(recording.rows, recording.fs))
        records = list(range(0, len(prints), max(1, len(prints) // options.copies)))
        missed = False
        for name, altered in ALTERED.items():
            share, others = hits(copy, prints, records, altered)
            wrong, missed = wrong + others, missed or share < ENOUGH
            print(
                f"found again, {name}: {share:.1%} of {len(records):,}; wrong pairs {others} of "
                f"{len(records) * (len(prints) - 1):,}",
                flush=True,
            )
        large(prints)
    return int(wrong > 0 or missed)


if __name__ == "__main__":
    sys.exit(main())
