"""Across tasks: means over datasets, how models differ in them, and which may be the best.

Tasks of one dataset have the same patients, so a mean is taken within each dataset first and then
over datasets; the mean over tasks stands beside it for comparison with the paper. Only columns with
a score in every task have a mean. Intervals and p are of patients: of these datasets, not of ECGs
at large.
"""

from collections.abc import Sequence
from typing import Any

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
    bracket,
    p_value,
    points,
    signed,
    signed_bracket,
)
from ecgbench.reports._facts import Head, heads_of, main_rows, setting_words, titles_of
from ecgbench.reports._facts import untrained_marks as marks_of
from ecgbench.reports._standing import Pair, Standing, same_tasks, settings, stand_ahead, standing
from ecgbench.results.study import Study
from ecgbench.stats.detectable import detectable
from ecgbench.stats.places import ranks

CARD = ReportCard(
    title="Across tasks",
    summary="means over datasets, how models differ in them, and which may be the best",
    reads="run",
    order=15,
)
Shown = dict[str, Any]


def sections(study: Study) -> list[Section]:
    """Nothing of a run of one task."""
    stand_ahead(study, settings(study))
    found = [s for leads in settings(study) if (s := standing(study, leads))]
    found = [s for s in found if len(s.tasks) > 1]
    if not found:
        return []
    means = [row for s in found for row in _means(study, s)]
    pairs = [row for s in found for row in _pairs(s)]
    said = [text for s in found if (text := sentence(study, s))]
    parts = [Notes(said, "plain")] if said else []
    tables = [_mean_table(study, found, means), _pair_table(pairs)]
    return [Section(name="across", title="Across tasks", parts=[*parts, *tables, _notes(found)])]


def _counts(study: Study, s: Standing) -> dict[Head, Shown]:
    """How often each trained column with a mean is first, and how far it lies above the best other
    one: among all trained columns that have a score in a task, as in the main table.
    """
    value = {
        (r["task"], r["model"], r["policy"]): r["value"]
        for r in main_rows(study)
        if r["leads"] == s.leads and r["metric"] == study.metric
    }
    counts: dict[Head, Shown] = {head: {"first": 0, "top_three": 0} for head in s.heads}
    gains: dict[Head, list[tuple[float, str]]] = {head: [] for head in s.heads}
    trained = [*s.heads, *(head for head in s.lost if not head.untrained)]
    for task in s.tasks:
        own = [value.get((task, *head.names)) for head in trained]
        places = ranks(own, study.metrics[study.metric].direction)
        for at, (head, place) in enumerate(zip(s.heads, places)):
            counts[head]["first"] += place == 1
            counts[head]["top_three"] += place is not None
            others = [score for score in own[:at] + own[at + 1 :] if score is not None]
            if others:
                best = max(others) if s.sign > 0 else min(others)
                gains[head].append((s.sign * (value[task, *head.names] - best), task))
    for head, each in gains.items():
        largest = max(each, default=(None, None))
        counts[head] |= {
            "gain": sum(g for g, _ in each) / len(each) if each else None,
            "largest_gain": largest[0],
            "largest_gain_task": largest[1],
        }
    return counts


def first_places(study: Study, s: Standing) -> dict[Head, int]:
    """On how many tasks each trained column is first; equal scores share a place."""
    return {head: count["first"] for head, count in _counts(study, s).items()}


def _means(study: Study, s: Standing) -> list[Shown]:
    """One row per column, those without a mean last."""
    counts, rows = _counts(study, s), []
    for place, head in enumerate((*s.heads, *s.untrained), 1):
        low, high = s.intervals[head]
        bound = s.beyond_the_best.get(head)
        row: Shown = {
            "leads": s.leads,
            "model": head.model,
            "policy": head.policy,
            "metric": study.metric,
            "untrained": head.untrained,
            "datasets": len(s.joint.datasets),
            "tasks": len(s.tasks),
            "value": s.values[head],
            "low": low,
            "high": high,
            "value_by_task": s.by_task[head],
            "rank": None if head.untrained else place,
            "beyond_the_best": bound,
            "may_be_best": None if bound is None or not s.tested else s.may_be_best(head),
            **dict.fromkeys(("behind", "behind_low", "behind_high", "p", "p_holm")),
            **counts.get(head, {}),
            "note": "",
        }
        if place > 1 and not head.untrained:
            pair = s.pair(s.heads[0], head)
            row |= {
                "behind": pair.estimate.value,
                "behind_low": pair.bounds.low,
                "behind_high": pair.bounds.high,
                "p": pair.p,
                "p_holm": pair.p_holm,
                "note": pair.note,
            }
        rows.append(row)
    empty = dict.fromkeys(rows[0])
    rows += [
        empty
        | {
            "leads": s.leads,
            "model": head.model,
            "policy": head.policy,
            "metric": study.metric,
            "untrained": head.untrained,
            "note": f"no mean: {why}",
        }
        for head, why in s.lost.items()
    ]
    return rows


def _mean_table(study: Study, found: Sequence[Standing], means: Sequence[Shown]) -> Table:
    heads = heads_of(study)
    rows: list[Row] = []
    for row in means:
        head = heads[row["model"], row["policy"]]
        shown: dict[str, Any] = {"leads": setting_words(row["leads"]), "model": head.cell}
        if row["value"] is not None:
            may = row["may_be_best"]
            shown |= {
                "mean": Cell(points(row["value"]), small=bracket(row["low"], row["high"])),
                "by_task": row["value_by_task"],
                "behind": _difference(row),
                "p_holm": row["p_holm"],
                "may": "" if may is None else "yes" if may else "no",
                **{n: row.get(n) for n in ("first", "top_three", "gain", "datasets", "tasks")},
                "largest": _largest(study, row),
            }
        else:
            shown |= dict.fromkeys(("mean", "by_task", "behind", "p_holm", "first", "top_three"))
            shown |= dict.fromkeys(("datasets", "tasks"))
            shown |= {"note": row["note"]}
        if row["note"]:
            shown["note"] = row["note"]
        rows.append(shown)
    data, tasks, own = of_how_many(found)
    columns = [
        Column("leads", "Leads", "group"),
        Column("model", "Model"),
        *own,
        Column("mean", "Mean", "number", note=f"{data}, 95 % interval"),
        Column("by_task", "Mean", "number", points, note=tasks),
        Column("behind", "Best − model", "number", note="points, 95 % interval"),
        Column("p_holm", "p", "number", p_value, note="Holm"),
        Column("may", "May be the best"),
        Column("first", "First", "number", note="of tasks"),
        Column("top_three", "Top three", "number", note="of tasks"),
        Column("gain", "Gain", "number", signed, note="mean, over best other"),
        Column("largest", "Largest gain"),
        Column("note", "Note"),
    ]
    shown_columns = [c for c in columns if any(row.get(c.name) not in (None, "") for row in rows)]
    return Table(
        name="across",
        caption=f"Macro {study.metrics[study.metric].title} × 100, means over tasks.",
        columns=shown_columns,
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
    if same_tasks(found):
        data, tasks = len(found[0].joint.datasets), len(found[0].tasks)
        return counted(data, "dataset"), counted(tasks, "task"), []
    own = [Column("datasets", "Datasets", "number"), Column("tasks", "Tasks", "number")]
    return "over datasets", "over tasks", own


def _difference(row: Shown) -> Cell | str:
    if row["behind"] is None:
        return ""
    return Cell(signed(row["behind"]), small=signed_bracket(row["behind_low"], row["behind_high"]))


def _largest(study: Study, row: Shown) -> str:
    if row.get("largest_gain") is None:
        return ""
    return f"{signed(row['largest_gain'])} on {titles_of(study)[row['largest_gain_task']]}"


def _pairs(s: Standing) -> list[Shown]:
    return [_pair(s, pair) for pair in s.pairs]


def _pair(s: Standing, pair: Pair) -> Shown:
    e = pair.estimate
    carrier = s.joint.named(e)
    return {
        "leads": s.leads,
        "model": pair.better.model,
        "policy": pair.better.policy,
        "other_model": pair.other.model,
        "other_policy": pair.other.policy,
        "difference": e.value,
        "low": pair.bounds.low,
        "high": pair.bounds.high,
        "se": e.se,
        "df": e.df,
        "p": pair.p,
        "p_holm": pair.p_holm,
        "detectable": detectable(e),
        "share": e.share if carrier else None,
        "share_of": carrier,
        "datasets": len(s.joint.datasets),
        "note": pair.note,
    }


def _pair_table(pairs: Sequence[Shown]) -> Table:
    names = list(pairs[0]) if pairs else ["leads"]
    return Table(
        name="across_pairs",
        columns=[Column(name) for name in names],
        rows=pairs,
        numbers=Numbers(
            columns=names, rows=pairs, summary="one row per lead setting and two trained columns"
        ),
        formats=("csv",),
    )


def sentence(study: Study, s: Standing) -> str:
    """What a setting shows, and what that rests on."""
    if len(s.heads) < 2:
        return ""
    first, second = s.heads[:2]
    pair, data = s.pair(first, second), len(s.joint.datasets)
    low, high = s.intervals[first]
    where = f"these {data} datasets" if data > 1 else f"the {len(s.tasks)} tasks of one dataset"
    words = setting_words(s.leads)
    mean = f"{points(s.values[first])} {bracket(low, high)}".strip()
    apart = f"{points(pair.estimate.value)} points {signed_bracket(*pair.bounds)}".strip()
    beyond = f"{apart} before" if pair.estimate.value else "the same as"
    text = (
        f"{words[:1].upper()}{words[1:]}, {where}: {first.label} has the best mean, {mean}, "
        f"{beyond} {second.label}"
    )
    if pair.p_holm is None:
        text += f" ({pair.note})"
    else:
        stated = f"p = {p_value(pair.p_holm)}".replace("= <", "< ")
        text += f" ({stated} after Holm over {counted(len(s.pairs), 'pair')})"
        may = [head.label for head in s.heads if s.may_be_best(head)]
        text += f". May be the best (95 %): {enumerated(may)}" if may else ""
    count = _counts(study, s)[first]["first"]
    out = [head.label for head in s.lost if not head.untrained]
    rest = f" Without a mean: {enumerated(out)}." if out else ""
    return f"{text}. It is first on {count} of {counted(len(s.tasks), 'task')}.{rest}"


def _notes(found: Sequence[Standing]) -> Notes:
    texts = [
        "Means are taken within a dataset first, since its tasks have the same patients; then "
        "over datasets. The mean over tasks is the paper's. Intervals and p say how much other "
        "patients of these datasets would change the numbers. They say nothing about other "
        "datasets.",
        "May be the best: Hsu's comparison with the best, all columns of a setting at once, 95 %. "
        "Gain: over the best other column, task by task. Equal scores share a place.",
    ]
    pairs = {pair for s in found for pair in s.joint.overlapping}
    given = any(s.joint.sharing for s in found)
    how = "draws of patients cannot pair them" if given else "give the pairs with --duplicates FILE"
    texts += [
        f"{a} and {b} share recordings. Their errors are taken as if they were the same patients, "
        f"which makes intervals wider than need be; {how}."
        for a, b in sorted(pairs)
    ]
    return Notes(texts)
