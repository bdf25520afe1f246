"""Facts of a prepared copy: counts by split, labels without both values, records that were left out
and why, flat leads, identical signals, findings of the checks.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from ecgbench.cards.dataset import Task
from ecgbench.core.text import counted
from ecgbench.data.copy import Copy, is_counted
from ecgbench.data.duplicates import identical
from ecgbench.data.reading import FIXED, REPAIRED, by_kind
from ecgbench.data.select import SPLITS
from ecgbench.data.splits import split_digest
from ecgbench.ecg.checks import KINDS
from ecgbench.ecg.leads import LEADS, bits_to_mask
from ecgbench.stats.known import known_of, positives_of, two_valued, unknown_of

FEW = 12
"""Labels, or groups of records, that a line lists."""


def facts(copy: Copy) -> dict[str, Any]:
    """Facts as plain JSON; `lines` prints them."""
    index = copy.index
    by_split = index.groupby("split")
    flat = Counter(lead for text in index["flat"] for lead in str(text).split("+") if lead)
    seconds = index["samples"] / index["fs"]
    there = bits_to_mask(index["available"].to_numpy())
    return {
        "dataset": copy.name,
        "title": copy.card.title,
        "verified": copy.card.verified,
        "release": copy.card.records,
        "prepared": len(index),
        "published": len(copy.published),
        "splits": {s: len(by_split.get_group(s)) for s in SPLITS if s in by_split.groups},
        "patients": {str(s): int(n) for s, n in by_split["patient"].nunique().items()},
        "split": copy.card.splits,
        "split_digest": split_digest(index),
        "patients_known": copy.card.patients_known,
        "seconds": [float(f(seconds)) for f in (np.min, np.median, np.max)] if len(index) else [],
        "rates": sorted(map(float, index["fs"].unique())),
        "unit": copy.unit,
        "excluded": copy.excluded["reason"].value_counts().sort_index().to_dict(),
        "quarantined": dict(copy.quarantined.itertuples(index=False, name=None)),
        "leads": {} if there.all() else dict(zip(LEADS, there.sum(axis=0).tolist())),
        "flat_records": int((index["flat"] != "").sum()),
        "flat_leads": {lead: flat[lead] for lead in LEADS if flat[lead]},
        "identical": [[*map(str, group)] for group in identical(copy)],
        "fix": copy.fix,
        "found": by_kind(index["found"]),
        "fixed": by_kind(index["fixed"]),
        "findings": copy.findings.to_dict("records"),
        "told": list(finding_lines(copy)),
        "tasks": {task.name: _labels(copy, task) for task in copy.tasks},
    }


def finding_lines(copy: Copy) -> Iterator[str]:
    """Inconsistencies and repairs, a line per kind, with the first record as an example."""
    table = copy.findings
    done = table["sentence"].str.startswith(REPAIRED)
    for part, words, before in ((table[~done], KINDS, "found"), (table[done], FIXED, "repaired")):
        for kind, what in words.items():
            own = part[part["kind"] == kind]
            if len(own):
                record, sentence = own[["record", "sentence"]].iloc[0]
                count, text = counted(len(own), "record"), sentence.removeprefix(REPAIRED)
                yield f"{before}: {what}, in {count}; {record}: {text}"


def lines(known: dict[str, Any]) -> Iterator[str]:
    """The facts in words."""
    whole = known["prepared"] == known["release"]
    of = "import" if known["verified"] == "these files" else "release"
    part = "" if whole else f" of {known['release']:,} in the {of}"
    tried = known["verified"]
    yield f"{known['title']}: {known['prepared']:,} records{part} (reader tried on: {tried})"
    patients = "" if known["patients_known"] else " (not published: each record counts as one)"
    for split, count in known["splits"].items():
        yield f"  {split}: {count:,} records, {known['patients'][split]:,} patients{patients}"
    yield f"  split: {known['split']}; digest {known['split_digest'][:16]}"
    if known["seconds"]:
        low, middle, high = known["seconds"]
        rates = ", ".join(f"{rate:g}" for rate in known["rates"])
        span = f"{low:g} s" if low == high else f"{low:g} to {high:g} s, median {middle:g} s"
        yield f"  length: {span} at {rates} Hz, in {known['unit']}"
    if known["leads"]:
        named = ", ".join(f"{lead} {count:,}" for lead, count in known["leads"].items() if count)
        yield f"  records that have a lead: {named}"
    for reason, count in known["excluded"].items():
        yield f"  left out by rule: {count:,} {reason}"
    for record, reason in known["quarantined"].items():
        yield f"  quarantined {record}: {reason}"
    if known["flat_records"]:
        named = ", ".join(f"{lead} {count:,}" for lead, count in known["flat_leads"].items())
        yield f"  leads without variation: in {known['flat_records']:,} records ({named})"
    if groups := known["identical"]:
        named = "; ".join(" = ".join(group) for group in groups[:FEW])
        rest = "; ..." if groups[FEW:] else ""
        yield f"  identical signals under several records: {len(groups):,} ({named}{rest})"
    if known["fix"]:
        yield "  prepared with --fix"
    yield from (f"  {text}" for text in known["told"])
    for name, task in known["tasks"].items():
        other = task["paper"] not in (None, task["labels"])
        paper = f", the paper has {task['paper']}" if other else ""
        how = {None: "", True: ", counted", False: ", vocabulary, not counted"}[task["counted"]]
        yield (
            f"  {name}: {counted(task['labels'], 'label')} ({task['rule']}{how}{paper}); 0 means "
            f"{task['absent']}"
        )
        for split, labels in task["one_valued"].items():
            yield f"    without both values in {split}: {', '.join(labels)}"


def _labels(copy: Copy, task: Task) -> dict[str, Any]:
    splits = {s: own[task.columns].to_numpy() for s, own in copy.index.groupby("split")}
    positives, known, unknown = (
        {split: dict(zip(task.labels, count(own).tolist())) for split, own in splits.items()}
        for count in (positives_of, known_of, unknown_of)
    )
    return {
        "labels": len(task.labels),
        "paper": task.paper,
        "rule": task.rule,
        "absent": task.absent or "not stated",
        "counted": is_counted(task, copy.published),
        "positives": positives,
        **({"known": known, "unknown": unknown} if task.masked else {}),
        "one_valued": {
            split: lost
            for split in ("val", "test")
            if split in splits
            and (lost := [n for n, two in zip(task.labels, two_valued(splits[split])) if not two])
        },
    }
