"""What a network and a file hold: names, tensors, and what modules keep beside them."""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

EXTRA = "_extra_state"
"""Last part of a name of what a module keeps beside its tensors (get_extra_state)."""


def cores(network: nn.Module) -> Iterator[nn.Module]:
    """A network, and in it those that have all of its tensors: it only wraps them."""
    yield network
    inner = [child for child in network.children() if tensors_of(child)]
    if len(inner) == 1 and len(tensors_of(inner[0])) == len(tensors_of(network)):
        yield from cores(inner[0])


def fill(
    network: nn.Module, tensors: Mapping[str, Tensor], content: Any = None, start: str = ""
) -> None:
    """Copy tensors under the network's names into it. What its modules keep beside their tensors,
    and the versions by which they understand older files, are those of the file's `content` below
    the place `start`, else their own.
    """
    own, kept = network.state_dict(), dict(beside(content))
    more = {n: kept.get(start + n, v) for n, v in own.items() if not isinstance(v, Tensor)}
    state, known = OrderedDict({**tensors, **more}), dict(_versions(content))
    state._metadata = {  # type: ignore[attr-defined]
        n: known.get(f"{start}{n}".strip("."), version)
        for n, version in getattr(own, "_metadata", {}).items()
    }
    network.load_state_dict(state)


def _versions(content: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """What torch notes of the modules in the state dicts of a file, by the names of these."""
    for name, version in getattr(content, "_metadata", {}).items():
        yield f"{before}{name}".strip("."), version
    for key, value in content.items() if isinstance(content, Mapping) else ():
        yield from _versions(value, f"{before}{key}.")


def tensors_of(network: nn.Module) -> dict[str, Tensor]:
    """The state dict without what is no tensor; one tensor with two names is one object."""
    state = network.state_dict(keep_vars=True)
    return {n: v for n, v in state.items() if isinstance(v, Tensor)}


def same_shape(ours: Tensor, theirs: Tensor) -> bool:
    """Also where ours has none until it sees its input."""
    return is_lazy(ours) or (not theirs.is_nested and ours.shape == theirs.shape)


def stored(tensor: Tensor) -> bool:
    """Whether a file has the numbers of a tensor, each in its place."""
    whole = not (tensor.is_nested or tensor.is_quantized)
    return whole and tensor.layout == torch.strided and tensor.device.type == "cpu"


def same_values(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors of a file agree bit for bit: of some types torch compares no numbers."""
    if one is other or not (stored(one) and stored(other)):
        return one is other
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return torch.equal(*(t.detach().reshape(-1).view(torch.uint8) for t in (one, other)))


def _is_tensor(_: str, value: Any) -> bool:
    return isinstance(value, Tensor)


def flat_of(
    content: Any, before: str = "", kind: Callable[[str, Any], bool] = _is_tensor
) -> Iterator[tuple[str, Any]]:
    """The tensors of a file by the keys that lead to them, joined by dots; arrays of numpy are
    tensors, and places in a list are keys.
    """
    pairs = content.items() if isinstance(content, Mapping) else enumerate(content)
    for key, value in pairs:
        name = f"{before}{key}"
        if isinstance(value, np.ndarray) and value.dtype.kind in "fiubc":
            value = torch.from_numpy(np.array(value))
        if kind(name, value):
            yield name, value
        elif isinstance(value, Mapping | list | tuple) and not name.endswith(EXTRA):
            yield from flat_of(value, f"{name}.", kind)


def beside(content: Any) -> Iterator[tuple[str, Any]]:
    """What modules keep beside their tensors in a file, by the keys that lead to it."""
    return flat_of(content or {}, kind=lambda name, value: name.endswith(EXTRA))
