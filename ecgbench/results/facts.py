"""What is known of a run beside its numbers: its tasks, models, datasets, and how it was made."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from ecgbench.cards.cell import Absent, Bootstrap
from ecgbench.study.stored import Code


@dataclass(frozen=True, kw_only=True)
class _Facts:
    @classmethod
    def of(cls, known: Mapping[str, Any], **more: Any) -> Self:
        """From the facts in a store; those without a field here are ignored."""
        names = {f.name for f in fields(cls)}
        given = {k: v for k, v in {**known, **more}.items() if k in names}
        return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in given.items()})


@dataclass(frozen=True, kw_only=True)
class TaskFacts(_Facts):
    """A task of a run."""

    name: str
    title: str
    dataset: str
    evaluation_only: bool
    n_labels: int
    rule: str = ""
    """Who chose the labels."""
    paper: int | None = None
    """Number of labels in the paper."""
    absent: str = ""
    """What 0 means, in words."""
    counted: bool | None = None
    """Whether its labels were counted on the complete release; None where they are fixed."""


@dataclass(frozen=True, kw_only=True)
class ModelFacts(_Facts):
    """A model of a run, with the weights it ran with."""

    name: str
    title: str
    summary: str = ""
    paper: str = ""
    licence: str = ""
    parameters: int | None = None
    origin: str = ""
    objective: str = ""
    corpora: tuple[str, ...] = ()
    """Collections its weights were pre-trained on."""
    choices: Mapping[str, str] = field(default_factory=dict)
    weights: str = ""
    """random, released, a name on the card or of a file."""
    weights_sha256: str | None = None
    sets_of_weights: int = 1
    """More where its file was changed while the run was computed."""
    weights_source: Mapping[str, Any] = field(default_factory=dict)
    """Name, file, licence, and whether they are this project's own."""
    contract: Mapping[str, Any] = field(default_factory=dict)
    """Facts of its InputContract."""
    precision: str = "float32"
    """In which its features were computed."""
    windows: float | None = None
    """Evaluation windows averaged per record."""


@dataclass(frozen=True, kw_only=True)
class DatasetFacts(_Facts):
    """A dataset of a run: as published, as prepared, and the records that were used."""

    name: str
    title: str
    version: str
    licence: str
    synthetic: bool
    records: int
    """Used."""
    records_prepared: int
    """In this copy of the release, without those that are left out."""
    records_release: int
    test_records: int
    test_patients: int
    doi: str = ""
    limit: int | None = None
    digest: str = ""
    """Of the used records."""
    flat: int = 0
    """Records with a lead that does not vary."""
    fewer_leads: int = 0
    """Records that do not have all twelve leads."""
    suspect: int = 0
    """Records of which leads, unit or rate are perhaps not as stated."""
    found: Mapping[str, int] = field(default_factory=dict)
    """What was found of them -> how many records."""
    repaired: int = 0
    """Records of which something was repaired at preparation."""
    fixed: Mapping[str, int] = field(default_factory=dict)
    """What was repaired -> how many records."""
    fix: bool = False
    """Whether the copy was prepared with --fix."""
    quarantined: tuple[Mapping[str, str], ...] = ()
    """record and reason of each unreadable one."""
    excluded: Mapping[str, int] = field(default_factory=dict)
    """Reason by which the card leaves sound records out -> how many."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """What the study leaves records out for -> how many."""
    cautions: tuple[str, ...] = ()
    """What a reader of its numbers must know."""
    unit: str = "mV"
    """Of the signals."""
    folds: int = 0
    """Of the cross-validation; 0 where there was none."""
    division: str = ""
    """In words: how its records are split, where not as its card says (`--folds`)."""
    verified: str = ""
    """What the reader was tried on."""
    patients_known: bool = True
    """Whether it is known which records are of one person."""
    patients: tuple[str, ...] = field(default=(), repr=False)
    """Of the test records, in alphabetical order: who is drawn for intervals. In a
    cross-validation: of one fold.
    """


@dataclass(frozen=True, kw_only=True)
class Origin:
    """How many cells of a run rest on what one code computed."""

    code: Code
    cells: int
    """Scored by it."""
    fits: int
    """Whose fit it made."""
    features: int
    """Some of whose features, or of their fit's, it computed."""


@dataclass(frozen=True, kw_only=True)
class Command(_Facts):
    """An `ecgbench run` that worked on a run."""

    command: str
    started: float
    """Seconds since 1970."""
    seconds: float | None
    """Until it ended, or until it noted something last; None where it noted nothing."""
    ended: bool
    computed: int | None
    """Cells."""
    reused: int | None = None
    """Cells that were there already."""
    device: str = ""


@dataclass(frozen=True, kw_only=True)
class Provenance(_Facts):
    """How the numbers were made."""

    command: str
    version: str
    commit: str | None = None
    dirty: bool | None = None
    python: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    platform: str = ""
    device: str = ""
    commands: tuple[Command, ...] = ()
    """All that worked in the folder, the first first; the facts above are of the last that computed
    a cell.
    """
    origins: tuple[Origin, ...] = ()
    """All that took part in the numbers."""
    seconds_cells: float = 0.0
    """That scoring took, of all cells."""
    seconds_fits: float = 0.0
    """That training took, of all their fits."""
    protocol: str
    epochs: int
    contract: str
    draw: str
    """Random leads per record or per window."""
    bootstrap: Bootstrap
    draws: int
    absent: Absent = "undefined"
    metrics: tuple[str, ...]
    plan_hash: str
    seeds: tuple[int, ...]
    """Of the draws of leads."""
    fit_seeds: tuple[int, ...]
