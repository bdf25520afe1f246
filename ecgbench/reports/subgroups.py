"""Subgroups: how each model does in patients of a sex, an age, with a paced rhythm, of a device or
a site, against the rest, and whether that difference grows with fewer leads.

Every group is compared at every lead setting; p is corrected for all comparisons of the report
(Holm). That no difference was shown does not say that there is none: groups are small. The group
that does worst is named with the caution that one of several is always the worst.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pandas as pd

from ecgbench import reports as r
from ecgbench.core.text import counted, enumerated
from ecgbench.reports import _facts as facts
from ecgbench.reports._intervals import draw
from ecgbench.reports._means import settings
from ecgbench.results import precompute
from ecgbench.results.non_inferiority import estimated
from ecgbench.results.study import FULL, Run
from ecgbench.results.subgroups import LEAST, compared
from ecgbench.stats.paired import holm
from ecgbench.study.people import people
from ecgbench.study.scores import ranks_records

CARD = r.ReportCard(
    title="Subgroups",
    summary="scores by sex, age, quality, device and more, and whether fewer leads widen the gaps",
    reads="run",
    order=63,
)
LEVEL = 0.05
SENTENCES = 12
"""Differences that have a sentence."""
FIGURES, PANELS = 6, 4
"""Tasks with a figure of their own, and columns in it."""
ALL_OTHERS = "all others"
ROW = ["task", "model", "policy", "leads"]
DIFFERENCE = ("difference", "difference_low", "difference_high")
_WORST = [
    *("variable", "group", "rest", "n_patients", "n_labels", "value", "value_rest"),
    *(*DIFFERENCE, "difference_p", "difference_p_holm"),
]
_DRAWN = [*ROW, "variable", "group", "rest", "n_patients", *DIFFERENCE]


def rows(study: Run) -> pd.DataFrame:
    """Of each task, column, lead setting and group, then of each group of a task that is not
    compared (`reason`). None of a run of a metric without placements, or that keeps nothing of its
    patients.
    """
    kept = any(len(people(study.path, data.name)) for data in study.datasets)
    if study.scorer is None or not ranks_records(study.metric) or not kept:
        return pd.DataFrame()
    return pd.concat(_gathered(study), ignore_index=True)


def sections(study: Run, rows: pd.DataFrame) -> list[r.Section]:
    """What is shown of them, and what is not compared."""
    if rows.empty:
        return []
    rows, left = _divided(rows)
    parts: list[r.Part] = []
    if len(rows):
        texts = [*_sentences(study, rows, "difference"), *_sentences(study, rows, "change")]
        parts += [r.Notes(texts, "plain"), _worst(study, rows)]
        summary = "one row per task, column, lead setting and group"
        every = r.Table(name="subgroups", rows=rows.drop(columns="worse"), summary=summary)
        parts += [*_figures(study, rows), every]
    if len(left):
        summary = "one row per task and group that is not compared"
        parts.append(r.Table(name="subgroups_left", rows=left, summary=summary))
    if not parts:
        return []
    count = f"Not compared: {counted(len(left), 'group')}; subgroups_left.csv says why."
    lost = [count] if len(left) else []
    parts.append(r.Notes([*lost, *_notes(study)]))
    return [
        r.Section(
            name="subgroups", page=False, title="Groups of patients", short=CARD.title, parts=parts
        )
    ]


def _divided(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Comparisons, and groups that are not compared."""
    if "reason" not in rows:
        return rows, rows[:0]
    left = rows["reason"].notna()
    lost = rows.loc[left, ["task", "variable", "group", "n_patients", "reason"]]
    return rows[~left].drop(columns="reason"), lost


def _gathered(study: Run) -> tuple[pd.DataFrame, pd.DataFrame]:
    """All comparisons, and what is not compared, each group of a task once."""
    trained = [head for head in facts.columns(study) if not head.untrained]
    wanted = [(task, head) for task in facts.titles_of(study) for head in trained]
    pieces = [
        partial(compared, study, task, head.names, settings(study), FULL) for task, head in wanted
    ]
    each = precompute.each(study.scorer, study.stage, (CARD.title, "models of a task"), pieces)
    rows, left = [], []
    for (task, head), (found, lost) in zip(wanted, each):
        whose = {"task": task, "model": head.model, "policy": head.policy}
        for one in found:
            difference, change = one.pop("difference"), one.pop("change")
            row = whose | one | estimated(difference, "difference", "difference_")
            row |= estimated(change, "change", "change_")
            rows.append(row | {"worse": study.sign * difference.value})
        left += [{"task": task, **one} for one in lost]
    made = pd.DataFrame(rows, dtype=object)
    for name in ("difference", "change") if rows else ():
        made[f"{name}_p_holm"] = holm(made[f"{name}_p"].astype(float))
    lost_once = pd.DataFrame(left, dtype=object)
    return made, lost_once.drop_duplicates(["task", "variable", "group"]) if left else lost_once


def _sentences(study: Run, rows: pd.DataFrame, name: str) -> Iterator[str]:
    """How many differences, or changes of them with fewer leads, are shown, and which."""
    known = rows[rows[name].notna()]
    if known.empty:
        return
    p, heads, titles = f"{name}_p_holm", facts.heads_of(study), facts.titles_of(study)
    shown = known[known[p] < LEVEL].sort_values(p, kind="stable")
    what = {
        "difference": "of a group with the rest",
        "change": "of such a difference with that at twelve leads",
    }[name]
    yield (
        f"{counted(len(known), 'comparison')} {what}, p after Holm over all of them: "
        f"{len(shown) or 'none'} shown. What is not shown is not shown to be equal."
    )
    for row in shown[:SENTENCES].to_dict("records"):
        bounds = r.signed_bracket(row[f"{name}_low"], row[f"{name}_high"])
        size = f"{r.signed(row[name])} points {bounds}"
        between = f"{_named(row)} differs by {size} from {row['rest']}"
        if name == "change":
            between = f"{_named(row)} less {row['rest']} is {size} against that at twelve leads"
        yield (
            f"{heads[row['model'], row['policy']].label} on {titles[row['task']]}, "
            f"{facts.setting_words(row['leads'])}: {between} (p {r.p_value(row[p])})."
        )
    if len(shown) > SENTENCES:
        yield f"{len(shown) - SENTENCES} more are in subgroups.csv."


def _named(row: Any) -> str:
    """`age 80 and over`, `device CS-12`, `female`."""
    plain = row["variable"] in ("sex", "paced", "noted")
    return str(row["group"]) if plain else f"{row['variable']} {row['group']}"


def _worst(study: Run, rows: pd.DataFrame) -> r.Table:
    """Of each task, column and lead setting the group that lies lowest against its rest."""
    sides = pd.DataFrame([_worse_side(row) for row in rows.to_dict("records")], dtype=object)
    sides["worse"] = sides["worse"].astype(float)
    by = sides.groupby(ROW, sort=False)
    sides["groups"] = by["group"].transform("size")
    worst = sides.loc[by["worse"].idxmin(), [*ROW, "groups", *_WORST]]
    return r.Table(
        name="subgroups_worst",
        caption="The group that does worst against the rest, of those compared. One of several is "
        "always the worst, by chance alone too: p is corrected for all comparisons.",
        columns=[
            facts.task_column(study),
            facts.model_column(study),
            facts.LEADS,
            r.Column("group", cell=_named),
            r.Column("value", "Score in it", "number", r.points, note="× 100"),
            r.difference_column(DIFFERENCE, "points, 95 % interval"),
            r.Column("difference_p_holm", "p, Holm", "number", r.p_value),
            r.Column("groups", kind="number"),
        ],
        rows=worst,
        summary="one row per task, column and lead setting",
    )


def _worse_side(row: dict[Any, Any]) -> dict[Any, Any]:
    """A comparison of two groups alone, from the side that does worse."""
    if row["rest"] == ALL_OTHERS or row["worse"] <= 0:
        return row
    swapped = {"group": "rest", "n_patients": "n_patients_rest", "value": "value_rest"}
    turned = row | {one: row[other] for one, other in swapped.items()}
    turned |= {other: row[one] for one, other in swapped.items()}
    ends = {"difference_low": "difference_high", "difference_high": "difference_low"}
    for name, of in {"difference": "difference", "worse": "worse", **ends}.items():
        turned[name] = None if row[of] is None else -row[of]
    return turned


def _ends(study: Run, rows: pd.DataFrame) -> list[str]:
    """Twelve leads and the fewest, of the settings that are there."""
    order = study.main.sort_values(["n_leads", "named", "leads"])["leads"]
    there = list(order[order.isin(rows["leads"])])
    return list(dict.fromkeys([FULL if FULL in there else there[-1], there[0]]))


def _figures(study: Run, rows: pd.DataFrame) -> Iterator[r.Figure]:
    """One for each of the first FIGURES tasks: each group less the rest, at twelve leads and at the
    fewest.
    """
    titles, heads = facts.titles_of(study), facts.heads_of(study)
    for number, task in enumerate(list(dict.fromkeys(rows["task"]))[:FIGURES], 1):
        own = rows[rows["task"] == task]
        shown = own[own["leads"].isin(_ends(study, own))]
        names = pd.Series(list(zip(shown["model"], shown["policy"])), shown.index)
        drawn = shown[names.isin(list(dict.fromkeys(names))[:PANELS])]
        lines = drawn.assign(
            panel=[heads[name].label for name in names[drawn.index]],
            place=[
                _named(row) + ("" if row["rest"] == ALL_OTHERS else f" less {row['rest']}")
                for row in drawn.to_dict("records")
            ],
            series=drawn["leads"].map(facts.setting_words),
            diamond=False,
        ).rename(columns={"value": "score", **dict(zip(DIFFERENCE, ("value", "low", "high")))})
        yield r.Figure(
            name="subgroups_forest" if number == 1 else f"subgroups_forest_{number}",
            draw=partial(draw, lines, PANELS),
            caption=f"{titles[task]}: each group less the rest in points, with 95 % intervals that "
            f"are not corrected for the number of comparisons; left of 0 the group does worse.",
            size=(9.6, 0.27 * lines["place"].nunique() + 1.5),
            numbers=shown[_DRAWN],
            summary="one row per point",
        )


def _notes(study: Run) -> list[str]:
    texts = [
        f"A group and the rest are compared over the labels with at least {LEAST} patients with "
        f"and without them on both sides, so scores here are not those of the main table. Patients "
        f"of whom a quantity is not known are in none of its groups.",
        "A difference between groups can come from the device, the site, how ill the patients are "
        "or how labels were made; it does not say why.",
    ]
    if silent := [d.title for d in study.datasets if not len(people(study.path, d.name))]:
        texts.append(f"This run keeps neither age nor sex of {enumerated(silent)}.")
    if synthetic := [d.title for d in study.datasets if d.synthetic]:
        texts.append(f"Synthetic data: {enumerated(synthetic)}.")
    return texts
