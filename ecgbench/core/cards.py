"""Frozen cards of datasets, tasks, models and metrics. Physical quantities have no defaults."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from numbers import Integral, Real
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from ecgbench.core.text import shortened
from ecgbench.ecg.filters import Filter as Filter
from ecgbench.ecg.leads import LEADS, LeadSubset
from ecgbench.ecg.preprocess import Preparation, Resampler
from ecgbench.ecg.repair import Repair as Repair
from ecgbench.errors import BadSetting

Normalisation = Literal[
    "none", "minmax-per-lead", "minmax-record", "standardise-per-lead", "standardise-record"
]
"""`none`: the network receives `unit`. `minmax-per-lead`: each lead to [-1, 1] by its own extremes,
a constant lead to -1. `minmax-record`: all present rows to [0, 1] by their common extremes.
`standardise-per-lead`: each lead by its own mean and standard deviation, a constant lead to 0.
`standardise-record`: one mean and one standard deviation over the present rows. Over the whole
record or each window: see `InputContract.scope`.
"""


Reads = Literal["run", "profile", "pretraining", "ablation"]
"""What a report is of."""


class CheckedFields:
    """Base of all cards: BadSetting where a field does not have its annotated type."""

    def __post_init__(self) -> None:
        for name, kind in get_type_hints(type(self)).items():
            value = getattr(self, name)
            if not _is(value, kind):
                wanted = getattr(kind, "__name__", "") if isinstance(kind, type) else str(kind)
                missed = f"no {re.sub(r'[a-z_]+[.]', '', wanted)}"
                if get_origin(kind) is Literal:
                    missed = f"none of {', '.join(map(repr, get_args(kind)))}"
                raise BadSetting(
                    f"{type(self).__name__}: {name} is {shortened(repr(value), 60)}, which is "
                    f"{missed}"
                )


def _is(value: Any, kind: Any) -> bool:
    """Whether a value is of the type of a field. A list may stand for a tuple."""
    of, within = get_origin(kind), get_args(kind)
    if of is Literal:
        return value in within
    if of in (Union, UnionType):
        return any(_is(value, one) for one in within)
    if of is tuple:
        if not isinstance(value, tuple | list):
            return False
        each = within[:1] * len(value) if within[-1] is ... else within
        return len(each) == len(value) and all(map(_is, value, each))
    if of is not None:
        return isinstance(value, of)
    if kind in (int, float):
        number = Real if kind is float else Integral
        return isinstance(value, number) and not isinstance(value, bool)
    return isinstance(value, kind)


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


@dataclass(frozen=True, kw_only=True)
class Task(CheckedFields):
    """A classification task: label columns of a dataset's index."""

    name: str
    title: str
    """As printed in tables: "PTB-XL Super"."""
    labels: tuple[str, ...]
    """Label names in the order of the head's outputs; the index holds them as columns `name:label`
    (see `columns`).
    """
    parent: str | None = None
    """For an evaluation-only task: the task of the same dataset whose predictions contain these
    labels.
    """
    rule: Literal["published", "reference code", "ours"] = "ours"
    """Who defined its labels: the publishers of the data, the code of the reference benchmark, or
    this project.
    """
    paper: int | None = None
    """Number of its labels in the paper; None where the paper has no such task."""
    absent: str = ""
    """The meaning of 0, in words: "not among its statements"."""
    least: int | None = None
    """On the complete release, labels with fewer records are dropped, and other labels of the index
    with as many are added; on a part of it `labels` are used. None: `labels` are fixed.
    """
    complete: int | None = None
    """Rows of the index of the complete release; needed with `least`."""
    masked: bool = False
    """Labels of a record may be unknown (-1 in the index); the record then counts for its other
    labels only.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in (self.name, *self.labels):
            if not name or not name.isprintable():
                raise BadSetting(
                    f"task {self.name!r}: {name!r} is no name for a task or label: it is empty or "
                    f"holds a control character"
                )
        if len(set(self.labels)) != len(self.labels):
            raise BadSetting(f"task {self.name!r}: a label is there twice")
        if (self.least is None) != (self.complete is None):
            raise BadSetting(
                f"task {self.name!r}: least and complete belong together; give both or neither"
            )

    @property
    def columns(self) -> list[str]:
        """Columns of the index: `ptbxl_super:NORM`; an evaluation-only task reads its parent's."""
        return [f"{self.parent or self.name}:{label}" for label in self.labels]


@dataclass(frozen=True, kw_only=True)
class Limb(CheckedFields):
    """Tolerance of the identities of Einthoven and Goldberger for the limb leads of a dataset, by
    which their names are checked.
    """

    within: float | None = 0.05
    """mV by which an identity may be missed at any sample. None: not checked. Sources that store
    the recorded samples keep 0.016 (2,023 of 2,024 genuine recordings of PTB-XL, the Challenge,
    Chapman and PTB: rounding to the steps of the recorder, up to 5 uV); those that filter each lead
    separately need more.
    """
    beyond: Literal["flagged", "quarantined"] = "flagged"
    """What happens to a record beyond the tolerance."""
    why: str = ""
    """Why this dataset is not checked, or checked less strictly."""


PATIENTS_UNKNOWN = (
    "nobody said which recordings are of the same person; if some are, the score is too high"
)
"""What `patients_known=False` means for a score."""


@dataclass(frozen=True, kw_only=True)
class DatasetCard(CheckedFields):
    """Facts of one dataset as published."""

    title: str
    version: str
    doi: str
    licence: str
    url: str
    """Where to get it; "" for the embedded demo."""
    folder: str
    """Name of its folder under --data; "" for data that are generated."""
    synthetic: bool
    """True if no patient was recorded; every report says so."""
    records: int
    """Records of the release, before any limit or loss."""
    patients: int
    fs: float
    """Native rate, Hz."""
    seconds: float
    """Usual duration of a record, s."""
    leads: tuple[str, ...]
    """In the order of the files; a record without one of them is damaged, unless `any_leads`."""
    index_files: tuple[str, ...]
    """Required files, relative to the folder; `A|B`: either of them."""
    tasks: tuple[Task, ...]
    splits: str
    """A description of the splits."""
    any_leads: bool = False
    """Whether a record may have any of `leads`: one, two, all."""
    unit: Literal["mV", "standardised"] = "mV"
    """Of the signals; standardised where they cannot be converted to mV."""
    verified: Literal["generated", "genuine release", "genuine sample", "specification only"] = (
        "specification only"
    )
    """What its reader was tested on: all of the published files, some of them, or none."""
    min_seconds: float = 0.0
    """Shorter records are excluded, as in the reference benchmark, and counted separately from
    unreadable ones.
    """
    crossing: Literal["listed", "refused"] = "listed"
    """If the same samples occur in two splits: preparing lists the records, or stops."""
    losses: float = 0.005
    """Share of the records that may be unreadable; preparing stops beyond it."""
    limb: Limb = Limb()
    """Tolerance of the identities of its limb leads."""
    repair: Repair | None = None
    """Repairs of missing or too large samples by its reader; counted by record."""
    folds: int = 10
    """Number of folds; the last is the test split, the one before it the validation split."""
    pretraining: bool = False
    """Whether the paper pre-trains on it."""
    country: str = ""
    access: str = "open"
    """"open", or the steps to get the files."""
    cautions: tuple[str, ...] = ()
    """What a reader of its numbers must know, one sentence each."""
    patients_known: bool = True
    """False if the files name no patients (PATIENTS_UNKNOWN): each record then counts as a patient,
    and every row says that its interval may be too narrow.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        for task in self.tasks:
            parents = [t for t in self.tasks if t.name == task.parent]
            if any(parent.masked and not task.masked for parent in parents):
                raise BadSetting(
                    f"task {task.name!r} reads labels of {task.parent!r}, which may be unknown; "
                    f"declare it masked=True too"
                )

    def task(self, name: str) -> Task:
        """The task called `name` of this dataset."""
        return next(t for t in self.tasks if t.name == name)


@dataclass(frozen=True, kw_only=True)
class Download(CheckedFields):
    """One published file of a dataset; `FILES` of its plug-in is a tuple of them."""

    url: str
    path: str
    """Its path in the dataset's folder; an archive is unpacked next to it."""
    sha256: str | None = None
    md5: str | None = None
    size: int | None = None
    """Bytes, as published."""
    unpack: bool = False
    """A zip or tar archive, removed after it was unpacked."""
    unpacked: int | None = None
    """Bytes of an archive's content, to check for free space; None: its own size."""


@dataclass(frozen=True, kw_only=True)
class Listed(CheckedFields):
    """One or several files in the list of a repository."""

    name: str
    """As listed; `*` stands for any letters."""
    path: str = ""
    """As `Download.path`; "": its name."""
    unpack: bool = False
    unpacked: int | None = None


@dataclass(frozen=True, kw_only=True)
class Listing(CheckedFields):
    """A deposit whose repository lists its files with address, size and checksum; `LISTING` of a
    plug-in.
    """

    url: str
    """Address of the list: https://zenodo.org/api/records/ID,
    https://api.figshare.com/v2/articles/ID/files or
    https://api.figshare.com/v2/collections/ID/articles, with all articles of the collection.
    """
    files: tuple[Listed, ...]
    """The needed files; each must be listed."""


@dataclass(frozen=True, kw_only=True)
class Manifest(CheckedFields):
    """A release of PhysioNet, `MANIFEST` of a plug-in: its list SHA256SUMS.txt names the files, or,
    without one, the lists RECORDS of its folders.
    """

    base: str
    """Address of the release, with a slash at its end."""
    below: str = ""
    """The dataset's folder in the release, "training/georgia/"; "" for the whole release."""
    folders: tuple[str, ...] = ("",)
    """Folders of records in it: "records500/"."""
    suffixes: tuple[str, ...]
    """Suffixes of the files of a record."""
    tables: tuple[str, ...] = ()
    """Other files to download."""
    size: int
    """Approximate bytes in all."""


@dataclass(frozen=True, kw_only=True)
class MetricCard(CheckedFields):
    """Facts of one metric; the room's file name is its identity."""

    title: str
    """As printed in tables: "AUROC"."""
    direction: Literal["higher", "lower"]
    """Which values are better."""
    range: tuple[float, float]
    """Lowest and highest possible value."""
    chance: float | None
    """Value of guessing on any data; None where it depends on them."""
    summary: str
    """One line: what it is."""
    source: str
    """Citation with DOI or arXiv number."""

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


def facts(card: object) -> dict[str, Any]:
    """A card as plain JSON types, for keys, provenance and lists."""
    plain: dict[str, Any] = json.loads(json.dumps(asdict(card)))  # type: ignore[call-overload]
    return plain
