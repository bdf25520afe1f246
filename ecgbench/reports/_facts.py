"""Plain facts that several reports share: rows, columns, ranks and footnotes of the main table, and what follows from them.

Numbers stay fractions; `_form.py` spells them. Ranks are taken on unrounded values.
"""

from collections.abc import Iterable
from typing import Any

import pandas as pd

from ecgbench.ecg.leads import LEADS, LeadSubset
from ecgbench.reports._form import Fact, counted, enumerated
from ecgbench.results.study import MAIN_COLUMNS, Study

_WHOLE = {"n_records", "n_patients", "n_labels", "n_undefined", "n", "positives", "seed", "windows"}
"""Columns that count; pandas makes them float where a row has none."""
_FLAGS = ("best", "not_significantly_worse")
FULL = str(len(LEADS))
"""The setting in which nothing is missing, as typed."""
CHANCE = 0.5
"""Macro AUROC of guessing."""


def plain(value: Any) -> Any:
    """A numpy or pandas scalar as Python's own; whatever stands for "missing" as None."""
    value = value.item() if hasattr(value, "item") else value
    return None if value is None or value is pd.NA or value is pd.NaT or value != value else value


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table as dictionaries of plain values; counts are int."""
    names = [str(name) for name in frame.columns]
    rows = [dict(zip(names, map(plain, row))) for row in frame.itertuples(index=False, name=None)]
    for row in rows:
        row |= {name: int(row[name]) for name in _WHOLE & row.keys() if isinstance(row[name], float)}
    return rows


def main_rows(study: Study) -> list[dict[str, Any]]:
    """Study.main as dictionaries with exactly MAIN_COLUMNS: counts are int, flags bool, `leads` str, missing None."""
    rows = records(study.main[list(MAIN_COLUMNS)])
    for row in rows:
        row["leads"] = str(row["leads"])
        row |= {name: bool(row[name]) for name in _FLAGS}
    return rows


def leads_of(typed: str) -> tuple[int, bool]:
    """How many leads a setting measures, and whether they are named (`I+II`) rather than drawn (`2`).

    >>> leads_of("2"), leads_of("I+II")
    ((2, False), (2, True))
    """
    return (int(typed), False) if typed.isdigit() else (len(LeadSubset.parse(typed)), True)


def columns(study: Study) -> list[dict[str, Any]]:
    """One per model x policy in the order asked: model, policy, title, label, parameters, random (weights)."""
    rows = main_rows(study)
    pairs = list(dict.fromkeys((row["model"], row["policy"]) for row in rows))
    known = {model["name"]: model for model in study.models}
    random = {(row["model"], row["policy"]) for row in rows if row["weights"] == "random"}
    several = {model for model, _ in pairs if sum(other == model for other, _ in pairs) > 1}
    made = []
    for model, policy in pairs:
        title = known.get(model, {}).get("title", model)
        label = f"{title} {policy}" if model in several else title
        parameters = plain(known.get(model, {}).get("parameters"))
        made.append(
            {
                "model": model,
                "policy": policy,
                "title": title,
                "label": label,
                "parameters": parameters,
                "random": (model, policy) in random,
            }
        )
    return made


def tasks(study: Study) -> list[dict[str, Any]]:
    """Tasks that have rows, in the order of the table: name, title, evaluation_only, dataset, synthetic."""
    present = list(dict.fromkeys(study.main["task"]))
    known = {task["name"]: task for task in study.tasks}
    synthetic = {data["name"] for data in study.datasets if data["synthetic"]}
    order = [name for name in known if name in present] + [name for name in present if name not in known]
    made = []
    for name in order:
        task = known.get(name, {})
        fact = {"task": name, "title": task.get("title", name), "evaluation_only": bool(task.get("evaluation_only"))}
        made.append(fact | {"dataset": task.get("dataset"), "synthetic": task.get("dataset") in synthetic})
    return made


def reasons(study: Study) -> dict[tuple[str, str, str, str], str]:
    """Why a row of the table has no number: (task, model, leads, policy) -> the distinct reasons of its cells."""
    found: dict[tuple[str, str, str, str], list[str]] = {}
    for cell in records(study.cells):
        if cell["status"] != "ok" and cell["reason"]:
            found.setdefault((cell["task"], cell["model"], str(cell["leads"]), cell["policy"]), []).append(str(cell["reason"]))
    return {key: "; ".join(dict.fromkeys(texts)) for key, texts in found.items()}


def grid(study: Study) -> dict[str, Any]:
    """The main table: `columns`, `tasks` (each with `lines` of `leads` and `cells`, None where nothing was asked), `footnotes`."""
    heads, rows, why = columns(study), main_rows(study), reasons(study)
    footnotes: list[str] = []
    blocks = []
    for task in tasks(study):
        mine = [row for row in rows if row["task"] == task["task"]]
        lines = []
        for leads in dict.fromkeys(row["leads"] for row in mine):
            asked = {(row["model"], row["policy"]): row for row in mine if row["leads"] == leads}
            cells = [asked.get((head["model"], head["policy"])) for head in heads]
            lines.append({"leads": leads, "cells": _cells(cells, why, footnotes)})
        blocks.append(task | {"lines": lines})
    return {"columns": heads, "tasks": blocks, "footnotes": footnotes}


def _cells(
    rows: list[dict[str, Any] | None], why: dict[tuple[str, str, str, str], str], footnotes: list[str]
) -> list[dict[str, Any] | None]:
    rank = ranks(row["macro_auroc"] if row and row["status"] == "ok" else None for row in rows)
    made: list[dict[str, Any] | None] = []
    for row, place in zip(rows, rank):
        if row is None:
            made.append(None)
            continue
        ok = row["status"] == "ok"
        cell = {name: row[name] for name in ("status", "macro_auroc", "std", "low", "high", "p", "p_holm")}
        cell |= {"rank": place, "best": place == 1, "footnote": None}
        cell["asterisk"] = ok and row["not_significantly_worse"] and place is not None and not (row["best"] or place == 1)
        if not ok:
            reason = why.get((row["task"], row["model"], row["leads"], row["policy"]))
            text = row["status"] + (f": {reason}" if reason else "")
            footnotes += [] if text in footnotes else [text]
            cell["footnote"] = footnotes.index(text) + 1
        made.append(cell)
    return made


def ranks(values: Iterable[float | None]) -> list[int | None]:
    """1, 2, 3 for the three highest distinct values, equal values alike; None for the rest, and for all if nothing is compared.

    >>> ranks([0.94, 0.95, None, 0.95, 0.90, 0.80])
    [2, 1, None, 1, 3, None]
    >>> ranks([0.9, None])
    [None, None]
    """
    values = list(values)
    there = [value for value in values if value is not None]
    top = sorted(set(there), reverse=True)[:3] if len(there) > 1 else []
    return [top.index(value) + 1 if value in top else None for value in values]


def survival(table: Fact) -> list[dict[str, Any]]:
    """What is kept of the skill above chance: (AUROC - 1/2) / (AUROC at 12 leads - 1/2), per task, column and lead setting.

    Undefined (None) where the interval at 12 leads reaches chance: a share of nothing says nothing.
    """
    found = []
    for task in table["tasks"]:
        full = next((line for line in task["lines"] if line["leads"] == FULL), None)
        others = [line for line in task["lines"] if line["leads"] != FULL]
        for at, head in enumerate(table["columns"]):
            base = full["cells"][at] if full else None
            if base is None or base["macro_auroc"] is None or not others:
                continue
            kept = [{"leads": line["leads"], "share": _share(line["cells"][at], base)} for line in others]
            row = {"task": task["task"], "title": task["title"], "label": head["label"], "random": head["random"]}
            found.append(row | {"full": base["macro_auroc"], "kept": kept})
    return found


def _share(cell: Fact | None, base: Fact) -> float | None:
    floor = base["macro_auroc"] if base["low"] is None else base["low"]
    if cell is None or cell["macro_auroc"] is None or min(floor, base["macro_auroc"]) <= CHANCE:
        return None
    return float((cell["macro_auroc"] - CHANCE) / (base["macro_auroc"] - CHANCE))


def comparisons(table: Fact) -> list[dict[str, Any]]:
    """Every column against the best of its task and setting: difference (fraction, <= 0), p, p_holm, and
    the paper's verdict `worse` (None where nothing was tested)."""
    found = []
    for task in table["tasks"]:
        for line in task["lines"]:
            pairs = [(head, cell) for head, cell in zip(table["columns"], line["cells"]) if cell and cell["rank"] != 1]
            best = [(head, cell) for head, cell in zip(table["columns"], line["cells"]) if cell and cell["rank"] == 1]
            for head, cell in pairs if best else []:
                if cell["macro_auroc"] is None:
                    continue
                row = {"task": task["task"], "title": task["title"], "leads": line["leads"], "label": head["label"]}
                row |= {"best": enumerated([h["label"] for h, _ in best]), "difference": cell["macro_auroc"] - best[0][1]["macro_auroc"]}
                found.append(
                    row
                    | {
                        "p": cell["p"],
                        "p_holm": cell["p_holm"],
                        "worse": None if cell["p"] is None and not cell["asterisk"] else not cell["asterisk"],
                    }
                )
    return found


def data_sentences(study: Study) -> list[str]:
    """Per dataset: records used and released, test records and patients, limit, synthetic."""
    said = []
    for data in study.datasets:
        used, all_of_them = int(data["records"]), int(data["records_release"])
        share = f"{used:,} of {counted(all_of_them, 'record')}" if used != all_of_them else counted(used, "record")
        limit = f" (--limit {data['limit']})" if data["limit"] is not None else ""
        test = f"tested on {counted(plain(data['test_records']), 'record')} of {counted(plain(data['test_patients']), 'patient')}"
        kind = "SYNTHETIC data, no patient was ever recorded; " if data["synthetic"] else ""
        said.append(f"{data['title']} {data['version']}: {kind}{share}{limit}, {test}.")
    return said


def setting_words(typed: str) -> str:
    """A lead setting in words.

    >>> setting_words("1"), setting_words("12"), setting_words("I+II")
    ('1 random lead', '12 leads', 'leads I+II')
    """
    number, named = leads_of(typed)
    if named:
        return f"lead{'s' if number > 1 else ''} {typed}"
    return f"{typed} leads" if typed == FULL else counted(number, "random lead")
