"""Non-inferiority: what fewer leads cost, against the same model at twelve leads and against the
best model there, with verdicts by margin.

A difference is of the same patients, of macro AUROC or the metric that the table leads with. "yes"
where the whole 95 % interval lies above minus the margin, "no" where it lies below, "undecided"
otherwise. Two guards: no verdict where the model's own skill at twelve leads is not clearly above
chance, since what is at chance never gets worse; and no "yes" where a single label has clearly
lost much, since a mean over labels can hide it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from ecgbench.core.text import counted, enumerated
from ecgbench.reports import (
    Cell,
    Column,
    Notes,
    Numbers,
    ReportCard,
    Row,
    Section,
    Table,
    points,
    signed,
    signed_bracket,
)
from ecgbench.reports._facts import (
    FULL,
    Head,
    columns,
    heads_of,
    main_rows,
    setting_words,
    titles_of,
)
from ecgbench.reports._facts import untrained_marks as marks_of
from ecgbench.reports._standing import for_page, real_tasks, settings
from ecgbench.reports._text import margin as margin_words
from ecgbench.results import ahead
from ecgbench.results.compare import LEAST_PATIENTS, UNTESTED, weak
from ecgbench.results.joint import Entry, Joint, joint, lacking
from ecgbench.results.study import Study
from ecgbench.stats.components import Estimate, independent_mean
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
SHOWN = 120
"""Rows of a table that people read; the CSV has all."""
Shown = dict[str, Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Model:
    """A column in a task: all its lead settings, and the best column at twelve leads."""

    task: str
    head: Head
    best: Head
    leads: tuple[str, ...]
    """Settings but twelve that have a score."""
    joint: Joint

    @property
    def own(self) -> Entry:
        return Entry(*self.head.names, FULL)

    @property
    def top(self) -> Entry:
        return Entry(*self.best.names, FULL)

    def weights(self, against: Entry) -> np.ndarray:
        """(setting, entry): each setting less `against`."""
        return np.array(
            [self.joint.less(Entry(*self.head.names, typed), against) for typed in self.leads]
        )

    @cached_property
    def full(self) -> Estimate:
        """At twelve leads."""
        one = np.eye(len(self.joint.entries))[self.joint.entries.index(self.own)]
        return self.joint.contrast(one)

    def simultaneous(self, against: Entry) -> list[float]:
        """Lower bounds (setting,) that hold for all settings at once with 97.5 %."""
        weights = self.weights(against)

        def compute() -> dict[str, Any]:
            drawn, found = self.joint.studentised(weights), self.joint.contrasts(weights)
            critical = float(np.quantile(drawn.max(axis=1), 0.975))
            return {"low": [e.value - max(critical, e.t) * e.se for e in found]}

        low: list[float] = self.joint.once("all settings", weights.tolist(), compute)["low"]
        return low

    def lost(self, against: Entry) -> list[str]:
        """For each setting the label with the largest sure loss beyond LOST; "" where none."""
        weights = self.weights(against)

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
    said = _sentences(study, rows)
    parts = [Notes(said, "plain")] if said else []
    table = _table(study, rows)
    return [
        Section(
            name="non_inferiority",
            title="What fewer leads cost against twelve",
            short=CARD.title,
            parts=[*parts, table, Notes(_notes(study, rows))],
        )
    ]


def _models(study: Study) -> Iterator[_Model]:
    if study.scorer is None:
        return
    value: dict[tuple[str, str, str], float] = {
        (r["task"], r["model"], r["policy"]): r["value"]
        for r in main_rows(study)
        if r["leads"] == FULL and r["metric"] == study.metric and r["value"] is not None
    }
    sign = 1 if study.metrics[study.metric].direction == "higher" else -1
    trained = [head for head in columns(study) if not head.untrained]
    for task in real_tasks(study):
        there = [h for h in trained if (task, *h.names) in value]
        if not there:
            continue
        best = there[int(np.argmax([sign * value[task, *h.names] for h in there]))]
        for head in there:
            fewer = [
                leads
                for leads in settings(study)
                if leads != FULL and not lacking(study, [Entry(*head.names, leads)], [task])
            ]
            entries = [Entry(*head.names, leads) for leads in (*fewer, FULL)]
            entries += [] if best is head else [Entry(*best.names, FULL)]
            if fewer:
                yield _Model(
                    task=task,
                    head=head,
                    best=best,
                    leads=tuple(fewer),
                    joint=joint(study, entries, [task]),
                )


def _rows(study: Study, model: _Model) -> list[Shown]:
    made: list[Shown] = []
    card = study.metrics[study.metric]
    low_full = model.full.as_share().low if card.chance is not None else np.nan
    patients = model.joint.least_patients
    comparisons = [(OWN, model.own)] + ([] if model.best is model.head else [(BEST, model.top)])
    sign = 1 if card.direction == "higher" else -1
    for against, entry in comparisons:
        found = model.joint.contrasts(sign * model.weights(entry))
        lows = model.simultaneous(entry) if sign > 0 else [np.nan] * len(found)
        lost = model.lost(entry) if sign > 0 else [""] * len(found)
        for leads, e, low, label in zip(model.leads, found, lows, lost):
            bounds = e.as_difference()
            name = model.joint.named(e)
            why = weak(e.df, e.share if name else np.nan, f"the label {name}")
            if patients < LEAST_PATIENTS:
                why = f"{UNTESTED}{patients} test patients, fewer than {LEAST_PATIENTS}"
            elif not e.variance > 0:
                why = f"{UNTESTED}all records are ranked alike: no variance"
            verdicts = {
                margin: _verdict(bounds, margin, low_full - (card.chance or 0.0), why)
                for margin in study.options.margins
            }
            cancelled = label if "yes" in verdicts.values() else ""
            made.append(
                {
                    "task": model.task,
                    "model": model.head.model,
                    "policy": model.head.policy,
                    "leads": leads,
                    "against": against,
                    "against_model": entry.model,
                    "against_policy": entry.policy,
                    "difference": e.value,
                    "low": bounds.low,
                    "high": bounds.high,
                    "se": e.se,
                    "df": e.df,
                    "low_all_settings": None if np.isnan(low) else low,
                    "low_full": None if np.isnan(low_full) else low_full,
                    "detectable": detectable(e),
                    "lost_label": label,
                    "note": why,
                }
                | {
                    f"margin_{margin:g}": "cancelled" if cancelled and said == "yes" else said
                    for margin, said in verdicts.items()
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
    shown: list[Row] = [
        {
            "task": titles[row["task"]],
            "model": heads[row["model"], row["policy"]].cell,
            "leads": row["leads"],
            "against": OWN
            if row["against"] == OWN
            else f"{heads[row['against_model'], row['against_policy']].label}, {BEST}",
            "difference": Cell(
                signed(row["difference"]), small=signed_bracket(row["low"], row["high"])
            ),
            "detectable": row["detectable"],
            "note": row["note"] or (f"lost: {row['lost_label']}" if _cancelled(row) else ""),
        }
        | {name: row[name] for name in _verdict_names(study)}
        for row in rows
    ]
    columns = [
        Column("task", "Task", "group"),
        Column("model", "Model"),
        Column("leads", "Leads", on_page=setting_words),
        Column("against", "Against"),
        Column("difference", "Difference", "number", note="points, 95 % interval"),
        *(
            Column(name, f"Within {margin_words(margin)}", note="points")
            for name, margin in zip(_verdict_names(study), study.options.margins)
        ),
        Column("detectable", "Detectable", "number", points, note="points"),
        Column("note", "Note"),
    ]
    shown, said = for_page(study, shown, "non_inferiority.csv")
    many = len(shown) > SHOWN
    return Table(
        name="non_inferiority",
        caption=f"Macro {study.metrics[study.metric].title} at fewer leads less that at twelve.",
        columns=[c for c in columns if any(r.get(c.name) not in (None, "") for r in shown)],
        rows=shown,
        notes=said,
        marks=marks_of(heads.values()),
        numbers=Numbers(
            columns=list(rows[0]),
            rows=rows,
            summary="one row per task, column, lead setting and what it is compared with",
        ),
        formats=("csv", "html") if many else ("csv", "md", "tex", "html"),
    )


def _verdict_names(study: Study) -> list[str]:
    return [f"margin_{margin:g}" for margin in study.options.margins]


def _cancelled(row: Mapping[str, Any]) -> bool:
    return "cancelled" in row.values()


def _sentences(study: Study, rows: Sequence[Shown]) -> list[str]:
    """For each column: at which settings it is within the second margin of its own twelve leads,
    by bounds that hold for all settings at once.
    """
    margins = study.options.margins
    margin = margins[min(1, len(margins) - 1)]
    heads, tasks = heads_of(study), len({row["task"] for row in rows})
    said = []
    for names in dict.fromkeys((row["model"], row["policy"]) for row in rows):
        own = [r for r in rows if (r["model"], r["policy"], r["against"]) == (*names, OWN)]
        held: dict[str, int] = {}
        for row in own:
            low = row["low_all_settings"]
            if row[f"margin_{margin:g}"] == "yes" and low is not None and low > -margin:
                held[row["leads"]] = held.get(row["leads"], 0) + 1
        label = heads[names].label
        where = [
            setting_words(leads) + (f" (on {n} of {counted(tasks, 'task')})" if tasks > 1 else "")
            for leads, n in held.items()
        ]
        verdicts = {r[f"margin_{margin:g}"] for r in own}
        if where:
            said.append(
                f"{label} is within {margin_words(margin)} points of its own twelve leads with "
                f"{enumerated(where)}; these bounds hold for all settings at once."
            )
        elif verdicts & {"no", "undecided", "cancelled", "yes"}:
            said.append(
                f"{label} is at no setting shown to be within {margin_words(margin)} points of "
                f"its own twelve leads."
            )
    return said


def _notes(study: Study, rows: Sequence[Shown]) -> list[str]:
    first = study.metrics[study.metric]
    texts = [
        f"Within a margin: yes where the whole 95 % interval of the difference lies above minus "
        f"the margin, no where it lies below, else undecided. The margins have no clinical basis: "
        f"choose yours with --set report.margins. No verdict where the lower bound at twelve leads "
        f"is not "
        f"{MARGINS_ABOVE_CHANCE} margins above chance: what is at chance cannot get worse. "
        + (
            f"A yes is cancelled where a label with at least {LEAST_POSITIVES} positives surely "
            f"lost more than {points(LOST, 0)} points."
            if ranks_records(study.metric)
            else "Labels are not looked at one by one under this metric."
        ),
        "Detectable: the smallest true difference that such a comparison finds 80 % of the time. "
        "All of this is of these fits; repeated fits (training.seeds) widen it.",
    ]
    if first.direction == "lower":
        texts.append("Lower values are better: differences are turned, so that less is worse.")
    return texts
