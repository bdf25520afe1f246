"""FLOP as the paper that introduced LAEF counts them: from the layers of the authors' networks,
however ours compute them.

The file of a network declares its layers (`paper_layers`, see `ecgbench.layers.paper_flop`); the
weights themselves are those of the network that is counted.
"""

import re
from dataclasses import dataclass

from torch import Tensor, nn

from ecgbench import models
from ecgbench.layers.paper_flop import Layer, Layout
from ecgbench.profile.stored import CLASSES


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
    layers = getattr(models.get(model), "paper_layers", None)
    if layers is None:
        return None
    layout = layers(network, samples, leads)
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
