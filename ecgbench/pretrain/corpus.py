"""The recordings that pre-training sees, and windows of them.

What the network is fed, each lead scaled over its whole recording, is packed once beside the
prepared copy, 24 kB for 10 s, and read through a map of those files: the system keeps in memory
what there is room for, once for all processes of a machine.

    <prepared copy>/views/<key>/part-*/    `core.parts`: (12, time) float16, within 2.5e-4, by the
                                           hash of the recording
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache, partial

import numpy as np

from ecgbench.cards.model import InputContract
from ecgbench.core import keys
from ecgbench.core.files import sweep, warn_once
from ecgbench.core.parallel import on_all_cores
from ecgbench.core.parts import DATA, Parts
from ecgbench.core.seeds import rng
from ecgbench.data import views
from ecgbench.data.copy import Copy, Progress
from ecgbench.data.views import View
from ecgbench.ecg.leads import ALL, LEADS
from ecgbench.ecg.preprocess import normalise
from ecgbench.errors import BadSetting
from ecgbench.pretrain.exclusion import LeakCheck, Name

TYPE = np.dtype("<f2")
"""Of samples as they are kept."""
FILES = 512
"""Into at most so many parts a corpus is packed at once: each takes a file handle."""
FEWEST = 1024
"""Recordings of a part, unless there are fewer."""


class Corpus:
    """Recordings that windows are cut from."""

    def __init__(
        self,
        leak_check: LeakCheck,
        lengths: Mapping[Name, int],
        read: Callable[[Name], np.ndarray],
        contract: InputContract,
    ) -> None:
        """lengths: samples per lead of each recording; those shorter than a window of the contract
        are left out. read: a name -> (12, time) in [-1, 1], prepared as the contract says.

        LeakError where a recording must not enter training, before anything is read; BadSetting: no
        recording.
        """
        leak_check(lengths)
        self.samples, self._read = contract.samples, read
        self.names = [name for name, length in lengths.items() if length >= self.samples]
        self.too_short = len(lengths) - len(self.names)
        """Recordings that are left out because no window fits into them."""
        self.lengths = np.array([lengths[name] for name in self.names], np.int64)
        if not self.names:
            raise BadSetting(
                f"no recording of at least {contract.seconds:g} s to pre-train on "
                f"({self.too_short} are shorter); give others"
            )

    def __len__(self) -> int:
        return len(self.names)

    def shuffled(self, first: int, end: int, *words: str | int) -> np.ndarray:
        """Recordings from place `first` to before `end` of the shuffled order named by `words`, in
        which each one stands once.
        """
        return _permutation(len(self), words)[first:end]

    def starts(self, rows: np.ndarray, *words: str | int) -> np.ndarray:
        """(window,) first samples of windows of recordings rows[i], each possible one equally
        likely; drawn by `words`.
        """
        room = self.lengths[rows] - self.samples + 1
        return (rng(*words).random(len(rows)) * room).astype(np.int64)

    def cut(self, rows: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Windows of recording rows[i] from sample starts[i] on, (window, 12, samples) float32.
        BadSetting: a window beyond its end.
        """
        if ((starts < 0) | (starts + self.samples > self.lengths[rows])).any():
            raise BadSetting(
                "a window lies outside its recording; draw its start below `lengths - samples + 1`"
            )
        out = np.empty((len(rows), len(LEADS), self.samples), np.float32)
        for window, row, start in zip(out, rows.tolist(), starts.tolist()):
            signal = self._read(self.names[row])[:, start : start + self.samples]
            window[:] = signal.astype(TYPE, copy=False)
        return out

    @cached_property
    def digest(self) -> str:
        """sha256 (hex) of names and samples as they are kept."""
        named = [(*name, int(n)) for name, n in zip(self.names, self.lengths)]
        total = hashlib.sha256(repr(named).encode())
        total.update(str(TYPE).encode())
        for name in self.names:
            total.update(np.ascontiguousarray(self._read(name), TYPE).data)
        return total.hexdigest()


@lru_cache(maxsize=2)
def _permutation(records: int, words: tuple[str | int, ...]) -> np.ndarray:
    return rng(*words).permutation(records)


class _Packed:
    """Recordings of a prepared copy as the network is fed."""

    def __init__(self, prepared: Copy, contract: InputContract) -> None:
        self.view, self.how = View(prepared, contract, keep=False), contract.normalisation
        identity = {"view": views.key(contract.preparation), "normalised": self.how}
        self.folder = prepared.folder / "views" / keys.key(identity)[:16]
        sweep(self.folder, below=False)
        self.parts = Parts(self.folder)
        self._names = prepared.index["sha256"].array
        self._checked = np.zeros(len(prepared.index), bool)
        """Recordings that were compared with their hashes."""
        self._files: dict[int, np.ndarray] = {}

    def fill(self, records: Sequence[str], progress: Progress | None = None) -> None:
        """Pack those that are missing, by all cores. WriteError."""
        missing = self._missing(records)
        size = max(FEWEST, -(-len(missing) // FILES))
        pieces = [missing[i : i + size] for i in range(0, len(missing), size)]
        done = 0

        def advance(more: int) -> None:
            nonlocal done
            done = min(done + more * size, len(missing))
            if progress is not None:
                progress(done, len(missing))

        if len(pieces) > 1:
            on_all_cores([partial(self._pack, piece) for piece in pieces], advance)
            self.parts = Parts(self.folder)
            vars(self).pop("_where", None)
        for piece in pieces:  # what a process could not do is met here
            if lost := self._missing(piece):
                self._pack(lost)
                advance(1)

    def __call__(self, record: str) -> np.ndarray:
        """(12, time) in [-1, 1]. A recording is compared with its hash when it is first read in a
        process; one that is not as it was written is computed again.
        """
        row = self.view.prepared.row(record)
        if not self._checked[row]:
            self._check(row, record)
        part, first = self._where[0][row], self._where[1][row]
        if part not in self._files:
            path = self.folder / self.parts.names[part] / DATA
            self._files[part] = np.memmap(path, TYPE, "r").view(np.ndarray)
        samples = self.view.length(record)
        return self._files[part][first : first + len(LEADS) * samples].reshape(len(LEADS), samples)

    @cached_property
    def _where(self) -> tuple[np.ndarray, np.ndarray]:
        """Of each recording of the copy: the number of its part, and its first value there."""
        places = self.parts.rows[["part", "first"]].reindex(self._names, fill_value=-1)
        return places["part"].to_numpy(), places["first"].to_numpy() // TYPE.itemsize

    def _missing(self, records: Sequence[str]) -> list[str]:
        named = {self._names[self.view.prepared.row(record)]: record for record in records}
        return [named[name] for name in self.parts.missing(named)]

    def _check(self, row: int, record: str) -> None:
        if self.parts.read(self._names[row]) is None:
            warn_once(
                self.folder,
                f"what was computed of record {record} is not as it was written; it is computed "
                f"again, like every other such record",
            )
            self._pack([record])
        self._checked[row] = True

    def _pack(self, records: Sequence[str]) -> None:
        self.parts.append(map(self._row, records))
        vars(self).pop("_where", None)

    def _row(self, record: str) -> tuple[dict[str, str], bytes]:
        """BadSetting: values outside [-1, 1], by another normalisation of the contract."""
        prepared = self.view.prepared
        signal = normalise(self.view.get(record), self.how)
        if not (np.abs(signal) <= 1 + 1e-6).all():  # float32 may round 1 up
            raise BadSetting(
                f"record {record!r} of {prepared.name!r} has values outside [-1, 1]; pre-training "
                f"needs a contract that is normalised minmax-per-lead, not {self.how}"
            )
        name = str(self._names[prepared.row(record)])
        return {"name": name}, np.ascontiguousarray(signal, TYPE).tobytes()


def trainable(prepared: Copy) -> list[Name]:
    """Recordings of the training split with all leads: every sample of each is a target."""
    index = prepared.index
    rows = (index["split"] == "train") & (index["available"] == ALL.bits)
    return [Name(prepared.name, record) for record in index.loc[rows, "record"]]


def gather(
    prepared: Sequence[Copy],
    leak_check: LeakCheck,
    contract: InputContract,
    choose: Callable[[Name], bool] = lambda name: True,
    progress: Progress | None = None,
) -> Corpus:
    """The training splits of prepared datasets, those that `choose` says, packed where they are
    not yet.

    contract: as the network will be fed, each lead scaled to [-1, 1] by its own extremes over the
    whole record. LeakError before a signal is read; `progress` counts the recordings of a dataset
    that are packed now. WriteError.
    """
    packed = {p.name: _Packed(p, contract) for p in prepared}
    lengths = {
        name: packed[p.name].view.length(name.record)
        for p in prepared
        for name in trainable(p)
        if choose(name)
    }
    corpus = Corpus(leak_check, lengths, lambda name: packed[name.dataset](name.record), contract)
    for dataset, own in packed.items():
        own.fill([name.record for name in corpus.names if name.dataset == dataset], progress)
    return corpus
