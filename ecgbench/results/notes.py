"""What must be said beside the numbers of a run, as sentences; each is said once, and only where it
is true.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ecgbench import metrics
from ecgbench.core.cells import NONE, Plan
from ecgbench.core.folders import finished
from ecgbench.core.text import counted, enumerated
from ecgbench.data import contamination as corpora
from ecgbench.ecg.draw import Count
from ecgbench.ecg.leads import LEADS
from ecgbench.evaluate import protocols
from ecgbench.results import label_notes, origin, people
from ecgbench.results.compare import Row
from ecgbench.results.doubled import FEW
from ecgbench.results.facts import DatasetFacts, ModelFacts, TaskFacts
from ecgbench.results.score import firsts, over_folds
from ecgbench.study import frozen

if TYPE_CHECKING:
    from ecgbench.results.study import Study

SOME_TASKS = "SOME TASKS ONLY"
GRAVE = (
    "FROZEN PLAN CHANGED",
    "OTHER PLAN",
    "DAMAGED",
    "SYNTHETIC DATA",
    "RANDOM WEIGHTS",
    "RANDOM START",
    "OWN WEIGHTS",
    "SEEN BEFORE",
    "SEEN IN PART",
    "NOT KNOWN WHETHER SEEN",
    "NOT IN MILLIVOLTS",
    SOME_TASKS,
    "LIMITED",
    "NOT FINISHED",
    "INCOMPLETE",
    "UNEQUAL SEEDS",
    "UNCOMMITTED CHANGES",
)
"""A note that begins with one of these and a colon is grave: a page shows it before any number."""


PENDING = "not computed yet"
"""How the reason of a cell begins that nothing was stored for."""


def notes(plan: Plan, study: "Study", rows: Sequence[Row]) -> list[str]:
    """All notes of a run, the gravest first."""
    first = [r for r in rows if r.metric == study.metric]
    cells = study.cells[study.cells["metric"] == study.metric]
    some = any(r.status == "ok" for r in rows)
    return [
        *frozen.warnings(study.path),
        *(f"DAMAGED: {fault}." for fault in people.faults(study.path)),
        *_grave(study.datasets, study.models, plan.training.protocol),
        *_unfinished(cells),
        *_ragged(first, study),
        *origin.notes(study),
        *_data(study.datasets),
        *(_people(study) if some else ()),
        *_spread(plan, first),
        *(_intervals(plan, rows, study) if some else ()),
        *_leads(plan, study.models),
        *_fits(first, study),
        *_labels(first, study),
        *_outside(rows, study),
        *_cells(cells, study),
        *_environments(cells, study),
        *_away(plan, study),
        *_edited(rows, study),
        *([] if frozen.read(study.path) else [frozen.NONE]),
    ]


def left_out(whole: Plan, shown: Plan) -> list[str]:
    """That a report shows some tasks of a run."""
    tasks, named = (list(dict.fromkeys(c.task for c in plan.cells)) for plan in (whole, shown))
    others = [task for task in tasks if task not in named]
    if not others:
        return []
    return [
        f"{SOME_TASKS}: {counted(len(named), 'task')} of the {len(tasks)} of this run (--tasks); "
        f"ranks, means and corrected p are of "
        f"{'it' if len(named) == 1 else 'these'} alone. Left out: {enumerated(others)}."
    ]


def _people(study: "Study") -> Iterator[str]:
    lacking = [d.title for d in study.datasets if not people.is_known(study.path, d.name)]
    if study.scorer and lacking:
        yield (
            f"Ages, sexes, devices and sites of the patients of {enumerated(lacking)} are not "
            f"known: the run folder does not hold them as they were written. The same "
            f"`ecgbench run` command writes them again."
        )


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


def _grave(
    datasets: Sequence[DatasetFacts], models: Sequence[ModelFacts], protocol: str
) -> Iterator[str]:
    if synthetic := [d.title for d in datasets if d.synthetic]:
        yield (
            f"SYNTHETIC DATA: {', '.join(synthetic)} is generated, no patient was ever "
            f"recorded; its scores say nothing about patients."
        )
    if random := [m.title for m in models if m.weights == "random"]:
        named = ", ".join(random)
        yield (
            f"RANDOM START: {named} was fine-tuned from random weights; the scores are not those "
            f"of the published models."
            if not protocols.is_frozen(protocol)
            else f"RANDOM WEIGHTS: the encoder of {named} is untrained; the scores show the "
            f"harness, not the published models."
        )
    for m in models:
        if m.weights_source.get("own"):
            yield (
                f"OWN WEIGHTS: those of {m.title} come with ecgbench, not from its authors: "
                f"{m.weights_source['licence']}."
            )
    trained = [m for m in models if m.weights != "random"]
    for d in datasets:
        yield from _met(d, trained)
        if d.limit is not None and d.records < d.records_prepared:
            yield (
                f"LIMITED: {d.title}, --limit {d.limit}: {d.records:,} of {d.records_prepared:,} "
                f"records were used; intervals are wide and labels may be undefined."
            )


def _met(data: DatasetFacts, trained: Sequence[ModelFacts]) -> Iterator[str]:
    """What models that were pre-trained have seen of a dataset, or may have."""
    able = [m for m in trained if m.weights != NONE]
    every = [(m.title, *corpora.met(m.corpora, data.name, data.title)) for m in able]
    seen = [title for title, how, _ in every if how in ("equal", "contains")]
    if seen:
        yield (
            f"SEEN BEFORE: {', '.join(seen)} was pre-trained on {data.title}, perhaps on the very "
            f"records it is tested on here."
        )
    for title, how, from_ in every:
        named = ", ".join(from_)
        if how == "part":
            yield (
                f"SEEN IN PART: {title} was pre-trained on {named}, the source of the records it "
                f"is tested on here."
            )
        elif how == "overlaps":
            yield (
                f"SEEN IN PART: {title} was pre-trained on {named}, which shares recordings with "
                f"{data.title}."
            )
        elif how == "unknown":
            yield (
                f"NOT KNOWN WHETHER SEEN: {title} was pre-trained on {named or 'data'} of which "
                f"nothing says whether records of {data.title} are among them."
            )


def _unfinished(cells: pd.DataFrame) -> Iterator[str]:
    pending = cells["reason"].str.startswith(PENDING)
    if pending.any():
        waiting = f"{pending.sum()} of {len(cells)} cells are {PENDING}"
        yield f"NOT FINISHED: {waiting}; the same `ecgbench run` command goes on where it stopped."
    states = cells.loc[~pending, "status"].value_counts()
    counts = [
        f"{states[word]} {word}" for word in ("failed", "damaged", "skipped") if word in states
    ]
    if counts:
        yield f"INCOMPLETE: {enumerated(counts)} of {len(cells)} cells; each with its reason."


def _ragged(rows: Sequence[Row], study: "Study") -> Iterator[str]:
    fewer = [_column(study, r) for r in rows if r.ragged]
    if fewer:
        yield (
            f"UNEQUAL SEEDS: {', '.join(fewer)} averages fewer seeds than another row beside it "
            f"and is in no comparison; run it with the same --seeds and training.seeds."
        )


def _data(datasets: Sequence[DatasetFacts]) -> Iterator[str]:
    for d in datasets:
        part = f"this copy holds {d.records_prepared:,} of the release's {d.records_release:,} "
        whole = d.synthetic or d.records_prepared == d.records_release
        yield (
            f"{d.title}, version {d.version}: {'' if whole else f'{part}records; '}tested on "
            f"{d.test_records:,} records of {d.test_patients:,} patients."
        )
        if d.division:
            yield f"{d.title}: {d.division}."
        if lost := len(d.quarantined):
            yield f"{d.title}: {lost} unreadable records are quarantined and left out."
        for reason, count in d.excluded.items():
            yield f"{d.title}: {count:,} records are left out by its rule: {reason}."
        for what, count in d.left_out.items():
            yield f"{d.title}: {count:,} records with {what} are left out (data.exclude)."
        if d.unit != "mV":
            yield (
                f"NOT IN MILLIVOLTS: the signals of {d.title} are {d.unit}, and every model here "
                f"was made for mV; what it would do with mV cannot be told from these numbers."
            )
        for caution in d.cautions:
            yield f"{d.title}: {caution}."
        if d.fewer_leads:
            yield (
                f"{d.title}: {d.fewer_leads:,} of {d.records:,} records have fewer than twelve "
                f"leads; random leads are drawn among those that a record has, and a record is "
                f"left out where it cannot give the leads of a setting."
            )
        if d.flat:
            yield (
                f"{d.title}: {d.flat:,} of {d.records:,} records ({d.flat / d.records:.1%}) have a "
                f"lead without variation; they are kept "
                f"(--set data.exclude=flat_leads leaves them out)."
            )
        yield from _checked(d)


def _checked(d: DatasetFacts) -> Iterator[str]:
    """What the checks of preparation found, and what was repaired."""
    if d.suspect:
        yield (
            f"{d.title}: {d.suspect:,} of {d.records:,} records ({d.suspect / d.records:.2%}) are "
            f"perhaps not what they are called: {kinds(d.found)}; they are kept."
        )
    if d.repaired or d.fix:
        how = "prepared with --fix; " if d.fix else ""
        what = f" ({kinds(d.fixed)})" if d.fixed else ""
        yield f"{d.title}: {how}{d.repaired:,} of {d.records:,} records are repaired{what}."


def kinds(counts: Mapping[str, int]) -> str:
    """Counted things in words: "a lead that is a copy of another 3; ..."."""
    return "; ".join(f"{what} {count:,}" for what, count in counts.items())


def _spread(plan: Plan, rows: Sequence[Row]) -> Iterator[str]:
    if any(np.isfinite(r.std) for r in rows):
        fits = len({c.fit.seed for c in plan.cells})
        once = "one fit" if fits == 1 else f"the mean of {fits} fits"
        yield (
            f"(std) is the spread over the draws of leads only (ddof 1), of {once}; it is not "
            f"an uncertainty over patients."
        )


def _intervals(plan: Plan, rows: Sequence[Row], study: "Study") -> Iterator[str]:
    draws = f"{plan.scoring.draws:,} draws"
    ways = {
        "none": "from the placements of records, over patients (docs/intervals.md)",
        "bayesian": f"Bayesian bootstrap over patients, {draws}",
        "multinomial": f"multinomial bootstrap over patients, {draws}",
        "records": f"bootstrap over records as if each were a patient, {draws}",
    }
    used = {r.metric: c.bootstrap for r in rows for c in r.cells if c.bootstrap}
    for how in dict.fromkeys(used.values()):
        named = [study.metrics[name].title for name, own in used.items() if own == how]
        of = f" of {', '.join(named)}" if len(set(used.values())) > 1 else ""
        yield f"Intervals{of}: 95 %, {ways[how]}."
    fits = len({c.fit.seed for c in plan.cells})
    given = "this one fit" if fits == 1 else f"such a fit (the spread between {fits} is in them)"
    folds = any(d.folds for d in study.datasets)
    given = f"{given} in each fold" if folds else given
    yield (
        f"They hold for the labels that have both values in this test set, for {given}, and for "
        f"these draws of leads."
    )
    if folds:
        yield (
            "A score over folds is the mean of the scores within each fold; records of different "
            "folds are never ranked together. How much other training records would change a score "
            "is not in its interval."
        )
    if any(r.difference for r in rows):
        yield (
            "p: paired difference with the best trained column of the same task and leads; post "
            "selection, Holm over all pairs of trained columns of that task and lead setting, any "
            "of which could have held the best."
        )
    if plan.scoring.absent == "half":
        yield "A label without both values counts 0.5 in the mean, as in the reference benchmark."
    if study.main["value"].notna().any() and all(r.untrained for r in rows):
        yield "No column is trained: there is no best, and nothing is tested."
    if any(PENDING in str(c) for c in study.cells["reason"]) and any(r.p == r.p for r in rows):
        yield "Rows that are not computed yet count with p = 1: corrected p will change with them."


def _leads(plan: Plan, models: Sequence[ModelFacts]) -> Iterator[str]:
    if any(isinstance(c.setting, Count) and c.setting.k < len(LEADS) for c in plan.cells):
        drawn = {
            "record": "one subset per record, the same in all its windows",
            "window": "a new subset in every window",
        }
        yield f"Random leads: {drawn[plan.scoring.draw]}, the same for every model."
    windows = ", ".join(f"{m.title} {m.windows:.3g}" for m in models if m.windows is not None)
    if windows:
        yield f"Windows averaged per record: {windows}."


def _title(of: Sequence[ModelFacts] | Sequence[TaskFacts], name: str) -> str:
    return next((facts.title for facts in of if facts.name == name), name)


def _column(study: "Study", row: Row) -> str:
    return f"{_title(study.models, row.model)} {row.policy} at {row.leads}"


def _fits(rows: Sequence[Row], study: "Study") -> Iterator[str]:
    """What rows say of their fits; a fit serves several of them."""
    whose: dict[str, list[str]] = {}
    for r in rows:
        for mark in r.marks:
            whose.setdefault(mark, []).append(
                f"{_title(study.models, r.model)} ({_title(study.tasks, r.task)})"
            )
    for mark, names in whose.items():
        yield f"Fit of {', '.join(dict.fromkeys(names))}: {mark}."
    lost = [r for r in study.results if not finished(r.fit_folder)]
    if study.scorer and lost:
        yield (
            f"The fits of {len(lost)} of {counted(len(study.results), 'cell')} are not in the run "
            f"folder as they were written: what they said of themselves is not known. The same "
            f"`ecgbench run` command fits them again."
        )


def _labels(rows: Sequence[Row], study: "Study") -> Iterator[str]:
    for task in dict.fromkeys(r.task for r in rows):
        first = next((r for r in rows if r.task == task and r.status == "ok"), None)
        if first is None:
            continue
        title, table = _title(study.tasks, task), over_folds(first.cells)
        facts = next(t for t in study.tasks if t.name == task)
        if facts.paper not in (None, facts.n_labels):
            yield (
                f"{title}: {facts.n_labels} labels where the paper has {facts.paper}; do not "
                f"compare its mean with the paper's."
            )
        if facts.counted is False:
            yield (
                f"{title}: its {facts.n_labels} labels are the vocabulary, not counted; the "
                f"complete release drops those of few records."
            )
        if facts.absent:
            yield f"{title}: 0 means {facts.absent}; labels chosen by: {facts.rule}."
        records = sum(c.n_records for c in firsts(first.cells))
        yield from label_notes.unknown(title, table, records)
        yield from label_notes.doubled(title, first.cells[0])
        yield from label_notes.some_folds(title, first)
        if undefined := list(table.loc[table["valued"] == 0, "label"]):
            yield (
                f"{title}: {len(undefined)} labels without both values in the test set are left "
                f"out of the mean: {', '.join(undefined)}."
            )
        few = table[(table["positives"] < FEW) & (table["valued"] > 0)]
        if len(few):
            named = ", ".join(f"{n} ({p})" for n, p in zip(few["label"], few["positives"]))
            yield f"{title}: fewer than {FEW} test positives: {named}."


def _outside(rows: Sequence[Row], study: "Study") -> Iterator[str]:
    where = [
        f"{_column(study, r)} ({_title(study.tasks, r.task)}"
        + (")" if r.metric == study.metric else f", {study.metrics[r.metric].title})")
        for r in rows
        if r.score < r.sure.low or r.score > r.sure.high
    ]
    if where:
        yield f"The estimate lies outside its interval: {'; '.join(where)}."


def _cells(cells: pd.DataFrame, study: "Study") -> Iterator[str]:
    for (model, leads, policy), part in cells[cells["blind"] > 0].groupby(
        ["model", "leads", "policy"], sort=False
    ):
        blind = f"{part['blind'].mean():.0%} of the test windows show it nothing (blind input)"
        yield f"{_title(study.models, str(model))} at {leads}, policy {policy}: {blind}."
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
            f"{_title(study.models, str(model))}: {left} records shorter than its window are left "
            f"out; comparisons use the records in both."
        )


def _environments(cells: pd.DataFrame, study: "Study") -> Iterator[str]:
    """Columns that are compared across versions of torch or kinds of device, and plug-ins of which
    no feature was computed again.
    """
    done = cells[cells["status"] == "ok"]
    if done["environment"].nunique() > 1:
        named = [
            f"{_title(study.models, str(model))} ({', '.join(sorted(set(part['environment'])))})"
            for model, part in done.groupby("model", sort=False)
        ]
        yield (
            f"Computed in several environments, which may move the last bits of a number: "
            f"{', '.join(named)}; `--set run.same_environment=on` refuses this."
        )


def _filled(model: ModelFacts, policy: str) -> str:
    """What an absent lead became under another policy than the contract's."""
    scaled = model.contract["normalisation"]
    scaling = "" if scaled == "none" else f", normalised with the others ({scaled})"
    if scaling and model.contract["fill"] == "after":
        scaling += "; where it knows nothing, 0 after that"
    return (
        f"{model.title} under policy {policy}: an absent lead is what the policy fills in, in "
        f"mV{scaling}."
    )
