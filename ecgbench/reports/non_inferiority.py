"""Non-inferiority: what fewer leads cost, against the same model at twelve leads and against the
best model there, with verdicts by margin.

A difference is of the same patients, of macro AUROC or the metric that the table leads with. "yes"
where the whole 95 % interval lies above minus the margin, "no" where it lies below, "undecided"
otherwise. Two guards: no verdict where the model's own skill at twelve leads is not clearly above
chance, since what is at chance never gets worse; and no "yes" where a single label has clearly
lost much, since a mean over labels can hide it.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ecgbench import reports as r
from ecgbench.core.text import counted, enumerated
from ecgbench.reports import _facts as facts
from ecgbench.reports import _means as means
from ecgbench.reports._text import margin as margin_words
from ecgbench.results import precompute
from ecgbench.results.compare import UNTESTED
from ecgbench.results.joint import Entry, Joint, joint, why_missing
from ecgbench.results.study import Study
from ecgbench.stats.detectable import detectable
from ecgbench.study.scores import ranks_records

CARD = r.ReportCard(
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
Values = dict[str, Any]


class _Model(NamedTuple):
    """A column in a task."""

    task: str
    own: Entry
    """At twelve leads."""
    best: Entry
    """The best column at twelve leads."""
    fewer: Sequence[Entry]
    """At its other settings that have a score."""
    joint: Joint
    """Of all of them."""


def lost_label(joint: Joint, weights: np.ndarray) -> str:
    """The label with the largest sure loss beyond LOST under a contrast (entry,); "" where none,
    and where a metric does not rank records.
    """
    worst, name = -LOST, ""
    for group in joint.groups if ranks_records(joint.metric) else ():
        placed = group.placed
        positives = np.bincount(placed.label_of, placed.positives)
        for label, found in enumerate(placed.by_label(weights)):
            high = found.as_difference().high
            if positives[label] >= LEAST_POSITIVES and high < worst:
                worst, name = high, group.label_names[label]
    return name


def no_verdict(above: float, margin: float) -> bool:
    """Whether what lies so far above chance (its lower bound) is too near to it to be kept."""
    return not above > MARGINS_ABOVE_CHANCE * margin


def sections(study: Study) -> list[r.Section]:
    """Nothing of a run without twelve leads, or without fewer."""
    pieces = [partial(_rows, study, model) for model in _models(study)]
    precompute.each(study.scorer, study.stage, (CARD.title, "models of a task"), pieces)
    rows = pd.DataFrame([row for piece in pieces for row in piece()], dtype=object)
    if rows.empty:
        return []
    parts: list[r.Part] = [_table(study, rows)]
    if rows["leads"].nunique() > facts.MANY:
        title = "All margins, and against the best at 12 leads"
        parts = [_grid(study, rows), r.Group(title, parts, folded=True)]
    parts = [r.Notes(_sentences(study, rows), "plain"), *parts, r.Notes(_notes(study))]
    title = "What fewer leads cost against twelve"
    return [r.Section(name="non_inferiority", title=title, short=CARD.title, parts=parts)]


def _models(study: Study) -> Iterator[_Model]:
    if study.scorer is None:
        return
    trained = [head for head in facts.columns(study) if not head.untrained]
    for task in means.real_tasks(study):
        scores = {head: means.score(study, task, head, facts.FULL) for head in trained}
        there = [head for head in trained if np.isfinite(scores[head])]
        if not there:
            continue
        top = max(there, key=lambda head: means.sign_of(study) * scores[head])
        best = Entry(*top.names, facts.FULL)
        for head in there:
            every = [Entry(*head.names, leads) for leads in means.settings(study)]
            own = Entry(*head.names, facts.FULL)
            fewer = [e for e in every if e != own and not why_missing(study, [e], [task])]
            if fewer:
                entries = list(dict.fromkeys([*fewer, own, best]))
                yield _Model(task, own, best, fewer, joint(study, entries, [task]))


def _rows(study: Study, model: _Model) -> list[Values]:
    """Each setting against its own twelve leads and against the best there."""
    together, entries = model.joint, model.joint.entries
    chance, sign = study.metrics[study.metric].chance, means.sign_of(study)
    full = together.contrast(np.eye(len(entries))[entries.index(model.own)])
    low_full = np.nan if chance is None else full.as_share().low
    made: list[Values] = []
    for against, entry in ((OWN, model.own), (BEST, model.best)):
        if against == BEST and entry == model.own:
            continue
        weights = np.array([together.less(fewer, entry) for fewer in model.fewer])
        found = together.contrasts(sign * weights)
        lows, lost = [np.nan] * len(found), [""] * len(found)
        if sign > 0:
            lows, lost = _kept(together, weights)
        for fewer, e, low, label in zip(model.fewer, found, lows, lost):
            why = means.untested(together, e)
            if not e.variance > 0 and "test patients" not in why:
                why = f"{UNTESTED}all records are ranked alike: no variance"
            row = {
                "task": model.task,
                **fewer._asdict(),
                "against": against,
                "against_model": entry.model,
                "against_policy": entry.policy,
                **means.estimated(e),
                "low_all_settings": low,
                "low_full": low_full,
                "detectable": detectable(e),
                "lost_label": label,
                "note": why,
            }
            del row["p"]  # of no difference, which is not the question
            for margin in study.options.margins:
                above = low_full - (chance or 0.0)
                row[f"margin_{margin:g}"] = _verdict(row, margin, above)
            made.append(row)
    return made


def _kept(together: Joint, weights: np.ndarray) -> tuple[list[float], list[str]]:
    """Lower bounds (setting,) that hold for all settings at once with 97.5 %, and `lost_label` of
    each; kept in the run.
    """

    def bounds() -> Values:
        drawn, found = together.studentised(weights), together.contrasts(weights)
        critical = float(np.quantile(drawn.max(axis=1), 0.975))
        return {"low": [e.value - max(critical, e.t) * e.se for e in found]}

    def labels() -> Values:
        return {"lost": [lost_label(together, row) for row in weights]}

    low = together.once("all settings", weights.tolist(), bounds)["low"]
    return low, together.once("lost labels", weights.tolist(), labels)["lost"]


def _verdict(row: Values, margin: float, above: float) -> str:
    """`above`: how far the lower bound at twelve leads lies above chance."""
    if row["note"] or row["low"] is None:
        return "not tested"
    if no_verdict(above, margin):
        return "no verdict"
    if row["low"] > -margin:
        return "cancelled" if row["lost_label"] else "yes"
    return "no" if row["high"] < -margin else "undecided"


def _table(study: Study, rows: pd.DataFrame) -> r.Table:
    heads = facts.heads_of(study)

    def against(row: r.Row) -> str:
        best = heads[row["against_model"], row["against_policy"]].label
        return OWN if row["against"] == OWN else f"{best}, {BEST}"

    def note(row: r.Row) -> str:
        lost = f"lost: {row['lost_label']}" if "cancelled" in row.values() else ""
        return str(row["note"] or lost)

    shown, notes = means.for_page(study, rows, "non_inferiority.csv")
    return r.Table(
        name="non_inferiority",
        caption=f"Macro {study.metrics[study.metric].title} at fewer leads less that at twelve.",
        columns=[
            facts.task_column(study),
            facts.model_column(study),
            facts.LEADS,
            r.Column("against", "Against", cell=against),
            facts.difference_column(note="points, 95 % interval"),
            *(
                r.Column(f"margin_{margin:g}", f"Within {margin_words(margin)}", note="points")
                for margin in study.options.margins
            ),
            r.Column("detectable", "Detectable", "number", r.points, note="points"),
            r.Column("note", "Note", cell=note),
        ],
        rows=shown,
        numbers=rows,
        notes=notes,
        summary="one row per task, column, lead setting and what it is compared with",
    )


def _grid(study: Study, rows: pd.DataFrame) -> r.Table:
    """A mark for each column and lead setting against its own twelve leads, by the margin of the
    sentences.
    """
    places = {head.names: at for at, head in enumerate(facts.columns(study))}
    margins = [(f"margin_{margin:g}", margin_words(margin)) for margin in study.options.margins]
    column, middle = margins[:2][-1]
    marks = {"yes": "✓", "no": "✗", "undecided": "?", "cancelled": "!"}
    cells = {}
    for row in r.records(rows[rows["against"] == OWN]):
        difference = f"{r.signed(row['difference'])} {r.signed_bracket(row['low'], row['high'])}"
        within = "; ".join(f"within {words}: {row[name]}" for name, words in margins)
        lost = f"; lost: {row['lost_label']}" if row["lost_label"] else ""
        at = row["task"], row["leads"], places[row["model"], row["policy"]]
        cells[at] = r.Cell(marks.get(row[column], "·"), small=f"{difference}; {within}{lost}")
    return facts.grid(
        study,
        cells,
        name="non_inferiority_grid",
        caption=f"Within {middle} points of its own twelve leads? Press a mark for its numbers.",
        marks={
            "✓": "within",
            "✗": "worse by more",
            "?": "these patients cannot tell",
            "!": "cancelled: a label has clearly lost",
            "·": "no verdict or not tested",
        },
        formats=("html",),
    )


def _sentences(study: Study, rows: pd.DataFrame) -> list[str]:
    """For each column: at which settings it is within the second margin of its own twelve leads,
    by bounds that hold for all settings at once.
    """
    margin = study.options.margins[:2][-1]
    what = f"within {margin_words(margin)} points of its own twelve leads"
    tasks, texts = rows["task"].nunique(), []
    for names, head in facts.heads_of(study).items():
        own = rows[(rows["model"] == names[0]) & (rows["policy"] == names[1])]
        own = own[own["against"] == OWN]
        verdicts = own[f"margin_{margin:g}"]
        within = Counter(own["leads"][(verdicts == "yes") & (own["low_all_settings"] > -margin)])
        where = [
            facts.setting_words(leads)
            + (f" (on {n} of {counted(tasks, 'task')})" if tasks > 1 else "")
            for leads, n in within.items()
        ]
        if where:
            texts.append(f"{head.label} is {what} with {enumerated(where)}, all settings at once.")
        elif {*verdicts} - {"no verdict", "not tested"}:
            texts.append(f"{head.label} is at no setting shown to be {what}.")
    return texts


def _notes(study: Study) -> list[str]:
    """How to read it."""
    texts = [
        f"yes: the whole 95 % interval of the difference lies above minus the margin. The margins "
        f"have no clinical basis: choose yours with --set report.margins. No verdict where the "
        f"lower bound at twelve leads is not {MARGINS_ABOVE_CHANCE} margins above chance; "
        f"cancelled where a label with at least {LEAST_POSITIVES} positives surely lost more than "
        f"{r.points(LOST, 0)} points. Detectable: the smallest true difference that is found 80 % "
        f"of the time. All of this is of these fits."
    ]
    if not ranks_records(study.metric):
        texts.append("Labels are not looked at one by one under this metric.")
    if means.sign_of(study) < 0:
        texts.append("Lower values are better: differences are turned, so that less is worse.")
    return texts
