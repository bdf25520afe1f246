"""The state of a fit after an epoch, in one safetensors file that is there whole or not at all and
trusted only as a whole.
"""

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from ecgbench.core.files import metadata, put
from ecgbench.core.sealed import facts_of, proved
from ecgbench.evaluate.loop import Epoch, best_of
from ecgbench.weights.load import fingerprint

State = dict[str, Tensor]


@dataclass(kw_only=True, eq=False)
class Progress:
    """What a fit knows between two epochs, beside its module and its optimiser."""

    micro: int
    log: list[Epoch] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    """Wall time of each epoch, validation included."""
    notes: list[str] = field(default_factory=list)
    best: State = field(default_factory=dict)
    """State of the module in its best epoch, on the CPU."""
    moved: list[str] = field(default_factory=list)
    """Parameters that a gradient other than zero has reached by the best epoch."""


def kept(module: nn.Module) -> State:
    """A copy of the whole state of a module on the CPU."""
    return {k: v.detach().to("cpu", copy=True).contiguous() for k, v in module.state_dict().items()}


def write(
    path: Path,
    identity: str,
    progress: Progress,
    module: nn.Module,
    optimiser: torch.optim.Optimizer,
) -> None:
    """Replace the checkpoint by the state after the last epoch of the log."""
    tensors = {f"now/{k}": v for k, v in kept(module).items()} | {
        f"best/{k}": v for k, v in progress.best.items()
    }
    for name, p in _trained(module).items():
        tensors |= {
            f"{k}/{name}": v.detach().to("cpu", copy=True).contiguous()
            for k, v in optimiser.state[p].items()
        }
    facts = {
        "identity": identity,
        "tensors": fingerprint(tensors),
        "micro": progress.micro,
        "seconds": progress.seconds,
        "notes": progress.notes,
        "moved": progress.moved,
        "best": best_of(progress.log),
        "log": [
            {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in asdict(e).items()}
            for e in progress.log
        ],
    }
    put(path, save(tensors, {"fit": json.dumps(proved(facts), allow_nan=False)}))


def read(
    content: bytes, identity: str, module: nn.Module, optimiser: torch.optim.Optimizer
) -> Progress | str:
    """Put a checkpoint's state into `module` and `optimiser`; a sentence where it cannot be used,
    and both are as before.
    """
    try:
        tensors = load(content)
        facts = facts_of(json.loads(metadata(content)["fit"]))
        if facts["identity"] != identity:
            return "a checkpoint of another training was there; started anew"
        if facts["tensors"] != fingerprint(tensors):
            return "a damaged checkpoint was there; started anew"
        log = [
            Epoch(e["epoch"], e["loss"], math.nan if e["validation"] is None else e["validation"])
            for e in facts["log"]
        ]
        now, best = _part(tensors, "now"), _part(tensors, "best")
        wanted = {k: v.shape for k, v in module.state_dict().items()}
        if any({k: v.shape for k, v in state.items()} != wanted for state in (now, best)):
            return "a checkpoint of another network was there; started anew"
        progress = Progress(
            micro=facts["micro"],
            log=log,
            seconds=facts["seconds"],
            notes=facts["notes"],
            best=best,
            moved=facts["moved"],
        )
        moments = {
            name: {k: tensors[f"{k}/{name}"] for k in ("step", "exp_avg", "exp_avg_sq")}
            for name in _trained(module)
        }
    except (SafetensorError, ValueError, KeyError, TypeError):
        return "a damaged checkpoint was there; started anew"
    module.load_state_dict(now)
    for name, p in _trained(module).items():
        optimiser.state[p] = {
            k: v if k == "step" else v.to(p.device) for k, v in moments[name].items()
        }
    return progress


def _trained(module: nn.Module) -> dict[str, nn.Parameter]:
    return {n: p for n, p in module.named_parameters() if p.requires_grad}


def _part(tensors: State, kind: str) -> State:
    return {k.removeprefix(f"{kind}/"): v for k, v in tensors.items() if k.startswith(f"{kind}/")}
