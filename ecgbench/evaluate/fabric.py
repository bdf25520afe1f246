"""Where fine-tuning runs: one device, or one per process of torchrun, through lightning Fabric;
repeatable for its duration.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ecgbench.core.cells import Precision
from ecgbench.core.seeds import seed_of
from ecgbench.errors import BadSetting

if TYPE_CHECKING:
    from lightning_fabric import Fabric

_PRECISION = {"float32": "32-true", "bf16": "bf16-mixed"}


@dataclass(frozen=True, kw_only=True, eq=False)
class Place:
    """Where a fit runs and where it is kept."""

    checkpoint: Path
    """Read at the start, written after every epoch; the caller removes it once the fit is
    stored.
    """
    device: str
    """"cpu", "cuda" or "cuda:1"; under torchrun each process has the device of its local rank."""
    advance: Callable[[int], None]
    """Called with the number of records that were trained on or validated; a resumed fit tells of
    those before it at once.
    """


def open_fabric(device: str, precision: Precision) -> "Fabric":
    """Fabric on "cpu", "cuda" or "cuda:1"; under torchrun (WORLD_SIZE above 1) each process takes
    the device of its local rank.

    BadSetting where torch sees no such device.
    """
    from lightning_fabric import Fabric  # over a second to import, needed by fits alone
    from lightning_fabric.plugins.environments.lightning import LightningEnvironment

    kind, _, number = device.partition(":")
    world, here = (int(os.environ.get(name, "1")) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    if kind == "cuda" and max(int(number or 0), here - 1) >= torch.cuda.device_count():
        raise BadSetting(
            f"--device {device}: torch sees {torch.cuda.device_count()} such devices; use "
            f"--device cpu, or fewer processes"
        )
    chosen: dict[str, Any] = {"accelerator": kind, "precision": _PRECISION[precision]}
    if world > 1:
        fabric = Fabric(**chosen, devices=here, num_nodes=world // here, strategy="ddp")
    else:
        # named, so that variables of a cluster's scheduler do not turn one process into many
        devices = 1 if kind == "cpu" else [int(number or 0)]
        fabric = Fabric(
            **chosen, devices=devices, strategy="auto", plugins=[LightningEnvironment()]
        )
    fabric.launch()
    return fabric


@contextmanager
def repeatable(device: torch.device) -> Iterator[None]:
    """torch's own generators are as before afterwards; on CUDA the deterministic algorithms are
    used (torch warns where one lacks).
    """
    if device.type != "cuda":
        with torch.random.fork_rng(devices=[]):
            yield
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    fill: Any = torch.utils.deterministic
    how, warn = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    filled, bench = fill.fill_uninitialized_memory, torch.backends.cudnn.benchmark
    try:
        torch.use_deterministic_algorithms(True, warn_only=True)
        fill.fill_uninitialized_memory = torch.backends.cudnn.benchmark = False
        with torch.random.fork_rng(devices=[device.index or 0]):
            yield
    finally:
        torch.use_deterministic_algorithms(how, warn_only=warn)
        fill.fill_uninitialized_memory, torch.backends.cudnn.benchmark = filled, bench


def seed_dropout(fabric: "Fabric", seed: int, epoch: int) -> None:
    """Dropout of an epoch: from (seed, epoch), so that a resumed training goes on as the
    uninterrupted one; ranks differ.
    """
    rank: int = fabric.global_rank
    drawn = seed_of("dropout", seed, epoch, *([rank] if rank else [])) % 2**63
    torch.default_generator.manual_seed(drawn)
    if fabric.device.type == "cuda":
        with torch.cuda.device(fabric.device):
            torch.cuda.manual_seed(drawn)
