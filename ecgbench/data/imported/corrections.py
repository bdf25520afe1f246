"""Repeated imports after corrections: patients stay in their splits, and changes are reported."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from ecgbench.core.files import sha256_of
from ecgbench.core.text import counted
from ecgbench.datasets import own
from ecgbench.datasets.indexing.tables import person
from ecgbench.datasets.own import Recordings, split_of
from ecgbench.errors import BadSetting, MissingData

NAMED = 3
"""Cases that a line lists."""


def homes(before: Recordings, table: pd.DataFrame | None = None) -> dict[str, str]:
    """Patient -> fold or split of an earlier import: that of his records that were his then, else
    that of his records in `table`, else that of an earlier patient of this name.
    """
    folds = dict(zip(before.table["file"], before.table[before.column]))
    was = dict(zip(before.table["file"], map(person, before.table["patient"])))
    known = {**before.said.dropped, **{was[file]: fold for file, fold in folds.items()}}
    theirs: dict[str, list[str]] = defaultdict(list)
    for patient, file in () if table is None else zip(table["patient"], table["file"]):
        theirs[person(patient)] += [file] if file in folds else []
    for patient, files in theirs.items():
        if stay := [file for file in files if was[file] == patient] or files:
            known[patient] = Counter(folds[file] for file in stay).most_common(1)[0][0]
    return known


def edited(folder: Path) -> list[str]:
    """records.csv, where that of the import in a folder is not what was written, last or before."""
    card, now = own.card(folder / own.CARD), sha256_of(folder / own.TABLE)
    return [] if now in ("", card.table, card.before) else [own.TABLE]


def earlier(folder: Path, name: str, overwrite: bool) -> tuple[own.Card | None, Recordings | None]:
    """The card in a folder, and the import to go on with, if there are any. BadSetting for a folder
    that holds something else, or a card that cannot be read unless it is to be overwritten.
    """
    card, before, file, table = None, None, folder / own.CARD, folder / own.TABLE
    if table.is_file() and not file.is_file():
        raise BadSetting(
            f"{folder} holds {own.TABLE} without its {own.CARD}; remove it, or give another folder "
            f"(--to DIR)"
        )
    try:
        card = own.card(file) if file.is_file() else None
        before = Recordings(file, card, own.table(table)) if card and table.is_file() else None
    except BadSetting as error:
        if not overwrite:
            raise BadSetting(f"{error}; to write it anew: --overwrite") from None
    except MissingData as error:
        raise MissingData(
            f"{error}; correct that, or remove {table}, which deals the patients to new splits"
        ) from None
    if card and card.name != name:
        raise BadSetting(
            f"{folder} holds the recordings of {card.name}; give another folder (--to DIR)"
        )
    return card, before


def changes(before: Recordings, out: pd.DataFrame, labels: Sequence[str]) -> Iterator[str]:
    """Changes from the earlier records.csv to the new one (`out`), and patients who moved to
    another split.
    """
    known = before.said.labels
    for word, these, those in (("new", labels, known), ("gone", known, labels)):
        if odd := [name for name in these if name not in those]:
            yield f"labels that are {word}: {', '.join(odd)}"
    old, new = (
        t.assign(_split=split_of(t)).set_index("file", drop=False) for t in (before.table, out)
    )
    for word, here, there in (("added", new, old), ("dropped", old, new)):
        if names := [*here["record"][~here.index.isin(there.index)]]:
            yield f"{counted(len(names), 'record')} {word}: {some(names)}"
    new = new[new.index.isin(old.index)]
    old = old.loc[new.index]
    apart = {"file", "fold", "split", "left_out", *own.FOUND} - {"sha256"}
    for column in [c for c in new if c in old and c not in apart]:
        other = (old[column] != new[column]).to_numpy()
        now, was = new[other], old[other]
        cells = [
            f"{record}: {column} was {one or 'blank'}, is {two or 'blank'} now"
            for record, one, two in zip(now["record"], was[column], now[column])
        ]
        if column == "sha256" and cells:
            yield f"{counted(len(now), 'file')} changed: {some([*now['record']])}"
        elif column == "_split":
            for (one, two), theirs in now.groupby([was["_split"].to_numpy(), "_split"]):
                who = [*dict.fromkeys(theirs["patient"])]
                yield (
                    f"{counted(len(who), 'patient')} moved from {one} to {two} ({some(who)}; "
                    f"{counted(len(theirs), 'record')})"
                )
        elif cells:
            yield f"{column}: {counted(len(cells), 'record')} changed ({some(cells)})"


def some(names: Sequence[str], most: int = NAMED, between: str = "; ") -> str:
    """The first of some names, and the number of the others."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{between.join(names[:most])}{more}"
