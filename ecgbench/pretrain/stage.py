"""One stage of a pre-training: masked node modelling against fixed codes, on one device or several
processes of torchrun.

Adam with a constant rate and its coupled weight decay (paper, "Stage 1: pre-training
optimization"); warm-up, clipping and a falling rate where a recipe asks for them. The loss of a
step is the mean over all masked nodes of its whole batch, in however many passes and processes it
is computed.

    curve = run(STAGES[0], MaskedNodes(laef.build(), [50]), corpus, labeller,
    Execution(folder=Path("stage1"), device="cuda"))
"""

import math
import time
from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import torch
from torch import Tensor

from ecgbench.cards.cell import Precision
from ecgbench.core.files import sweep
from ecgbench.core.prefetch import threads_for
from ecgbench.core.seeds import seed_of
from ecgbench.errors import BadSetting
from ecgbench.evaluate import torchrun
from ecgbench.evaluate.gates import GateError
from ecgbench.evaluate.torchrun import (
    of_all_processes,
    open_fabric,
    out_of_memory,
    repeatable,
)
from ecgbench.pretrain import checkpoint, collapse, curve, masking
from ecgbench.pretrain.batches import Batches, Piece
from ecgbench.pretrain.corpus import Corpus
from ecgbench.pretrain.curve import Listener, Point
from ecgbench.pretrain.objective import MaskedNodes, nodes_of
from ecgbench.weights.load import fingerprint

if TYPE_CHECKING:
    from lightning_fabric import Fabric


Decay = Literal["none", "cosine"]
Shown = Literal["some", "all"]


@dataclass(frozen=True, kw_only=True)
class Stage:
    """How a stage is trained. BadSetting where that is impossible."""

    steps: int = 80_000
    batch: int = 448
    """Records per step (HuBERT-ECG's); a smaller corpus is one batch, see `records`."""
    lr: float = 1e-3
    weight_decay: float = 1e-3
    """Coupled (added to the gradient) unless `adamw`."""
    adamw: bool = False
    precision: Precision = "bf16"
    """bf16 autocasts the forward pass; weights, optimiser and loss stay in float32, and so does
    what makes the labels.
    """
    warmup: int = 0
    """Steps in which the rate rises to `lr`, by the same amount in each: no more than there are."""
    clip: float | None = None
    """Largest L2 norm of the gradient of a step's mean loss; a longer one is scaled down."""
    decay: Decay = "none"
    """How the rate falls after the warm-up: not at all, or as half a cosine to 0 at the last step,
    which then cannot be prolonged.
    """
    shown: Shown = "some"
    """Leads of a recording in a step: some, 1 to 12 drawn anew, or all."""
    ratio: float = masking.MASKED
    edge_drop: float = 0.0
    seed: int = 0
    micro: int | None = None
    """Records per forward pass; None: each process's share at once. Dropout is drawn per pass: for
    the same curve on another number of processes, name it.
    """
    checkpoint_every: int = 1000
    probe_every: int = 5000

    def __post_init__(self) -> None:
        masking.masked_nodes(self.ratio)
        named = ("precision", Precision), ("decay", Decay), ("shown", Shown)
        for name, known in named:
            if (word := getattr(self, name)) not in get_args(known):
                raise BadSetting(f"{name} {word}: {' or '.join(sorted(get_args(known)))}")
        counts = ("steps", "batch", "micro", "checkpoint_every", "probe_every")
        sound = {name: getattr(self, name) is None or getattr(self, name) >= 1 for name in counts}
        sound |= {
            "lr": 0 < self.lr < math.inf,
            "clip": self.clip is None or 0 < self.clip < math.inf,
            "warmup": self.warmup >= 0,
            "weight_decay": 0 <= self.weight_decay < math.inf,
            "edge_drop": 0 <= self.edge_drop < 1,
        }
        if wrong := [f"{name}={getattr(self, name)}" for name, fits in sound.items() if not fits]:
            raise BadSetting(
                f"a stage with {', '.join(wrong)}: counts are 1 or more, lr and clip above 0, "
                f"warmup and weight_decay 0 or more, edge_drop a probability below 1"
            )
        if self.warmup + self.falling > self.steps:
            raise BadSetting(
                f"a stage of {self.steps} steps with a warm-up of {self.warmup}: the rate would "
                f"not get there; take a shorter warmup, or more steps"
            )

    @property
    def falling(self) -> bool:
        """Whether the rate falls to 0."""
        return self.decay != "none"

    def probed(self, step: int) -> bool:
        """Whether the probe is called after so many steps."""
        return 0 < step <= self.steps and (step == self.steps or step % self.probe_every == 0)

    def records(self, corpus: int) -> int:
        """Records per step on a corpus of so many: `batch`, or all of them."""
        return min(self.batch, corpus)

    def facts(self) -> dict[str, object]:
        """What of this decides the curve up to any step: the number of steps only where the rate
        falls with it.
        """
        free = {"batch", "micro", "checkpoint_every", "probe_every"}
        if not self.falling:
            free |= {"steps"}
        return {k: v for k, v in self.choices().items() if k not in free}

    def choices(self) -> dict[str, object]:
        """All choices; those of LATER where they are made, for stages had none before and keep
        their hashes.
        """
        usual = {k: field.default for k, field in self.__dataclass_fields__.items()}
        return {k: v for k, v in asdict(self).items() if k not in LATER or v != usual[k]}

    def rate(self, step: int) -> float:
        """The learning rate of a step, the first being 1.

        >>> [Stage(lr=0.4, steps=8, warmup=4, decay="cosine").rate(s) for s in (1, 4, 6, 8)]
        [0.1, 0.4, 0.2, 0.0]
        """
        if step <= self.warmup:
            return self.lr * step / self.warmup
        if not self.falling:
            return self.lr
        way = (step - self.warmup) / max(self.steps - self.warmup, 1)
        return round(self.lr * (1 + math.cos(math.pi * way)) / 2, 15)


LATER = ("warmup", "clip", "decay", "shown")
"""Choices that the first stages did not have."""
STAGES = (Stage(), Stage(steps=75_000, edge_drop=masking.EDGE_DROP))
"""The paper's two."""


class Labeller(Protocol):
    """What a stage predicts: the codes of every node of whole windows."""

    @property
    def digest(self) -> str:
        """Tells one labeller from another, e.g. from the digests of its codebooks."""

    def __call__(self, signal: Tensor) -> Tensor:
        """(batch, 12, 500) float32, all leads, on the device that trains -> (codebook, batch, 12,
        20) integers there.
        """


def _nothing(*_: object) -> None:
    pass


@dataclass(frozen=True, kw_only=True, eq=False)
class Execution:
    """Where a stage runs, where it is kept, and who follows it."""

    folder: Path
    """Gets checkpoint.safetensors and curve.csv."""
    device: str = "cpu"
    """"cpu", "cuda" or "cuda:1"; under torchrun each process has the device of its local rank."""
    listener: Listener = _nothing
    """Called after each step, in the first process."""
    probe: Callable[[int, MaskedNodes], None] = _nothing
    """Called after every `probe_every` steps and the last one with the steps made and the model in
    evaluation mode, in every process. It must leave weights alone, and meets a step again that was
    made after the last checkpoint before an interruption.
    """
    alarm: bool = True
    """Whether a collapse ends the stage."""
    chance: float | None = None
    """Entropy of the codes, summed over codebooks, nats: a loss that needs no ECG."""


def run(
    stage: Stage, model: MaskedNodes, corpus: Corpus, labeller: Labeller, execution: Execution
) -> list[Point]:
    """Train `model` in place from where `execution.folder` says; the curve from the first step, the
    model in evaluation mode.

    An interrupted stage goes on from its last checkpoint when it is called as before (the same
    initial `model` too), with the numbers of an uninterrupted one; a finished one can be prolonged
    by more `steps`. Under torchrun every process calls this alike and returns the same. BadSetting:
    the folder holds another stage, or memory does not suffice. BadWeights: a damaged checkpoint.
    GateError: a loss that is not finite. Collapse: nodes have become equal; the checkpoint is of
    before. WriteError.
    """
    torchrun.join()
    fabric = open_fabric(execution.device, stage.precision)
    batch = stage.records(len(corpus))
    share = -(-batch // fabric.world_size)
    batches = Batches(
        corpus=corpus,
        seed=stage.seed,
        batch=batch,
        micro=min(stage.micro or share, batch),
        ratio=stage.ratio,
        edge_drop=stage.edge_drop,
        every_lead=stage.shown == "all",
        nodes=nodes_of(model.encoder, corpus.samples),
        rank=fabric.global_rank,
        world=fabric.world_size,
        pinned=fabric.device.type == "cuda",
        threads=threads_for(fabric.device.type),
    )
    with repeatable(fabric.device):
        return _Training(stage, model, batches, labeller, execution, fabric)()


class _Training:
    """One stage on one device, or one process's part of it."""

    def __init__(
        self,
        stage: Stage,
        model: MaskedNodes,
        batches: Batches,
        labeller: Labeller,
        execution: Execution,
        fabric: "Fabric",
    ) -> None:
        self.stage, self.batches, self.labeller = stage, batches, labeller
        self.execution, self.fabric = execution, fabric
        self.model = model.to(fabric.device)
        self.path = execution.folder / checkpoint.FILE
        if fabric.world_size > 1:
            for tensor in model.state_dict().values():
                torch.distributed.broadcast(tensor, 0)
        self.facts: checkpoint.Facts = {
            **stage.facts(),
            "batch": batches.batch,
            "micro": batches.micro,
            "corpus": batches.corpus.digest,
            "labels": labeller.digest,
            "weights": fingerprint(model.state_dict()),
        }
        kind = torch.optim.AdamW if stage.adamw else torch.optim.Adam
        self.optimiser = kind(model.parameters(), lr=stage.lr, weight_decay=stage.weight_decay)
        self.points = self._resume()
        self.kept = len(self.points)
        """Step of the last checkpoint."""

    def __call__(self) -> list[Point]:
        points, steps = self.points, self.stage.steps
        log: Any = nullcontext(_nothing)
        if self.fabric.is_global_zero:
            execution = self.execution
            log = curve.logging(
                execution.folder, points, steps, self.batches.batch, execution.listener
            )
        with log as note, closing(self.batches.between(len(points), steps)) as coming:
            self.model.train()
            for step in range(len(points) + 1, steps + 1):
                began = time.perf_counter()
                pieces = next(coming)
                waiting = time.perf_counter() - began
                result = self._step(step, pieces)
                points.append(Point(step, *result, time.perf_counter() - began, waiting))
                note(points[-1])
                self._after(step, pieces)
        self.model.eval()
        return points

    def _after(self, step: int, pieces: list[Piece]) -> None:
        """The alarm before anything is kept, then the probe, then the checkpoint: a probe that is
        cut short is made again.
        """
        due = step == self.stage.steps or step % self.stage.checkpoint_every == 0
        checked = step >= collapse.EVERY and (due or step % collapse.EVERY == 0)
        if checked and self.execution.alarm:
            self._alarm(step, pieces)
        if self.stage.probed(step):
            self.model.eval()
            self.execution.probe(step, self.model)
            self.model.train()
        if due:
            self.kept = step
            if self.fabric.is_global_zero:
                checkpoint.write(self.path, self.facts, self.points, self.model, self.optimiser)

    def _alarm(self, step: int, pieces: list[Piece]) -> None:
        """Collapse where the network shows a sign of it."""

        def sign() -> str:
            signal = pieces[0].signal.to(self.fabric.device)
            chance, warmup = self.execution.chance, self.stage.warmup
            return collapse.warning(self.model, signal, self.points, chance, warmup)

        if not (seen := torchrun.of_first(sign)):
            return
        before = "no checkpoint is surely of before"
        if self.kept >= collapse.EVERY:
            before = (
                f"the checkpoint of step {self.kept} is in {self.execution.folder}, and encoders "
                f"kept until then"
            )
        raise collapse.Collapse(
            f"the network collapses at step {step}: {seen}; {before}; start anew in another folder "
            f"with a lower lr, or warmup and clip, or go on in spite of it: --set alarm=off"
        )

    def _resume(self) -> list[Point]:
        content = None
        if self.fabric.is_global_zero:
            sweep(self.path.parent, below=False)
            content = self.path.read_bytes() if self.path.exists() else None
        content = self.fabric.broadcast(content) if self.fabric.world_size > 1 else content
        if content is None:
            return []
        points = checkpoint.read(content, self.path, self.facts, self.model, self.optimiser)
        if len(points) > self.stage.steps:
            raise BadSetting(
                f"{self.path} has made {len(points)} steps, more than the {self.stage.steps} of "
                f"this stage; choose another folder"
            )
        return points

    def _step(self, step: int, pieces: list[Piece]) -> tuple[float, tuple[float, ...], int]:
        """Make one step: loss, accuracy and number of the masked nodes of the whole batch."""
        self.optimiser.zero_grad(set_to_none=True)
        books = len(self.model.heads)
        sums = torch.zeros(2 * books + 1, dtype=torch.float64, device=self.fabric.device)
        for piece in pieces:
            sums += self._backward(step, piece.to(self.fabric.device))
        of_all_processes(list(self.model.parameters()), sums)
        totals = sums.tolist()
        loss, nodes = sum(totals[:books]) / totals[-1], int(totals[-1])
        if not math.isfinite(loss):
            raise GateError(
                f"the pre-training loss is {loss} in step {step}; start anew in another folder, "
                f"with a lower lr or in float32"
            )
        for p in self.model.parameters():
            p.grad.div_(nodes)  # type: ignore[union-attr]
        if self.stage.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.stage.clip)
        for group in self.optimiser.param_groups:
            group["lr"] = self.stage.rate(step)
        self.optimiser.step()
        return loss, tuple(n / nodes for n in totals[books:-1]), nodes

    def _backward(self, step: int, piece: Piece) -> Tensor:
        """Add the gradient of the summed loss of one pass; its sums: entropies, right codes, masked
        nodes.
        """
        targets = self.labeller(piece.signal)
        seed = seed_of("pre-training dropout", self.stage.seed, step, piece.number)
        torch.manual_seed(seed % 2**63)
        try:
            with self.fabric.autocast():
                result = self.model(
                    piece.signal, piece.measured, piece.masked, targets, piece.dropped
                )
            result.entropy.sum().backward()
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
            records = len(piece.signal)
            raise BadSetting(
                f"memory does not suffice for {records} records per pass; set "
                f"micro={max(1, records // 2)} (--set micro_batch)"
            ) from error
        entropy, correct = result.entropy.detach().double(), result.correct.double()
        return torch.cat([entropy, correct, entropy.new_full((1,), result.nodes)])
