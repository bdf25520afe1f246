"""What must be said beside the numbers of a run, as sentences; each is said once, and only where it is true."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ecgbench.cells import Plan
from ecgbench.ecg.draw import Count
from ecgbench.ecg.leads import LEADS
from ecgbench.results.compare import Row

GRAVE = ("SYNTHETIC DATA", "RANDOM WEIGHTS", "OWN WEIGHTS", "SEEN BEFORE", "LIMITED", "NOT FINISHED", "INCOMPLETE", "UNEQUAL SEEDS")
"""A note that begins with one of these and a colon is grave: a page shows it before any number."""

FEW = 5
"""Labels with fewer test positives are named."""

PENDING = "not computed yet"
"""How the reason of a cell begins that nothing was stored for."""


def notes(plan: Plan, facts: dict[str, Any], rows: Sequence[Row], cells: pd.DataFrame) -> list[str]:
    """All notes of a run, the gravest first."""
    models = [facts["models"][m] for m in dict.fromkeys(c.fit.model for c in plan.cells) if m in facts["models"]]
    some = any(r.status == "ok" for r in rows)
    said = [*_grave(facts, models), *_unfinished(cells), *_ragged(rows, facts), *_data(facts)]
    said += [*_spread(plan, rows), *_intervals(plan, rows)] if some else []
    return [*said, *_leads(plan, models), *_labels(rows, facts), *_outside(rows, facts), *_cells(cells, facts)]


def _grave(facts: dict[str, Any], models: Sequence[dict[str, Any]]) -> Iterator[str]:
    datasets = facts["datasets"].values()
    synthetic = [d["title"] for d in datasets if d["synthetic"]]
    if synthetic:
        yield f"SYNTHETIC DATA: {', '.join(synthetic)} is generated, no patient was ever recorded; its scores say nothing about patients."
    random = [m["title"] for m in models if m["weights"] == "random"]
    if random:
        yield f"RANDOM WEIGHTS: the encoder of {', '.join(random)} is untrained; the scores show the harness, not the published models."
    for m in models:
        source = m.get("weights_source") or {}
        if source.get("own"):
            yield f"OWN WEIGHTS: those of {m['title']} come with ecgbench, not from its authors: {source['licence']}."
    for d in datasets:
        trained = [m for m in models if m["weights"] != "random"]
        met = [m["title"] for m in trained if d["title"] in m.get("corpora", ())]
        if met:
            yield f"SEEN BEFORE: {', '.join(met)} was pre-trained on {d['title']}, perhaps on the very records it is tested on here."
        for m in trained:
            for part in (c for c in m.get("corpora", ()) if c.startswith(f"{d['title']} (")):
                yield f"SEEN IN PART: {m['title']} was pre-trained on {part}, the source of the records it is tested on here."
        if d["limit"] is not None and d["records"] < d["records_prepared"]:
            used = f"{d['title']}, --limit {d['limit']}: {d['records']:,} of {d['records_prepared']:,} records were used"
            yield f"LIMITED: {used}; intervals are wide and labels may be undefined."


def _unfinished(cells: pd.DataFrame) -> Iterator[str]:
    lost = cells[cells["status"] != "ok"]
    pending = lost["reason"].str.startswith(PENDING)
    if pending.any():
        waiting = f"{int(pending.sum())} of {len(cells)} cells are {PENDING}"
        yield f"NOT FINISHED: {waiting}; the same `ecgbench run` command goes on where it stopped."
    kinds = [(word, int((lost.loc[~pending, "status"] == word).sum())) for word in ("failed", "skipped")]
    words = [f"{count} {word}" for word, count in kinds if count]
    if words:
        yield f"INCOMPLETE: {' and '.join(words)} of {len(cells)} cells; each with its reason."


def _ragged(rows: Sequence[Row], facts: dict[str, Any]) -> Iterator[str]:
    found = [f"{_title(facts, 'models', r.model)} {r.policy} at {r.leads}" for r in rows if r.ragged]
    if found:
        yield (
            f"UNEQUAL SEEDS: {', '.join(found)} averages fewer seeds than another row beside it and is in no comparison; "
            "run it with the same --seeds and --fit-seeds."
        )


def _data(facts: dict[str, Any]) -> Iterator[str]:
    for d in facts["datasets"].values():
        if d["synthetic"] or d["records_prepared"] == d["records_release"]:
            copy = ""
        else:
            copy = f"this copy holds {d['records_prepared']:,} of the release's {d['records_release']:,} records; "
        yield f"{d['title']}, version {d['version']}: {copy}tested on {d['test_records']:,} records of {d['test_patients']:,} patients."
        if d["quarantined"]:
            yield f"{d['title']}: {len(d['quarantined'])} unreadable records are quarantined and left out."
        if d["flat"]:
            yield f"{d['title']}: {d['flat']} records have a lead without variation; they are kept."


def _spread(plan: Plan, rows: Sequence[Row]) -> Iterator[str]:
    fits = len({c.fit.seed for c in plan.cells})
    if any(np.isfinite(r.std) for r in rows):
        once = "one fit" if fits == 1 else f"the mean of {fits} fits"
        yield f"(std) is the spread over the draws of leads only (ddof 1), of {once}; it is not an uncertainty over patients."


def _intervals(plan: Plan, rows: Sequence[Row]) -> Iterator[str]:
    kind = {"bayesian": "Bayesian bootstrap over patients", "multinomial": "multinomial bootstrap over patients"}[plan.scoring.bootstrap]
    said = f"Intervals: 95 %, {kind}, {plan.scoring.draws:,} draws"
    if any(r.difference for r in rows):
        said += " shared by all models. p: paired difference with the best of the same task and leads; post selection, "
        said += "Holm over all pairs of that task and lead setting, any of which could have held the best"
    yield f"{said}."


def _leads(plan: Plan, models: Sequence[dict[str, Any]]) -> Iterator[str]:
    if any(isinstance(c.setting, Count) and c.setting.k < len(LEADS) for c in plan.cells):
        drawn = "one subset per record, the same in all its windows" if plan.scoring.draw == "record" else "a new subset in every window"
        yield f"Random leads: {drawn}, the same for every model."
    windows = ", ".join(f"{m['title']} {m['windows']:.3g}" for m in models if "windows" in m)
    if windows:
        yield f"Windows averaged per record: {windows}."


def _title(facts: dict[str, Any], kind: str, name: str) -> str:
    return str(facts[kind].get(name, {}).get("title", name))


def _labels(rows: Sequence[Row], facts: dict[str, Any]) -> Iterator[str]:
    for task in dict.fromkeys(r.task for r in rows):
        first = next((r for r in rows if r.task == task and r.status == "ok"), None)
        if first is None:
            continue
        title, table = _title(facts, "tasks", task), first.cells[0].scores.iloc[1:]
        undefined = list(table.loc[table["auroc"].isna(), "label"])
        if undefined:
            yield f"{title}: {len(undefined)} labels without both values in the test set are left out of the mean: {', '.join(undefined)}."
        few = table[(table["positives"] < FEW) & table["auroc"].notna()]
        if len(few):
            named = ", ".join(f"{n} ({p})" for n, p in zip(few["label"], few["positives"]))
            yield f"{title}: fewer than {FEW} test positives: {named}."


def _outside(rows: Sequence[Row], facts: dict[str, Any]) -> Iterator[str]:
    able = [r for r in rows if r.status == "ok" and np.isfinite([r.score, *r.interval]).all()]
    outside = [r for r in able if not r.interval[0] <= r.score <= r.interval[1]]
    where = [f"{_title(facts, 'models', r.model)} {r.policy} at {r.leads} ({_title(facts, 'tasks', r.task)})" for r in outside]
    if where:
        yield f"The estimate lies outside its interval: {'; '.join(where)}."


def _cells(cells: pd.DataFrame, facts: dict[str, Any]) -> Iterator[str]:
    for (model, leads, policy), part in cells[cells["blind"] > 0].groupby(["model", "leads", "policy"], sort=False):
        name = _title(facts, "models", str(model))
        yield f"{name} at {leads}, policy {policy}: {part['blind'].mean():.0%} of the test windows show it nothing (blind input)."
    for about in facts["models"].values():
        if about.get("precision", "float32") != "float32":
            limit = "which moved none by over 1 % of the largest on trial recordings"
            yield f"{about['title']}: features computed in {about['precision']}, {limit}."
    for (model, policy), _ in cells.groupby(["model", "policy"], sort=False):
        contract = facts["models"].get(model, {}).get("contract")
        if contract and policy not in (contract["policy"], "native"):
            name, scaled = _title(facts, "models", str(model)), contract["normalisation"]
            told = f"{name} under policy {policy}: an absent lead is what the policy fills in, in mV"
            if scaled != "none":
                told += f", normalised with the others ({scaled})"
                told += "; where it knows nothing, 0 after that" if contract["fill"] == "after" else ""
            yield told + "."
    for model, part in cells[cells["excluded"] > 0].groupby("model", sort=False):
        left = int(part["excluded"].max())
        name = _title(facts, "models", str(model))
        yield f"{name}: {left} records shorter than its window are left out; comparisons use the records in both."
    for task, lost in cells.groupby("task", sort=False)["lost"].max().items():
        if lost > 0:
            name = _title(facts, "tasks", str(task))
            yield f"{name}: the bootstrap lost a class {int(lost)} times (labels x draws, shared by all cells); left out of that draw."
