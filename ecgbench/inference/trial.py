"""One model tried in a process of its own, for `ecgbench doctor`: does it build, how long does a window take, are its weights here?

`python -m ecgbench.inference.trial DEVICE SECONDS [MODEL [PATH]]` prints one line of JSON; without MODEL it tells what torch finds on
this machine. What the model itself prints is thrown away. The process ends after SECONDS, whatever the model does.
"""

import json
import os
import signal
import statistics
import sys
import time
from contextlib import suppress
from typing import Any

PASSES = 3
"""Timed passes, after one that warms up; their median is told."""


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

    found = build(name, "random", device)
    card, contract = found.card, found.card.contracts[0]
    drawn = 0.3 * rng("doctor", contract.received).standard_normal((1, len(contract.leads), contract.received))
    x = torch.from_numpy(drawn).float().to(device)
    measured = torch.ones(x.shape[:2], dtype=torch.bool, device=device)
    spent, pooled = [], torch.empty(0)
    with torch.inference_mode():
        for _ in range(1 + PASSES):
            started = time.perf_counter()
            pooled = found.module(x, measured).pooled.cpu()  # the copy waits for the device
            spent.append(1000 * (time.perf_counter() - started))
    if pooled.shape != (1, card.dim) or pooled.dtype != torch.float32:
        raise RuntimeError(f"pooled features are {pooled.dtype} of shape {tuple(pooled.shape)}; its card says float32 of (1, {card.dim})")
    if not bool(torch.isfinite(pooled).all()):
        raise RuntimeError("its features are not finite")
    return {
        "title": card.title, "parameters": sum(p.numel() for p in found.module.parameters()), "ms": round(statistics.median(spent[1:]), 2),
        "dim": card.dim, "contract": contract.name, "leads": len(contract.leads), "seconds": contract.seconds, "weights": _weights(name),
    }  # fmt: skip


def _weights(name: str) -> list[dict[str, Any]]:
    """Published files of weights: name, file, url, here (whether it can be loaded on this machine), problem."""
    from ecgbench import models
    from ecgbench.errors import BadSetting, EcgbenchError

    module, made = models.get(name), []
    for published in module.CARD.weights:
        here, problem = True, ""
        try:
            module.build(weights=published.name)
        except BadSetting:
            here = False
        except EcgbenchError as error:
            here, problem = False, str(error)
        made.append({"name": published.name, "file": published.file, "url": published.url, "here": here, "problem": problem})
    return made


def _answer(device: str, words: list[str]) -> dict[str, Any]:
    from ecgbench import models

    if not words:
        return torch_facts()
    return forward(models.resolve(words[1]) if len(words) > 1 else words[0], device)


def _one_line(error: BaseException) -> str:
    from ecgbench.errors import EcgbenchError

    told = " ".join(str(error).split())[:300]
    return told if isinstance(error, EcgbenchError) else f"{type(error).__name__}: {told}".removesuffix(": ")


def main() -> None:
    """Answer on standard output, which is taken away from everything else."""
    device, seconds, *words = sys.argv[1:]
    signal.alarm(int(seconds))  # not a handler: it ends a loop in C too, and a trial that nobody waits for any more
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")  # where memory runs out, this process goes first
    answers, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    try:
        answer = {"ok": True, "error": "", **_answer(device, words)}
    except BaseException as error:  # a stranger's network may raise anything
        answer = {"ok": False, "error": _one_line(error)}
    os.write(answers, (json.dumps(answer) + "\n").encode())
    os._exit(0)  # threads and exit handlers of the model are not waited for


if __name__ == "__main__":
    main()
