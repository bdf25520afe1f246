"""The recordings that pre-training sees, and the guard that nothing passes on its way into a batch.
`Corpus` holds them in memory; `streamed.Streamed` reads them from shards on disk.

PTB-XL's folds 9 and 10 are the benchmark's validation and test split. The same recordings are also
part of the PhysioNet Challenge 2020/21, as HR00001 ... HR21837, so a name alone, not a dataset,
tells whether a recording is one of them.
"""

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ecgbench.cards import InputContract
from ecgbench.ecg.leads import ALL, LEADS
from ecgbench.ecg.preprocess import normalise
from ecgbench.errors import BadSetting, LeakError
from ecgbench.prepared.prepare import Prepared, Progress
from ecgbench.prepared.views import View
from ecgbench.pretraining import order
from ecgbench.seeds import rng

PTBXL = "ptbxl"
TRAINING_FOLDS = range(1, 9)

_CHALLENGE = re.compile(r"(?:^|/)hr(\d+)|(?<![a-z0-9])hr(\d{5})(?!\d)", re.IGNORECASE)
"""HR00123, wherever it stands in a name; HR123 at its beginning. patient_HR_72 is a user's own."""
_PUBLISHED = re.compile(
    r"(?:^|/)(\d+)_[hl]r(?:\.\w+)?$|(?:^|/)records[15]00/(?:.*/)?(\d+)[^/]*$", re.IGNORECASE
)
"""00123_hr, records500/00000/00123_hr.dat: PhysioNet's file names of PTB-XL, under any dataset."""
_OWN = re.compile(r"(?:^|/)(\d+)(?:\.\w+)?$")
"""00123, 123: an ecg_id, if the dataset is PTB-XL."""
_AT_ONCE = 2**20
"""Names of a training split that records are compared with at a time."""
_PERHAPS = "hr|_[hl]r|00/"
"""Stands in every name that one of the first two finds, and can be looked for in all at once."""


class Name(NamedTuple):
    """A recording."""

    dataset: str
    record: str


class Guard:
    """Raises at any recording that must not enter training; what made it pass once is remembered by
    name.
    """

    def __init__(self, training: Mapping[str, Collection[str]], folds: Mapping[int, int]) -> None:
        """training: dataset -> the records of its training split; folds: ecg_id -> strat_fold of
        PTB-XL, see `folds_of`.
        """
        self._given = dict(training)
        self._training: dict[str, frozenset[str]] = {}
        self._folds = dict(folds)
        self._passed: set[Name] = set()

    @classmethod
    def of(cls, prepared: Sequence[Prepared], ptbxl: pd.DataFrame | None = None) -> "Guard":
        """The guard of prepared datasets.

        ptbxl: the index of PTB-XL (`datasets.ptbxl.index`), needed where its recordings come under
        Challenge names from another dataset; without it the index of the prepared PTB-XL, if there
        is one.
        """
        splits = {p.name: p.columns("record", "split") for p in prepared}
        # as columns, which take a tenth of so many objects
        training = {n: t.loc[t["split"] == "train", "record"].array for n, t in splits.items()}
        indices = [p.index for p in prepared if p.name == PTBXL] if ptbxl is None else [ptbxl]
        return cls(training, {k: v for index in indices for k, v in folds_of(index).items()})

    def __call__(self, names: Iterable[Name]) -> None:
        """LeakError at the first recording of PTB-XL that is not known to be of folds 1-8, or not
        of its dataset's training split.
        """
        for name in names:
            if name not in self._passed:
                self._check(name)
                self._passed.add(name)

    def ask(self, dataset: str, records: pa.ChunkedArray) -> None:
        """The same of many records (text) of one dataset, without an object for each of them;
        nothing is remembered.
        """
        records = records.cast(pa.large_string())
        looked_at = pc.invert(self._known(dataset, records))
        if not _is_ptbxl(dataset):
            named = pc.match_substring_regex(records, _PERHAPS, ignore_case=True)
            records = records.filter(pc.or_(looked_at, named))
        for record in records:
            self._check(Name(dataset, record.as_py()))

    def _known(self, dataset: str, records: pa.ChunkedArray) -> pa.ChunkedArray:
        """Whether each record is of the training split."""
        given = self._given.get(dataset, ())
        if not hasattr(given, "__arrow_array__"):  # a set, which Arrow does not read
            given = pd.array(list(given), dtype="str")
        found = pc.is_in(records, value_set=pa.array([], pa.large_string()))
        # a table of all of millions would take a gigabyte
        for first in range(0, len(given), _AT_ONCE):
            part = pa.array(given[first : first + _AT_ONCE]).cast(pa.large_string())
            found = pc.or_(found, pc.is_in(records, value_set=part))
        return found

    def _check(self, name: Name) -> None:
        record = f"record {name.record!r} of {name.dataset!r}"
        if is_ptbxl(name):
            ecg_id = ecg_id_of(name)
            fold = None if ecg_id is None else self._folds.get(ecg_id)
            if fold is None:
                raise LeakError(
                    f"{record} is of PTB-XL and its fold is not known, so it may be one of the "
                    f"test split; "
                    "give the index of PTB-XL (--data DIR that holds ptbxl/), or leave it out of "
                    "pre-training"
                )
            if fold not in TRAINING_FOLDS:
                raise LeakError(
                    f"{record} is ecg_id {ecg_id} of PTB-XL's fold {fold}, which only evaluation "
                    f"may see; pre-train on folds 1-8"
                )
        if name.dataset not in self._training:
            self._training[name.dataset] = frozenset(self._given.get(name.dataset, ()))
        if name.record not in self._training[name.dataset]:
            raise LeakError(f"{record} is not of a training split; pre-training may see no other")


def folds_of(index: pd.DataFrame) -> dict[int, int]:
    """ecg_id -> strat_fold (1-10) from the index of PTB-XL."""
    return {int(record): int(fold) for record, fold in zip(index["record"], index["fold"])}


def is_ptbxl(name: Name) -> bool:
    """Whether a recording is one of PTB-XL's by its dataset, its Challenge name or PhysioNet's
    path.

    >>> names = "HR00123", "g1/hr00123.mat", "A0123", "JS10647"
    >>> [is_ptbxl(Name("challenge2021", name)) for name in names]
    [True, True, False, False]
    """
    found = (p.search(name.record) for p in (_CHALLENGE, _PUBLISHED))
    return _is_ptbxl(name.dataset) or any(found)


def _is_ptbxl(dataset: str) -> bool:
    return PTBXL in re.sub(r"[^a-z0-9]", "", dataset.lower())


def ecg_id_of(name: Name) -> int | None:
    """ecg_id of a recording of PTB-XL under any of its names; None where the name tells none, or
    tells two.

    >>> names = "00123", "123", "HR00123", "records500/00000/00123_hr", "first"
    >>> [ecg_id_of(Name("ptbxl", name)) for name in names]
    [123, 123, 123, 123, None]
    """
    numbers = {
        int(number)
        for p in (_CHALLENGE, _PUBLISHED, _OWN)
        for match in p.finditer(name.record)
        for number in match.groups()
        if number
    }
    return numbers.pop() if len(numbers) == 1 else None


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


def trainable(prepared: Prepared) -> np.ndarray:
    """Rows of the training split with all leads: every sample of each is a target."""
    index = prepared.columns("split", "available")
    return np.flatnonzero((index["split"] == "train") & (index["available"] == ALL.bits))


def gather(
    prepared: Sequence[Prepared],
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
