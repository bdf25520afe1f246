"""Gates: frozen parameters did not change, and trained ones did. A failed gate stops the fit."""

import math
from collections.abc import Iterable

from torch import nn

from ecgbench.errors import EcgbenchError


class GateError(EcgbenchError):
    """A training that is not what its protocol promises."""


class FitError(GateError):
    """One fit that is not a fine-tuning: its cells fail; other fits of the model may be sound."""


def unchanged(name: str, before: str, after: str) -> None:
    """The encoder's hash is the same before and after a fit on its features."""
    if before != after:
        raise GateError(
            f"{name}: the frozen encoder changed ({before[:12]} became {after[:12]}); a "
            f"probe must leave it alone"
        )


def each_in_one_group(module: nn.Module, groups: Iterable[Iterable[nn.Parameter]]) -> None:
    """Every parameter that requires grad is in exactly one optimiser group."""
    grouped = [id(p) for group in groups for p in group]
    lost = [
        n for n, p in module.named_parameters() if p.requires_grad and grouped.count(id(p)) != 1
    ]
    if lost:
        raise FitError(
            f"{len(lost)} trainable parameters are not in exactly one optimiser group: "
            f"{', '.join(lost[:4])}"
        )


def trainable(name: str, group: str, frozen: int, parameters: int) -> None:
    """The loss reaches every group of the card; else it is not fine-tuned."""
    if frozen and not parameters:
        raise FitError(
            f"{name}: no gradient reaches any of the {frozen} parameters of group {group!r}; does "
            f"its forward detach them?"
        )


def changed(name: str, group: str, hashes: tuple[str, str], reached: bool) -> None:
    """`finetune` changed a group: its hashes before training and in the best epoch differ, and it
    had a gradient (weight decay alone changes weights too).
    """
    if hashes[0] == hashes[1] or not reached:
        raise FitError(
            f"{name}: fine-tuning left group {group!r} as it was; no number of it would be one of "
            f"fine-tuning"
        )


def finite(name: str, epoch: int, loss: float, module: nn.Module) -> None:
    """Loss and weights are finite after every epoch; the last step can spoil the weights with a
    finite loss.
    """
    lost = [n for n, p in module.named_parameters() if not bool(p.isfinite().all())]
    if lost or not math.isfinite(loss):
        raise FitError(
            f"{name}: after epoch {epoch} the training loss is {loss}, and {len(lost)} parameters "
            f"are not finite ({', '.join(lost[:4])}); try a smaller training.lr, and see that no "
            f"hidden lead (NaN) is read"
        )
