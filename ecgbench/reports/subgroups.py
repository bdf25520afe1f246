"""Subgroups: how each model does in patients of a sex, an age, with a paced rhythm, of a device or
a site, against the rest, and whether that difference grows with fewer leads.

Every group is compared at every lead setting; p is corrected for all comparisons of the report
(Holm). That no difference was shown does not say that there is none: groups are small. The group
that does worst is named with the caution that one of several is always the worst.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np

from ecgbench.core.text import counted, enumerated
from ecgbench.reports import (
    Column,
    Figure,
    Group,
    Notes,
    Numbers,
    Part,
    ReportCard,
    Row,
    Section,
    Table,
    p_value,
    points,
    signed,
    signed_bracket,
)
from ecgbench.reports._facts import (
    FULL,
    Head,
    columns,
    difference_cell,
    heads_of,
    leads_of,
    setting_words,
    titles_of,
    untrained_marks,
)
from ecgbench.reports._intervals import Interval, draw
from ecgbench.reports._means import estimated, settings, sign_of
from ecgbench.results import ahead
from ecgbench.results.study import Study
from ecgbench.results.subgroups import LEAST, VARIABLES, Compared, compared
from ecgbench.stats.paired import holm
from ecgbench.study.people import people
from ecgbench.study.scores import ranks_records

CARD = ReportCard(
    title="Subgroups",
    summary="scores by sex, age, pacing, device and site, and whether fewer leads widen the gaps",
    reads="run",
    order=63,
)
LEVEL = 0.05
SENTENCES = 12
"""Differences that have a sentence."""
LONG = 60
"""Rows beyond which a table stands on the page and in its CSV alone."""
FIGURES, PANELS = 6, 4
"""Tasks with a figure of their own, and columns in it."""
ALL_OTHERS = "all others"
_WORST = (
    *("variable", "group", "rest", "n_patients", "n_labels", "value", "value_rest", "difference"),
    *("difference_low", "difference_high", "difference_p", "difference_p_holm"),
)
_DRAWN = (
    *("task", "model", "policy", "leads", "variable", "group", "rest", "n_patients"),
    *("difference", "difference_low", "difference_high"),
)
Found = dict[str, Any]


def sections(study: Study) -> list[Section]:
    """Nothing of a run of a metric without placements, or that keeps nothing of its patients."""
    if study.scorer is None or not ranks_records(study.metric):
        return []
    if not any(len(people(study.path, d.name)) for d in study.datasets):
        return []
    rows, left = _gathered(study)
    if not rows and not left:
        return []
    parts: list[Part] = []
    if rows:
        _correct(rows)
        parts += [Notes(_sentences(study, rows), "plain"), _worst(study, rows)]
        parts += [*_figures(study, rows), _table(study, rows)]
    if left:
        parts.append(Group("Groups that are not compared", [_left(study, left)], folded=True))
    parts.append(Notes(_notes(study, rows)))
    return [Section(name="subgroups", title="Groups of patients", short=CARD.title, parts=parts)]


def _gathered(study: Study) -> tuple[list[Found], list[Found]]:
    """All comparisons, and what is not compared, each group of a task once."""
    trained = [head for head in columns(study) if not head.untrained]
    wanted = [(task, head) for task in titles_of(study) for head in trained]
    rests = settings(study), FULL
    pieces = [partial(compared, study, task, head.names, *rests) for task, head in wanted]
    ahead.each(study.scorer, study.stage, (CARD.title, "models of a task"), pieces)
    rows: list[Found] = []
    left: dict[tuple[str, str, str], Found] = {}
    for task, head in wanted:
        found, lost = compared(study, task, head.names, *rests)
        rows += [_row(task, head, sign_of(study), one) for one in found]
        for one in lost:
            left[task, one.group.variable, one.group.name] = {
                "task": task,
                "variable": one.group.variable,
                "group": one.group.name,
                "n_patients": one.patients,
                "reason": one.why,
            }
    return rows, list(left.values())


def _row(task: str, head: Head, sign: int, c: Compared) -> Found:
    return {
        "task": task,
        "model": head.model,
        "policy": head.policy,
        "leads": c.leads,
        "variable": c.group.variable,
        "group": c.group.name,
        "rest": c.group.rest,
        "n_patients": c.patients[0],
        "n_patients_rest": c.patients[1],
        "n_records": c.records[0],
        "n_records_rest": c.records[1],
        "n_labels": len(c.labels),
        "labels": "+".join(c.labels),
        "value": c.values[0],
        "value_rest": c.values[1],
        **estimated(c.difference, "difference", "difference_"),
        **estimated(c.change, "change", "change_"),
        "worse": sign * c.difference.value,
    }


def _correct(rows: Sequence[Found]) -> None:
    """p after Holm: of all differences, and of all changes."""
    for name in ("difference", "change"):
        p = [np.nan if row[f"{name}_p"] is None else row[f"{name}_p"] for row in rows]
        for row, adjusted in zip(rows, holm(p)):
            row[f"{name}_p_holm"] = float(adjusted) if np.isfinite(adjusted) else None


def _sentences(study: Study, rows: Sequence[Found]) -> list[str]:
    heads, titles = heads_of(study), titles_of(study)

    def clear(name: str) -> list[Found]:
        known = [row for row in rows if row[f"{name}_p_holm"] is not None]
        return [row for row in known if row[f"{name}_p_holm"] < LEVEL]

    def sentence(row: Found, name: str, what: str, other: str) -> str:
        bounds = signed_bracket(row[f"{name}_low"], row[f"{name}_high"])
        label = heads[row["model"], row["policy"]].label
        return (
            f"{label} on {titles[row['task']]}, {setting_words(row['leads'])}: {what} "
            f"{signed(row[name])} points {bounds} against {other} "
            f"(p {p_value(row[f'{name}_p_holm'])})."
        )

    shown, moved = clear("difference"), clear("change")
    texts = [
        f"{counted(len(rows), 'comparison')} of a group with the rest, p after Holm over all of "
        f"them: {len(shown) or 'none'} shown. What is not shown is not shown to be equal."
    ]
    texts += [
        sentence(row, "difference", _named(row), row["rest"])
        for row in sorted(shown, key=lambda row: row["worse"])[:SENTENCES]
    ]
    if len(shown) > SENTENCES:
        texts.append(f"{len(shown) - SENTENCES} more are in subgroups.csv.")
    if changes := [row for row in rows if row["change"] is not None]:
        texts.append(
            f"Does a gap change with fewer leads than twelve? {counted(len(changes), 'comparison')}"
            f": {len(moved) or 'none'} shown after Holm."
        )
    return texts + [
        sentence(row, "change", f"the gap of {_named(row)} is", "that at twelve leads")
        for row in sorted(moved, key=lambda row: row["change"])[:SENTENCES]
    ]


def _named(row: Row) -> str:
    """`age 80 and over`, `device CS-12`, `female`."""
    plain = row["variable"] in ("sex", "paced")
    return str(row["group"]) if plain else f"{row['variable']} {row['group']}"


def _formats(rows: Sequence[Row]) -> Any:
    return ("csv", "html") if len(rows) > LONG else ("csv", "md", "tex", "html")


def _difference(row: Found, name: str = "difference") -> Any:
    return difference_cell(row, name, f"{name}_low", f"{name}_high")


def _worst(study: Study, rows: Sequence[Found]) -> Table:
    """Of each task, column and lead setting the group that lies lowest against its rest."""
    heads, titles = heads_of(study), titles_of(study)
    by: dict[tuple[str, ...], list[Found]] = {}
    for row in rows:
        by.setdefault((row["task"], row["model"], row["policy"], row["leads"]), []).append(row)
    kept: list[Found] = []
    shown: list[Row] = []
    for (task, model, policy, leads), own in by.items():
        worst = min(map(_worse_side, own), key=lambda row: row["worse"])
        whose = {"task": task, "model": model, "policy": policy, "leads": leads}
        kept.append({**whose, "groups": len(own), **{name: worst[name] for name in _WORST}})
        shown.append(
            {
                **kept[-1],
                "task": titles[task],
                "model": heads[model, policy].cell,
                "group": _named(worst),
                "difference": _difference(worst),
            }
        )
    return Table(
        name="subgroups_worst",
        caption="The group that does worst against the rest, of those compared. One of several is "
        "always the worst, by chance alone too: p is corrected for all comparisons.",
        columns=[
            Column("task", "Task", "group"),
            Column("model", "Model"),
            Column("leads", "Leads", on_page=setting_words),
            Column("group", "Worst group"),
            Column("value", "Score in it", "number", points, note="× 100"),
            Column("difference", "Less the rest", "number", note="points, 95 % interval"),
            Column("difference_p_holm", "p, Holm", "number", p_value),
            Column("groups", "Comparisons", "number"),
        ],
        rows=shown,
        marks=untrained_marks(heads.values()),
        numbers=Numbers(
            columns=list(kept[0]), rows=kept, summary="one row per task, column and lead setting"
        ),
        formats=_formats(shown),
    )


def _worse_side(row: Found) -> Found:
    """A comparison of two groups alone, from the side that does worse."""
    if row["rest"] == ALL_OTHERS or row["worse"] <= 0:
        return row
    low, high = row["difference_low"], row["difference_high"]
    return row | {
        "group": row["rest"],
        "rest": row["group"],
        "n_patients": row["n_patients_rest"],
        "value": row["value_rest"],
        "value_rest": row["value"],
        "difference": -row["difference"],
        "difference_low": None if high is None else -high,
        "difference_high": None if low is None else -low,
        "worse": -row["worse"],
    }


def _ends(rows: Sequence[Row]) -> list[str]:
    """Twelve leads and the fewest, of the settings that are there."""
    there = sorted({row["leads"] for row in rows}, key=lambda typed: (leads_of(typed), typed))
    return list(dict.fromkeys([FULL if FULL in there else there[-1], there[0]]))


def _table(study: Study, rows: Sequence[Found]) -> Table:
    """At twelve leads and at the fewest; the CSV has all settings."""
    heads, titles, ends = heads_of(study), titles_of(study), _ends(rows)
    shown: list[Row] = [
        {
            **row,
            "task": f"{titles[row['task']]}, {heads[row['model'], row['policy']].label}",
            "variable": VARIABLES[row["variable"]],
            "group": f"{row['group']} (rest: {row['rest']})",
            "difference": _difference(row),
            "change": _difference(row, "change") or None,
        }
        for row in rows
        if row["leads"] in ends
    ]
    return Table(
        name="subgroups",
        caption="Each group less the rest, over the same labels, and how much farther it lies from "
        "the rest than at twelve leads.",
        columns=[
            Column("task", "Task and model", "group"),
            Column("variable", "By"),
            Column("group", "Group"),
            Column("n_patients", "Patients", "number"),
            Column("n_labels", "Labels", "number"),
            Column("leads", "Leads", on_page=setting_words),
            Column("value", "Score", "number", points, note="× 100"),
            Column("value_rest", "Rest", "number", points, note="× 100"),
            Column("difference", "Difference", "number", note="points, 95 % interval"),
            Column("difference_p_holm", "p, Holm", "number", p_value),
            Column("change", "Change", "number", note="against 12 leads, points"),
            Column("change_p_holm", "p, Holm", "number", p_value, note="of the change"),
        ],
        rows=shown,
        numbers=Numbers(
            columns=[name for name in rows[0] if name != "worse"],
            rows=rows,
            summary="one row per task, column, lead setting and group",
        ),
        formats=_formats(shown),
    )


def _left(study: Study, left: Sequence[Found]) -> Table:
    titles = titles_of(study)
    return Table(
        name="subgroups_left",
        caption="Counted, and not compared.",
        columns=[
            Column("task", "Task", "group"),
            Column("variable", "By"),
            Column("group", "Group"),
            Column("n_patients", "Patients", "number"),
            Column("reason", "Why"),
        ],
        rows=[
            row | {"task": titles[row["task"]], "variable": VARIABLES[row["variable"]]}
            for row in left
        ],
        numbers=Numbers(columns=list(left[0]), rows=left, summary="one row per task and group"),
        formats=("csv", "html"),
    )


def _figures(study: Study, rows: Sequence[Found]) -> Iterator[Figure]:
    """One for each of the first FIGURES tasks: each group less the rest, at twelve leads and at the
    fewest.
    """
    titles, heads = titles_of(study), heads_of(study)
    for number, (task, of) in enumerate(groupby(rows, key=lambda row: row["task"])):
        if number == FIGURES:
            return
        own = list(of)
        ends = _ends(own)
        shown = [row for row in own if row["leads"] in ends]
        drawn = list(dict.fromkeys((row["model"], row["policy"]) for row in own))[:PANELS]
        lines = [
            _interval(row, heads[names].label)
            for names in drawn
            for row in sorted(shown, key=lambda row: ends.index(row["leads"]))
            if (row["model"], row["policy"]) == names
        ]
        yield Figure(
            name=f"subgroups_forest_{number + 1}" if number else "subgroups_forest",
            draw=partial(draw, lines, PANELS),
            caption=f"{titles[task]}: each group less the rest in points, with 95 % intervals that "
            f"are not corrected for the number of comparisons; left of 0 the group does worse.",
            size=(9.6, 0.27 * len({line.place for line in lines}) + 1.5),
            numbers=Numbers(columns=_DRAWN, rows=shown, summary="one row per point"),
        )


def _interval(row: Found, label: str) -> Interval:
    less = "" if row["rest"] == ALL_OTHERS else f" less {row['rest']}"
    return Interval(
        panel=label,
        place=_named(row) + less,
        series=setting_words(row["leads"]),
        value=row["difference"],
        low=row["difference_low"],
        high=row["difference_high"],
    )


def _notes(study: Study, rows: Sequence[Found]) -> list[str]:
    texts = [
        f"A group and the rest are compared over the labels with at least {LEAST} patients with "
        f"and without them on both sides, so scores here are not those of the main table. Patients "
        f"of whom a quantity is not known are in none of its groups. Intervals are not corrected "
        f"for the number of comparisons; p is.",
        "A difference between groups can come from the device, the site, how ill the patients are "
        "or how labels were made; it does not say why.",
    ]
    if silent := [d.title for d in study.datasets if not len(people(study.path, d.name))]:
        texts.append(
            f"This run keeps neither age nor sex of {enumerated(silent)}; the same ecgbench run "
            f"command adds what the data say."
        )
    if synthetic := [d.title for d in study.datasets if d.synthetic and rows]:
        texts.append(f"Synthetic data: {enumerated(synthetic)}.")
    return texts
