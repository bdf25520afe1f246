"""The encoders that a stage keeps, what is measured of each, and which one is selected.

Every so many steps the encoder is kept, and measured on a development task by a linear probe beside
two signs of collapse (paper, "Transfer-guided refinement" and "Training dynamics and checkpoint
selection"). Selected is the earliest that serves as well as any, as far as the probe can tell, or
the latest where the learning rate falls to 0.
"""

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from ecgbench.core.files import as_json, facts_of, proved, put
from ecgbench.errors import BadWeights
from ecgbench.evaluate import torchrun
from ecgbench.layers.node_encoder import NodeEncoder
from ecgbench.pretrain import collapse
from ecgbench.pretrain import stored as pretraining
from ecgbench.pretrain.collapse import Layer
from ecgbench.pretrain.objective import MaskedNodes
from ecgbench.pretrain.probes import Development, device_of, parts, probed
from ecgbench.pretrain.stage import Stage
from ecgbench.weights.load import digest

ENCODERS = "encoders"
"""Folder of a stage that keeps them: 000500.safetensors, and 000500.json with what was measured."""
MASK = "mask"
"""Name of the mask vector among the tensors of a kept encoder."""
_AGAIN = "remove its stage's folder and run the same command again, or choose another folder"


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """What was measured of one kept encoder."""

    step: int
    score: float
    """Macro AUROC of the linear probe on the development task."""
    parts: tuple[float, ...]
    """What each patient adds to the error of the score."""
    layers: tuple[Layer, ...]
    """Embedder and blocks."""
    encoder: str
    """Digest of its tensors."""
    mask: str
    """sha256 of the mask vector, which a second stage may start from."""
    seconds: float
    """Wall time of these measurements."""


class KeptEncoders:
    """The encoders that a stage keeps, in `<stage>/encoders`, and their measurements; called as the
    stage's probe.
    """

    def __init__(
        self,
        stage: Path,
        development: Development,
        build: Callable[[], NodeEncoder],
        *,
        windows: int = collapse.WINDOWS,
        note: Callable[[str], None] = lambda line: None,
    ) -> None:
        """build: makes the network that kept tensors are loaded into. windows: of the development
        task's training split, for the signs of collapse. note: gets a line for each measurement.
        """
        self.folder, self.development, self.build = stage / ENCODERS, development, build
        self.windows, self.note = windows, note

    def __call__(self, step: int, model: MaskedNodes) -> None:
        """Keep and measure the encoder of a step; one that is there already, to the bit, is not
        measured again.
        """
        if torchrun.rank():  # the first process measures, the others wait for it in their next step
            return
        encoder, path = model.encoder, encoder_file(self.folder, step)
        found, before = _digests(encoder, model.mask), _read(path.with_suffix(".json"))
        if before and path.is_file() and (before.encoder, before.mask) == found:
            return
        began = time.perf_counter()
        tensors = {**encoder.state_dict(), MASK: model.mask}
        put(path, save({k: v.detach().cpu().contiguous() for k, v in tensors.items()}))
        now = probed(encoder, self.development)
        windows = self.development.learn.batches(device_of(encoder), self.windows)
        layers = collapse.measure(encoder, windows)
        measured = Checkpoint(
            step=step,
            score=now.score,
            parts=parts(now, self.development.check),
            layers=tuple(layers),
            encoder=found[0],
            mask=found[1],
            seconds=time.perf_counter() - began,
        )
        put(path.with_suffix(".json"), as_json(proved(asdict(measured))))
        self.note(
            f"checkpoint of step {step}: {measured.score:.4f} on {self.development.task} (linear "
            f"probe)"
        )

    def measured(self, stage: Stage) -> list[Checkpoint]:
        """What was measured of the encoders that are kept of it, not of those of a schedule that
        was given up.
        """
        return read_checkpoints(self.folder, stage.probed)

    def selected(self, stage: Stage) -> Checkpoint:
        """t*, the one that is `stored.chosen` of them, whether its file is there or not."""
        every = self.measured(stage)
        scores, own = [c.score for c in every], [c.parts for c in every]
        return every[pretraining.chosen(scores, own, stage.falling)]

    def end(self, stage: Stage, model: MaskedNodes) -> tuple[NodeEncoder, Tensor]:
        """The selected encoder and its mask vector; BadWeights where it is gone or damaged."""
        selected = self.selected(stage)
        self.note(f"checkpoint of step {selected.step} selected ({selected.score:.4f})")
        return self.load(selected)

    def load(self, checkpoint: Checkpoint) -> tuple[NodeEncoder, Tensor]:
        """A kept encoder in evaluation mode and its mask vector; BadWeights where the file is not
        the one that was measured.
        """
        path, network = encoder_file(self.folder, checkpoint.step), self.build()
        try:
            tensors = load(path.read_bytes())
            mask = tensors.pop(MASK)
            network.load_state_dict(tensors)
        except (OSError, SafetensorError, RuntimeError, KeyError) as error:
            raise BadWeights(
                f"{path} cannot be read as an encoder of this pre-training; {_AGAIN}"
            ) from error
        if _digests(network, mask) != (checkpoint.encoder, checkpoint.mask):
            raise BadWeights(
                f"{path} is not the encoder that was measured at step {checkpoint.step}; {_AGAIN}"
            )
        return network.eval(), mask


def encoder_file(folder: Path, step: int) -> Path:
    """Where the encoder of a step lies."""
    return folder / f"{step:06d}.safetensors"


def read_checkpoints(folder: Path, probed: Callable[[int], bool]) -> list[Checkpoint]:
    """What was measured of the encoders of a folder after the steps that are `probed`, by step;
    BadWeights where that is damaged, and where it is gone though the encoder is there.
    """
    every = [_read(path) for path in sorted(folder.glob("*.json"))]
    measured = {c.step: c for c in every if c is not None and probed(c.step)}
    for path in sorted(folder.glob("*.safetensors")):
        if path.stem.isdecimal() and probed(int(path.stem)) and int(path.stem) not in measured:
            raise BadWeights(
                f"{path.with_suffix('.json')} is gone, which says what was measured of the encoder "
                f"beside it; {_AGAIN}"
            )
    return list(measured.values())


def _read(path: Path) -> Checkpoint | None:
    return pretraining.read_file(path, _checkpoint) or None


def _checkpoint(text: str) -> Checkpoint:
    content = facts_of(json.loads(text))
    layers = tuple(Layer(**layer) for layer in content.pop("layers"))
    return Checkpoint(**content | {"layers": layers, "parts": tuple(content["parts"])})


def _digests(encoder: NodeEncoder, mask: Tensor) -> tuple[str, str]:
    """Of the encoder's tensors, and of its mask vector."""
    return digest(encoder), hashlib.sha256(mask.detach().cpu().numpy().tobytes()).hexdigest()
