"""What must be said beside the numbers of a run, as sentences; each is said once, and only where it
is true.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ecgbench import metrics
from ecgbench.cells import Plan
from ecgbench.ecg.draw import Count
from ecgbench.ecg.leads import LEADS
from ecgbench.results.compare import Row
from ecgbench.results.facts import DatasetFacts, ModelFacts

if TYPE_CHECKING:
    from ecgbench.results.study import Study

GRAVE = (
    "SYNTHETIC DATA",
    "RANDOM WEIGHTS",
    "OWN WEIGHTS",
    "SEEN BEFORE",
    "LIMITED",
    "NOT FINISHED",
    "INCOMPLETE",
    "UNEQUAL SEEDS",
)
"""A note that begins with one of these and a colon is grave: a page shows it before any number."""

FEW = 5
"""Labels with fewer test positives are named."""

PENDING = "not computed yet"
"""How the reason of a cell begins that nothing was stored for."""


def notes(plan: Plan, study: "Study", rows: Sequence[Row]) -> list[str]:
    """All notes of a run, the gravest first."""
    first = [r for r in rows if r.metric == study.metric]
    cells = study.cells[study.cells["metric"] == study.metric]
    some = any(r.status == "ok" for r in rows)
    sentences = [
        *_grave(study.datasets, study.models),
        *_unfinished(cells),
        *_ragged(first, study),
        *_data(study.datasets),
    ]
    sentences += [*_spread(plan, first), *_intervals(plan, rows, study)] if some else []
    sentences += [
        *_leads(plan, study.models),
        *_fits(first, study),
        *_labels(first, study),
        *_outside(rows, study),
        *_cells(cells, study),
    ]
    return [*sentences, *_away(plan, study), *_edited(rows, study)]


def _away(plan: Plan, study: "Study") -> Iterator[str]:
    for name in plan.scoring.metrics:
        if name not in (*study.metrics, *metrics.names()):
            yield (
                f"Metric {name} is a plug-in and is left out here; name its file: --metrics "
                f"{study.metric},./{name}.py."
            )


def _edited(rows: Sequence[Row], study: "Study") -> Iterator[str]:
    for name in dict.fromkeys(r.metric for r in rows for c in r.cells if c.edited):
        title = study.metrics[name].title
        yield (
            f"{title}: its file gives other values than when cells were computed; all numbers "
            f"here are of the file as it is now."
        )


def _grave(datasets: Sequence[DatasetFacts], models: Sequence[ModelFacts]) -> Iterator[str]:
    synthetic = [d.title for d in datasets if d.synthetic]
    if synthetic:
        yield (
            f"SYNTHETIC DATA: {', '.join(synthetic)} is generated, no patient was ever "
            f"recorded; its scores say nothing about patients."
        )
    random = [m.title for m in models if m.weights == "random"]
    if random:
        yield (
            f"RANDOM WEIGHTS: the encoder of {', '.join(random)} is untrained; the scores show "
            f"the harness, not the published models."
        )
    for m in models:
        if m.weights_source.get("own"):
            yield (
                f"OWN WEIGHTS: those of {m.title} come with ecgbench, not from its authors: "
                f"{m.weights_source['licence']}."
            )
    for d in datasets:
        trained = [m for m in models if m.weights != "random"]
        seen = [m.title for m in trained if d.title in m.corpora]
        if seen:
            yield (
                f"SEEN BEFORE: {', '.join(seen)} was pre-trained on {d.title}, perhaps on the "
                f"very records it is tested on here."
            )
        for m in trained:
            for part in (c for c in m.corpora if c.startswith(f"{d.title} (")):
                yield (
                    f"SEEN IN PART: {m.title} was pre-trained on {part}, the source of the "
                    f"records it is tested on here."
                )
        if d.limit is not None and d.records < d.records_prepared:
            used = (
                f"{d.title}, --limit {d.limit}: {d.records:,} of {d.records_prepared:,} "
                f"records were used"
            )
            yield f"LIMITED: {used}; intervals are wide and labels may be undefined."


def _unfinished(cells: pd.DataFrame) -> Iterator[str]:
    lost = cells[cells["status"] != "ok"]
    pending = lost["reason"].str.startswith(PENDING)
    if pending.any():
        waiting = f"{int(pending.sum())} of {len(cells)} cells are {PENDING}"
        yield f"NOT FINISHED: {waiting}; the same `ecgbench run` command goes on where it stopped."
    kinds = [
        (word, int((lost.loc[~pending, "status"] == word).sum())) for word in ("failed", "skipped")
    ]
    counts = [f"{count} {word}" for word, count in kinds if count]
    if counts:
        yield f"INCOMPLETE: {' and '.join(counts)} of {len(cells)} cells; each with its reason."


def _ragged(rows: Sequence[Row], study: "Study") -> Iterator[str]:
    fewer = [f"{_model(study, r.model)} {r.policy} at {r.leads}" for r in rows if r.ragged]
    if fewer:
        yield (
            f"UNEQUAL SEEDS: {', '.join(fewer)} averages fewer seeds than another row beside it "
            f"and is in no comparison; "
            "run it with the same --seeds and --fit-seeds."
        )


def _data(datasets: Sequence[DatasetFacts]) -> Iterator[str]:
    for d in datasets:
        copy = (
            f"this copy holds {d.records_prepared:,} of the release's {d.records_release:,} "
            f"records; "
        )
        copy = "" if d.synthetic or d.records_prepared == d.records_release else copy
        yield (
            f"{d.title}, version {d.version}: {copy}tested on {d.test_records:,} records of "
            f"{d.test_patients:,} patients."
        )
        if d.quarantined:
            yield (
                f"{d.title}: {len(d.quarantined)} unreadable records are quarantined and left out."
            )
        if d.flat:
            yield f"{d.title}: {d.flat} records have a lead without variation; they are kept."


def _spread(plan: Plan, rows: Sequence[Row]) -> Iterator[str]:
    fits = len({c.fit.seed for c in plan.cells})
    if any(np.isfinite(r.std) for r in rows):
        once = "one fit" if fits == 1 else f"the mean of {fits} fits"
        yield (
            f"(std) is the spread over the draws of leads only (ddof 1), of {once}; it is not "
            f"an uncertainty over patients."
        )


def _intervals(plan: Plan, rows: Sequence[Row], study: "Study") -> Iterator[str]:
    kind = {
        "bayesian": "Bayesian bootstrap over patients",
        "multinomial": "multinomial bootstrap over patients",
    }[plan.scoring.bootstrap]
    sentence = f"Intervals: 95 %, {kind}, {plan.scoring.draws:,} draws"
    if any(r.difference for r in rows):
        sentence += (
            " shared by all models. p: paired difference with the best of the same task "
            "and leads; post selection, "
        )
        sentence += (
            "Holm over all pairs of that task and lead setting, any of which could have "
            "held the best"
        )
    yield f"{sentence}."
    for name in dict.fromkeys(
        r.metric for r in rows for c in r.cells if c.bootstrap not in ("", plan.scoring.bootstrap)
    ):
        yield (
            f"{study.metrics[name].title}: its intervals draw patients with replacement "
            f"(multinomial bootstrap)."
        )


def _leads(plan: Plan, models: Sequence[ModelFacts]) -> Iterator[str]:
    if any(isinstance(c.setting, Count) and c.setting.k < len(LEADS) for c in plan.cells):
        drawn = (
            "one subset per record, the same in all its windows"
            if plan.scoring.draw == "record"
            else "a new subset in every window"
        )
        yield f"Random leads: {drawn}, the same for every model."
    windows = ", ".join(f"{m.title} {m.windows:.3g}" for m in models if m.windows is not None)
    if windows:
        yield f"Windows averaged per record: {windows}."


def _model(study: "Study", name: str) -> str:
    return next((m.title for m in study.models if m.name == name), name)


def _task(study: "Study", name: str) -> str:
    return next((t.title for t in study.tasks if t.name == name), name)


def _fits(rows: Sequence[Row], study: "Study") -> Iterator[str]:
    """What rows say of their fits; a fit serves several of them."""
    whose: dict[str, list[str]] = {}
    for r in rows:
        for mark in r.marks:
            whose.setdefault(mark, []).append(f"{_model(study, r.model)} ({_task(study, r.task)})")
    for mark, names in whose.items():
        yield f"Fit of {', '.join(dict.fromkeys(names))}: {mark}."


def _labels(rows: Sequence[Row], study: "Study") -> Iterator[str]:
    for task in dict.fromkeys(r.task for r in rows):
        first = next((r for r in rows if r.task == task and r.status == "ok"), None)
        if first is None:
            continue
        title, table = _task(study, task), first.cells[0].table.iloc[1:]
        undefined = list(table.loc[table["value"].isna(), "label"])
        if undefined:
            yield (
                f"{title}: {len(undefined)} labels without both values in the test set are left "
                f"out of the mean: {', '.join(undefined)}."
            )
        few = table[(table["positives"] < FEW) & table["value"].notna()]
        if len(few):
            named = ", ".join(f"{n} ({p})" for n, p in zip(few["label"], few["positives"]))
            yield f"{title}: fewer than {FEW} test positives: {named}."


def _outside(rows: Sequence[Row], study: "Study") -> Iterator[str]:
    able = [r for r in rows if r.status == "ok" and np.isfinite([r.score, *r.interval]).all()]
    outside = [r for r in able if not r.interval[0] <= r.score <= r.interval[1]]
    where = [
        f"{_model(study, r.model)} {r.policy} at {r.leads} ({_task(study, r.task)}"
        + (")" if r.metric == study.metric else f", {study.metrics[r.metric].title})")
        for r in outside
    ]
    if where:
        yield f"The estimate lies outside its interval: {'; '.join(where)}."


def _cells(cells: pd.DataFrame, study: "Study") -> Iterator[str]:
    for (model, leads, policy), part in cells[cells["blind"] > 0].groupby(
        ["model", "leads", "policy"], sort=False
    ):
        blind = f"{part['blind'].mean():.0%} of the test windows show it nothing (blind input)"
        yield f"{_model(study, str(model))} at {leads}, policy {policy}: {blind}."
    for m in study.models:
        if m.precision != "float32":
            limit = "which moved none by over 1 % of the largest on trial recordings"
            yield f"{m.title}: features computed in {m.precision}, {limit}."
    known = {m.name: m for m in study.models if m.contract}
    for (model, policy), _ in cells.groupby(["model", "policy"], sort=False):
        if model in known and policy not in (known[model].contract["policy"], "native"):
            yield _filled(known[model], str(policy))
    for model, part in cells[cells["excluded"] > 0].groupby("model", sort=False):
        left = int(part["excluded"].max())
        yield (
            f"{_model(study, str(model))}: {left} records shorter than its window are left out; "
            f"comparisons use the records in both."
        )


def _filled(model: ModelFacts, policy: str) -> str:
    """What an absent lead became under another policy than the contract's."""
    scaled = model.contract["normalisation"]
    sentence = (
        f"{model.title} under policy {policy}: an absent lead is what the policy fills in, in mV"
    )
    if scaled != "none":
        sentence += f", normalised with the others ({scaled})"
        sentence += (
            "; where it knows nothing, 0 after that" if model.contract["fill"] == "after" else ""
        )
    return f"{sentence}."
