"""The state of a stage after a step, in one safetensors file that is there whole or not at all and
trusted only as a whole.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import nn

from ecgbench.core.files import facts_of, metadata, proved, put
from ecgbench.errors import BadSetting, BadWeights
from ecgbench.pretrain.curve import Point
from ecgbench.weights.load import fingerprint, state_of

FILE = "checkpoint.safetensors"
FORMAT = 1
"""Raised by hand whenever the file, or what a step does, changes."""
REMEDY = "delete it to start anew, or choose another folder"
_MOMENTS = ("step", "exp_avg", "exp_avg_sq")
Facts = dict[str, Any]
"""Everything that the curve rests on, as plain JSON."""


def write(
    path: Path,
    facts: Facts,
    curve: Sequence[Point],
    module: nn.Module,
    optimiser: torch.optim.Optimizer,
) -> None:
    """Replace the checkpoint by the state after the last point of the curve. WriteError."""
    tensors = {f"model/{k}": v for k, v in state_of(module).items()}
    for name, p in module.named_parameters():
        tensors |= {
            f"{k}/{name}": optimiser.state[p][k].detach().to("cpu", copy=True).contiguous()
            for k in _MOMENTS
        }
    tensors["curve"] = torch.tensor([p.row() for p in curve], dtype=torch.float64)
    header = {
        "format": FORMAT,
        "facts": facts,
        "step": len(curve),
        "tensors": fingerprint(tensors),
    }
    put(path, save(tensors, {"stage": json.dumps(proved(header), allow_nan=False)}))


def header_of(content: bytes, path: Path) -> dict[str, Any]:
    """What a checkpoint says of itself: format, facts, step; BadWeights where it is damaged."""
    try:
        return facts_of(json.loads(metadata(content)["stage"]))
    except (ValueError, KeyError, AttributeError) as error:
        raise BadWeights(f"{path} cannot be read as a checkpoint ({error}); {REMEDY}") from error


def read(
    content: bytes, path: Path, facts: Facts, module: nn.Module, optimiser: torch.optim.Optimizer
) -> list[Point]:
    """Put a checkpoint's state into `module` and `optimiser`; the curve until there.

    BadSetting where it is of a stage with other facts, BadWeights where it is damaged; a checkpoint
    may be days of work, so that neither is ever overwritten.
    """
    header = header_of(content, path)
    try:
        tensors = load(content)
    except SafetensorError as error:
        raise BadWeights(f"{path} cannot be read as a checkpoint ({error}); {REMEDY}") from error
    if header["format"] != FORMAT:
        raise BadSetting(
            f"{path} is of another version of ecgbench (format {header['format']}, not {FORMAT}); "
            f"{REMEDY}"
        )
    names = sorted({*facts, *header["facts"]})
    if other := [k for k in names if facts.get(k) != header["facts"].get(k)]:
        raise BadSetting(
            f"{path} is of another pre-training: it differs in {', '.join(other)}; {REMEDY}"
        )
    if header["tensors"] != fingerprint(tensors):
        raise BadWeights(f"{path} has changed since it was written; {REMEDY}")
    module.load_state_dict(
        {k.removeprefix("model/"): v for k, v in tensors.items() if k.startswith("model/")}
    )
    for name, p in module.named_parameters():
        moments = {k: tensors[f"{k}/{name}"] for k in _MOMENTS}
        optimiser.state[p] = {k: v if k == "step" else v.to(p.device) for k, v in moments.items()}
    return [Point.of(row) for row in tensors["curve"].tolist()]
