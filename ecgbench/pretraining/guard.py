"""The guard that every recording passes on its way into a batch of pre-training.

PTB-XL's folds 9 and 10 are the benchmark's validation and test split. The same recordings are also
part of the PhysioNet Challenge 2020/21, as HR00001 ... HR21837, so a name alone, not a dataset,
tells whether a recording is one of them.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ecgbench.data.copy import Copy
from ecgbench.errors import LeakError

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
    def of(cls, prepared: Sequence[Copy], ptbxl: pd.DataFrame | None = None) -> "Guard":
        """The guard of prepared datasets.

        ptbxl: the index of PTB-XL (`datasets.ptbxl.index`), needed where its recordings come under
        Challenge names from another dataset; without it the index of the prepared PTB-XL, if there
        is one.
        """
        splits = {p.name: p.index[["record", "split"]] for p in prepared}
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
        given: Any = self._given.get(dataset, ())
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
