"""The same recording in two places: within a dataset, or in two of them under other names.

Fingerprints are joined by their hashes, so the work grows with the records and not with their
pairs: two records of which VOTES hashes agree at one shift in time are candidates. Those are
compared sample by sample, and are one recording from CONFIRMED on. `copies_among` does so for any
recordings, `pairs` for prepared ones.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple

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
FAR = 10_000_000
"""More than any shift in ms, so that a pair and its shift make one number."""


class Entry(NamedTuple):
    """A record of a prepared copy."""

    record: str
    patient: str
    split: str

    def __str__(self) -> str:
        return f"{self.record} ({self.split})"


@dataclass(frozen=True, eq=False)
class Table:
    """The hashes of all records of some prepared copies, in the order of hashes."""

    ends: np.ndarray
    """(copy,) one more than the place of its last record among all."""
    hashes: np.ndarray
    """(hash,) uint64."""
    times: np.ndarray
    """(hash,) int32, ms from the start of the record."""
    records: np.ndarray
    """(hash,) int32: place of the record among all."""

    @classmethod
    def made(cls, found: Sequence[Fingerprint], ends: np.ndarray) -> "Table":
        """Of fingerprints that are there, those of one dataset after those of another."""
        hashes = np.concatenate([np.zeros(0, np.uint64), *(f.hashes for f in found)])
        times = np.concatenate([np.zeros(0, np.int32), *(f.times for f in found)])
        counts = [len(f.hashes) for f in found]
        records = np.repeat(np.arange(len(found), dtype=np.int32), counts)
        order = np.argsort(hashes, kind="stable")
        return cls(ends, hashes[order], times[order], records[order])


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


def pairs(
    copies: Sequence[Copy],
    within: bool,
    progress: Callable[[str], AbstractContextManager[Progress]],
) -> pd.DataFrame:
    """A row per recording that occurs twice: dataset, record, patient, split of both, the shift in
    seconds by which the second begins later, the correlation of what they share, and whether one
    is for training and the other for testing (`leak`); those first, then others in two splits.

    within: as for `candidates`. progress: what is done -> who counts.
    """
    entries, found, rows = [(copy, own) for copy in copies for own in _entries(copy.index)], [], []
    with progress("fingerprint") as shown:
        for copy, own in entries:
            recording = copy.recording(own.record)
            found.append(fingerprint(recording.rows, recording.fs))
            shown(len(found), len(entries))
    table = Table.made(found, np.cumsum([len(copy.index) for copy in copies]))
    with progress("compare candidates") as shown:
        for done, (one, two, shift) in enumerate(met := candidates(table, within), 1):
            (first, here), (second, there) = entries[one], entries[two]
            a, b = first.recording(here.record), second.recording(there.record)
            correlation, at = agreement(a.rows, a.fs, b.rows, b.fs, shift)
            if correlation > CONFIRMED:
                splits = {here.split, there.split}
                measured = round(at, 3), round(correlation, 6), splits == {"train", "test"}
                rows.append([first.name, *here, second.name, *there, *measured, len(splits)])
            shown(done, len(met))
    names = ["dataset", *Entry._fields]
    columns = [*names, *(f"other {name}" for name in names), "shift", "correlation", "leak"]
    made = pd.DataFrame(rows, columns=[*columns, "splits"])
    order = ["leak", "splits", "correlation"]
    return made.sort_values(order, ascending=False, kind="stable", ignore_index=True)[columns]


def _entries(index: pd.DataFrame) -> Iterator[Entry]:
    for row in index[[*Entry._fields]].itertuples(index=False, name=None):
        yield Entry(*map(str, row))


def identical(copy: Copy) -> list[list[Entry]]:
    """Records of a prepared copy whose stored samples are the same bit for bit, in groups; those
    that stand in several splits first.
    """
    index = copy.index
    several = index[index["sha256"].duplicated(keep=False)]
    groups = [[*_entries(own)] for _, own in several.groupby("sha256", sort=False)]
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
