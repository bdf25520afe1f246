"""`ecgbench data import | fetch | prepare | check | facts | duplicates | ls | prune`: from
published files to prepared copies.
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
    dry_run: bool = flag("Print how much is missing and whether it fits on the disk.", "--dry-run"),
) -> None:
    """Download an open dataset from where it is published.

    Several files are downloaded at a time. Each is compared with its published checksum, where
    there is one. Only missing files are downloaded: after an error or Ctrl-C the same command goes
    on in the middle of a file. A file that is not the published one (a web page, a changed or
    damaged file) is removed or replaced. Archives are unpacked and then removed.

      ecgbench data fetch georgia --data ~/ecg --dry-run

      ecgbench data fetch georgia --data ~/ecg

    Data that you must sign or ask for are not downloaded; the command says what to do and where to
    put the files. Read the licence before you use the data: it is printed first.

    Exit 0: all files are here; 2: some are missing, and the message says why.
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
        raise BadSetting(f"{name} is computed; there is nothing to download")
    folder = (home or Path("DIR")) / card.folder
    if card.access != "open" or not (files or manifest or listing):
        # the plug-in's docstring lays its files out in lines set in
        for text in inspect.cleandoc(module.__doc__ or "").splitlines():
            if text.startswith("    "):
                typer.echo(f"  {text.strip()}")
        why = "" if card.access == "open" else f"{card.title} is not open: {card.access}; "
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
            f"{name}: {len(plan.missing):,} of {len(plan.every):,} files are missing, "
            f"{'' if plan.exact else 'about '}{size(plan.size)}; folder: {plan.root}"
        )
        plan.demand_room(name)
        if dry_run:
            return
        if plan.missing:
            with display().stage(f"fetch {name}", *plan.unit) as advance:
                transport.fetch(plan, advance)
    except DownloadError as error:
        again = "try again later: what is here stays; or get the files from"
        raise DownloadError(f"{error}; {again} {card.url} and put them into {folder}") from None
    typer.echo(f"{name}: all files are here{f'; now: {command(name, home)}' if card.leads else ''}")


def prepare(
    dataset: str = DATASET,
    data: Path = DATA,
    prepared: Path = PREPARED,
    fix: bool = flag("Correct exchanged or inverted limb leads, in a separate copy.", "--fix"),
    workers: int = option("Processes that read.  (default: one per core, at most 8)", min=1),
    dry_run: bool = flag("Print how much disk it needs and how much is free.", "--dry-run"),
) -> None:
    """Read and check every recording once and store it for fast reading. `ecgbench run` does this
    itself when needed.

    Each recording is checked for consistency: whether its limb leads follow from one another,
    whether one lead is a copy of another, whether the unit and the rate can be right, whether the
    arm electrodes were likely exchanged. Findings are reported; the samples stay as they are.

    With --fix, two exchanged limb leads, three rotated ones or an inverted one are corrected where
    the identities of the limb leads leave no other explanation. This makes a second copy:
    `ecgbench run --set data.fix=on` uses it, and its results have other keys. A unit or a rate that
    cannot be right is reported, not corrected: one recording does not show which factor is right.

    Repairs that the card of a dataset declares (MIMIC-IV-ECG: short gaps are filled, samples are
    limited to 3 mV) are part of its reader, with or without --fix.

    After an error, Ctrl-C or a kill the same command goes on where it stopped. Prepared records are
    compared with their hashes, and the published files with their sizes and times.
    """
    from ecgbench import datasets
    from ecgbench.data import disk, duplicates, facts, prepare
    from ecgbench.data.source import where
    from ecgbench.study.progress import counting, display

    name = datasets.resolve(dataset)
    if dry_run:
        records, needed = disk.foreseen(name, data, prepared)
        home = where(prepared, data, name)
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
    if crossing := duplicates.crossing(copy):
        lines.append(f"{crossing} (all of them: ecgbench data facts {quoted(dataset)})")
    for text in [*lines, *facts.finding_lines(copy)]:
        typer.echo(f"  {text}")


def check(
    dataset: str = DATASET, data: Path = DATA, prepared: Path = PREPARED, fix: bool = FIX
) -> None:
    """Compare a prepared copy with the published files, sample for sample, and its tables and views
    with their hashes.

    Nothing is changed; a run replaces damaged parts itself. Exit 1 on a difference; 2 where the
    copy itself is damaged, with the command that makes a new one.
    """
    from ecgbench import datasets
    from ecgbench.data import disk
    from ecgbench.data.prepare import find_any
    from ecgbench.data.views import views
    from ecgbench.study.progress import counting, display

    name = datasets.resolve(dataset)
    copy = find_any(name, data, prepared, fix=fix, thorough=True)
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
    """Describe a prepared copy: records and patients by split, labels without both values, records
    that were left out and why, flat leads, identical signals, inconsistent and repaired recordings.

    With --json also the positives of every label in every split.
    """
    from ecgbench import datasets
    from ecgbench.data import facts
    from ecgbench.data.prepare import find_any

    name = datasets.resolve(dataset)
    copy = find_any(name, data, prepared, fix=fix)
    found = facts.facts(copy)
    if as_json:
        typer.echo(json.dumps(found, indent=1))
        return
    for text in facts.lines(found):
        typer.echo(" " * (len(text) - len(text.lstrip())) + line(text))


def duplicates(
    datasets: list[str] = argument("Prepared datasets: ptbxl, or ptbxl georgia ningbo."),
    within: bool = flag("Also pairs within each of several datasets."),
    to: Path = option("Write all pairs to this file.", "--csv", metavar="FILE", dir_okay=False),
    data: Path = DATA,
    prepared: Path = PREPARED,
    as_json: bool = JSON,
) -> None:
    """Find recordings that occur twice: within a dataset, or in two datasets under other names.

    Copies are also found when they were shifted by some seconds, inverted, resampled, rescaled,
    rounded, high-pass filtered or made noisier. Pairs between training and test come first: there a
    model was trained on a recording that it is tested on.

    On 2,000 recordings of PTB-XL all altered copies were found, and there was no false match among
    1,999,000 pairs, 76 of them of one patient (docs/explanation/duplicates.md).

      ecgbench data duplicates brugada --data ~/ecg

      ecgbench data duplicates chapman ningbo --data ~/ecg --csv pairs.csv

    Exit 0 with or without duplicates.
    """
    from ecgbench import datasets as room
    from ecgbench.core.files import put
    from ecgbench.data import duplicates as search
    from ecgbench.data.prepare import find_any
    from ecgbench.study.progress import counting, display

    names = list(dict.fromkeys(map(room.resolve, datasets)))
    copies = [find_any(name, data, prepared) for name in names]
    shown = display()
    both = within or len(copies) == 1
    rows = search.pairs(copies, both, lambda what: counting(what, shown))
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
        f"training and test, {others} under two patients; how often it errs: "
        f"docs/explanation/duplicates.md"
    )


def ls(data: Path = DATA, prepared: Path = PREPARED, as_json: bool = JSON) -> None:
    """List prepared copies: records, and the disk space of recordings and views.

    A view holds the recordings filtered and resampled for a model; it is computed again when it is
    missing. A copy that is not current was made by another version or is damaged (NAME.damaged); it
    is not read.
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
    dataset: str = argument("Dataset.  (default: all)", default=""),
    data: Path = DATA,
    prepared: Path = PREPARED,
    yes: bool = YES,
) -> None:
    """Free disk space: views, prepared copies of other versions, damaged or replaced parts of
    copies. Published files stay, and no result is lost.
    """
    from ecgbench import datasets
    from ecgbench.data import disk
    from ecgbench.data.source import where

    home, names = where(prepared, data, dataset), (datasets.resolve(dataset),) if dataset else ()
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
