"""A corpus that is read from shards on disk, a buffer at a time."""

from functools import cached_property
from typing import Any

import numpy as np

from ecgbench.core.cells import key
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import BadSetting
from ecgbench.pretraining.blocks import Blocks
from ecgbench.pretraining.corpus import Recordings
from ecgbench.pretraining.guard import Guard
from ecgbench.pretraining.order import Buffered
from ecgbench.pretraining.shards import Shards

BUFFER = 16_384
"""Recordings that are shuffled together: 393 MB where they last 10 s."""


class Streamed(Recordings):
    """Recordings in shards. Nothing that grows with their number is an object of this process."""

    def __init__(self, shards: Shards, guard: Guard, buffer: int = BUFFER) -> None:
        """buffer: recordings that are shuffled together, a multiple of the block. LeakError where
        the guard refuses one of all the recordings; BadSetting: a buffer that is no such multiple.
        """
        block = shards.layout.block
        demand_buffer(buffer, block)
        self.shards, self._guard, self.buffer = shards, guard, buffer
        self._asked: Guard | None = None
        self.samples, self.too_short = int(shards.index["samples"]), int(shards.index["too_short"])
        self._order = Buffered(len(self), block, buffer)
        self._blocks = Blocks(shards, most=buffer // block)
        self._ask(np.zeros(0, np.int64))

    def __len__(self) -> int:
        return int(self.shards.index["recordings"])

    @property
    def stream(self) -> dict[str, Any]:
        """block, shard and buffer, in recordings."""
        layout = self.shards.layout
        return {"block": layout.block, "shard": layout.shard, "buffer": self.buffer}

    @cached_property
    def digest(self) -> str:
        """sha256 (hex) of the index, in which the hashes of names and samples stand, and of the
        buffer.
        """
        return key({"shards": self.shards.index, "buffer": self.buffer})

    def shuffled(self, first: int, end: int, *words: str | int) -> np.ndarray:
        """Blocks are permuted and taken in groups, a buffer each, whose recordings are permuted;
        the group after this one is brought into memory meanwhile.
        """
        following = self._order.groups(first, end, words)[-1] + 1
        self._blocks.expect(self._order.blocks(following, words))
        return self._order.rows(first, end, words)

    def _ask(self, rows: np.ndarray) -> None:
        """A guard is asked once, of all recordings at once."""
        if self._asked is not self._guard:
            self.shards.ask(self._guard)
            self._asked = self._guard

    def _lengths(self, rows: np.ndarray) -> np.ndarray:
        ends = self.shards.ends
        return np.asarray((ends[rows + 1] - ends[rows]) // len(LEADS))

    def _copy(self, rows: np.ndarray, starts: np.ndarray, out: np.ndarray) -> None:
        layout, ends = self.shards.layout, self.shards.ends
        lengths, numbers = self._lengths(rows).tolist(), rows // layout.shard
        firsts = (ends[rows] - ends[numbers * layout.shard]).tolist()
        values = self._blocks.values(np.unique(rows // layout.block))
        places = zip(numbers.tolist(), firsts, lengths, starts.tolist())
        for window, (number, first, length, start) in zip(out, places):
            recording = values[number][first : first + len(LEADS) * length].reshape(len(LEADS), -1)
            window[:] = recording[:, start : start + self.samples]


def demand_buffer(buffer: int, block: int) -> None:
    """BadSetting where a buffer is no multiple of a block."""
    if buffer < block or buffer % block:
        raise BadSetting(
            f"--set buffer={buffer}: a multiple of {block}, the recordings that lie together "
            f"on disk, "
            f"for example {BUFFER}"
        )
