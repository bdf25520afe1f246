"""LAEF: an ECG of any leads as a graph of 0.4 s segments, read by two GATv2 blocks. Our own code after the paper.

Every measured lead is embedded alone by four convolutions, 20 nodes for 5 s at 100 Hz. A node attends to all nodes of its
lead and to the nodes of the same time step in the other leads. Nothing encodes which lead a node comes from, or when, so
permuting the leads leaves the pooled feature unchanged, and a lead that was not measured is simply not there.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ecgbench.cards import Filter, InputContract, ModelCard, Weights
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import BadSetting
from ecgbench.layers import compiled
from ecgbench.layers.derived import Derived
from ecgbench.layers.features import Features
from ecgbench.layers.gatv2 import EdgeListGATv2, GATv2
from ecgbench.weights import hub
from ecgbench.weights.load import loaded

WIDTH, HEADS, BLOCKS, DROPOUT = 768, 8, 2, 0.1
KERNELS, STRIDES = (10, 3, 3, 2), (3, 2, 2, 2)
SPACING, FIELD = 24, 40
"""Samples from node to node, and samples that one node of the embedder sees."""
_LEADS_AT_ONCE = 16
"""Without gradients on a CPU: larger batches of leads leave the cache and gain nothing."""
REPAID = 10_000
"""Windows of 12 leads from which on a compilation repays itself: 11 to 16 s the first time, 3 to 4 s from inductor's cache on
disk, for some 2 ms a window (two cores, docs/performance.md)."""

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
    summary="graph attention over the segments of whatever leads were measured, with a convolutional embedder per lead",
    paper="Coppola, Fiorini, Liò, Savardi and Signoroni, LAEF: A Lead-Agnostic ECG Foundation Model Towards Point-of-Care Diagnostics",
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
            sha256="9609c3599319b4ea4b03bf7db839c02b0b9d0409f1494d9604d058cec9db76d6",
            licence="MIT; trained by this project on recordings of PTB-XL (CC BY 4.0); not the paper's checkpoint",
        ),
    ),
    objective="codes of masked nodes, first of signal descriptors and then of its own features",
    corpora=("PTB-XL (folds 1-8)",),
    choices={
        "upstream": "as `paper`, which is its authors'; only a padded LAEF sees a difference (an absent lead is 0 instead of -1)",
        "scaling": "each lead to [-1, 1] by its own extremes over the whole record, before windows are cut; a constant lead becomes -1",
        "filter": "band-pass 0.05-47 Hz per lead at the native rate over the whole record, then anti-aliased resampling to 100 Hz",
        "embedder": "after each convolution (bias, no padding) LayerNorm over the 768 channels of one time step, then exact GELU",
        "blocks": "x <- Dropout(GELU(LayerNorm(x + GATv2(x)))): identity skip before norm and activation, LayerNorm per node",
        "attention": "separate source and target maps with bias, output bias, LeakyReLU 0.2, 8 heads of 96 concatenated",
        "neighbours": "one softmax over the nodes of the lead (itself once) and the nodes of the same time step in the other leads",
        "dropout": "0.1 on the attention coefficients and 0.1 after the GELU of each block; none in the embedder",
        "initialisation": "Glorot uniform for maps and score vectors with zero biases; torch's default for the convolutions",
        "pooled": "mean over the nodes of block 2",
        "encodings": "none: neither lead nor position is encoded",
        "groups": "early: embedder; late: both GATv2 blocks",
    },
)


class Embedder(nn.Module):
    """One lead at a time to nodes: four times Conv1d, LayerNorm over the channels of a time step, exact GELU.

    The convolutions are spelled as matrix products in the layout (lead, time, channel), which LayerNorm wants too.
    """

    def __init__(self) -> None:
        super().__init__()
        channels = (1, WIDTH, WIDTH, WIDTH)
        self.convs = nn.ModuleList(nn.Conv1d(c, WIDTH, k, s) for c, k, s in zip(channels, KERNELS, STRIDES))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in KERNELS)
        self._rows = Derived()

    def forward(self, signal: Tensor) -> Tensor:
        """(lead, time) -> (lead, node, 768)."""
        small = signal.device.type == "cpu" and not torch.is_grad_enabled()
        parts = signal.split(_LEADS_AT_ONCE) if small else (signal,)
        weights = self._by_window()
        tokens = [self._embed(part, weights) for part in parts]
        return tokens[0] if len(tokens) == 1 else torch.cat(tokens)

    def _by_window(self) -> list[Tensor]:
        """Weights as (out, kernel * channel), the order in which a window lies in memory."""
        weights: list[Tensor] = [conv.weight for conv in self.convs]  # type: ignore[misc]
        return self._rows(weights, lambda: [w.permute(0, 2, 1).flatten(1) for w in weights])

    def _embed(self, signal: Tensor, weights: list[Tensor]) -> Tensor:
        leads, times = signal.shape
        windows = signal.unfold(1, KERNELS[0], STRIDES[0])
        x = F.linear(windows.reshape(-1, KERNELS[0]), weights[0], self.convs[0].bias).unflatten(0, (leads, -1))  # type: ignore[arg-type]
        for conv, norm, weight, kernel, stride in zip(self.convs, self.norms, weights, KERNELS, STRIDES):
            bias: Tensor = conv.bias  # type: ignore[assignment]
            x = x if conv is self.convs[0] else _strided(x, times, stride, weight, bias)
            x, times = gelu(norm(x)), (times - kernel) // stride + 1
        return x[:, :times]


def gelu(x: Tensor) -> Tensor:
    """Exact GELU of an array that nobody else holds: in its own memory where no gradient needs it."""
    written: Tensor = F.gelu(x) if torch.is_grad_enabled() else torch.ops.aten.gelu_(x)
    return written


def _strided(x: Tensor, times: int, stride: int, weight: Tensor, bias: Tensor) -> Tensor:
    """A convolution whose kernel is as long as its stride or up to twice that, without copying overlapping windows.

    x (lead, row, channel), of which the first `times` rows count; weight (out, kernel * channel). Time is cut into frames of
    `stride` rows: a window is one frame and the head of the next, hence two products over all frames of all leads. The last
    frame of a lead meets the first of the next lead; what it gives lies behind the rows that count.
    """
    leads, rows, channels = x.shape
    kernel = weight.shape[1] // channels
    spare = rows % stride
    if spare:
        needed = (times - kernel) // stride * stride + kernel
        x = F.pad(x, (0, 0, 0, -spare if rows - spare >= needed else stride - spare))
    frames = x.reshape(-1, stride * channels)
    whole, rest = weight.split([stride * channels, (kernel - stride) * channels], 1)
    out = torch.addmm(bias, frames, whole.T)
    if kernel > stride:
        total, head = out[:-1], frames[1:, : rest.shape[1]]
        if torch.is_grad_enabled() or torch.is_autocast_enabled(x.device.type):
            total += F.linear(head, rest)
        else:
            torch.addmm(total, head, rest.T, out=total)
    return out.unflatten(0, (leads, -1))


class PlainEmbedder(nn.Module):
    """The embedder spelled with torch's convolutions, on the parameters of `fast` themselves."""

    def __init__(self, fast: Embedder) -> None:
        super().__init__()
        self.convs, self.norms = fast.convs, fast.norms

    def forward(self, signal: Tensor) -> Tensor:
        """(lead, time) -> (lead, node, 768)."""
        x = signal.unsqueeze(1)
        for conv, norm in zip(self.convs, self.norms):
            x = F.gelu(norm(conv(x).transpose(1, 2))).transpose(1, 2)
        return x.transpose(1, 2)


class Block(nn.Module):
    """Dropout(GELU(LayerNorm(x + attention(x))))."""

    def __init__(self, attention: nn.Module, norm: nn.LayerNorm) -> None:
        super().__init__()
        self.attention, self.norm = attention, norm

    def forward(self, x: Tensor, *maps: Tensor, dropped: Tensor | None = None) -> Tensor:
        """(batch, lead, node, 768) -> the same shape; with the attention's maps of x where they are known already.

        dropped (batch, lead, node, node) bool: the edges within leads that are left out, see `GATv2.forward`.
        """
        attended = self.attention(x, *([maps] if maps else []), dropped=dropped)
        return F.dropout(gelu(self.norm(x + attended)), DROPOUT, self.training)


class Laef(nn.Module):
    """The network: `net(signal, measured)`, or `embed_leads` once per record and `encode` once per lead setting."""

    def __init__(self, embedder: nn.Module, blocks: Iterable[Block]) -> None:
        super().__init__()
        self.embedder = embedder
        self.blocks = nn.ModuleList(blocks)

    def forward(self, signal: Tensor, measured: Tensor) -> Features:
        """Features of windows, from their measured leads alone.

        signal (batch, lead, time) float32, prepared as the card's contract says; measured (batch, lead) bool, 12 leads or
        fewer. Rows that are not measured may hold anything, NaN too. BadSetting: a window without a measured lead.
        """
        counts = _counts(signal, measured)
        return self._encode(self.embed_leads(signal[measured]), counts)

    def embed_leads(self, signal: Tensor) -> Tensor:
        """(..., time) -> (..., node, 768): each lead alone, 20 nodes for 500 samples."""
        if signal.shape[-1] < FIELD:
            raise BadSetting(f"windows of {signal.shape[-1]} samples: one node of LAEF sees {FIELD}; cut windows of 500 (5 s at 100 Hz)")
        tokens: Tensor = self.embedder(signal.reshape(-1, signal.shape[-1]))
        return tokens.unflatten(0, signal.shape[:-1]) if signal.dim() > 1 else tokens[0]

    def per_lead(self, tokens: Tensor) -> Tensor:
        """(batch, lead, node, 768) -> (batch, lead, node, 3 * 768): beside embedded leads the maps of the first block.

        They too belong to each lead alone; who encodes a window under several masks computes them once.
        """
        return torch.cat([tokens, *self.blocks[0].attention.maps(tokens)], -1)  # type: ignore[operator, union-attr]

    def encode(self, tokens: Tensor, measured: Tensor) -> Features:
        """Features from embedded leads: tokens (batch, lead, node, 768), measured (batch, lead) bool, as in `forward`.

        Or from what `per_lead` made of them.
        """
        counts = _counts(tokens, measured)
        return self._encode(tokens[measured], counts)

    def outputs(self, tokens: Tensor, measured: Tensor, blocks: Sequence[int] = (BLOCKS,), dropped: Tensor | None = None) -> list[Tensor]:
        """What the asked blocks (1 or 2; 0: the tokens themselves) say of every node, each (measured leads of the whole batch, node, 768).

        tokens of that shape, as `embed_leads(signal[measured])` makes them, some of them perhaps replaced (masked);
        measured (batch, lead) bool. dropped (measured leads of the whole batch, node, node) bool, for all blocks: edges that
        are left out, True at [l, t, s] where node t does not hear node s of its lead. Windows with equally many leads are
        computed together, none is padded, and no block above the highest that is asked. BadSetting: a window without a lead.
        """
        counts = _counts(measured, measured)
        order = counts.repeat_interleave(counts, output_size=len(tokens)).argsort(stable=True)
        windows = Counter(counts.tolist())
        sizes = sorted(windows)
        lengths = [size * windows[size] for size in sizes]
        # index_select: the gradient of an index sorts and sums on a GPU, and here none occurs twice
        gone = [None] * len(sizes) if dropped is None else dropped.index_select(0, order).split(lengths)
        parts = zip(tokens.index_select(0, order).split(lengths), sizes, gone)
        groups = [self._outputs(x, size, max(blocks), edges) for x, size, edges in parts]
        back = order.argsort()
        return [torch.cat([group[block] for group in groups]).index_select(0, back) for block in blocks]

    def _outputs(self, x: Tensor, size: int, last: int, dropped: Tensor | None) -> list[Tensor]:
        """Tokens and block outputs up to block `last`, (leads, node, 768) each, of windows with `size` leads."""
        found = [x]
        edges = None if dropped is None else dropped.unflatten(0, (-1, size))
        for block in self.blocks[:last]:
            found.append(block(found[-1].unflatten(0, (-1, size)), dropped=edges).flatten(0, 1))
        return found

    def _encode(self, tokens: Tensor, counts: Tensor) -> Features:
        """tokens (measured leads of the whole batch, node, 768 or 3 * 768), counts (batch,): how many belong to each window."""
        sizes = sorted(set(counts.tolist()))
        if len(sizes) == 1:
            return self._group(tokens.unflatten(0, (-1, sizes[0])))
        owner = counts.repeat_interleave(counts)
        groups = [self._group(tokens[owner == size].unflatten(0, (-1, size))) for size in sizes]
        longest = groups[-1].sequence.shape[1]
        back = counts.argsort(stable=True).argsort()
        sequence = torch.cat([F.pad(g.sequence, (0, 0, 0, longest - g.sequence.shape[1])) for g in groups])
        return Features(sequence[back], torch.cat([g.pooled for g in groups])[back])

    def _group(self, x: Tensor) -> Features:
        """Windows with the same number of leads: (batch, lead, node, 768), or 3 * 768 with the maps of the first block."""
        x, *maps = x.split(WIDTH, -1)
        for block in self.blocks:
            x, maps = block(x, *maps), []
        sequence = x.flatten(1, 2)
        return Features(sequence, sequence.mean(1))

    @staticmethod
    def from_pretrained(where: str | Path = "released", revision: str | None = None) -> "Laef":
        """LAEF in evaluation mode with weights from anywhere, float32 whatever the file holds; nothing in a file is executed.

        where: a name on the card ("released", which is shipped), the path of a file, a folder that `save_pretrained` wrote, or a
        repository of the Hugging Face Hub (owner/name; revision: its branch, tag or commit). BadSetting: not there, or it cannot be
        had. BadWeights: it does not fit.
        """
        known = where in [*(w.name for w in CARD.weights), "released"] or Path(where).expanduser().is_file()
        return build(where if known else hub.file(where, revision, CARD)).eval()

    def save_pretrained(self, folder: str | Path) -> None:
        """Write model.safetensors, config.json and, where none is there, README.md into `folder`. WriteError."""
        hub.save_to(Path(folder).expanduser(), self, CARD)

    def push_to_hub(self, repo_id: str, *, private: bool | None = None, token: str | None = None, commit_message: str = "LAEF") -> str:
        """Write the files of `save_pretrained` into a repository of the Hub (owner/name), made where there is none.

        A model card that stands there stays. Returns the address of the commit. BadSetting: the Hub cannot be reached or refuses.
        """
        return hub.push(repo_id, self, CARD, private=private, token=token, message=commit_message)


def _counts(rows: Tensor, measured: Tensor) -> Tensor:
    """Number of measured leads per window (batch,); BadSetting where the shapes disagree or a window has none."""
    if measured.dtype != torch.bool or rows.shape[:2] != measured.shape:
        raise BadSetting(
            f"LAEF received rows of shape {tuple(rows.shape)} with measured {tuple(measured.shape)} {measured.dtype}; "
            "give (batch, lead, ...) and (batch, lead) bool"
        )
    counts = measured.sum(1)
    if not bool((counts > 0).all()):
        empty = int((counts == 0).sum())
        raise BadSetting(f"{empty} of {len(counts)} windows have no measured lead; leave them out, LAEF needs at least one")
    return counts


def build(weights: str | Path | None = None) -> Laef:
    """LAEF with random weights (torch's generator), or with those of a file (BadSetting, BadWeights: see `load.load`)."""
    network = Laef(Embedder(), (Block(GATv2(WIDTH, HEADS, DROPOUT), nn.LayerNorm(WIDTH)) for _ in range(BLOCKS)))
    return loaded(network, weights, CARD)


def hasten(network: nn.Module, windows: int) -> str:
    """Let GATv2 layers run compiled where that repays itself: "compiled" or "eager", the same for the network's whole life.

    windows: 12-lead windows the network is going to read. The two differ in the last bits, so it must follow from what is
    in the key (data and limit), not from the work that is left, or a resumed run would mix them. Networks without GATv2
    layers, and machines where nothing can be compiled (a warning says why), stay eager.
    """
    layers = [m for m in network.modules() if isinstance(m, GATv2)]
    kernels = (compiled.kernel(m.heads, m.vector.shape[2], m.vector.device.type) for m in layers)
    worth_it = bool(layers) and windows >= REPAID and all(kernels)
    for layer in layers:
        layer.compiled = worth_it
    return "compiled" if worth_it else "eager"


def reference(network: Laef) -> Laef:
    """The same network, on the same parameters, by torch's convolutions and torch_geometric's GATv2Conv (extra `graph`)."""
    blocks = (Block(EdgeListGATv2(block.attention), block.norm) for block in network.blocks)  # type: ignore[arg-type]
    return Laef(PlainEmbedder(network.embedder), blocks).train(network.training)  # type: ignore[arg-type]
