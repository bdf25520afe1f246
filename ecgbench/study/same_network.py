"""Whether a model from outside is the network that a run knows: what it draws or reads when it is
built may be in no tensor of its state dict.
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ecgbench import models
from ecgbench.cards.model import InputContract
from ecgbench.core.files import as_json, content_of, put
from ecgbench.core.keys import key
from ecgbench.core.seeds import rng
from ecgbench.errors import EcgbenchError
from ecgbench.evaluate.encode import Encoder
from ecgbench.evaluate.network import Network
from ecgbench.policies.hide import Policy

FOLDER = "networks"
"""Of a run: a file for each network, named by its key."""
NUMBERS = 8
"""Of a sketch."""
CLOSE = 1e-3
"""Of the largest number of a sketch: how far two machines may differ. Networks that were drawn anew
differ by about 1.
"""
_FACTS = ("source", "weights", "weights_file", "model", "contract")


def demand(
    network: Network,
    contract: InputContract,
    facts: Mapping[str, Any],
    runs: Iterable[Path],
    keep: bool = False,
) -> None:
    """EcgbenchError where the network gives other features of one fixed input than the one that a
    run has under the same `facts` of a cell. keep: a run that has none has this one from now on.
    """
    if models.ROOM.built_in(network.name):
        return
    now = np.zeros(0)
    with suppress(Exception):  # its cells say what it cannot do
        now = _sketch(network, contract)
    if not len(now) or not np.isfinite(now).all():
        return
    own = key({name: facts[name] for name in _FACTS if name in facts})
    for file in (run / FOLDER / f"{own}.json" for run in dict.fromkeys(runs)):
        known = _read(file)
        if known is None and keep:
            put(file, as_json({"model": network.name, "sketch": now.tolist()}))
        elif known is not None and not _alike(known, now):
            raise EcgbenchError(
                f"{network.name} gives other features of the same input than when "
                f"{file.parents[1]} was begun, with the same files and weights. What it draws when "
                f"it is built needs a fixed seed, as in np.random.default_rng(0); what it reads "
                f"elsewhere must be as it was: name a file with --weights; or --out another folder"
            )


def _read(file: Path) -> np.ndarray | None:
    with suppress(OSError, ValueError, KeyError, TypeError):
        return np.asarray(json.loads(content_of(file))["sketch"], float)
    return None


def _alike(known: np.ndarray, now: np.ndarray) -> bool:
    if known.shape != now.shape:
        return False
    limit = CLOSE * max(float(np.abs(a).max()) for a in (known, now))
    return bool((np.abs(known - now) <= limit).all())


@torch.inference_mode()
def _sketch(network: Network, contract: InputContract) -> np.ndarray:
    """(NUMBERS,) numbers that follow from the features of one fixed window in float32."""
    encoder = Encoder(network.module, contract, Policy(contract.policy, None))
    exact = replace(network, precision="float32").encoder
    shape = 1, len(contract.leads), contract.received
    signal = torch.from_numpy(rng("fixed input").normal(size=shape).astype(np.float32))
    pooled = encoder.pooled(exact(signal, torch.ones(shape[:2], dtype=torch.bool)), 1)[0]
    return np.asarray(rng("sketch").normal(size=(NUMBERS, len(pooled))) @ pooled.double().numpy())
