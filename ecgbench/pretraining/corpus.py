"""The recordings that pre-training sees: `Corpus` holds them in memory, `streamed.Streamed` reads
them from shards on disk.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np

from ecgbench.core.cards import InputContract
from ecgbench.core.seeds import rng
from ecgbench.data.copy import Copy
from ecgbench.data.prepare import Progress
from ecgbench.data.views import View
from ecgbench.ecg.leads import ALL, LEADS
from ecgbench.ecg.preprocess import normalise
from ecgbench.errors import BadSetting
from ecgbench.pretraining import order
from ecgbench.pretraining.guard import Guard, Name


class Recordings(ABC):
    """Recordings that windows are cut from. `cut` is the only way to their samples, and asks the
    guard every time.
    """

    samples: int
    """Of a window, per lead."""
    too_short: int
    """Recordings that are left out because no window fits into them."""

    @abstractmethod
    def __len__(self) -> int:
        """Recordings."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """sha256 (hex) of names and samples as they are kept, and of what decides the order."""

    @property
    def stream(self) -> dict[str, Any]:
        """What decides the order of a streamed corpus; nothing in memory."""
        return {}

    @abstractmethod
    def shuffled(self, first: int, end: int, *words: str | int) -> np.ndarray:
        """Recordings from place `first` to before `end` of the shuffled order named by `words`, in
        which each one stands once.
        """

    def cut(self, rows: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Windows of recording rows[i] from sample starts[i] on, (window, 12, samples) float32.

        LeakError before a sample of a recording that must not enter training is handed out;
        BadSetting: a window beyond its end.
        """
        self._ask(rows)
        if ((starts < 0) | (starts + self.samples > self._lengths(rows))).any():
            raise BadSetting(
                "a window lies outside its recording; draw its start below `lengths - samples + 1`"
            )
        out = np.empty((len(rows), len(LEADS), self.samples), np.float32)
        self._copy(rows, starts, out)
        return out

    def starts(self, rows: np.ndarray, *words: str | int) -> np.ndarray:
        """(window,) first samples of windows of recordings rows[i], each possible one equally
        likely; drawn by `words`.
        """
        room = self._lengths(rows) - self.samples + 1
        return (rng(*words).random(len(rows)) * room).astype(np.int64)

    @abstractmethod
    def _ask(self, rows: np.ndarray) -> None:
        """The guard, of these recordings."""

    @abstractmethod
    def _lengths(self, rows: np.ndarray) -> np.ndarray:
        """Samples per lead of recordings."""

    @abstractmethod
    def _copy(self, rows: np.ndarray, starts: np.ndarray, out: np.ndarray) -> None:
        """Write windows into `out`."""


class Corpus(Recordings):
    """Recordings in memory."""

    def __init__(
        self,
        guard: Guard,
        lengths: Mapping[Name, int],
        read: Callable[[Name], np.ndarray],
        kept: Literal["float16", "float32"] = "float16",
        *,
        contract: InputContract,
    ) -> None:
        """lengths: samples per lead of each recording; those shorter than a window of the contract
        are left out, see `short`.

        read: a name -> (12, time) in [-1, 1], prepared as the contract says. kept: type in memory;
        float16 is within 2.5e-4 and 24 kB for 10 s. LeakError before anything is read; BadSetting:
        no recording, another length or values outside [-1, 1].
        """
        guard(lengths)
        self._guard, self.samples = guard, contract.samples
        self.names = [name for name, length in lengths.items() if length >= self.samples]
        self.short = [name for name, length in lengths.items() if length < self.samples]
        self.too_short = len(self.short)
        demand_some(len(self.names), self.too_short, contract)
        self.lengths = np.array([lengths[name] for name in self.names], np.int64)
        self._ends = np.cumsum(self.lengths) * len(LEADS)
        self._values = np.empty(int(self._ends[-1]), kept)
        for row, name in enumerate(self.names):
            self._recording(row)[:] = sound(name, read(name), int(self.lengths[row]))
        self._values.flags.writeable = False

    def __len__(self) -> int:
        return len(self.names)

    def shuffled(self, first: int, end: int, *words: str | int) -> np.ndarray:
        """A permutation of all."""
        return order.whole(len(self), words)[first:end]

    @cached_property
    def digest(self) -> str:
        """sha256 (hex) of names and samples as they are kept."""
        total = hashlib.sha256(
            repr([(*name, int(n)) for name, n in zip(self.names, self.lengths)]).encode()
        )
        total.update(str(self._values.dtype).encode())
        total.update(self._values.view(np.uint8).data)
        return total.hexdigest()

    def _ask(self, rows: np.ndarray) -> None:
        self._guard(self.names[row] for row in rows)

    def _lengths(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(self.lengths[rows])

    def _copy(self, rows: np.ndarray, starts: np.ndarray, out: np.ndarray) -> None:
        for window, row, start in zip(out, rows, starts):
            window[:] = self._recording(row)[:, start : start + self.samples]

    def _recording(self, row: int) -> np.ndarray:
        end = self._ends[row]
        return self._values[end - len(LEADS) * self.lengths[row] : end].reshape(len(LEADS), -1)


def trainable(prepared: Copy) -> np.ndarray:
    """Rows of the training split with all leads: every sample of each is a target."""
    index = prepared.index[["split", "available"]]
    return np.flatnonzero((index["split"] == "train") & (index["available"] == ALL.bits))


def gather(
    prepared: Sequence[Copy],
    guard: Guard,
    contract: InputContract,
    kept: Literal["float16", "float32"] = "float16",
    choose: Callable[[Name], bool] = lambda name: True,
    progress: Progress | None = None,
) -> Corpus:
    """The training splits of prepared datasets, those that `choose` says, through their cached
    views.

    contract: as the network will be fed, each lead scaled to [-1, 1] by its own extremes over the
    whole record. LeakError before a signal is read; `progress` counts the recordings of a dataset
    that no cached view holds yet.
    """
    views = {p.name: View(p, contract) for p in prepared}
    lengths: dict[Name, int] = {}
    for p in prepared:
        names = [Name(p.name, r) for r in p.index["record"].iloc[trainable(p)]]
        lengths |= {name: views[p.name].length(name.record) for name in names if choose(name)}
    guard(lengths)
    for dataset, view in views.items():
        view.fill(
            [
                name.record
                for name in lengths
                if name.dataset == dataset and lengths[name] >= contract.samples
            ],
            progress,
        )

    def read(name: Name) -> np.ndarray:
        return normalise(views[name.dataset].get(name.record), contract.normalisation)

    return Corpus(guard, lengths, read, kept, contract=contract)


def demand_some(recordings: int, short: int, contract: InputContract) -> None:
    """BadSetting where there is no recording to pre-train on."""
    if not recordings:
        raise BadSetting(
            f"no recording of at least {contract.seconds:g} s to pre-train on "
            f"({short} are shorter); give others"
        )


def sound(name: Name, signal: np.ndarray, samples: int) -> np.ndarray:
    """The recording, if it can be trusted; float32 may round 1 up."""
    if signal.shape != (len(LEADS), samples) or not (np.abs(signal) <= 1 + 1e-6).all():
        raise BadSetting(
            f"record {name.record!r} of {name.dataset!r}: {signal.shape} with values outside [-1, "
            f"1] or not finite; "
            f"give (12, {samples}) normalised per lead (ecgbench.ecg.preprocess.normalise)"
        )
    return signal
