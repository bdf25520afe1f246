"""Which recordings may enter pre-training: `Exclusion` leaves out what evaluation may see, under
whatever name it comes; `hold_out` takes patients out of the training split who only compare
encoders; and `LeakCheck`, which every corpus passes, raises at a recording that must not be there.

PTB-XL's folds 9 and 10 are the benchmark's validation and test split. The same recordings are also
part of the PhysioNet Challenge 2020/21, as HR00001 ... HR21837, so a name alone, not a dataset,
tells whether a recording is one of them.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

import numpy as np
import pandas as pd

from ecgbench.core.seeds import seed_of
from ecgbench.data.contamination import EXAMS, told_by
from ecgbench.data.copy import Copy, Progress
from ecgbench.data.duplicates import pairs
from ecgbench.datasets.indexing.tables import alike
from ecgbench.errors import BadSetting, LeakError

PTBXL = "ptbxl"
TRAINING_FOLDS = range(1, 9)
HELD_OUT = "apart"
"""Name of the split of patients who only compare encoders."""
SAME_PATIENT = {"id": "id", "patient": "patient", "exam": "patient", "sha256": "signal"}
"""What joins two recordings to one patient -> why one of them is left out."""

_CHALLENGE = re.compile(r"(?:^|/)hr(\d+)|(?<![a-z0-9])hr(\d{5})(?!\d)", re.IGNORECASE)
"""HR00123, wherever it stands in a name; HR123 at its beginning. patient_HR_72 is a user's own."""
_PUBLISHED = re.compile(
    r"(?:^|/)(\d+)_[hl]r(?:\.\w+)?$|(?:^|/)records[15]00/(?:.*/)?(\d+)[^/]*$", re.IGNORECASE
)
"""00123_hr, records500/00000/00123_hr.dat: PhysioNet's file names of PTB-XL, under any dataset."""
_OWN = re.compile(r"(?:^|/)(\d+)(?:\.\w+)?$")
"""00123, 123: an ecg_id, if the dataset is PTB-XL."""


class Name(NamedTuple):
    """A recording."""

    dataset: str
    record: str


class LeakCheck:
    """Raises at any recording that must not enter training."""

    def __init__(self, training: Mapping[str, Collection[str]], folds: Mapping[int, int]) -> None:
        """training: dataset -> the records of its training split; folds: ecg_id -> strat_fold of
        PTB-XL, see `folds_of`.
        """
        self._training = {dataset: frozenset(records) for dataset, records in training.items()}
        self._folds = dict(folds)

    @classmethod
    def of(cls, prepared: Sequence[Copy], ptbxl: pd.DataFrame | None = None) -> "LeakCheck":
        """The check of prepared datasets.

        ptbxl: the index of PTB-XL (`datasets.ptbxl.index`), needed where its recordings come under
        Challenge names from another dataset; without it the index of the prepared PTB-XL, if there
        is one.
        """
        training = {p.name: p.index.loc[p.index["split"] == "train", "record"] for p in prepared}
        indices = [p.index for p in prepared if p.name == PTBXL] if ptbxl is None else [ptbxl]
        return cls(training, {k: v for index in indices for k, v in folds_of(index).items()})

    def __call__(self, names: Iterable[Name]) -> None:
        """LeakError at the first recording of PTB-XL that is not known to be of folds 1-8, or not
        of its dataset's training split.
        """
        for name in names:
            record = f"record {name.record!r} of {name.dataset!r}"
            if is_ptbxl(name):
                self._check_fold(name, record)
            if name.record not in self._training.get(name.dataset, ()):
                raise LeakError(
                    f"{record} is not of a training split; pre-training may see no other"
                )

    def _check_fold(self, name: Name, record: str) -> None:
        ecg_id = ecg_id_of(name)
        fold = None if ecg_id is None else self._folds.get(ecg_id)
        if fold is None:
            raise LeakError(
                f"{record} is of PTB-XL and its fold is not known, so it may be one of the test "
                f"split; give the index of PTB-XL (--data DIR that holds ptbxl/), or leave it out "
                f"of pre-training"
            )
        if fold not in TRAINING_FOLDS:
            raise LeakError(
                f"{record} is ecg_id {ecg_id} of PTB-XL's fold {fold}, which only evaluation may "
                f"see; pre-train on folds 1-8"
            )


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
    dataset = re.sub(r"[^a-z0-9]", "", name.dataset.lower())
    return PTBXL in dataset or any(found)


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


class Exclusion:
    """Says of each training recording whether it may be used, and counts why others may not.

    Out is every recording of a patient who is in a validation or test split, or set apart, of any
    of the copies. Recordings are of one patient where they have the same patient or exam in one
    dataset, or in datasets with common numbers (`contamination.EXAMS`); the same ecg_id of PTB-XL;
    the very same samples (hash of what is stored); or where a search found them to be one. Whoever
    is joined by several of these is one patient too.

    The check of the corpus still looks at all that are left, and raises where PTB-XL's own index is
    at odds with its folds.
    """

    def __init__(self, prepared: Sequence[Copy], same: Iterable[tuple[Name, Name]] = ()) -> None:
        """same: recordings that are one under two names, see `same_recordings`."""
        self.reasons: Counter[str] = Counter()
        """"id", "patient", "signal" -> recordings left out."""
        rows = pd.concat(map(_identities, prepared), ignore_index=True)
        why = _why_out(rows, [*same])
        named = zip(rows["dataset"], rows["record"], why)
        self._out = {Name(dataset, record): reason for dataset, record, reason in named if reason}

    def __call__(self, name: Name) -> bool:
        """Whether a recording may enter pre-training."""
        reason = self._out.get(name)
        if reason is not None:
            self.reasons[reason] += 1
        return reason is None


def _identities(copy: Copy) -> pd.DataFrame:
    """A row per published record: dataset, record, out (whether only evaluation may see it) and a
    column per key of SAME_PATIENT, NaN where it has none.
    """
    published = copy.published
    out = published["split"] != "train"
    if copy.name == PTBXL:
        out |= ~published["fold"].isin(TRAINING_FOLDS)
    family, exam = copy.name, pd.Series(np.nan, published.index, object)
    if copy.name in EXAMS:
        family, exam = "CODE", published[EXAMS[copy.name]].map(alike)
    names = [Name(copy.name, record) for record in published["record"]]
    stored = dict(zip(copy.index["record"], copy.index["sha256"]))
    return pd.DataFrame(
        {
            "dataset": copy.name,
            "record": published["record"],
            "out": out,
            "patient": f"{family}/" + published["patient"].map(alike),
            "exam": exam,
            "id": [ecg_id_of(name) if is_ptbxl(name) else None for name in names],
            "sha256": published["record"].map(stored),
        }
    )


def _why_out(rows: pd.DataFrame, same: Sequence[tuple[Name, Name]]) -> np.ndarray:
    """(row,) of SAME_PATIENT or "signal": what joins a training recording to one that is out; ""
    where nothing does, and for those that were out before.
    """
    codes = {key: pd.factorize(rows[key])[0] for key in SAME_PATIENT}
    pairs = _places(rows, same)
    why, out = np.full(len(rows), "", object), rows["out"].to_numpy(bool)
    fresh = out
    while fresh.any():
        for key, reason in SAME_PATIENT.items():
            held = np.zeros(codes[key].max(initial=-1) + 2, bool)
            held[codes[key][fresh]] = True
            held[-1] = False  # the code of no value is -1
            why[held[codes[key]] & ~out & (why == "")] = reason
        for here, there in (pairs, pairs[::-1]):
            met = there[fresh[here]]
            why[met[~out[met] & (why[met] == "")]] = "signal"
        fresh = (why != "") & ~out
        out = out | fresh
    return why


def _places(rows: pd.DataFrame, same: Sequence[tuple[Name, Name]]) -> np.ndarray:
    """(2, pair) rows of both recordings."""
    wanted = {name for pair in same for name in pair}
    named = enumerate(zip(rows["dataset"], rows["record"]))
    place = {name: row for row, name in named if name in wanted}
    return np.array([[place[one], place[two]] for one, two in same], int).reshape(-1, 2).T


def same_recordings(
    corpora: Sequence[Copy],
    others: Sequence[Copy],
    progress: Callable[[str], AbstractContextManager[Progress]],
) -> list[tuple[Name, Name]]:
    """Recordings that are one under two names, of those copies that may have patients in common
    whom only their signals tell: every recording of a corpus is read, and of another dataset those
    that are not for training. progress: what is done -> who counts.
    """
    met = [copy for copy in corpora if any(_to_search(copy, o) for o in (*corpora, *others))]
    for copy in others:
        if any(_to_search(copy, corpus) for corpus in corpora):
            tested = copy.index[copy.index["split"] != "train"].reset_index(drop=True)
            met.append(copy.divided(copy.published, tested, copy.division))
    if not met:
        return []
    found = pairs(met, within=False, progress=progress)
    names = found[["dataset", "record", "other dataset", "other record"]]
    return [(Name(a, b), Name(c, d)) for a, b, c, d in names.itertuples(index=False)]


def _to_search(one: Copy, other: Copy) -> bool:
    how = told_by((one.name, one.card.title), (other.name, other.card.title))
    return how == "signal" or (how == "?" and not (one.card.synthetic or other.card.synthetic))


def hold_out(copy: Copy, part: int) -> Copy:
    """The copy with one in `part` patients of its training split in a split of their own. Who they
    are follows from the name of the dataset and of the patient, so they are the same in any part of
    the dataset and under every seed.

    BadSetting where nobody is apart, or nobody is left.
    """

    def moved(patient: object) -> bool:
        return seed_of("compares encoders", copy.name, alike(patient)) % part == 0

    published = copy.published
    trained = published["split"] == "train"
    chosen = {p for p in published.loc[trained, "patient"].unique() if moved(p)}
    out = trained & published["patient"].isin(chosen)
    if not out.any() or not (trained & ~out).any():
        raise BadSetting(
            f"one in {part} of the {published.loc[trained, 'patient'].nunique():,} training "
            f"patients of {copy.name} to compare encoders: that leaves a split empty; name another "
            f"number (--set held_out), or compare on the validation split: --set held_out=0"
        )
    split = published["split"].mask(out, HELD_OUT)
    rows = published["record"].searchsorted(copy.index["record"])
    index = copy.index.assign(split=split.to_numpy()[rows])
    division = f"one in {part} of its training patients only compare encoders"
    words = "; ".join(filter(None, (copy.division, division)))
    return copy.divided(published.assign(split=split), index, words)
