"""Lead importance: how well each condition, and each category of conditions, is told from one lead
alone, where a run holds all twelve single leads.

A number is an AUROC less the mean over the twelve leads, in points, times its reliability: how far
the profile over leads is the same in other patients. Below GREY it is shown grey. See
docs/lead_importance.md.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np

from ecgbench.core.text import counted, enumerated
from ecgbench.datasets._labels import categories
from ecgbench.ecg.leads import LEADS
from ecgbench.published import LEAD_RANGE
from ecgbench.reports import Figure, Group, Notes, Part, ReportCard, Section, points
from ecgbench.reports._facts import Head, heads_of, tasks, titles_of
from ecgbench.reports._lead_figures import Line, bars, bodies, heat_map
from ecgbench.reports._lead_tables import GREY, Shown, conditions, grey, long, tables
from ecgbench.results import ahead
from ecgbench.results.lead_importance import (
    FEWEST_POSITIVES,
    METRIC,
    Condition,
    Profile,
    Trained,
    columns,
    importance,
)
from ecgbench.results.lead_importance import Group as Average
from ecgbench.results.study import Study
from ecgbench.stats.lead_importance import EXCHANGES, HALVINGS

CARD = ReportCard(
    title="Lead importance",
    summary="how well conditions are told from each lead alone, where a run has all twelve",
    reads="run",
    order=65,
)
_TRAINED: dict[Trained, str] = {
    "same": "One probe for each lead, fitted and tested on that lead alone (--train-leads same).",
    "random": "One fit that was shown random leads (--train-leads random, the paper's way), tested "
    "on one lead at a time: it may give up some of a lead to serve all.",
    "all": "One fit on twelve leads, tested on one: this is also how well the model stands the "
    "loss of eleven. For what a lead holds: ecgbench run --train-leads same.",
}


def sections(study: Study) -> list[Section]:
    """Nothing where no column holds all twelve single leads, or no label has a category."""
    if METRIC not in study.metrics:
        return []
    shown = list(_shown(study))
    if not shown:
        return []
    several = len(shown) > 1
    parts: list[Part] = []
    for one in shown:
        own: list[Part] = [Notes(list(_notes(study, one))), *tables(one), *_figures(one)]
        own.append(conditions(one))
        parts += [Group(one.title, own)] if several else own
    title = "What one lead tells" + ("" if several else f": {shown[0].title}")
    return [Section(name="lead_importance", title=title, short=CARD.title, parts=parts)]


def _shown(study: Study) -> Iterator[Shown]:
    heads, known, titles = heads_of(study), categories(), titles_of(study)
    asked = []
    for task in (t.task for t in tasks(study)):
        labels = study.labels.loc[study.labels["task"] == task, "label"]
        if known.keys() & set(labels):
            asked += [(task, names) for names in columns(study, task)]
    pieces = [partial(importance, study, *which, known) for which in asked]
    ahead.each(study.scorer, study.stage, (CARD.title, "models of a task"), pieces)
    for number, (task, names) in enumerate(asked, 1):
        head = heads[names]
        yield Shown(
            title=f"{titles[task]}, {_label(head)}",
            head=head,
            found=importance(study, task, names, known),
            suffix="" if number == 1 else f"_{number}",
        )


def _label(head: Head) -> str:
    return head.label + (" (random weights)" if head.untrained else "")


def _figures(one: Shown) -> Iterator[Figure]:
    macro, averages = one.found.macro, one.averages[1:]
    middle = float(np.mean(macro.aurocs))
    yield bars(
        f"lead_importance_bars{one.suffix}",
        [
            (macro.aurocs[at], middle + macro.low[at], middle + macro.high[at])
            for at in range(len(LEADS))
        ],
        (middle, macro.bound / 2),
        f"{one.title}: macro AUROC of each lead alone. Intervals are of its distance from the mean "
        f"over leads, 95 %, over patients.",
        long(one, [macro]),
    )
    if averages:
        lines = [_line(g) for g in averages]
        yield bodies(
            f"lead_importance_body{one.suffix}",
            lines,
            f"{one.title}: the body from the front, the patient's left on the right. Chest leads "
            f"lie where their electrodes do, limb leads at their angle in the frontal plane. "
            f"Points, shrunk. Limb leads are combinations of I and II.",
            long(one, averages),
        )
    shown = [c for c in one.found.conditions if _drawn(c)]
    shown.sort(key=lambda c: [g.name for g in one.found.categories].index(c.category))
    if shown or averages:
        lines = [*map(_line, averages), *(_line(c, c.left_out != "") for c in shown)]
        yield heat_map(
            f"lead_importance_map{one.suffix}",
            lines,
            f"{one.title}: categories, then conditions. AUROC of one lead alone less the mean over "
            f"the twelve, in points, shrunk. Grey: reliability below {GREY}, or a range that "
            f"exchangeable leads give too.",
            long(one, [*averages, *shown]),
        )


def _drawn(c: Condition) -> bool:
    return c.positives >= FEWEST_POSITIVES and bool(np.isfinite(c.shrunk).all())


def _line(profile: Profile, left_out: bool = False) -> Line:
    values = [100 * v for v in profile.shrunk]
    name = profile.name if not isinstance(profile, Average) else profile.name.upper()
    return Line(name=name, values=values, grey=grey(profile) or left_out)


def _notes(study: Study, one: Shown) -> Iterator[str]:
    """What was measured, and what not to read into it."""
    found, macro = one.found, one.found.macro
    low, high = macro.bounds
    there = np.isfinite([low, high]).all()
    interval = f"95 % interval at least {points(low)} to {points(high)}" if there else "no interval"
    yield (
        f"{_TRAINED[found.trained]} {found.patients:,} test patients."
        + (" The encoder has random weights." if one.head.untrained else "")
    )
    yield (
        f"Macro AUROC of one lead: {points(min(macro.aurocs))} to {points(max(macro.aurocs))}, a "
        f"range of {points(macro.range)} points ({interval}). Leads that are "
        f"exchangeable within patients would give {points(macro.expected)} on average and up to "
        f"{points(macro.bound)} in 95 of 100 cases. "
        f"The paper prints {points(LEAD_RANGE[0])} to {points(LEAD_RANGE[1])}, a range of "
        f"{points(LEAD_RANGE[1] - LEAD_RANGE[0])}, for LAEF fine-tuned with random leads on the "
        f"164 conditions of Cardio-Learning. That figure itself needs Cardio-Learning, which "
        f"cannot be had as a whole, so it is not drawn here."
    )
    count = sum(map(grey, found.conditions))
    yield (
        f"Of {counted(len(found.conditions), 'condition')} {count} "
        f"{'is' if count == 1 else 'are'} grey: in {HALVINGS} halvings of the patients, the "
        f"reliability of the order of leads is below {GREY} (median correlation of the halves, "
        f"Spearman-Brown) or cannot be had. Nothing should be read into these; larger test sets "
        f"have fewer of them."
    )
    yield (
        f"Categories are ours. In their means are conditions with at least {FEWEST_POSITIVES} "
        f"positives whose range is beyond that of exchangeable leads: each patient's leads put in "
        f"an order of their own, {EXCHANGES} times. They were chosen on the same data, which makes "
        f"the means somewhat wide."
    )
    if found.unassigned:
        yield f"In no category: {enumerated(found.unassigned)}. They count in the macro mean alone."
    yield (
        "III, aVR, aVL and aVF are combinations of I and II: a low number says that such a lead by "
        "itself tells less here, not that it is unimportant. Of two leads, only a difference with "
        "its interval says which tells more."
    )
    if _per_lead(study, found.model):
        yield (
            f"{one.head.title} receives each lead scaled by itself, which hides voltage: nothing "
            f"here says which leads show hypertrophy."
        )


def _per_lead(study: Study, model: str) -> bool:
    facts = next((m for m in study.models if m.name == model), None)
    return "lead" in str(facts.contract.get("normalisation", "")) if facts else False
