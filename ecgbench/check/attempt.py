"""One attempt of a model, in a process of its own (`processes.ask`): does it build, and how long
does a window take?

Arguments: DEVICE [MODEL [PATH]]; without MODEL the answer is what torch finds on this machine.
"""

import time
from typing import Any

from ecgbench.core.process import answer


def attempt(arguments: list[str]) -> dict[str, Any]:
    """The answer of `torch_facts` or `forward`."""
    from ecgbench import models

    device, *named = arguments
    return forward(models.resolve(named[-1]), device) if named else torch_facts()


def torch_facts() -> dict[str, Any]:
    """version, threads, and the CUDA devices as name, memory and free (bytes)."""
    import torch

    gpus = []
    for i in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        free, total = torch.cuda.mem_get_info(i)
        gpus.append({"name": torch.cuda.get_device_name(i), "memory": total, "free": free})
    return {
        "version": str(torch.__version__),
        "threads": torch.get_num_threads(),
        "cuda": torch.version.cuda,
        "gpus": gpus,
    }


def forward(name: str, device: str) -> dict[str, Any]:
    """One 12-lead window through the model called `name` with random weights, on `device`; a first
    pass warms up.

    title, parameters, ms (of one window), dim, contract, leads, seconds, and `weights`: what is
    published and whether it is on this machine. EcgbenchError when what comes out is not one finite
    vector as long as the card says.
    """
    import numpy as np

    from ecgbench.adapters.hide import NATIVE, Policy
    from ecgbench.core.seeds import rng
    from ecgbench.data import views
    from ecgbench.ecg.leads import ALL, LEADS
    from ecgbench.evaluate.encode import Encoder
    from ecgbench.evaluate.network import build

    built, started = build(name, "random", device), 0.0
    card, contract = built.card, built.card.contracts[0]
    # with all leads there is nothing to fill
    encoder = Encoder(built.encoder, contract, Policy(NATIVE, None), dim=card.dim)
    shape = len(LEADS), contract.samples
    signal = 0.3 * rng("doctor", contract.samples).standard_normal(shape, np.float32)
    for _ in range(2):
        started = time.perf_counter()
        encoder(signal, {ALL.bits: np.arange(1)})
    return {
        "title": card.title,
        "parameters": sum(p.numel() for p in built.module.parameters()),
        "ms": round(1000 * (time.perf_counter() - started), 2),
        "dim": card.dim,
        "contract": contract.name,
        "leads": len(contract.leads),
        "seconds": contract.seconds,
        "view": {
            "folder": views.key(contract.preparation),
            "fs": contract.fs,
            "resampler": contract.resampler,
        },
        "weights": _weights(name),
    }


def _weights(name: str) -> list[dict[str, Any]]:
    """Published files of weights: name, file, url, here (whether it can be loaded on this machine),
    partial (whether only a part of it is), problem.
    """
    from ecgbench import models
    from ecgbench.errors import BadSetting, EcgbenchError
    from ecgbench.weights import released

    module, rows = models.get(name), []
    for published in module.CARD.weights:
        here, problem = True, ""
        try:
            module.build(weights=published.name)
        except BadSetting:
            here = False
        except EcgbenchError as error:
            here, problem = False, str(error)
        known = {name: getattr(published, name) for name in ("name", "file", "url")}
        partial = released.is_partial(name, published)
        rows.append({**known, "here": here, "partial": partial, "problem": problem})
    return rows


if __name__ == "__main__":
    answer(attempt)
