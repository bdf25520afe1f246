"""What a step of pre-training trains on: records, windows and masks that follow from (seed, step),
whoever computes them.

A step's batch is cut into pieces of `micro` records, one forward pass each; process r of n takes
pieces r, r + n, ... A piece and its dropout are the same in whichever process, so the curve depends
on the size of the pieces and not on who computes them.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ecgbench.core.prefetch import prefetched
from ecgbench.pretrain import masking
from ecgbench.pretrain.corpus import Corpus


class Piece(NamedTuple):
    """Records of one forward pass; tensors as `MaskedNodes` reads them."""

    number: int
    """Of the pieces of its step."""
    signal: Tensor
    measured: Tensor
    masked: Tensor
    dropped: Tensor | None

    def to(self, device: torch.device) -> "Piece":
        """On the device that computes."""
        tensors = (t if t is None else t.to(device, non_blocking=True) for t in self[1:])
        return Piece(self.number, *tensors)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True, eq=False)
class Batches:
    """The batches of one stage; `rank` of `world` processes makes its pieces of each."""

    corpus: Corpus
    seed: int
    batch: int
    """Records of a step, at most as many as there are."""
    micro: int
    ratio: float
    edge_drop: float
    every_lead: bool = False
    """Whether each recording shows all its leads."""
    nodes: int = masking.NODES
    """Of a lead, as the network makes them."""
    rank: int = 0
    world: int = 1
    pinned: bool = False
    """Whether tensors lie in memory from which a GPU copies by itself."""
    threads: int = 1
    """That make steps."""

    def between(self, first: int, end: int) -> Generator[list[Piece], None, None]:
        """This process's pieces of the steps from `first` to before `end`, each step made while the
        one before it is computed.
        """
        return prefetched(self, range(first, end), self.threads)

    def __call__(self, step: int) -> list[Piece]:
        """This process's pieces of one step."""
        rows, starts = self.rows(step), self.starts(step)
        numbers = range(-(-self.batch // self.micro))
        return [
            self._piece(step, number, rows, starts) for number in numbers[self.rank :: self.world]
        ]

    def rows(self, step: int) -> np.ndarray:
        """(batch,) records of a step: one shuffled pass over the corpus after the other, without a
        break between them.
        """
        records, first = len(self.corpus), step * self.batch
        end, parts = first + self.batch, []
        for epoch in range(first // records, (end - 1) // records + 1):
            begun = epoch * records
            places = max(first - begun, 0), min(end - begun, records)
            parts.append(self.corpus.shuffled(*places, "pre-training order", self.seed, epoch))
        return np.concatenate(parts)

    def starts(self, step: int) -> np.ndarray:
        """(batch,) first samples of the windows of a step, each possible one equally likely."""
        return self.corpus.starts(self.rows(step), "pre-training window", self.seed, step)

    def _piece(self, step: int, number: int, rows: np.ndarray, starts: np.ndarray) -> Piece:
        places = range(number * self.micro, min((number + 1) * self.micro, self.batch))
        part = slice(places.start, places.stop)
        drawn = masking.draw(
            self.seed, step, places, self.ratio, self.edge_drop, self.nodes, self.every_lead
        )
        signal = self.corpus.cut(rows[part], starts[part])
        arrays = (signal, drawn.measured, drawn.masked, drawn.dropped)
        tensors = [a if a is None else torch.from_numpy(a) for a in arrays]
        if self.pinned:
            tensors = [t if t is None else t.pin_memory() for t in tensors]
        return Piece(number, *tensors)  # type: ignore[arg-type]
