"""Scores in the schema of Every Eval Ever, version 0.3.0: one file a model.

https://github.com/evaleval/every_eval_ever (`every_eval_ever/schemas/eval.schema.json`, and the
rules of its validator). What its schema has no field for stands under `additional_details` and
`details`, whose values are text.
"""

import math
import time
from collections.abc import Mapping
from typing import Any

import pandas as pd

from ecgbench import __version__, datasets
from ecgbench.core.provenance import date
from ecgbench.core.registry import folder_name
from ecgbench.results.facts import ModelFacts
from ecgbench.results.study import Run
from ecgbench.study.scores import ranks_records

VERSION = "0.3.0"
KEYS = ("task", "leads", "policy", "metric")
"""What a score is of, among the `details` of a result."""


def logs(study: Run, by: str) -> dict[str, dict[str, Any]]:
    """File name -> log of a model; rows without a number are left out."""
    found = {}
    for model in study.models:
        rows = study.main[(study.main["model"] == model.name) & study.main["value"].notna()]
        if len(rows):
            found[folder_name(model.name)] = _log(study, model, rows, by)
    return found


def _log(study: Run, model: ModelFacts, rows: pd.DataFrame, by: str) -> dict[str, Any]:
    known = study.provenance
    versions = {"commit": known.commit, "python": known.python, **known.packages}
    return {
        "schema_version": VERSION,
        "evaluation_id": f"ecgbench/{model.name}/{int(time.time())}",
        "evaluation_timestamp": date(),
        "retrieved_timestamp": str(int(time.time())),
        "source_metadata": {
            "source_name": "ecgbench",
            "source_type": "evaluation_run",
            "source_organization_name": by,
            "evaluator_relationship": "other",
        },
        "eval_library": {
            "name": "ecgbench",
            "version": known.version or __version__,
            "additional_details": _texts(versions),
        },
        "model_info": {
            "name": model.title,
            "id": model.name,
            "developer": model.origin or "unknown",
            "additional_details": {
                "deployment_type": "self_deployed",
                "model_availability": "unknown",
                **_texts({n: getattr(model, n) for n in ("paper", "licence", "parameters")}),
                **_texts({n: getattr(model, n) for n in ("weights", "weights_sha256")}),
                "pre_trained_on": ", ".join(model.corpora),
            },
        },
        "evaluation_results": [_result(study, row) for row in rows.to_dict("records")],
    }


def _result(study: Run, row: Mapping[Any, Any]) -> dict[str, Any]:
    card = study.metrics[row["metric"]]
    task = next(t for t in study.tasks if t.name == row["task"])
    known, name = study.provenance, f"{row['task']}, {row['leads']} leads, {row['policy']}"
    bounds = {"score_type": "continuous", **dict(zip(("min_score", "max_score"), card.range))}
    if not all(end is not None and math.isfinite(end) for end in card.range):
        bounds = {}
    scoring = {"bootstrap": known.bootstrap, "draws": known.draws, "absent": known.absent}
    training = {"protocol": known.protocol, "epochs": known.epochs, "contract": known.contract}
    numbers = {n: row[n] for n in ("n_patients", "n_labels", "seen", "weights", "std")}
    labels = row["n_labels"] - row["n_undefined"]
    uncertainty: dict[str, Any] = {"num_samples": int(row["n_records"])}
    if math.isfinite(row["low"]):
        uncertainty["confidence_interval"] = {
            "lower": row["low"],
            "upper": row["high"],
            "confidence_level": 0.95,
            "method": _method(row["metric"], known.bootstrap),
        }
    return {
        "evaluation_result_id": "/".join(str(row[n]) for n in ("model", *KEYS)),
        "evaluation_name": name,
        "source_data": _source(study, task.dataset),
        "metric_config": {
            "evaluation_description": f"{task.title}: mean over {labels:.0f} labels",
            "metric_id": row["metric"],
            "metric_name": f"macro {card.title}",
            "metric_kind": row["metric"],
            "metric_unit": "proportion",
            "lower_is_better": card.direction == "lower",
            **bounds,
        },
        "score_details": {
            "score": row["value"],
            "details": _texts({n: row[n] for n in KEYS} | numbers | {"note": row["note"]}),
            "uncertainty": uncertainty,
        },
        "generation_config": {
            "generation_args": {"execution_command": known.command} if known.command else {},
            "additional_details": _texts(training | scoring | {"draw": known.draw}),
        },
    }


def _method(metric: str, bootstrap: str) -> str:
    """How an interval is made."""
    if bootstrap == "none" and ranks_records(metric):
        return "placements, clustered by patient"
    return f"bootstrap of {'records' if bootstrap == 'records' else 'patients'}"


def _source(study: Run, name: str) -> dict[str, Any]:
    data = next(d for d in study.datasets if d.name == name)
    counts = {n: getattr(data, n) for n in ("version", "licence", "doi", "test_records", "digest")}
    details = _texts(counts | {"test_patients": data.test_patients, "limit": data.limit})
    made = {"dataset_name": data.title, "additional_details": details}
    url = datasets.ROOM.card(name).url if datasets.ROOM.built_in(name) else ""
    return made | ({"source_type": "url", "url": [url]} if url else {"source_type": "other"})


def _texts(facts: Mapping[str, Any]) -> dict[str, str]:
    """Those that are known, as text."""
    empty = ("", "None", "nan")
    return {name: str(value) for name, value in facts.items() if str(value) not in empty}
