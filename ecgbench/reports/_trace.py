"""Where each number of a run comes from: the row of main_table.csv, and the cells behind it."""

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any

from ecgbench.core.text import visible
from ecgbench.reports._facts import heads_of, setting_words, titles_of
from ecgbench.reports._scores import HEADER, NAMES
from ecgbench.reports._section import records
from ecgbench.reports._text import p_value, points, sure
from ecgbench.results.study import Study

_COUNTS = (
    ("n_records", "Test records"),
    ("n_patients", "Test patients"),
    ("n_labels", "Labels"),
    ("n_undefined", "Labels without a score"),
)


def traces(study: Study) -> dict[str, Any]:
    """What the page shows of a number: by the line of main_table.csv, its facts and its cells."""
    heads, titles = heads_of(study), titles_of(study)
    behind: dict[tuple[str, ...], list[list[Any]]] = {}
    for line, cell in enumerate(records(study.cells), HEADER):
        whole = cell["status"] == "ok"
        value = points(cell["value"]) if whole else cell["status"]
        names = [cell[name] for name in ("setting", "fit_seed", "fold")]
        behind.setdefault(_names(cell), []).append(
            [*names, value, cell["path"] or cell["reason"], line]
        )
    rows = {}
    for line, row in enumerate(records(study.main), HEADER):
        title = f"{titles[row['task']]} · {heads[row['model'], row['policy']].label}"
        rows[str(line)] = {
            "title": f"{title} · {setting_words(row['leads'])}",
            "facts": _facts(study, row),
            "cells": behind.get(_names(row), []),
        }
    return {"run": str(study.path), "rows": rows}


def _names(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(row[name] for name in ("metric", *NAMES))


def _facts(study: Study, row: dict[str, Any]) -> list[tuple[str, str]]:
    metric = study.metrics[row["metric"]].title
    value = sure(row["value"], row["low"], row["high"])
    facts = [(f"Macro {metric} × 100", value if row["status"] == "ok" else row["status"])]
    if row["std"] is not None:
        facts.append(("Standard deviation over lead draws", points(row["std"])))
    facts += [("Weights", row["weights"]), ("Policy for missing leads", row["policy"])]
    facts += [(word, f"{row[name]:,}") for name, word in _COUNTS if row[name] is not None]
    if row["df"] is not None:
        facts.append(("Degrees of freedom", f"{row['df']:.1f}"))
    if row["best"]:
        facts.append(("Place", "best trained of its task and leads"))
    if row["p_holm"] is not None:
        facts.append(("p against the best, after Holm", p_value(row["p_holm"])))
    return [*facts, *([("Note", row["note"])] if row["note"] else [])]


def embedded(value: Any) -> str:
    """JSON for the script of the page: compressed, as letters and digits, which are inert."""
    text = json.dumps(_visible(value), ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _visible(value: Any) -> Any:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {key: _visible(each) for key, each in value.items()}
    return [_visible(each) for each in value] if isinstance(value, list | tuple) else value
