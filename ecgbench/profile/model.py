"""One model measured in a process of its own (`process.ask`), so that neither memory nor time is
another model's.

Its argument is the JSON of what `measure` takes. Weights are random: what a network costs does not
depend on them.
"""

import json
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ecgbench import models
from ecgbench.core.process import answer
from ecgbench.core.seeds import rng
from ecgbench.evaluate.network import Network, build
from ecgbench.profile import clock
from ecgbench.profile.cost import contract_of
from ecgbench.profile.flop import FlopCounter, plain_kernels
from ecgbench.profile.paper import count
from ecgbench.profile.stored import CLASSES

TIMED = ("batch", "peak_mb", "throughput_samples_s", "latency_ms_sample")


def measure(
    model: str, path: str, leads: Sequence[int], device: str, batch: int, timed: bool
) -> dict[str, Any]:
    """`rows`: the columns of cost.csv but `model`, for each number of leads; `unknown`: operators
    without a rule; `uncounted`: why the paper's rule does not apply, or ""; `about`, `title`,
    `any_leads`.

    path: file of a plug-in, "" for a built-in model. leads: numbers of measured leads, 1 to 12, one
    after the other; with `timed`, the memory is right for the first of them only.
    """
    clock.ready(device)
    by_the_paper = hasattr(models.get(models.resolve(path or model)), "paper_layers")
    before = clock.resident(device)
    network = build(model, "random", device)
    measured: dict[str, Any] = {
        "title": network.card.title,
        "any_leads": contract_of(network.card).policy == "native",
        "about": clock.about(device),
        "rows": [],
        "unknown": {},
        "uncounted": "" if by_the_paper else "its file declares no paper_layers",
    }
    for n in leads:
        # before anything else, while the memory is fresh
        spent = _timed(network, n, device, batch, before) if timed else dict.fromkeys(TIMED)
        counts, unknown = _flop(network, _signal(network, n, 1, device), n)
        backbone = sum(p.numel() for p in network.module.parameters())
        if not backbone:  # what it computes is outside of torch, where nothing is counted
            counts = dict.fromkeys(counts)
        head = CLASSES * (network.card.dim + 1)
        row = {
            "leads": n,
            "samples": contract_of(network.card).received,
            "device": measured["about"]["device"],
            "params_backbone_m": backbone / 1e6,
            "params_with_head_m": (backbone + head) / 1e6,
        }
        measured["rows"].append({**spent, **row, **counts})
        measured["unknown"] |= unknown
    return measured


def _timed(network: Network, leads: int, device: str, batch: int, before: float) -> dict[str, Any]:
    x = _signal(network, leads, batch, device)
    peak = clock.peak(lambda: network.module(*x), device, before)
    spent = clock.milliseconds(lambda: network.module(*x), device)
    return dict(zip(TIMED, (batch, peak, 1000 * batch / spent, spent / batch)))


def _signal(network: Network, leads: int, batch: int, device: str) -> tuple[Tensor, Tensor]:
    """Signal and mask as the contract `paper` gives them: a network of any leads receives the
    first ones, any other all that it reads.
    """
    contract = contract_of(network.card)
    drawn = 0.3 * rng("profile", contract.received).standard_normal(
        (batch, len(contract.leads), contract.received)
    )
    measured = torch.ones(batch, len(contract.leads), dtype=torch.bool)
    if contract.policy == "native":
        measured[:, leads:] = False
    return torch.from_numpy(drawn).float().to(device), measured.to(device)


def _flop(
    model: Network, x: tuple[Tensor, Tensor], leads: int
) -> tuple[dict[str, float | None], dict[str, int]]:
    """GFLOP of one window with a linear head, in evaluation mode, and the operators without a
    rule.
    """
    card, network = model.card, model.module
    head = nn.Linear(card.dim, CLASSES).to(x[0].device)

    def whole() -> Any:
        # Features, or the pooled features alone, of any float type: what `evaluate.encode` takes
        out = network(*x)
        return head(getattr(out, "pooled", out).float())

    with plain_kernels():
        with torch.no_grad():
            # what a network keeps from its first pass (kernels of ECG-CPC) is no cost of a window
            whole()
            with FlopCounter() as forward:
                whole()
        for name, parameter in network.named_parameters():
            parameter.requires_grad_(not name.startswith(card.fixed))
        trained = [p for p in [*network.parameters(), *head.parameters()] if p.requires_grad]
        logits = whole()
        with FlopCounter() as backward:
            torch.autograd.grad(logits, trained, torch.ones_like(logits), allow_unused=True)
    network.requires_grad_(False)
    paper = count(model.name, network, card.dim, x[0].shape[-1], leads)
    counts = {
        "gflop_forward": forward.total,
        "gflop_forward_paper": paper and paper.forward,
        "gflop_backward": backward.total,
        "backward_layers": paper and paper.backward,
        "backward_layers_dense": paper and paper.backward_dense,
    }
    unknown = dict(forward.unknown + backward.unknown)
    return {key: None if n is None else n / 1e9 for key, n in counts.items()}, unknown


if __name__ == "__main__":
    answer(lambda arguments: measure(**json.loads(arguments[0])))
