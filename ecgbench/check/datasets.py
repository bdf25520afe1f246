"""What every dataset keeps, tried on its prepared copy."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ecgbench import datasets
from ecgbench.check._properties import demand, tried
from ecgbench.data import facts
from ecgbench.data.copy import Copy
from ecgbench.data.duplicates import identical
from ecgbench.data.prepare import prepare
from ecgbench.data.reading import digest
from ecgbench.data.select import SPLITS
from ecgbench.data.source import root_of, rows
from ecgbench.data.splits import ours, split_digest
from ecgbench.datasets.indexing.folds import STRATA, dealt_again, splits
from ecgbench.ecg.leads import LEADS, LeadSubset
from ecgbench.stats.known import UNKNOWN, known_of

SAMPLE = 20
"""Records read for the properties of signals."""


def check(
    name: str, data: Path | None = None, prepared: Path | None = None
) -> list[dict[str, Any]]:
    """Prepare the dataset called `name` if it must be, and try every property: rows of name, ok,
    detail.
    """
    name = datasets.resolve(name)
    store = prepare(name, data, prepared)
    root = root_of(name, store.card, data)
    return tried(properties(root), store)


def properties(root: Path | None) -> Iterator[tuple[str, Callable[[Copy], str]]]:
    """The properties of a dataset, by name; `root`: its files as published."""
    yield "records are unique and every split has some", records
    yield "no patient is in two splits", patients
    yield "the split is stored with a digest, and folds of ours can be dealt again", split
    yield "no signal is in two splits", signals
    yield "labels are 0 or 1, -1 only in masked tasks, and every task has its columns", labels
    yield "labels without both values in validation or test are listed", one_valued
    yield "evaluation-only tasks are columns of their parent", parents
    yield "recordings are twelve leads in clinical order, finite", recordings
    yield "the prepared copy is what the reader reads", partial(faithful, root=root)


def records(store: Copy) -> str:
    """Record ids are unique; train, val and test are there, or train alone where nothing is
    tested.
    """
    index, sizes = store.index, store.index["split"].value_counts()
    demand(index["record"].is_unique, "a record is there twice")
    wanted = set(SPLITS) if store.card.tasks else {"train"}
    demand(set(sizes.index) == wanted, f"splits are {sorted(sizes.index)}")
    return ", ".join(f"{n} {s}" for s, n in sizes.items())


def patients(store: Copy) -> str:
    """Splits are disjoint in patients."""
    splits = store.index.groupby("patient")["split"].nunique()
    shared = int((splits > 1).sum())
    demand(not shared, f"{shared} patients are in several splits")
    return f"{len(splits)} patients"


def split(store: Copy) -> str:
    """What is stored is what the digest of the copy was made of; folds that are ours follow from
    the index, so that another number of them can be asked for.
    """
    demand(digest(store.index) == store.digest, "the index is not what its digest was made of")
    published = store.published
    if STRATA in published:
        demand(ours(store.card), f"its card says {store.card.splits!r}, its folds are ours")
        fold = dealt_again(store.card.folder, published, store.card.folds)
        same = (splits(fold) == published["split"]).all()
        demand(bool(same), f"{store.card.folds} folds dealt again give another split")
    return f"{split_digest(published)[:16]}, {store.card.splits}"


def one_valued(store: Copy) -> str:
    """Labels that validation or test cannot score; they are left out of means, and named."""
    said = [
        f"{task.name}: {name} lacks both values of {', '.join(lost)}"
        for task in store.tasks
        for name, lost in facts.one_valued(store, task).items()
    ]
    return "; ".join(said) or "none"


def signals(store: Copy) -> str:
    """No two splits hold the same samples, bit for bit, under whatever names."""
    groups = identical(store)
    crossing = [group for group in groups if len({place.split for place in group}) > 1]
    named = "; ".join(" = ".join(f"{p.record} ({p.split})" for p in g) for g in crossing[:3])
    demand(not crossing, f"{len(crossing)} signals are in several splits: {named}")
    return f"{len(groups)} signals are there twice within a split" if groups else "all differ"


def labels(store: Copy) -> str:
    """Every task's columns exist and hold 0 and 1 only, and -1, unknown, where the task is masked;
    every label is known of some record.
    """
    told = []
    for task in store.card.tasks:
        lacking = [c for c in task.columns if c not in store.index]
        demand(not lacking, f"{task.name}: no column {', '.join(lacking[:3])}")
        held = store.index[task.columns].to_numpy()
        unknown = held == UNKNOWN
        demand(
            task.masked or not unknown.any(), f"{task.name}: a label is -1, and it is not masked"
        )
        valid = (unknown | np.isin(held, [0, 1])).all()
        demand(valid, f"{task.name}: a label is neither 0 nor 1")
        never = [n for n, k in zip(task.labels, known_of(held)) if not k]
        demand(not never, f"{task.name}: {', '.join(never[:3])} is known of no record")
        share = f" ({unknown.mean():.0%} unknown)" if task.masked else ""
        told.append(f"{task.name} {len(task.labels)}{share}")
    return ", ".join(told) or "none"


def parents(store: Copy) -> str:
    """Labels of an evaluation-only task are among its parent's."""
    children = []
    for task in store.card.tasks:
        if task.parent:
            known = set(store.card.task(task.parent).labels)
            demand(set(task.labels) <= known, f"{task.name} has a label its parent lacks")
            children.append(task.name)
    return ", ".join(children) or "none"


def recordings(store: Copy) -> str:
    """A sample of recordings has finite leads in clinical order at a positive rate: all twelve,
    unless the card says that a dataset has fewer.
    """
    fewer = store.card.any_leads or not set(LEADS) <= set(store.card.leads)
    for row in _sample(store):
        record, recording = row["record"], store.recording(row["record"])
        told = LeadSubset.from_bits(int(row["available"])).leads
        demand(recording.leads == told, f"{record}: leads {recording.leads}, told {told}")
        demand(fewer or told == LEADS, f"{record}: leads {recording.leads}")
        demand("+".join(recording.flat()) == row["flat"], f"{record}: flat leads")
    return f"{len(_sample(store))} read"


def faithful(store: Copy, root: Path | None) -> str:
    """The store restores what the dataset's reader gives: exactly where steps of 1 uV do, else to
    1/65534 of a lead's largest value.
    """
    worst = 0.0
    for row in _sample(store):
        original = datasets.get(store.name).read(root, row).completed().clinical()
        stored = store.recording(row["record"])
        for fact in ("record", "patient", "fs"):
            same = getattr(original, fact) == getattr(stored, fact)
            demand(same, f"{row['record']}: record, patient or rate differ")
        difference = np.abs(original.signal - stored.signal).max(axis=1)
        largest = np.abs(original.signal).max(axis=1, initial=1e-9)
        worst = max(worst, float((difference / largest).max()))
    limit = 1 / 65534 + np.finfo(np.float32).eps
    demand(worst <= limit, f"samples differ by {worst:.2g} of a lead's largest value")
    return f"largest difference {worst:.1e} of a lead's largest value"


def _sample(store: Copy) -> list[dict[str, Any]]:
    every = max(1, len(store.index) // SAMPLE)
    return list(rows(store.index.iloc[::every]))[:SAMPLE]
