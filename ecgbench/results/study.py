"""Everything a report may say about a run, read from its store into tables and plain facts."""

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ecgbench.cells import Bootstrap, Cell, Plan, key
from ecgbench.errors import MissingData
from ecgbench.results import invocation, notes
from ecgbench.results.compare import Row, Scored, compare
from ecgbench.results.folders import read_json, read_table
from ecgbench.results.score import MACRO, draws_of_patients, score
from ecgbench.results.store import Store

MAIN_COLUMNS = (
    "task", "model", "leads", "policy", "weights", "macro_auroc", "std", "low", "high", "n_records", "n_patients", "n_labels",
    "n_undefined", "p", "p_holm", "best", "not_significantly_worse", "status",
)  # fmt: skip
"""Columns of main_table.csv. Scores are fractions; `leads` as typed; `status` is ok, skipped or failed."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """A run, ready to be reported."""

    main: pd.DataFrame
    """MAIN_COLUMNS, one row per task x model x setting asked for x policy, in the order asked. `std` (over lead-drawing
    seeds, ddof 1) is NaN where there is one draw; `p`, `p_holm` (over all pairs of rows) compare with the best of the same task
    and setting (NaN in the best's own row); `best` and `not_significantly_worse` are bool; numbers are NaN where status is not ok."""
    cells: pd.DataFrame
    """One row per cell: task, model, leads, setting (`1@seed3`), seed, policy, weights, status, reason, macro_auroc, low,
    high, n_records, windows (per record), seconds, key, path (inside the run)."""
    labels: pd.DataFrame
    """One row per cell and label: task, model, setting, policy, label, auroc (NaN: undefined), low, high, n, positives."""
    tasks: list[dict[str, Any]]
    """name, title, dataset, evaluation_only, n_labels; in the order of the table."""
    models: list[dict[str, Any]]
    """name, title, summary, paper, licence, parameters, weights (random, released or a file name), weights_sha256, contract
    (facts of the InputContract), windows (evaluation windows averaged per record)."""
    datasets: list[dict[str, Any]]
    """name, title, version, licence, doi, synthetic, records (used), records_prepared, records_release, limit (None or N),
    test_records, test_patients, digest, quarantined (list of {record, reason}), flat (number of records with a flat lead)."""
    comparisons: pd.DataFrame
    """One row per comparison with the best of a task and setting: task, leads, model, policy, best_model, best_policy,
    difference (best - other), low, high, p, p_holm, n_patients (in both)."""
    notes: list[str]
    """Sentences to print under the table: synthetic data, random weights, one fit, the meaning of (std), blind inputs, labels
    with fewer than 5 test positives, undefined labels, estimates outside their interval, limits."""
    provenance: dict[str, Any]
    """command, version, commit, dirty, python, packages (name -> version), platform, device, protocol, contract, draw,
    bootstrap, draws, seeds, fit_seeds, epochs, plan_hash, started, seconds."""


def read(path: Path) -> Study:
    """Read a run folder; MissingData when there is none."""
    run = Store(path)
    plan = run.plan()
    if plan is None:
        raise MissingData(f"no run in {path} (no plan.json there); run: ecgbench run --out {path}")
    folders = {c.identity: run.folder(c) for c in plan.cells}
    states = {c.identity: run.state(c) for c in plan.cells}
    documents = {i: read_json(folder, "cell.json") for i, folder in folders.items() if folder}
    facts = _facts(run, documents.values())
    scored = {c.identity: _scored(c, plan, folder, facts) for c in plan.cells if (folder := folders[c.identity])}
    rows = _rows(plan, states, scored)
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.task, row.leads), []).append(row)
    for group in groups.values():
        compare(group, plan.scoring)
    cells = pd.DataFrame([_cell(c, states[c.identity], scored.get(c.identity), documents.get(c.identity, {}), run) for c in plan.cells])
    tasks = [{"name": t, **facts["tasks"][t]} for t in dict.fromkeys(c.task for c in plan.cells) if t in facts["tasks"]]
    models = [{"name": m, **facts["models"][m]} for m in dict.fromkeys(c.fit.model for c in plan.cells) if m in facts["models"]]
    used = dict.fromkeys(t["dataset"] for t in tasks)
    return Study(
        main=pd.DataFrame([_main(r, facts) for r in rows], columns=list(MAIN_COLUMNS)),
        cells=cells,
        labels=_labels(plan, scored),
        comparisons=_comparisons(groups),
        tasks=tasks,
        models=models,
        datasets=[{"name": d, **facts["datasets"][d]} for d in used],
        notes=notes.notes(plan, facts, rows, cells),
        provenance={
            **facts["provenance"],
            "protocol": plan.training.protocol,
            "epochs": plan.training.epochs,
            "contract": plan.cells[0].fit.contract,
            "draw": plan.scoring.draw,
            "bootstrap": plan.scoring.bootstrap,
            "draws": plan.scoring.draws,
            "plan_hash": key(plan.to_json()),
            "seeds": sorted({c.setting.seed for c in plan.cells if hasattr(c.setting, "seed")}),
            "fit_seeds": sorted({c.fit.seed for c in plan.cells}),
        },
    )


def _facts(run: Store, documents: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Facts of models, datasets and tasks by name, those that cells rest on before others; and of the command."""
    models, datasets = run.facts("models"), run.facts("datasets")
    named = {facts["name"]: facts for facts in models.values()}
    data = {facts["name"]: facts for facts in datasets.values()}
    started: dict[str, Any] = {"command": "", "started": None, "seconds": None}
    for cell in documents:
        model, dataset = models[cell["model"]], datasets[cell["dataset"]]
        named[model["name"]] = {**model, "windows": cell["windows"], "device": cell["device"]}
        data[dataset["name"]] = dataset
        started = {**started, "device": cell["device"], **cell["code"]}
    tasks = {task: facts for dataset in data.values() for task, facts in dataset["tasks"].items()}
    return {"models": named, "datasets": data, "tasks": tasks, "provenance": invocation.told(run) or started}


def _scored(cell: Cell, plan: Plan, folder: Path, facts: dict[str, Any]) -> Scored:
    dataset = facts["tasks"][cell.task]["dataset"]
    predictions = read_table(folder, "predictions.parquet")
    patients = facts["datasets"][dataset]["patients"]
    weights = _draws(dataset, tuple(patients), plan.scoring.draws, plan.scoring.bootstrap)
    at = {p: i for i, p in enumerate(patients)}
    labels = [c.split(":", 1)[1] for c in map(str, predictions.columns) if c.startswith("target:")]
    target, probability = (predictions[[f"{kind}:{n}" for n in labels]].to_numpy() for kind in ("target", "probability"))
    again = score(labels, target, probability, weights[:, [at[p] for p in predictions["patient"]]])
    stored = read_table(folder, "scores.parquet")
    return Scored(
        cell=cell,
        dataset=dataset,
        scores=again.table.assign(auroc=stored["auroc"]),
        replicates=again.replicates,
        predictions=predictions,
    )


@functools.lru_cache(maxsize=4)
def _draws(dataset: str, patients: tuple[str, ...], draws: int, bootstrap: Bootstrap) -> np.ndarray:
    return draws_of_patients(dataset, patients, draws, bootstrap)


def _rows(plan: Plan, states: dict[str, tuple[str, str]], scored: dict[str, Scored]) -> list[Row]:
    rows: dict[tuple[str, str, str, str], Row] = {}
    for c in plan.cells:
        place = (c.task, c.fit.model, c.setting.typed, c.policy)
        row = rows.setdefault(place, Row(task=place[0], model=place[1], leads=place[2], policy=place[3], weights=c.fit.weights))
        status = states[c.identity][0]
        if status == "ok":
            row.cells.append(scored[c.identity])
        elif row.status != "failed":
            row.status = "skipped" if status == "skipped" else "failed"
    return list(rows.values())


def _main(row: Row, facts: dict[str, Any]) -> dict[str, Any]:
    ok = row.status == "ok"
    low, high = row.interval
    first = row.cells[0] if ok else None
    d = row.difference
    return {
        "task": row.task,
        "model": row.model,
        "leads": row.leads,
        "policy": row.policy,
        "weights": facts["models"].get(row.model, {}).get("weights", row.weights),
        "macro_auroc": row.score,
        "std": row.std,
        "low": low,
        "high": high,
        "n_records": len(first.predictions) if first else np.nan,
        "n_patients": first.predictions["patient"].nunique() if first else np.nan,
        "n_labels": len(first.scores) - 1 if first else np.nan,
        "n_undefined": int(first.scores["auroc"].iloc[1:].isna().sum()) if first else np.nan,
        "p": d.p if d else np.nan,
        "p_holm": row.p_holm,
        "best": row.best,
        "not_significantly_worse": bool(d and d.not_significant),
        "status": row.status,
    }


def _cell(cell: Cell, state: tuple[str, str], scored: Scored | None, note: dict[str, Any], run: Store) -> dict[str, Any]:
    macro = scored.scores.iloc[0] if scored else {"auroc": np.nan, "low": np.nan, "high": np.nan}
    return {
        "task": cell.task,
        "model": cell.fit.model,
        "leads": cell.setting.typed,
        "setting": str(cell.setting),
        "seed": getattr(cell.setting, "seed", None),
        "fit_seed": cell.fit.seed,
        "policy": cell.policy,
        "weights": note.get("weights_name", cell.fit.weights),
        "status": state[0],
        "reason": state[1],
        "macro_auroc": macro["auroc"],
        "low": macro["low"],
        "high": macro["high"],
        "n_records": note.get("n_records", np.nan),
        "windows": note.get("windows", np.nan),
        "seconds": note.get("seconds", np.nan),
        "blind": note.get("blind", np.nan),
        "excluded": note.get("excluded", np.nan),
        "lost": note.get("lost", np.nan),
        "key": note.get("key", ""),
        "path": run.cell_folder(cell, note["key"]).relative_to(run.path).as_posix() if note else "",
    }


def _labels(plan: Plan, scored: dict[str, Scored]) -> pd.DataFrame:
    parts = []
    for c in plan.cells:
        if c.identity in scored:
            part = scored[c.identity].scores
            who = {"task": c.task, "model": c.fit.model, "setting": str(c.setting), "policy": c.policy}
            parts.append(part[part["label"] != MACRO].assign(**who))
    columns = ["task", "model", "setting", "policy", "label", "auroc", "low", "high", "n", "positives"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def _comparisons(groups: dict[tuple[str, str], list[Row]]) -> pd.DataFrame:
    found = []
    for (task, leads), rows in groups.items():
        best = next((r for r in rows if r.best), None)
        for r in rows:
            if best is not None and r.difference is not None:
                d, shared = r.difference, set(r.cells[0].predictions["patient"]) & set(best.cells[0].predictions["patient"])
                found.append(
                    {
                        "task": task,
                        "leads": leads,
                        "model": r.model,
                        "policy": r.policy,
                        "best_model": best.model,
                        "best_policy": best.policy,
                        "difference": d.difference,
                        "low": d.low,
                        "high": d.high,
                        "p": d.p,
                        "p_holm": r.p_holm,
                        "n_patients": len(shared),
                    }
                )
    columns = ["task", "leads", "model", "policy", "best_model", "best_policy", "difference", "low", "high", "p", "p_holm", "n_patients"]
    return pd.DataFrame(found, columns=columns)
