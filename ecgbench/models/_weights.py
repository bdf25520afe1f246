"""Weights from a file into a network: every tensor matched in name and shape, or nothing is changed and the run stops."""

import hashlib
import os
import pickle
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load as load_bytes
from safetensors.torch import load_file
from torch import Tensor, nn

from ecgbench.cards import ModelCard, Weights
from ecgbench.errors import BadSetting, BadWeights, UnknownName
from ecgbench.room import plain

SAFE = (".safetensors",)
TORCH = (".pth", ".pt", ".ckpt")


@dataclass(frozen=True)
class _Reading:
    """A file read as one of the card's layouts: tensors under the network's names, and what does not fit."""

    layout: str
    tensors: Mapping[str, Tensor]
    missing: list[str]
    unexpected: list[str]
    wrong: list[str]

    @property
    def problems(self) -> int:
        return len(self.missing) + len(self.unexpected) + len(self.wrong)


def load(network: nn.Module, weights: str | Path, card: ModelCard) -> None:
    """Copy the tensors of a file into `network`; "random" leaves it as it is.

    `weights` is the path of a .safetensors, .pth, .pt or .ckpt file: a plain state dict, or one of the layouts of
    `card.weights` (container, prefix, entries dropped by name). Nothing in the file is executed. A name instead of a path,
    or a path without a file, is BadSetting; a file that cannot be read or does not match the whole state dict (buffers too)
    is BadWeights, and `network` is as before.
    """
    if weights == "random":
        return
    path = _path(weights, card)
    found = _read(path)
    layouts = (*card.weights, _plain_layout(card))
    readings = [_reading(network, found, layout) for layout in layouts]
    best = min(readings, key=lambda r: r.problems)
    if best.problems:
        raise BadWeights(f"{path} is not a file of weights of {card.title} ({_complaint(best)}); {_where(card)}")
    unsound = [name for name, t in best.tensors.items() if t.is_floating_point() and not bool(t.isfinite().all())]
    if unsound:
        raise BadWeights(f"{path} holds NaN or infinity in {_some(unsound)}; {_where(card)}")
    network.load_state_dict(dict(best.tensors))


def assign(network: nn.Module, content: bytes, source: str) -> None:
    """Copy the tensors of our own safetensors file into `network`, all of them or none; BadWeights when they do not match."""
    found = load_bytes(content)
    reading = _Reading("state dict", found, *_differences(network, found))
    if reading.problems:
        raise BadWeights(f"{source} does not fit the network ({_complaint(reading)}); remove its folder and run the same command again")
    network.load_state_dict(found)


def digest(network: nn.Module) -> str:
    """sha256 (hex) over the names, types, shapes and bytes of the whole state dict, in the order of the names."""
    whole = hashlib.sha256()
    for name, tensor in sorted(network.state_dict().items()):
        whole.update(f"{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        whole.update(memoryview(flat.view(torch.uint8).numpy()))  # bytes: numpy has no bfloat16
    return whole.hexdigest()


def _path(weights: str | Path, card: ModelCard) -> Path:
    path = Path(weights).expanduser()
    if isinstance(weights, str) and (weights in _names(card) or not (path.suffix or os.sep in weights or path.exists())):
        raise _not_here(weights, card)
    if not path.is_file():
        raise BadSetting(f"no file {path} (given as weights of {card.title}); {_where(card)}")
    if path.suffix not in SAFE + TORCH:
        raise BadSetting(f"weights {path}: the name of the file must end in {', '.join(SAFE + TORCH)}, which says how it is read")
    return path


def _not_here(name: str, card: ModelCard) -> Exception:
    for w in (w for w in card.weights if w.name == name):
        return BadSetting(
            f"the {name} weights of {card.title} ({w.file}) are not on this machine; get them from {w.url} "
            f"and pass --weights {plain(card.title)}=PATH, or --weights random"
        )
    if name == "released":
        return BadSetting(f"no weights of {card.title} are released; pass --weights {plain(card.title)}=PATH or --weights random")
    return UnknownName("weights", name, _names(card), f"Or the path of a file ending in {', '.join(SAFE + TORCH)}")


def _names(card: ModelCard) -> list[str]:
    return ["released", *(w.name for w in card.weights if w.name != "released"), "random"]


def _where(card: ModelCard) -> str:
    source = f"the authors' file is {card.weights[0].file} at {card.weights[0].url}" if card.weights else "no weights are released"
    return f"{source}; --weights random needs no file"


def _read(path: Path) -> Mapping[str, Any]:
    """The mapping in the file. Pickles are read by torch's restricted reader, which builds tensors and plain containers only."""
    try:
        with path.open("rb") as file:
            head = file.read(512).lstrip().lower()
    except OSError as error:
        raise BadSetting(f"cannot read {path} ({error.strerror}); make it readable, or pass another file") from None
    if head.startswith((b"<", b"version https://git-lfs")):
        kind = "a web page" if head.startswith(b"<") else "a Git LFS pointer"
        raise BadWeights(f"{path} is {kind}, not weights; download the file itself and pass its path")
    try:
        found = load_file(path) if path.suffix in SAFE else _torch_load(path)
    except pickle.UnpicklingError:
        # torch's own message runs over many lines and proposes to read the file without the restriction
        raise BadWeights(
            f"{path} is damaged or asks to build more than tensors and plain containers; nothing of it was run. "
            "Get the file again, or convert its state dict to .safetensors where you trust it"
        ) from None
    except Exception as error:  # a damaged pickle can make its reader fail in any way
        told = str(error).strip().split("\n")[0][:200] or type(error).__name__
        raise BadWeights(f"{path} cannot be read as weights ({told}); get the file again") from None
    if not isinstance(found, Mapping):
        raise BadWeights(f"{path} holds one {type(found).__name__}, not a dict of tensors; pass a file that holds a state dict")
    return found


def _torch_load(path: Path) -> Any:
    # mmap: a checkpoint with an optimiser's state is three times its weights, and only these are read
    return torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))


def _plain_layout(card: ModelCard) -> Weights:
    return Weights(name="plain state dict", url="", file="", sha256=None, licence=card.licence)


def _reading(network: nn.Module, found: Mapping[str, Any], layout: Weights) -> _Reading:
    tensors: dict[str, Tensor] = {}
    unexpected = []
    for key, value in _inside(found, layout).items():
        if _dropped(str(key), layout):
            continue
        if isinstance(key, str) and isinstance(value, Tensor) and key.startswith(layout.prefix):
            tensors[key.removeprefix(layout.prefix)] = value
        else:
            unexpected.append(str(key))
    missing, strange, wrong = _differences(network, tensors)
    return _Reading(layout=layout.name, tensors=tensors, missing=missing, unexpected=unexpected + strange, wrong=wrong)


def _differences(network: nn.Module, tensors: Mapping[str, Tensor]) -> tuple[list[str], list[str], list[str]]:
    """Names that are missing, unexpected, and of the wrong shape or type."""
    wanted = network.state_dict()
    missing = [name for name in wanted if name not in tensors]
    wrong = [name for name, t in wanted.items() if name in tensors and not _alike(t, tensors[name])]
    return missing, [name for name in tensors if name not in wanted], wrong


def _inside(found: Mapping[str, Any], layout: Weights) -> Mapping[str, Any]:
    """The state dict inside the containers; a file that holds tensors only (a conversion to safetensors) has none."""
    for key in layout.container:
        if all(isinstance(value, Tensor) for value in found.values()):
            break
        inner = found.get(key)
        if not isinstance(inner, Mapping):
            break
        found = inner
    return found


def _dropped(key: str, layout: Weights) -> bool:
    return any(key.startswith(name) if name.endswith(".") else key == name for name in layout.drop)


def _alike(ours: Tensor, theirs: Tensor) -> bool:
    stored = theirs.layout == torch.strided and theirs.device.type == "cpu"
    return stored and ours.shape == theirs.shape and ours.is_floating_point() == theirs.is_floating_point()


def _complaint(reading: _Reading) -> str:
    kinds = {"missing": reading.missing, "unexpected": reading.unexpected, "of the wrong shape or type": reading.wrong}
    told = [f"{len(names)} {kind}: {_some(names)}" for kind, names in kinds.items() if names]
    return f"read as {reading.layout}: " + "; ".join(told)


def _some(names: list[str]) -> str:
    return ", ".join(n[:80] for n in names[:3]) + (", ..." if len(names) > 3 else "")
