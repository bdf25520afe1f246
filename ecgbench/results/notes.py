"""What must be said beside the numbers of a run: conditions here, sentences in notes.j2."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ecgbench import metrics
from ecgbench.cards.cell import NONE, RANDOM
from ecgbench.cards.plan import Plan
from ecgbench.core.folders import finished
from ecgbench.core.keys import grouped
from ecgbench.core.note import Note
from ecgbench.core.text import counted, enumerated
from ecgbench.data import contamination
from ecgbench.ecg.draw import Count
from ecgbench.ecg.leads import LEADS
from ecgbench.evaluate import protocols
from ecgbench.results.compare import Row
from ecgbench.results.facts import DatasetFacts, ModelFacts, TaskFacts
from ecgbench.results.origin import UNCOMMITTED
from ecgbench.results.score import over_folds
from ecgbench.study import frozen, people

if TYPE_CHECKING:
    from ecgbench.results.study import Run

FEW = 5
"""A label with fewer test positives is named."""
NAMED = 3
"""Pairs of labels that a note names."""


def notes(plan: Plan, study: "Run", rows: Sequence[Row]) -> list[Note]:
    """All notes of a run, the gravest first."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    found = list(frozen.warnings(study.path))
    found += [Note("DAMAGED", f"{fault}.") for fault in people.faults(study.path)]

    def note(when: object = True, kind: str = "", *, caller: Callable[[], str]) -> str:
        if when:
            found.append(Note(kind, caller().replace("\n", " ").strip(" ")))
        return ""

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"n": "{:,}".format, "kinds": kinds, "counted": counted}
    environment.filters |= {"enumerated": enumerated, "first_pairs": _first_pairs}
    known = _run(plan, study) | _rows(study, rows) | _cells(study)
    environment.get_template("notes.j2").render(known, note=note)
    return found if frozen.read(study.path) else [*found, Note("", frozen.NONE)]


def _run(plan: Plan, study: "Run") -> dict[str, Any]:
    """What is known of the run and its data sets and models."""
    results, settings = study.results, [c.setting for c in plan.cells]
    return {
        "control": plan.control,
        "datasets": study.datasets,
        "models": study.models,
        "met": lambda data: _met(data, study.models),
        "frozen_encoder": protocols.is_frozen(plan.training.protocol),
        "windows": [f"{m.title} {m.windows:.3g}" for m in study.models if m.windows is not None],
        "fits": len({c.fit.seed for c in plan.cells}),
        "scoring": plan.scoring,
        "random_leads": any(isinstance(s, Count) and s.k < len(LEADS) for s in settings),
        "dirty": sum(r.uncommitted for r in results),
        "n_results": len(results),
        "fits_gone": study.scorer
        and sum(not finished(r.fit_folder) for r in results if not r.exported),
        "metric": study.metric,
        "away": [m for m in plan.scoring.metrics if m not in (*study.metrics, *metrics.names())],
        "FEW": FEW,
        "UNCOMMITTED": UNCOMMITTED,
    }


def _met(data: DatasetFacts, models: Sequence[ModelFacts]) -> dict[str, Any]:
    """What models that were pre-trained have seen of a dataset, or may have."""
    trained = [m for m in models if m.weights not in (RANDOM, NONE)]
    every = [(m.title, *contamination.met(m.corpora, data.name, data.title)) for m in trained]
    return {
        "seen": [title for title, how, _ in every if how in ("equal", "contains")],
        "rest": [(title, how, ", ".join(corpora)) for title, how, corpora in every],
    }


def _rows(study: "Run", rows: Sequence[Row]) -> dict[str, Any]:
    """What is known of the rows of the main table."""
    first = [r for r in rows if r.metric == study.metric]
    some = any(r.status == "ok" for r in rows)
    of_fits = [(n.text, _fit(study, r)) for r in first for n in r.notes if n.kind == "fit"]
    cells = grouped([c for r in rows for c in r.cells], lambda c: c.metric)
    unknown = [d.title for d in study.datasets if not people.is_known(study.path, d.name)]
    return {
        "some_ok": some,
        "people_unknown": unknown if study.scorer and some else [],
        "ragged": [_row(study, r) for r in first if r.ragged],
        "spread": any(np.isfinite(r.std) for r in first),
        "bootstraps": {
            how: [study.metrics[name].title for name in names]
            for how, names in grouped(list(cells), lambda name: cells[name][-1].bootstrap).items()
        },
        "compared": any(r.difference for r in rows),
        "none_trained": study.main["value"].notna().any() and all(r.untrained for r in rows),
        "tested": any(np.isfinite(r.p) for r in rows),
        "marks": {
            mark: list(dict.fromkeys(fit for _, fit in own))
            for mark, own in grouped(of_fits, lambda of: of[0]).items()
        },
        "tasks": list(_tasks(study, first)),
        "outside": [_row(study, r) for r in rows if r.score < r.sure.low or r.score > r.sure.high],
        "edited": [
            study.metrics[name].title for name, own in cells.items() if any(c.edited for c in own)
        ],
    }


def _tasks(study: "Run", rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """What is known of the labels of each task: how many are unknown to whom, which count records
    twice, which have a score in some folds only or in none, and which have few positives.
    """
    for task in study.tasks:
        own = [r for r in rows if r.task == task.name and r.status == "ok"]
        if not own:
            continue
        row, folds, cell = own[0], own[0].folds, own[0].cells[0]
        names = cell.columns["label"][1:].tolist()
        classes = {r.model: study.classes(task.name, r.model) or names for r in own}
        # the first row of each classifier: what one does not know, another may
        of = {tuple(classes[r.model]): r for r in reversed(own)}
        table = pd.concat([over_folds(r.cells) for r in of.values()])
        table = table[table["label"].isin(set().union(*of))]
        table = table.groupby("label", sort=False, as_index=False).max()
        known = dict(zip(table["label"], map(int, table["n"])))
        labels = list(table[["label", "positives", "valued"]].itertuples(index=False))
        every = row.records * len(known)
        yield {
            **vars(task),
            "records": row.records,
            "known": known,
            "unknown": (every - sum(known.values())) / max(every, 1),
            "foreign": {
                _title(study.models, model): [name for name in names if name not in classes[model]]
                for model in classes
            },
            "least": min(known, key=known.__getitem__),
            "alike": [f"{same} and {label}" for label, same in zip(names, cell.same_as) if same],
            "n_distinct": cell.n_distinct,
            "empty": [c.cell.fit.fold for c in folds if c.empty],
            "in_some": [f"{x} ({v} of {len(folds)})" for x, _, v in labels if 0 < v < len(folds)],
            "nowhere": [label for label, n in known.items() if not n],
            "undefined": [label for label, _, v in labels if not v and known[label]],
            "few": [f"{label} ({n})" for label, n, valued in labels if n < FEW and valued],
        }


def _cells(study: "Run") -> dict[str, Any]:
    """What is known of the cells of the first metric."""
    cells = study.cells[study.cells["metric"] == study.metric].copy()
    states = cells["status"].value_counts()
    known = {m.name: m for m in study.models if m.contract}
    filled = [
        (known[m], p) for m, p in dict.fromkeys(zip(cells["model"], cells["policy"])) if m in known
    ]
    cells["model"] = [_title(study.models, model) for model in cells["model"]]
    by_model, done = cells.groupby("model", sort=False), cells[cells["status"] == "ok"]
    blind = cells[cells["blind"] > 0].groupby(["model", "leads", "policy"], sort=False)["blind"]
    environments = done.groupby("model", sort=False)["environment"].unique()
    several = done["environment"].nunique() > 1
    return {
        "n_cells": len(cells),
        "pending": int(states.get("missing", 0)),
        "without": [f"{states[s]} {s}" for s in ("failed", "damaged", "skipped") if s in states],
        "blind": blind.mean().reset_index().to_numpy().tolist(),
        "filled": [(m, p) for m, p in filled if p not in (m.contract["policy"], "native")],
        "excluded": [(m, int(n)) for m, n in by_model["excluded"].max().items() if n > 0],
        "environments": [
            f"{m} ({', '.join(sorted(e))})" for m, e in environments.items() if several
        ],
    }


def left_out(whole: Plan, shown: Plan) -> list[Note]:
    """That a report shows some tasks of a run."""
    tasks, named = (list(dict.fromkeys(c.task for c in plan.cells)) for plan in (whole, shown))
    others = [task for task in tasks if task not in named]
    if not others:
        return []
    text = (
        f"{counted(len(named), 'task')} of the {len(tasks)} of this run (--tasks); "
        f"ranks, means and corrected p are of "
        f"{'it' if len(named) == 1 else 'these'} alone. Left out: {enumerated(others)}."
    )
    return [Note("SOME TASKS ONLY", text)]


def kinds(counts: Mapping[str, int]) -> str:
    """Counted things in words: "a lead that is a copy of another 3; ..."."""
    return "; ".join(f"{what} {count:,}" for what, count in counts.items())


def _first_pairs(pairs: Sequence[str]) -> str:
    more = f" and {len(pairs) - NAMED} more" if len(pairs) > NAMED else ""
    return f"{', '.join(pairs[:NAMED])}{more}"


def _title(of: Sequence[ModelFacts] | Sequence[TaskFacts], name: str) -> str:
    return next((facts.title for facts in of if facts.name == name), name)


def _fit(study: "Run", row: Row, at: str = "") -> str:
    """A model and its task; with the metric where it is not the first."""
    where = _title(study.tasks, row.task)
    if row.metric != study.metric:
        where += f", {study.metrics[row.metric].title}"
    return f"{_title(study.models, row.model)}{at} ({where})"


def _row(study: "Run", row: Row) -> str:
    return _fit(study, row, f" {row.policy} at {row.leads}")
