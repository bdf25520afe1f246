"""Non-inferiority: what fewer leads cost, against the same model at twelve leads and against the
best model there, with verdicts by margin.

A difference is of the same patients, of macro AUROC or the metric that the table leads with. "yes"
where the whole 95 % interval lies above minus the margin, "no" where it lies below, "undecided"
otherwise. Two guards: no verdict where the model's own skill at twelve leads is not clearly above
chance, since what is at chance never gets worse; and no "yes" where a single label has clearly
lost much, since a mean over labels can hide it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ecgbench.core.text import counted, enumerated
from ecgbench.reports import (
    Column,
    Notes,
    Numbers,
    Part,
    ReportCard,
    Row,
    Section,
    Table,
    points,
)
from ecgbench.reports._facts import (
    FULL,
    columns,
    difference_cell,
    heads_of,
    setting_words,
    titles_of,
)
from ecgbench.reports._facts import untrained_marks as marks_of
from ecgbench.reports._means import (
    estimated,
    for_page,
    real_tasks,
    score,
    settings,
    sign_of,
    untested,
)
from ecgbench.reports._text import margin as margin_words
from ecgbench.results import ahead
from ecgbench.results.compare import UNTESTED
from ecgbench.results.joint import Entry, Joint, joint, lacking
from ecgbench.results.study import Study
from ecgbench.stats.components import independent_mean
from ecgbench.stats.detectable import detectable
from ecgbench.study.scores import ranks_records

CARD = ReportCard(
    title="Non-inferiority",
    summary="what fewer leads cost against twelve, with verdicts by margin",
    reads="run",
    order=45,
)
MARGINS_ABOVE_CHANCE = 5
"""How many margins the lower bound at twelve leads must lie above chance for a verdict."""
LOST = 0.05
"""A label that surely lost more than this cancels a "yes", ..."""
LEAST_POSITIVES = 20
"""... where it has so many positives."""
OWN, BEST = "its own 12 leads", "the best at 12 leads"
LONG = 120
"""Rows beyond which the table stands on the page and in its CSV alone."""
Shown = dict[str, Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Model:
    """A column in a task: all its lead settings, and the best column at twelve leads."""

    task: str
    own: Entry
    """At twelve leads."""
    best: Entry
    fewer: list[Entry]
    """At its other settings that have a score."""
    joint: Joint

    def weights(self, against: Entry) -> np.ndarray:
        """(setting, entry): each setting less `against`."""
        return np.array([self.joint.less(entry, against) for entry in self.fewer])

    def simultaneous(self, weights: np.ndarray) -> list[float]:
        """Lower bounds (setting,) that hold for all settings at once with 97.5 %."""

        def compute() -> dict[str, Any]:
            drawn, found = self.joint.studentised(weights), self.joint.contrasts(weights)
            critical = float(np.quantile(drawn.max(axis=1), 0.975))
            return {"low": [e.value - max(critical, e.t) * e.se for e in found]}

        low: list[float] = self.joint.once("all settings", weights.tolist(), compute)["low"]
        return low

    def lost(self, weights: np.ndarray) -> list[str]:
        """For each setting the label with the largest sure loss beyond LOST; "" where none."""

        def compute() -> dict[str, Any]:
            return {"lost": [lost_label(self.joint, row) for row in weights]}

        lost: list[str] = self.joint.once("lost labels", weights.tolist(), compute)["lost"]
        return lost


def lost_label(joint: Joint, weights: np.ndarray) -> str:
    """The label with the largest sure loss beyond LOST under a contrast (entry,); "" where none,
    and where a metric does not rank records.
    """
    worst, name = -LOST, ""
    for group in joint.groups if ranks_records(joint.metric) else ():
        placed = group.placed
        parts: dict[int, list[int]] = {}
        for column, label in enumerate(placed.label_of):
            parts.setdefault(int(label), []).append(column)
        each = placed.by_label(weights)
        # a label of a cross-validation has a column in each fold
        for label, mine in parts.items():
            high = independent_mean([each[column] for column in mine]).as_difference().high
            if placed.positives[mine].sum() >= LEAST_POSITIVES and high < worst:
                worst, name = high, group.label_names[label]
    return name


def no_verdict(above: float, margin: float) -> bool:
    """Whether what lies so far above chance (its lower bound) is too near to it to be kept."""
    return not above > MARGINS_ABOVE_CHANCE * margin


def sections(study: Study) -> list[Section]:
    """Nothing of a run without twelve leads, or without fewer."""
    models = list(_models(study))
    pieces = [partial(_rows, study, model) for model in models]
    ahead.each(study.scorer, study.stage, (CARD.title, "models of a task"), pieces)
    rows = [row for model in models for row in _rows(study, model)]
    if not rows:
        return []
    sentences = _sentences(study, rows)
    parts: list[Part] = [Notes(sentences, "plain")] if sentences else []
    parts += [_table(study, rows), Notes(_notes(study))]
    title = "What fewer leads cost against twelve"
    return [Section(name="non_inferiority", title=title, short=CARD.title, parts=parts)]


def _models(study: Study) -> Iterator[_Model]:
    if study.scorer is None:
        return
    trained = [head for head in columns(study) if not head.untrained]
    for task in real_tasks(study):
        there = [h for h in trained if np.isfinite(score(study, task, h, FULL))]
        if not there:
            continue
        top = max(there, key=lambda h: sign_of(study) * score(study, task, h, FULL))
        best = Entry(*top.names, FULL)
        for head in there:
            own = Entry(*head.names, FULL)
            other = [Entry(*head.names, leads) for leads in settings(study) if leads != FULL]
            fewer = [entry for entry in other if not lacking(study, [entry], [task])]
            entries = list(dict.fromkeys([*fewer, own, best]))
            if fewer:
                of = joint(study, entries, [task])
                yield _Model(task=task, own=own, best=best, fewer=fewer, joint=of)


def _rows(study: Study, model: _Model) -> list[Shown]:
    made: list[Shown] = []
    chance, sign = study.metrics[study.metric].chance, sign_of(study)
    entries = model.joint.entries
    full = model.joint.contrast(np.eye(len(entries))[entries.index(model.own)])
    low_full = np.nan if chance is None else full.as_share().low
    for against, entry in ((OWN, model.own), (BEST, model.best)):
        if against == BEST and entry == model.own:
            continue
        weights = model.weights(entry)
        found = model.joint.contrasts(sign * weights)
        lows = model.simultaneous(weights) if sign > 0 else [np.nan] * len(found)
        lost = model.lost(weights) if sign > 0 else [""] * len(found)
        for fewer, e, low, label in zip(model.fewer, found, lows, lost):
            bounds, why = e.as_difference(), untested(model.joint, e)
            if not e.variance > 0 and "test patients" not in why:
                why = f"{UNTESTED}all records are ranked alike: no variance"
            verdicts = {
                f"margin_{margin:g}": _verdict(bounds, margin, low_full - (chance or 0.0), why)
                for margin in study.options.margins
            }
            if label:
                verdicts = {n: "cancelled" if v == "yes" else v for n, v in verdicts.items()}
            made.append(
                {
                    "task": model.task,
                    **fewer._asdict(),
                    "against": against,
                    "against_model": entry.model,
                    "against_policy": entry.policy,
                    **{name: value for name, value in estimated(e).items() if name != "p"},
                    "low_all_settings": low,
                    "low_full": low_full,
                    "detectable": detectable(e),
                    "lost_label": label,
                    "note": why,
                    **verdicts,
                }
            )
    return made


def _verdict(bounds: tuple[float, float], margin: float, above: float, why: str) -> str:
    """`above`: how far the lower bound at twelve leads lies above chance."""
    low, high = bounds
    if why or np.isnan(low):
        return "not tested"
    if no_verdict(above, margin):
        return "no verdict"
    return "yes" if low > -margin else "no" if high < -margin else "undecided"


def _table(study: Study, rows: Sequence[Shown]) -> Table:
    heads, titles = heads_of(study), titles_of(study)
    shown: list[Row] = []
    for row in rows:
        best = heads[row["against_model"], row["against_policy"]]
        lost = f"lost: {row['lost_label']}" if "cancelled" in row.values() else ""
        shown.append(
            {
                **row,
                "task": titles[row["task"]],
                "model": heads[row["model"], row["policy"]].cell,
                "against": OWN if row["against"] == OWN else f"{best.label}, {BEST}",
                "difference": difference_cell(row),
                "note": row["note"] or lost,
            }
        )
    shown, notes = for_page(study, shown, "non_inferiority.csv")
    listed = [
        Column("task", "Task", "group"),
        Column("model", "Model"),
        Column("leads", "Leads", on_page=setting_words),
        Column("against", "Against"),
        Column("difference", "Difference", "number", note="points, 95 % interval"),
        *(
            Column(f"margin_{margin:g}", f"Within {margin_words(margin)}", note="points")
            for margin in study.options.margins
        ),
        Column("detectable", "Detectable", "number", points, note="points"),
        Column("note", "Note"),
    ]
    return Table(
        name="non_inferiority",
        caption=f"Macro {study.metrics[study.metric].title} at fewer leads less that at twelve.",
        columns=[c for c in listed if any(row[c.name] not in (None, "") for row in shown)],
        rows=shown,
        notes=notes,
        marks=marks_of(heads.values()),
        numbers=Numbers(
            columns=list(rows[0]),
            rows=rows,
            summary="one row per task, column, lead setting and what it is compared with",
        ),
        formats=("csv", "html") if len(shown) > LONG else ("csv", "md", "tex", "html"),
    )


def _sentences(study: Study, rows: Sequence[Shown]) -> list[str]:
    """For each column: at which settings it is within the second margin of its own twelve leads,
    by bounds that hold for all settings at once.
    """
    margin = study.options.margins[:2][-1]
    tasks = len({row["task"] for row in rows})
    texts = []
    for names, head in heads_of(study).items():
        own = [r for r in rows if (r["model"], r["policy"], r["against"]) == (*names, OWN)]
        verdicts = [row[f"margin_{margin:g}"] for row in own]
        within: dict[str, int] = {}
        for row, verdict in zip(own, verdicts):
            if verdict == "yes" and row["low_all_settings"] > -margin:
                within[row["leads"]] = within.get(row["leads"], 0) + 1
        where = [
            setting_words(leads) + (f" (on {n} of {counted(tasks, 'task')})" if tasks > 1 else "")
            for leads, n in within.items()
        ]
        what = f"within {margin_words(margin)} points of its own twelve leads"
        if where:
            texts.append(f"{head.label} is {what} with {enumerated(where)}, all settings at once.")
        elif {*verdicts} - {"no verdict", "not tested"}:
            texts.append(f"{head.label} is at no setting shown to be {what}.")
    return texts


def _notes(study: Study) -> list[str]:
    cancelled = (
        f" A yes is cancelled where a label with at least {LEAST_POSITIVES} positives surely lost "
        f"more than {points(LOST, 0)} points."
        if ranks_records(study.metric)
        else " Labels are not looked at one by one under this metric."
    )
    texts = [
        f"Within a margin: yes where the whole 95 % interval of the difference lies above minus "
        f"the margin, no where it lies below, else undecided. The margins have no clinical basis: "
        f"choose yours with --set report.margins. No verdict where the lower bound at twelve leads "
        f"is not {MARGINS_ABOVE_CHANCE} margins above chance: what is at chance cannot get worse."
        + cancelled,
        "Detectable: the smallest true difference that such a comparison finds 80 % of the time. "
        "All of this is of these fits; repeated fits (training.seeds) widen it.",
    ]
    if sign_of(study) < 0:
        texts.append("Lower values are better: differences are turned, so that less is worse.")
    return texts
