"""FLOP as the paper that introduced LAEF counts them: from the layers of the authors' networks,
however ours compute them.

A network declares its layers beside its code (`paper_layers`, see `ecgbench.layers.paper_flop`);
the weights themselves are those of the network that is counted. A network that declares none is
counted by the modules that it calls.
"""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd

from ecgbench import models
from ecgbench.layers.paper_flop import Layer, Layout
from ecgbench.results.profile import CLASSES


@dataclass(frozen=True)
class Count:
    """FLOP of one window under the paper's counting, backbone and linear head of CLASSES
    outputs.
    """

    forward: int
    backward: int
    """Gradients of every weight and of every layer's input but the signal."""
    backward_dense: int
    """The same by torch's FlopCounterMode, which counts the weight gradient of a grouped
    convolution as if it had one group.
    """


def count(model: str, network: nn.Module, dim: int, samples: int, leads: int) -> Count | None:
    """The paper's count of a network whose file declares `paper_layers`; None for any other.

    samples: per lead, as the network receives them. leads: measured ones, which matter to networks
    that read any leads.
    """
    declared = getattr(models.get(model), "paper_layers", None)
    if declared is None:
        return None
    layout = declared(network, samples, leads)
    forward = layout.products + 2 * CLASSES * dim
    backward = dense = 2 * forward
    for name, weight in network.named_parameters():
        layer = _layer(layout, name, weight)
        if layer is not None:
            once = 2 * weight.numel() * layer.results
            through = 0 if layer.first else once
            forward += once
            backward += through + once
            dense += through + layer.groups * once
    return Count(forward, backward, dense)


MAPPERS = (nn.Linear, _ConvNd)
BESIDE = (nn.Embedding, nn.EmbeddingBag, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, _NormBase)
"""Modules whose arrays the paper's rule leaves out."""


def count_modules(network: nn.Module, forward: Callable[[], object]) -> tuple[int | None, str]:
    """FLOP of the Linear and Conv modules that `forward` calls: the paper's rule for a network
    whose file declares no layers.

    None, and the reason in words, where it does not apply: there are no such modules, an array of
    two or more dimensions is a parameter of none of them (nn.LSTM, a position table), or one is not
    called, so that its weight may be used without (nn.MultiheadAttention).
    """
    mappers = {name: m for name, m in network.named_modules() if isinstance(m, MAPPERS)}
    if not mappers:
        return None, "it has no Linear or Conv module"
    covered = {
        id(p)
        for m in network.modules()
        if isinstance(m, (*MAPPERS, *BESIDE))
        for p in m.parameters()
    }
    for name, parameter in network.named_parameters():
        if parameter.dim() > 1 and id(parameter) not in covered:
            shape = tuple(parameter.shape)
            return (
                None,
                f"its parameter {name} {shape} is of no Linear, Conv, Embedding or norm module",
            )
    seen: Counter[nn.Module] = Counter()

    def note(module: nn.Module, given: tuple[Tensor, ...], result: Tensor) -> None:
        weight: Any = module.weight
        steps = given[0] if getattr(module, "transposed", False) else result
        seen[module] += 2 * weight.numel() * (steps.numel() // weight.shape[0])

    hooks = [m.register_forward_hook(note) for m in mappers.values()]
    try:
        forward()
    finally:
        for hook in hooks:
            hook.remove()
    missed = next((name for name, m in mappers.items() if m not in seen), None)
    if missed is not None:
        return None, f"its module {missed} is never called, though its weight may be used"
    return seen.total(), ""


def _layer(layout: Layout, name: str, weight: Tensor) -> Layer | None:
    """The layer a parameter is the weight of; None for what is no layer. ValueError: an array that
    is not declared, or twice.
    """
    matching = [layer for layer in layout.layers if re.fullmatch(layer.weight, name)]
    if not matching and (weight.dim() < 2 or re.fullmatch(layout.other, name)):
        return None
    if len(matching) != 1:
        raise ValueError(
            f"parameter {name} is the weight of {len(matching)} declared layers, not of one"
        )
    return matching[0]
