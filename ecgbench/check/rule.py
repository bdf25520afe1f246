"""Deterministic pseudo-weights and inputs from a seed string: the rule by which two implementations
of a network are compared.

Every entry of a state dict takes its values from its name, so neither implementation needs the
other's random numbers, nor real weights.
"""

import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from ecgbench.cards.model import Weights

LAYOUTS = ("entries", "encoder_checkpoint", "checkpoint")
"""Where a keys file lists its entries; a `full_checkpoint` beside `encoder_checkpoint` adds a
decoder that no feature needs.
"""


def normal(text: str, shape: tuple[int, ...]) -> np.ndarray:
    """float32 standard normal values of `shape`, drawn by numpy's RandomState from the CRC of
    `text`.
    """
    generator = np.random.RandomState(zlib.crc32(text.encode()))
    return generator.standard_normal(shape).astype(np.float32)


def weight(key: str, shape: tuple[int, ...], seed: str) -> np.ndarray:
    """float32 values of the state-dict entry `key` of one dimension or more. The first rule that
    applies counts.

    >>> weight("norm.weight", (2,), "public-0").round(2)
    array([1.11, 1.01], dtype=float32)
    """
    z, flat = normal(f"{key}|{seed}", shape), len(shape) == 1
    tenth = np.float32(0.1) * z
    if key.endswith("running_mean"):
        return tenth
    if key.endswith("running_var"):
        return np.float32(1) + np.abs(tenth)
    if key.endswith(("parametrizations.weight.original0", "weight_g")) or (
        flat and key.endswith("weight")
    ):
        return np.float32(1) + tenth
    if flat:
        return np.float32(0.05) * z
    scaled: np.ndarray = z / np.float32(math.sqrt(math.prod(shape[1:])))
    return scaled


def _state_space(key: str, shape: tuple[int, ...], seed: str) -> np.ndarray | None:
    """float32 values of an entry of a state-space system, which must be stable (a pack of ECG-CPC
    has them); None of any other.
    """
    system, _, name = key.rpartition(".")
    if not system.endswith(".kernel.kernel"):
        return None

    def drawn(entry: str) -> np.ndarray:
        return normal(f"{system}.{entry}|{seed}", shape).astype(np.float64)

    match name:
        case "log_dt":
            low, high = math.log(0.001), math.log(0.1)
            random = np.random.RandomState(zlib.crc32(f"{key}|{seed}".encode()))
            value = low + random.random_sample(shape) * (high - low)
        case "w":
            z, n = drawn(name), np.arange(shape[-2])
            real = -0.5 * (1 + 0.1 * np.abs(z[..., 0]))
            value = np.stack([real, np.pi * (n + 0.5) * (1 + 0.05 * z[..., 1])], -1)
        case "B":
            value = drawn(name)
        case "P":
            value = 0.5 * drawn(name)
        case "Q":
            p = (0.5 * drawn("P")).astype(np.float32)
            value = p * np.array([1.0, -1.0]) + 0.05 * drawn(name)
        case "C":
            value = math.sqrt(0.5) * drawn(name)
        case _:
            return None
    return value.astype(np.float32)


def windows(name: str, seed: str, leads: int, time: int) -> np.ndarray:
    """(2, leads, time) float32 input of the model called `name`, as the network receives it after
    its own normalisation.
    """
    return np.float32(0.3) * normal(f"input|{name}|{seed}", (2, leads, time))


def entries(keys: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The entries of a keys file: each has `key`, `shape` and perhaps `left` (as the network
    computes it) and `same_tensor_as`.
    """
    return next(keys[name] for name in LAYOUTS if isinstance(keys.get(name), list))


def fill(
    network: nn.Module, keys: Mapping[str, Any], seed: str, layouts: Sequence[Weights] = ()
) -> str:
    """Give every floating entry of `network` its values; the answer is a complaint, or "" when the
    entries are the network's.

    layouts: those of the model's card say how its names differ from the file's. Of entries that
    share one tensor the last in the file decides. A network whose names or shapes differ is left as
    it is.
    """
    state = network.state_dict()
    given: dict[str, Mapping[str, Any]] = {}
    surplus = []
    for entry in entries(keys):
        ours = _our_name(entry, state, layouts)
        if ours in state:
            given[ours] = entry
        elif ours is not None and entry["key"] not in keys.get("not_needed_for_features", ()):
            surplus.append(ours)
    kinds = {
        "only in the network": [name for name in state if name not in given],
        "only in the file": surplus,
        "of another shape": [n for n, e in given.items() if [*state[n].shape] != [*e["shape"]]],
    }
    if any(kinds.values()):
        return "the entries of the file are not those of the network: " + "; ".join(
            f"{len(names)} {kind} ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''})"
            for kind, names in kinds.items()
            if names
        )
    for name, entry in given.items():
        tensor = state[name]
        if tensor.is_floating_point() and tensor.ndim and not entry.get("left"):
            tensor.copy_(torch.from_numpy(_value(entry["key"], tuple(tensor.shape), seed)))
    return ""


def _our_name(
    entry: Mapping[str, Any], state: Mapping[str, Any], layouts: Sequence[Weights]
) -> str | None:
    """None of what is no part of the network."""
    key: str = entry["key"]
    twin: str | None = entry.get("same_tensor_as")
    for layout in () if key in state else layouts:
        if key.startswith(tuple(layout.drop)):
            return None
        if layout.prefix and key.removeprefix(layout.prefix) in state:
            return key.removeprefix(layout.prefix)
    return twin if key not in state and twin in state else key


def _value(key: str, shape: tuple[int, ...], seed: str) -> np.ndarray:
    value = _state_space(key, shape, seed)
    return weight(key, shape, seed) if value is None else value
