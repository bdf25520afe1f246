"""The state of a fine-tuning after an epoch, in one safetensors file that is there whole or not at
all and trusted only as a whole.
"""

import hashlib
import json
from dataclasses import astuple, dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from ecgbench.core.files import metadata, put
from ecgbench.evaluate.loop import Epoch
from ecgbench.weights.load import fingerprint, state_of

_MOMENTS = ("step", "exp_avg", "exp_avg_sq")
_DAMAGED = "a damaged checkpoint was there; started anew"


@dataclass(kw_only=True, eq=False)
class Progress:
    """What a fit knows between two epochs, beside its module and its optimiser."""

    micro: int
    log: list[Epoch] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    """Wall time of each epoch, validation included."""
    notes: list[str] = field(default_factory=list)
    best: dict[str, Tensor] = field(default_factory=dict)
    """State of the module in its best epoch, on the CPU."""
    moved: list[str] = field(default_factory=list)
    """Parameters that a gradient other than zero has reached by the best epoch."""


def write(
    path: Path,
    identity: str,
    progress: Progress,
    module: nn.Module,
    optimiser: torch.optim.Optimizer,
) -> None:
    """Replace the checkpoint by the state after the last epoch of the log."""
    tensors = {f"now/{k}": v for k, v in state_of(module).items()}
    tensors |= {f"best/{k}": v for k, v in progress.best.items()}
    for name, p in _trained(module).items():
        tensors |= {
            f"{k}/{name}": v.detach().to("cpu", copy=True).contiguous()
            for k, v in optimiser.state[p].items()
        }
    known = {k: v for k, v in vars(progress).items() if k != "best"}
    text = json.dumps({**known, "log": list(map(astuple, progress.log)), "identity": identity})
    # one entry: safetensors writes several in an order of chance
    put(path, save(tensors, {"fit": _proof(text, tensors) + text}))


def read(
    content: bytes, identity: str, module: nn.Module, optimiser: torch.optim.Optimizer
) -> Progress | str:
    """Put a checkpoint's state into `module` and `optimiser`; a sentence where it cannot be used,
    and both are as before.
    """
    try:
        tensors, words = load(content), metadata(content)["fit"]
    except (SafetensorError, ValueError, KeyError):
        return _DAMAGED
    text = words[64:]
    if words[:64] != _proof(text, tensors):
        return _DAMAGED
    facts = json.loads(text)
    if facts.pop("identity") != identity:
        return "a checkpoint of another training was there; started anew"
    facts["log"] = [Epoch(*line) for line in facts["log"]]
    module.load_state_dict(_part(tensors, "now"))
    for name, p in _trained(module).items():
        moments = {k: tensors[at] for k in _MOMENTS if (at := f"{k}/{name}") in tensors}
        if moments:
            optimiser.state[p] = {
                k: v if k == "step" else v.to(p.device) for k, v in moments.items()
            }
    return Progress(best=_part(tensors, "best"), **facts)


def _proof(text: str, tensors: dict[str, Tensor]) -> str:
    return hashlib.sha256(f"{text}{fingerprint(tensors)}".encode()).hexdigest()


def _trained(module: nn.Module) -> dict[str, nn.Parameter]:
    return {n: p for n, p in module.named_parameters() if p.requires_grad}


def _part(tensors: dict[str, Tensor], kind: str) -> dict[str, Tensor]:
    return {k.removeprefix(f"{kind}/"): v for k, v in tensors.items() if k.startswith(f"{kind}/")}
