"""Views: every recording as the lead-by-lead part of an input contract makes it (filter,
resampling), cached on disk.

    <prepared copy>/views/<key>/part-*/    `core.parts`: (lead, time) float32 of the leads that a
                                           record has, by the hash of the recording

A view holds no normalisation and nothing that mixes leads, so leads can be hidden after it. What is
not as it was written is named and computed again. Two processes may fill one view. A view that is
not kept computes a recording whenever it is asked for, to the same bits, and writes nothing.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path

import numpy as np

from ecgbench.cards.model import InputContract
from ecgbench.core.files import sweep, warn_once
from ecgbench.core.parts import Parts
from ecgbench.data.copy import Copy, Progress
from ecgbench.ecg import preprocess
from ecgbench.ecg.leads import LEADS, bits_to_mask
from ecgbench.ecg.preprocess import Preparation
from ecgbench.ecg.surrogates import Change
from ecgbench.perturbations import Perturbation

BATCH = 64
"""Records per step of progress."""
LARGE = 2**26
"""Bytes that are computed before they are written."""


class View:
    """Recordings at the rate of a contract, filtered, in the unit of the dataset (mV), not
    normalised.
    """

    def __init__(
        self,
        prepared: Copy,
        contract: InputContract,
        keep: bool = True,
        change: Change | None = None,
        perturbation: Perturbation | None = None,
    ) -> None:
        """keep: on disk, where the prepared copy can be written, or compute each recording whenever
        it is asked for. change: what is done to each recording as it is read; what is on disk is
        as it was. perturbation: what is done to each recording before that; such views are not
        kept.
        """
        self.prepared, self.preparation, self.change = prepared, contract.preparation, change
        self.perturbation = perturbation
        self._lengths = lengths(prepared, self.preparation, perturbation)
        self.folder = prepared.folder / "views" / key(self.preparation)
        self.keep = keep and not perturbation and _can_write(self.folder)

    @cached_property
    def parts(self) -> Parts:
        """The cached recordings."""
        sweep(self.folder, below=False)
        return Parts(self.folder)

    def length(self, record: str) -> int:
        """Samples per lead of a record in this view."""
        return int(self._lengths[self.prepared.row(record)])

    def get(self, record: str) -> np.ndarray:
        """(12, time) float32 at `fs` Hz, NaN in the rows of leads that the record does not have;
        computed now where it is not cached.
        """
        samples = self._cached(record) if self.keep else self._compute(record)
        every = np.full((len(LEADS), self.length(record)), np.nan, np.float32)
        there = bits_to_mask(self.prepared.available[self.prepared.row(record)])
        every[there] = samples.reshape(int(there.sum()), -1)
        return every if self.change is None else self.change(record, every)

    def _cached(self, record: str) -> np.ndarray:
        name = self._name(record)
        self.fill([record])
        content = self.parts.read(name)
        if content is None:
            warn_once(
                self.folder,
                f"what was computed of record {record} is not as it was written; it is computed "
                f"again, like every other such record",
                what="views",
            )
            # not read back: this disk gave something else before
            samples = self._compute(record)
            self.parts.append([({"name": name}, samples.tobytes())])
            return samples
        return np.frombuffer(content, "<f4")

    def missing(self, records: Sequence[str]) -> list[str]:
        """The `records` that are not cached and can be."""
        names = {self._name(r): r for r in records} if self.keep else {}
        return [names[name] for name in self.parts.missing(names)] if names else []

    def fill(self, records: Sequence[str], progress: Progress | None = None) -> None:
        """Compute those of `records` that are not cached; `progress` counts them."""
        missing, block, size = self.missing(records), [], 0
        for done, record in enumerate(missing, 1):
            content = self._compute(record).tobytes()
            block.append(({"name": self._name(record)}, content))
            size += len(content)
            if size > LARGE or done == len(missing):
                self.parts.append(block)
                block, size = [], 0
            if progress is not None and (done % BATCH == 0 or done == len(missing)):
                progress(done, len(missing))

    def _name(self, record: str) -> str:
        return str(self.prepared.index["sha256"].array[self.prepared.row(record)])

    def _compute(self, record: str) -> np.ndarray:
        recording = self.prepared.recording(record)
        if self.perturbation:
            recording = self.perturbation(recording)
        return preprocess.view(recording.signal, recording.fs, self.preparation).astype("<f4")


def _can_write(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def key(preparation: Preparation) -> str:
    """The name of a view's folder, from everything that is done to a recording."""
    identity = json.dumps([asdict(preparation), preprocess.VERSION])
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


def lengths(
    prepared: Copy, preparation: Preparation, perturbation: Perturbation | None = None
) -> np.ndarray:
    """(record,) int64: samples per lead of each record afterwards."""
    left = perturbation.samples if perturbation else (lambda samples, fs: samples)
    kinds = list(zip(prepared.samples.tolist(), prepared.index["fs"].tolist()))
    known = {kind: preparation.length(left(*kind), kind[1]) for kind in set(kinds)}
    return np.array([known[kind] for kind in kinds], np.int64)


def views(prepared: Copy) -> list[Parts]:
    """The cached views of a copy."""
    return [Parts(folder) for folder in sorted((prepared.folder / "views").glob("*/"))]
