"""What an import writes: card, records.csv, and the copy of both that tells edits from
corrections; and what it notes of a change.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ecgbench.core.cards import DatasetCard
from ecgbench.core.files import put, put_proved, sha256_of
from ecgbench.core.text import counted
from ecgbench.data.own import card as cards
from ecgbench.data.own import corrections, records
from ecgbench.data.own.earlier import COPY, Earlier, Order, request
from ecgbench.data.own.patients import person
from ecgbench.data.own.reading import Seen
from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.readers.said import Said
from ecgbench.stats.known import UNKNOWN


@dataclass(frozen=True, kw_only=True)
class Imported:
    """What an import made, and what it met."""

    order: Order
    table: pd.DataFrame
    """records.csv: every value a str, with `patient`."""
    labels: tuple[str, ...]
    splits: str
    patients_known: bool
    kept: tuple[str, ...]
    seen: dict[str, Seen]
    """Of each path of the table."""
    card: DatasetCard | None
    """The card that was there before and stays; None where it was written now."""
    added: int
    """Records that were not there before."""
    without_row: list[str]
    """Files that the table does not name."""
    without_file: int
    """Records of the table that have no file."""
    notes: list[str]


def write(
    made: Imported,
    said: Said,
    before: Earlier | None,
    theirs: pd.DataFrame,
    contents: dict[str, str],
) -> None:
    """Card and records.csv, and the copy of them; and the notes of what changed.

    The copy goes first, with the hashes of what it replaces: an import that was killed is ended by
    the next one.
    """
    order, table = made.order, made.table
    column = "split" if "split" in table else "fold"
    who = ["patient"] if made.patients_known else []
    first = ["record", "path", *who, column, *made.labels]
    rest = [c for c in table.columns if c not in (*first, "patient", "left_out")]
    texts = corrections.texts(table, made.labels)
    out = texts[[*first, *rest, "left_out"]]
    card = new = cards.text(_facts(made), said, order.folder, order.to)
    once, folds, homes = before.copy if before else {}, {}, {}
    if before:
        if before.column == column:
            folds, homes = before.folds, before.homes
        made.notes.extend(_changed(made, said, before, texts, contents))
        base = once.get("card", "")
        if before.card and not order.overwrite:
            now = before.card.read_text(encoding="utf-8")
            card, lost = corrections.card(base, now, new) if base else (new, [])
            if not base and now != new:
                _keep(made, before.card)
            if lost:
                made.notes.append(f"{order.card.name} was edited where it would say: {lost[0]}")
    elif order.card.is_file():
        _keep(made, order.card)
        made.notes.append(f"{records.FILE} was gone, and patients are dealt as at first")
    elif order.of_run and (order.to.parent / "plan.json").is_file():
        made.notes.append(f"{order.to} of this run was gone, and patients are dealt as at first")
    files = {order.card.name: card, records.FILE: out.to_csv(index=False, lineterminator="\n")}
    copy: dict[str, object] = {
        "base": theirs.to_dict("list"),
        "left_out": {path: seen.reason for path, seen in made.seen.items()},
        "column": column,
        "folds": folds | dict(zip(texts["path"], texts[column])),
        "homes": homes | dict(zip(map(person, texts["patient"]), texts[column])),
        "contents": contents,
        "labels": list(made.labels),
        "card": new,
        "files": files,
    }
    replaced = {name: sha256_of(order.to / name) for name in files}
    put_proved(order.to / COPY, copy | {"before": replaced, "request": ""})
    for name, text in files.items():
        put(order.to / name, text)
    if before and before.card and before.card != order.card:
        before.card.unlink(missing_ok=True)
    put_proved(order.to / COPY, copy | {"before": {}, "request": request(order)})


def _keep(made: Imported, card: Path) -> None:
    """A card of which it is not known what a person edited."""
    put(card.with_suffix(".py.old"), card.read_bytes())
    made.notes.append(f"{card.name} is written anew; what was there is {card.name}.old")


def _facts(made: Imported) -> cards.Found:
    table, usable = made.table, [s for s in made.seen.values() if not s.reason]
    rates = Counter(s.fs for s in usable)
    return cards.Found(
        name=made.order.name,
        labels=made.labels,
        leads=[n for n in LEADS if any(n in s.leads for s in usable)],
        fs=max(sorted(rates), key=lambda fs: rates[fs]),
        seconds=round(float(np.median([s.seconds for s in usable])), 3),
        patients_known=made.patients_known,
        splits=made.splits,
        folds=int(table["fold"].astype(int).max()) if "fold" in table else 3,
        masked=bool((table[list(made.labels)] == UNKNOWN).any(axis=None)),
    )


def _changed(
    made: Imported, said: Said, before: Earlier, texts: pd.DataFrame, contents: dict[str, str]
) -> Iterator[str]:
    """What is otherwise than at the import before."""
    order, source = made.order, made.order.labels.name
    yield from corrections.said(before, texts, made.labels, source)
    was = before.copy.get("contents", {})
    if odd := [p for p, held in contents.items() if was.get(p, held) != held]:
        named = ", ".join(odd[: corrections.NAMED])
        yield f"{counted(len(odd), 'recording')} replaced by other contents: {named}"
    if before.module and said != before.module.SAID:
        yield f"settings of files were {before.module.SAID}, are {said} now"
    if before.card and before.card != order.card:
        yield f"{before.card.name} is {order.card.name} now"
    given = made.splits == f"as given in {source}"
    why = f"as {source} says" if given else "with the other records of the patient"
    yield from corrections.moves(before, made.table, why)
    usable = made.table[made.table["left_out"] == ""]
    yield from corrections.not_scored(usable, made.labels)
