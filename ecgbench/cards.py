"""What is declared: frozen cards of datasets, tasks and models. No default for a physical quantity."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from ecgbench.ecg.leads import LEADS, LeadSubset
from ecgbench.errors import BadSetting

Normalisation = Literal["none", "minmax-per-lead", "standardise-record"]
"""`none`: the network receives `unit`. `minmax-per-lead`: each lead of the record to [-1, 1] by its own extremes, a
constant lead to -1. `standardise-record`: one mean and one standard deviation over the rows that are there."""


@dataclass(frozen=True, kw_only=True)
class Filter:
    """A band-pass of one lead at the native rate, over the whole record."""

    kind: Literal["firwin-filtfilt"]
    """`firwin-filtfilt`: Hamming FIR of int(0.3 fs) taps made odd, forward and backward (HuBERT-ECG's preparation)."""
    low: float
    """Lower edge, Hz."""
    high: float
    """Upper edge, Hz."""


@dataclass(frozen=True, kw_only=True)
class InputContract:
    """How a model is fed. Everything that differs between models stands here, as data."""

    name: Literal["paper", "upstream"]
    """`paper` follows the reference benchmark's feeding, `upstream` the model's authors."""
    fs: float
    """Rate the network expects, Hz."""
    seconds: float
    """Length of one window, s."""
    leads: tuple[str, ...]
    """Leads the network reads, in its order."""
    unit: Literal["mV"]
    """Unit before normalisation."""
    filter: Filter | None
    normalisation: Normalisation
    fill: Literal["before", "after"]
    """Whether a policy's blank (0) stands for an absent lead before the normalisation (0 mV) or after it (0)."""
    policy: str
    """Policy of `--policy paper`: "zero", or "native" for a network that reads any subset."""
    absent: str
    """In words: what the network receives for an absent lead under `policy`."""

    def __post_init__(self) -> None:
        if list(self.leads) != [n for n in LEADS if n in self.leads]:
            raise BadSetting(f"contract {self.name}: leads {self.leads} are not in clinical order")

    @property
    def samples(self) -> int:
        """Samples of one window."""
        return round(self.fs * self.seconds)

    def refuses(self, subset: LeadSubset) -> str | None:
        """A sentence when the network would see nothing of `subset`, else None."""
        if any(n in self.leads for n in subset):
            return None
        return f"none of {subset} is among the inputs {'+'.join(self.leads)}"


@dataclass(frozen=True, kw_only=True)
class Weights:
    """One published file of weights and how its tensors become the network's."""

    name: str
    """What `--weights` calls it: "released"."""
    url: str
    """Where the authors publish it."""
    file: str
    """File name as published."""
    sha256: str | None
    """Pinned hash; None where it has not been seen."""
    licence: str
    container: tuple[str, ...] = ()
    """Keys that lead to the state dict inside the file: ("model",)."""
    prefix: str = ""
    """Prefix that backbone entries carry in the file."""
    drop: tuple[str, ...] = ()
    """Entries (exact names or prefixes ending in ".") that are not part of the backbone and are dropped by name."""


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """Facts of one model; the room's file name is its identity."""

    title: str
    """As printed in tables: "ST-MEM"."""
    summary: str
    """One line: what kind of network."""
    paper: str
    """Citation with DOI or arXiv number."""
    origin: str
    """Code the network follows, with its commit; "this project" where it is ours."""
    licence: str
    """Licence of the authors' code and weights, as they state it."""
    parameters: int
    """Of the encoder, without heads."""
    dim: int
    """Width of the pooled feature."""
    contracts: tuple[InputContract, ...]
    native: bool
    """Whether the network reads any subset of its contract's leads without filling (policy `native`)."""
    groups: Mapping[str, tuple[str, ...]]
    """Parameter-name prefixes of "early" and "late" (learning-rate groups of fine-tuning); all parameters, once."""
    weights: tuple[Weights, ...] = ()
    choices: Mapping[str, str] = field(default_factory=dict)
    """What the paper leaves open and we decided: name -> sentence."""

    def contract(self, name: str) -> InputContract:
        """The contract called `name`; BadSetting when the card has none of that name."""
        for c in self.contracts:
            if c.name == name:
                return c
        raise BadSetting(f"{self.title} has no contract {name!r}; it has {', '.join(c.name for c in self.contracts)}")


@dataclass(frozen=True, kw_only=True)
class Task:
    """A classification task: label columns of a dataset's index."""

    name: str
    title: str
    """As printed in tables: "PTB-XL Super"."""
    labels: tuple[str, ...]
    """Label names in the order of the head's outputs; the index holds them as columns `name:label` (see `columns`)."""
    parent: str | None = None
    """Evaluation only: the task of the same dataset whose predictions hold these labels as columns."""

    def __post_init__(self) -> None:
        for name in (self.name, *self.labels):
            if not name or not name.isprintable():
                raise BadSetting(f"task {self.name!r}: {name!r} is no name for a task or label: it is empty or holds a control character")
        if len(set(self.labels)) != len(self.labels):
            raise BadSetting(f"task {self.name!r}: a label is there twice")

    @property
    def columns(self) -> list[str]:
        """Columns of the index: `ptbxl_super:NORM`; an evaluation-only task reads its parent's."""
        return [f"{self.parent or self.name}:{label}" for label in self.labels]


@dataclass(frozen=True, kw_only=True)
class DatasetCard:
    """Facts of one dataset as published."""

    title: str
    version: str
    doi: str
    licence: str
    url: str
    """Where a person gets it; "" for the embedded demo."""
    folder: str
    """Name of its folder under --data; "" for data that are generated."""
    synthetic: bool
    """True where no patient was ever recorded; every report says so."""
    records: int
    """Records of the release, before any limit or loss."""
    patients: int
    fs: float
    """Native rate, Hz."""
    seconds: float
    """Usual duration of a record, s."""
    leads: tuple[str, ...]
    """In the order of the files."""
    index_files: tuple[str, ...]
    """Files that must be there, relative to the folder."""
    tasks: tuple[Task, ...]
    splits: str
    """In words: how records are split."""

    def task(self, name: str) -> Task:
        """The task called `name` of this dataset."""
        return next(t for t in self.tasks if t.name == name)


def facts(card: object) -> dict[str, Any]:
    """A card as plain JSON types, for keys, provenance and lists."""
    return _plain(asdict(card))  # type: ignore[call-overload]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value
