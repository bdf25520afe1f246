"""One attempt of a model, in a process of its own (`processes.ask`): does it build, and how long does a window take?

Words: DEVICE [MODEL [PATH]]; without MODEL the answer is what torch finds on this machine.
"""

import statistics
import time
from typing import Any

from ecgbench.processes import answer

PASSES = 3
"""Timed passes, after one that warms up; their median is told."""


def attempt(words: list[str]) -> dict[str, Any]:
    """The answer of `torch_facts` or `forward`."""
    from ecgbench import models

    device, *named = words
    return forward(models.resolve(named[-1]), device) if named else torch_facts()


def torch_facts() -> dict[str, Any]:
    """version, threads, and the CUDA devices as name, memory and free (bytes)."""
    import torch

    gpus = []
    for i in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        free, total = torch.cuda.mem_get_info(i)
        gpus.append({"name": torch.cuda.get_device_name(i), "memory": total, "free": free})
    return {"version": str(torch.__version__), "threads": torch.get_num_threads(), "cuda": torch.version.cuda, "gpus": gpus}


def forward(name: str, device: str) -> dict[str, Any]:
    """One 12-lead window through the model called `name` with random weights, on `device`.

    title, parameters, ms (of one window), dim, contract, and `weights`: what is published and whether it is on this machine.
    RuntimeError when what comes out is not one finite float32 vector as long as the card says.
    """
    import torch

    from ecgbench.inference.network import build
    from ecgbench.seeds import rng

    built = build(name, "random", device)
    card, contract = built.card, built.card.contracts[0]
    drawn = 0.3 * rng("doctor", contract.received).standard_normal((1, len(contract.leads), contract.received))
    x = torch.from_numpy(drawn).float().to(device)
    measured = torch.ones(x.shape[:2], dtype=torch.bool, device=device)
    spent, pooled = [], torch.empty(0)
    with torch.inference_mode():
        for _ in range(1 + PASSES):
            started = time.perf_counter()
            pooled = built.module(x, measured).pooled.cpu()  # the copy waits for the device
            spent.append(1000 * (time.perf_counter() - started))
    if pooled.shape != (1, card.dim) or pooled.dtype != torch.float32:
        raise RuntimeError(f"pooled features are {pooled.dtype} of shape {tuple(pooled.shape)}; its card says float32 of (1, {card.dim})")
    if not bool(torch.isfinite(pooled).all()):
        raise RuntimeError("its features are not finite")
    return {
        "title": card.title,
        "parameters": sum(p.numel() for p in built.module.parameters()),
        "ms": round(statistics.median(spent[1:]), 2),
        "dim": card.dim,
        "contract": contract.name,
        "leads": len(contract.leads),
        "seconds": contract.seconds,
        "weights": _weights(name),
    }


def _weights(name: str) -> list[dict[str, Any]]:
    """Published files of weights: name, file, url, here (whether it can be loaded on this machine), problem."""
    from ecgbench import models
    from ecgbench.errors import BadSetting, EcgbenchError

    module, rows = models.get(name), []
    for published in module.CARD.weights:
        here, problem = True, ""
        try:
            module.build(weights=published.name)
        except BadSetting:
            here = False
        except EcgbenchError as error:
            here, problem = False, str(error)
        rows.append({"name": published.name, "file": published.file, "url": published.url, "here": here, "problem": problem})
    return rows


if __name__ == "__main__":
    answer(attempt)
