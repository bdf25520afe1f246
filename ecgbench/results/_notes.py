"""What must be said beside the numbers of a run, as sentences; each is said only where it is true."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ecgbench.cells import Plan
from ecgbench.results.compare import Row

FEW = 5
"""Labels with fewer test positives are named."""


def notes(plan: Plan, facts: dict[str, Any], rows: Sequence[Row], cells: pd.DataFrame) -> list[str]:
    """All notes of a run, the gravest first."""
    return [*_data(facts), *_weights(facts), *_reading(plan, rows, facts), *_labels(rows), *_cells(cells, plan)]


def _data(facts: dict[str, Any]) -> Iterator[str]:
    for d in facts["datasets"].values():
        if d["synthetic"]:
            yield f"SYNTHETIC DATA: {d['title']} is generated; its scores say nothing about patients."
        if d["limit"] is not None and d["records"] < d["records_prepared"]:
            yield f"{d['title']}: --limit {d['limit']}, {d['records']} of {d['records_prepared']} records were used."
        if not d["synthetic"] and d["records_prepared"] < d["records_release"]:
            yield f"{d['title']}: this copy holds {d['records_prepared']} of the release's {d['records_release']} records."
        if d["quarantined"]:
            yield f"{d['title']}: {len(d['quarantined'])} records are quarantined and left out."
        if d["flat"]:
            yield f"{d['title']}: {d['flat']} records have a lead without variation; they are kept."


def _weights(facts: dict[str, Any]) -> Iterator[str]:
    random = [m["title"] for m in facts["models"].values() if m["weights"] == "random"]
    if random:
        yield f"RANDOM WEIGHTS: {', '.join(random)} ran untrained; the scores show the harness, not the models."


def _reading(plan: Plan, rows: Sequence[Row], facts: dict[str, Any]) -> Iterator[str]:
    fits = len({c.fit.seed for c in plan.cells})
    if any(np.isfinite(r.std) for r in rows):
        once = "one fit" if fits == 1 else f"the mean of {fits} fits"
        yield f"(std) is the spread over the draws of leads only (ddof 1), of {once}; it is not an uncertainty over patients."
    kind = {"bayesian": "Bayesian bootstrap over patients", "multinomial": "multinomial bootstrap over patients"}[plan.scoring.bootstrap]
    yield (
        f"Intervals: 95 %, {kind}, {plan.scoring.draws} draws shared by all models. p: paired difference with the best of the same task "
        "and leads; post selection, Holm over the comparisons of that task and lead setting."
    )
    leads = "one subset per record, the same in all its windows" if plan.scoring.draw == "record" else "a new subset in every window"
    windows = ", ".join(f"{m['title']} {m['windows']:g}" for m in facts["models"].values())
    yield f"Random leads: {leads}, the same for every model. Windows averaged per record: {windows}."


def _labels(rows: Sequence[Row]) -> Iterator[str]:
    for task in dict.fromkeys(r.task for r in rows):
        first = next((r for r in rows if r.task == task and r.status == "ok"), None)
        if first is None:
            continue
        table = first.cells[0].scores.iloc[1:]
        undefined = list(table.loc[table["auroc"].isna(), "label"])
        if undefined:
            yield f"{task}: {len(undefined)} labels without both values in the test set are left out of the mean: {', '.join(undefined)}."
        few = table[(table["positives"] < FEW) & table["auroc"].notna()]
        if len(few):
            named = ", ".join(f"{n} ({p})" for n, p in zip(few["label"], few["positives"]))
            yield f"{task}: fewer than {FEW} test positives: {named}."
    outside = [f"{r.task} {r.model} {r.leads}" for r in rows if r.status == "ok" and not r.interval[0] <= r.score <= r.interval[1]]
    if outside:
        yield f"The estimate lies outside its interval: {'; '.join(outside)}."


def _cells(cells: pd.DataFrame, plan: Plan) -> Iterator[str]:
    for (model, leads), part in cells[cells["blind"] > 0].groupby(["model", "leads"], sort=False):
        yield f"{model} at {leads}: {part['blind'].mean():.0%} of the test windows show it none of its leads (blind input)."
    for model, part in cells[cells["excluded"] > 0].groupby("model", sort=False):
        yield f"{model}: {int(part['excluded'].max())} records shorter than its window are left out; comparisons use the records in both."
    lost = cells["lost"].sum()
    if lost:
        yield f"Classes lost in bootstrap draws: {int(lost)} (label x draw); left out of that draw."
