"""The units of a study: a fit, a lead setting and a policy make a cell. Pure data."""

from dataclasses import dataclass
from typing import Any, Literal

from ecgbench.core.division import OFFICIAL
from ecgbench.ecg.draw import Draw, LeadSetting

FEATURES = 1
"""Raised by hand when the same recordings and weights give other features. In every key."""


FITS = 1
"""Raised by hand when training on the same features gives other weights. In keys of fits and cells.
"""


SCORES = 1
"""Raised by hand when the same fit gives other predictions or scores. In keys of cells."""


FORMAT = 3
"""Of plan.toml, cell.json and fit.json; a run of another format is refused."""


PAPER = "paper"
"""`--policy paper`: what each model's contract says (zero for the baselines, native for LAEF)."""


RANDOM, RELEASED, EITHER = "random", "released", "released_or_random"
"""Words of `--weights` that are not a path or a name on the card."""


NONE = "none"
"""Name of the weights of a model without parameters."""


TrainLeads = Literal["all", "random", "same"]


Precision = Literal["float32", "bf16"]


Bootstrap = Literal["none", "multinomial", "records"]


Absent = Literal["undefined", "half"]


@dataclass(frozen=True, kw_only=True)
class Training:
    """Settings of training. Epochs, rate, weight decay and batch are those of the reference
    benchmark's loop (AdamW, constant rate, best validation macro AUROC).
    """

    protocol: str = "probe"
    """probe, linear, finetune, finetune-modern, shipped or a plug-in; each uses some of these
    settings.
    """
    epochs: int = 100
    lr: float = 1e-3
    """Of the head. `finetune`: a tenth of it for late layers and a hundredth for early ones (groups
    of the card).
    """
    weight_decay: float = 1e-3
    batch: int = 64
    """Records per step; a smaller training split is one batch."""
    leads: TrainLeads = "all"
    """`random`: per record and epoch a number L from 1 to 12, then L leads; leads of validation
    records are drawn once. With `probe` 20 draws per record. `same`: not with `linear`;
    for each tested set of leads a fit that is trained on the same leads.
    """
    lr_groups: bool = True
    """`finetune`: off gives every parameter the rate of the head."""
    precision: Precision = "float32"
    """`finetune`: bf16 autocasts the training step; evaluation stays in float32. Other protocols:
    bf16 autocasts the frozen encoder.
    """
    micro_batch: int | None = None
    """`finetune`: records per forward pass, gradients accumulated over a step; not set: the
    whole batch.
    """
    layer_decay: float = 0.75
    """`finetune-modern`: rate of a layer as a share of that of the layer above it."""
    warmup: float = 0.1
    """`finetune-modern`: share of the steps in which the rates rise from 0."""
    ema: float = 0.999
    """`finetune-modern`: decay of the averaged weights with each step."""


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """How records become scores and intervals."""

    draw: Draw = "record"
    """Random leads are drawn once per record, or anew in each `window`."""
    rows: Literal["all", "labelled"] = "all"
    """Records of an evaluation-only task: all of its parent's, or those with one of its labels."""
    bootstrap: Bootstrap = "none"
    """How intervals are made: from placements, without draws (`none`; metrics without placements
    use `multinomial`); or by drawing patients (`multinomial`) or records (`records`, as the
    reference benchmark) with replacement.
    """
    draws: int = 1000
    absent: Absent = "undefined"
    """A label without both values is left out of the macro mean (`undefined`), or counts as 0.5
    (`half`, as the reference benchmark).
    """
    metrics: tuple[str, ...] = ("auroc",)
    """The first is the main one. Others can be computed later from what is stored."""

    @property
    def of_predictions(self) -> dict[str, Any]:
        """The settings that can change a prediction, or which records are scored."""
        return {"draw": self.draw, "rows": self.rows}


@dataclass(frozen=True, kw_only=True)
class Fit:
    """One training of one model on one task."""

    task: str
    model: str
    contract: str
    weights: str
    """random, a name on the card, or a path."""
    seed: int
    """Of the training (training.seeds); head initialisation, window and lead draws."""
    policy: str = ""
    """Policy for the absent leads in training; "" if training has all twelve leads, and the fit
    serves every policy.
    """
    fold: str = OFFICIAL
    """Division of the records. A score over folds is the mean of the scores within each."""
    shown: str = ""
    """Leads of training and test (`--train-leads same`), as `LeadSubset` prints them; "" for other
    ways of training. The name is part of stored identities.
    """


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One number of the study, before means over seeds."""

    fit: Fit
    task: str
    """The fit's task, or an evaluation-only task of the same dataset."""
    setting: LeadSetting
    policy: str

    @property
    def label(self) -> str:
        """For people: `ptbxl_super · stmem · 1@seed3 · zero`."""
        fold = "" if self.fit.fold == OFFICIAL else f" · fold {self.fit.fold}"
        return f"{self.task} · {self.fit.model} · {self.setting} · {self.policy}{fold}"

    @property
    def identity(self) -> str:
        """The name of a cell, independent of its key."""
        fit = self.fit
        parts = [self.task, fit.model, fit.contract, fit.weights, f"fit{fit.seed}"]
        parts += [str(self.setting), self.policy]
        return "|".join(parts if fit.fold == OFFICIAL else [*parts, f"fold {fit.fold}"])
