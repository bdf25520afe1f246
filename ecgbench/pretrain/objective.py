"""Masked node modelling: from the nodes that are seen, tell the codes of those that are not.

The mask vector and the prototype heads belong to pre-training; `MaskedNodes.encoder` is the network
that is released.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ecgbench import models
from ecgbench.errors import BadSetting
from ecgbench.layers.node_encoder import NodeEncoder
from ecgbench.pretrain import descriptors

OFFERED = ("embed_leads", "outputs", "width", "depth")
"""What a network must have to be pre-trained, see `NodeEncoder`."""


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


class MaskedNodes(nn.Module):
    """An encoder with a mask vector and, on its last block, one prototype head per codebook."""

    def __init__(self, encoder: NodeEncoder, codebooks: Sequence[int]) -> None:
        """codebooks: number of codes of each. Mask vector uniform on [0, 1) as in HuBERT, heads by
        torch's default; torch's generator.
        """
        super().__init__()
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
        batch, 12, 20) of integers, read at masked nodes only. dropped (batch, 12, 20, 20) bool,
        see `masking.Draw`: edges that no block sees in training; ignored in evaluation.
        """
        hidden = masked[measured]
        places = hidden.flatten().nonzero()[:, 0]
        codes = targets[:, measured].flatten(1).index_select(1, places).long()
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


def _precise(x: Tensor) -> Tensor:
    """At least single precision, whatever autocast made of it."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


@contextmanager
def evaluating(encoder: nn.Module) -> Iterator[None]:
    """The encoder in evaluation mode, and then again in the mode in which it came."""
    training = encoder.training
    encoder.eval()
    try:
        yield
    finally:
        encoder.train(training)


@torch.inference_mode()
def node_features(
    encoder: NodeEncoder, signal: Tensor, blocks: Sequence[int] = (1,)
) -> list[Tensor]:
    """Nodes of windows with all their leads, unmasked and with every edge, in evaluation mode: what
    the codebook of the second stage is made from.

    signal (batch, lead, time) float32, every lead measured. One tensor (batch, lead, node, width)
    per block: 0 is the embedder's, `encoder.depth` the last.
    """
    measured = torch.ones(signal.shape[:2], dtype=torch.bool, device=signal.device)
    with evaluating(encoder):
        tokens = encoder.embed_leads(signal.flatten(0, 1))
        found = encoder.outputs(tokens, measured, blocks)
    return [nodes.unflatten(0, signal.shape[:2]) for nodes in found]


@torch.no_grad()
def nodes_of(encoder: NodeEncoder, samples: int) -> int:
    """Nodes that the encoder makes of one lead of so many samples."""
    return encoder.embed_leads(
        torch.zeros(1, samples, device=next(encoder.parameters()).device)
    ).shape[1]


def new_network(model: str, shape: Sequence[tuple[str, Any]] = ()) -> NodeEncoder:
    """A model's network with random weights (torch's generator), its configuration changed by
    `shape`.

    BadSetting where it lacks one of OFFERED, has no such configuration, or makes other nodes than
    the descriptors have segments.
    """
    network = _built(model, dict(shape))
    if missing := [name for name in OFFERED if not hasattr(network, name)]:
        raise BadSetting(
            f"model {model} cannot be pre-trained: its network has no {', '.join(missing)}; "
            f"docs/howto/pretrain.md says what it needs"
        )
    contract = models.ROOM.card(model).contracts[0]
    segments, rest = divmod(contract.samples, descriptors.SAMPLES)
    nodes = nodes_of(network, contract.samples)
    if rest or nodes != segments or contract.fs != descriptors.FS:
        raise BadSetting(
            f"model {model} makes {nodes} nodes of {contract.samples} samples at {contract.fs:g} "
            f"Hz, and codes are of "
            f"segments of {descriptors.SAMPLES} samples at {descriptors.FS:g} Hz; each segment "
            f"needs a node"
        )
    return network


def _built(model: str, shape: dict[str, Any]) -> NodeEncoder:
    module: Any = models.get(model)
    if not shape:
        network: NodeEncoder = module.build()
        return network
    config = getattr(module, "CONFIG", None)
    if config is None or not {*shape} <= {*config.__dataclass_fields__}:
        raise BadSetting(
            f"model {model} has no {', '.join(shape)} to choose: its file needs a CONFIG with "
            f"them, which build(config=...) takes; ecgbench/models/laef.py shows how"
        )
    changed: NodeEncoder = module.build(config=replace(config, **shape))
    return changed
