"""Masked node modelling: from the nodes that are seen, tell the codes of those that are not.

The mask vector and the prototype heads belong to pre-training; `MaskedNodes.encoder` is the network
that is released.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ecgbench.errors import BadSetting
from ecgbench.layers.node_encoder import NodeEncoder


class MaskedLoss(NamedTuple):
    """Loss of the masked nodes of a batch, in sums, so that passes and processes can add them
    before they divide.
    """

    entropy: Tensor
    """(codebook,): sum of the cross-entropies over the masked nodes, nats, with gradient."""
    correct: Tensor
    """(codebook,): number of masked nodes whose likeliest code is the target."""
    nodes: int
    """Number of masked nodes."""

    @property
    def loss(self) -> Tensor:
        """Mean cross-entropy over the masked nodes of this batch, summed over codebooks."""
        return self.entropy.sum() / self.nodes

    @property
    def accuracy(self) -> Tensor:
        """(codebook,): share of the masked nodes of this batch whose likeliest code is the
        target.
        """
        return self.correct / self.nodes


class MaskedNodes(nn.Module):
    """An encoder with a mask vector and, on its last block, one prototype head per codebook."""

    def __init__(self, encoder: NodeEncoder, codebooks: Sequence[int]) -> None:
        """codebooks: number of codes of each. Mask vector uniform on [0, 1) as in HuBERT, heads by
        torch's default; torch's generator.
        """
        super().__init__()
        if not codebooks or min(codebooks) < 2:
            raise BadSetting(
                f"codebooks of {list(codebooks)} codes: at least one codebook of at least 2, for "
                f"example [50]"
            )
        self.encoder, self.codebooks = encoder, tuple(codebooks)
        self.mask = nn.Parameter(torch.rand(encoder.width))
        self.heads = nn.ModuleList(nn.Linear(encoder.width, codes) for codes in codebooks)

    def forward(
        self,
        signal: Tensor,
        measured: Tensor,
        masked: Tensor,
        targets: Tensor,
        dropped: Tensor | None = None,
    ) -> MaskedLoss:
        """Cross-entropies of the masked nodes; leads that are not measured are never computed,
        whatever stands in their rows.

        signal (batch, 12, 500) float32, prepared as the encoder's contract says; measured (batch,
        12) bool; masked (batch, 12, 20) bool, read in measured leads only; targets (codebook,
        batch, 12, 20) of any integers, read at masked nodes only. dropped (batch, 12, 20, 20) bool,
        see `masking.Draw`: edges that no block sees in training; ignored in evaluation. BadSetting:
        shapes that disagree, a window without a measured lead, no masked node, a target that is no
        code.
        """
        self._demand(signal, measured, masked, targets)
        hidden = masked[measured]
        places = hidden.flatten().nonzero()[:, 0]
        # long before the heads need them: what fails or waits for a GPU does so while nothing else
        # is under way
        codes = self._codes(targets[:, measured].flatten(1).index_select(1, places))
        tokens = self.encoder.embed_leads(signal[measured])
        tokens = torch.where(hidden.unsqueeze(-1), self.mask.to(tokens.dtype), tokens)
        edges = dropped[measured] if dropped is not None and self.training else None
        (nodes,) = self.encoder.outputs(tokens, measured, (self.encoder.depth,), edges)
        unseen = nodes.flatten(0, 1).index_select(0, places)
        logits = [_precise(head(unseen)) for head in self.heads]
        entropy = torch.stack(
            [F.cross_entropy(x, code, reduction="sum") for x, code in zip(logits, codes)]
        )
        correct = torch.stack([(x.argmax(1) == code).sum() for x, code in zip(logits, codes)])
        return MaskedLoss(entropy, correct, len(places))

    def _demand(self, signal: Tensor, measured: Tensor, masked: Tensor, targets: Tensor) -> None:
        grid = masked.shape[:2] == measured.shape == signal.shape[:2] and targets.shape == (
            len(self.heads),
            *masked.shape,
        )
        if not grid or masked.dtype != torch.bool or measured.dtype != torch.bool:
            shapes = [f"{tuple(t.shape)} {t.dtype}" for t in (signal, measured, masked, targets)]
            raise BadSetting(
                f"masked nodes of signal, measured, masked and targets {', '.join(shapes)}; give "
                f"(batch, lead, time), "
                f"(batch, lead) and (batch, lead, node) of bool, and ({len(self.heads)}, batch, "
                f"lead, node)"
            )

    def _codes(self, targets: Tensor) -> Tensor:
        """(codebook, masked node) int64; cross-entropy would skip some negative targets silently,
        and a GPU abort at others.
        """
        if not targets.shape[1]:
            raise BadSetting(
                "no node of the batch is masked in a measured lead; draw what is masked with "
                "ecgbench.pretraining.masking.draw"
            )
        codes = targets.long()
        lows, highs = codes.amin(1).tolist(), codes.amax(1).tolist()
        for size, low, high in zip(self.codebooks, lows, highs):
            if low < 0 or high >= size:
                raise BadSetting(
                    f"targets {low} to {high} for a codebook of {size} codes (0 to {size - 1}); "
                    f"label the records with that codebook"
                )
        return codes


def _precise(x: Tensor) -> Tensor:
    """At least single precision, whatever autocast made of it."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def demand_evaluation(encoder: NodeEncoder) -> None:
    """BadSetting for an encoder in training mode."""
    if encoder.training:
        raise BadSetting(
            "nodes of an encoder in training mode change with its dropout; call encoder.eval() "
            "first"
        )


@torch.inference_mode()
def node_features(
    encoder: NodeEncoder, signal: Tensor, blocks: Sequence[int] = (1,)
) -> list[Tensor]:
    """Nodes of windows with all their leads, unmasked and with every edge: what the codebook of the
    second stage is made from.

    signal (batch, lead, time) float32, every lead measured. One tensor (batch, lead, node, width)
    per asked block: 0 is the embedder's, `encoder.depth` the last. BadSetting: an encoder in
    training mode.
    """
    demand_evaluation(encoder)
    measured = torch.ones(signal.shape[:2], dtype=torch.bool, device=signal.device)
    tokens = encoder.embed_leads(signal.flatten(0, 1))
    return [
        nodes.unflatten(0, signal.shape[:2]) for nodes in encoder.outputs(tokens, measured, blocks)
    ]


@torch.no_grad()
def nodes_of(encoder: NodeEncoder, samples: int) -> int:
    """Nodes that the encoder makes of one lead of so many samples."""
    return encoder.embed_leads(
        torch.zeros(1, samples, device=next(encoder.parameters()).device)
    ).shape[1]
