"""LAEF: an ECG of any leads as a graph of 0.4 s segments, read by two GATv2 blocks. Our own code
after the paper.

Every measured lead is embedded alone by four convolutions, 20 nodes for 5 s at 100 Hz. A node
attends to all nodes of its lead and to the nodes of the same time step in the other leads. Nothing
encodes which lead a node comes from, or when, so permuting the leads leaves the pooled feature
unchanged, and a lead that was not measured is simply not there.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ecgbench.cards.model import InputContract, ModelCard, Weights
from ecgbench.ecg.filters import Filter
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import BadSetting
from ecgbench.layers import paper_flop
from ecgbench.layers.blocks import gelu
from ecgbench.layers.encodings import ENCODINGS, Encoding
from ecgbench.layers.features import Features, joined
from ecgbench.layers.gatv2 import EdgeListGATv2, GATv2
from ecgbench.layers.grid import TOPOLOGIES, Topology, on_graph
from ecgbench.layers.lead_embedder import LeadEmbedder, PlainLeadEmbedder
from ecgbench.layers.node_encoder import NodeEncoder
from ecgbench.weights import hub
from ecgbench.weights.load import loaded

WIDTH = 768

_LICENCE = (
    "MIT; trained by this project on recordings of PTB-XL (CC BY 4.0); not the paper's checkpoint"
)
_FED = InputContract(
    name="paper",
    fs=100,
    seconds=5,
    leads=LEADS,
    unit="mV",
    filter=Filter(kind="firwin-filtfilt", low=0.05, high=47.0),
    normalisation="minmax-per-lead",
    fill="before",
    policy="native",
    absent="not computed: the network reads the measured leads only",
)

CARD = ModelCard(
    title="LAEF",
    summary=(
        "graph attention over the segments of whatever leads were measured, with a "
        "convolutional embedder per lead"
    ),
    paper=(
        "Coppola, Fiorini, Liò, Savardi and Signoroni, LAEF: A Lead-Agnostic ECG Foundation "
        "Model Towards Point-of-Care Diagnostics"
    ),
    origin="this project",
    licence="MIT",
    parameters=7_104_000,
    dim=WIDTH,
    contracts=(_FED, replace(_FED, name="upstream", fill="after", short="edge")),
    native=True,
    groups={"early": ("embedder.",), "late": ("blocks.",)},
    weights=(
        Weights(
            name="released",
            file="laef.safetensors",
            url="models/laef/laef.safetensors",
            sha256="d87817cf816e1676a51d766cd03ae79f1c2511b5a05803be11b3baf1e8776c1d",
            licence=_LICENCE,
        ),
    ),
    objective="codes of masked nodes, first of signal descriptors and then of its own features",
    corpora=("PTB-XL (folds 1-8)",),
    choices={
        "upstream": (
            "as `paper`, which is its authors'; only a padded LAEF sees a difference (an "
            "absent lead is 0 instead of -1)"
        ),
        "scaling": (
            "each lead to [-1, 1] by its own extremes over the whole record, before "
            "windows are cut; a constant lead becomes -1"
        ),
        "filter": (
            "band-pass 0.05-47 Hz per lead at the native rate over the whole record, then "
            "anti-aliased resampling to 100 Hz"
        ),
        "embedder": (
            "after each convolution (bias, no padding) LayerNorm over the 768 channels of "
            "one time step, then exact GELU"
        ),
        "blocks": (
            "x <- Dropout(GELU(LayerNorm(x + GATv2(x)))): identity skip before norm and "
            "activation, LayerNorm per node"
        ),
        "attention": (
            "separate source and target maps with bias, output bias, LeakyReLU 0.2, 8 "
            "heads of 96 concatenated"
        ),
        "neighbours": (
            "one softmax over the nodes of the lead (itself once) and the nodes of the "
            "same time step in the other leads"
        ),
        "dropout": (
            "0.1 on the attention coefficients and 0.1 after the GELU of each block; none "
            "in the embedder"
        ),
        "initialisation": (
            "Glorot uniform for maps and score vectors with zero biases; torch's "
            "default for the convolutions"
        ),
        "pooled": "mean over the nodes of block 2",
        "encodings": "none: neither lead nor position is encoded",
        "groups": "early: embedder; late: both GATv2 blocks",
    },
)


def gatv2(config: "LaefConfig") -> nn.Module:
    """The paper's attention over the graph of leads and time steps."""
    return GATv2(config.width, config.heads, config.dropout)


@dataclass(frozen=True, kw_only=True)
class LaefConfig:
    """Every choice of the network; the defaults are the paper's. BadSetting where it is
    impossible.
    """

    width: int = WIDTH
    heads: int = 8
    blocks: int = 2
    dropout: float = 0.1
    """Of attention coefficients, and of nodes behind each block."""
    kernels: tuple[int, ...] = (10, 3, 3, 2)
    strides: tuple[int, ...] = (3, 2, 2, 2)
    """Of the embedder's convolutions, in samples and then in nodes of the convolution before."""
    attention: Callable[["LaefConfig"], nn.Module] = gatv2
    """Makes what mixes the nodes in a block: (batch, lead, node, width) -> the same shape.

    Its forward takes `dropped`, see `Block.forward`. One whose maps belong to each node alone may
    offer `maps(x)` and take what that returned as its second argument.
    """
    encodings: tuple[Encoding, ...] = ()
    """What is added to the nodes before the first block: a learned vector of their lead, sines of
    their place in time.
    """
    topology: Topology = "spatiotemporal"
    """Whom a node hears, see `grid.on_graph`."""

    def __post_init__(self) -> None:
        after = zip(self.kernels[1:], self.strides[1:])
        paired = len(self.kernels) == len(self.strides) > 0 and all(
            s <= k <= 2 * s for k, s in after
        )
        counts = (self.width, self.heads, self.blocks, *self.kernels, *self.strides)
        if (
            not paired
            or min(counts) < 1
            or self.width % (2 * self.heads)
            or not 0 <= self.dropout < 1
        ):
            raise BadSetting(
                f"{self}: width is an even multiple of heads, dropout is below 1, each kernel has "
                f"its "
                "stride, and behind the first is as long as that or up to twice as long"
            )
        if unknown := sorted({*self.encodings} - {*ENCODINGS}):
            raise BadSetting(
                f"encodings {', '.join(unknown)}: choose from {', '.join(ENCODINGS)}, or none"
            )
        if self.topology not in TOPOLOGIES:
            raise BadSetting(f"topology {self.topology}: choose from {', '.join(TOPOLOGIES)}")

    @property
    def spacing(self) -> int:
        """Samples from node to node."""
        return math.prod(self.strides)

    @property
    def field(self) -> int:
        """Samples that one node of the embedder sees."""
        seen = 1
        for kernel, stride in zip(reversed(self.kernels), reversed(self.strides)):
            seen = (seen - 1) * stride + kernel
        return seen

    def node_samples(self, node: int) -> range:
        """Samples of its lead that a node of the embedder sees."""
        return range(self.spacing * node, self.spacing * node + self.field)


class Block(nn.Module):
    """Dropout(GELU(LayerNorm(x + attention(x))))."""

    def __init__(
        self,
        attention: nn.Module,
        norm: nn.LayerNorm,
        dropout: float,
        topology: Topology = "spatiotemporal",
    ) -> None:
        super().__init__()
        self.attention, self.norm, self.dropout = attention, norm, dropout
        self.topology: Topology = topology

    def forward(self, x: Tensor, *maps: Tensor, dropped: Tensor | None = None) -> Tensor:
        """(batch, lead, node, width) -> the same shape; with the attention's maps of x where they
        are known already.

        dropped (batch, lead, node, node) bool: the edges within leads that are left out, see
        `GATv2.forward`.
        """
        attended = on_graph(self.topology, self.attention, x, maps, dropped)
        return F.dropout(gelu(self.norm(x + attended)), self.dropout, self.training)


class Laef(NodeEncoder):
    """The network: `net(signal, measured)`, or `embed_leads` once per record and `encode` once per
    lead setting.
    """

    def __init__(
        self,
        config: LaefConfig = LaefConfig(),
        *,
        embedder: nn.Module | None = None,
        blocks: Iterable[nn.Module] | None = None,
    ) -> None:
        """embedder, blocks: instead of those that `config` describes."""
        super().__init__()
        self.config, self.width = config, config.width
        self.embedder = embedder or LeadEmbedder(config.width, config.kernels, config.strides)
        layers = (
            Block(
                config.attention(config),
                nn.LayerNorm(config.width),
                config.dropout,
                config.topology,
            )
            for _ in range(config.blocks)
        )
        self.blocks = nn.ModuleList(layers if blocks is None else blocks)
        self.encodings = nn.ModuleList(ENCODINGS[name](config.width) for name in config.encodings)
        self.depth = len(self.blocks)

    def forward(self, signal: Tensor, measured: Tensor) -> Features:
        """Features of windows, from their measured leads alone.

        signal (batch, lead, time) float32, prepared as the card's contract says; measured (batch,
        lead) bool, 12 leads or fewer. Rows that are not measured may hold anything, NaN too.
        BadSetting: a window without a measured lead.
        """
        counts = _counts(signal, measured)
        tokens = self.embed_leads(signal[measured])
        return self._encode(self._encoded(tokens, measured), counts)

    def embed_leads(self, signal: Tensor) -> Tensor:
        """(..., time) -> (..., node, width): each lead alone, 20 nodes for 500 samples."""
        field = self.config.field
        if signal.shape[-1] < field:
            raise BadSetting(
                f"windows of {signal.shape[-1]} samples: one node of LAEF sees {field}; cut "
                f"windows of 500 (5 s at 100 Hz)"
            )
        tokens: Tensor = self.embedder(signal.reshape(-1, signal.shape[-1]))
        return tokens.unflatten(0, signal.shape[:-1]) if signal.dim() > 1 else tokens[0]

    def per_lead(self, tokens: Tensor) -> Tensor:
        """(batch, lead, node, width) -> (batch, lead, node, 3 * width): beside embedded leads the
        maps of the first block.

        They too belong to each lead alone; who encodes a window under several masks computes them
        once. An attention without maps gets its tokens as they are.
        """
        maps = getattr(self.blocks[0].attention, "maps", None) if self.depth else None
        if maps is None:
            return tokens
        every = torch.ones(tokens.shape[:2], dtype=torch.bool, device=tokens.device)
        tokens = self._encoded(tokens.flatten(0, 1), every).view_as(tokens)
        return torch.cat([tokens, *maps(tokens)], -1)

    def encode(self, tokens: Tensor, measured: Tensor) -> Features:
        """Features from embedded leads: tokens (batch, lead, node, width), measured (batch, lead)
        bool, as in `forward`.

        Or from what `per_lead` made of them.
        """
        counts, mapped = _counts(tokens, measured), tokens.shape[-1] != self.width
        chosen = tokens[measured]
        return self._encode(chosen if mapped else self._encoded(chosen, measured), counts)

    def _encoded(self, tokens: Tensor, measured: Tensor) -> Tensor:
        """tokens (measured leads of the whole batch, node, width) with the encodings of the config
        added.
        """
        if self.encodings:
            leads = measured.nonzero()[:, 1]
            for encoding in self.encodings:
                tokens = tokens + encoding(leads, tokens.shape[1])
        return tokens

    def outputs(
        self, tokens: Tensor, measured: Tensor, blocks: Sequence[int], dropped: Tensor | None = None
    ) -> list[Tensor]:
        """As `NodeEncoder.outputs` says; block 0 is the tokens with their encodings.

        Windows with equally many leads are computed together, none is padded, and no block above
        the highest that is asked. BadSetting: a window without a lead.
        """
        counts, tokens = _counts(measured, measured), self._encoded(tokens, measured)
        order = counts.repeat_interleave(counts, output_size=len(tokens)).argsort(stable=True)
        windows = Counter(counts.tolist())
        sizes = sorted(windows)
        lengths = [size * windows[size] for size in sizes]
        # index_select: the gradient of an index sorts and sums on a GPU, and here none occurs twice
        gone = (
            [None] * len(sizes)
            if dropped is None
            else dropped.index_select(0, order).split(lengths)
        )
        parts = zip(tokens.index_select(0, order).split(lengths), sizes, gone)
        groups = [self._outputs(x, size, max(blocks), edges) for x, size, edges in parts]
        back = order.argsort()
        return [
            torch.cat([group[block] for group in groups]).index_select(0, back) for block in blocks
        ]

    def _outputs(self, x: Tensor, size: int, last: int, dropped: Tensor | None) -> list[Tensor]:
        """Tokens and block outputs up to block `last`, (leads, node, width) each, of windows with
        `size` leads.
        """
        outputs = [x]
        edges = None if dropped is None else dropped.unflatten(0, (-1, size))
        for block in self.blocks[:last]:
            outputs.append(block(outputs[-1].unflatten(0, (-1, size)), dropped=edges).flatten(0, 1))
        return outputs

    def _encode(self, tokens: Tensor, counts: Tensor) -> Features:
        """tokens (measured leads of the whole batch, node, width or 3 * width), counts (batch,):
        how many belong to each window.
        """
        sizes = sorted(set(counts.tolist()))
        if len(sizes) == 1:
            return self._group(tokens.unflatten(0, (-1, sizes[0])))
        size_of = counts.repeat_interleave(counts)
        groups = [self._group(tokens[size_of == size].unflatten(0, (-1, size))) for size in sizes]
        return joined(groups, counts)

    def _group(self, x: Tensor) -> Features:
        """Windows with the same number of leads: (batch, lead, node, width), or 3 * width with the
        maps of the first block.
        """
        x, *maps = x.split(self.width, -1)
        for block in self.blocks:
            x, maps = block(x, *maps), []
        sequence = x.flatten(1, 2)
        return Features(sequence, sequence.mean(1))

    @staticmethod
    def from_pretrained(where: str | Path = "released", revision: str | None = None) -> "Laef":
        """LAEF in evaluation mode with weights from anywhere, float32 whatever the file holds;
        nothing in a file is executed.

        where: a name on the card ("released", which is shipped), the path of a file, a folder that
        `save_pretrained` wrote or of this project (models/laef), or a repository of the Hugging
        Face Hub (owner/name; revision: its branch, tag or commit). BadSetting, UnknownName: not
        there, or it cannot be had. BadWeights: it does not fit.
        """
        return build(hub.file(where, revision, CARD) or where).eval()

    def save_pretrained(self, folder: str | Path) -> None:
        """Write model.safetensors, config.json and, where none is there, README.md into `folder`.
        WriteError.
        """
        hub.save_to(Path(folder).expanduser(), self, CARD)


def _counts(rows: Tensor, measured: Tensor) -> Tensor:
    """Number of measured leads per window (batch,); BadSetting where the shapes disagree or a
    window has none.
    """
    if measured.dtype != torch.bool or rows.shape[:2] != measured.shape:
        raise BadSetting(
            f"LAEF received rows of shape {tuple(rows.shape)} with measured "
            f"{tuple(measured.shape)} {measured.dtype}; "
            "give (batch, lead, ...) and (batch, lead) bool"
        )
    counts = measured.sum(1)
    if not (counts > 0).all():
        empty = int((counts == 0).sum())
        raise BadSetting(
            f"{empty} of {len(counts)} windows have no measured lead; leave them out, LAEF needs "
            f"at least one"
        )
    return counts


CONFIG = LaefConfig()
"""The released network's."""


def build(weights: str | Path | None = None, config: LaefConfig = CONFIG) -> Laef:
    """LAEF with random weights (torch's generator), or with those of a file (BadSetting,
    BadWeights: see `load.load`).
    """
    return loaded(Laef(config), weights, CARD)


def paper_layers(network: Laef, samples: int, leads: int) -> paper_flop.Layout:
    """The layers by the paper's FLOP count; message passing is not in it."""
    layers, n = [], samples
    for i, (kernel, stride) in enumerate(zip(network.config.kernels, network.config.strides)):
        n = (n - kernel) // stride + 1
        layers.append(paper_flop.Layer(rf"embedder\.convs\.{i}\.weight", leads * n, first=i == 0))
    maps = paper_flop.Layer(r"blocks\.\d+\.attention\.(source|target)\.weight", leads * n)
    return paper_flop.Layout((*layers, maps), other=r"blocks\.\d+\.attention\.vector")


def reference(network: Laef) -> Laef:
    """The same network, on the same parameters, by torch's convolutions and torch_geometric's
    GATv2Conv (extra `graph`).
    """
    theirs: Any = network.blocks
    blocks = (Block(EdgeListGATv2(b.attention), b.norm, b.dropout, b.topology) for b in theirs)
    plain = PlainLeadEmbedder(network.embedder)  # type: ignore[arg-type]
    return Laef(network.config, embedder=plain, blocks=blocks).train(network.training)
