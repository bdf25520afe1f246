"""A usual checkpoint: where in a file the tensors of a network are, and what else is there.

A head is what comes after the last layer that the network has. What stands between its layers, or
continues a numbered list of them, is a layer that the network lacks, and nothing that may be left
out without a word of who wrote the network.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from ecgbench.errors import BadWeights
from ecgbench.weights.state import beside, flat_of, same_shape, same_values, tensors_of

HARMLESS = (
    *("position_ids", "total_ops", "total_params", "mask_emb", "mask_token", "pos_weight"),
    *("num_batches_tracked", "n_averaged"),
)
"""Last parts of names of tensors that no feature depends on where a network does without them."""
WRAPPERS = {"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "module"}
"""What torch puts between the names of modules that it has wrapped."""
PLAIN = "plain state dict"
_OLD_NORM = re.compile(r"(^|\.)([^.]+)_([gv])$")
_NEW_NORM = re.compile(r"(^|\.)parametrizations\.([^.]+)\.original([01])$")


@dataclass(frozen=True)
class Search:
    """A network's tensors in a file. prefix: how the place begins, where several would do;
    without: modules of the file that are not of the network, by their names within the place.
    """

    network: nn.Module
    content: Mapping[str, Any]
    ordered: bool
    """Whether the file has its tensors in the order of the layers."""
    prefix: str = ""
    without: Sequence[str] = ()
    source: str = "the file"
    left_out: Counter[str] = field(default_factory=Counter)
    """Module, or tensor, that was left out -> how many tensors it has."""

    @cached_property
    def wanted(self) -> dict[str, Tensor]:
        """The tensors of the network."""
        return tensors_of(self.network)

    @cached_property
    def parameters(self) -> dict[str, Tensor]:
        """Of them, the parameters, each under all of its names."""
        return {n: t for n, t in self.wanted.items() if isinstance(t, nn.Parameter)}

    @cached_property
    def flat(self) -> dict[str, Tensor]:
        """The tensors of the file by the keys that lead to them, joined by dots, without wrappers
        inside the network and with the names of its own kind of weight norm; lists of parameters
        under the names of these. BadWeights where one name has two values.
        """
        found: dict[str, Tensor] = {}
        for name, tensor in flat_of(self.content):
            own = self._spelled(name)
            if not same_values(found.setdefault(own, tensor), tensor):
                raise BadWeights(
                    f"{self.source} holds two tensors for {own!r}, with different values; save "
                    f"the state dict that is meant alone"
                )
        lists: dict[str, list[str]] = {}
        for name in found:
            place, _, number = name.rpartition(".")
            if number.isdigit() and "optim" not in place:
                lists.setdefault(place, []).append(name)
        for place, names in lists.items():
            names.sort(key=lambda name: int(name.rpartition(".")[2]))
            if listed := self._listed(place, [found[name] for name in names]):
                found = {n: t for n, t in found.items() if n not in names} | listed
        return found

    def _spelled(self, name: str) -> str:
        """A name as the network spells its end, where it has one."""
        for other in (name, _OLD_NORM.sub(_to_new, name), _NEW_NORM.sub(_to_old, name)):
            parts = other.split(".")
            for i, part in enumerate(parts):
                own = ".".join(p for p in parts[i:] if p not in WRAPPERS)
                if part not in WRAPPERS and own in self.wanted:
                    return ".".join([*parts[:i], own])
        return name

    def _listed(self, place: str, tensors: Sequence[Tensor]) -> dict[str, Tensor]:
        """A list that holds the network's parameters one after the other, by their names."""
        ours = [tuple(p.shape) for p in self.network.parameters() if not is_lazy(p)]
        theirs, names = [tuple(t.shape) for t in tensors], dict(self.network.named_parameters())
        for start in range(len(theirs) - len(ours) + 1) if len(ours) > 1 else ():
            if theirs[start : start + len(ours)] == ours:
                return {f"{place}.{name}": t for name, t in zip(names, tensors[start:])}
        return {}

    @cached_property
    def places(self) -> Counter[str]:
        """Place -> how many tensors of the network it holds, of the right shape, and a little for
        each of the right name.
        """
        found = Counter[str]()
        for name, tensor in self.flat.items():
            for place in ("", *_modules(name)):
                if (ours := self.wanted.get(name.removeprefix(place))) is not None:
                    found[place] += 1 + 2**20 * same_shape(ours, tensor)
        return found

    @cached_property
    def fitting(self) -> int:
        """How much of the network the best place holds."""
        return max((self.places[place] for place in self.able), default=0)

    @cached_property
    def able(self) -> list[str]:
        """The places that may be meant."""
        return [place for place in self.places if place.startswith(self.prefix)]

    @cached_property
    def start(self) -> str:
        """That with most of them."""
        return max(self.able, key=lambda place: self.places[place], default=self.prefix)

    def rival(self) -> str | None:
        """Another place that would do as well and holds other values."""
        needed = self.parameters or self.wanted
        for other in self.able:
            own = {n: self.flat[other + n] for n in self.wanted if other + n in self.flat}
            whole = all(n in own and same_shape(t, own[n]) for n, t in needed.items())
            known = ((t, self.flat.get(self.start + n)) for n, t in own.items())
            alike = all(u is None or same_values(t, u) for t, u in known)
            meant = other != self.start and not self._stated(other.removeprefix(self.start))
            if meant and whole and not alike:
                return other
        return None

    def inside(self) -> dict[str, Tensor]:
        """The tensors of the place under the network's names, those that belong to no head among
        them.
        """
        inside = dict[str, Tensor]()
        for name, tensor in self.flat.items():
            short = name.removeprefix(self.start)
            if not name.startswith(self.start):
                self._leave_out(name)
            elif short in self.wanted or not self._may_go(name):
                inside[short] = tensor
        return inside | self._completed(inside)

    def _completed(self, inside: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """What a set of averaged weights may lack: buffers, which are those of the plain weights;
        and what is saved once under one of two names, or counted from 0.
        """
        whole: dict[str, Tensor] = {}
        plain = max(self.places, key=lambda place: self.places[place], default=self.start)
        same = {id(tensor): inside[n] for n, tensor in self.wanted.items() if n in inside}
        for name, ours in self.wanted.items():
            if name in inside:
                continue
            if id(ours) in same:
                whole[name] = same[id(ours)]
            elif name.endswith("num_batches_tracked"):
                whole[name] = ours
            elif self.prefix and name not in self.parameters and plain + name in self.flat:
                whole[name] = self.flat[plain + name]
        return whole

    def tied(self, inside: Mapping[str, Tensor]) -> list[str]:
        """Names of one tensor of the network that hold different ones in the file."""
        first: dict[int, str] = {}
        names = [n for n in self.wanted if n in inside]
        pairs = ((first.setdefault(id(self.wanted[n]), n), n) for n in names)
        return [n for one, n in pairs if n != one and not same_values(inside[one], inside[n])]

    def further(self, names: Sequence[str]) -> list[str]:
        """The modules, as `without` takes them, of tensors that the network does not have."""
        modules = ((self._module(self.start + name), name) for name in names)
        return sorted({m.removeprefix(self.start).rstrip(".") or name for m, name in modules})

    def forgotten(self) -> list[str]:
        """What modules keep beside their tensors and the file lacks, where it could have it."""
        kept, own = dict(beside(self.content)), self.network.state_dict()
        names = [name for name, value in own.items() if not isinstance(value, Tensor)]
        return [n for n in names if self.ordered and self.start + n not in kept]

    @cached_property
    def _own(self) -> set[str]:
        """Modules of the network, as the file names them, and those that contain the place."""
        names = (self.start, *(self.start + name for name in self.wanted))
        return {module for name in names for module in _modules(name)}

    def _module(self, name: str) -> str:
        """The outermost module around a tensor that the network does not have, or ""."""
        return next((m for m in _modules(name) if m not in self._own), "")

    def _may_go(self, name: str) -> bool:
        """Whether a tensor that the network lacks belongs to a head, or to nothing that counts."""
        module, short = self._module(name), name.removeprefix(self.start)
        if not (self._stated(short) or short.rpartition(".")[2] in HARMLESS):
            if not module or any(map(str.isdigit, module.removeprefix(self.start).split("."))):
                return False
            if self._lacks(module):
                return False
        self._leave_out(name)
        return True

    def _stated(self, name: str) -> bool:
        """Whether a part of the place, or what is in it, is named in `without`."""
        return any(f"{name}.".startswith(f"{one}.") for one in self.without)

    def _lacks(self, module: str) -> bool:
        """Whether a module of the file is a layer that the network lacks, no head: what is inside
        a part of the network, a norm, or one of a numbered kind. In a file that keeps no order also
        what has no matrix; in others what is between layers of the network.
        """
        inside = module[: module.rstrip(".").rfind(".") + 1]
        if not all((self.start + name).startswith(inside) for name in self.wanted):
            return True
        parts = {n.removeprefix(module): t for n, t in self.flat.items() if n.startswith(module)}
        sizes = {t.ndim for t in parts.values()}
        kind, linear = _unnumbered(module), parts.keys() <= {"weight", "bias"} and 2 in sizes
        alike = kind != module and kind in map(_unnumbered, self._own)
        if alike and not (linear and self.ordered):
            return True
        if not self.ordered:
            return 2 not in sizes
        order = [n for n in self.flat if n.startswith((module, self.start))]
        ours = [i for i, n in enumerate(order) if n.removeprefix(self.start) in self.wanted]
        theirs = next(i for i, n in enumerate(order) if n.startswith(module))
        return max(sizes) < 2 or (bool(ours) and ours[0] < theirs < ours[-1])

    def _leave_out(self, name: str) -> None:
        self.left_out[self._module(name).rstrip(".") or name] += 1


def _modules(name: str) -> list[str]:
    """Of `a.b.weight`: `a.` and `a.b.`."""
    return [name[: i + 1] for i, letter in enumerate(name) if letter == "."]


def _unnumbered(module: str) -> str:
    """A module without the numbers in its own name: `a.layer3.` as `a.layer#.`."""
    place, _, own = module.rstrip(".").rpartition(".")
    return f"{place}." + re.sub(r"\d+", "#", own)


def _to_new(match: re.Match[str]) -> str:
    return f"{match[1]}parametrizations.{match[2]}.original{'gv'.index(match[3])}"


def _to_old(match: re.Match[str]) -> str:
    return f"{match[1]}{match[2]}_{'gv'[int(match[3])]}"
