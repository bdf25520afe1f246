"""The number of records of a dataset, whether it is prepared, downloaded or only described by its
card.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ecgbench import datasets
from ecgbench.core.division import Division
from ecgbench.data.prepare import find, seen
from ecgbench.data.select import SPLITS, Selection, quotas_of
from ecgbench.errors import BadRecord, MissingData

PUBLISHED = {"train": 0.8, "val": 0.1, "test": 0.1}
"""Shares of the splits where a dataset is not on this machine."""
DOWNLOADED = "downloaded"
SOURCES = {
    "prepared": "",
    DOWNLOADED: "not prepared yet; ",
    "absent": "not on this machine, counted from its card; ",
}
"""Where records are counted -> a note."""


def count(
    dataset: str,
    data: Path | None,
    copies: Path | None,
    limit: int | None,
    division: Division = Division(),  # noqa: B008  (frozen)
) -> tuple[str, dict[str, int]]:
    """Where the records are counted (of SOURCES), and the number in each split; in a cross-
    validation that of an average fold.
    """
    card = datasets.get(dataset).CARD
    # what no task is tested on is all for training
    shares = PUBLISHED if card.tasks else {"train": 1.0}
    source, sizes = "absent", {s: round(share * card.records) for s, share in shares.items()}
    with suppress(MissingData, BadRecord):
        published = seen(dataset, data, copies, division).published
        source, sizes = DOWNLOADED, sizes_of(published["split"])
    if limit is not None and limit < sum(sizes.values()):
        sizes = quotas_of(sizes, limit)
    with suppress(MissingData, BadRecord):
        there = find(dataset, data, copies, limit, division=division)
        source, sizes = "prepared", sizes_of(Selection(there, limit).index["split"])
    return source, per_fold(sizes, division)


def sizes_of(split: Any) -> dict[str, int]:
    """The number of records in each split."""
    counts = split.value_counts()
    return {s: int(counts[s]) for s in SPLITS if s in counts}


def per_fold(sizes: Mapping[str, int], division: Division) -> dict[str, int]:
    """The same where each fold is tested once: of an average fold."""
    if not division.cross:
        return dict(sizes)
    whole = sum(sizes.values())
    tested = round(whole / division.cross)
    return {"train": whole - 2 * tested, "val": tested, "test": tested}


def in_words(
    dataset: str, sizes: Mapping[str, int], division: Division, source: str = "prepared"
) -> str:
    """The records of a dataset, of `count`, in one line."""
    split = ", ".join(f"{s} {n:,}" for s, n in sizes.items())
    folds = f" in each of {division.cross} folds" if division.cross else ""
    return f"{dataset}: {SOURCES[source]}{sum(sizes.values()):,} records ({split}{folds})"
