"""Properties of every dataset, checked on its prepared copy."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ecgbench import datasets
from ecgbench.check._properties import demand, tried
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
) -> Iterator[dict[str, Any]]:
    """Prepare the dataset called `name` if it must be, and try every property: rows of name, ok,
    detail.
    """
    name = datasets.resolve(name)
    store = prepare(name, data, prepared)
    root = root_of(name, store.card, data)
    return tried(properties(root), store)


def properties(root: Path | None) -> Iterator[tuple[str, Callable[[Copy], str]]]:
    """The properties of a dataset, by name; `root`: its files as published."""
    yield "every split has records", records
    yield "the split is stored with a digest, and folds of ours can be dealt again", split
    yield "no signal is in two splits", signals
    yield "labels are known, and evaluation-only tasks are columns of their parent", labels
    yield "recordings are twelve leads in clinical order, finite", recordings
    yield "the prepared copy is what the reader reads", partial(faithful, root=root)


def records(store: Copy) -> str:
    """Train, val and test are there, or train alone where nothing is tested."""
    sizes, patients = store.index["split"].value_counts(), store.index["patient"].nunique()
    wanted = set(SPLITS) if store.card.tasks else {"train"}
    demand(set(sizes.index) == wanted, f"splits are {sorted(sizes.index)}")
    return f"{', '.join(f'{n} {s}' for s, n in sizes.items())}, of {patients} patients"


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


def signals(store: Copy) -> str:
    """No two splits hold the same samples, bit for bit, under whatever names."""
    groups = identical(store)
    crossing = [group for group in groups if len({entry.split for entry in group}) > 1]
    named = "; ".join(" = ".join(f"{p.record} ({p.split})" for p in g) for g in crossing[:3])
    demand(not crossing, f"{len(crossing)} signals are in several splits: {named}")
    return f"{len(groups)} signals are there twice within a split" if groups else "all differ"


def labels(store: Copy) -> str:
    """Every label is known of some record; those of an evaluation-only task are its parent's."""
    found = []
    for task in store.card.tasks:
        parent = store.card.task(task.parent) if task.parent else task
        demand(set(task.labels) <= set(parent.labels), f"{task.name} has a label its parent lacks")
        target = store.index[task.columns].to_numpy()
        never = [n for n, k in zip(task.labels, known_of(target)) if not k]
        demand(not never, f"{task.name}: {', '.join(never[:3])} is known of no record")
        share = f" ({(target == UNKNOWN).mean():.0%} unknown)" if task.masked else ""
        found.append(f"{task.name} {len(task.labels)}{share}")
    return ", ".join(found) or "none"


def recordings(store: Copy) -> str:
    """A sample of recordings has finite leads in clinical order at a positive rate: all twelve,
    unless the card says that a dataset has fewer.
    """
    fewer = store.card.any_leads or not set(LEADS) <= set(store.card.leads)
    for row in _sample(store):
        record, recording = row["record"], store.recording(row["record"])
        indexed = LeadSubset.from_bits(int(row["available"])).leads
        same = recording.leads == indexed and (fewer or indexed == LEADS)
        demand(same, f"{record}: leads {recording.leads}, in the index {indexed}")
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
