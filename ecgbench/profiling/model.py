"""One model measured in a process of its own (`process.ask`), so that neither memory nor time is
another model's.

The word is a `Job` as JSON. Weights are random: what a network costs does not depend on them.
"""

import json
from typing import Any

import torch
from torch import Tensor, nn

from ecgbench import models
from ecgbench.core.process import answer
from ecgbench.core.seeds import rng
from ecgbench.evaluate.network import Network, build
from ecgbench.profiling import clock
from ecgbench.profiling.cost import Job, contract_of
from ecgbench.profiling.flop import FlopCounter, plain_kernels
from ecgbench.profiling.layers import count, count_modules
from ecgbench.results.profile import CLASSES

TIMED = ("batch", "peak_mb", "throughput_samples_s", "latency_ms_sample")


def measure(job: Job) -> dict[str, Any]:
    """`rows`: the columns of cost.csv but `model`, for each number of leads; `unknown` (operators)
    and `uncounted` (why the paper's rule does not apply, or "") for all of them; `about`, `title`,
    `any_leads`.
    """
    clock.ready(job.device)
    models.get(models.resolve(job.path or job.model))
    before = clock.held(job.device)
    network = build(job.model, "random", job.device)
    measured: dict[str, Any] = {
        "title": network.card.title,
        "any_leads": contract_of(network.card).policy == "native",
        "about": clock.about(job.device),
        "rows": [],
        "unknown": {},
        "uncounted": "",
    }
    for leads in job.leads:
        # before anything else, while the memory is fresh
        timed = _timed(network, leads, job, before) if job.timed else dict.fromkeys(TIMED)
        counts, unknown, uncounted = _flop(network, _signal(network, leads, 1, job.device), leads)
        backbone = sum(p.numel() for p in network.module.parameters())
        head = CLASSES * (network.card.dim + 1)
        row = {
            "leads": leads,
            "samples": contract_of(network.card).received,
            "device": measured["about"]["device"],
            "params_backbone_m": backbone / 1e6,
            "params_with_head_m": (backbone + head) / 1e6,
        }
        measured["rows"].append({**timed, **row, **counts})
        measured["unknown"] |= unknown
        measured["uncounted"] = measured["uncounted"] or uncounted
    return measured


def _timed(network: Network, leads: int, job: Job, before: float | None) -> dict[str, Any]:
    x = _signal(network, leads, job.batch, job.device)
    peak = clock.peak(lambda: network.module(*x), job.device, before)
    spent = clock.milliseconds(lambda: network.module(*x), job.device)
    return dict(zip(TIMED, (job.batch, peak, 1000 * job.batch / spent, spent / job.batch)))


def _signal(network: Network, leads: int, batch: int, device: str) -> tuple[Tensor, Tensor]:
    """Signal and mask as the contract `paper` gives them: a network of any leads is shown the first
    ones, any other all it reads.
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
) -> tuple[dict[str, float | None], dict[str, int], str]:
    """GFLOP of one window with a linear head, in evaluation mode; the operators without a rule; why
    the paper's rule does not apply.
    """
    card, network = model.card, model.module
    head = nn.Linear(card.dim, CLASSES).to(x[0].device)

    def whole() -> Any:
        # Features, or the pooled features alone, of any float type: what `inference.encode` takes
        out = network(*x)
        return head(getattr(out, "pooled", out).float())

    with torch.no_grad(), plain_kernels():
        # what a network keeps from its first pass (folded norms, kernels) is no cost of a window
        whole()
        paper = count(model.name, network, card.dim, x[0].shape[-1], leads)
        modules, uncounted = (None, "") if paper else count_modules(network, lambda: network(*x))
        if paper:
            plain: int | None = paper.forward
        else:
            plain = None if modules is None else modules + 2 * CLASSES * card.dim
        with FlopCounter() as forward:
            whole()
    network.requires_grad_(True)
    for name, parameter in network.named_parameters():
        parameter.requires_grad_(not name.startswith(card.fixed))
    trained = [p for p in [*network.parameters(), *head.parameters()] if p.requires_grad]
    with plain_kernels():
        logits = whole()
    with FlopCounter() as backward:
        torch.autograd.grad(logits, trained, torch.ones_like(logits), allow_unused=True)
    network.requires_grad_(False)
    counts = {
        "gflop_forward": forward.total,
        "gflop_forward_paper": plain,
        "gflop_backward": backward.total,
        "backward_layers": paper.backward if paper else None,
        "backward_layers_dense": paper.backward_dense if paper else None,
    }
    unknown = dict(forward.unknown + backward.unknown)
    return {key: None if n is None else n / 1e9 for key, n in counts.items()}, unknown, uncounted


if __name__ == "__main__":
    answer(lambda arguments: measure(Job(**json.loads(arguments[0]))))
