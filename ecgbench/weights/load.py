"""Weights into a network: every tensor matched in name and shape, or nothing is changed and the run
stops.
"""

import hashlib
import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors.torch import load as load_bytes
from torch import Tensor, nn

from ecgbench.cards.cell import RANDOM
from ecgbench.cards.model import ModelCard, Weights
from ecgbench.core.files import warn_once
from ecgbench.core.text import counted
from ecgbench.errors import BadSetting, BadWeights
from ecgbench.weights import read, released, shipped
from ecgbench.weights.chosen import ModelWeights, where
from ecgbench.weights.endings import demand_ending
from ecgbench.weights.usual import PLAIN, Search, extras, same_shape, tensors_of

N = TypeVar("N", bound=nn.Module)

_MISSING, _UNEXPECTED, _WRONG = "missing", "unexpected", "of the wrong shape or type"
_DIFFERING = "given twice with different values"
_TIED = "one tensor of the network and different ones in the file"


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
    dict (buffers too), or is not the one that its card knows, is BadWeights, and
    `network` is as before.
    """
    chosen = ModelWeights.of(card, weights)
    if chosen.kind == RANDOM:
        return
    found = chosen.located()
    if isinstance(found, Weights):
        own = shipped.is_shipped(found.url)
        tensors = _shipped_tensors(network, found) if own else _converted(network, found, card)
        network.load_state_dict(tensors)
        return
    if not card.weights and not hasattr(network, "published"):
        load_checkpoint(network, found)
        return
    with read.unpacked(found, released.member_of(card)) as file:
        layouts = (_plain_layout(card), *card.weights)
        tensors = matched(network, file, card, layouts)
        network.load_state_dict(tensors | extras(network, {}, ""))


def load_checkpoint(
    network: N, path: str | Path, prefix: str = "", without: Sequence[str] = ()
) -> N:
    """`network` with its tensors from a usual checkpoint, all of them; one line says where in the
    file they were, unless it is a plain state dict, and what was left out.

    The names and shapes of the network's own tensors find container and prefix. Only whole modules
    that the network does not have are left out, as a head, and tensors that no feature depends on
    (`usual.HARMLESS`). A layer that the network lacks is refused: one between its layers, or a
    further one of a numbered list. prefix: how the place begins where several would do
    ("state_dict_ema.module."). without: modules within the place that are left out all the same
    ("projector"). BadSetting: no such file. BadWeights: it does not fit, and `network` is as
    before.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise BadSetting(f"no file {path} (given as weights); --weights random needs no file")
    demand_ending(path, f"weights {path}", archive=False)
    content = read.read(path)
    found = Search(network, content, not read.is_safe(path), prefix, tuple(without))
    if rivals := found.rivals():
        raise BadWeights(
            f"{path} holds two sets of weights that fit, under {rivals.one!r} and "
            f"{rivals.other!r}; choose in build: load_checkpoint(network, weights, "
            f"{rivals.other!r})"
        )
    where = f"state dict under {found.start!r}" if found.start else PLAIN
    inside = found.inside()
    problems = _differences(network, inside) | {k: n for k, n in [(_TIED, found.tied(inside))] if n}
    remedy = "pass a checkpoint of this very network; --weights random needs no file"
    if further := sorted({n.split(".")[0] for n in problems.get(_UNEXPECTED, ()) if "." in n}):
        named = ", ".join(map(repr, further[:3]))
        remedy = f"{remedy}; what is no part of it is named in build: without=[{named}]"
    best = _Reading(where, inside, problems)
    tensors = _whole(network, best, path, type(network).__name__, remedy)
    network.load_state_dict(tensors | extras(network, content, found.start))
    _note(FileRead(path, where, dict(found.left_out)))
    return network


@dataclass(frozen=True)
class FileRead:
    """How `load_checkpoint` has read a file."""

    path: Path
    place: str
    """Where in the file the network's tensors were, in words."""
    left_out: Mapping[str, int]
    """Module of the file that the network does without -> how many tensors it has."""

    @property
    def is_told(self) -> bool:
        """Whether it is no plain state dict of this very network."""
        return self.place != PLAIN or bool(self.left_out)

    def __str__(self) -> str:
        named = [f"{name} ({counted(n, 'tensor')})" for name, n in self.left_out.items()]
        return f"read as {self.place}" + (f"; left out: {', '.join(named)}" if named else "")


_noted: ContextVar[list[FileRead] | None] = ContextVar("noted", default=None)


@contextmanager
def noting() -> Iterator[list[FileRead]]:
    """The files that `load_checkpoint` reads inside, in place of a warning."""
    files: list[FileRead] = []
    token = _noted.set(files)
    try:
        yield files
    finally:
        _noted.reset(token)


def _note(read: FileRead) -> None:
    if (files := _noted.get()) is not None:
        files.append(read)
    elif read.is_told:
        warn_once(read.path, str(read))


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
    return _whole(network, best, path, card.title, where(card))


def _whole(
    network: nn.Module, best: _Reading, path: Path, title: str, remedy: str
) -> dict[str, Tensor]:
    """The tensors of a reading that has no problem and no value that is not finite; BadWeights."""
    if best.problems:
        raise BadWeights(f"{path} is not a file of weights of {title} ({best}); {remedy}")
    # a number of float64 may be none of float32; a mask of its own may hold infinity
    ours, parameters = tensors_of(network), dict(network.named_parameters(remove_duplicate=False))
    unsound = []
    for name, t in best.tensors.items():
        given = t.to(ours[name].dtype) if t.is_floating_point() or t.is_complex() else t
        if given.isfinite().all():
            continue
        mask = name not in parameters and torch.equal(given.isinf(), ours[name].isinf())
        if given.isnan().any() or not mask:
            unsound.append(name)
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
    network.load_state_dict(tensors | extras(network, {}, ""))


def digest(network: nn.Module) -> str:
    """sha256 (hex) over the names, types, shapes and bytes of the whole state dict, in the order of
    the names.
    """
    return fingerprint(network.state_dict())


def state_of(network: nn.Module) -> dict[str, Tensor]:
    """A copy of all tensors of a network on the CPU."""
    state = tensors_of(network)
    return {k: v.detach().to("cpu", copy=True).contiguous() for k, v in state.items()}


def fingerprint(tensors: Mapping[str, Any]) -> str:
    """sha256 (hex) over names, types, shapes and bytes, in the order of the names; of what is no
    tensor, over its pickle.
    """
    whole = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        if not isinstance(tensor, Tensor):
            whole.update(f"{name}|".encode() + pickle.dumps(tensor, protocol=4))
            continue
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
    """The tensors of shipped weights, proved against the card, without those that are no part of
    the backbone; the file may hold fewer digits (float16) than `network` computes with.
    """
    content = load_bytes(shipped.content(layout))
    tensors = {name: t for name, t in content.items() if not _dropped(name, layout)}
    _must_fit(
        network, tensors, f"{layout.url} does not fit the network", shipped.remedy(layout.url)
    )
    return tensors


def _converted(network: nn.Module, layout: Weights, card: ModelCard) -> Mapping[str, Tensor]:
    """The conversion of an authors' file, proved against its record and the card."""
    model, name = released.name_of(card), layout.name
    notes, path = released.record(model, layout), released.converted(model, name)
    assert notes is not None  # `ModelWeights.located` has seen it
    released.prove(notes["source_sha256"], str(path), layout, model)
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


def _plain_layout(card: ModelCard) -> Weights:
    return Weights(name=PLAIN, url="", file="", sha256=None, licence=card.licence)


def _read_as(network: nn.Module, content: Mapping[str, Any], layout: Weights) -> _Reading:
    tensors: dict[str, Tensor] = {}
    unexpected, differing = [], []
    for key, value in inside(content, layout).items():
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


def _differences(
    network: nn.Module, tensors: Mapping[str, Tensor], unexpected: Sequence[str] = ()
) -> dict[str, list[str]]:
    """Names that are missing, unexpected (beside those known already), and of the wrong shape or
    type.
    """
    wanted = tensors_of(network)
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


def inside(content: Mapping[str, Any], layout: Weights) -> Mapping[str, Any]:
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
        and same_shape(ours, theirs)
        and ours.is_floating_point() == theirs.is_floating_point()
        and ours.is_complex() == theirs.is_complex()
    )


def _shapes(ours: Tensor, theirs: Tensor) -> str:
    if theirs.is_nested or same_shape(ours, theirs):
        return ""
    return f" (in the file {tuple(theirs.shape)}, here {tuple(ours.shape)})"


def _some(names: Sequence[str]) -> str:
    return ", ".join(n[:80] for n in names[:3]) + (", ..." if len(names) > 3 else "")
