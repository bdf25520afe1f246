"""Across tasks: means over datasets, how models differ in them, and which may be the best; every
model against a baseline, dataset by dataset; ranks over datasets.

Tasks of one dataset have the same patients, so a mean is taken within each dataset first and then
over datasets; the mean over tasks stands beside it for comparison with the paper. Only columns with
a score in every task have a mean. Intervals and p are of patients: of these datasets, not of ECGs
at large. For ranks one task stands for each dataset. `ecgbench report --baseline merl` names the
baseline; else it is the first trained model of the run.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from ecgbench.core.registry import plain
from ecgbench.core.text import counted, enumerated, shortened
from ecgbench.errors import BadSetting
from ecgbench.reports import (
    LONGEST,
    Cell,
    Column,
    Figure,
    Notes,
    Numbers,
    Part,
    ReportCard,
    Row,
    Section,
    Table,
    bracket,
    look,
    p_value,
    points,
    signed,
    signed_bracket,
)
from ecgbench.reports._facts import (
    Head,
    columns,
    difference_cell,
    heads_of,
    setting_words,
    titles_of,
)
from ecgbench.reports._facts import untrained_marks as marks_of
from ecgbench.reports._intervals import Interval, draw
from ecgbench.reports._means import (
    Standing,
    estimated,
    foremost,
    real_tasks,
    score,
    settings,
    shown_alone,
    sign_of,
    stand_ahead,
    standing,
    uneven,
)
from ecgbench.results import ahead
from ecgbench.results.study import Study
from ecgbench.stats.detectable import detectable
from ecgbench.stats.ranks import Ranked, ranked, smallest_p

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Sheet

CARD = ReportCard(
    title="Across tasks",
    summary="means, differences to a baseline and ranks over datasets, and which may be the best",
    reads="run",
    order=15,
)
MOST = 4
"""Lead settings that the figure of differences to a baseline shows."""
WHOLE = "all datasets"
FEWEST = 3
"""Datasets and models below which nothing is ranked."""
LEVEL = 0.05
Shown = dict[str, Any]


def sections(study: Study) -> list[Section]:
    """Nothing of a run of one task."""
    stand_ahead(study, settings(study))
    every = [standing(study, leads) for leads in settings(study)]
    found = [s for s in every if s and len(s.tasks) > 1]
    if not found:
        return _ranks(study)
    sentences = [text for s in found if (text := _sentence(study, s))]
    parts: list[Part] = [Notes(sentences, "plain")] if sentences else []
    parts += [_means_table(study, found), _pairs_table(found), _notes(found)]
    means = Section(name="across", title=CARD.title, parts=parts)
    few = [s for s in found if s.leads in foremost(study, MOST)]
    return [means, *_forest(study, few), *_ranks(study)]


def first_places(study: Study, s: Standing) -> dict[Head, int]:
    """On how many tasks each trained column is first; equal scores share a place."""
    return {head: count["first"] for head, count in _counts(study, s).items()}


def _counts(study: Study, s: Standing) -> dict[Head, Shown]:
    """How often each trained column with a mean is first, and how far it lies above the best other
    one: among all trained columns that have a score in a task, as in the main table.
    """
    trained = [*s.heads, *(head for head in s.lost if not head.untrained)]
    scores = s.sign * pd.DataFrame(
        {head: [score(study, task, head, s.leads) for task in s.tasks] for head in trained},
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


def _means(study: Study, s: Standing) -> list[Shown]:
    """One row per column, those without a mean last."""
    counts, rows = _counts(study, s), []
    for place, head in enumerate((*s.heads, *s.untrained), 1):
        bound = s.beyond_the_best.get(head)
        row: Shown = {
            **_column(study, s, head),
            "datasets": len(s.joint.datasets),
            "tasks": len(s.tasks),
            "value": s.values[head],
            **s.intervals[head]._asdict(),
            "value_by_task": s.by_task[head],
            "rank": None if head.untrained else place,
            "beyond_the_best": bound,
            "may_be_best": None if bound is None or not s.tested else s.may_be_best(head),
            **dict.fromkeys(("behind", "behind_low", "behind_high", "p", "p_holm")),
            **counts.get(head, dict.fromkeys(counts[s.heads[0]])),
            "note": "",
        }
        if place > 1 and not head.untrained:
            pair = s.pair(s.heads[0], head)
            row |= {"behind": pair.estimate.value, "p": pair.p, "p_holm": pair.p_holm}
            row |= {f"behind_{end}": value for end, value in pair.bounds._asdict().items()}
            row["note"] = pair.note
        rows.append(row)
    return rows + [
        dict.fromkeys(rows[0]) | _column(study, s, head) | {"note": f"no mean: {why}"}
        for head, why in s.lost.items()
    ]


def _column(study: Study, s: Standing, head: Head) -> Shown:
    named = {"leads": s.leads, "model": head.model, "policy": head.policy}
    return {**named, "metric": study.metric, "untrained": head.untrained}


def _means_table(study: Study, found: Sequence[Standing]) -> Table:
    heads, titles = heads_of(study), titles_of(study)
    means = [row for s in found for row in _means(study, s)]
    rows: list[Row] = []
    for row in means:
        may, task = row["may_be_best"], row["largest_gain_task"]
        known = row["value"] is not None
        rows.append(
            row
            | {
                "leads": setting_words(row["leads"]),
                "model": heads[row["model"], row["policy"]].cell,
                "mean": Cell(points(row["value"]), small=bracket(row["low"], row["high"]))
                if known
                else None,
                "behind": difference_cell(row, "behind", "behind_low", "behind_high"),
                "may": "" if may is None else "yes" if may else "no",
                "largest": f"{signed(row['largest_gain'])} on {titles[task]}" if task else "",
            }
        )
    data, tasks, own = of_how_many(found)
    listed = [
        Column("leads", "Leads", "group"),
        Column("model", "Model"),
        *own,
        Column("mean", "Mean", "number", note=f"{data}, 95 % interval"),
        Column("value_by_task", "Mean", "number", points, note=tasks),
        Column("behind", "Best − model", "number", note="points, 95 % interval"),
        Column("p_holm", "p", "number", p_value, note="Holm"),
        Column("may", "May be the best"),
        Column("first", "First", "number", note="of tasks"),
        Column("top_three", "Top three", "number", note="of tasks"),
        Column("gain", "Gain", "number", signed, note="mean, over best other"),
        Column("largest", "Largest gain"),
        Column("note", "Note"),
    ]
    return Table(
        name="across",
        caption=f"Macro {study.metrics[study.metric].title} × 100, means over tasks.",
        columns=[c for c in listed if any(row.get(c.name) not in (None, "") for row in rows)],
        rows=rows,
        marks=marks_of(heads.values()),
        numbers=Numbers(
            columns=list(means[0]), rows=means, summary="one row per lead setting and column"
        ),
    )


def of_how_many(found: Sequence[Standing]) -> tuple[str, str, list[Column]]:
    """What headings say that means are of, datasets and tasks; where lead settings differ in that,
    columns that say it row by row.
    """
    if len({s.tasks for s in found}) == 1:
        data, tasks = len(found[0].joint.datasets), len(found[0].tasks)
        return counted(data, "dataset"), counted(tasks, "task"), []
    own = [Column("datasets", "Datasets", "number"), Column("tasks", "Tasks", "number")]
    return "over datasets", "over tasks", own


def _pairs_table(found: Sequence[Standing]) -> Table:
    rows = []
    for s in found:
        for pair in s.pairs:
            e, carrier = pair.estimate, s.joint.named(pair.estimate)
            rows.append(
                {
                    "leads": s.leads,
                    "model": pair.better.model,
                    "policy": pair.better.policy,
                    "other_model": pair.other.model,
                    "other_policy": pair.other.policy,
                    **estimated(e),
                    "p": pair.p,
                    "p_holm": pair.p_holm,
                    "detectable": detectable(e),
                    "share": e.share if carrier else None,
                    "share_of": carrier,
                    "datasets": len(s.joint.datasets),
                    "note": pair.note,
                }
            )
    return Table(
        name="across_pairs",
        columns=[Column(name) for name in (rows[0] if rows else ["leads"])],
        rows=rows,
        formats=("csv",),
    )


def _sentence(study: Study, s: Standing) -> str:
    """What a setting shows, and what that rests on."""
    if len(s.heads) < 2:
        return ""
    first, second = s.heads[:2]
    pair, data, words = s.pair(first, second), len(s.joint.datasets), setting_words(s.leads)
    where = f"these {data} datasets" if data > 1 else f"the {len(s.tasks)} tasks of one dataset"
    mean = f"{points(s.values[first])} {bracket(*s.intervals[first])}".strip()
    apart = f"{points(pair.estimate.value)} points {signed_bracket(*pair.bounds)}".strip()
    text = f"{words[:1].upper()}{words[1:]}, {where}: {first.label} has the best mean, {mean}, "
    text += (f"{apart} before " if pair.estimate.value else "the same as ") + second.label
    if pair.p_holm is None:
        text += f" ({pair.note})."
    else:
        stated = f"p = {p_value(pair.p_holm)}".replace("= <", "< ")
        may = [head.label for head in s.heads if s.may_be_best(head)]
        text += f" ({stated} after Holm over {counted(len(s.pairs), 'pair')})."
        text += f" May be the best (95 %): {enumerated(may)}." if may else ""
    tasks = counted(len(s.tasks), "task")
    text += f" It is first on {first_places(study, s)[first]} of {tasks}."
    out = [head.label for head in s.lost if not head.untrained]
    return text + (f" Without a mean: {enumerated(out)}." if out else "")


def _notes(found: Sequence[Standing]) -> Notes:
    pairs = {pair for s in found for pair in s.joint.overlapping}
    given = any(s.joint.sharing for s in found)
    how = "draws of patients cannot pair them" if given else "give the pairs with --duplicates FILE"
    return Notes(
        [
            "Means are taken within a dataset first, then over datasets; the mean over tasks is "
            "the paper's. Intervals and p say how much other patients of these datasets would "
            "change the numbers, and nothing about other datasets.",
            "May be the best: Hsu's comparison with the best, all columns of a setting at once. "
            "Gain: over the best other column, task by task. Equal scores share a place.",
            *(
                f"{a} and {b} share recordings. Their errors are taken as if they were the same "
                f"patients, which makes intervals wider than need be; {how}."
                for a, b in sorted(pairs)
            ),
        ]
    )


def _forest(study: Study, found: Sequence[Standing]) -> list[Section]:
    """The figure of every model less the baseline."""
    if not found:
        return []
    baseline = _baseline(study, found)
    against = [s for s in found if baseline in s.heads]
    pieces = [partial(_against, s, baseline) for s in against]
    ahead.each(study.scorer, study.stage, ("differences to a baseline", "lead settings"), pieces)
    rows = [row for s in against for row in _against(s, baseline)]
    if not rows:
        return []
    heads, titles = heads_of(study), {WHOLE: WHOLE, **{d.name: d.title for d in study.datasets}}
    for group in (group for s in found for group in s.joint.groups):
        titles.setdefault(group.name, enumerated([titles[name] for name in group.datasets]))
    lines = [
        Interval(
            panel=heads[row["model"], row["policy"]].label,
            place=titles[row["dataset"]],
            series=setting_words(row["leads"]),
            diamond=row["dataset"] == WHOLE,
            value=row["difference"],
            low=row["low"],
            high=row["high"],
        )
        for row in rows
    ]
    models, places = {line.panel for line in lines}, {line.place for line in lines}
    caption = f"Difference to {baseline.label} in points, 95 % intervals over patients; right of 0 "
    caption += f"is better than {baseline.label}."
    if WHOLE in places:
        counts = {len(s.joint.datasets) for s in against}
        over = (
            counted(counts.pop(), "dataset")
            if len(counts) == 1
            else "all datasets that have a score there"
        )
        caption += f" Diamonds: the mean over {over}."
    note = f"Against {baseline.label}, which --baseline changes. Tasks of one dataset are averaged."
    if len(settings(study)) > MOST:
        note += f" {shown_alone(foremost(study, MOST), 'across_pairs.csv')}"
    figure = Figure(
        name="forest",
        draw=partial(draw, lines, 2),
        caption=caption,
        size=(9.6, (0.5 + 0.34 * len(places)) * ((len(models) + 1) // 2) + 1.2),
        numbers=Numbers(
            columns=list(rows[0]), rows=rows, summary="one row per lead setting, column and dataset"
        ),
    )
    title = f"Every model against {baseline.label}"
    parts: list[Part] = [figure, Notes([note])]
    return [Section(name="forest", title=title, short="Against a baseline", parts=parts)]


def _baseline(study: Study, found: Sequence[Standing]) -> Head:
    trained = [h for h in dict.fromkeys(h for s in found for h in s.values) if not h.untrained]
    name = study.options.baseline
    for head in trained:
        if not name or plain(head.model) == plain(name):
            return head
    raise BadSetting(
        f"--baseline {name}: no trained model of this run has a score in every task under that "
        f"name; there are {', '.join(dict.fromkeys(h.model for h in trained))}"
    )


def _against(s: Standing, baseline: Head) -> list[Shown]:
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
            **estimated(e),
        }
        for at, head in enumerate(others)
        for dataset, e in ((dataset, estimates[at]) for dataset, estimates in parts.items())
    ]


class _Ranking(NamedTuple):
    """One lead setting."""

    leads: str
    heads: list[Head]
    tasks: list[str]
    found: Ranked


def _ranks(study: Study) -> list[Section]:
    """Mean ranks over datasets; nothing of fewer than three datasets or trained columns."""
    blocks = _blocks(study)
    found = [r for leads in settings(study) if (r := _ranking(study, leads, blocks))]
    if not found:
        return []
    titles = titles_of(study)
    listed = {r.leads: ", ".join(titles[t] for t in r.tasks) for r in found}
    which = "; ".join(f"{setting_words(leads)}: {text}" for leads, text in listed.items())
    limits = [
        f"with {counted(n, 'dataset')} no p can be below {smallest_p(n):.3g}"
        for n in dict.fromkeys(len(r.tasks) for r in found)
    ]
    note = (
        f"One task stands for each dataset: "
        f"{listed[found[0].leads] if len(set(listed.values())) == 1 else which} (others: --set "
        f"report.blocks). A rank knows nothing of how sure a score is: a difference of 0.1 points "
        f"counts like one of 10. p: Wilcoxon's signed-rank test for each pair, Holm over all pairs "
        f"of a setting; {enumerated(limits)} before Holm. In the diagram a bar joins models that "
        f"do not differ at {LEVEL:g}."
    )
    parts: list[Part] = [_ranks_table(found), _diagram(study, found), Notes([note])]
    return [Section(name="ranks", title="Ranks over datasets", short="Ranks", parts=parts)]


def _blocks(study: Study) -> list[str]:
    """The task that stands for each dataset: that of report.blocks, else its first."""
    real = real_tasks(study)
    of = {t.name: t.dataset for t in study.tasks if t.name in real}
    first: dict[str, str] = {}
    for task in study.options.blocks:
        if task not in of:
            raise BadSetting(f"--set report.blocks={task}: no task of this run with genuine data")
        if of[task] in first:
            raise BadSetting(
                f"--set report.blocks={first[of[task]]},{task}: both are of {of[task]}; "
                f"one stands for it"
            )
        first[of[task]] = task
    for task, dataset in of.items():
        first.setdefault(dataset, task)
    return [first[dataset] for dataset in dict.fromkeys(of.values())]


def _ranking(study: Study, leads: str, blocks: Sequence[str]) -> _Ranking | None:
    trained = [h for h in columns(study) if not h.untrained]
    scores = pd.DataFrame(
        {h: [score(study, t, h, leads) for t in blocks] for h in trained}, index=list(blocks)
    )
    scores = scores.dropna(how="all").dropna(axis=1)
    tasks = list(scores.index)
    heads = [head for head in trained if head in scores]
    less = uneven(study, heads, leads, tasks)
    heads = [head for head in heads if head not in less]
    if len(tasks) < FEWEST or len(heads) < FEWEST:
        return None
    return _Ranking(leads, heads, tasks, ranked(sign_of(study) * scores[heads].to_numpy()))


def _ranks_table(found: Sequence[_Ranking]) -> Table:
    ranks = {r.leads: dict(zip(r.heads, map(float, r.found.ranks))) for r in found}
    heads = dict.fromkeys(head for r in found for head in r.heads)
    return Table(
        name="ranks",
        caption="Mean rank over datasets; 1 is the best, equal scores share theirs.",
        columns=[
            Column("model", "Model"),
            *(Column(r.leads, setting_words(r.leads), "number", "{:.2f}".format) for r in found),
        ],
        rows=[
            {"model": head.cell, **{leads: own.get(head) for leads, own in ranks.items()}}
            for head in heads
        ],
    )


def _diagram(study: Study, found: Sequence[_Ranking]) -> Figure:
    rows = [
        {
            "leads": r.leads,
            "model": a.model,
            "policy": a.policy,
            "other_model": b.model,
            "other_policy": b.policy,
            "rank": float(r.found.ranks[i]),
            "other_rank": float(r.found.ranks[j]),
            "p_holm": float(r.found.p[i, j]),
            "datasets": len(r.tasks),
        }
        for r in found
        for i, a in enumerate(r.heads)
        for j, b in enumerate(r.heads)
        if i < j
    ]
    return Figure(
        name="ranks_diagram",
        draw=partial(_draw_diagram, found, columns(study)),
        caption="Critical-difference diagram: mean ranks, the best on the left; a bar joins "
        "models that do not differ.",
        size=(7.4, 0.6 + sum(1.0 + 0.16 * len(r.heads) for r in found)),
        numbers=Numbers(
            columns=list(rows[0]), rows=rows, summary="one row per lead setting and two columns"
        ),
    )


def _draw_diagram(found: Sequence[_Ranking], heads: Sequence[Head], sheet: "Sheet") -> None:
    from scikit_posthocs import critical_difference_diagram

    axes = sheet.subplots(len(found), 1, squeeze=False).ravel()
    for ax, r in zip(axes, found):
        short = [shortened(h.label, LONGEST // 2) for h in r.heads]
        labels = [s if short.count(s) == 1 else h.label for s, h in zip(short, r.heads)]
        colours = [look(heads.index(h))["color"] for h in r.heads]  # those of the whole run
        ax.grid(visible=False)
        critical_difference_diagram(
            dict(zip(labels, map(float, r.found.ranks))),
            pd.DataFrame(r.found.p, index=labels, columns=labels),
            ax=ax,
            label_props={"fontsize": 8},
            marker_props={"s": 14},
            color_palette=dict(zip(labels, colours)),
        )
        ax.set_title(setting_words(r.leads), fontsize=9)
