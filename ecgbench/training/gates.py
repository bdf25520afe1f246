"""Gates: what claims to be frozen did not move, what claims to be trained is trained. A gate that does not hold stops the fit."""

from collections.abc import Iterable

from torch import nn

from ecgbench.errors import EcgbenchError


class GateError(EcgbenchError):
    """A training that is not what it claims to be."""


def unchanged(name: str, before: str, after: str) -> None:
    """The encoder's hash before and after a `linear` fit and everything computed for it."""
    if before != after:
        raise GateError(f"{name}: the frozen encoder changed ({before[:12]} became {after[:12]}); a linear probe must leave it alone")


def each_in_one_group(module: nn.Module, groups: Iterable[Iterable[nn.Parameter]]) -> None:
    """Every parameter that requires grad is in exactly one optimiser group."""
    grouped = [id(p) for group in groups for p in group]
    lost = [n for n, p in module.named_parameters() if p.requires_grad and grouped.count(id(p)) != 1]
    if lost:
        raise GateError(f"{len(lost)} trainable parameters are not in exactly one optimiser group: {', '.join(lost[:4])}")
