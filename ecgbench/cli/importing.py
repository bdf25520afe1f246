"""`ecgbench data import`, and the import with which `ecgbench run --records` begins."""

import re
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ecgbench.cli.options import argument, flag, option, words
from ecgbench.core.cells import EITHER, OFFICIAL, RANDOM, RELEASED
from ecgbench.core.registry import plain
from ecgbench.core.text import visible
from ecgbench.ecg.readers.notation import ReadOptions
from ecgbench.errors import BadSetting

if TYPE_CHECKING:
    from ecgbench.data.imported.importing import Order

_own = partial(option, rich_help_panel="Own recordings")

RECORDS = _own("Folder of recordings, added to the tasks.", "--records", metavar="FOLDER")
LABELS = _own("Table with a row per record: record, labels, perhaps patient.", "--labels")
FS = _own("Sampling rate where a file does not state it, Hz: 500.", "--fs")
UNIT = _own("Unit where a file does not state it: V, mV, uV, nV, or of a step: 4.88uV.", "--unit")
SIGNALS = _own(
    "Leads of the signals: in file order (I,II,V1), or by name (ch1=I,ch2=II).", "--signals"
)


@dataclass(frozen=True, kw_only=True)
class RecordFiles:
    """The options of recordings: --records, --labels, --fs, --unit and --signals."""

    folder: Path | None
    labels: Path | None
    fs: float | None
    unit: str | None
    signals: str | None

    def order(self, name: str, to: Path, **how: Any) -> "Order":
        """The request to import them. how: its further fields."""
        from ecgbench.data.imported.importing import Order

        assert self.folder is not None
        if self.labels is None:
            raise BadSetting(f"--records {self.folder} has no labels: add --labels labels.csv")
        options = ReadOptions(fs=self.fs, unit=self.unit, signals=words(self.signals) or ())
        return Order(
            folder=self.folder, labels=self.labels, name=name, to=to, options=options, **how
        )


def import_(
    folder: Path = argument(
        "Folder of recordings: WFDB, CSV, EDF, DICOM, SCP-ECG, XML, .npz ...", metavar="FOLDER"
    ),
    labels: Path = option("Table with a row per record: record, labels, patient.", default=...),
    name: str = option("Name of the dataset and of its task.  (default: the folder's)"),
    to: Path = option("Folder for NAME.py and records.csv.  (default: ./NAME)"),
    fs: float = FS,
    unit: str = UNIT,
    signals: str = SIGNALS,
    label_columns: str = option("Columns of labels.  (default: those of 0 and 1, or yes and no)"),
    positive: str = option("The word that means 1 in a column of words.", metavar="WORD"),
    partial: bool = flag("Skip rows of the table that have no file.", "--partial"),
    match_zeros: bool = flag(
        "Let record 1 of the table match the file 00001.csv.", "--match-zeros"
    ),
    overwrite: bool = flag("Replace card and table even if they were edited.", "--overwrite"),
) -> None:
    """Make a dataset of a folder of recordings and a table of labels.

    Every file is read once. Recordings that cannot be trusted are left out, with the reason. The
    result is a card file, which you may edit, and records.csv, with a patient-wise split where the
    table has none. Run the command again after correcting the table or the files: it prints what
    changed, and patients stay in their splits.

      ecgbench data import recordings --labels labels.csv --name mine

      ecgbench run --tasks ./mine/mine.py --models laef,merl --leads I

    Signals are identified by the names of leads; others are ignored.
    """
    if name and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name):
        raise BadSetting(f"--name {name}: letters, digits, _ and -; a letter or digit comes first")
    if name and _taken(name):
        raise BadSetting(f"--name {name} is taken already; give another, for example own_{name}")
    chosen = name or _name_of(folder)
    records = RecordFiles(folder=folder, labels=labels, fs=fs, unit=unit, signals=signals)
    how = {"positive": positive, "partial": partial, "match_zeros": match_zeros}
    columns = words(label_columns) or ()
    to = to or Path(chosen)
    _bring(records.order(chosen, to, columns=columns, overwrite=overwrite, **how))


def within(
    records: RecordFiles,
    values: dict[str, Any],
    folders: tuple[Path | None, Path | None],
    studied: bool,
) -> tuple[Path | None, Path | None]:
    """The run folder and the folder of prepared copies of a run, after its --records (if any) were
    imported into the run folder, now or by an earlier run on the same files.

    values: key -> value that was typed; receives tasks, models and folds. studied: whether a plan
    says which models.
    """
    from ecgbench.data.imported.corrections import edited
    from ecgbench.data.imported.importing import same
    from ecgbench.data.imported.records import FILE
    from ecgbench.study.plan_file import RecordSettings

    typed = {k.partition(".")[2]: values.pop(k) for k in [*values] if k.startswith("records.")}
    tasks: tuple[str, ...] = values.get("tasks") or ()
    out, prepared = folders
    if records.folder is None:
        given = {f"--{name}": value for name, value in asdict(records).items()}
        given |= {f"--set records.{key}": True for key in typed}
        if stray := [name for name, value in given.items() if value]:
            raise BadSetting(f"{stray[0]} belongs to --records FOLDER; add that")
        card = Path(tasks[0]) if len(tasks) == 1 else Path()
        if card.suffix == ".py" and card.with_name(FILE).is_file():
            _cross_validate(values, card)
        return out, prepared
    how = asdict(RecordSettings(**typed))
    name = _name_of(records.folder)
    out = out or Path("runs") / name
    order = records.order(name, out / "imported", columns=how.pop("label_columns"), **how)
    choice = "" if studied or "models" in values else _choose_models(values)
    if same(order):
        typer.echo(f"{order.card}: imported before from the same files and labels", err=True)
        for file in edited(order.to):
            typer.echo(f"{file} was edited after the import; it is used as it is", err=True)
    else:
        _bring(order, err=True)
    if choice:
        typer.echo(choice, err=True)
    if not tasks:
        _cross_validate(values, order.card)
    values["tasks"] = (*tasks, str(order.card))
    # of these recordings alone: everything lies in the run's folder
    return out, prepared or (None if tasks else order.to / "prepared")


def _cross_validate(values: dict[str, Any], card: Path) -> None:
    """Cross-validation of few recordings, where no folds are typed."""
    from ecgbench.core.division import Division
    from ecgbench.data.imported.importing import usual_folds

    if "folds" not in values and (folds := usual_folds(card)):
        what = f"few patients: --folds {folds}, so that each record is tested once"
        typer.echo(f"{what} (--folds {OFFICIAL}: the split that records.csv gives)", err=True)
        values["folds"] = Division.parse(str(folds))


def _choose_models(values: dict[str, Any]) -> str:
    """Choose the models whose weights are here, where none is named; a line that says which."""
    from ecgbench import models
    from ecgbench.study.preflight import locate

    text = values.get("weights") or RELEASED
    if "=" in text or text in (RANDOM, EITHER):
        return ""
    cards = {name: models.get(name).CARD for name in models.names() if models.ROOM.built_in(name)}
    here = [m for m in cards if cards[m].parameters and not locate(m, text)]
    if not here:
        raise BadSetting(
            f"the {text} weights of no model are here; get them: ecgbench models fetch NAME "
            f"(ecgbench list models shows them), or give --weights random"
        )
    values["models"] = tuple(here)
    return f"models whose {text} weights are here: {', '.join(here)}"


def _bring(order: "Order", err: bool = False) -> None:
    """Import, and say what was found: on standard error where the command goes on."""
    from ecgbench.data.imported import summary
    from ecgbench.data.imported.importing import bring
    from ecgbench.study.progress import counting, display

    with counting(f"read {order.name}", display()) as shown:
        made = bring(order, shown)
    for text in summary.lines(made):
        if not (err and text.startswith(("next: ", "then: "))):
            typer.echo(visible(text), err=err)


def _name_of(folder: Path) -> str:
    """A name from that of a folder; never one that a dataset or task here has."""
    name = re.sub(r"[^a-z0-9]+", "_", folder.resolve().name.lower()).strip("_") or "own"
    return f"own_{name}" if _taken(name) else name


def _taken(name: str) -> bool:
    """Whether a dataset or task that comes with ecgbench, or is installed, has a name."""
    from ecgbench import datasets

    records = {path.stem for path in datasets.ROOM.paths()}
    tasks = {task: dataset for task, (dataset, *_) in datasets.tasks().items()}
    names = {n: n for n in datasets.names()} | tasks
    return plain(name) in {plain(n) for n, dataset in names.items() if dataset not in records}
