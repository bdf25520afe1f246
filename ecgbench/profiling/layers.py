"""FLOP as the paper that introduced LAEF counts them: from the layers of the authors' networks, however ours compute them.

The paper's column is what torch's FlopCounterMode shows for the authors' code, 2 FLOP per multiply-add: linear maps and
convolutions, plus attention products where the authors spell them as matrix products (ST-MEM, ECG-JEPA) and not where a fused
operator hides them from that counter (HuBERT-ECG); no FFT, kernel, norm, activation, bias or message passing (LAEF, ECG-CPC).
A layer with a weight of n numbers that yields p results costs 2 n p, so what is declared here is how many results each weight
yields; the weights themselves are those of the network that is counted.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd

from ecgbench.profiling.cost import CLASSES


@dataclass(frozen=True)
class Layer:
    """Linear maps or convolutions whose weights match a pattern."""

    weight: str
    """Regular expression of the whole name of the weight."""
    results: int
    """Per window: time steps of a convolution's output, tokens of a linear map."""
    groups: int = 1
    """Of a convolution."""
    first: bool = False
    """Whether it reads the signal itself, so that no gradient of its input is computed."""


@dataclass(frozen=True)
class Layout:
    """One network on one input."""

    layers: tuple[Layer, ...]
    products: int = 0
    """FLOP of attention products that the paper's counter sees."""
    other: str = "(?!)"
    """Regular expression of arrays that are parameters but no layer: embeddings, position tables, state matrices."""


@dataclass(frozen=True)
class Count:
    """FLOP of one window under the paper's counting, backbone and linear head of CLASSES outputs."""

    forward: int
    backward: int
    """Gradients of every weight and of every layer's input but the signal."""
    backward_dense: int
    """The same by torch's FlopCounterMode, which counts the weight gradient of a grouped convolution as if it had one group."""


def count(model: str, network: nn.Module, dim: int, samples: int, leads: int) -> Count | None:
    """The paper's count of a network whose layers are declared below; None for any other.

    samples: per lead, as the network receives them. leads: measured ones, which matter to LAEF alone.
    """
    if model not in LAYOUTS:
        return None
    head = 2 * CLASSES * dim
    layout = LAYOUTS[model](samples, leads)
    forward, backward, dense = layout.products, 2 * layout.products, 2 * layout.products
    for name, weight in network.named_parameters():
        layer = _layer(layout, name, weight)
        if layer is not None:
            once = 2 * weight.numel() * layer.results
            through = 0 if layer.first else once
            forward, backward, dense = forward + once, backward + through + once, dense + through + layer.groups * once
    return Count(forward + head, backward + 2 * head, dense + 2 * head)


MAPPERS = (nn.Linear, _ConvNd)
BESIDE = (nn.Embedding, nn.EmbeddingBag, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, _NormBase)
"""Modules whose arrays the paper's rule leaves out."""


def count_modules(network: nn.Module, forward: Callable[[], object]) -> tuple[int | None, str]:
    """FLOP of the Linear and Conv modules that `forward` calls: the paper's rule for a network whose layers are not declared here.

    None, and the reason in words, where it does not apply: there are no such modules, an array of two or more dimensions is a parameter
    of none of them (nn.LSTM, a position table), or one is not called, so that its weight may be used without (nn.MultiheadAttention).
    """
    mappers = {name: m for name, m in network.named_modules() if isinstance(m, MAPPERS)}
    if not mappers:
        return None, "it has no Linear or Conv module"
    told = {id(p) for m in network.modules() if isinstance(m, (*MAPPERS, *BESIDE)) for p in m.parameters()}
    for name, parameter in network.named_parameters():
        if parameter.dim() > 1 and id(parameter) not in told:
            return None, f"its parameter {name} {tuple(parameter.shape)} is of no Linear, Conv, Embedding or norm module"
    seen: dict[nn.Module, int] = {}

    def note(module: nn.Module, given: tuple[Tensor, ...], result: Tensor) -> None:
        weight: Any = module.weight
        steps = given[0] if getattr(module, "transposed", False) else result
        seen[module] = seen.get(module, 0) + 2 * weight.numel() * (steps.numel() // weight.shape[0])

    hooks = [m.register_forward_hook(note) for m in mappers.values()]
    try:
        forward()
    finally:
        for hook in hooks:
            hook.remove()
    missed = next((name for name, m in mappers.items() if m not in seen), None)
    return (sum(seen.values()), "") if missed is None else (None, f"its module {missed} is never called, though its weight may be used")


def _layer(layout: Layout, name: str, weight: Tensor) -> Layer | None:
    """The layer a parameter is the weight of; None for what is no layer. ValueError: an array that is not declared, or twice."""
    found = [layer for layer in layout.layers if re.fullmatch(layer.weight, name)]
    if not found and (weight.dim() < 2 or re.fullmatch(layout.other, name)):
        return None
    if len(found) != 1:
        raise ValueError(f"parameter {name} is the weight of {len(found)} declared layers, not of one")
    return found[0]


def _halved(n: int) -> int:
    return math.ceil(n / 2)


def _laef(samples: int, leads: int) -> Layout:
    layers, n = [], samples
    for i, (kernel, stride) in enumerate(zip((10, 3, 3, 2), (3, 2, 2, 2))):
        n = (n - kernel) // stride + 1
        layers.append(Layer(rf"embedder\.convs\.{i}\.weight", leads * n, first=i == 0))
    return Layout((*layers, Layer(r"blocks\.\d\.attention\.(source|target)\.weight", leads * n)), other=r"blocks\.\d\.attention\.vector")


def _stmem(samples: int, leads: int) -> Layout:
    patches = samples // 75
    tokens = 12 * (patches + 2)
    embedding = Layer(r"to_patch_embedding\.2\.weight", 12 * patches)  # not first: a LayerNorm with weights precedes it
    blocks = Layer(r"block\d+\.(attn\.fn\.to_(qkv|out\.0)|ff\.fn\.net\.[03])\.weight", tokens)
    return Layout((embedding, blocks), products=12 * 2 * _product(tokens, tokens, 768), other="pos_embedding")


def _ecgjepa(samples: int, leads: int) -> Layout:
    tokens = 8 * (samples // 50)
    blocks = Layer(r"encoder_blocks\.blocks\.\d+\.(attn\.(qkv|proj)|mlp\.fc[12])\.weight", tokens)
    # dense: the authors mask the scores of all pairs of tokens, of which 57 in 400 survive
    return Layout((Layer(r"W_P\.weight", tokens, first=True), blocks), products=12 * 2 * _product(tokens, tokens, 768), other="pos_embed")


def _product(rows: int, columns: int, depth: int) -> int:
    return 2 * rows * columns * depth


def _ecgfounder(samples: int, leads: int) -> Layout:
    n = _halved(samples)
    layers = [Layer(r"first_conv\.conv\.weight", n, first=True), Layer(r".*\.se_fc[12]\.weight", 1)]
    for stage, width in enumerate((64, 160, 160, 400, 400, 1024, 1024)):
        before, n = n, _halved(n)
        here = rf"stage_list\.{stage}\.block_list\."
        layers += [
            Layer(here + r"0\.conv1\.conv\.weight", before),
            Layer(here + r"[1-9]\.conv1\.conv\.weight", n),
            Layer(here + r"\d\.conv2\.conv\.weight", n, groups=width // 16),
            Layer(here + r"\d\.conv3\.conv\.weight", n),
        ]
    return Layout(tuple(layers))


def _merl(samples: int, leads: int) -> Layout:
    n = _halved(samples)
    layers = [Layer(r"conv1\.weight", n, first=True)]
    for stage in (1, 2, 3, 4):
        n = n if stage == 1 else _halved(n)
        layers.append(Layer(rf"layer{stage}\.\d\.(conv[12]|shortcut\.0)\.weight", n))
    return Layout(tuple(layers))


def _ecgfmked(samples: int, leads: int) -> Layout:
    n = _halved(samples)
    layers = [Layer(r"0\.0\.weight", n, first=True), Layer(r"[12]\.0\.weight", n)]
    n = _halved(n)  # the max-pooling is module 3
    for stage in (4, 5, 6, 7):
        before, n = n, n if stage == 4 else _halved(n)
        layers += [
            Layer(rf"{stage}\.0\.convs\.0\.0\.weight", before),
            Layer(rf"{stage}\.[1-9]\d*\.convs\.0\.0\.weight", n),
            Layer(rf"{stage}\.\d+\.convs\.[12]\.0\.weight|{stage}\.\d+\.idpath\.[01]\.0\.weight", n),
        ]
    return Layout(tuple(layers))


def _ecgcpc(samples: int, leads: int) -> Layout:
    tokens = _halved(samples)
    layers = (
        Layer(r"encoder\.layers\.0\.0\.weight", tokens, first=True),
        Layer(r"encoder\.layers\.[123]\.0\.weight", tokens),
        Layer(r".*\.s4_layers\.\d\.output_linear\.0\.weight", tokens),
    )
    return Layout(layers, other=r".*\.(kernel\.kernel\.\w+|D|output_linear\.0\.bias)")


def _hubertecg(samples: int, leads: int) -> Layout:
    n, layers = 12 * samples, []
    for i, (kernel, stride) in enumerate(zip((10, 3, 3, 2, 2), (4, 2, 2, 2, 2))):
        n = (n - kernel) // stride + 1
        layers.append(Layer(rf"feature_extractor\.conv_layers\.{i}\.conv\.weight", n, first=i == 0))
    layers += [
        Layer(r"feature_projection\.projection\.weight", n),
        Layer(r"encoder\.pos_conv_embed\.conv\.(parametrizations\.weight\.original1|weight_v)", n + 1, groups=16),
        Layer(r"encoder\.layers\.\d+\.(attention\.[kvq]_proj|attention\.out_proj|feed_forward\.\w+_dense)\.weight", n),
    ]
    return Layout(tuple(layers), other=r".*\.(original0|weight_g)|final_proj\..*|label_embedding\..*")


LAYOUTS: dict[str, Callable[[int, int], Layout]] = {
    "laef": _laef,
    "stmem": _stmem,
    "ecgjepa": _ecgjepa,
    "ecgfounder": _ecgfounder,
    "ecgfounder1lead": _ecgfounder,
    "merl": _merl,
    "ecgfmked": _ecgfmked,
    "ecgcpc": _ecgcpc,
    "hubertecg": _hubertecg,
}
"""Model -> its layers for (samples of a lead, measured leads); the twelve-lead baselines read all of their leads whatever is measured."""
