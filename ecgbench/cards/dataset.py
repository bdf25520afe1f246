"""Frozen cards of data sets: their tasks, their limb leads and their published files."""

from dataclasses import dataclass
from typing import Literal

from ecgbench.cards.checked import CheckedFields
from ecgbench.ecg.repair import Repair
from ecgbench.errors import BadSetting


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
    doi: str = ""
    licence: str
    url: str = ""
    """Where to get it; "" for the embedded demo."""
    folder: str
    """Name of its folder under --data; "" for data that are generated."""
    synthetic: bool = False
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
    index_files: tuple[str, ...] = ()
    """Required files, relative to the folder; `A|B`: either of them."""
    tasks: tuple[Task, ...] = ()
    splits: str
    """A description of the splits."""
    any_leads: bool = False
    """Whether a record may have any of `leads`: one, two, all."""
    unit: Literal["mV", "standardised"] = "mV"
    """Of the signals; standardised where they cannot be converted to mV."""
    verified: Literal[
        "generated", "genuine release", "genuine sample", "specification only", "these files"
    ] = "specification only"
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
    """A release of PhysioNet, `MANIFEST` of a plug-in: its list SHA256SUMS.txt names the files."""

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
