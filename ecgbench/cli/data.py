"""`ecgbench data import | fetch | prepare | check | facts | duplicates | ls | prune`: from files
as they are to the prepared store.
"""

import inspect
from pathlib import Path

import typer

from ecgbench.cli import own
from ecgbench.cli.options import (
    DATA,
    DATA_PANEL,
    JSON,
    PREPARED,
    add_commands,
    argument,
    flag,
    option,
)
from ecgbench.core.text import counted, line, printed_json, quoted, size
from ecgbench.errors import BadSetting, UnknownName

FIX = flag("The copy that `ecgbench data prepare --fix` made.", "--fix")
DATASET = argument("Dataset: ptbxl, demo, or the path of your own: ./mine.py")


def add(app: typer.Typer) -> None:
    """Add the group to the program."""
    group = typer.Typer(
        help="Data sets and recordings of your own: import, fetch, prepare, ...",
        no_args_is_help=True,
    )
    add_commands(group, own.import_, fetch, prepare, check, facts, duplicates, ls, prune)
    app.add_typer(group, name="data", rich_help_panel=DATA_PANEL)


def fetch(
    dataset: str = argument("Dataset: ptbxl, georgia, or the path of your own: ./mine.py"),
    data: Path = option(
        "Folder that receives the dataset, in a folder of its own: DIR/ptbxl/...",
        metavar="DIR",
        envvar="ECGBENCH_DATA",
    ),
    dry_run: bool = flag(
        "Print how many files and bytes are lacking and whether they have room; fetch nothing.",
        "--dry-run",
    ),
) -> None:
    """Download a dataset that is free to all, from where it is published.

    Several files are fetched at a time and each is compared with the checksum that is published,
    where there is one. Only what is lacking is fetched: after an error, or Ctrl-C, the same command
    goes on in the middle of the file it was at. A file that is not the published one (a web page, a
    changed or damaged file) is kept as NAME.refused and never read. Archives are unpacked and then
    removed.

      ecgbench data fetch georgia --data ~/ecg --dry-run

      ecgbench data fetch georgia --data ~/ecg

    Data that you must sign or ask for are not tried; the command says what to do, where to put
    the files, and in which folders they are read. Look at the licence before you use the data: it
    is printed first.

    Exit 0: all files are here; 2: they are not, and why.
    """
    from ecgbench import datasets
    from ecgbench.data.fetch import datasets as transport
    from ecgbench.data.fetch.resumed import DownloadError
    from ecgbench.data.source import command, data_folder
    from ecgbench.study.progress import display

    name = _name(dataset)
    module = datasets.get(name)
    card, home = module.CARD, data_folder(data)
    files, manifest = getattr(module, "FILES", ()), getattr(module, "MANIFEST", None)
    listing = getattr(module, "LISTING", None)
    if not card.folder:
        raise BadSetting(f"{name} is made by code; there is nothing to fetch")
    folder = (home or Path("DIR")) / card.folder
    if card.access != "open" or not (files or manifest or listing):
        why = "" if card.access == "open" else f"{card.title} is not free to all: {card.access}; "
        # the plug-in's docstring lays its files out in lines set in
        lines = inspect.cleandoc(module.__doc__ or "").splitlines()
        for text in [text.strip() for text in lines if text.startswith("    ")]:
            typer.echo(f"  {text}")
        raise BadSetting(
            f"{name}: {why}get its files from {card.url}, put them into {folder}, then: "
            f"{command(name, home)}"
        )
    if home is None:
        raise BadSetting(f"{name}: no data folder is set; add --data DIR or set ECGBENCH_DATA=DIR")
    typer.echo(f"{card.title} {card.version}: licence {card.licence}, {card.url}")
    try:
        plan = transport.planned(folder, files, manifest, listing)
        about = "" if plan.exact or plan.size is None else "about "
        typer.echo(
            f"{name}: {len(plan.missing):,} of {len(plan.every):,} files are to be fetched, "
            f"{about}{size(plan.size)}, into {plan.root}"
        )
        plan.demand_room(name)
        if dry_run:
            return
        if plan.missing:
            with display().stage(f"fetch {name}", *plan.unit) as advance:
                transport.fetch(plan, advance)
    except DownloadError as error:
        raise DownloadError(
            f"{error}; or get the files by hand from {card.url} and put them into {folder}"
        ) from None
    typer.echo(f"{name}: all files are here; now: {command(name, home)}")


def prepare(
    dataset: str = DATASET,
    data: Path = DATA,
    prepared: Path = PREPARED,
    fix: bool = flag(
        "Put right what is wrong beyond doubt, in a copy of its own; without this nothing is "
        "changed.",
        "--fix",
    ),
    workers: int = option(
        "Processes that read; 1: this one.  (default: one per core, at most 8)", min=1
    ),
    dry_run: bool = flag(
        "Print what it will take on disk and what is free; prepare nothing.", "--dry-run"
    ),
) -> None:
    """Read and check every recording once and store it for fast reading. `ecgbench run` does this
    by itself when it must.

    Each recording is also checked against what it says of itself: whether its limb leads follow
    from one another, whether leads are copies, whether the unit and the rate can be right, whether
    the electrodes of the arms were likely exchanged. What is found is told and stays as it is.

    With --fix, two limb leads that are exchanged (or three that are rotated, or one that is
    inverted) are put right where the identities of the limb leads single that out. That makes
    another copy beside the other one: `ecgbench run --fix` uses it, `ecgbench run` the one without,
    and their results have different keys. A unit or a rate that cannot be right is told, not
    changed: one recording does not tell which factor is.

    What the card of a dataset declares (MIMIC-IV-ECG: short gaps are filled in, samples are limited
    to 3 mV) is part of its reader, with --fix or without.

    After an error, Ctrl-C or a kill the same command goes on where it stopped. What is prepared
    already is compared with the hashes that were written, and the files as published with their
    sizes and times.
    """
    from ecgbench.data import disk, facts, prepare
    from ecgbench.data.source import where
    from ecgbench.study.progress import counting, display

    name = _name(dataset)
    if dry_run:
        records, count = disk.foreseen(name, data, prepared)
        home = where(prepared, data)
        free = disk.free_bytes(home)
        typer.echo(
            f"{name}: {records:,} records to store, about {size(count)}, in {home}, where "
            f"{size(free)} are free"
        )
        if count > free:
            raise BadSetting(
                f"{name} needs about {size(count)}, and {home} has {size(free)} free; free some "
                f"with ecgbench data prune, or choose another place with --prepared DIR"
            )
        return
    with counting(f"prepare {name}", display()) as shown:
        copy = prepare.prepare_and_check(name, data, prepared, shown, fix, workers)
    typer.echo(
        f"{name}: {len(copy.index)} records of {copy.card.records:,} in the release, "
        f"{len(copy.excluded)} left out by rule, {len(copy.quarantined)} quarantined: {copy.folder}"
    )
    for reason, count in copy.excluded["reason"].value_counts().sort_index().items():
        typer.echo(f"  left out: {count:,} {reason}")
    for record, reason in copy.quarantined[["record", "reason"]].itertuples(index=False):
        typer.echo(f"  quarantined {record}: {reason}")
    if told := prepare.crossing(copy.index):
        typer.echo(f"  {told} (all of them: ecgbench data facts {quoted(dataset)})")
    for text in facts.finding_lines(copy):
        typer.echo(f"  {text}")


def check(
    dataset: str = DATASET, data: Path = DATA, prepared: Path = PREPARED, fix: bool = FIX
) -> None:
    """Read the published files again and compare them with the prepared copy, sample for sample,
    and its tables and views with the hashes that were written with them.

    Nothing is changed: a run names and makes again what it finds to be wrong. Exit 1 on a
    difference; 2 where the copy itself is damaged, with the command that makes another one.
    """
    from ecgbench.data import disk
    from ecgbench.data.prepare import held
    from ecgbench.data.views import views
    from ecgbench.study.progress import counting, display

    name = _name(dataset)
    copy = held(name, data, prepared, fix, thorough=True)
    with counting(f"check {name}", display()) as shown:
        problems = disk.verify(copy, shown)
    for record, reason in problems:
        typer.echo(f"  {line(f'{record}: {reason}')}")
    part = "" if copy.whole else f"; {len(copy.published):,} records are published"
    seen = f" and {counted(count, 'view')} of them" if (count := len(views(copy))) else ""
    typer.echo(
        f"{name}: {len(problems)} differences in {len(copy.index):,} prepared records{seen}{part}"
    )
    if problems:
        raise typer.Exit(1)


def facts(
    dataset: str = DATASET,
    data: Path = DATA,
    prepared: Path = PREPARED,
    fix: bool = FIX,
    as_json: bool = JSON,
) -> None:
    """What a prepared copy holds: records and patients by split, labels without both values, what
    was left out and why, flat leads, identical signals, how well the limb leads agree, what does
    not fit in which records and what was repaired.

    With --json also the number of positives of every label in every split. For PTB also how many
    labels each rule of counting would give, for Chapman which words of its workbook are no labels.
    """
    from ecgbench import datasets
    from ecgbench.cli.lists import show
    from ecgbench.data import facts as told
    from ecgbench.data.prepare import held
    from ecgbench.data.source import root_of

    name = _name(dataset)
    module, copy = datasets.get(name), held(name, data, prepared, fix)
    found = told.facts(copy)
    if counts := getattr(module, "counts", None):
        found["counts"] = counts(root_of(name, module.CARD, data)).to_dict("records")
    if as_json:
        typer.echo(printed_json(found))
        return
    for text in told.lines(found):
        typer.echo(" " * (len(text) - len(text.lstrip())) + line(text))
    if rows := found.get("counts"):
        show(rows, False, [*rows[0]])


def ls(data: Path = DATA, prepared: Path = PREPARED, as_json: bool = JSON) -> None:
    """List prepared copies: records, and the disk that recordings and views of them take.

    A view is what a model's filter and rate make of the recordings; it is made anew when it is
    missed. A copy that is not current was made by another version, or is damaged and was set aside
    (NAME.damaged), and is not read.
    """
    from ecgbench.cli.lists import show
    from ecgbench.data import disk
    from ecgbench.data.source import where

    home = where(prepared, data)
    found = disk.copies(home)
    if not found and not as_json:
        typer.echo(f"no prepared copy in {home}")
        return
    rows = [
        {
            "dataset": c.dataset,
            "records": c.records,
            "recordings": c.signals if as_json else size(c.signals),
            "views": c.views if as_json else size(c.views),
            "fix": c.fix,
            "current": c.current,
            "folder": str(c.folder),
        }
        for c in found
    ]
    show(rows, as_json, ("dataset", "records", "recordings", "views", "fix", "current", "folder"))


def prune(
    dataset: str = argument("Dataset; all of them where none is named.", default=""),
    data: Path = DATA,
    prepared: Path = PREPARED,
    yes: bool = flag("Remove it; without this, only list what would be removed.", "--yes", "-y"),
) -> None:
    """Free disk: views, prepared copies of other versions, parts of copies that are damaged or were
    read anew, and corpora that a pre-training packed into shards.
    The files as published stay, and no result is lost. A pre-training that reads its shards ends
    with an error; the same command packs them again and goes on. Nothing is removed while a
    pre-training packs there.
    """
    from ecgbench.data import disk
    from ecgbench.data.source import where

    home, names = where(prepared, data), (_name(dataset),) if dataset else ()
    if yes:
        typer.echo(f"{size(disk.prune(home, names))} freed in {home}")
        return
    spare = list(disk.spare(home, names))
    for folder, freed in spare:
        typer.echo(f"{size(freed):>10}  {folder}")
    if not spare:
        typer.echo(f"nothing to free in {home}")
        return
    which = f" {quoted(dataset)}" if dataset else ""
    typer.echo(
        f"{size(sum(freed for _, freed in spare))} would be freed; to remove them: ecgbench data "
        f"prune{which} --prepared {quoted(home)} --yes"
    )


def _name(dataset: str) -> str:
    from ecgbench import datasets
    from ecgbench.core.registry import plain

    for task, (owner, *_) in datasets.tasks().items():
        if plain(task) == plain(dataset) and plain(owner) != plain(dataset):
            raise UnknownName("dataset", dataset, datasets.names(), f"{task} is a task of {owner}")
    return datasets.resolve(dataset)


PAIRS = 40
"""Rows of the table on a terminal; --csv and --json have all."""


def duplicates(
    datasets: list[str] = argument("Prepared datasets: ptbxl, or ptbxl georgia ningbo."),
    within: bool = flag("Of several datasets, also pairs within each; of one always."),
    to: Path = option("Write all pairs to this file.", "--csv", metavar="FILE"),
    data: Path = DATA,
    prepared: Path = PREPARED,
    as_json: bool = JSON,
) -> None:
    """Find recordings that are there twice: within a dataset, or in two datasets under other names.

    Found again although cut elsewhere by some seconds, at another rate, in another unit, rounded or
    high-pass filtered. Pairs between training and test come first: a model has seen what it is
    tested on.

    On 2,000 recordings of PTB-XL: false matches: 0 of 1,999,000 pairs, 76 of them of one patient;
    copies altered in one of these ways were all found (docs/duplicates.md).

      ecgbench data duplicates brugada --data ~/ecg

      ecgbench data duplicates chapman ningbo --data ~/ecg --csv pairs.csv

    Exit 0, whether there are any or not.
    """
    from ecgbench import datasets as room
    from ecgbench.core.files import put
    from ecgbench.data import duplicates as search
    from ecgbench.data.prepare import held
    from ecgbench.study.progress import counting, display

    names = list(dict.fromkeys(map(room.resolve, datasets)))
    copies = [held(name, data, prepared) for name in names]
    shown = display()
    with counting("fingerprint", shown) as progress:
        table = search.Table.of(copies, progress)
    found = search.candidates(table, within or len(copies) == 1)
    with counting("compare candidates", shown) as progress:
        pairs = search.confirmed(table, found, progress)
    rows = search.table_of(pairs)
    if to is not None:
        if to.is_dir():
            raise BadSetting(f"--csv {to} is a folder; name a file: --csv {to / 'pairs.csv'}")
        put(to, rows.drop(columns="leak").to_csv(index=False))
    if as_json:
        typer.echo(printed_json(rows.to_dict("records")))
        return
    if len(rows):
        typer.echo(rows.drop(columns="leak").head(PAIRS).to_string(index=False))
    if len(rows) > PAIRS:
        typer.echo(f"... and {len(rows) - PAIRS:,} more; all of them: --csv FILE")
    records = sum(len(copy.index) for copy in copies)
    others = int((rows["patient"] != rows["other patient"]).sum())
    typer.echo(
        f"{' and '.join(names)}: {counted(len(pairs), 'pair')} among {records:,} records "
        f"({len(found):,} compared, hashes of {size(search.BYTES * len(table.hashes))}); "
        f"{int(rows['leak'].sum())} between training and test, {others} under two patients; "
        f"docs/duplicates.md has how often it misses and how often it errs"
    )
