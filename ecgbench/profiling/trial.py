"""One model measured in a process of its own, so that neither memory nor time is another model's.

`python -m ecgbench.profiling.trial JOB` prints one line of JSON; JOB is a `Job` as JSON. What the model itself prints is thrown away.
Weights are random: what a network costs does not depend on them.
"""

import json
import os
import re
import signal
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from ecgbench.inference.network import Network

MB = 1e6
WARM, FEWEST, MOST, SECONDS = 3, 5, 200, 3.0
"""Passes before the timed ones; timed passes: at least, at most, and the seconds after which no further one begins."""
PATIENCE = 3600
"""Seconds after which the process ends itself."""


@dataclass(frozen=True)
class Job:
    """What one process measures."""

    model: str
    path: str
    """File of a stranger, "" for the package's own."""
    leads: tuple[int, ...]
    """Numbers of measured leads, 1 to 12, one after the other."""
    device: str
    batch: int
    timed: bool
    """Whether memory and time are measured, not only counted; memory is true for the first number of leads."""


def measure(job: Job) -> dict[str, Any]:
    """`rows`: the columns of cost.csv but `model`, for each number of leads; `unknown` (operators) and `uncounted` (why the paper's rule
    does not apply, or "") for all of them; `about`, `title`, `any_leads`."""
    from ecgbench import models
    from ecgbench.inference.network import build
    from ecgbench.profiling.cost import contract_of

    ready(job.device)
    models.get(models.resolve(job.path or job.model))
    before = _held(job.device)
    found = build(job.model, "random", job.device)
    rows: list[dict[str, Any]] = []
    missed: dict[str, Any] = {"unknown": {}, "uncounted": ""}
    for leads in job.leads:
        row, unknown, uncounted = _row(found, leads, job, before)
        rows.append(row)
        missed = {"unknown": missed["unknown"] | unknown, "uncounted": missed["uncounted"] or uncounted}
    any_leads = contract_of(found.card).policy == "native"
    return {"title": found.card.title, "any_leads": any_leads, "rows": rows, "about": about(job.device), **missed}


def _row(found: "Network", leads: int, job: Job, before: float | None) -> tuple[dict[str, Any], dict[str, int], str]:
    from ecgbench.profiling.cost import CLASSES, contract_of

    contract = contract_of(found.card)
    row: dict[str, Any] = dict.fromkeys(("batch", "peak_mb", "throughput_samples_s", "latency_ms_sample"))
    if job.timed:  # before anything else, while the memory is fresh
        x = _signal(found, leads, job.batch, job.device)
        row |= {"batch": job.batch, "peak_mb": _peak(lambda: found.module(*x), job.device, before)}
        spent = milliseconds(lambda: found.module(*x), job.device)
        row |= {"throughput_samples_s": 1000 * job.batch / spent, "latency_ms_sample": spent / job.batch}
    backbone = sum(p.numel() for p in found.module.parameters())
    counted, unknown, uncounted = _flop(found, _signal(found, leads, 1, job.device), leads)
    row |= {"leads": leads, "samples": contract.received, "device": _name(job.device), **counted}
    row |= {"params_backbone_m": backbone / 1e6, "params_with_head_m": (backbone + CLASSES * (found.card.dim + 1)) / 1e6}
    return row, unknown, uncounted


def _signal(found: "Network", leads: int, batch: int, device: str) -> "tuple[Tensor, Tensor]":
    """Signal and mask as the contract `paper` gives them: a network of any leads is shown the first ones, any other all it reads."""
    import torch

    from ecgbench.profiling.cost import contract_of
    from ecgbench.seeds import rng

    contract = contract_of(found.card)
    drawn = 0.3 * rng("profile", contract.received).standard_normal((batch, len(contract.leads), contract.received))
    measured = torch.ones(batch, len(contract.leads), dtype=torch.bool)
    if contract.policy == "native":
        measured[:, leads:] = False
    return torch.from_numpy(drawn).float().to(device), measured.to(device)


def _flop(found: "Network", x: "tuple[Tensor, Tensor]", leads: int) -> tuple[dict[str, float | None], dict[str, int], str]:
    """GFLOP of one window with a linear head, in evaluation mode; the operators without a rule; why the paper's rule does not apply."""
    import torch
    from torch import nn

    from ecgbench.profiling.cost import CLASSES
    from ecgbench.profiling.flop import FlopCounter, plain_kernels
    from ecgbench.profiling.layers import count, count_modules

    card, network = found.card, found.module
    head = nn.Linear(card.dim, CLASSES).to(x[0].device)

    def whole() -> Any:
        out = network(*x)  # Features, or the pooled features alone, of any float type: what `inference.encode` takes
        return head(getattr(out, "pooled", out).float())

    with torch.no_grad(), plain_kernels():
        whole()  # what a network keeps from its first pass (folded norms, kernels) is no cost of a window
        paper = count(found.name, network, card.dim, x[0].shape[-1], leads)
        modules, uncounted = (None, "") if paper else count_modules(network, lambda: network(*x))
        plain = paper.forward if paper else None if modules is None else modules + 2 * CLASSES * card.dim
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
        "gflop_forward": forward.total, "gflop_forward_paper": plain, "gflop_backward": backward.total,
        "backward_layers": paper.backward if paper else None, "backward_layers_dense": paper.backward_dense if paper else None,
    }  # fmt: skip
    unknown = dict(forward.unknown + backward.unknown)
    return {key: None if n is None else n / 1e9 for key, n in counts.items()}, unknown, uncounted


def milliseconds(run: Callable[[], object], device: str, seconds: float = SECONDS) -> float:
    """Median of repeated passes after some that warm up, by CUDA events on a GPU; no further one begins after `seconds`."""
    import torch

    spent: list[float] = []
    with torch.inference_mode():
        for _ in range(WARM):
            run()
        begun = time.perf_counter()
        while len(spent) < FEWEST or (len(spent) < MOST and time.perf_counter() - begun < seconds):
            spent.append(_pass(run, device))
    return statistics.median(spent)


def _pass(run: Callable[[], object], device: str) -> float:
    import torch

    if device == "cpu":
        started = time.perf_counter()
        run()
        return 1000 * (time.perf_counter() - started)
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    run()
    last.record()
    torch.cuda.synchronize()
    return float(first.elapsed_time(last))


def _held(device: str) -> float | None:
    """Bytes that the process holds before the network is built, once torch's libraries are awake; None where the system does not tell."""
    import torch

    if device != "cpu":
        return 0.0
    with torch.inference_mode():
        torch.nn.functional.conv1d(torch.ones(1, 16, 64), torch.ones(16, 16, 3)).flatten(1) @ torch.ones(992, 64)
    return _status("VmRSS")


def _peak(run: Callable[[], object], device: str, before: float | None) -> float | None:
    """MB that weights, input and one pass hold at most: allocated on a GPU, resident beyond `before` on a CPU."""
    import torch

    with torch.inference_mode():
        if device != "cpu":
            torch.cuda.reset_peak_memory_stats()
            run()
            torch.cuda.synchronize()
            return torch.cuda.max_memory_allocated() / MB
        try:
            Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew: building the network has one of its own
        except OSError:
            return None
        run()
    peak = _status("VmHWM")
    return None if peak is None or before is None else (peak - before) / MB


def _status(word: str) -> float | None:
    """A size of this process in bytes, as Linux tells it."""
    with suppress(OSError):
        if found := re.search(rf"{word}:\s+(\d+) kB", Path("/proc/self/status").read_text()):
            return 1024.0 * int(found[1])
    return None


def ready(device: str) -> None:
    """BadSetting where there is no such device; float32 means float32 afterwards."""
    import torch

    from ecgbench.errors import BadSetting

    if device == "cpu":
        return
    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if int(device.partition(":")[2] or 0) >= there:
        raise BadSetting(f"--device {device}: torch finds {there or 'no'} CUDA device{'s' * (there > 1)} here; use --device cpu")
    torch.cuda.set_device(device if ":" in device else "cuda:0")
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False


def about(device: str) -> dict[str, Any]:
    """device (its name, with the threads of a CPU), torch (its version)."""
    import torch

    return {"device": _name(device), "torch": str(torch.__version__)}


def _name(device: str) -> str:
    import torch

    from ecgbench.doctor.machine import cpu

    if device == "cpu":
        threads = torch.get_num_threads()
        return f"{cpu()}, {threads} thread{'s' * (threads > 1)}"
    return torch.cuda.get_device_name(device)


def _answer(what: str, words: dict[str, Any]) -> dict[str, Any]:
    from ecgbench.profiling import complexity

    if what == "complexity":
        return complexity.measure(**words)
    return measure(Job(**{**words, "leads": tuple(words["leads"])}))


def main() -> None:
    """Answer on standard output, which is taken away from everything else."""
    signal.alarm(PATIENCE)  # not a handler: it ends a loop in C too, and a trial that nobody waits for any more
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")  # where memory runs out, this process goes first
    answers, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    words = json.loads(sys.argv[1])
    try:
        answer = _answer(words.pop("what"), words)
    except BaseException as error:  # a stranger's network may raise anything
        answer = {"error": type(error).__name__, "reason": " ".join(str(error).split())[:300]}
    os.write(answers, (json.dumps(answer) + "\n").encode())
    os._exit(0)  # threads and exit handlers of the model are not waited for


if __name__ == "__main__":
    main()
