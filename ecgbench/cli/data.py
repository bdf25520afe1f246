"""`ecgbench data import | fetch | prepare | check | facts | duplicates | ls | prune`: from files
as they are to the prepared store.
"""

import inspect
import json
from pathlib import Path

import typer

from ecgbench.cli.lists import show
from ecgbench.cli.options import DATA, JSON, PREPARED, YES, argument, flag, option
from ecgbench.core.text import counted, line, quoted, size
from ecgbench.errors import BadSetting

FIX = flag("The copy that `ecgbench data prepare --fix` made.", "--fix")
DATASET = argument("Dataset: ptbxl, demo, or the path of your own: ./mine.py")
PAIRS = 40
"""Rows of the table of duplicates on a terminal; --csv and --json have all."""


def fetch(
    dataset: str = DATASET,
    data: Path = option(
        "Folder that receives the dataset, in a folder of its own: DIR/ptbxl/...",
        metavar="DIR",
        envvar="ECGBENCH_DATA",
    ),
    dry_run: bool = flag("Print how much is lacking and whether it has room.", "--dry-run"),
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

    name = datasets.resolve(dataset)
    module = datasets.get(name)
    card, home = module.CARD, data_folder(data)
    kinds = ("FILES", "MANIFEST", "LISTING")
    files, manifest, listing = (getattr(module, kind, None) for kind in kinds)
    if not card.folder:
        raise BadSetting(f"{name} is made by code; there is nothing to fetch")
    folder = (home or Path("DIR")) / card.folder
    if card.access != "open" or not (files or manifest or listing):
        # the plug-in's docstring lays its files out in lines set in
        for text in inspect.cleandoc(module.__doc__ or "").splitlines():
            if text.startswith("    "):
                typer.echo(f"  {text.strip()}")
        why = "" if card.access == "open" else f"{card.title} is not free to all: {card.access}; "
        raise BadSetting(
            f"{name}: {why}get its files from {card.url}, put them into {folder}, then: "
            f"{command(name, home)}"
        )
    if home is None:
        raise BadSetting(f"{name}: no data folder is set; add --data DIR or set ECGBENCH_DATA=DIR")
    typer.echo(f"{card.title} {card.version}: licence {card.licence}, {card.url}")
    try:
        plan = transport.planned(folder, files or (), manifest, listing)
        typer.echo(
            f"{name}: {len(plan.missing):,} of {len(plan.every):,} files are to be fetched, "
            f"{'' if plan.exact else 'about '}{size(plan.size)}, into {plan.root}"
        )
        plan.demand_room(name)
        if dry_run:
            return
        if plan.missing:
            with display().stage(f"fetch {name}", *plan.unit) as advance:
                transport.fetch(plan, advance)
    except DownloadError as error:
        by_hand = f"get the files by hand from {card.url} and put them into {folder}"
        raise DownloadError(f"{error}; or {by_hand}") from None
    typer.echo(f"{name}: all files are here; now: {command(name, home)}")


def prepare(
    dataset: str = DATASET,
    data: Path = DATA,
    prepared: Path = PREPARED,
    fix: bool = flag("Put right what is wrong beyond doubt, in a copy of its own.", "--fix"),
    workers: int = option("Processes that read.  (default: one per core, at most 8)", min=1),
    dry_run: bool = flag("Print what it will take on disk and what is free.", "--dry-run"),
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
    from ecgbench import datasets
    from ecgbench.data import disk, facts, prepare
    from ecgbench.data.source import where
    from ecgbench.study.progress import counting, display

    name = datasets.resolve(dataset)
    if dry_run:
        records, needed = disk.foreseen(name, data, prepared)
        home = where(prepared, data)
        free = disk.free_bytes(home)
        what = f"{records:,} records, about {size(needed)}, in {home} with {size(free)} free"
        if needed > free:
            raise BadSetting(f"{name}: {what}; ecgbench data prune, or --prepared DIR elsewhere")
        typer.echo(f"{name}: {what}")
        return
    with counting(f"prepare {name}", display()) as shown:
        copy = prepare.prepare_and_check(name, data, prepared, shown, fix, workers)
    typer.echo(
        f"{name}: {len(copy.index)} records of {copy.card.records:,} in the release, "
        f"{len(copy.excluded)} left out by rule, {len(copy.quarantined)} quarantined: {copy.folder}"
    )
    lines = [
        f"left out: {count:,} {reason}"
        for reason, count in copy.excluded["reason"].value_counts().sort_index().items()
    ]
    quarantined = copy.quarantined[["record", "reason"]].itertuples(index=False)
    lines += [f"quarantined {record}: {reason}" for record, reason in quarantined]
    if crossing := prepare.crossing(copy.index):
        lines.append(f"{crossing} (all of them: ecgbench data facts {quoted(dataset)})")
    for text in [*lines, *facts.finding_lines(copy)]:
        typer.echo(f"  {text}")


def check(
    dataset: str = DATASET, data: Path = DATA, prepared: Path = PREPARED, fix: bool = FIX
) -> None:
    """Read the published files again and compare them with the prepared copy, sample for sample,
    and its tables and views with the hashes that were written with them.

    Nothing is changed: a run names and makes again what it finds to be wrong. Exit 1 on a
    difference; 2 where the copy itself is damaged, with the command that makes another one.
    """
    from ecgbench import datasets
    from ecgbench.data import disk
    from ecgbench.data.prepare import held
    from ecgbench.data.views import views
    from ecgbench.study.progress import counting, display

    name = datasets.resolve(dataset)
    copy = held(name, data, prepared, fix, thorough=True)
    with counting(f"check {name}", display()) as shown:
        problems = disk.verify(copy, shown)
    for record, reason in problems:
        typer.echo(f"  {line(f'{record}: {reason}')}")
    part = "" if copy.whole else f"; {len(copy.published):,} records are published"
    typer.echo(
        f"{name}: {len(problems)} differences in {len(copy.index):,} prepared records and "
        f"{counted(len(views(copy)), 'view')} of them{part}"
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
    from ecgbench.data import facts
    from ecgbench.data.prepare import held
    from ecgbench.data.source import root_of

    name = datasets.resolve(dataset)
    module, copy = datasets.get(name), held(name, data, prepared, fix)
    found = facts.facts(copy)
    if counts := getattr(module, "counts", None):
        found["counts"] = counts(root_of(name, module.CARD, data)).to_dict("records")
    if as_json:
        typer.echo(json.dumps(found, indent=1))
        return
    for text in facts.lines(found):
        typer.echo(" " * (len(text) - len(text.lstrip())) + line(text))
    if rows := found.get("counts"):
        show(rows, False, [*rows[0]])


def duplicates(
    datasets: list[str] = argument("Prepared datasets: ptbxl, or ptbxl georgia ningbo."),
    within: bool = flag("Of several datasets, also pairs within each; of one always."),
    to: Path = option("Write all pairs to this file.", "--csv", metavar="FILE", dir_okay=False),
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
        rows = search.table_of(search.confirmed(table, found, progress))
    if to is not None:
        put(to, rows.drop(columns="leak").to_csv(index=False))
    if as_json:
        typer.echo(json.dumps(rows.to_dict("records"), indent=1))
        return
    if len(rows):
        typer.echo(rows.drop(columns="leak").head(PAIRS).to_string(index=False))
    if len(rows) > PAIRS:
        typer.echo(f"... and {len(rows) - PAIRS:,} more; all of them: --csv FILE")
    others = int((rows["patient"] != rows["other patient"]).sum())
    typer.echo(
        f"{' and '.join(names)}: {counted(len(rows), 'pair')} among "
        f"{sum(len(copy.index) for copy in copies):,} records, {int(rows['leak'].sum())} between "
        f"training and test, {others} under two patients; how often it errs: docs/duplicates.md"
    )


def ls(data: Path = DATA, prepared: Path = PREPARED, as_json: bool = JSON) -> None:
    """List prepared copies: records, and the disk that recordings and views of them take.

    A view is what a model's filter and rate make of the recordings; it is made anew when it is
    missed. A copy that is not current was made by another version, or is damaged and was set aside
    (NAME.damaged), and is not read.
    """
    from ecgbench.data import disk
    from ecgbench.data.source import where

    home = where(prepared, data)
    rows = [
        {**vars(copy), "recordings": copy.signals, "folder": str(copy.folder)}
        for copy in disk.copies(home)
    ]
    if not rows and not as_json:
        typer.echo(f"no prepared copy in {home}")
        return
    for row in rows if not as_json else ():
        row |= {part: size(row[part]) for part in ("recordings", "views")}
    show(rows, as_json, ("dataset", "records", "recordings", "views", "fix", "current", "folder"))


def prune(
    dataset: str = argument("Dataset; all of them where none is named.", default=""),
    data: Path = DATA,
    prepared: Path = PREPARED,
    yes: bool = YES,
) -> None:
    """Free disk: views, prepared copies of other versions, and parts of copies that are damaged or
    were read anew. The files as published stay, and no result is lost.
    """
    from ecgbench import datasets
    from ecgbench.data import disk
    from ecgbench.data.source import where

    home, names = where(prepared, data), (datasets.resolve(dataset),) if dataset else ()
    if yes:
        typer.echo(f"{size(disk.prune(home, names))} freed in {home}")
    else:
        print_spare(dict(disk.spare(home, names)), home)


def print_spare(sizes: dict[Path, int], folder: Path) -> None:
    """Print which folders could be removed, and their bytes."""
    for path, freed in sizes.items():
        typer.echo(f"{size(freed):>10}  {path}")
    total = f"{size(sum(sizes.values()))} would be freed; to remove them: add --yes"
    typer.echo(total if sizes else f"nothing to free in {folder}")


COMMANDS = (fetch, prepare, check, facts, duplicates, ls, prune)
