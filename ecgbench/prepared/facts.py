"""What a prepared copy holds, for people: counts by split, labels without both values, what was
left out and why, flat leads, and how well the limb leads agree with one another.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from ecgbench.cards import Task
from ecgbench.ecg.leads import LEADS, LIMB, LeadSubset, bits_to_mask
from ecgbench.prepared.labels import is_counted
from ecgbench.prepared.store import Prepared
from ecgbench.prepared.subset import SPLITS
from ecgbench.seeds import rng

RECORDS = 200
"""Of which the limb leads are compared; drawn by name."""
FEW = 12
"""Labels that a line names."""
AGREEING = 0.010
"""mV by which the identities of Einthoven and Goldberger may be missed: rounding to 1 uV and to the
steps of the recorder. All but two of 2,980 recordings of PTB-XL keep it.
"""


def facts(copy: Prepared) -> dict[str, Any]:
    """Plain JSON; see `lines` for what a person reads."""
    index = copy.index
    by_split = index.groupby("split")
    flat = Counter(lead for text in index["flat"] for lead in str(text).split("+") if lead)
    seconds = index["samples"] / index["fs"]
    return {
        "dataset": copy.name,
        "title": copy.card.title,
        "verified": copy.card.verified,
        "release": copy.card.records,
        "prepared": len(index),
        "published": len(copy.published),
        "splits": {s: len(by_split.get_group(s)) for s in SPLITS if s in by_split.groups},
        "patients": {str(s): int(n) for s, n in by_split["patient"].nunique().items()},
        "patients_known": copy.card.patients_known,
        "seconds": [float(f(seconds)) for f in (np.min, np.median, np.max)] if len(index) else [],
        "rates": sorted(map(float, index["fs"].unique())),
        "unit": copy.unit,
        "excluded": _counted(copy, "excluded"),
        "quarantined": dict(copy.quarantined.itertuples(index=False, name=None)),
        "leads": held(index["available"]),
        "flat_records": int((index["flat"] != "").sum()),
        "flat_leads": {lead: flat[lead] for lead in LEADS if flat[lead]},
        "limb_leads": limb_leads(copy),
        "tasks": {task.name: _labels(copy, task) for task in copy.tasks},
    }


def limb_leads(copy: Prepared) -> dict[str, Any]:
    """How far I + III = II, 2 aVR = -(I + II) and 2 aVF = II + III are missed, in the unit of the
    copy: the median and the largest of the records' worst samples, and the records beyond AGREEING.
    """
    limb = LeadSubset(LIMB).bits
    records = list(copy.index.loc[copy.index["available"] & limb == limb, "record"])
    order = rng("limb leads", copy.name).permutation(len(records))[:RECORDS]
    missed = {records[i]: residual(copy.recording(records[i]).rows) for i in np.sort(order)}
    if not missed:
        return {}
    worst = np.array(list(missed.values()))
    beyond = sorted((r for r, by in missed.items() if by > AGREEING), key=lambda r: -missed[r])
    return {
        "records": len(missed),
        "median": float(np.median(worst)),
        "largest": float(worst.max()),
        "beyond": len(beyond),
        "worst": {r: missed[r] for r in beyond[:3]},
    }


def held(available: pd.Series) -> dict[str, int]:
    """Lead -> records that have it, where not every record has all twelve; else nothing."""
    there = bits_to_mask(available.to_numpy())
    return {} if there.all() else dict(zip(LEADS, map(int, there.sum(axis=0))))


def residual(signal: np.ndarray) -> float:
    """The largest miss of the three identities over the samples of (12, time)."""
    one, two, three, avr, _, avf = signal[:6].astype(np.float64)
    misses = (one + three - two, 2 * avr + one + two, 2 * avf - two - three)
    return float(max(np.abs(m).max() for m in misses))


def lines(told: dict[str, Any]) -> Iterator[str]:
    """The facts as a person reads them."""
    whole = told["prepared"] == told["release"]
    part = "" if whole else f" of {told['release']:,} in the release"
    tried = told["verified"]
    yield f"{told['title']}: {told['prepared']:,} records{part} (reader tried on: {tried})"
    patients = "" if told["patients_known"] else " (not published: each record counts as one)"
    for split, count in told["splits"].items():
        yield f"  {split}: {count:,} records, {told['patients'][split]:,} patients{patients}"
    if told["seconds"]:
        low, middle, high = told["seconds"]
        rates = ", ".join(f"{rate:g}" for rate in told["rates"])
        span = f"{low:g} s" if low == high else f"{low:g} to {high:g} s, median {middle:g} s"
        yield f"  length: {span} at {rates} Hz, in {told['unit']}"
    if told["leads"]:
        named = ", ".join(f"{lead} {count:,}" for lead, count in told["leads"].items() if count)
        yield f"  records that have a lead: {named}"
    for reason, count in told["excluded"].items():
        yield f"  left out by rule: {count:,} {reason}"
    for record, reason in told["quarantined"].items():
        yield f"  quarantined {record}: {reason}"
    if told["flat_records"]:
        named = ", ".join(f"{lead} {count:,}" for lead, count in told["flat_leads"].items())
        yield f"  leads without variation: in {told['flat_records']:,} records ({named})"
    if limb := told["limb_leads"]:
        unit = "uV" if told["unit"] == "mV" else f"thousandths ({told['unit']})"
        worst = "".join(f"; {r}: {1000 * by:.0f}" for r, by in limb["worst"].items())
        yield (
            f"  limb leads of {limb['records']} records agree within "
            f"{1000 * limb['median']:.1f} {unit} (median), {1000 * limb['largest']:.1f} at most; "
            f"{limb['beyond']} beyond {1000 * AGREEING:g}{worst}"
        )
    for name, task in told["tasks"].items():
        paper = (
            "" if task["paper"] in (None, task["labels"]) else f", the paper has {task['paper']}"
        )
        how = {None: "", True: ", counted", False: ", vocabulary, not counted"}[task["counted"]]
        yield (
            f"  {name}: {task['labels']} labels ({task['rule']}{how}{paper}); 0 means "
            f"{task['absent']}"
        )
        for split, labels in task["one_valued"].items():
            yield f"    without both values in {split}: {', '.join(labels)}"


def _counted(copy: Prepared, kind: str) -> dict[str, int]:
    counts = getattr(copy, kind)["reason"].value_counts().sort_index()
    return {str(reason): int(count) for reason, count in counts.items()}


def _labels(copy: Prepared, task: Task) -> dict[str, Any]:
    own = copy.index[["split", *task.columns]]
    positives = own.groupby("split")[task.columns].sum()
    sizes = own["split"].value_counts()
    one_valued: dict[str, list[str]] = {}
    for split in ("val", "test"):
        if split in positives.index:
            counts = positives.loc[split].to_numpy()
            lost = [n for n, k in zip(task.labels, counts) if k in (0, sizes[split])]
            one_valued |= {split: lost} if lost else {}
    return {
        "labels": len(task.labels),
        "paper": task.paper,
        "rule": task.rule,
        "absent": task.absent or "not stated",
        "counted": is_counted(task, copy.published),
        "positives": {
            str(split): dict(zip(task.labels, map(int, row)))
            for split, row in zip(positives.index, positives.to_numpy())
        },
        "one_valued": one_valued,
    }
