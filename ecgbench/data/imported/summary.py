"""The report of an import, in lines."""

import re
from collections import Counter
from collections.abc import Iterator

import numpy as np

from ecgbench.cards.dataset import PATIENTS_UNKNOWN
from ecgbench.core.text import aligned, counted, quoted
from ecgbench.data.imported.corrections import some
from ecgbench.data.imported.importing import Imported
from ecgbench.data.imported.reading import left_out
from ecgbench.data.select import SPLITS
from ecgbench.datasets.own import TABLE, split_of
from ecgbench.ecg.leads import LEADS, LeadSubset, derivable

NAMED = 5
"""Records that a line lists."""
NOTED = {
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
    order, table = made.order, made.table
    usable = made.usable
    patients = counted(usable["patient"].nunique(), "patient")
    whose = f" of {patients}" if made.said.patients_known else ""
    yield f"{order.name}: {counted(len(usable), 'record')}{whose} in {order.folder}"
    if not made.said.patients_known:
        yield f"  no column patient: {PATIENTS_UNKNOWN}"
    yield from _signals(made)
    yield f"  splits: {made.said.splits}"
    yield from (f"    {text}" for text in _counts(made))
    if made.labelled.others:
        yield f"  kept beside the labels: {', '.join(made.labelled.others)}"
    if kinds := left_out(table):
        yield f"  {len(table) - len(usable):,} of {len(table):,} recordings cannot be used:"
        yield from (f"  quarantined {text}" for text in kinds[:NAMED])
        yield f"  all of them: the column left_out of {TABLE}"
    if files := made.without_row:
        many = counted(len(files), "file")
        yield f"  left out: {many} without a row in the table: {some(files, NAMED, ', ')}"
    if without := len(made.labelled.table) - len(table):
        yield f"  left out: {counted(without, 'record')} of the table without a file"
    yield from (f"  note: {text}" for text in [*made.notes, *_noted(made)])
    path = str(order.card)
    path = path if path.startswith(("/", ".")) else f"./{path}"  # a command takes it for a path
    what = "up to date" if made.before else "written"
    yield f"{what}: {path} and {TABLE} beside it"
    yield f"next: ecgbench data facts {quoted(path)}"
    run = f"ecgbench run --tasks {quoted(path)} --models laef,simple_features"
    yield f"then: {run} --leads {_usual(made)}"


def _usual(made: Imported) -> str:
    """Leads to try first: one that every record has, and twelve where every record has them."""
    sets = [{*leads.split("+")} for leads in made.usable["leads"]]
    common = [n for n in LEADS if all(n in leads for leads in sets)]
    return "1,2,12" if common == list(LEADS) else (common or list(sets[0]))[0]


def _swings(made: Imported) -> dict[str, float]:
    """Largest range of a lead of each usable record, mV."""
    return {r: float(dict(made.seen[r])["swing"]) for r in made.usable["record"]}


def _signals(made: Imported) -> Iterator[str]:
    usable = made.usable
    sets = Counter(tuple(leads.split("+")) for leads in usable["leads"])
    named = {leads: "+".join(leads) if len(leads) < len(LEADS) else "all twelve" for leads in sets}
    parts = [f"{named[leads]}: {counted(n, 'record')}" for leads, n in sets.most_common()]
    if any(len({*derivable(LeadSubset(leads))} - {*leads}) for leads in sets):
        parts[-1] += " (two limb leads give the other four exactly)"
    yield f"  leads: {'; '.join(parts)}"
    rates = Counter(map(float, usable["fs"]))
    each = [f"{fs:g} Hz" + (f" ({n:,})" if len(rates) > 1 else "") for fs, n in rates.most_common()]
    low, middle, high = (
        f"{q:,.5g}" for q in np.quantile(usable["seconds"].astype(float), (0, 0.5, 1))
    )
    span = low if low == high else f"{low} to {high} s, median {middle}"
    yield f"  rate: {', '.join(each)}; length: {span} s"
    yield f"  {_origins(made)}"
    swing = np.median([*_swings(made).values()])
    yield f"  largest swing of a lead: {swing:.3g} mV (median of the records)"


def _noted(made: Imported) -> Iterator[str]:
    """What the recordings say of themselves that a person must know, each once."""
    usable = made.usable
    odd = [
        f"{record} ({swing:.3g} mV)"
        for record, swing in _swings(made).items()
        if not SWING[0] <= swing <= SWING[1]
    ]
    if odd:
        yield (
            f"an ECG swings by {SWING[0]:g} to {SWING[1]:g} mV, and {counted(len(odd), 'record')} "
            f"by less or more: {some(odd, NAMED, ', ')}; is the unit right? (--unit, for files "
            f"that do not say it; else correct the files)"
        )
    found: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], str] = {}
    for record in usable["record"]:
        # of a line of a head its key: what follows may be a person's name, and differs by file
        notes = (
            (kind, re.split(r"[,:;=\t]", what)[0].strip() if kind == "head line" else what)
            for kind, what in made.seen[record]
        )
        for note in dict.fromkeys(notes):
            found[note] += 1
            first.setdefault(note, record)
    for kind, words in NOTED.items():
        each = [
            f"{what} ({first[k, what] if n == 1 else f'{n:,}'})"
            for (k, what), n in found.most_common()
            if k == kind
        ]
        if each:
            yield f"{words}: {some(each, NAMED, ', ')}"


def _origins(made: Imported) -> str:
    """Where rates, units and names of leads came from, in one line."""
    parts = []
    for kind, word in (("rate", "rates"), ("unit", "units"), ("names", "names of leads")):
        every = (note for record in made.usable["record"] for note in made.seen[record])
        of = Counter(what for k, what in every if k == kind)
        each = [f"{what} ({n:,})" if len(of) > 1 else what for what, n in of.most_common()]
        parts += [f"{word} from {', '.join(each)}"] if each else []
    return "; ".join(parts)


def _counts(made: Imported) -> list[str]:
    """Records with each label in each split."""
    table = made.usable
    split = split_of(table)
    sizes = [str(int((split == name).sum())) for name in SPLITS]
    rows = [["", *SPLITS], ["records", *sizes]]
    for label in made.said.labels:
        positive = table[label].to_numpy(int) == 1
        rows.append([label, *(str(int(positive[split == name].sum())) for name in SPLITS)])
    return aligned(rows, right=(1, 2, 3))
