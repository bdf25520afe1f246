"""What a stage predicts: codes of every segment, from a description of it and codebooks fitted on
such descriptions.

Stage 1 describes segments of the signal (`descriptors.preset`), stage 2 the nodes of the network
that stage 1 made (`Nodes`). Descriptions are never stored: a batch goes into the codebooks, or is
given codes, and is forgotten.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

from ecgbench.core.cells import key
from ecgbench.errors import BadSetting
from ecgbench.layers.node_encoder import NodeEncoder
from ecgbench.pretraining.codebook import NOTHING, Codebook, fit
from ecgbench.pretraining.corpus import Recordings
from ecgbench.pretraining.objective import demand_evaluation, node_features
from ecgbench.weights.load import digest

RECORDS = 100
"""Records of one step of the clustering (HuBERT-ECG's recipe); of 12 leads they are 24,000
segments.
"""


class Describe(Protocol):
    """A description of segments."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """Everything that decides the numbers, as plain JSON."""

    def __call__(self, windows: Tensor) -> Tensor:
        """(batch, 12, 500) float32 -> (batch, 12, 20, dim) on the same device."""


class Nodes:
    """Nodes of one block of a frozen network: all leads, nothing masked, no edge left out."""

    def __init__(self, encoder: NodeEncoder, block: int = 1) -> None:
        """encoder: of the selected checkpoint, in evaluation mode, on the device that will compute.
        block: 1 in the paper.
        """
        demand_evaluation(encoder)
        self.encoder, self.block = encoder, block
        self.facts = {"network": digest(encoder), "block": block}

    def __call__(self, windows: Tensor) -> Tensor:
        """(batch, 12, 500) -> (batch, 12, 20, width)."""
        (nodes,) = node_features(self.encoder, windows, (self.block,))
        return nodes


@dataclass(frozen=True, eq=False)
class Codes:
    """A description and its codebooks: the labeller of a stage (`stage.Labeller`)."""

    describe: Describe
    books: Sequence[Codebook]

    def __post_init__(self) -> None:
        for book in self.books:
            fitted_on = {k: v for k, v in book.facts.items() if k != "fit"}
            if key(fitted_on) != key(dict(self.describe.facts)):
                raise BadSetting(
                    f"a codebook of {fitted_on} cannot tell codes of {dict(self.describe.facts)}; "
                    f"fit one on that description"
                )

    @cached_property
    def digest(self) -> str:
        """sha256 (hex) of the codebooks, which hold the facts of the description."""
        return key({"books": [book.digest for book in self.books]})

    def __call__(self, signal: Tensor) -> Tensor:
        """(batch, 12, 500) -> (codebook, batch, 12, 20) int64 on the same device; BadSetting where
        a description is not finite.
        """
        described = self.describe(signal)
        codes = torch.stack([book.assign(described) for book in self.books])
        if (codes == NOTHING).any():
            raise BadSetting(
                "a segment's description is not finite, so it has no code; windows must hold all "
                "twelve leads"
            )
        return codes


def codebooks(
    corpus: Recordings,
    describe: Describe,
    sizes: Sequence[int],
    *,
    seed: int,
    device: str = "cpu",
    advance: Callable[[int], None] | None = None,
) -> dict[int, Codebook]:
    """One codebook per size, from one window of every record of the corpus in shuffled batches:
    size -> codebook.

    The records of an incomplete last batch are left out; where there are fewer than `RECORDS`, all
    are one batch. The same corpus, description, sizes and seed give the same bits on one machine.
    `advance` is told of the records of each batch. LeakError at a record that must not enter
    training.
    """

    def described() -> Iterator[Tensor]:
        for batch in windows(corpus, seed=seed, device=device):
            yield describe(batch)
            if advance is not None:
                advance(len(batch))

    return fit(described(), sizes, seed=seed, facts=dict(describe.facts))


def windows(corpus: Recordings, *, seed: int, device: str) -> Iterator[Tensor]:
    """(record, 12, 500) batches that codebooks are fitted on: one window of every record of the
    corpus, shuffled, without an incomplete last batch.
    """
    records, size = len(corpus), min(RECORDS, len(corpus))
    for first in range(0, records - size + 1, size):
        rows = corpus.shuffled(first, first + size, "codebook records", seed)
        starts = corpus.starts(rows, "codebook windows", seed, int(rows[0]))
        yield torch.from_numpy(corpus.cut(rows, starts)).to(device)
