"""Views: every recording as the lead-by-lead part of an input contract makes it (filter,
resampling), cached on disk.

    <prepared copy>/views/<key>/signal.f32   (lead, time) of each record, of the leads that it has,
    one after the other; sparse until computed
                                done.npy     (record,) uint64, 0 until computed, then `checksum`
                                view.json    the filter and the rate, under their own hash

A view holds no normalisation and nothing that mixes leads, so leads can be hidden after it. Samples
reach the disk before the record counts as done: a kill loses at most the last batch. What is read
is compared with its checksum, always; what is not as it was written is named and computed again
(that done.npy changed shows in the same way). Two processes
may fill one view: both write the same bytes to the same place, and `done` is merged under a lock.
A view that is not kept computes a recording whenever it is asked for, to the same bits, and writes
nothing.
"""

import hashlib
import json
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from ecgbench.core.aside import say_once, set_aside
from ecgbench.core.cards import InputContract
from ecgbench.core.files import array_of, as_npy, flush, locked, put, sweep, writing
from ecgbench.core.sealed import seal, unsealed
from ecgbench.data.prepare import Prepared, Progress
from ecgbench.ecg import preprocess
from ecgbench.ecg.filters import Filter
from ecgbench.ecg.leads import LEADS, bits_to_mask
from ecgbench.ecg.preprocess import Preparation
from ecgbench.ecg.surrogates import Change
from ecgbench.errors import WriteError

VALUE = 4
"""Bytes of a sample."""
BATCH = 64
"""Records per flush to disk."""
SIGNAL, ABOUT = "signal.f32", "view.json"


class View:
    """Recordings at the rate of a contract, filtered, in the unit of the dataset (mV), not
    normalised.
    """

    def __init__(
        self,
        prepared: Prepared,
        contract: InputContract,
        keep: bool = True,
        change: Change | None = None,
    ) -> None:
        """keep: on disk, or compute each recording whenever it is asked for. change: what is done
        to each recording as it is read; what is on disk is as it was.
        """
        self.prepared, self.preparation, self.change = prepared, contract.preparation, change
        self._lengths = lengths(prepared, self.preparation)
        self._leads = np.bitwise_count(prepared.available).astype(np.int64)
        self._ends = np.cumsum(self._leads * self._lengths)
        self.folder = prepared.folder / "views" / key(self.preparation)
        self._cached = keep and self._create()
        self._done = self._on_disk() if self._cached else np.zeros(len(self._lengths), np.uint64)

    def length(self, record: str) -> int:
        """Samples per lead of a record in this view."""
        return int(self._lengths[self.prepared.row(record)])

    def get(self, record: str) -> np.ndarray:
        """(12, time) float32 at `fs` Hz, NaN in the rows of leads that the record does not have;
        computed now if it has not been.
        """
        signal = self._unchanged(record)
        return signal if self.change is None else self.change(record, signal)

    def _unchanged(self, record: str) -> np.ndarray:
        row = self.prepared.row(record)
        if not self._cached:
            return self._whole(row, self._compute(record))
        if not self._done[row]:
            self.fill([record])
        samples = _read(self.folder, *self._place(row))
        if checksum(samples) != self._done[row]:
            say_once(
                self.folder / SIGNAL,
                f"what was computed of record {record} is not as it was written; it is computed "
                f"again, like every other such record",
            )
            # not read back: this disk gave something else before
            (samples,) = self._store([record])
        return self._whole(row, np.frombuffer(samples, "<f4"))

    def _whole(self, row: int, samples: np.ndarray) -> np.ndarray:
        """(12, time) of the samples of the leads that a record has."""
        if self._leads[row] == len(LEADS):
            return samples.reshape(len(LEADS), -1)
        every = np.full((len(LEADS), self._lengths[row]), np.nan, np.float32)
        there = bits_to_mask(self.prepared.available[row])
        every[there] = samples.reshape(int(self._leads[row]), -1)
        return every

    def missing(self, records: Sequence[str]) -> list[str]:
        """Those of `records` that are not cached yet and can be."""
        wanted = dict.fromkeys(records if self._cached else [])
        return [r for r in wanted if not self._done[self.prepared.row(r)]]

    def fill(self, records: Sequence[str], progress: Progress | None = None) -> None:
        """Computes what is still missing of `records`; `progress` counts those."""
        missing = self.missing(records)
        for start in range(0, len(missing), BATCH):
            self._store(missing[start : start + BATCH])
            if progress is not None:
                progress(min(start + BATCH, len(missing)), len(missing))

    def _compute(self, record: str) -> np.ndarray:
        recording = self.prepared.recording(record)
        return preprocess.view(recording.signal, recording.fs, self.preparation)

    def _place(self, row: int) -> tuple[int, int]:
        """First byte of a record, and how many are its own."""
        count = VALUE * int(self._leads[row] * self._lengths[row])
        return VALUE * int(self._ends[row]) - count, count

    def _create(self) -> bool:
        """Makes the files if need be; False where the prepared copy cannot be written (views are
        then not cached).
        """
        signal, size = self.folder / SIGNAL, VALUE * int(self._ends[-1:].sum())
        try:
            with locked(self.folder):
                sweep(self.folder, below=False)
                if not signal.is_file() or signal.stat().st_size != size:
                    # someone deleted the samples: nothing is done
                    (self.folder / "done.npy").unlink(missing_ok=True)
                    with signal.open("ab") as out:
                        out.truncate(size)
                if unsealed(self.folder / ABOUT) is None:
                    seal(self.folder / ABOUT, asdict(self.preparation))
        except (OSError, WriteError):
            return False
        return True

    def _on_disk(self) -> np.ndarray:
        return _done(self.folder, len(self._lengths))

    def _store(self, records: list[str]) -> list[bytes]:
        rows = [self.prepared.row(r) for r in records]
        computed = [self._compute(r).astype("<f4").tobytes() for r in records]
        # positioned writes, not a memory map: a full disk is then an error and not a killed process
        with writing(self.folder / SIGNAL), (self.folder / SIGNAL).open("r+b") as out:
            for row, samples in zip(rows, computed, strict=True):
                out.seek(self._place(row)[0])
                out.write(samples)
            flush(out)
        self._done[rows] = [checksum(samples) for samples in computed]
        self._merge()
        return computed

    def _merge(self) -> None:
        """Joins what this process and others have computed."""
        with writing(self.folder / "done.npy"), locked(self.folder):
            self._done = np.where(self._done, self._done, self._on_disk())
            put(self.folder / "done.npy", as_npy(self._done))


def key(preparation: Preparation) -> str:
    """The name of a view's folder: of all that is done to a recording."""
    identity = json.dumps([asdict(preparation), preprocess.VERSION])
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


def lengths(prepared: Prepared, preparation: Preparation) -> np.ndarray:
    """(record,) int64: samples per lead of each record afterwards."""
    kinds = list(zip(prepared.samples.tolist(), prepared.index["fs"].tolist()))
    known = {kind: preparation.length(*kind) for kind in set(kinds)}
    return np.array([known[kind] for kind in kinds], np.int64)


def lacking_bytes(
    prepared: Prepared, preparation: Preparation, folder: str, rows: np.ndarray | None = None
) -> int:
    """Bytes that records (rows of the index; None: all) which the view called `folder` does not
    hold yet will take on disk.
    """
    wanted = lengths(prepared, preparation)
    wanted[_done(prepared.folder / "views" / folder, len(wanted)) > 0] = 0
    wanted *= np.bitwise_count(prepared.available).astype(np.int64)
    return VALUE * int(wanted[slice(None) if rows is None else rows].sum())


@dataclass(frozen=True, eq=False)
class Kept:
    """A view on disk, whichever contract asked for it."""

    prepared: Prepared
    folder: Path
    preparation: Preparation
    done: np.ndarray
    """(record,) uint64."""

    @property
    def count(self) -> int:
        """Records that are computed."""
        return int(np.count_nonzero(self.done))

    def compared(self) -> Iterator[tuple[str, bool]]:
        """Each record that is computed, and whether it still has the checksum of what was."""
        leads = np.bitwise_count(self.prepared.available).astype(np.int64)
        counts = VALUE * leads * lengths(self.prepared, self.preparation)
        ends = np.cumsum(counts)
        for row in np.flatnonzero(self.done):
            samples = _read(self.folder, int(ends[row] - counts[row]), int(counts[row]))
            sound = checksum(samples) == self.done[row]
            yield str(self.prepared.index["record"].array[row]), sound


def kept(prepared: Prepared) -> list[Kept]:
    """The views of a copy that say how they were made; those of earlier versions do so from the
    next run on that reads them.
    """
    found = []
    for file in sorted((prepared.folder / "views").glob(f"*/{ABOUT}")):
        if (about := unsealed(file)) is None:
            continue
        chosen = about["filter"]
        preparation = Preparation(**{**about, "filter": chosen and Filter(**chosen)})
        # what another version made is never read
        if key(preparation) == file.parent.name:
            done = _done(file.parent, len(prepared.samples))
            found.append(Kept(prepared, file.parent, preparation, done))
    return found


def _read(folder: Path, first: int, count: int) -> bytes:
    """So many bytes of a view's samples, or fewer where there are no more."""
    try:
        with (folder / SIGNAL).open("rb") as file:
            return os.pread(file.fileno(), count, first)
    except FileNotFoundError:
        return b""


def _done(folder: Path, records: int) -> np.ndarray:
    """(record,) uint64; where done.npy is gone or is no such table, nothing is done."""
    with suppress(FileNotFoundError):
        with suppress(ValueError):
            done = array_of((folder / "done.npy").read_bytes())
            if done.dtype == np.uint64 and done.shape == (records,):
                return done
        set_aside(folder / "done.npy", then="what it counted is computed again")
    return np.zeros(records, np.uint64)


def checksum(samples: bytes) -> int:
    """Checksum of what is stored of a record, never 0."""
    return 2**32 + zlib.crc32(samples)
