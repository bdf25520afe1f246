"""Plain facts that several reports share: rows, columns, ranks and footnotes of the main table, and what follows from them.

Numbers stay fractions; `_form.py` spells them. Ranks are taken on unrounded values.
"""

from collections.abc import Iterable
from typing import Any

import pandas as pd

from ecgbench.ecg.leads import LEADS, LeadSubset
from ecgbench.reports._form import Fact, counted
from ecgbench.results.notes import PENDING
from ecgbench.results.study import MAIN_COLUMNS, Study

_WHOLE = {"n_records", "n_patients", "n_labels", "n_undefined", "n", "positives", "seed", "fit_seed", "excluded", "lost"}
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
    random = {(row["model"], row["policy"]) for row in [*rows, *records(study.cells)] if row["weights"] == "random"}
    several = {model for model, _ in pairs if sum(other == model for other, _ in pairs) > 1}
    made = []
    for model, policy in pairs:
        title = known.get(model, {}).get("title", model)
        label = f"{title} {policy}" if model in several else title
        if (known.get(model, {}).get("weights_source") or {}).get("own"):
            label += " (own weights)"
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
    """Tasks that have rows, in the order of the table: task (its name), title, evaluation_only, dataset, synthetic."""
    present = list(dict.fromkeys(study.main["task"]))
    known = {task["name"]: task for task in study.tasks}
    synthetic = {data["name"] for data in study.datasets if data["synthetic"]}
    order = [name for name in known if name in present] + [name for name in present if name not in known]
    made = []
    for name in order:
        task = known.get(name, {})
        title = marked(task.get("title", name), task.get("dataset") in synthetic)
        fact = {"task": name, "title": title, "evaluation_only": bool(task.get("evaluation_only"))}
        made.append(fact | {"dataset": task.get("dataset"), "synthetic": task.get("dataset") in synthetic})
    return made


def word(status: str, reason: str) -> str:
    """The status of a cell for readers: what nobody has computed yet did not fail."""
    return PENDING if status == "missing" or reason.startswith(PENDING) else status


def gaps(study: Study) -> list[dict[str, Any]]:
    """Cells without a number, gathered: task, model, policy, word (for the status), reason, and the settings that share them.

    `leads` maps a setting as typed to (cells without a number, cells asked for).
    """
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    asked: dict[tuple[str, ...], int] = {}
    for cell in records(study.cells):
        place = (cell["task"], cell["model"], cell["policy"])
        leads, reason = str(cell["leads"]), str(cell["reason"] or "no reason was stored")
        asked[*place, leads] = asked.get((*place, leads), 0) + 1
        if cell["status"] == "ok":
            continue
        status = word(cell["status"], reason)
        names = dict(zip(("task", "model", "policy", "word", "reason"), (*place, status, reason)))
        one = found.setdefault((*place, status, reason), names | {"leads": {}})
        one["leads"][leads] = one["leads"].get(leads, 0) + 1
    for one in found.values():
        one["leads"] = {leads: (lost, asked[one["task"], one["model"], one["policy"], leads]) for leads, lost in one["leads"].items()}
    return list(found.values())


def settings_words(leads: Fact) -> str:
    """The settings of a gap; how many draws where not all are concerned.

    >>> settings_words({"1": (5, 5), "2": (3, 5), "I": (1, 1)})
    '1, 2 (3 of 5 draws), I'
    """
    return ", ".join(typed if lost == asked else f"{typed} ({lost} of {asked} draws)" for typed, (lost, asked) in leads.items())


def reasons(study: Study) -> dict[tuple[str, str, str, str], str]:
    """Why a row of the table has no number: (task, model, leads, policy) -> the distinct reasons of its cells, failures first."""
    found: dict[tuple[str, str, str, str], list[str]] = {}
    for gap in sorted(gaps(study), key=lambda gap: ("failed", "skipped", PENDING).index(gap["word"])):
        for leads in gap["leads"]:
            text = gap["reason"] if gap["word"] == PENDING else f"{gap['word']}: {gap['reason']}"
            found.setdefault((gap["task"], gap["model"], leads, gap["policy"]), []).append(text)
    return {key: "; ".join(texts) for key, texts in found.items()}


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
            text = why.get((row["task"], row["model"], row["leads"], row["policy"]), row["status"])
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


def comparisons(study: Study) -> list[dict[str, Any]]:
    """Study.comparisons with titles and labels, and `worse`, the paper's verdict: whether the interval of the difference leaves out 0
    (None where there is no interval)."""
    names = {(head["model"], head["policy"]): head["label"] for head in columns(study)}
    titles = {task["task"]: task["title"] for task in tasks(study)}
    rows = records(study.comparisons)
    for row in rows:
        low, high = row["low"], row["high"]
        row |= {"leads": str(row["leads"]), "title": titles[row["task"]], "label": names[row["model"], row["policy"]]}
        row |= {"best": names[row["best_model"], row["best_policy"]], "worse": None if None in (low, high) else not low <= 0 <= high}
    return rows


def marked(title: str, synthetic: bool) -> str:
    """A title that says it when its data are synthetic.

    >>> marked("Demo (synthetic)", True), marked("Toy", True)
    ('Demo (synthetic)', 'Toy (synthetic)')
    """
    return title if not synthetic or "synthetic" in title.lower() else f"{title} (synthetic)"


def setting_words(typed: str) -> str:
    """A lead setting in words.

    >>> setting_words("1"), setting_words("12"), setting_words("I+II")
    ('1 random lead', '12 leads', 'leads I+II')
    """
    number, named = leads_of(typed)
    if named:
        return f"lead{'s' if number > 1 else ''} {typed}"
    return f"{typed} leads" if typed == FULL else counted(number, "random lead")
