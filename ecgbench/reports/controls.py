"""Controls: what becomes of a score when labels are permuted, lead names scrambled or the shapes of
waves removed, and what age and sex, heart rate and QRS duration, or site and device reach alone.

A run has them where `ecgbench run --controls` computed them. docs/howto/plan_a_study.md says what
each shows.
"""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from ecgbench import reports as r
from ecgbench.core.text import counted, enumerated
from ecgbench.reports import _facts as facts
from ecgbench.results.controls import NOT_TESTED, UNEXPECTED, checked
from ecgbench.results.study import Run
from ecgbench.study.controls import CONTROLS

CARD = r.ReportCard(
    title="Controls",
    summary="labels permuted, leads scrambled, phases randomised; what age, sex or device reach",
    reads="run",
    order=42,
)
NAMED = 4
"""Lead settings of a model that a sentence names; more are counted."""
EXPECTED = {
    "chance": "50, and p uniform",
    "less": "well below the model",
    "shortcut": "below the model",
}
_NOTES = (
    "Numbers are macro AUROC × 100 of the first draw of leads and the first fit, the difference "
    "paired over the same patients. docs/howto/plan_a_study.md says what is expected of each "
    "control, and how a verdict comes about."
)
MODEL = ("model_value", "model_low", "model_high")
DIFFERENCE = ("difference", "difference_low", "difference_high")
_NUMBERS = [
    *("control", "task", "leads", "model", "policy", "untrained", "synthetic", "expected"),
    *("value", "low", "high", *MODEL, *DIFFERENCE, "repeats"),
    *("p_chance", "p_uniform", "p_pairs", "p_holm", "verdict", "note"),
]


def rows(study: Run) -> pd.DataFrame:
    """Of each control and model; none of a run without controls."""
    found = checked(study)
    return found if found.empty else _titled(study, found)


def sections(study: Run, rows: pd.DataFrame) -> list[r.Section]:
    """Nothing of a run without controls."""
    if rows.empty:
        return []
    grave = (rows["kind"] != "shortcut") & (rows["verdict"] == UNEXPECTED)
    every, first = list(_notices(rows)), rows["title"].nunique() + int(grave.sum())
    parts: list[r.Part] = [r.Notes(every[:first], "plain")]
    parts += [r.Notes(every[first:])] if every[first:] else []
    parts += [_table(study, rows), r.Notes([_NOTES])]
    return [r.Section(name="controls", title=CARD.title, parts=parts)]


def _titled(study: Run, rows: pd.DataFrame) -> pd.DataFrame:
    """With the kind and the title of each control, and the titles of columns and tasks."""
    heads, tasks = facts.heads_of(study), {task.task: task for task in facts.tasks(study)}
    own = [heads[names] for names in zip(rows["model"], rows["policy"])]
    on = [tasks[task] for task in rows["task"]]
    cards = [CONTROLS[name] for name in rows["control"]]
    return rows.assign(
        kind=[card.kind for card in cards],
        title=[card.title for card in cards],
        label=[head.label + (" (random weights)" if head.untrained else "") for head in own],
        on=[task.title for task in on],
        untrained=[head.untrained for head in own],
        synthetic=[task.synthetic for task in on],
        expected=[EXPECTED[card.kind] for card in cards],
        repeats=rows["repeats"].astype("Int64"),
    )


def _notices(rows: pd.DataFrame) -> Iterator[str]:
    """How the controls came out, what is not as expected, and what a shortcut reaches as well."""
    for title, verdicts in rows.groupby("title", sort=False)["verdict"]:
        counts = [f"{n} {verdict}" for verdict, n in verdicts.value_counts().items()]
        yield f"{title}: {', '.join(counts)}."
    shortcut = rows["kind"] == "shortcut"
    for row in rows[~shortcut & (rows["verdict"] == UNEXPECTED)].to_dict("records"):
        where = f"{row['on']}, {facts.setting_words(row['leads'])}, {row['label']}"
        if row["kind"] == "chance":
            yield (
                f"{where}: with permuted labels macro AUROC is {_score(row)} where 50 is "
                f"expected: something in this run knows the labels, or its p-values are not what "
                f"they claim; no number of it can be trusted before that is found."
            )
        else:
            yield (
                f"{where}: {_lower(row['title'])}; the score is higher than with the recordings "
                f"as they are, by {r.signed(-row['difference'])} points."
            )
    for _, every in rows[shortcut].groupby(["control", "task"], sort=False):
        near = every[(every["difference_low"] < 0) & (every["verdict"] != NOT_TESTED)]
        if near.empty:
            continue
        alone, settings = _lower(near["title"].iloc[0]), every["leads"].nunique()
        named = [
            f"{label} {_at(own, settings)}" for label, own in near.groupby("label", sort=False)
        ]
        yield (
            f"{near['on'].iloc[0]}: {alone} alone reach {_reached(near)}. Not clearly above that: "
            f"{enumerated(named)}; controls.csv has the differences. A macro that {alone} reach is "
            f"no result about ECGs."
        )


def _lower(title: str) -> str:
    """A title within a sentence."""
    return title[0].lower() + title[1:]


def _score(row: Any) -> str:
    return f"{r.points(row['value'])} {r.bracket(row['low'], row['high'])}".strip()


def _reached(rows: pd.DataFrame) -> str:
    """The score of a shortcut, which may rest on the leads."""
    ordered = rows.sort_values("value", kind="stable")
    lowest, highest = ordered.iloc[0], ordered.iloc[-1]
    if round(lowest["value"], 6) == round(highest["value"], 6):
        return _score(lowest)
    return f"{r.points(lowest['value'])} to {r.points(highest['value'])}, by the leads"


def _at(rows: pd.DataFrame, settings: int) -> str:
    """At which lead settings, counted where they are many."""
    leads = list(dict.fromkeys(rows["leads"]))
    if len(leads) > NAMED:
        return f"at {len(leads)} of {settings} lead settings"
    return f"at {enumerated([facts.setting_words(one) for one in leads])}"


def _table(study: Run, rows: pd.DataFrame) -> r.Table:
    def note(row: r.Row) -> str:
        if row["kind"] != "chance" or row["p_holm"] is None:
            return str(row["note"])
        return f"{counted(row['repeats'], 'permutation')}, p = {row['p_holm']:.2f} after Holm"

    return r.Table(
        name="controls",
        caption="Controls, macro AUROC × 100.",
        columns=[
            r.Column("control", kind="group", cell=lambda row: row["title"]),
            r.Column("task", cell=lambda row: row["on"]),
            r.Column("leads", spell=facts.setting_words),
            facts.model_column(study),
            r.estimate_column(("value", "low", "high")),
            r.estimate_column(MODEL, note="same draw"),
            r.difference_column(DIFFERENCE, "points, 95 % interval"),
            r.Column("expected"),
            r.Column("verdict"),
            r.Column("note", cell=note),
        ],
        rows=rows,
        numbers=rows[_NUMBERS],
        summary="one row per control, task, lead setting and model",
        formats=("csv", "md", "tex"),
    )
