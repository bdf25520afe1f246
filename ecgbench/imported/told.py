"""What an import found, as a person reads it."""

import shlex
from collections import Counter
from collections.abc import Iterator

import numpy as np

from ecgbench.ecg.leads import LEADS, LeadSubset, derivable
from ecgbench.imported import records
from ecgbench.imported.importing import Imported, Seen
from ecgbench.imported.splitting import split_of
from ecgbench.prepared.subset import SPLITS
from ecgbench.text import aligned, counted

NAMED = 5
"""Records that a line names."""
SWING = (0.1, 20.0)
"""mV between which the largest swing of a usual ECG lies."""


def lines(made: Imported) -> Iterator[str]:
    """Records, patients, leads, rates, durations, labels by split, what was left out and why, and
    the next command.
    """
    order, table = made.order, made.table
    usable = table[table["left_out"] == ""]
    patients = counted(usable["patient"].nunique(), "patient")
    whose = f" of {patients}" if made.patients_known else ""
    added = f" ({made.added:,} new)" if made.card else ""
    yield f"{order.name}: {counted(len(usable), 'record')}{whose} in {order.folder}{added}"
    if not made.patients_known:
        yield "  no column patient: each record counts as a patient of its own"
    yield from _signals([made.seen[path] for path in usable["path"]])
    yield f"  splits: {made.splits}"
    yield from (f"    {text}" for text in _counts(made))
    if made.kept:
        yield f"  kept beside the labels: {', '.join(made.kept)}"
    yield from _left_out(made)
    yield from (f"  note: {text}" for text in [*made.notes, *_changed(made)])
    card = shlex.quote(_shown(made))
    yield f"{'added to' if made.card else 'written:'} {_shown(made)} and {records.FILE} beside it"
    yield f"next: ecgbench data prepare {card}"
    yield f"then: ecgbench run --tasks {card} --models laef,merl --leads {_usual(made)}"


def _shown(made: Imported) -> str:
    """The card file as a command names it: a path with a slash in it."""
    path = str(made.order.card)
    return path if made.order.card.is_absolute() or path.startswith(".") else f"./{path}"


def _usual(made: Imported) -> str:
    """Leads to try first: one that every record has, and twelve where every record has them."""
    sets = [{*seen.leads} for seen in made.seen.values() if not seen.reason]
    common = [n for n in LEADS if all(n in leads for leads in sets)]
    return "1,2,12" if common == list(LEADS) else (common or list(sets[0]))[0]


def _signals(seen: list[Seen]) -> Iterator[str]:
    sets = Counter(one.leads for one in seen)
    named = {leads: "+".join(leads) if len(leads) < len(LEADS) else "all twelve" for leads in sets}
    parts = [f"{named[leads]}: {counted(n, 'record')}" for leads, n in sets.most_common()]
    if any(len({*derivable(LeadSubset(leads))} - {*leads}) for leads in sets):
        parts[-1] += " (two limb leads give the other four exactly)"
    yield f"  leads: {'; '.join(parts)}"
    rates = Counter(one.fs for one in seen)
    each = [f"{fs:g} Hz" + (f" ({n:,})" if len(rates) > 1 else "") for fs, n in rates.most_common()]
    seconds = np.array([one.seconds for one in seen])
    low, high = f"{seconds.min():.4g}", f"{seconds.max():.4g}"
    span = low if low == high else f"{low} to {high} s, median {np.median(seconds):.4g}"
    yield f"  rate: {', '.join(each)}; length: {span} s"
    swing = np.median([one.swing for one in seen])
    yield f"  largest swing of a lead: {swing:.3g} mV (median of the records)"
    if not SWING[0] <= swing <= SWING[1]:
        yield (
            f"  note: an ECG swings by {SWING[0]:g} to {SWING[1]:g} mV; is the unit right? "
            f"(--unit, for files that do not say it; else correct the files)"
        )


def _counts(made: Imported) -> list[str]:
    """Records with each label in each split."""
    table = made.table[made.table["left_out"] == ""]
    split = split_of(table)
    sizes = [str(int((split == name).sum())) for name in SPLITS]
    rows = [["", *SPLITS], ["records", *sizes]]
    for label in made.labels:
        positive = table[label].to_numpy(int) == 1
        rows.append([label, *(str(int(positive[split == name].sum())) for name in SPLITS)])
    return aligned(rows, right=(1, 2, 3))


def _left_out(made: Imported) -> Iterator[str]:
    lost = made.table[made.table["left_out"] != ""]
    for record, reason in lost[["record", "left_out"]].to_numpy()[:NAMED]:
        yield f"  quarantined {record}: {reason}"
    if len(lost) > NAMED:
        yield f"  and {len(lost) - NAMED:,} more; see the column left_out of {records.FILE}"
    if files := made.without_row:
        more = f" and {len(files) - NAMED:,} more" if len(files) > NAMED else ""
        named = ", ".join(files[:NAMED])
        yield f"  left out: {counted(len(files), 'file')} without a row in the table: {named}{more}"
    if made.without_file:
        yield f"  left out: {counted(made.without_file, 'record')} of the table without a file"


def _changed(made: Imported) -> Iterator[str]:
    """What a card that stays says otherwise than the recordings."""
    if made.card is None:
        return
    leads = {name for seen in made.seen.values() for name in seen.leads}
    if more := [name for name in LEADS if name in leads - {*made.card.leads}]:
        yield (
            f"records now have lead {', '.join(more)}, which {made.order.card.name} does not name; "
            f"add it to leads in its CARD"
        )
