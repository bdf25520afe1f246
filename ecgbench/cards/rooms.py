"""Frozen cards of metrics, perturbations, engines and reports."""

from dataclasses import dataclass
from math import inf
from typing import Literal

from ecgbench.cards.checked import CheckedFields
from ecgbench.errors import BadSetting

Reads = Literal["run", "profile", "pretraining", "ablation"]
"""What a report is of."""


@dataclass(frozen=True, kw_only=True)
class MetricCard(CheckedFields):
    """Facts of one metric; the room's file name is its identity."""

    title: str
    """As printed in tables: "AUROC"."""
    direction: Literal["higher", "lower"]
    """Which values are better."""
    range: tuple[float | None, float]
    """Lowest and highest possible value; None: nothing is the lowest."""
    chance: float | None
    """Value of guessing on any data; None where it depends on them."""
    summary: str
    """One line: what it is."""
    source: str
    """Citation with DOI or arXiv number."""
    together: bool = False
    """Whether it reads all labels of a record together, by their names: it gives a macro value,
    and may give values of labels, which depend on one another.
    """

    @property
    def ends(self) -> tuple[float, float]:
        """Lowest and highest possible value, -inf where nothing is the lowest."""
        low, high = self.range
        return -inf if low is None else low, high

    @property
    def sign(self) -> int:
        """1 where higher values are better, -1 where lower ones are."""
        return 1 if self.direction == "higher" else -1


@dataclass(frozen=True, kw_only=True)
class PerturbationCard(CheckedFields):
    """Facts of one perturbation; the room's file name is its identity."""

    title: str
    """As printed in tables, with {} in place of the level: "electrode motion, {} dB"."""
    acts_on: Literal["noise", "electrodes", "leads", "time"]
    """What `apply` gives: noise at the nine electrodes, whose size follows from the level in dB;
    the potentials of the electrodes; the leads; or leads whose number of samples changes.
    """
    level: str
    """What the level is, in words: "mV at each electrode"."""
    levels: tuple[str, ...]
    """As typed: all that there are, or of numbers a few to try."""
    range: tuple[float, float] | None = None
    """Smallest and largest level where it is a number; None where it is one of `levels`."""
    summary: str
    """One line: what it is."""
    source: str = ""
    """Citation or data set."""
    corpora: tuple[str, ...] = ()
    """Collections whose recordings it adds; models that were trained with them are marked."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.levels:
            raise BadSetting('PerturbationCard: levels is empty; name at least one, as in ("6",)')


@dataclass(frozen=True, kw_only=True)
class EngineCard(CheckedFields):
    """Facts of an engine."""

    title: str
    summary: str
    """One line: where jobs run."""
    other_machines: bool = False
    """Whether they run on machines whose devices this one does not know."""


@dataclass(frozen=True, kw_only=True)
class ReportCard(CheckedFields):
    """What a report is."""

    title: str
    summary: str
    reads: Reads
    """What `sections` receives: a run (results.study), a profile (profile.stored), a pre-training
    (pretrain.stored) or an ablation (pretrain.ablation).
    """
    order: int = 500
    """Its place on the page: the lowest comes first."""
    option: str = ""
    """Option of `ecgbench report` that puts it on the page; without one it is always there."""
    exploratory: bool = True
    """Whether it holds results that no frozen plan asks for: where one is frozen it says so. False
    for the planned hypotheses, and for what describes a run without a result.
    """
