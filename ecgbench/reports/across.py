"""Across tasks: means over datasets, how models differ in them, and which may be the best; every
model against a baseline, dataset by dataset.

Tasks of one dataset have the same patients, so a mean is taken within each dataset first and then
over datasets; the mean over tasks stands beside it for comparison with the paper. Only columns with
a score in every task have a mean. Intervals and p are of patients: of these datasets, not of ECGs
at large. `ecgbench report --baseline merl` names the baseline; else it is the first trained model
of the run.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pandas as pd

from ecgbench import reports as r
from ecgbench.core.registry import plain
from ecgbench.core.text import enumerated
from ecgbench.errors import BadSetting
from ecgbench.reports import _facts as facts
from ecgbench.reports import _means as means
from ecgbench.reports._facts import Head
from ecgbench.reports._intervals import draw
from ecgbench.reports._means import Means
from ecgbench.reports._scores import ranked
from ecgbench.results import precompute
from ecgbench.results.non_inferiority import estimated
from ecgbench.results.study import Run
from ecgbench.stats.detectable import detectable

CARD = r.ReportCard(
    title="Across tasks",
    summary="means and differences to a baseline over datasets, and which may be the best",
    reads="run",
    order=15,
)
MOST = 4
"""Lead settings that the figure of differences to a baseline shows."""
WHOLE = "all datasets"
VALUE = ("value", "low", "high")
BEHIND = ("behind", "behind_low", "behind_high")
MEANS = (
    *("leads", "model", "policy", "metric", "untrained", "datasets", "tasks", *VALUE),
    *("value_by_task", "rank", "beyond_the_best", "may_be_best", *BEHIND, "p", "p_holm"),
    *("first", "top_three", "gain", "largest_gain", "largest_gain_task", "note"),
)
_NOTES = (
    "Means are taken within a dataset first, then over datasets; the mean over tasks is the "
    "paper's. Intervals and p are of the patients of these datasets. May be the best: Hsu's "
    "comparison with the best. Gain: over the best other column. See docs/explanation/intervals.md."
)
Values = dict[str, Any]


def rows(study: Run) -> pd.DataFrame:
    """MEANS of each lead setting and column, and `means`: all that is said of the setting. None of
    a run of one task.
    """
    every = means.at_settings(study, means.settings(study))
    found = [s for s in every if s and len(s.tasks) > 1]
    made = [row | {"means": s} for s in found for row in _means(study, s)]
    return pd.DataFrame(made, columns=[*MEANS, "means"], dtype=object)


def sections(study: Run, rows: pd.DataFrame) -> list[r.Section]:
    """Means, and every model against a baseline."""
    found: list[Means] = list(dict.fromkeys(rows["means"]))
    if not found:
        return []
    parts: list[r.Part] = [
        _means_table(study, rows[list(MEANS)]),
        _pairs_table(found),
        _notes(found),
    ]
    section = r.Section(name="across", page=False, title=CARD.title, parts=parts)
    few = [s for s in found if s.leads in means.foremost(study, MOST)]
    return [section, *_forest(study, few)]


def _counts(study: Run, s: Means) -> dict[Head, Values]:
    """How often each trained column with a mean is first, and how far it lies above the best other
    one: among all trained columns that have a score in a task, as in the main table.
    """
    trained = [*s.heads, *(head for head in s.lost if not head.untrained)]
    rows = ranked(study)[study.metric].query("leads == @s.leads and not alone")
    values = rows.set_index(["task", "model", "policy"])["value"].to_dict()
    scores = s.sign * pd.DataFrame(
        {
            head: [values.get((task, *head.names), float("nan")) for task in s.tasks]
            for head in trained
        },
        index=list(s.tasks),
    )
    places = scores[scores.count(axis=1) > 1].rank(axis=1, method="dense", ascending=False)
    counts = {}
    for head in s.heads:
        gain = (scores[head] - scores.drop(columns=[head]).max(axis=1)).dropna()
        counts[head] = {
            "first": int((places[head] == 1).sum()),
            "top_three": int((places[head] <= 3).sum()),
            "gain": float(gain.mean()) if len(gain) else None,
            "largest_gain": float(gain.max()) if len(gain) else None,
            "largest_gain_task": gain.idxmax() if len(gain) else None,
        }
    return counts


def _means(study: Run, s: Means) -> Iterator[Values]:
    """One row per column, those without a mean last."""
    counts = _counts(study, s)
    for place, head in enumerate((*s.heads, *s.untrained, *s.lost), 1):
        row: Values = {"leads": s.leads, "model": head.model, "policy": head.policy}
        row |= {"metric": study.metric, "untrained": head.untrained, "note": ""}
        if head in s.lost:
            yield row | {"note": f"no mean: {s.lost[head]}"}
            continue
        row |= {"datasets": len(s.joint.datasets), "tasks": len(s.tasks), "value": s.values[head]}
        row |= s.intervals[head]._asdict() | {"value_by_task": s.by_task[head]}
        if not head.untrained:
            row |= {"rank": place} | counts[head]
        if not head.untrained and len(s.heads) > 1:
            row["beyond_the_best"] = s.beyond_the_best[head]
            row["may_be_best"] = s.may_be_best(head) if s.tested else None
        if not head.untrained and place > 1:
            pair = s.pair(s.heads[0], head)
            row |= dict(zip(BEHIND, (pair.estimate.value, *pair.bounds)))
            row |= {"p": pair.p, "p_holm": pair.p_holm, "note": pair.note}
        yield row


def _means_table(study: Run, rows: pd.DataFrame) -> r.Table:
    return r.Table(
        name="across",
        caption=f"Macro {study.metrics[study.metric].title} × 100, means over tasks.",
        columns=[
            r.Column("leads", kind="group", cell=lambda row: facts.setting_words(row["leads"])),
            facts.model_column(study),
            r.Column("datasets", kind="number"),
            r.Column("tasks", kind="number"),
            r.estimate_column(VALUE, note="over datasets, 95 % interval"),
            r.Column("value_by_task", kind="number", spell=r.points, note="over tasks"),
            r.difference_column(BEHIND, "points, 95 % interval"),
            r.Column("p_holm", kind="number", spell=r.p_value, note="Holm"),
            r.Column("may_be_best", spell={True: "yes", False: "no"}.__getitem__),
            r.Column("first", kind="number", note="of tasks"),
            r.Column("gain", kind="number", spell=r.signed, note="mean, over best other"),
            r.Column("note"),
        ],
        rows=rows,
        summary="one row per lead setting and column",
    )


def _pairs_table(found: Sequence[Means]) -> r.Table:
    rows = [
        {
            "leads": s.leads,
            "model": pair.better.model,
            "policy": pair.better.policy,
            "other_model": pair.other.model,
            "other_policy": pair.other.policy,
            **estimated(pair.estimate),
            "p": pair.p,
            "p_holm": pair.p_holm,
            "detectable": detectable(pair.estimate),
            "share": pair.estimate.share if s.joint.named(pair.estimate) else None,
            "share_of": s.joint.named(pair.estimate),
            "datasets": len(s.joint.datasets),
            "note": pair.note,
        }
        for s in found
        for pair in s.pairs
    ]
    return r.Table(name="across_pairs", rows=pd.DataFrame(rows, dtype=object))


def _notes(found: Sequence[Means]) -> r.Notes:
    given = any(s.joint.sharing for s in found)
    how = "draws of patients cannot pair them"
    if not given:
        how = "give the pairs with --set report.duplicates=FILE"
    shared = [
        f"{a} and {b} share recordings: intervals are wider than need be; {how}."
        for a, b in sorted({pair for s in found for pair in s.joint.overlapping})
    ]
    return r.Notes([_NOTES, *shared])


def _forest(study: Run, found: Sequence[Means]) -> list[r.Section]:
    """The figure of every model less the baseline."""
    if not found:
        return []
    baseline = _baseline(study, found)
    pieces = [partial(_against, s, baseline) for s in found if baseline in s.heads]
    called = "differences to a baseline", "lead settings"
    each = precompute.each(study.scorer, study.stage, called, pieces)
    rows = [row for own in each for row in own]
    if not rows:
        return []
    heads, titles = (
        facts.heads_of(study),
        {d.name: d.title for d in study.datasets} | {WHOLE: WHOLE},
    )
    for group in (group for s in found for group in s.joint.groups):
        titles.setdefault(group.name, enumerated([titles[name] for name in group.datasets]))
    frame = pd.DataFrame(rows, dtype=object)
    lines = frame.assign(
        panel=[heads[names].label for names in zip(frame["model"], frame["policy"])],
        place=frame["dataset"].map(titles),
        series=frame["leads"].map(facts.setting_words),
        diamond=frame["dataset"] == WHOLE,
        value=frame["difference"],
    )
    panels, places = lines["panel"].nunique(), lines["place"].nunique()
    figure = r.Figure(
        name="forest",
        draw=partial(draw, lines, 2),
        caption=f"Difference to {baseline.label} in points, 95 % intervals over patients; right of "
        f"0 is better than {baseline.label}. Diamonds: the mean over all datasets of a setting.",
        size=(9.6, (0.5 + 0.34 * places) * ((panels + 1) // 2) + 1.2),
        numbers=frame,
        summary="one row per lead setting, column and dataset",
    )
    note = f"Against {baseline.label}, which --baseline changes. Tasks of one dataset are averaged."
    if len(means.settings(study)) > MOST:
        note += f" {means.shown_alone(means.foremost(study, MOST), 'across_pairs.csv')}"
    title = f"Every model against {baseline.label}"
    parts: list[r.Part] = [figure, r.Notes([note])]
    return [
        r.Section(name="forest", page=False, title=title, short="Against a baseline", parts=parts)
    ]


def _baseline(study: Run, found: Sequence[Means]) -> Head:
    trained = [h for h in dict.fromkeys(h for s in found for h in s.values) if not h.untrained]
    name = study.options.baseline
    for head in trained:
        if not name or plain(head.model) == plain(name):
            return head
    raise BadSetting(
        f"--baseline {name}: no trained model of this run has a score in every task under that "
        f"name; there are {', '.join(dict.fromkeys(h.model for h in trained))}"
    )


def _against(s: Means, baseline: Head) -> list[Values]:
    """Each trained column less the baseline, in each dataset and over all."""
    others = [h for h in s.values if not h.untrained and h != baseline]
    if not others:
        return []
    weights = s.less([(head, baseline) for head in others])
    parts = s.joint.by_dataset(weights)
    if len(parts) > 1:
        parts = {**parts, WHOLE: s.joint.contrasts(weights)}
    return [
        {
            "leads": s.leads,
            "model": head.model,
            "policy": head.policy,
            "baseline": baseline.model,
            "baseline_policy": baseline.policy,
            "dataset": dataset,
            **estimated(estimates[at]),
        }
        for at, head in enumerate(others)
        for dataset, estimates in parts.items()
    ]
