"""The encoders that a stage keeps, and what is measured of each on a development task.

A probe learns from the task's training recordings. It is scored on those of patients that were set
apart of them, or on its validation recordings; its test recordings are never read.
"""

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from ecgbench.core.cards import InputContract, Task
from ecgbench.core.cells import Training
from ecgbench.core.files import as_json, facts_of, proved, put
from ecgbench.core.seeds import rng
from ecgbench.data.copy import Copy
from ecgbench.data.views import View
from ecgbench.ecg.leads import ALL
from ecgbench.ecg.preprocess import normalise
from ecgbench.errors import BadSetting, BadWeights
from ecgbench.evaluate import torchrun
from ecgbench.evaluate.predict import probabilities
from ecgbench.evaluate.protocols import linear
from ecgbench.layers.node_encoder import NodeEncoder
from ecgbench.pretraining import dynamics
from ecgbench.pretraining.dynamics import Layer
from ecgbench.pretraining.objective import MaskedNodes, node_features
from ecgbench.pretraining.selection import Checkpoint, chosen
from ecgbench.stats import auroc
from ecgbench.stats.auroc import macro_auroc
from ecgbench.stats.clustered import Patients
from ecgbench.weights.load import digest

TRAINING = Training(protocol="linear")
"""The probe is the harness's linear protocol, but for one window per recording, and for its head:
the mean of the heads of the LAST of 100 epochs. An epoch that is chosen by its score makes the
score too good, by another amount for each network.
"""
LAST = 10
ENCODERS = "encoders"
"""Folder of a stage that keeps them: 000500.safetensors, and 000500.json with what was measured."""
MASK = "mask"
"""Name of the mask vector among the tensors of a kept encoder."""
BATCH = 16
"""Windows of one pass; features are 12 x 20 nodes each."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Half:
    """Recordings of one split of the development task, the first window of each, as the network is
    fed.
    """

    records: list[str]
    patients: list[str]
    signal: np.ndarray
    """(record, 12, 500) float32."""
    target: np.ndarray
    """(record, label) int8."""

    def batches(self, device: torch.device | str, windows: int | None = None) -> Iterator[Tensor]:
        """(batch, 12, 500) on the device: all windows, or the first so many."""
        for start in range(0, len(self.signal[:windows]), BATCH):
            yield torch.from_numpy(self.signal[:windows][start : start + BATCH]).to(device)


@dataclass(frozen=True, kw_only=True, eq=False)
class Development:
    """A task on which checkpoints are compared."""

    task: str
    learn: Half
    check: Half

    @classmethod
    def of(
        cls,
        prepared: Copy,
        task: Task,
        contract: InputContract,
        records: int | None = None,
        seed: int = 0,
        check: str = "val",
    ) -> "Development":
        """From the training split and the one that encoders are compared on; `records`: at most so
        many of the training split, drawn by `seed`.

        BadSetting: a split without recordings of at least one window.
        """
        index, view = prepared.index, View(prepared, contract)

        def half(split: str, most: int | None) -> Half:
            rows = index[(index["split"] == split) & (index["available"] == ALL.bits)]
            rows = rows[[view.length(r) >= contract.samples for r in rows["record"]]]
            if most is not None and most < len(rows):
                order = rng("development records", seed).permutation(len(rows))
                rows = rows.iloc[np.sort(order[:most])]
            if not len(rows):
                raise BadSetting(
                    f"{prepared.name} has no {split} recording of {contract.seconds:g} s for the "
                    f"development task {task.name}"
                )
            names = rows["record"].tolist()
            view.fill(names)
            windows = [
                normalise(view.get(name), contract.normalisation)[:, : contract.samples]
                for name in names
            ]
            return Half(
                records=names,
                patients=rows["patient"].astype(str).tolist(),
                signal=np.stack(windows).astype(np.float32),
                target=rows[list(task.columns)].to_numpy(np.int8),
            )

        return cls(task=task.name, learn=half("train", records), check=half(check, None))


@dataclass(frozen=True, kw_only=True, eq=False)
class Probed:
    """What a probe finds on recordings of the development task that it did not learn from."""

    score: float
    """Macro AUROC."""
    probability: np.ndarray
    """(record, label) float64."""


def probed(
    encoder: NodeEncoder, development: Development, seed: int = 0, training: Training = TRAINING
) -> Probed:
    """Of a linear head on the encoder's mean-pooled features, twelve leads. BadSetting: no label
    has both values.
    """
    weight, bias, check = head(encoder, development, seed, training)
    return scored(probabilities(check.features, check.owner, weight, bias), development)


def head(
    encoder: NodeEncoder, development: Development, seed: int = 0, training: Training = TRAINING
) -> tuple[np.ndarray, np.ndarray, linear.Split]:
    """Its weight (label, width) and bias (label,), and the features that it is scored on."""

    def split(half: Half) -> linear.Split:
        pooled = [
            node_features(encoder, x, (encoder.depth,))[0].mean((1, 2)).cpu()
            for x in half.batches(device_of(encoder))
        ]
        return linear.Split(
            records=half.records,
            features=torch.cat(pooled).numpy(),
            owner=np.arange(len(half.records)),
            target=half.target,
        )

    check = split(development.check)
    learned, _, _ = linear.train(training, seed, split(development.learn), check, last=LAST)
    weight, bias = (learned.state_dict()[k].numpy() for k in ("weight", "bias"))
    return weight, bias, check


def scored(probability: np.ndarray, development: Development) -> Probed:
    """Probabilities (record, label) with their score. BadSetting: no label has both values."""
    score = macro_auroc(development.check.target, probability)
    if not math.isfinite(score):
        raise BadSetting(
            f"{development.task} gives no score: no label has both values among its "
            f"{len(development.check.records)} recordings"
        )
    return Probed(score=score, probability=probability)


def parts(found: Probed, half: Half) -> tuple[float, ...]:
    """What each patient adds to the error of a score, in alphabetical order; the sum is 0."""
    influence = auroc.influence(half.target, found.probability)
    defined = ~np.isnan(influence).all(axis=0)
    own = influence[:, defined].mean(axis=1) / len(influence)
    return tuple(round(float(x), 9) for x in Patients.of(half.patients).sums(own))


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
        windows: int = dynamics.WINDOWS,
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
        encoder, path = model.encoder, self._path(step)
        found, before = digests(encoder, model.mask), _read(path.with_suffix(".json"))
        if before and self.holds(before) and (before.encoder, before.mask) == found:
            return
        began = time.perf_counter()
        write_encoder(path, model)
        now = probed(encoder, self.development)
        layers = dynamics.measure(
            encoder, self.development.learn.batches(device_of(encoder), self.windows)
        )
        of_patients = parts(now, self.development.check)
        measured = Checkpoint(
            step=step,
            score=now.score,
            parts=of_patients,
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

    def holds(self, checkpoint: Checkpoint) -> bool:
        """Whether the encoder is here too."""
        return self._path(checkpoint.step).is_file()

    def load(self, checkpoint: Checkpoint) -> tuple[NodeEncoder, Tensor]:
        """A kept encoder in evaluation mode and its mask vector; BadWeights where the file is not
        the one that was measured.
        """
        path, network = self._path(checkpoint.step), self.build()
        mask = read_encoder(path, network)
        if digests(network, mask) != (checkpoint.encoder, checkpoint.mask):
            raise BadWeights(
                f"{path} is not the encoder that was measured at step {checkpoint.step}; {_AGAIN}"
            )
        return network.eval(), mask

    def _path(self, step: int) -> Path:
        return encoder_file(self.folder, step)


_AGAIN = "remove its stage's folder and run the same command again, or choose another folder"


def encoder_file(folder: Path, step: int) -> Path:
    """Where the encoder of a step lies."""
    return folder / f"{step:06d}.safetensors"


def write_encoder(path: Path, model: MaskedNodes) -> None:
    """Write the encoder and the mask vector. WriteError."""
    tensors = {**model.encoder.state_dict(), MASK: model.mask}
    put(path, save({k: v.detach().cpu().contiguous() for k, v in tensors.items()}))


def read_encoder(path: Path, network: NodeEncoder) -> Tensor:
    """Load what `write_encoder` wrote into a network; the mask vector. BadWeights."""
    try:
        tensors = load(path.read_bytes())
        mask = tensors.pop(MASK)
        network.load_state_dict(tensors)
    except (OSError, SafetensorError, RuntimeError, KeyError) as error:
        raise BadWeights(
            f"{path} cannot be read as an encoder of this pre-training; {_AGAIN}"
        ) from error
    return mask


def select(folder: Path, measured: Sequence[Checkpoint], falling: bool) -> Checkpoint:
    """The one that is `chosen` of those that were measured in a folder. falling: whether the
    learning rate falls to 0. BadWeights where it is gone.
    """
    wanted = chosen(measured, falling)
    if not (path := encoder_file(folder, wanted.step)).is_file():
        raise BadWeights(f"{path} is gone, and it is the encoder that was selected; {_AGAIN}")
    return wanted


def read_checkpoints(folder: Path, probed: Callable[[int], bool]) -> list[Checkpoint]:
    """What was measured of the encoders of a folder after the steps that are `probed`, by step;
    BadWeights where that is damaged, and where it is gone though the encoder is there.
    """
    every = [_read(path) for path in sorted(folder.glob("*.json"))]
    measured = {c.step: c for c in every if c is not None and probed(c.step)}
    for path in sorted(folder.glob("*.safetensors")):
        if path.stem.isdecimal() and probed(int(path.stem)) and int(path.stem) not in measured:
            raise BadWeights(
                f"{path.with_suffix('.json')} is gone, which told what was measured of the encoder "
                f"beside it; {_AGAIN}"
            )
    return list(measured.values())


def _read(path: Path) -> Checkpoint | None:
    if not path.is_file():
        return None
    try:
        content = facts_of(json.loads(path.read_text(encoding="utf-8")))
        layers = tuple(Layer(**layer) for layer in content.pop("layers"))
        # those of earlier versions have none
        return Checkpoint(**content | {"layers": layers, "parts": tuple(content.get("parts", ()))})
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadWeights(
            f"{path} cannot be read as what was measured of an encoder; {_AGAIN}"
        ) from error


def digests(encoder: NodeEncoder, mask: Tensor) -> tuple[str, str]:
    """Of the encoder's tensors, and of its mask vector."""
    return digest(encoder), hashlib.sha256(mask.detach().cpu().numpy().tobytes()).hexdigest()


def device_of(encoder: NodeEncoder) -> torch.device:
    """Where a network is."""
    return next(encoder.parameters()).device
