"""In which order recordings are met: pure functions of the words that name an order, so a place
alone gives its recording, in any process.

In memory an order is a permutation of all recordings. Of a streamed corpus, whose recordings lie in
blocks on disk, the blocks are permuted, taken in groups, and the recordings of a group permuted
together: only a group at a time need be at hand. Recordings were put into the blocks at random
(`shards.placement`), so every stretch of one pass is a uniform draw of the corpus all the same;
docs/pretraining.md ("Streaming") says what is not uniform, and tests/pretraining/test_order.py
measures both.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ecgbench.core.seeds import rng

Words = tuple[str | int, ...]


@lru_cache(maxsize=2)
def whole(records: int, words: Words) -> np.ndarray:
    """(record,) a permutation of all."""
    return rng(*words).permutation(records)


@dataclass(frozen=True)
class Buffered:
    """The order of recordings that lie in blocks, `block` neighbours each, the last perhaps fewer.

    >>> order = Buffered(records=10, block=2, buffer=4)
    >>> sorted(order.rows(0, 10, ("epoch", 0)).tolist())
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """

    records: int
    block: int
    buffer: int
    """Recordings that are shuffled together, at most, in whole blocks."""

    def rows(self, first: int, end: int, words: Words) -> np.ndarray:
        """Recordings from place `first` to before `end` of the order named by `words`."""
        ends = _groups(self, words)[1]
        numbers = self.groups(first, end, words)
        found = np.concatenate([_rows(self, words, number) for number in numbers])
        begun = int(ends[numbers[0] - 1]) if numbers[0] else 0
        return found[first - begun : end - begun]

    def groups(self, first: int, end: int, words: Words) -> range:
        """The numbers of the groups that these places lie in."""
        ends = _groups(self, words)[1]
        low, high = np.searchsorted(ends, [first, end - 1], side="right")
        return range(int(low), int(high) + 1)

    def blocks(self, number: int, words: Words) -> np.ndarray:
        """The blocks of a group; none after the last group."""
        groups = _groups(self, words)[0]
        return groups[number] if number < len(groups) else np.zeros(0, np.int64)


@lru_cache(maxsize=4)
def _groups(order: Buffered, words: Words) -> tuple[list[np.ndarray], np.ndarray]:
    """The blocks of each group, equally many or one fewer; and (group,) places up to its end."""
    blocks = -(-order.records // order.block)
    most = max(1, order.buffer // order.block)
    groups = np.array_split(rng(*words).permutation(blocks), -(-blocks // most))
    lacking = blocks * order.block - order.records
    sizes = [len(g) * order.block - lacking * int((g == blocks - 1).any()) for g in groups]
    return groups, np.cumsum(sizes)


@lru_cache(maxsize=8)
def _rows(order: Buffered, words: Words, number: int) -> np.ndarray:
    """The recordings of a group, shuffled."""
    blocks = _groups(order, words)[0][number]
    rows = (blocks[:, None] * order.block + np.arange(order.block)).ravel()
    return rng(*words, "group", number).permutation(rows[rows < order.records])
