"""What a plug-in of each room must have, with shapes: the rooms refuse a file that lacks a name or
a parameter of it, mypy reads it where a plug-in is called, and `ecgbench check` tries the rest.

Time is along the last axis, signals are float32, `card` is 12 or the leads of the card's contract.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ecgbench.cards.dataset import DatasetCard
from ecgbench.cards.model import ModelCard
from ecgbench.cards.rooms import EngineCard, MetricCard, PerturbationCard, ReportCard

if TYPE_CHECKING:  # a contract is read without torch and pandas
    import pandas as pd
    from torch import nn

    from ecgbench.ecg.recording import Recording

Array = np.ndarray


class Model(Protocol):
    """A network; `forward(signal (batch, card, time), measured (batch, card) bool)` gives features
    (batch, dim), or `Features(sequence (batch, token, dim), pooled (batch, dim))`. Rows that are
    not measured are NaN in a native network.
    """

    CARD: ModelCard

    def build(self, weights: Any = None) -> "nn.Module":
        """With random weights, or those of a path, or of a name on the card."""


class Dataset(Protocol):
    """Recordings as published. A task's labels are int8 columns `task:label`: 1, 0, -1 unknown.
    May define CODES: label -> SNOMED CT code, several separated by `|`.
    """

    CARD: DatasetCard

    def index(self, root: Path | None) -> "pd.DataFrame":
        """A row per record: record, patient, split or fold, labels, and what `read` needs."""

    def read(self, root: Path | None, row: Any) -> "Recording":
        """The recording of a row: (lead, time), its unit, rate and leads."""


class FillingPolicy(Protocol):
    """How missing leads are filled. May learn: `fit(signals, leads) -> {name: array}`, of each
    training record (12, time) mV; the arrays come back as `state`.
    """

    def fill(self, signal: Array, measured: Array, state: Any = None) -> Array:
        """(12, time) mV with NaN in hidden rows, (12,) bool -> (12, time) without NaN."""


class Perturbation(Protocol):
    """What a device does to the signal of a test recording (mV, at its own rate)."""

    CARD: PerturbationCard

    def apply(self, signal: Array, fs: float, level: Any, random: np.random.Generator) -> Array:
        """(9, time) electrodes or (12, time) leads, as CARD.acts_on says, -> the same rows."""


class TrainingProtocol(Protocol):
    """How a fit is trained: the fields of `Training` that it uses, and whether the encoder stays as
    it is. May define `facts()` and `of_the_fit(evaluation, fit)` for its key, `refuses(card,
    weights, task)` (why it cannot be, or ""), SAME_LEADS and LEARNS.
    """

    SETTINGS: tuple[str, ...]
    frozen: bool

    def needs(self, evaluation: Any, fit: Any) -> Any:
        """The rows of work (`rows.Needed`) whose features it is made of."""

    def fit(self, evaluation: Any, fit: Any, needed: Any, checkpoint: Path) -> Any:
        """A `Trained`: head weight (label, dim) and bias (label,), see `predict.probabilities`."""


class Metric(Protocol):
    """How good predictions are. May define `replicates` (draw, label), `wins` (record, label).

    With CARD.together it takes the names (label,) or codes of the labels too, raises BadSetting for
    labels that it does not know, and gives the macro before the labels: (1 + label).
    """

    CARD: MetricCard

    def value(self, target: Array, score: Array, labels: Sequence[str] = ()) -> Array:
        """(record, label) int8 of 0 and 1, (record, label) -> (label,) float64, NaN: undefined."""

    def influence(self, target: Array, score: Array, labels: Sequence[str] = ()) -> Array | None:
        """(record, label): how much each record moves the value; None: intervals draw patients."""


class Engine(Protocol):
    """Where jobs run."""

    CARD: EngineCard

    def run(
        self, work: Callable[..., None], jobs: deque[Any], show: Callable[..., None], execution: Any
    ) -> Iterator[tuple[Any, Any]]:
        """Yields (job, None), or (job, Died); calls `work(job, show)` for each job of `jobs`."""


class Report(Protocol):
    """Tables and figures of a run, a profile, a pre-training or an ablation (CARD.reads)."""

    CARD: ReportCard

    def rows(self, source: Any) -> "pd.DataFrame":
        """Unrounded numbers; every column of a CSV file of ours is in results/columns.csv. What the
        page shows of them is said by `sections(source, rows)`; without it, all of them.
        """
