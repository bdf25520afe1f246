"""What must be said beside the numbers of a run: conditions here, sentences in notes.j2."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ecgbench import metrics
from ecgbench.core.cells import NONE, Plan, grouped
from ecgbench.core.folders import finished
from ecgbench.core.text import counted, enumerated
from ecgbench.data import contamination
from ecgbench.ecg.draw import Count
from ecgbench.ecg.leads import LEADS
from ecgbench.evaluate import protocols
from ecgbench.results.compare import Row
from ecgbench.results.doubled import FEW
from ecgbench.results.facts import DatasetFacts, ModelFacts, TaskFacts
from ecgbench.results.origin import UNCOMMITTED
from ecgbench.results.score import firsts, over_folds
from ecgbench.study import frozen, people

if TYPE_CHECKING:
    from ecgbench.results.study import Study

SOME_TASKS = "SOME TASKS ONLY"
GRAVE = (
    *("FROZEN PLAN CHANGED", "OTHER PLAN", "DAMAGED", "SYNTHETIC DATA", "RANDOM WEIGHTS"),
    *("RANDOM START", "OWN WEIGHTS", "SEEN BEFORE", "SEEN IN PART", "NOT KNOWN WHETHER SEEN"),
    *("NOT IN MILLIVOLTS", SOME_TASKS, "LIMITED", "NOT FINISHED", "INCOMPLETE", "UNEQUAL SEEDS"),
    "UNCOMMITTED CHANGES",
)
"""A note that begins with one of these and a colon is grave: a page shows it before any number."""
PENDING = "not computed yet"
"""How the reason of a cell begins that nothing was stored for."""
NAMED = 3
"""Pairs of labels that a note names."""
_BREAK = "\0"
"""What a line break in a name is while sentences are taken apart."""


def notes(plan: Plan, study: "Study", rows: Sequence[Row]) -> list[str]:
    """All notes of a run, the gravest first."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: str(value).replace("\n", _BREAK),
    )
    environment.filters |= {
        "n": lambda number: f"{number:,}",
        "kinds": kinds,
        "counted": counted,
        "enumerated": enumerated,
        "first_pairs": _first_pairs,
    }
    known = _run(plan, study) | _rows(plan, study, rows) | _cells(study)
    text = environment.get_template("notes.j2").render(known)
    found = (" ".join(part.split("\n")).strip(" ") for part in text.split("\n\n"))
    return [note.replace(_BREAK, "\n") for note in found if note]


def _run(plan: Plan, study: "Study") -> dict[str, Any]:
    """What is known of the run and its data sets and models."""
    trained = [m for m in study.models if m.weights not in ("random", NONE)]
    return {
        "datasets": study.datasets,
        "models": study.models,
        "met": lambda data: _met(data, trained),
        "frozen_warnings": list(frozen.warnings(study.path)),
        "unfrozen": "" if frozen.read(study.path) else frozen.NONE,
        "frozen_encoder": protocols.is_frozen(plan.training.protocol),
        "people_faults": list(people.faults(study.path)),
        "synthetic": [d.title for d in study.datasets if d.synthetic],
        "random": [m.title for m in study.models if m.weights == "random"],
        "windows": [f"{m.title} {m.windows:.3g}" for m in study.models if m.windows is not None],
        "folds": any(d.folds for d in study.datasets),
        "fits": len({c.fit.seed for c in plan.cells}),
        "draws": f"{plan.scoring.draws:,} draws",
        "draw": plan.scoring.draw,
        "absent": plan.scoring.absent,
        "random_leads": any(
            isinstance(c.setting, Count) and c.setting.k < len(LEADS) for c in plan.cells
        ),
        "dirty": sum(r.uncommitted for r in study.results),
        "n_results": len(study.results),
        "fits_gone": study.scorer and sum(not finished(r.fit_folder) for r in study.results),
        "metric": study.metric,
        "away": [m for m in plan.scoring.metrics if m not in (*study.metrics, *metrics.names())],
        "FEW": FEW,
        "UNCOMMITTED": UNCOMMITTED,
    }


def _met(data: DatasetFacts, trained: Sequence[ModelFacts]) -> dict[str, Any]:
    """What models that were pre-trained have seen of a dataset, or may have."""
    every = [(m.title, *contamination.met(m.corpora, data.name, data.title)) for m in trained]
    return {
        "seen": [title for title, how, _ in every if how in ("equal", "contains")],
        "rest": [(title, how, ", ".join(corpora)) for title, how, corpora in every],
    }


def _rows(plan: Plan, study: "Study", rows: Sequence[Row]) -> dict[str, Any]:
    """What is known of the rows of the main table."""
    first = [r for r in rows if r.metric == study.metric]
    some = any(r.status == "ok" for r in rows)
    lacking = [d.title for d in study.datasets if not people.is_known(study.path, d.name)]
    used = {r.metric: c.bootstrap for r in rows for c in r.cells if c.bootstrap}
    marks = {mark: [r for r in first if mark in r.marks] for r in first for mark in r.marks}
    return {
        "some_ok": some,
        "people_lacking": lacking if study.scorer and some else [],
        "ragged": [_column(study, r) for r in first if r.ragged],
        "spread": any(np.isfinite(r.std) for r in first),
        "bootstraps": {
            how: [study.metrics[name].title for name in names]
            for how, names in grouped(list(used), used.__getitem__).items()
        },
        "compared": any(r.difference for r in rows),
        "none_trained": study.main["value"].notna().any() and all(r.untrained for r in rows),
        "p_will_change": any(PENDING in str(c) for c in study.cells["reason"])
        and any(r.p == r.p for r in rows),
        "marks": {
            mark: list(dict.fromkeys(_fit(study, r) for r in own)) for mark, own in marks.items()
        },
        "tasks": list(_tasks(study, first)),
        "outside": [
            _fit(study, r, _column(study, r))
            for r in rows
            if r.score < r.sure.low or r.score > r.sure.high
        ],
        "edited": [
            study.metrics[name].title
            for name in dict.fromkeys(r.metric for r in rows for c in r.cells if c.edited)
        ],
    }


def _tasks(study: "Study", rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """What is known of the labels of each task: how many are unknown, which count records twice,
    which have a score in some folds only or in none, and which have few positives.
    """
    for task in study.tasks:
        row = next((r for r in rows if r.task == task.name and r.status == "ok"), None)
        if row is None:
            continue
        table, folds, cell = over_folds(row.cells), firsts(row.cells), row.cells[0]
        records = sum(c.n_records for c in folds)
        known = dict(zip(table["label"], map(int, table["n"])))
        every = records * len(known)
        labels = list(zip(table["label"], table["positives"], table["valued"]))
        yield {
            **asdict(task),
            "records": records,
            "known": known,
            "unknown": (every - sum(known.values())) / max(every, 1),
            "least": min(known, key=known.__getitem__),
            "alike": [f"{same} and {label}" for label, same in zip(known, cell.same_as) if same],
            "n_distinct": cell.n_distinct,
            "nested": [f"{inner} in {outer}" for inner, outer in cell.nested],
            "empty": [c.cell.fit.fold for c in folds if c.empty],
            "in_some": [
                f"{label} ({valued} of {len(folds)})"
                for label, _, valued in labels
                if 0 < valued < len(folds)
            ],
            "undefined": [label for label, _, valued in labels if valued == 0],
            "few": [f"{label} ({n})" for label, n, valued in labels if n < FEW and valued],
        }


def _cells(study: "Study") -> dict[str, Any]:
    """What is known of the cells of the first metric."""
    cells = study.cells[study.cells["metric"] == study.metric]
    pending = cells["reason"].str.startswith(PENDING)
    states = cells.loc[~pending, "status"].value_counts()
    done = cells[cells["status"] == "ok"]
    blind = cells[cells["blind"] > 0].groupby(["model", "leads", "policy"], sort=False)["blind"]
    short = cells[cells["excluded"] > 0].groupby("model", sort=False)["excluded"].max()
    known = {m.name: m for m in study.models if m.contract}
    columns = dict.fromkeys(zip(cells["model"], cells["policy"]))
    return {
        "n_cells": len(cells),
        "pending": int(pending.sum()),
        "without": [
            f"{states[word]} {word}" for word in ("failed", "damaged", "skipped") if word in states
        ],
        "blind": [
            (_title(study.models, model), leads, policy, share)
            for model, leads, policy, share in blind.mean().reset_index().to_numpy()
        ],
        "filled": [
            (known[model], policy)
            for model, policy in columns
            if model in known and policy not in (known[model].contract["policy"], "native")
        ],
        "excluded": [(_title(study.models, str(m)), int(count)) for m, count in short.items()],
        "environments": [
            f"{_title(study.models, str(model))} ({', '.join(sorted(set(own)))})"
            for model, own in done.groupby("model", sort=False)["environment"]
        ]
        if done["environment"].nunique() > 1
        else [],
    }


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


def kinds(counts: Mapping[str, int]) -> str:
    """Counted things in words: "a lead that is a copy of another 3; ..."."""
    return "; ".join(f"{what} {count:,}" for what, count in counts.items())


def _first_pairs(pairs: Sequence[str]) -> str:
    more = f" and {len(pairs) - NAMED} more" if len(pairs) > NAMED else ""
    return f"{', '.join(pairs[:NAMED])}{more}"


def _title(of: Sequence[ModelFacts] | Sequence[TaskFacts], name: str) -> str:
    return next((facts.title for facts in of if facts.name == name), name)


def _column(study: "Study", row: Row) -> str:
    return f"{_title(study.models, row.model)} {row.policy} at {row.leads}"


def _fit(study: "Study", row: Row, named: str = "") -> str:
    """A model and its task; named: in its place, with the metric where it is not the first."""
    where = _title(study.tasks, row.task)
    if named and row.metric != study.metric:
        where += f", {study.metrics[row.metric].title}"
    return f"{named or _title(study.models, row.model)} ({where})"
