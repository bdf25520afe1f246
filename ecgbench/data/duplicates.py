"""The same recording in two places: within a dataset, or in two of them under other names.

Fingerprints are joined by their hashes, so the work grows with the records and not with their
pairs: two records of which VOTES hashes agree at one shift in time are candidates. Those are
compared sample by sample, and are one recording from CONFIRMED on. `copies_among` does so for any
recordings, `confirmed` for prepared ones.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ecgbench.core.text import counted
from ecgbench.data.copy import Copy, Progress
from ecgbench.ecg.fingerprint import Fingerprint, agreement, fingerprint

VOTES = 4
TOGETHER = 20
"""Milliseconds within which the shifts of agreeing hashes lie."""
CONFIRMED = 0.99
"""Correlation from which on two records are one recording."""
CROWD = 64
"""Of equal hashes each meets the next ones, fewer than these."""
BYTES = 16
"""Of a hash in the table: itself, its time and its record."""
FAR = 10_000_000
"""More than any shift in ms, so that a pair and its shift make one number."""


@dataclass(frozen=True)
class Entry:
    """A record of a prepared copy."""

    dataset: str
    record: str
    patient: str
    split: str

    def __str__(self) -> str:
        return f"{self.record} ({self.split})"


@dataclass(frozen=True)
class Pair:
    """One recording that occurs twice."""

    first: Entry
    second: Entry
    shift: float
    """Seconds by which the second begins later in the recording than the first."""
    correlation: float
    """Of what the two share, from 4 to 30 Hz."""

    @property
    def leak(self) -> int:
        """0 where one is for training and the other for testing, 1 where the splits differ
        otherwise, 2 where they do not.
        """
        splits = {self.first.split, self.second.split}
        return 0 if splits == {"train", "test"} else 3 - len(splits)


@dataclass(frozen=True, eq=False)
class Table:
    """The hashes of all records of some prepared copies, in the order of hashes."""

    copies: Sequence[Copy]
    ends: np.ndarray
    """(copy,) one more than the place of its last record among all."""
    hashes: np.ndarray
    """(hash,) uint64."""
    times: np.ndarray
    """(hash,) int32, ms from the start of the record."""
    records: np.ndarray
    """(hash,) int32: place of the record among all."""

    @classmethod
    def of(cls, copies: Sequence[Copy], progress: Progress) -> "Table":
        """Reads every recording once."""
        total, found = sum(len(copy.index) for copy in copies), []
        for copy in copies:
            for record in copy.index["record"]:
                recording = copy.recording(record)
                found.append(fingerprint(recording.rows, recording.fs))
                progress(len(found), total)
        return cls.made(found, np.cumsum([len(copy.index) for copy in copies]), copies)

    @classmethod
    def made(
        cls, found: Sequence[Fingerprint], ends: np.ndarray, copies: Sequence[Copy] = ()
    ) -> "Table":
        """Of fingerprints that are there, those of one dataset after those of another."""
        hashes = np.concatenate([np.zeros(0, np.uint64), *(f.hashes for f in found)])
        times = np.concatenate([np.zeros(0, np.int32), *(f.times for f in found)])
        counts = [len(f.hashes) for f in found]
        records = np.repeat(np.arange(len(found), dtype=np.int32), counts)
        order = np.argsort(hashes, kind="stable")
        return cls(copies, ends, hashes[order], times[order], records[order])

    def entry(self, number: int) -> tuple[Copy, Entry]:
        """The copy and the entry of a record by its number among all."""
        which = int(np.searchsorted(self.ends, number, side="right"))
        copy = self.copies[which]
        row = copy.index.iloc[number - int(self.ends[which]) + len(copy.index)]
        facts = (str(row[c]) for c in ("record", "patient", "split"))
        return copy, Entry(copy.name, *facts)


def candidates(table: Table, within: bool) -> list[tuple[int, int, float]]:
    """(first, second, shift in s) of the records that share VOTES hashes at one shift.

    within: also records of one dataset; records of two datasets always.
    """
    keys = np.concatenate([np.zeros(0, np.int64), *_agreeing(table, within)])
    keys.sort()
    votes = np.searchsorted(keys, keys + TOGETHER, side="right") - np.arange(len(keys))
    keys, votes = keys[votes >= VOTES], votes[votes >= VOTES]
    pairs = keys // FAR
    order = np.lexsort((-votes, pairs))  # of each pair the shift with most votes comes first
    best = order[np.unique(pairs[order], return_index=True)[1]]
    records = max(int(table.ends[-1]), 1)
    return [
        (int(pair // records), int(pair % records), (int(key % FAR) - FAR // 2) / 1000)
        for key, pair in zip(keys[best], pairs[best])
    ]


def _agreeing(table: Table, within: bool) -> Iterator[np.ndarray]:
    """Two equal hashes of two records as one number each: the pair, and the shift in ms."""
    hashes, records = table.hashes, table.records.astype(np.int64)
    times = table.times.astype(np.int64)
    dataset = np.searchsorted(table.ends, records, "right")
    for step in range(1, CROWD):
        at = np.flatnonzero(hashes[:-step] == hashes[step:])
        if not len(at):
            return
        one, two = records[at], records[at + step]
        shift = times[at] - times[at + step]
        allowed = one != two
        if not within:
            allowed &= dataset[at] != dataset[at + step]
        low, high = np.minimum(one, two), np.maximum(one, two)
        turned = np.where(one > two, -shift, shift)
        keys = (low * max(int(table.ends[-1]), 1) + high) * FAR + FAR // 2 + turned
        yield keys[allowed]


def copies_among(
    found: Sequence[Fingerprint], signal: Callable[[int], tuple[np.ndarray, float]]
) -> Iterator[tuple[int, int, bool]]:
    """(first, second, whole) of recordings of these fingerprints that are one, by number; of more
    than two whole copies enough to join them. whole: not only an overlap.

    signal: the (12, time) samples and the rate (Hz) of a recording, which are read again.
    """
    from scipy.cluster.hierarchy import DisjointSet  # slow to import

    same = DisjointSet(range(len(found)))
    for one, two, shift in candidates(Table.made(found, np.array([len(found)])), within=True):
        if same.connected(one, two):
            continue
        (a, a_fs), (b, b_fs) = signal(one), signal(two)
        correlation, at = agreement(a, a_fs, b, b_fs, shift)
        if correlation > CONFIRMED:
            longer = abs(a.shape[1] / a_fs - b.shape[1] / b_fs)
            whole = max(abs(at), longer) < TOGETHER / 1000
            if whole:
                same.merge(one, two)
            yield one, two, whole


def confirmed(
    table: Table, found: Sequence[tuple[int, int, float]], progress: Progress
) -> list[Pair]:
    """The candidates that are one recording; those between training and test first."""
    pairs = []
    for done, (one, two, shift) in enumerate(found, 1):
        (first, here), (second, there) = table.entry(one), table.entry(two)
        a, b = first.recording(here.record), second.recording(there.record)
        correlation, at = agreement(a.rows, a.fs, b.rows, b.fs, shift)
        if correlation > CONFIRMED:
            pairs.append(Pair(here, there, at, correlation))
        progress(done, len(found))
    return sorted(pairs, key=lambda p: (p.leak, -p.correlation))


def table_of(pairs: Sequence[Pair]) -> pd.DataFrame:
    """A row per pair: dataset, record, patient, split of both, shift, correlation, and whether one
    is for training and the other for testing (`leak`).
    """
    fields = [field.name for field in dataclasses.fields(Entry)]
    columns = [*fields, *(f"other {field}" for field in fields), "shift", "correlation", "leak"]
    rows = []
    for pair in pairs:
        entries = *dataclasses.astuple(pair.first), *dataclasses.astuple(pair.second)
        measured = round(pair.shift, 3), round(pair.correlation, 6), pair.leak == 0
        rows.append([*entries, *measured])
    return pd.DataFrame(rows, columns=columns)


def identical(copy: Copy) -> list[list[Entry]]:
    """Records of a prepared copy whose stored samples are the same bit for bit, in groups; those
    that stand in several splits first.
    """
    index = copy.index
    several = index[index["sha256"].duplicated(keep=False)]
    groups = [
        [Entry(copy.name, *map(str, row)) for row in own.itertuples(index=False, name=None)]
        for _, own in several.groupby("sha256", sort=False)[["record", "patient", "split"]]
    ]
    return sorted(groups, key=lambda group: len({entry.split for entry in group}) == 1)


def crossing(copy: Copy, most: int = 3) -> str:
    """Records of a prepared copy with identical samples in several splits, in a short text that
    names `most` of them; "" where there are none.
    """
    groups = [group for group in identical(copy) if len({entry.split for entry in group}) > 1]
    if not groups:
        return ""
    named = "; ".join(" = ".join(map(str, group)) for group in groups[:most])
    return (
        f"{counted(len(groups), 'recording')} in two splits or more under several records: "
        f"{named}{'; ...' if groups[most:] else ''}"
    )
