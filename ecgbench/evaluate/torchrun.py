"""Where training runs, through lightning Fabric: one device, or, in a pre-training, one per process
of torchrun, which starts the same command in each.
"""

import os
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ecgbench.errors import BadSetting

if TYPE_CHECKING:  # a command reads its rank before it needs torch, or numpy
    import torch
    from lightning_fabric import Fabric

    from ecgbench.cards.cell import Precision

T = TypeVar("T")
PATIENCE = timedelta(days=7)
"""How long the others wait: the first one evaluates meanwhile."""
_PRECISION: dict[str, Any] = {"float32": "32-true", "bf16": "bf16-mixed"}


def world() -> int:
    """Processes that torchrun started, 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    """Which of them this is."""
    return int(os.environ.get("RANK", "0"))


def local() -> int:
    """Which of the processes on this machine this is."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def on_this_machine() -> int:
    """Processes that torchrun started on this machine, 1 without it."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def join() -> Any:
    """torch.distributed, with the group made under torchrun where there is none yet; its processes
    wait for each other as long as work in one of them may take.
    """
    import torch

    if world() > 1 and not torch.distributed.is_initialized():
        kinds = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        torch.distributed.init_process_group(kinds, timeout=PATIENCE)
    return torch.distributed


def of_first(make: Callable[[], T]) -> T:
    """What the first process makes, in every process; the others make nothing."""
    if world() == 1:
        return make()
    group = join()
    made: list[Any] = [make() if rank() == 0 else None]
    group.broadcast_object_list(made, src=0)
    return cast(T, made[0])


def wait() -> None:
    """Until every process is here, and the group's own thread has let go of what was sent.

    That thread needs the interpreter to do so. DDP keeps the threads of a group that is destroyed;
    one that meets an interpreter which is ending aborts the process.
    """
    if world() == 1:
        return
    import torch

    tensor, deadline = torch.zeros(1), time.monotonic() + 10
    join().all_reduce(tensor)
    kept = weakref.ref(tensor)
    del tensor
    while kept() is not None and time.monotonic() < deadline:
        time.sleep(0.001)


def leave() -> None:
    """End the group, where there is one; its threads must not outlive the interpreter."""
    if world() > 1:
        import torch

        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


def open_fabric(device: str, precision: "Precision") -> "Fabric":
    """Fabric on "cpu", "cuda" or "cuda:1"; under torchrun (WORLD_SIZE above 1) each process takes
    the device of its local rank.

    BadSetting where torch sees no such device.
    """
    import torch
    from lightning_fabric import Fabric  # over a second to import, needed by fits alone
    from lightning_fabric.plugins.environments.lightning import LightningEnvironment

    kind, _, number = device.partition(":")
    here, there = on_this_machine(), torch.cuda.device_count()
    if kind == "cuda" and max(int(number or 0), here - 1) >= there:
        raise BadSetting(
            f"--device {device}: torch sees {there} such devices; use --device cpu, or fewer "
            f"processes"
        )
    chosen: dict[str, Any] = {"devices": 1 if kind == "cpu" else [int(number or 0)]}
    if world() > 1:
        chosen = {"devices": here, "num_nodes": world() // here, "strategy": "ddp"}
    else:
        # named, so that variables of a cluster's scheduler do not turn one process into many
        chosen["plugins"] = [LightningEnvironment()]
    fabric = Fabric(accelerator=kind, precision=_PRECISION[precision], **chosen)
    fabric.launch()
    return fabric


@contextmanager
def repeatable(device: "torch.device") -> Iterator[None]:
    """torch's own generators are as before afterwards; on CUDA the deterministic algorithms are
    used (torch warns where one lacks).
    """
    import torch

    cuda, fill = device.type == "cuda", cast(Any, torch.utils.deterministic)
    before = torch.are_deterministic_algorithms_enabled()
    warned = torch.is_deterministic_algorithms_warn_only_enabled()
    filled = fill.fill_uninitialized_memory
    if cuda:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)
        fill.fill_uninitialized_memory = False  # it costs time and changes no number
    try:
        with torch.random.fork_rng(devices=[device.index or 0] if cuda else []):
            yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warned)
        fill.fill_uninitialized_memory = filled


def seed_dropout(fabric: "Fabric", seed: int, epoch: int) -> None:
    """Dropout of an epoch: from (seed, epoch), so that a resumed training goes on as the
    uninterrupted one; ranks differ.
    """
    import torch

    from ecgbench.core.seeds import seed_of

    number = fabric.global_rank
    drawn = seed_of("dropout", seed, epoch, *([number] if number else [])) % 2**63
    torch.default_generator.manual_seed(drawn)
    if fabric.device.type == "cuda":
        with torch.cuda.device(fabric.device):
            torch.cuda.manual_seed(drawn)


def of_all_processes(trained: "Sequence[torch.nn.Parameter]", sums: "torch.Tensor") -> None:
    """Gradients, and `sums` beside them, become those of the whole batch in every process.

    A parameter that nothing of this step reached here has the gradient zero.
    """
    import torch

    for p in trained:
        if p.grad is None:
            p.grad = torch.zeros_like(p)
    if world() == 1:
        return
    gradients = [p.grad for p in trained if p.grad is not None]
    whole = torch.cat([g.reshape(-1) for g in gradients])
    for tensor in (sums, whole):
        torch.distributed.all_reduce(tensor)
    for g, total in zip(gradients, whole.split([g.numel() for g in gradients])):
        g.copy_(total.view_as(g))


def out_of_memory(error: RuntimeError) -> bool:
    """Whether torch says that memory did not suffice: of a GPU, or of the CPU, whose allocator has
    no error class of its own.
    """
    import torch

    words = ("can't allocate memory", "DefaultCPUAllocator")
    return isinstance(error, torch.OutOfMemoryError) or any(w in str(error) for w in words)
