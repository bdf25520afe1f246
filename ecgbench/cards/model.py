"""Frozen cards of models, and what a model is fed. Physical quantities have no defaults."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ecgbench.cards.checked import CheckedFields
from ecgbench.ecg.filters import Filter
from ecgbench.ecg.leads import LEADS, LeadSubset
from ecgbench.ecg.preprocess import Preparation, Resampler
from ecgbench.errors import BadSetting

Normalisation = Literal[
    "none",
    "minmax-per-lead",
    "minmax-record",
    "standardise-per-lead",
    "standardise-record",
    "median-record",
]
"""`none`: the network receives `unit`. `minmax-per-lead`: each lead to [-1, 1] by its own extremes,
a constant lead to -1. `minmax-record`: all present rows to [0, 1] by their common extremes.
`standardise-per-lead`: each lead by its own mean and standard deviation, a constant lead to 0.
`standardise-record`: one mean and one standard deviation over the present rows. `median-record`:
each lead less its median, over one scale: the 95th percentile of the magnitudes of the first two
present rows together, 0.05 at least; limited to 6 (limb6-rhythm). Over the whole record or each
window: see `InputContract.scope`.
"""


OURS = "this project"
"""Origin on the card of a network that its own makers ship here."""


VOCABULARIES = ("scp", "snomed")
"""Of the codes in a table of classes."""


@dataclass(frozen=True, kw_only=True)
class InputContract(CheckedFields):
    """The input of a model: everything that differs between models, as data."""

    name: Literal["paper", "upstream", "authors-ptbxl"]
    """`paper` follows the reference benchmark, or the model's paper where that has no such model;
    `upstream` the model's authors; `authors-ptbxl` what they did for PTB-XL alone.
    """
    fs: float
    """Rate of the windows, Hz; the network's own where `decimate` is 1."""
    seconds: float
    """Length of one window, s."""
    leads: tuple[str, ...]
    """Leads the network reads, in its order."""
    unit: Literal["mV"]
    """Unit before normalisation."""
    filter: Filter | None
    normalisation: Normalisation
    fill: Literal["before", "after"]
    """Whether the 0 of an absent lead is inserted before the normalisation (0 mV) or after it (0).
    """
    policy: str
    """Policy of `--policy paper`: "zero", or "native" for a network that reads any subset."""
    absent: str
    """A description of what the network receives for an absent lead under `policy`."""
    resampler: Resampler = "polyphase"
    clip: float | None = None
    """Largest magnitude after resampling, mV; larger values are limited to it. None: no limit."""
    scope: Literal["record", "window"] = "record"
    """What the normalisation is computed over."""
    stride: float | None = None
    """Seconds between the starts of evaluation windows; None: they do not overlap."""
    decimate: int = 1
    """The leads of a window, concatenated to one signal, are decimated by this factor (HuBERT-ECG);
    1: not at all.
    """
    short: Literal["excluded", "edge"] = "excluded"
    """A record shorter than a window: excluded and counted, or continued by its last samples."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (
            not self.leads
            or len(set(self.leads)) != len(self.leads)
            or not set(self.leads) <= set(LEADS)
        ):
            raise BadSetting(
                f"contract {self.name}: leads {self.leads} are not leads of {', '.join(LEADS)}, "
                f"each once"
            )

    @property
    def samples(self) -> int:
        """Samples of one window."""
        return round(self.fs * self.seconds)

    @property
    def received(self) -> int:
        """Samples of one lead of a window after decimation."""
        return self.samples // self.decimate

    @property
    def step(self) -> int:
        """Samples between the starts of evaluation windows."""
        return self.samples if self.stride is None else round(self.fs * self.stride)

    @property
    def preparation(self) -> Preparation:
        """The steps for each single lead, before any lead is hidden."""
        own = self.filter if self.filter is not None and self.filter.where != "window" else None
        return Preparation(fs=self.fs, filter=own, resampler=self.resampler, clip=self.clip)

    def windows(self, samples: int) -> int:
        """Evaluation windows of a record of `samples` at `fs`; an incomplete rest is dropped."""
        if samples < self.samples:
            return int(self.short == "edge" and samples > 0)
        return (samples - self.samples) // self.step + 1

    def refuses(self, subset: LeadSubset) -> str | None:
        """A sentence when the network can see no lead of `subset`, else None."""
        if any(n in self.leads for n in subset):
            return None
        return f"none of {subset} is among the inputs {'+'.join(self.leads)}"


def reference_feeding(*, fs: float, seconds: float, leads: tuple[str, ...]) -> InputContract:
    """The contract `paper` of a model that the reference benchmark feeds with plain millivolts; an
    absent lead is 0 mV.

    It filters and scales nothing for such models (arXiv:2509.25095 and its code at 6367295: no
    normalisation is passed).
    """
    return InputContract(
        name="paper",
        fs=fs,
        seconds=seconds,
        leads=leads,
        unit="mV",
        filter=None,
        normalisation="none",
        fill="before",
        policy="zero",
        absent="0 mV",
    )


class Class(NamedTuple):
    """A class of a classifier."""

    name: str
    """As its authors call it."""
    codes: frozenset[str]
    """What means the same: "SCP AFIB", "SNOMED 164889003"."""


@dataclass(frozen=True, kw_only=True)
class Classifier(CheckedFields):
    """The head that a file of weights brings: a linear map of the pooled feature."""

    tensors: str
    """What stands in the file before `weight` (class, dim) and `bias` (class,): "dense."."""
    table: str
    """Name of the table of its classes in `ecgbench/models/classes`, or the path of one: a CSV file
    with `class`, `scp` and `snomed` (codes with spaces between), in the order of the classes.
    """
    softmax: bool = False
    """Whether a class excludes the others; else each has a sigmoid of its own."""

    @cached_property
    def classes(self) -> tuple[Class, ...]:
        """In the order of its rows."""
        file: Any = Path(self.table)
        if not file.suffix:
            file = files("ecgbench.models") / "classes" / f"{self.table}.csv"
        rows = csv.DictReader(file.read_text(encoding="utf-8").splitlines())
        return tuple(
            Class(
                row["class"],
                frozenset(
                    f"{kind.upper()} {c}" for kind in VOCABULARIES for c in row[kind].split()
                ),
            )
            for row in rows
        )


@dataclass(frozen=True, kw_only=True)
class Weights(CheckedFields):
    """One published file of weights, and how its tensors map to the network's."""

    name: str
    """Name for `--weights`: "released"."""
    url: str
    """Address where the authors publish it."""
    file: str
    """File name as published."""
    sha256: str | None
    """Pinned hash of the file of weights (of the member, where `file` is an archive); None where it
    is not known.
    """
    licence: str
    container: tuple[str, ...] = ()
    """Keys that lead to the state dict inside the file: ("model",)."""
    prefix: str = ""
    """Prefix of backbone entries in the file."""
    drop: tuple[str, ...] = ()
    """Entries (exact names or prefixes ending in ".") that are not part of the backbone."""
    aliases: tuple[tuple[str, str], ...] = ()
    """(in the file, in the network): parts of names with two spellings. Where a file has both, they
    must agree.
    """
    member: str = ""
    """If `file` is a zip archive: the file of weights in it."""
    classifier: Classifier | None = None
    """The head in the file, one of `drop`, where its classes are known."""
    terms: str = ""
    """Restrictions of the licence in one sentence, printed before the file is used; "" for none."""


@dataclass(frozen=True, kw_only=True)
class ModelCard(CheckedFields):
    """Facts of one model; the name of its file is its identity."""

    name: str = ""
    """Its file's name, or its entry point's; filled in by the room."""

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
    parameters: int | None = None
    """Number of parameters of the encoder, without heads; None: counted when it is built."""
    dim: int = 0
    """Width of the pooled feature; 0: measured when it is built."""
    contracts: tuple[InputContract, ...]
    native: bool
    """Whether the network reads any subset of its contract's leads without filling (policy
    `native`).
    """
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Parameter-name prefixes of "early" and "late" (learning-rate groups of fine-tuning); all
    parameters, once. Without them the network cannot be fine-tuned.
    """
    weights: tuple[Weights, ...] = ()
    fixed: tuple[str, ...] = ()
    """Prefixes of parameters that its authors never train (position tables); fine-tuning does not
    train them either.
    """
    objective: str = ""
    """Its pre-training task, in a few words."""
    corpora: tuple[str, ...] = ()
    """Collections it was pre-trained on, by the title of their dataset card where there is one:
    "PTB-XL"; "PTB-XL (folds 1-8)" where only these were used.
    """
    choices: Mapping[str, str] = field(default_factory=dict)
    """Decisions that the paper leaves open: name -> sentence."""

    def contract(self, name: str) -> InputContract:
        """The contract called `name`; BadSetting when the card has none of that name."""
        for c in self.contracts:
            if c.name == name:
                return c
        raise BadSetting(
            f"{self.title} has no contract {name!r}; it has "
            f"{', '.join(c.name for c in self.contracts)}"
        )
