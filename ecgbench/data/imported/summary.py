"""The report of an import, in lines."""

import re
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pandas as pd

from ecgbench.cards.dataset import PATIENTS_UNKNOWN
from ecgbench.core.text import aligned, counted, quoted
from ecgbench.data.imported.corrections import some
from ecgbench.data.imported.importing import Imported
from ecgbench.data.imported.recordings import left_out
from ecgbench.data.select import SPLITS
from ecgbench.datasets.own import TABLE, split_of

NAMED = 5
"""Records that a line lists."""
NOTED = {
    "rate": "rates from",
    "unit": "units from",
    "names": "names of leads from",
    "ignored signal": "signals that are no standard lead are ignored",
    "head line": "lines of a head that are not used",
    "renamed": "names in the files for which --signals gives others",
    "inverted": "an inverted lead is turned round",
    "not measured": "leads that were not measured",
    "held": "leads that hold one value for much of the time (no lead is made of them)",
    "cut": "cut off",
    "offset": "the voltage of an electrode was taken off",
    "read as": "read as",
    "warning": "warnings of the reader",
}
"""Kinds of notes of a recording -> their descriptions."""
SWING = (0.1, 20.0)
"""Usual limits of the largest range of a lead, mV."""


def lines(made: Imported) -> Iterator[str]:
    """Records, patients, leads, rates, durations, labels by split, records that were left out and
    why, and the next command.
    """
    order, table, usable = made.order, made.table, made.usable
    patients = counted(usable["patient"].nunique(), "patient")
    whose = f" of {patients}" if made.said.patients_known else ""
    yield f"{order.name}: {counted(len(usable), 'record')}{whose} in {order.folder}"
    if not made.said.patients_known:
        yield f"  no column patient: {PATIENTS_UNKNOWN}"
    yield f"  leads: {_each(usable['leads'], 'record')}"
    low, high = np.quantile(usable["seconds"].astype(float), (0, 1))
    span = f"{low:,.5g}" if low == high else f"{low:,.5g} to {high:,.5g}"
    yield f"  rate in Hz: {_each(usable['fs'], 'record')}; length: {span} s"
    yield f"  splits: {made.said.splits}"
    yield from (f"    {text}" for text in _counts(made))
    if made.labelled.others:
        yield f"  kept beside the labels: {', '.join(made.labelled.others)}"
    if kinds := left_out(table):
        yield f"  {len(kinds):,} of {len(table):,} recordings cannot be used (left_out of {TABLE}):"
        yield from (f"  quarantined {text}" for text in kinds[:NAMED])
    if files := made.without_row:
        many = counted(len(files), "file")
        yield f"  left out: {many} without a row in the table: {some(files, NAMED, ', ')}"
    if without := len(made.labelled.table) - len(table):
        yield f"  left out: {counted(without, 'record')} of the table without a file"
    yield from (f"  note: {text}" for text in [*made.notes, *_noted(made)])
    # a command takes it for a path
    path = str(order.card) if order.card.is_absolute() else f"./{order.card}"
    yield f"written: {path} and {TABLE} beside it"
    yield f"next: ecgbench data facts {quoted(path)}"


def _each(values: pd.Series, noun: str) -> str:
    """What is there and how often."""
    return "; ".join(f"{value}: {counted(n, noun)}" for value, n in Counter(values).most_common())


def _noted(made: Imported) -> Iterator[str]:
    """What the recordings say of themselves that a person must know, each once."""
    records = made.usable["record"]
    swings = {record: float(dict(made.seen[record])["swing"]) for record in records}
    odd = [f"{r} ({mv:.3g} mV)" for r, mv in swings.items() if not SWING[0] <= mv <= SWING[1]]
    if odd:
        yield (
            f"an ECG swings by {SWING[0]:g} to {SWING[1]:g} mV, and {counted(len(odd), 'record')} "
            f"by less or more: {some(odd, NAMED, ', ')}; is the unit right? (--unit, for files "
            f"that do not say it; else correct the files)"
        )
    found: Counter[tuple[str, str]] = Counter()
    for record in records:
        # of a line of a head its key: what follows may be a person's name, and differs by file
        notes = (
            (kind, re.split(r"[,:;=\t]", what)[0].strip() if kind == "head line" else what)
            for kind, what in made.seen[record]
        )
        found.update([*dict.fromkeys(notes)])
    for kind, words in NOTED.items():
        each = [f"{what} ({n:,})" for (k, what), n in found.most_common() if k == kind]
        if each:
            yield f"{words}: {some(each, NAMED, ', ')}"


def _counts(made: Imported) -> list[str]:
    """Records with each label in each split."""
    table = made.usable
    split = split_of(table)
    rows = [["", *SPLITS], ["records", *(str((split == name).sum()) for name in SPLITS)]]
    for label in made.said.labels:
        has = table[label].to_numpy(int) == 1
        rows.append([label, *(str((has & (split == name)).sum()) for name in SPLITS)])
    return aligned(rows, right=(1, 2, 3))
