"""The records of a dataset that a run uses: all, or a seeded selection of `--limit N` in the
proportion of the splits.

The selection is drawn from the published index, so it is known before a signal is read. An
unreadable record is replaced by the next one in the drawn order of its split; the sizes of the
splits and the order stay. A record that is not selected changes nothing. So the selection does not
depend on which records were read before. A split with too few readable records gives fewer.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from ecgbench.cards.plan import FLAT_LEADS, SUSPECT_LEADS
from ecgbench.core.division import OFFICIAL
from ecgbench.core.seeds import rng
from ecgbench.data.copy import Copy
from ecgbench.data.reading import digest
from ecgbench.data.splits import divided, splits_of
from ecgbench.errors import BadSetting
from ecgbench.stats.known import UNKNOWN

SPLITS = ("train", "val", "test")
_COLUMN = {FLAT_LEADS: "flat", SUSPECT_LEADS: "found"}
"""Kind of excludable records -> column of the prepared index that marks them."""
LEAST_PERMUTED = 10
"""Smallest group of patients that permute among themselves, where there are as many."""


@dataclass(frozen=True, eq=False)
class Selection:
    """The records of one dataset that a run uses."""

    prepared: Copy
    limit: int | None
    exclude: tuple[str, ...] = ()
    """Kinds of records (`cells.EXCLUDABLE`) to leave out of the selection."""
    fold: str = OFFICIAL
    """Fold of a cross-validation, "2/5": all folds have the same records and other splits."""
    dealt: np.ndarray | None = None
    """(record,) the fold in which each used record is tested."""
    permutation: int | None = None
    """Of a control: the number of the permutation of labels among patients (`permuted`)."""
    few: tuple[int, int] | None = None
    """Number of patients whose labels training sees, and their draw; None: of all."""

    @cached_property
    def index(self) -> pd.DataFrame:
        """Rows of the prepared index that are used; the row numbers are positions in the prepared
        copy.
        """
        index = self._selected
        for kind in self.exclude:
            index = index[index[_COLUMN[kind]] == ""]
        if self.permutation is not None:
            index = permuted(index, self.prepared.name, self.permutation)
        if self.dealt is not None:
            index = index.assign(split=splits_of(self.dealt, self.fold))
        if self.few is not None:
            index = only_labelled(index, self.prepared.name, *self.few)
        return index

    def crossed(self, folds: Sequence[str]) -> "dict[str, Selection]":
        """The same records in each of these folds: "official", or a fold of a cross-validation over
        patients.
        """
        own, several = self.prepared, [f for f in folds if f != OFFICIAL]
        if not several:
            return {OFFICIAL: self}
        index = replace(self, few=None).index
        dealt = divided(own, index, several[0])
        return {f: self if f == OFFICIAL else replace(self, fold=f, dealt=dealt) for f in folds}

    @cached_property
    def _selected(self) -> pd.DataFrame:
        index = self.prepared.index
        if self.limit is None:
            return index
        return index[index["record"].isin(selected(self.prepared, self.limit))]

    @property
    def left_out(self) -> dict[str, int]:
        """Kind of record -> number of selected records that are left out for it."""
        return {kind: int((self._selected[_COLUMN[kind]] != "").sum()) for kind in self.exclude}

    def of(self, split: str) -> pd.DataFrame:
        """The used records of one split."""
        return self.index[self.index["split"] == split]

    @cached_property
    def digest(self) -> str:
        """sha256 over the signals, patients, splits and labels of the used records; that of the
        prepared copy where all are used.
        """
        return digest(self.index)

    @cached_property
    def tested(self) -> str:
        """sha256 over the records, signals and patients of its test split."""
        return _digest(self.of("test")[["record", "sha256", "patient"]])

    @cached_property
    def signals(self) -> str:
        """sha256 over the used records in order and their signals, from which features are
        computed.
        """
        return _digest(self.index[["record", "sha256"]])

    def labelled(self, columns: list[str]) -> str:
        """sha256 over the used records and their labels in `columns`, from which scores are
        computed.
        """
        return _digest(self.index[["record", "sha256", "patient", "split", *columns]])


def _digest(table: pd.DataFrame) -> str:
    total = hashlib.sha256("\n".join(table.columns).encode())
    for row in table.itertuples(index=False):
        total.update(json.dumps([str(v) for v in row]).encode())
    return total.hexdigest()


def selected(prepared: Copy, limit: int | None) -> list[str]:
    """The published records of a run with `limit`, prepared or not, without those that are left
    out.
    """
    published = prepared.published
    usable = ~published["record"].isin(prepared.left_out["record"])
    if limit is None or limit >= len(published):
        return list(published.loc[usable, "record"])
    tasks = sorted(prepared.card.tasks, key=lambda t: len(t.labels))
    whole = {label for t in tasks if not t.masked for label in t.labels}
    # a task that masks the labels of another adds no positive, and must not move its selection
    tasks = [t for t in tasks if not (t.masked and whole.issuperset(t.labels))]
    labels = [c for t in tasks for c in t.columns]
    counts = {str(s): int(n) for s, n in published["split"].value_counts().items()}
    chosen: list[str] = []
    for split, quota in quotas_of(counts, limit).items():
        own = published[published["split"] == split]
        order = own.iloc[rng("limit", prepared.name, split).permutation(len(own))]
        order = order[usable[order.index]]
        chosen += order["record"].iloc[_choose(order[labels].to_numpy(), quota)].tolist()
    return chosen


def quotas_of(sizes: dict[str, int], limit: int) -> dict[str, int]:
    """Records per split, `limit` in all: proportional by largest remainder, at least one of each.

    >>> quotas_of({"train": 1598, "val": 200, "test": 202}, 60)
    {'train': 48, 'val': 6, 'test': 6}
    >>> quotas_of({"train": 120, "val": 20, "test": 40}, 3)
    {'train': 1, 'val': 1, 'test': 1}
    """
    total = sum(sizes.values())
    exact = {s: limit * sizes[s] / total for s in SPLITS if sizes.get(s)}
    quotas = {s: max(1, int(x)) for s, x in exact.items()}
    for s in sorted(exact, key=lambda s: int(exact[s]) - exact[s]):
        if sum(quotas.values()) < limit:
            quotas[s] += 1
    while sum(quotas.values()) > max(limit, len(quotas)):
        quotas[max(quotas, key=quotas.__getitem__)] -= 1
    return quotas


def _choose(values: np.ndarray, quota: int) -> list[int]:
    """Rows of `quota` records of (record, label) in drawn order: first a positive and a negative of
    every label (tasks with few labels first), then the first ones.
    """
    chosen: list[int] = []
    for column in values.T:
        for value in (1, 0):
            having = np.flatnonzero(column == value)
            if len(having) and len(chosen) < quota and not np.isin(having, chosen).any():
                chosen.append(int(having[0]))
    rest = np.setdiff1d(np.arange(len(values)), chosen)
    return [*chosen, *map(int, rest)][:quota]


def permuted(index: pd.DataFrame, *words: str | int) -> pd.DataFrame:
    """The index with its label columns (`task:label`) permuted among the patients of each split.

    Patients with equally many records exchange the labels of all of them. Where fewer than
    LEAST_PERMUTED have a number of records, they exchange with patients who have fewer: their rows
    of labels are laid end to end, so that some patient's rows go to two others. Every split keeps
    its rows of labels, and so the number of positives of each label.
    """
    columns = [c for c in index.columns if ":" in c]
    labels = index[columns].to_numpy()
    dealt = labels.copy()
    for split in dict.fromkeys(index["split"]):
        there = np.flatnonzero((index["split"] == split).to_numpy())
        patients = pd.Series(index["patient"].astype(str).to_numpy()[there])
        rows = {str(p): there[at] for p, at in patients.groupby(patients).indices.items()}
        for group in _groups({p: len(own) for p, own in rows.items()}):
            order = rng("permuted labels", *words, split, len(rows[group[0]])).permutation(group)
            takes = np.concatenate([rows[p] for p in group])
            gives = np.concatenate([rows[p] for p in order])
            dealt[takes] = labels[gives]
    return index.assign(**{c: dealt[:, i] for i, c in enumerate(columns)})


def only_labelled(index: pd.DataFrame, name: str, number: int, draw: int) -> pd.DataFrame:
    """The index with the labels of `number` patients of training and validation; those of the
    others are not known. The patients of a smaller number are among those of a larger one.

    BadSetting where there are fewer patients.
    """
    learned = index["split"] != "test"
    patients = sorted(set(index.loc[learned, "patient"].astype(str)))
    if number > len(patients):
        raise BadSetting(
            f"--labels-used {number}: {name} has {len(patients):,} patients in training and "
            f"validation; give fewer, or all"
        )
    chosen = rng("labels used", name, draw).permutation(patients)[:number]
    unknown = learned & ~index["patient"].astype(str).isin(chosen)
    columns = [c for c in index.columns if ":" in c]
    return index.assign(**{c: index[c].mask(unknown, UNKNOWN) for c in columns})


def _groups(counts: dict[str, int]) -> list[list[str]]:
    """Patients in groups, those with most records first; each group of one number of records, or
    of several where one has too few patients.

    >>> _groups({"a": 1, "b": 1, "c": 2})
    [['c', 'a', 'b']]
    """
    groups: list[list[str]] = [[]]
    for number in sorted(set(counts.values()), reverse=True):
        groups[-1] += sorted(p for p, n in counts.items() if n == number)
        if len(groups[-1]) >= LEAST_PERMUTED:
            groups.append([])
    if groups[1:]:
        groups[-2:] = [groups[-2] + groups[-1]]
    return groups
