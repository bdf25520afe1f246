"""Recordings of one's own on the command line: `ecgbench data import`, and the import with which
`ecgbench run --records` begins.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ecgbench.cli import asked
from ecgbench.cli.options import argument, flag, option, words
from ecgbench.core.cells import EITHER, OFFICIAL, RANDOM, RELEASED, Folders, Request
from ecgbench.core.registry import plain
from ecgbench.core.text import visible
from ecgbench.ecg.readers.said import Said
from ecgbench.errors import BadSetting

if TYPE_CHECKING:
    from ecgbench.data.own.order import Order

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
LABEL_COLUMNS = _own(
    "Columns of the table that are labels, comma-separated.  (default: those of 0 and 1 or of yes "
    "and no, and the words of a column label)",
    "--label-columns",
)
POSITIVE = _own(
    "The word that is 1 in a column of words; all other words there are 0.",
    "--positive",
    metavar="WORD",
)
PARTIAL = flag(
    "Leave out records of the table that have no file.", "--partial", rich_help_panel=PANEL
)
MATCH_ZEROS = flag(
    "A record 1 of the table is the file 00001.csv, where no other file can be meant.",
    "--match-zeros",
    rich_help_panel=PANEL,
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
    context: typer.Context,
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
    label_columns: str = LABEL_COLUMNS,
    positive: str = POSITIVE,
    partial: bool = PARTIAL,
    match_zeros: bool = MATCH_ZEROS,
    overwrite: bool = flag(
        "Write card and table anew, also where they were edited; patients stay in their splits.",
        "--overwrite",
    ),
) -> None:
    """Make a dataset of a folder of recordings and a table of labels.

    Every file is read once. What cannot be trusted is left out with its reason. Written are a card
    file, which you may edit, and records.csv, with a patient-wise split where the table gives none.
    Run it again after you corrected the table or the files: it says what changed, and patients
    stay in their splits.

      ecgbench data import recordings --labels labels.csv --name mine

      ecgbench run --tasks ./mine/mine.py --models laef,merl --leads I

    Signals are taken by the names of their leads; others are ignored. Nothing is prepared yet.
    """
    chosen = _name(name) if name else _from(folder)
    _bring(_order(context.params, folder, chosen, to or Path(chosen), overwrite=overwrite))


def _order(given: Mapping[str, Any], folder: Path, name: str, to: Path, **more: bool) -> "Order":
    """given: option -> value, as both commands take them."""
    from ecgbench.data.own.order import Order

    signals = words(given["signals"]) or ()
    return Order(
        folder=folder,
        labels=given["labels"],
        name=name,
        to=to,
        said=Said(fs=given["fs"], unit=given["unit"], signals=signals),
        columns=words(given["label_columns"]) or (),
        positive=given["positive"],
        partial=given["partial"],
        match_zeros=given["match_zeros"],
        **more,
    )


OF_RECORDS = (
    *("labels", "label_columns", "positive", "partial", "match_zeros"),
    *("fs", "unit", "signals"),
)
"""Parameters of `ecgbench run` that belong to --records."""


def within(
    given: dict[str, Any],
) -> tuple[tuple[str, ...] | None, Path | None, Path | None]:
    """Tasks, run folder and folder of prepared copies of a run: as they are given, or with the
    `records` that are imported into the run folder, now or by an earlier run on the same files.

    given: option -> value of `ecgbench run`; receives models and folds where none are typed.
    """
    from ecgbench.data.own.importing import same
    from ecgbench.data.own.records import FILE

    tasks, out, prepared = words(given["tasks"]), given["out"], given["prepared"]
    typed, given["folds"] = given["folds"], None if given["folds"] == OFFICIAL else given["folds"]
    records, labels = given["records"], given["labels"]
    if records is None:
        if stray := [name for name in OF_RECORDS if given[name]]:
            raise BadSetting(f"--{stray[0].replace('_', '-')} is of --records FOLDER; add that")
        card = Path(tasks[0]) if tasks and len(tasks) == 1 else Path()
        if typed is None and card.suffix == ".py" and card.with_name(FILE).is_file():
            _divide(given, card)
        return tasks, out, prepared
    if labels is None:
        raise BadSetting(
            f"--records {records}: a table of labels belongs to it; add --labels labels.csv "
            f"(a column record, and one of 0 and 1 per label)"
        )
    asked.request(given, ())  # a mistyped option stops before anything is read
    chosen = _find_weights(given)
    name = _from(records)
    out = out or Path("runs") / name
    order = _order(given, records, name, out / "imported", of_run=True)
    if same(order):
        typer.echo(f"{order.card}: imported before from the same files and labels", err=True)
    else:
        _bring(order, err=True)
    if chosen:
        typer.echo(chosen, err=True)
    if typed is None and not tasks:
        _divide(given, order.card)
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


def _divide(given: dict[str, Any], card: Path) -> None:
    """Cross-validation of few recordings, where no folds are typed."""
    from ecgbench.data.own.importing import usual_folds

    if folds := usual_folds(card):
        typer.echo(
            f"few patients: --folds {folds}, so that each record is tested once (--folds "
            f"{OFFICIAL}: the split that records.csv gives)",
            err=True,
        )
        given["folds"] = str(folds)


def _find_weights(given: dict[str, Any]) -> str:
    """Look for the weights of the models before any recording is read: BadSetting or Lacking where
    those of a model that is named are not here; where none is named, the models whose weights are
    are taken, and the line says which.
    """
    from ecgbench import models
    from ecgbench.study import lacking
    from ecgbench.study.carry_out import locate
    from ecgbench.study.plan import ALL, weights_of

    text, named = given["weights"] or RELEASED, words(given["models"])
    if given["suite"] or (named is None and "=" in text):
        return ""
    if named:
        whole = plain(ALL) in map(plain, named)
        chosen = weights_of(text, models.names() if whole else [*map(models.resolve, named)])
        own = {m: w for m, w in chosen.items() if models.ROOM.built_in(m)}
        pairs = ",".join(f"{m}={w}" for m, w in own.items()) or text
        request = Request(models=tuple(own), tasks=(), leads=(), weights=pairs)
        lacking.demand(request, Folders(data=None, prepared=None, out=Path()), locate, data=False)
    elif text not in (RANDOM, EITHER):
        cards = {m: models.get(m).CARD for m in models.names() if models.ROOM.built_in(m)}
        here = [m for m in cards if cards[m].parameters and not locate(m, text)["lacks"]]
        if not here:
            raise BadSetting(
                f"the {text} weights of no model are here; get some: ecgbench models fetch NAME "
                f"(ecgbench models lists them), or give --weights random"
            )
        given["models"] = ",".join(here)
        return f"models whose {text} weights are here: {', '.join(here)}"
    return ""


def _bring(order: "Order", err: bool = False) -> None:
    """Import, and say what was found: on standard error where the command goes on."""
    from ecgbench.data.own import summary
    from ecgbench.data.own.importing import bring
    from ecgbench.study.progress import counting, display

    _demand_free(order.name)
    with counting(f"read {order.name}", display()) as shown:
        made = bring(order, shown)
    for text in summary.lines(made):
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
    from ecgbench.study.plan import all_tasks

    own = {str(path.stem) for path in datasets.ROOM.paths()}
    names = {"dataset": [n for n in datasets.names() if n not in own]}
    names["task"] = [task for task, owner in all_tasks().owners.items() if owner not in own]
    for kind, known in names.items():
        for other in known:
            if plain(other) == plain(name):
                return f"the {kind} {other}"
    return ""
