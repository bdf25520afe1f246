"""Verdicts: what may be said of each diagnosis at each lead setting. results/verdicts.py makes
them; verdicts.csv has all of them, for every model and policy.
"""

from collections.abc import Iterator
from typing import Any, Literal

import pandas as pd

from ecgbench import reports as r
from ecgbench.core.text import counted
from ecgbench.reports import _facts as facts
from ecgbench.reports._opening import opening, spoken  # noqa: F401  (of the end of a run)
from ecgbench.reports._text import sure
from ecgbench.reports.labels import full_names
from ecgbench.results.compare import LEAST_PATIENTS
from ecgbench.results.study import FULL, Run, by_auroc
from ecgbench.results.verdicts import (
    ABOVE,
    BELOW,
    LEAST_EACH,
    LOSES,
    MACRO,
    NOT_KNOWN,
    NOT_SHOWN,
    TOO_FEW,
    verdicts,
)

CARD = r.ReportCard(
    title="Verdicts",
    summary="what may be said of each diagnosis, lead setting and model",
    reads="run",
    order=0,
)
MOST = 8
"""Diagnoses of a task that the page shows, the most frequent; verdicts.csv has all."""
LOST = "↓"
TONES: dict[str, Literal["good", "bad", "open"]] = {
    ABOVE: "good",
    BELOW: "bad",
    NOT_SHOWN: "open",
    TOO_FEW: "open",
    NOT_KNOWN: "open",
}
WORDS = dict(zip(TONES, ("above", "below", "open", "few", "unknown")))
MEANING = {
    "above": "the 95 % interval of the AUROC lies above 50, a coin",
    "below": "it lies below 50: the model misleads at these leads",
    "open": "neither is shown",
    "few": f"fewer than {LEAST_PATIENTS} patients, or than {LEAST_EACH} with it or without it",
    "unknown": "to the test set, or to the classifier in the file of weights",
    LOST: "it is shown to lose more than the margin against twelve leads",
}


def rows(study: Run) -> pd.DataFrame:
    """Of each task, diagnosis, lead setting and model."""
    return verdicts(study)


def sections(study: Run, rows: pd.DataFrame) -> list[r.Section]:
    """What a page opens with; then a row for each diagnosis and a column for each lead setting, of
    the best model of each task (`_best`).
    """
    first = r.Section(name="findings", parts=[opening(study)])
    if rows.empty:
        return [first]
    settings = [s for s in dict.fromkeys(study.main["leads"]) if s in set(rows["leads"])]
    shown = [row for task in facts.tasks(study) for row in _of_task(study, rows, task)]
    marks = [c.text for row in shown for c in row.values() if isinstance(c, r.TableCell) and c.tone]
    used = {*(mark.rstrip(LOST) for mark in marks), *(LOST for mark in marks if LOST in mark)}
    table = r.Table(
        name="verdicts",
        caption="AUROC of each diagnosis against chance. Press a word for its numbers.",
        columns=[
            r.Column("task", "Task and model", "group"),
            r.Column("name", "Diagnosis"),
            r.Column("with", "With it", note="of"),
            *(r.Column(leads, facts.setting_words(leads)) for leads in settings),
        ],
        rows=shown,
        numbers=rows,
        grid=True,
        marks={word: text for word, text in MEANING.items() if word in used},
        notes=list(_notes(rows)),
        summary="one row per task, diagnosis, lead setting and model: all that the page says first",
        formats=("csv", "md", "html"),
    )
    title = "Which diagnoses can be told, at which leads"
    return [first, r.Section(name="verdicts", title=title, short=CARD.title, parts=[table])]


def _of_task(study: Run, rows: pd.DataFrame, task: facts.TaskTitle) -> Iterator[dict[str, Any]]:
    rows, heads = rows[rows["task"] == task.task], facts.heads_of(by_auroc(study))
    macro = rows[rows["label"] == MACRO]
    trained = [not heads[names].untrained for names in zip(macro["model"], macro["policy"])]
    macro = macro[trained] if any(trained) else macro
    if macro.empty:
        return
    best = _best(macro)
    mine = rows[(rows["model"] == best["model"]) & (rows["policy"] == best["policy"])]
    labels = list(dict.fromkeys(mine.loc[mine["label"] != MACRO, "label"]))
    chosen = [MACRO, *labels[:MOST]] if len(labels) > 1 else labels
    head, names = heads[best["model"], best["policy"]], full_names(task.task)
    random = " (random weights)" if best["weights"] == "random" else ""
    for label in chosen:
        own = r.records(mine[mine["label"] == label])
        first = own[0]
        with_it = first["patients_with"]
        made = {
            "task": r.TableCell(f"{task.title}: {head.label}{random}"),
            "name": r.TableCell("mean of labels" if label == MACRO else names.get(label, label)),
            "with": r.TableCell(
                counted(first["patients"], first["counted"][:-1])
                if with_it is None
                else f"{with_it:,} of {first['patients']:,}"
            ),
        }
        yield made | {row["leads"]: _mark(row) for row in own}


def _best(macro: pd.DataFrame) -> "pd.Series[Any]":
    """The column that scores highest with twelve leads, or with the first ones; of equal ones, as
    filled and unfilled are with twelve, that which scores highest over the settings that all have.
    """
    scores = macro.pivot(index=["model", "policy"], columns="leads", values="auroc")
    at = FULL if FULL in scores else macro["leads"].iloc[0]
    scores = scores[scores[at].round(9) == scores[at].max().round(9)].dropna(axis=1)
    names = scores.mean(axis=1).idxmax()
    return macro.set_index(["model", "policy"], drop=False).loc[[names]].iloc[0]


def _mark(row: r.Row) -> r.TableCell:
    numbers = [sure(row["auroc"], row["low"], row["high"])]
    if row["found_at_95_specificity"] is not None:
        numbers.append(
            f"finds {r.points(row['found_at_95_specificity'], 0)} in 100, set for 5 false alarms"
        )
    if row["against_twelve"] is not None:
        ends = r.signed_bracket(row["against_twelve_low"], row["against_twelve_high"])
        numbers.append(f"against twelve leads {r.signed(row['against_twelve'])} {ends}")
    lost = LOST if row["verdict"] == LOSES else ""
    return r.TableCell(
        WORDS[row["chance"]] + lost, small="; ".join(numbers), tone=TONES[row["chance"]]
    )


def _notes(rows: pd.DataFrame) -> Iterator[str]:
    margins = rows["margin"].dropna()
    if len(margins):
        yield f"Margin against twelve leads: {100 * margins.iloc[0]:g} points."
    yield (
        "Each interval is 95 % by itself, but that of the best of several models, which holds for "
        "all of them. The most frequent diagnoses are shown; verdicts.csv has all, for every model."
    )
