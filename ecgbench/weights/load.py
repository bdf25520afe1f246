"""Weights into a network: every tensor matched in name and shape, or nothing is changed and the run
stops.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors.torch import load as load_bytes
from torch import Tensor, nn

from ecgbench.core.cards import ModelCard, Weights
from ecgbench.core.files import warn_once
from ecgbench.errors import BadSetting, BadWeights
from ecgbench.weights import read, released, shipped
from ecgbench.weights.read import SAFE, TORCH
from ecgbench.weights.released import origin as origin

N = TypeVar("N", bound=nn.Module)

_MISSING, _UNEXPECTED, _WRONG = "missing", "unexpected", "of the wrong shape or type"
_DIFFERING = "given twice with different values"
_PLAIN = "plain state dict"


@dataclass(frozen=True)
class _Reading:
    """A file read as one of the card's layouts: tensors under the network's names, and what does
    not fit.
    """

    layout: str
    tensors: Mapping[str, Tensor]
    problems: Mapping[str, Sequence[str]]
    """What is wrong, in words -> names of tensors; no entry where all is well."""

    def __str__(self) -> str:
        kinds = [f"{len(names)} {kind}: {_some(names)}" for kind, names in self.problems.items()]
        return f"read as {self.layout}: " + "; ".join(kinds)


def load(network: nn.Module, weights: str | Path, card: ModelCard) -> None:
    """Copy the tensors of a file into `network`; "random" leaves it as it is.

    `weights` is a name on the card, whose file is shipped or was converted by `ecgbench models
    fetch`, or the path of a .safetensors, .pth, .pt or .ckpt file: a plain state dict, or one of
    the layouts of `card.weights` (container, prefix, entries dropped by name; a zip archive where
    the authors publish one). A card without `weights` takes what `load_checkpoint` finds. Nothing
    in a file is executed. A name whose file was not fetched, or a
    path without a file, is BadSetting; a file that cannot be read, does not match the whole state
    dict (buffers too), or is not the one that its card or the lock file pins, is BadWeights, and
    `network` is as before.
    """
    if weights == released.RANDOM:
        return
    found = located(weights, card)
    if isinstance(found, Weights):
        own = shipped.is_shipped(found.url)
        network.load_state_dict(
            _shipped_tensors(network, found) if own else _converted(network, found, card)
        )
        return
    if not card.weights and not hasattr(network, "published"):
        load_checkpoint(network, found)
        return
    with read.unpacked(found, released.member_of(card)) as file:
        layouts = (_plain_layout(card), *card.weights)
        network.load_state_dict(matched(network, file, card, layouts))


def load_checkpoint(network: N, path: str | Path, prefix: str = "") -> N:
    """`network` with its tensors from a usual checkpoint, all of them; one line says where in the
    file they were, unless it is a plain state dict, and what was left out.

    The names and shapes of the network's own tensors find container and prefix. Only whole modules
    that the network does not have are left out, as a head: neither a further layer of a numbered
    list, or a module inside one, nor a tensor of a module that it has. prefix: how the place begins
    where several would do ("state_dict_ema.module."). BadSetting: no such file. BadWeights: it does
    not fit, and `network` is as before.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise BadSetting(f"no file {path} (given as weights); --weights random needs no file")
    read.demand_ending(path, f"weights {path}", archive=False)
    found, left_out = _found(network, read.read(path), path, prefix)
    remedy = "pass a checkpoint of this very network; --weights random needs no file"
    network.load_state_dict(_whole(network, found, path, type(network).__name__, remedy))
    if found.layout != _PLAIN or left_out:
        rest = f"; left out: {', '.join(left_out)}" if left_out else ""
        warn_once(path, f"read as {found.layout}{rest}")
    return network


def located(weights: str | Path, card: ModelCard) -> Weights | Path:
    """What `weights` names: an entry of the card whose file is here, or the path of a file. Nothing
    is read; BadSetting or UnknownName, as of `load`, where it is not here.
    """
    layout = next((w for w in card.weights if w.name == weights), None)
    if layout is None:
        return _path(weights, card)
    if not released.is_here(released.name_of(card), layout):
        raise released.not_here(card, released.name_of(card), layout.name)
    return layout


def loaded(network: N, weights: str | Path | None, card: ModelCard) -> N:
    """`network` with the tensors of a file or name (see `load`), or as it is where `weights` is
    None: what `build` gives.
    """
    if weights is not None:
        load(network, weights, card)
    return network


def matched(
    network: nn.Module, path: Path, card: ModelCard, layouts: Sequence[Weights]
) -> dict[str, Tensor]:
    """Tensors of a file under the network's names, all of them, read in one of the layouts; else
    BadWeights.
    """
    published: Any = getattr(network, "published", dict)
    content = published(read.read(path))
    best = min(
        (_read_as(network, content, layout) for layout in layouts),
        key=lambda reading: sum(map(len, reading.problems.values())),
    )
    return _whole(network, best, path, card.title, _where(card))


def _whole(
    network: nn.Module, best: _Reading, path: Path, title: str, remedy: str
) -> dict[str, Tensor]:
    """The tensors of a reading that has no problem and no value that is not finite; BadWeights."""
    if best.problems:
        raise BadWeights(f"{path} is not a file of weights of {title} ({best}); {remedy}")
    # a number of float64 may be none of float32
    kinds = {name: t.dtype for name, t in network.state_dict().items()}
    unsound = [
        name
        for name, t in best.tensors.items()
        if t.is_floating_point() and not t.to(kinds[name]).isfinite().all()
    ]
    if unsound:
        raise BadWeights(f"{path} holds NaN or infinity in {_some(unsound)}; {remedy}")
    return dict(best.tensors)


def assign(network: nn.Module, content: bytes, source: str) -> None:
    """Copy the tensors of our own safetensors file into `network`, all of them or none; BadWeights
    when they do not match.
    """
    tensors = load_bytes(content)
    _must_fit(
        network,
        tensors,
        f"{source} does not fit the network",
        "remove its folder and run the same command again",
    )
    network.load_state_dict(tensors)


def digest(network: nn.Module) -> str:
    """sha256 (hex) over the names, types, shapes and bytes of the whole state dict, in the order of
    the names.
    """
    return fingerprint(network.state_dict())


def state_of(network: nn.Module) -> dict[str, Tensor]:
    """A copy of the whole state of a network on the CPU."""
    state = network.state_dict()
    return {k: v.detach().to("cpu", copy=True).contiguous() for k, v in state.items()}


def fingerprint(tensors: Mapping[str, Tensor]) -> str:
    """sha256 (hex) over names, types, shapes and bytes, in the order of the names."""
    whole = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        whole.update(f"{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        whole.update(flat.view(torch.uint8).numpy().data)  # bytes: numpy has no bfloat16
    return whole.hexdigest()


def _must_fit(
    network: nn.Module, tensors: Mapping[str, Tensor], complaint: str, remedy: str
) -> None:
    """BadWeights where the tensors are not the network's whole state dict."""
    reading = _Reading("state dict", tensors, _differences(network, tensors))
    if reading.problems:
        raise BadWeights(f"{complaint} ({reading}); {remedy}")


def _shipped_tensors(network: nn.Module, layout: Weights) -> Mapping[str, Tensor]:
    """The tensors of shipped weights, proved against the card; the file may hold fewer digits
    (float16) than `network` computes with.
    """
    tensors = load_bytes(shipped.content(layout))
    _must_fit(
        network, tensors, f"{layout.url} does not fit the network", shipped.remedy(layout.url)
    )
    return tensors


def _converted(network: nn.Module, layout: Weights, card: ModelCard) -> Mapping[str, Tensor]:
    """The conversion of an authors' file, proved against its record, the card and the lock file."""
    model, name = released.name_of(card), layout.name
    notes, path = released.record(model, layout), released.converted(model, name)
    assert notes is not None  # `located` has seen it
    released.prove(notes["source_sha256"], str(path), layout, model, released.lock_file())
    tensors = read.read(path)
    again = f"run: {released.fetching(name, model)} --force"
    _must_fit(network, tensors, f"{path} does not fit {card.title}", again)
    if fingerprint(tensors) != notes["tensors_sha256"]:
        raise BadWeights(f"{path} is not as it was converted: its tensors have changed; {again}")
    return tensors


def as_converted(path: Path, notes: released.Json) -> bool:
    """Whether a conversion holds the tensors that its record names."""
    try:
        return fingerprint(read.read(path)) == notes["tensors_sha256"]
    except BadWeights:
        return False


def _path(weights: str | Path, card: ModelCard) -> Path:
    path = Path(weights).expanduser()
    if isinstance(weights, str) and (
        weights in _names(card) or not (path.suffix or os.sep in weights or path.exists())
    ):
        ending = f"Or the path of a file ending in {', '.join(SAFE + TORCH)}"
        raise released.unknown(card, weights, _names(card), ending)
    if not path.is_file():
        raise BadSetting(f"no file {path} (given as weights of {card.title}); {_where(card)}")
    read.demand_ending(path, f"weights {path}", archive=bool(released.member_of(card)))
    return path


def _names(card: ModelCard) -> list[str]:
    return ["released", *(w.name for w in card.weights if w.name != "released"), "random"]


def _where(card: ModelCard) -> str:
    first = card.weights[0] if card.weights else None
    if first is not None and shipped.is_shipped(first.url):
        return (
            f"the {first.name} weights come with ecgbench (--weights {first.name}); --weights "
            f"random needs no file"
        )
    source = (
        "no weights are released"
        if first is None
        else f"the authors' file is {first.file} at {first.url}"
    )
    return f"{source}; --weights random needs no file"


def _plain_layout(card: ModelCard) -> Weights:
    return Weights(name=_PLAIN, url="", file="", sha256=None, licence=card.licence)


def _read_as(network: nn.Module, content: Mapping[str, Any], layout: Weights) -> _Reading:
    tensors: dict[str, Tensor] = {}
    unexpected, differing = [], []
    for key, value in _inside(content, layout).items():
        if _dropped(str(key), layout):
            continue
        if not (
            isinstance(key, str) and isinstance(value, Tensor) and key.startswith(layout.prefix)
        ):
            unexpected.append(str(key))
            continue
        name = key.removeprefix(layout.prefix)
        for theirs, ours in layout.aliases:
            name = name.replace(theirs, ours)
        if name in tensors and not torch.equal(tensors[name], value):
            differing.append(name)
        tensors[name] = value
    problems = _differences(network, tensors, unexpected)
    return _Reading(layout.name, tensors, problems | ({_DIFFERING: differing} if differing else {}))


def _found(
    network: nn.Module, content: Mapping[str, Any], path: Path, prefix: str
) -> tuple[_Reading, list[str]]:
    """The place in a file with most of the network's tensors, and the modules that are left out.
    BadWeights where several places hold all of them, with different values.
    """
    wanted, flat = network.state_dict(), dict(_flat(content))
    places, named = Counter[str](), Counter[str]()
    for name, tensor in flat.items():
        for place in ("", *_modules(name)):
            ours = wanted.get(name.removeprefix(place))
            alike = ours is not None and ours.shape == tensor.shape
            places[place] += alike and place.startswith(prefix)
            named[place] += ours is not None and place.startswith(prefix)
    start = max(places, key=lambda place: (places[place], named[place]), default=prefix)
    start = start if named[start] else prefix
    for other in (p for p, count in places.items() if p != start and count == len(wanted)):
        if not all(torch.equal(flat[start + n], flat[other + n]) for n in wanted):
            raise BadWeights(
                f"{path} holds two sets of weights that fit, under {start!r} and {other!r}; "
                f"choose in build: load_checkpoint(network, weights, {other!r})"
            )
    own = {m for name in (start, *(start + name for name in wanted)) for m in _modules(name)}
    inside, left_out = {}, dict[str, None]()
    for name, tensor in flat.items():
        other = next((m for m in _modules(name) if m not in own), "")
        numbered = any(map(str.isdigit, other.removeprefix(start).split(".")))
        if name.startswith(start) and (numbered or not other):
            inside[name.removeprefix(start)] = tensor
        else:
            left_out[other.rstrip(".") or name] = None
    where = f"state dict under {start!r}" if start else _PLAIN
    return _Reading(where, inside, _differences(network, inside)), list(left_out)


def _flat(content: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Tensor]]:
    """The tensors of a file by the keys that lead to them, joined by dots."""
    for key, value in content.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{key}.")
        elif isinstance(value, Tensor):
            yield f"{before}{key}", value


def _modules(name: str) -> list[str]:
    """Of `a.b.weight`: `a.` and `a.b.`."""
    return [name[: i + 1] for i, letter in enumerate(name) if letter == "."]


def _differences(
    network: nn.Module, tensors: Mapping[str, Tensor], unexpected: Sequence[str] = ()
) -> dict[str, list[str]]:
    """Names that are missing, unexpected (beside those known already), and of the wrong shape or
    type.
    """
    wanted = network.state_dict()
    both = wanted.keys() & tensors.keys()
    names = {
        _MISSING: [name for name in wanted if name not in both],
        _UNEXPECTED: [*unexpected, *(name for name in tensors if name not in both)],
        _WRONG: [
            n + _shapes(t, tensors[n])
            for n, t in wanted.items()
            if n in both and not _alike(t, tensors[n])
        ],
    }
    return {kind: found for kind, found in names.items() if found}


def _inside(content: Mapping[str, Any], layout: Weights) -> Mapping[str, Any]:
    """The state dict inside the containers; a file that holds tensors only (a conversion to
    safetensors) has none.
    """
    for key in layout.container:
        if all(isinstance(value, Tensor) for value in content.values()):
            break
        inner = content.get(key)
        if not isinstance(inner, Mapping):
            break
        content = inner
    return content


def _dropped(key: str, layout: Weights) -> bool:
    return any(key.startswith(name) if name.endswith(".") else key == name for name in layout.drop)


def _alike(ours: Tensor, theirs: Tensor) -> bool:
    stored = theirs.layout == torch.strided and theirs.device.type == "cpu" and not theirs.is_nested
    return (
        stored
        and ours.shape == theirs.shape
        and ours.is_floating_point() == theirs.is_floating_point()
    )


def _shapes(ours: Tensor, theirs: Tensor) -> str:
    if theirs.is_nested or ours.shape == theirs.shape:
        return ""
    return f" (in the file {tuple(theirs.shape)}, here {tuple(ours.shape)})"


def _some(names: Sequence[str]) -> str:
    return ", ".join(n[:80] for n in names[:3]) + (", ..." if len(names) > 3 else "")
