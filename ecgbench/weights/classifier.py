"""The classifier that a file of weights brings with its network."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import load, save
from safetensors.torch import load as load_tensors
from torch import Tensor

from ecgbench.cards.model import Classifier, ModelCard, Weights
from ecgbench.core.files import put_hashed, read_hashed
from ecgbench.errors import BadSetting, BadWeights
from ecgbench.weights import read, released, shipped
from ecgbench.weights.chosen import ModelWeights
from ecgbench.weights.load import inside

NAMES = ("weight", "bias")
_READ: dict[tuple[str, str], "Head | None"] = {}
"""Of files of a gigabyte, which each cell asks for; by their hash and the model."""


class Head(NamedTuple):
    """A classifier with its numbers."""

    of: Classifier
    weight: np.ndarray
    """(class, dim) float32."""
    bias: np.ndarray
    """(class,) float32."""


def head(card: ModelCard, word: str) -> Head | None:
    """The classifier in the weights that `word` of `--weights` chooses; None where they bring none
    whose classes are known. BadSetting where their file is not here; BadWeights where its head is
    not the one on the card.
    """
    chosen = ModelWeights.of(card, word).settled()
    if chosen.kind not in ("card", "file"):
        return None
    found = chosen.located()
    if isinstance(found, Path):
        return _of_file(found, card)
    if found.classifier is None:
        return None
    if shipped.is_shipped(found.url):
        return _in(load_tensors(shipped.content(found)), found, card)
    model = released.name_of(card)
    kept = read_hashed(_file(model, found))
    if kept is None:
        raise BadSetting(
            f"the classifier of {card.title} was not converted with its network; run: "
            f"{released.fetching(found.name, model)} --force"
        )
    return Head(found.classifier, **load(kept))


def _of_file(path: Path, card: ModelCard) -> Head | None:
    layouts = [w for w in card.weights if w.classifier]
    which = released.sha256(path), card.title
    if which not in _READ and layouts:
        with read.unpacked(path, released.member_of(card)) as file:
            content = read.read(file)
            _READ[which] = next((h for w in layouts if (h := _in(content, w, card))), None)
    return _READ.get(which)


def keep(model: str, layout: Weights, card: ModelCard, file: Path) -> None:
    """Store the classifier of an authors' file beside its conversion, where the card knows one."""
    if layout.classifier and (made := _in(read.read(file), layout, card)):
        put_hashed(_file(model, layout), save(dict(zip(NAMES, made[1:]))))


def _file(model: str, layout: Weights) -> Path:
    return released.converted(model, layout.name).with_suffix(".classifier")


def _in(content: Mapping[str, Any], layout: Weights, card: ModelCard) -> Head | None:
    """The classifier of a layout in a file; None where the layout or the file has none."""
    if layout.classifier is None:
        return None
    tensors = inside(content, layout)
    parts = [tensors.get(layout.classifier.tensors + name) for name in NAMES]
    weight, bias = (p.detach().float().numpy() if isinstance(p, Tensor) else None for p in parts)
    if weight is None and bias is None:
        return None
    if weight is None or bias is None:
        missing = layout.classifier.tensors + NAMES[weight is not None]
        raise BadWeights(
            f"the classifier of {card.title} has no {missing} in its file; pass the authors' own"
        )
    classes = len(layout.classifier.classes)
    if weight.shape != (classes, card.dim) or bias.shape != (classes,):
        raise BadWeights(
            f"the classifier of {card.title} is {weight.shape} and {bias.shape} in its file where "
            f"{classes} classes of {card.dim} features belong; pass the authors' own file"
        )
    if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
        raise BadWeights(
            f"the classifier of {card.title} holds NaN or infinity in its file; pass another one"
        )
    return Head(layout.classifier, weight, bias)
