"""Controls: what becomes of a score when labels are permuted, lead names scrambled or the shapes of
waves removed, and what age and sex, heart rate and QRS duration, or site and device reach alone.

A run has them where `ecgbench run --controls` computed them. docs/controls.md says what each shows.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from ecgbench.core.text import counted, enumerated
from ecgbench.reports import (
    Cell,
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
    bracket,
    points,
    signed,
    signed_bracket,
)
from ecgbench.reports._contamination import again, words
from ecgbench.reports._facts import heads_of, setting_words, tasks, titles_of, untrained_marks
from ecgbench.reports._intervals import Interval, draw
from ecgbench.results.controls import CHANCE, VERDICTS, Checked, Named, checked, controlled
from ecgbench.results.study import Study

CARD = ReportCard(
    title="Controls",
    summary="labels permuted, leads scrambled, phases randomised; what age, sex or device reach",
    reads="run",
    order=42,
)
LONG = 40
"""Rows beyond which the whole table is folded away."""
PANELS = 4
_UNMET = "Without models that met the tested source"
EXPECTED = {
    "chance": "50, and p uniform",
    "less": "well below the model",
    "shortcut": "below the model",
}
_NOTES = (
    "Each control goes the whole path of the run: records, splits, training, scoring. Numbers are "
    "macro AUROC × 100 of the first draw of leads and the first fit; a model stands beside its "
    "control at the very same draw, and their difference is paired over the same patients.",
    "Labels permuted: the mean over the permutations. p: the least of three after Holm: whether "
    "the mean is 50; whether p of each permutation against 50 is uniform; whether p of the "
    "difference between the model and the first one of the run is uniform.",
    "As expected, undecided, NOT as expected: of a permutation, by p at 0.05; of the others, "
    "whether the interval of model − control lies above 0, contains it, or lies below it. No "
    "difference: the whole interval lies within one point of 0.",
)
_NUMBERS = (
    *("control", "task", "leads", "model", "policy", "untrained", "synthetic", "expected"),
    *("value", "low", "high", "model_value", "model_low", "model_high"),
    *("difference", "difference_low", "difference_high", "repeats"),
    *("p_chance", "p_uniform", "p_pairs", "p_holm", "verdict", "note"),
)
NAMED = 4
"""Lead settings of a model that a sentence names; more are counted."""


def sections(study: Study) -> list[Section]:
    """Nothing of a run without controls."""
    found = controlled(study)
    if not found:
        return []
    rows = checked(study, found)
    notices, table = _notices(study, rows), _table(study, rows)
    parts: list[Part] = [Notes(notices, "plain")] if notices else []
    parts += [_summary(found, rows), *_figure(study, rows)]
    if len(rows) > LONG:
        parts.append(Group("Every control, task and lead setting", [table], folded=True))
    else:
        parts.append(table)
    parts.append(Notes(_NOTES))
    return [Section(name="controls", title=CARD.title, parts=parts), _without(study)]


def _label(study: Study, row: Checked) -> str:
    head = heads_of(study)[row.place.model, row.place.policy]
    return f"{head.label} (random weights)" if head.untrained else head.label


def _within(title: str) -> str:
    """A title within a sentence."""
    return title[0].lower() + title[1:]


def _notices(study: Study, rows: Sequence[Checked]) -> list[str]:
    """What is not as expected, then what a shortcut reaches as well."""
    titles, texts = titles_of(study), []
    shortcuts: dict[tuple[str, str], list[Checked]] = {}
    for r in rows:
        where = f"{titles[r.place.task]}, {setting_words(r.place.leads)}, {_label(study, r)}"
        if r.control.kind == "shortcut":
            shortcuts.setdefault((r.control.name, r.place.task), []).append(r)
        elif r.verdict == "NOT as expected" and r.control.kind == "chance":
            texts.append(
                f"{where}: with permuted labels macro AUROC is {points(r.value)} "
                f"{bracket(r.low, r.high)} where 50 is expected: something in this run knows the "
                f"labels, or its p-values are not what they claim; no number of it can be trusted "
                f"before that is found."
            )
        elif r.verdict == "NOT as expected":
            texts.append(
                f"{where}: {_within(r.control.title)}; the score is higher than with the "
                f"recordings as they are, by {signed(-r.difference)} points."
            )
    for (_, task), every in shortcuts.items():
        own = [r for r in every if r.difference_low < 0]
        if not own:
            continue
        alone = _within(own[0].control.title)
        models: dict[str, list[Checked]] = {}
        for r in own:
            models.setdefault(_label(study, r), []).append(r)
        settings = len({r.place.leads for r in every})
        named = [f"{label} {_at(mine, settings)}" for label, mine in models.items()]
        texts.append(
            f"{titles[task]}: {alone} alone reach {_reached(own)}. Not clearly above that: "
            f"{enumerated(named)}; controls.csv has the differences. A macro that {alone} reach "
            f"is no result about ECGs."
        )
    return texts


def _reached(rows: Sequence[Checked]) -> str:
    """The score of a shortcut, which may rest on the leads."""
    lowest, highest = (choose(rows, key=lambda r: r.value) for choose in (min, max))
    if round(lowest.value, 6) == round(highest.value, 6):
        return f"{points(lowest.value)} {bracket(lowest.low, lowest.high)}"
    return f"{points(lowest.value)} to {points(highest.value)}, by the leads"


def _at(rows: Sequence[Checked], settings: int) -> str:
    """At which lead settings, counted where they are many."""
    leads = list(dict.fromkeys(r.place.leads for r in rows))
    if len(leads) > NAMED:
        return f"at {len(leads)} of {settings} lead settings"
    return f"at {enumerated([setting_words(one) for one in leads])}"


def _summary(found: Sequence[Named], rows: Sequence[Checked]) -> Table:
    """One row per control."""
    shown: list[Row] = []
    for control, studies in found:
        own = [r for r in rows if r.control == control]
        counts: Counter[str] = Counter(r.verdict for r in own)
        why = dict.fromkeys(r.note for r in own if r.verdict == "no number")
        repeats = counted(len(studies), "permutation") if len(studies) > 1 else ""
        shown.append(
            {
                "control": control.title,
                "expected": EXPECTED[control.kind],
                **{v: counts[v] for v in VERDICTS},
                "note": "; ".join(why) or repeats,
            }
        )
    listed = [
        Column("control", "Control"),
        Column("expected", "Expected"),
        *(Column(v, v[0].upper() + v[1:], "number") for v in VERDICTS),
        Column("note", "Note"),
    ]
    return Table(
        name="controls_summary",
        caption="How many models, tasks and lead settings each control came out for as expected.",
        columns=[c for c in listed if any(row[c.name] for row in shown)],
        rows=shown,
        notes=[f"{control.title}: {control.summary}." for control, _ in found],
    )


def _table(study: Study, rows: Sequence[Checked]) -> Table:
    heads, titles = heads_of(study), titles_of(study)
    numbers = [_number(study, r) for r in rows]
    shown: list[Row] = []
    for r, number in zip(rows, numbers):
        known, head = r.difference == r.difference, heads[r.place.model, r.place.policy]
        bounds = signed_bracket(r.difference_low, r.difference_high)
        row: dict[str, Any] = number | {
            "control": r.control.title,
            "task": titles[r.place.task],
            "leads": setting_words(r.place.leads),
            "model": head.cell,
            "value": _scored(r.value, r.low, r.high),
            "own": _scored(r.model, r.model_low, r.model_high),
            "difference": Cell(signed(r.difference), small=bounds) if known else None,
        }
        if r.control.kind == "chance" and r.p_holm == r.p_holm:
            row |= {"own": "", "difference": ""}
            row["note"] = f"{counted(r.repeats, 'permutation')}, p = {r.p_holm:.2f} after Holm"
        shown.append(row)
    return Table(
        name="controls",
        caption="Controls, macro AUROC × 100.",
        columns=[
            Column("control", "Control", "group"),
            Column("task", "Task"),
            Column("leads", "Leads"),
            Column("model", "Model"),
            Column("value", "Control", "number", note="95 % interval"),
            Column("own", "Model", "number", note="same draw"),
            Column("difference", "Model − control", "number", note="points, 95 % interval"),
            Column("expected", "Expected"),
            Column("verdict", "Verdict"),
            Column("note", "Note"),
        ],
        rows=shown,
        marks=untrained_marks(heads[r.place.model, r.place.policy] for r in rows),
        numbers=Numbers(
            columns=_NUMBERS,
            rows=numbers,
            summary="one row per control, task, lead setting and model",
        ),
    )


def _scored(value: float, low: float, high: float) -> Cell | None:
    return None if value != value else Cell(points(value), small=bracket(low, high))


def _number(study: Study, r: Checked) -> dict[str, Any]:
    """A row of the CSV file, where NaN is nothing."""
    head = heads_of(study)[r.place.model, r.place.policy]
    return vars(r) | {
        "control": r.control.name,
        **r.place._asdict(),
        "untrained": head.untrained,
        "synthetic": next(t.synthetic for t in tasks(study) if t.task == r.place.task),
        "expected": EXPECTED[r.control.kind],
        "model_value": r.model,
        "repeats": r.repeats or None,
    }


def _figure(study: Study, rows: Sequence[Checked]) -> list[Figure]:
    """Models and their controls as intervals, at the setting with most leads; a panel for each of
    the first tasks.
    """
    settings = list(dict.fromkeys(r.place.leads for r in rows))
    leads = "12" if "12" in settings else settings[-1]
    own = [r for r in rows if r.place.leads == leads and r.value == r.value]
    there = list(dict.fromkeys(r.place.task for r in own))
    shown = there[:PANELS]
    if not shown:
        return []
    rows_of = {task: _lines(study, own, task) for task in shown}
    lines = [
        Interval(
            panel=titles_of(study)[task],
            place=line["place"],
            series=line["kind"],
            value=line["value"],
            low=line["low"],
            high=line["high"],
        )
        for task, each in rows_of.items()
        for line in each
    ]
    more = len(there) - len(shown)
    caption = f"Models and their controls, {setting_words(leads)}, 95 % intervals; grey: chance."
    caption += f" {counted(more, 'more task')} in controls.csv." if more else ""
    figure = Figure(
        name="controls_intervals",
        draw=partial(draw, lines, PANELS, zero=CHANCE, unit="macro AUROC × 100"),
        caption=caption,
        size=(7.4 if len(shown) < 3 else 10.5, 1.4 + 0.24 * len({line.place for line in lines})),
        numbers=Numbers(
            columns=("task", "leads", "name", "kind", "value", "low", "high"),
            rows=[line | {"leads": leads} for each in rows_of.values() for line in each],
            summary="one row per interval of the figure",
        ),
    )
    return [figure]


def _lines(study: Study, rows: Sequence[Checked], task: str) -> list[dict[str, Any]]:
    """The intervals of a panel: each model and its own controls, then the shortcuts."""
    mine, lines = [r for r in rows if r.place.task == task], []
    names = ("place", "name", "kind", "value", "low", "high")
    for place in dict.fromkeys(r.place for r in mine):
        own = [r for r in mine if r.place == place]
        head = heads_of(study)[place.model, place.policy]
        label = f"{head.label}{head.mark}"
        known = [(r.model, r.model_low, r.model_high) for r in own if r.model == r.model]
        lines += [(label, label, "model", *bounds) for bounds in known[:1]]
        for r in (r for r in own if r.control.kind != "shortcut"):
            name = _within(r.control.title)
            lines.append((f"{label}, {name}", name, "control", r.value, r.low, r.high))
    shortcuts: dict[str, Checked] = {}
    for r in mine:
        if r.control.kind == "shortcut":
            shortcuts.setdefault(r.control.title, r)
    lines += [(name, name, "control", r.value, r.low, r.high) for name, r in shortcuts.items()]
    return [{"task": task, **dict(zip(names, line))} for line in lines]


def _without(study: Study) -> Section:
    """Headlines without models that met the source."""
    rows = again(study)
    if not rows:
        return Section(name="controls_unmet", title=_UNMET, parts=[Notes([words(study)], "plain")])
    texts = [
        f"{r.about}, {setting_words(r.leads)}: {r.changes} ({r.said}; without: "
        f"{r.without or 'nothing'})."
        for r in rows
        if r.changes
    ]
    texts = texts or [
        f"None of {counted(len(rows), 'headline')} changes its sign or its best model."
    ]
    table = Table(
        name="controls_unmet",
        caption=f"{_UNMET}, macro {study.metrics[study.metric].title} × 100.",
        columns=[
            Column("about", "Of", "group"),
            Column("leads", "Leads", spell=setting_words),
            Column("said", "All models"),
            Column("without", "Without those that met the source"),
            Column("changes", "Change"),
            Column("left_out", "Left out"),
        ],
        rows=[asdict(row) for row in rows],
        notes=[
            "Of a task, models that met its source are left out; of a mean over datasets, the "
            "datasets whose source one of the two models met. Models of which nothing says what "
            "they met stay in; the notes of the page name them."
        ],
    )
    return Section(name="controls_unmet", title=_UNMET, parts=[Notes(texts, "plain"), table])
