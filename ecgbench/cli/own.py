"""Recordings of one's own on the command line: `ecgbench data import`, and the import with which
`ecgbench run --records` begins.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ecgbench.cli.options import argument, flag, option, words
from ecgbench.ecg.readers.said import Said
from ecgbench.errors import BadSetting
from ecgbench.room import plain
from ecgbench.text import visible

if TYPE_CHECKING:
    from ecgbench.imported.earlier import Order

PANEL = "Own recordings"
_own = partial(option, rich_help_panel=PANEL)

RECORDS = _own(
    "Folder of recordings to import into OUT/imported: a task like those of --tasks, which may "
    "name others besides. Needs --labels; the report is written too.",
    "--records",
    metavar="FOLDER",
)
LABELS = _own(
    "With --records: table with a row per record: record, labels, perhaps patient.",
    "--labels",
    metavar="FILE",
)
FS = _own("Rate of the files that do not say it, Hz: 500.", "--fs")
UNIT = _own(
    "Unit of the files that do not say it: V, mV, uV, nV, or what a step of them is: 4.88uV.",
    "--unit",
)
SIGNALS = _own(
    "Signals of the files that do not name them, in their order (I,II,V1), or what names of "
    "their own mean (ch1=I,ch2=II).",
    "--signals",
)


def import_(
    folder: Path = argument(
        "Folder of the recordings: WFDB (.hea), CSV, EDF, BDF, .npy, .npz.", metavar="FOLDER"
    ),
    labels: Path = option(
        "Table with a row per record: record, labels, perhaps patient.", default=...
    ),
    name: str = option("Name of the dataset and of its task.  (default: the folder's)"),
    to: Path = option("Folder that receives NAME.py and records.csv.  (default: ./NAME)"),
    fs: float = FS,
    unit: str = UNIT,
    signals: str = SIGNALS,
    label_columns: str = option(
        "Columns of the table that are labels, comma-separated.  (default: those of 0 and 1, and "
        "the words of a column label)"
    ),
    partial: bool = flag("Leave out records of the table that have no file.", "--partial"),
    overwrite: bool = flag(
        "Write card and table anew, also where they were edited; patients stay in their splits.",
        "--overwrite",
    ),
) -> None:
    """Make a dataset of a folder of recordings and a table of labels.

    Every file is read once. What cannot be trusted is left out with its reason. Written are a card
    file, which you may edit, and records.csv, with a patient-wise split where the table gives none.
    Run it again after adding recordings: card and splits stay, new records are added.

      ecgbench data import recordings --labels labels.csv --name mine

      ecgbench run --tasks ./mine/mine.py --models laef,merl --leads I

    Signals are taken by the names of their leads; others are ignored. Nothing is prepared yet.
    """
    from ecgbench.imported.earlier import Order

    chosen = _name(name) if name else _from(folder)
    order = Order(
        folder=folder,
        labels=labels,
        name=chosen,
        to=to or Path(chosen),
        said=said(fs, unit, signals),
        columns=words(label_columns) or (),
        partial=partial,
        overwrite=overwrite,
    )
    _bring(order)


def within(
    records: Path | None,
    labels: Path | None,
    files: Said,
    tasks: tuple[str, ...] | None,
    places: tuple[Path | None, Path | None],
) -> tuple[tuple[str, ...] | None, Path | None, Path | None]:
    """Tasks, run folder and folder of prepared copies of a run: as they are given, or with the
    `records` that are imported into the run folder, now or by an earlier run on the same files.

    places: --out and --prepared.
    """
    from ecgbench.imported.earlier import Order
    from ecgbench.imported.importing import same

    out, prepared = places
    if records is None:
        if labels is not None or files != Said():
            raise BadSetting(
                "--labels, --fs, --unit and --signals are of --records FOLDER; add that"
            )
        return tasks, out, prepared
    if labels is None:
        raise BadSetting(
            f"--records {records}: a table of labels belongs to it; add --labels labels.csv "
            f"(a column record, and one of 0 and 1 per label)"
        )
    name = _from(records)
    out = out or Path("runs") / name
    order = Order(folder=records, labels=labels, name=name, to=out / "imported", said=files)
    if same(order):
        typer.echo(f"{order.card}: imported before from the same files and labels", err=True)
    else:
        _bring(order, err=True)
    # of these recordings alone: everything lies in the run's folder
    prepared = prepared or (None if tasks else order.to / "prepared")
    return (*(tasks or ()), str(order.card)), out, prepared


@contextmanager
def reported(out: Path, wanted: bool) -> Iterator[None]:
    """Write the report of a run after it, also where cells have failed."""
    from ecgbench import reports
    from ecgbench.cli.report import write_and_tell

    failed = None
    try:
        yield
    except typer.Exit as end:
        failed = end
    if wanted:
        write_and_tell(reports.read(out), out, out / "report")
    if failed is not None:
        raise failed


def said(fs: float | None, unit: str | None, signals: str | None) -> Said:
    """What the options say of files that do not say it themselves."""
    return Said(fs=fs, unit=unit, signals=words(signals) or ())


def _bring(order: "Order", err: bool = False) -> None:
    """Import, and say what was found: on standard error where the command goes on."""
    from ecgbench.benchmark.progress import counting, display
    from ecgbench.imported import told
    from ecgbench.imported.importing import bring

    _demand_free(order.name)
    with counting(f"read {order.name}", display()) as shown:
        made = bring(order, shown)
    for text in told.lines(made):
        if not (err and text.startswith(("next: ", "then: "))):
            typer.echo(visible(text), err=err)


def _name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", text):
        raise BadSetting(
            f"--name {text}: a name has letters, digits, _ and -, and begins with a letter or a "
            f"digit"
        )
    return text


def _from(folder: Path) -> str:
    """A name from that of a folder; never one that a dataset or task here has."""
    plain_name = re.sub(r"[^a-z0-9]+", "_", folder.resolve().name.lower()).strip("_")
    name = plain_name or "own"
    return f"own_{name}" if _taken(name) else name


def _demand_free(name: str) -> None:
    if what := _taken(name):
        raise BadSetting(
            f"--name {name}: {what} is called so already; give another, for example --name "
            f"own_{name}"
        )


def _taken(name: str) -> str:
    """What has a name already: "the dataset ptbxl", else ""."""
    from ecgbench import datasets
    from ecgbench.benchmark.plan import all_tasks

    own = {str(path.stem) for path in datasets.ROOM.paths()}
    names = {"dataset": [n for n in datasets.names() if n not in own]}
    names["task"] = [task for task, owner in all_tasks().owners.items() if owner not in own]
    for kind, known in names.items():
        for other in known:
            if plain(other) == plain(name):
                return f"the {kind} {other}"
    return ""
