"""Several processes of torchrun: the first computes the study and calls the others to every
fine-tuning.

`torchrun --nproc-per-node 4 -m ecgbench run --protocol finetune ...` starts the same command four
times; each takes its part of every training step (`finetune.fit`), the rest of the work is the
first one's.
"""

import json
import os
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

PATIENCE = timedelta(days=7)
"""How long the others wait between two fits: the first evaluates meanwhile."""


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


def join() -> None:
    """Make the group, where there is none yet; its processes wait for each other as long as work in
    one of them may take.
    """
    import torch
    import torch.distributed as group

    if world() > 1 and not group.is_initialized():
        group.init_process_group(
            "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", timeout=PATIENCE
        )


def wait() -> None:
    """Until every process is here."""
    import torch
    import torch.distributed as group

    if world() > 1:
        join()
        _through(group.all_reduce, lambda: torch.zeros(1))


def agreed(first: Callable[[], bool]) -> bool:
    """What the first process says, in every process."""
    if world() == 1:
        return first()
    # equally long in every process: each makes room for what itself would say
    return _exchange(b"1" if rank() == 0 and first() else b"0") == b"1"


def of_first(make: Callable[[], Any]) -> Any:
    """What the first process makes, as JSON gives it, in every process; the others make nothing."""
    if world() == 1:
        return make()
    return json.loads(_exchange(json.dumps(make()).encode() if rank() == 0 else b""))


def call(message: dict[str, Any] | None) -> None:
    """From the first process to the others: a fit to take part in, or None for the end."""
    if world() > 1:
        _exchange(json.dumps(message).encode())


def hear() -> dict[str, Any] | None:
    """In the others: what the first calls for."""
    message: dict[str, Any] | None = json.loads(_exchange(b""))
    return message


@contextmanager
def together() -> Iterator[None]:
    """Around all that a process does: the first tells the others when it is done; after an error
    torchrun ends them.
    """
    if world() == 1:
        yield
        return
    try:
        yield
        if rank() == 0:
            call(None)
    finally:
        leave()


def leave() -> None:
    """End the group; its threads must not outlive the interpreter."""
    import torch.distributed

    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _exchange(content: bytes) -> bytes:
    """Bytes of the first process, in every process."""
    import torch
    import torch.distributed as group

    join()

    def from_first(tensor: torch.Tensor) -> None:
        group.broadcast(tensor, 0)

    def bytes_or_room() -> torch.Tensor:
        if content:
            return torch.frombuffer(bytearray(content), dtype=torch.uint8)
        return torch.zeros(length, dtype=torch.uint8)

    (length,) = _through(from_first, lambda: torch.tensor([len(content)]))
    return bytes(_through(from_first, bytes_or_room))


def _through(collective: Callable[[Any], object], make: Callable[[], Any]) -> list[Any]:
    """Values of a tensor after a collective, once the group's own thread has let go of it.

    That thread needs the interpreter to do so. DDP keeps the threads of a group that is destroyed;
    one that meets an interpreter which is ending aborts the process.
    """
    tensor = make()
    collective(tensor)
    values: list[Any] = tensor.tolist()
    held, deadline = weakref.ref(tensor), time.monotonic() + 10
    del tensor
    while held() is not None and time.monotonic() < deadline:
        time.sleep(0.001)
    return values
