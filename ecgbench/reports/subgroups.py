"""Subgroups: how each model does in patients of a sex, an age, with a paced rhythm, of a device or
a site, against the rest, and whether that difference grows with fewer leads.

Every group is compared at every lead setting; p is corrected for all comparisons of the report
(Holm). That no difference was shown does not say that there is none: groups are small. The group
that does worst is named with the caution that one of several is always the worst.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ecgbench.core.text import counted, enumerated
from ecgbench.reports import (
    Cell,
    Column,
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
    heads_of,
    setting_words,
    titles_of,
    untrained_marks,
)
from ecgbench.reports._standing import settings
from ecgbench.reports._subgroup_figure import ends_of, figures, two
from ecgbench.results import ahead
from ecgbench.results.study import Study
from ecgbench.results.subgroups import LEAST, VARIABLES, Compared, Left, compared
from ecgbench.stats.components import Estimate
from ecgbench.stats.paired import holm
from ecgbench.study.people import people
from ecgbench.study.scores import ranks_records

if TYPE_CHECKING:
    pass

CARD = ReportCard(
    title="Subgroups",
    summary="scores by sex, age, pacing, device and site, and whether fewer leads widen the gaps",
    reads="run",
    order=63,
)
LEVEL = 0.05
TOLD = 12
"""Differences that are told in sentences."""
SHOWN = 60
"""Rows of a table that people read; the CSV has all."""
Found = dict[str, Any]


def sections(study: Study) -> list[Section]:
    """Nothing of a run of a metric without placements, or that keeps nothing of its patients."""
    if study.scorer is None or not ranks_records(study.metric):
        return []
    known = {d.name: people(study.path, d.name) for d in study.datasets}
    if not any(len(table) for table in known.values()):
        return []
    rows, left = _gathered(study)
    if not rows and not left:
        return []
    _correct(rows)
    parts: list[Part] = [Notes(_sentences(study, rows), "plain")] if rows else []
    if rows:
        parts += [_worst(study, rows), *figures(study, rows), _table(study, rows)]
    if left:
        parts.append(Group("Groups that are not compared", [_left(study, left)], folded=True))
    parts.append(Notes(_notes(study, rows)))
    return [Section(name="subgroups", title="Groups of patients", short=CARD.title, parts=parts)]


def _gathered(study: Study) -> tuple[list[Found], list[Found]]:
    """All comparisons, and what is not compared, each group of a task once."""
    rows: list[Found] = []
    left: dict[tuple[str, str, str], Found] = {}
    sign = 1 if study.metrics[study.metric].direction == "higher" else -1
    trained = [head for head in columns(study) if not head.untrained]
    asked = [(task, head) for task in titles_of(study) for head in trained]
    rests = settings(study), FULL
    pieces = [partial(compared, study, task, head.names, *rests) for task, head in asked]
    ahead.each(study.scorer, study.stage, (CARD.title, "models of a task"), pieces)
    for task, head in asked:
        found, lost = compared(study, task, head.names, *rests)
        rows += [_row(task, head, sign, one) for one in found]
        for one in lost:
            left[task, one.group.variable, one.group.name] = _lost(task, one)
    return rows, list(left.values())


def _row(task: str, head: Head, sign: int, c: Compared) -> Found:
    low, high = c.difference.as_difference()
    made = {
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
        **_estimate("difference", c.difference),
        **_estimate("change", c.change),
        "worse": sign * c.difference.value,
    }
    return made | {"low": _known(low), "high": _known(high)}


def _estimate(name: str, e: Estimate | None) -> Found:
    """Value, interval, standard error, degrees of freedom and p; None where there is none."""
    bounds = e.as_difference() if e else None
    numbers = {
        name: e.value if e else None,
        f"{name}_low": bounds.low if bounds else None,
        f"{name}_high": bounds.high if bounds else None,
        f"{name}_se": e.se if e else None,
        f"{name}_df": e.df if e else None,
        f"{name}_p": e.p if e else None,
    }
    return {key: None if value is None else _known(value) for key, value in numbers.items()}


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _lost(task: str, one: Left) -> Found:
    return {
        "task": task,
        "variable": one.group.variable,
        "group": one.group.name,
        "n_patients": one.patients,
        "reason": one.why,
    }


def _correct(rows: Sequence[Found]) -> None:
    """p after Holm: of all differences, and of all changes."""
    for name in ("difference", "change"):
        p = [np.nan if row[f"{name}_p"] is None else row[f"{name}_p"] for row in rows]
        for row, adjusted in zip(rows, holm(p)):
            row[f"{name}_p_holm"] = _known(adjusted)


def _sentences(study: Study, rows: Sequence[Found]) -> list[str]:
    heads, titles = heads_of(study), titles_of(study)

    def who(row: Found) -> str:
        head = heads[row["model"], row["policy"]]
        return f"{head.label} on {titles[row['task']]}, {setting_words(row['leads'])}"

    shown = [r for r in rows if _clear(r, "difference")]
    said = [
        f"{counted(len(rows), 'comparison')} of a group with the rest, p after Holm over all of "
        f"them: {len(shown) or 'none'} shown. What is not shown is not shown to be equal."
    ]
    said += [
        f"{who(r)}: {_named(r)} {_points(r, 'difference', r['rest'])}"
        for r in sorted(shown, key=lambda r: r["worse"])[:TOLD]
    ]
    if len(shown) > TOLD:
        said.append(f"{len(shown) - TOLD} more are in subgroups.csv.")
    changes = [r for r in rows if r["change"] is not None]
    moved = [r for r in changes if _clear(r, "change")]
    if changes:
        said.append(
            f"Does a gap change with fewer leads than twelve? {counted(len(changes), 'comparison')}"
            f": {len(moved) or 'none'} shown after Holm."
        )
    said += [
        f"{who(r)}: the gap of {_named(r)} is {_points(r, 'change', 'that at twelve leads')}"
        for r in sorted(moved, key=lambda r: r["change"])[:TOLD]
    ]
    return said


def _points(row: Found, name: str, other: str) -> str:
    """`+3.1 points [+1.0, +5.2] against OTHER (p 0.004).`"""
    bounds = signed_bracket(row[f"{name}_low"], row[f"{name}_high"])
    p = p_value(row[f"{name}_p_holm"])
    return f"{signed(row[name])} points {bounds} against {other} (p {p})."


def _clear(row: Found, name: str) -> bool:
    p = row[f"{name}_p_holm"]
    return p is not None and p < LEVEL


def _named(row: Found) -> str:
    """`age 80 and over`, `device CS-12`, `female`."""
    plain = row["variable"] in ("sex", "paced")
    return str(row["group"]) if plain else f"{row['variable']} {row['group']}"


def _worst(study: Study, rows: Sequence[Found]) -> Table:
    """Of each task, column and lead setting the group that lies lowest against its rest."""
    heads, titles = heads_of(study), titles_of(study)
    by: dict[tuple[str, str, str, str], list[Found]] = {}
    for row in rows:
        by.setdefault((row["task"], row["model"], row["policy"], row["leads"]), []).append(row)
    held, shown = [], []
    for (task, model, policy, leads), own in by.items():
        worst = min(own, key=_lowest)
        turned = _opposite(worst)
        held.append(
            {"task": task, "model": model, "policy": policy, "leads": leads, "groups": len(own)}
            | {k: turned[k] for k in _WORST}
        )
        shown.append(
            {
                "task": titles[task],
                "model": heads[model, policy].cell,
                "leads": leads,
                "group": _named(turned),
                "value": turned["value"],
                "difference": _difference(turned),
                "p": turned["difference_p_holm"],
                "groups": len(own),
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
            Column("p", "p, Holm", "number", p_value),
            Column("groups", "Comparisons", "number"),
        ],
        rows=shown,
        marks=untrained_marks(heads.values()),
        numbers=Numbers(
            columns=list(held[0]), rows=held, summary="one row per task, column and lead setting"
        ),
        formats=("csv", "html") if len(shown) > SHOWN else ("csv", "md", "tex", "html"),
    )


_WORST = (
    *("variable", "group", "rest", "n_patients", "n_labels", "value", "value_rest", "difference"),
    *("difference_low", "difference_high", "difference_p", "difference_p_holm"),
)


def _lowest(row: Found) -> float:
    """How low the worse side of a comparison lies."""
    return float(-abs(row["worse"]) if two(row) else row["worse"])


def _opposite(row: Found) -> Found:
    """A comparison of two groups, from the side that does worse."""
    if not two(row) or row["worse"] <= 0:
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
    }


def _difference(row: Found, name: str = "difference") -> Cell:
    return Cell(signed(row[name]), small=signed_bracket(row[f"{name}_low"], row[f"{name}_high"]))


def _table(study: Study, rows: Sequence[Found]) -> Table:
    """At twelve leads and at the fewest; the CSV has all settings."""
    heads, titles = heads_of(study), titles_of(study)
    ends = ends_of([row["leads"] for row in rows])
    some = [row for row in rows if row["leads"] in ends]
    shown: list[Row] = [
        {
            "task": f"{titles[row['task']]}, {heads[row['model'], row['policy']].label}",
            "variable": VARIABLES[row["variable"]],
            "group": f"{row['group']} (rest: {row['rest']})",
            "patients": row["n_patients"],
            "labels": row["n_labels"],
            "leads": row["leads"],
            "value": row["value"],
            "rest": row["value_rest"],
            "difference": _difference(row),
            "p": row["difference_p_holm"],
            "change": None if row["change"] is None else _difference(row, "change"),
            "change_p": row["change_p_holm"],
        }
        for row in some
    ]
    names = [c for c in rows[0] if c not in ("worse", "low", "high")]
    held = [{name: row[name] for name in names} for row in rows]
    return Table(
        name="subgroups",
        caption="Each group less the rest, over the same labels, and how much farther it lies from "
        "the rest than at twelve leads.",
        columns=[
            Column("task", "Task and model", "group"),
            Column("variable", "By"),
            Column("group", "Group"),
            Column("patients", "Patients", "number"),
            Column("labels", "Labels", "number"),
            Column("leads", "Leads", on_page=setting_words),
            Column("value", "Score", "number", points, note="× 100"),
            Column("rest", "Rest", "number", points, note="× 100"),
            Column("difference", "Difference", "number", note="points, 95 % interval"),
            Column("p", "p, Holm", "number", p_value),
            Column("change", "Change", "number", note="against 12 leads, points"),
            Column("change_p", "p, Holm", "number", p_value, note="of the change"),
        ],
        rows=shown,
        numbers=Numbers(
            columns=names,
            rows=held,
            summary="one row per task, column, lead setting and group",
        ),
        formats=("csv", "html") if len(shown) > SHOWN else ("csv", "md", "tex", "html"),
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


def _notes(study: Study, rows: Sequence[Found]) -> list[str]:
    texts = [
        f"Within a group the AUROC compares patients of that group alone. A group and the rest are "
        f"compared over the labels with at least {LEAST} patients with and without them on both "
        f"sides, so scores here are not those of the main table. Patients of whom a quantity is "
        f"not known are in none of its groups. Intervals are not corrected for the number of "
        f"comparisons; p is.",
        "A difference between groups can come from the device, the site, how ill the patients are "
        "or how labels were made; it does not say why.",
    ]
    silent = [d.title for d in study.datasets if not len(people(study.path, d.name))]
    if silent:
        texts.append(
            f"This run keeps neither age nor sex of {enumerated(silent)}; the same ecgbench run "
            f"command adds what the data say."
        )
    if synthetic := [d.title for d in study.datasets if d.synthetic and rows]:
        texts.append(f"Synthetic data: {enumerated(synthetic)}.")
    return texts
