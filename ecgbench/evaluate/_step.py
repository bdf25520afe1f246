"""One optimiser step: the gradient of the whole batch, however many forward passes and processes it
takes.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ecgbench.evaluate.feed import Batch
from ecgbench.evaluate.loop import summed
from ecgbench.evaluate.torchrun import of_all_processes, out_of_memory

if TYPE_CHECKING:
    from lightning_fabric import Fabric


@dataclass(kw_only=True, eq=False)
class Stepper:
    """Gradients in pieces of `micro` records, halved where memory does not suffice.

    A piece weighs as many records as it holds, so that without batch normalisation the step is that
    of the whole batch. Processes add their gradients once per step, not inside the backward pass:
    one that repeats its share in smaller pieces keeps no other waiting in a collective that it
    left.
    """

    fabric: "Fabric"
    model: Any
    """Wrapped by Fabric."""
    module: nn.Module
    """What it wraps."""
    optimiser: torch.optim.Optimizer
    micro: int
    advance: Callable[[int], None]
    notes: list[str] = field(default_factory=list)

    def step(self, batch: Batch) -> float:
        """Make one step and return the loss of the whole batch; no step where the loss is not
        finite, or no label is known.
        """
        loss = self._share(batch)
        of_all_processes([p for p in self.module.parameters() if p.requires_grad], loss)
        value = float(loss)
        if abs(value) < float("inf") and batch.known:
            self.optimiser.step()
        self.advance(batch.whole)
        return value

    def _share(self, batch: Batch) -> Tensor:
        """The gradient of this process's records, tried again with half the records per pass until
        it fits.
        """
        buffers = [(b, b.clone()) for b in self.module.buffers()]
        state = self._generators()
        while True:
            try:
                self.optimiser.zero_grad(set_to_none=True)
                loss = torch.zeros((), device=self.fabric.device)
                for start in range(0, len(batch.target), self.micro):
                    loss += self._backward(batch, slice(start, start + self.micro))
                return loss
            except RuntimeError as error:
                size = min(self.micro, len(batch.target))
                if size == 1 or not out_of_memory(error):
                    raise
            # outside the handler: the traceback no longer holds what filled the memory
            self.micro = size // 2
            self.notes.append(
                f"out of memory with {size} records per pass; goes on with {self.micro}"
            )
            self._again(state, buffers)

    def _backward(self, batch: Batch, part: slice) -> Tensor:
        signal, measured, target = (
            t[part].to(self.fabric.device, non_blocking=True) for t in batch[:3]
        )
        with (
            self.fabric.no_backward_sync(self.model)
            if self.fabric.world_size > 1
            else nullcontext()
        ):
            logits = self.model(signal, measured).float()
            loss = summed(logits, target, batch.masked) / max(batch.known, 1)
            self.fabric.backward(loss)
        return loss.detach()

    def _generators(self) -> tuple[Tensor, Tensor | None]:
        cuda = self.fabric.device.type == "cuda"
        return torch.get_rng_state(), torch.cuda.get_rng_state(self.fabric.device) if cuda else None

    def _again(
        self, state: tuple[Tensor, Tensor | None], buffers: list[tuple[Tensor, Tensor]]
    ) -> None:
        self.optimiser.zero_grad(set_to_none=True)
        torch.set_rng_state(state[0])
        if state[1] is not None:
            torch.cuda.set_rng_state(state[1], self.fabric.device)
            torch.cuda.empty_cache()
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)
