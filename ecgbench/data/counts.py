"""The number of records of a dataset, whether it is prepared, downloaded or only described by its
card.
"""

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
SOURCES = {
    "prepared": "",
    "downloaded": "not prepared yet; ",
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
        source, sizes = "downloaded", _sizes(published["split"])
    if limit is not None and limit < sum(sizes.values()):
        sizes = quotas_of(sizes, limit)
    with suppress(MissingData, BadRecord):
        there = find(dataset, data, copies, limit, division=division)
        source, sizes = "prepared", _sizes(Selection(there, limit).index["split"])
    if division.cross:
        tested = round(sum(sizes.values()) / division.cross)
        sizes = {"train": sum(sizes.values()) - 2 * tested, "val": tested, "test": tested}
    return source, sizes


def _sizes(split: Any) -> dict[str, int]:
    counts = split.value_counts()
    return {s: int(counts[s]) for s in SPLITS if s in counts}
