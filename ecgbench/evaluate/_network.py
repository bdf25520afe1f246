"""The fine-tuned network: encoder and head, trainable parameters, and their learning rates."""

import torch
from torch import Tensor, nn

from ecgbench.cards.cell import Training
from ecgbench.cards.model import InputContract, ModelCard
from ecgbench.evaluate import gates
from ecgbench.evaluate.loop import head
from ecgbench.layers.features import pooled_of

SLOWER = {"early": 0.01, "late": 0.1, "head": 1.0}
"""Rate of each group as a share of the head's (reference benchmark: discriminative factor 0.1, once
and twice).
"""


class Tuning(nn.Module):
    """An encoder with a head; parameters that its card calls fixed are not trained."""

    def __init__(self, encoder: nn.Module, card: ModelCard, labels: int, seed: int) -> None:
        super().__init__()
        self.encoder = encoder
        for name, parameter in encoder.named_parameters():
            parameter.requires_grad_(not name.startswith(card.fixed))
        self.head = head(card.dim, labels, seed)

    def forward(self, signal: Tensor, measured: Tensor) -> Tensor:
        """signal (batch, lead, time), measured (batch, lead) -> logits (batch, label)."""
        pooled = pooled_of(self.encoder(signal, measured))
        logits: Tensor = self.head(pooled.to(self.head.weight.dtype))
        return logits


def freeze_unused(module: Tuning, contract: InputContract) -> list[str]:
    """Freeze parameters that a forward pass with all leads does not use; returns the names of all
    frozen ones in the encoder.

    The pass is in evaluation mode, so that parameters are not missed by chance (LayerDrop).
    """
    device, leads = next(module.parameters()).device, len(contract.leads)
    signal = torch.zeros(1, leads, contract.received, device=device)
    module.eval()
    module(signal, torch.ones(1, leads, dtype=torch.bool, device=device)).sum().backward()
    unused = [n for n, p in module.named_parameters() if p.grad is None]
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(name not in unused)
    module.zero_grad(set_to_none=True)
    return [n.removeprefix("encoder.") for n in unused]


def groups(module: Tuning, card: ModelCard) -> dict[str, dict[str, nn.Parameter]]:
    """early, late and head -> name -> trainable parameter, by the prefixes of the card; a group
    without parameters is left out.

    GateError where a trainable parameter is in no group or in two, or a group has no trainable
    parameter.
    """
    prefixes = {
        g: tuple(f"encoder.{p}" for p in card.groups.get(g, ())) for g in ("early", "late")
    } | {"head": ("head.",)}
    every = {
        g: {n: p for n, p in module.named_parameters() if n.startswith(start)}
        for g, start in prefixes.items()
    }
    groups = {g: {n: p for n, p in named.items() if p.requires_grad} for g, named in every.items()}
    gates.each_in_one_group(module, [named.values() for named in groups.values()])
    for group, named in every.items():
        gates.trainable(card.title, group, len(named) - len(groups[group]), len(groups[group]))
    return {g: named for g, named in groups.items() if named}


def optimiser(groups: dict[str, dict[str, nn.Parameter]], training: Training) -> torch.optim.AdamW:
    """AdamW with one group per entry of `groups`, weight decay on all of them."""
    return torch.optim.AdamW(
        [
            {
                "params": list(parameters.values()),
                "lr": training.lr * (SLOWER[group] if training.lr_groups else 1),
                "name": group,
            }
            for group, parameters in groups.items()
        ],
        weight_decay=training.weight_decay,
    )
