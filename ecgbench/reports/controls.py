"""Controls: what becomes of a score when labels are permuted, lead names scrambled or the shapes of
waves removed, and what age and sex, heart rate and QRS duration, or site and device reach alone.

A run has them where `ecgbench run --controls` computed them. docs/controls.md says what each shows.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

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
    handle,
    points,
    signed,
    signed_bracket,
)
from ecgbench.reports._facts import heads_of, setting_words, tasks, titles_of, untrained_marks
from ecgbench.reports._unmet import Again, again, words
from ecgbench.results.controls import CHANCE, VERDICTS, Checked, Named, checked, controlled
from ecgbench.results.study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Sheet

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
    "Each control is computed along the whole path of the run: records, splits, training, scoring. "
    "All numbers are macro AUROC × 100 of the first draw of leads and the first fit; the model "
    "stands beside its control at the very same draw, and their difference is paired over the same "
    "patients (95 % interval).",
    "Labels permuted: the mean over the permutations and its 95 % interval. p: the least of three, "
    "after Holm over this control: whether the mean is 50; whether p of each permutation against "
    "50 is uniform; whether p of the difference between the model and the first one of the run is "
    "uniform.",
    "As expected, undecided, NOT as expected: of a permutation, by p at 0.05; of the others, "
    "whether the interval of model − control lies above 0, contains it, or lies below it. No "
    "difference: the whole interval lies within one point of 0; with scrambled names, this model "
    "does not use which lead is which.",
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
    parts: list[Part] = []
    if notices := _notices(study, rows):
        parts.append(Notes(notices, "plain"))
    parts.append(_summary(found, rows))
    if figure := _figure(study, rows):
        parts.append(figure)
    table = _table(study, rows)
    long = len(rows) > LONG
    parts.append(
        Group("Every control, task and lead setting", [table], folded=True) if long else table
    )
    parts.append(Notes(_NOTES))
    return [Section(name="controls", title=CARD.title, parts=parts), _without(study)]


def _label(study: Study, row: Checked) -> str:
    head = heads_of(study)[row.place.model, row.place.policy]
    return f"{head.label} (random weights)" if head.untrained else head.label


def _within(title: str) -> str:
    """A title within a sentence."""
    return title[0].lower() + title[1:]


def _notices(study: Study, rows: Sequence[Checked]) -> list[str]:
    """What is not as expected, and what a shortcut reaches as well; the first of them first."""
    titles, said = titles_of(study), []
    wrong = [r for r in rows if r.control.kind != "shortcut" and r.verdict == "NOT as expected"]
    for r in wrong:
        where = f"{titles[r.place.task]}, {setting_words(r.place.leads)}, {_label(study, r)}"
        if r.control.kind == "chance":
            said.append(
                f"{where}: with permuted labels macro AUROC is {points(r.value)} "
                f"{bracket(r.low, r.high)} where 50 is expected: something in this run knows the "
                f"labels, or its p-values are not what they claim; no number of it can be trusted "
                f"before that is found."
            )
        else:
            said.append(
                f"{where}: {_within(r.control.title)}; the score is higher than with the "
                f"recordings as they are, by {signed(-r.difference)} points."
            )
    groups: dict[tuple[str, str], list[Checked]] = {}
    for r in rows:
        if r.control.kind == "shortcut" and r.difference_low < 0:
            groups.setdefault((r.control.name, r.place.task), []).append(r)
    for (control, task), own in groups.items():
        every = [r for r in rows if (r.control.name, r.place.task) == (control, task)]
        alone = _within(own[0].control.title)
        models = [
            f"{label} {_at([r for r in own if _label(study, r) == label], every)}"
            for label in dict.fromkeys(_label(study, r) for r in own)
        ]
        said.append(
            f"{titles[task]}: {alone} alone reach {_reached(own)}. Not clearly above that: "
            f"{enumerated(models)}; controls.csv has the differences. A macro that {alone} reach "
            f"is no result about ECGs."
        )
    return said


def _reached(rows: Sequence[Checked]) -> str:
    """The score of a shortcut, which may rest on the leads."""
    values = {round(r.value, 6): r for r in rows}
    lowest, highest = values[min(values)], values[max(values)]
    if len(values) == 1:
        return f"{points(lowest.value)} {bracket(lowest.low, lowest.high)}"
    return f"{points(lowest.value)} to {points(highest.value)}, by the leads"


def _at(own: Sequence[Checked], every: Sequence[Checked]) -> str:
    """At which lead settings, all of them counted where they are many."""
    leads = list(dict.fromkeys(r.place.leads for r in own))
    whole = len({r.place.leads for r in every})
    if len(leads) > NAMED:
        return f"at {len(leads)} of {whole} lead settings"
    return f"at {enumerated([setting_words(one) for one in leads])}"


def _summary(found: Sequence[Named], rows: Sequence[Checked]) -> Table:
    """One row per control."""
    shown: list[Row] = []
    for control, studies in found:
        own = [r for r in rows if r.control == control]
        counts: Counter[str] = Counter(r.verdict for r in own)
        why = dict.fromkeys(r.note for r in own if r.verdict == "no number")
        shown.append(
            {
                "control": control.title,
                "expected": EXPECTED[control.kind],
                **{v: counts[v] for v in VERDICTS},
                "note": "; ".join(why)
                or (f"{counted(len(studies), 'permutation')}" if len(studies) > 1 else ""),
            }
        )
    columns = [
        Column("control", "Control"),
        Column("expected", "Expected"),
        *(Column(v, v[0].upper() + v[1:], "number") for v in VERDICTS),
        Column("note", "Note"),
    ]
    return Table(
        name="controls_summary",
        caption="How many models, tasks and lead settings each control came out for as expected.",
        columns=[c for c in columns if any(row[c.name] for row in shown)],
        rows=shown,
        notes=[f"{control.title}: {control.summary}." for control, _ in found],
    )


def _table(study: Study, rows: Sequence[Checked]) -> Table:
    heads, titles = heads_of(study), titles_of(study)
    shown: list[Row] = []
    for r in rows:
        row: dict[str, Any] = {
            "control": r.control.title,
            "task": titles[r.place.task],
            "leads": setting_words(r.place.leads),
            "model": heads[r.place.model, r.place.policy].cell,
            "value": _scored(r.value, r.low, r.high),
            "own": _scored(r.model, r.model_low, r.model_high),
            "difference": None,
            "expected": EXPECTED[r.control.kind],
            "verdict": r.verdict,
            "note": r.note,
        }
        if r.difference == r.difference:
            ends = signed_bracket(_known(r.difference_low), _known(r.difference_high))
            row["difference"] = Cell(signed(r.difference), small=ends)
        if r.control.kind == "chance" and r.p_holm == r.p_holm:
            row |= {"own": "", "difference": ""}
            row["note"] = f"{counted(r.repeats, 'permutation')}, p = {r.p_holm:.2f} after Holm"
        shown.append(row)
    columns = [
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
    ]
    numbers = [_number(study, r) for r in rows]
    return Table(
        name="controls",
        caption="Controls, macro AUROC × 100.",
        columns=columns,
        rows=shown,
        marks=untrained_marks(heads[r.place.model, r.place.policy] for r in rows),
        numbers=Numbers(
            columns=_NUMBERS,
            rows=numbers,
            summary="one row per control, task, lead setting and model",
        ),
    )


def _scored(value: float, low: float, high: float) -> Cell | None:
    if value != value:
        return None
    return Cell(points(value), small=bracket(_known(low), _known(high)))


def _known(value: float) -> float | None:
    return None if value != value else value


def _number(study: Study, r: Checked) -> dict[str, Any]:
    synthetic = {t.task: t.synthetic for t in tasks(study)}
    head = heads_of(study)[r.place.model, r.place.policy]
    same = (
        *("value", "low", "high", "model_low", "model_high", "difference", "difference_low"),
        *("difference_high", "p_chance", "p_uniform", "p_pairs", "p_holm"),
    )
    return {
        "control": r.control.name,
        **r.place._asdict(),
        "untrained": head.untrained,
        "synthetic": synthetic[r.place.task],
        "expected": EXPECTED[r.control.kind],
        "model_value": _known(r.model),
        **{name: _known(getattr(r, name)) for name in same},
        "repeats": r.repeats or None,
        "verdict": r.verdict,
        "note": r.note,
    }


def _figure(study: Study, rows: Sequence[Checked]) -> Figure | None:
    """Models and their controls as intervals, at the setting with most leads; a panel for each of
    the first tasks.
    """
    settings = list(dict.fromkeys(r.place.leads for r in rows))
    leads = max(settings, key=lambda typed: (typed == "12", settings.index(typed)))
    own = [r for r in rows if r.place.leads == leads and r.value == r.value]
    shown = list(dict.fromkeys(r.place.task for r in own))[:PANELS]
    if not shown:
        return None
    lines = [line for task in shown for line in _lines(study, own, task)]
    most = max(sum(line["task"] == task for line in lines) for task in shown)

    def draw(sheet: "Sheet") -> list[Any]:
        panels = sheet.subplots(1, len(shown), squeeze=False, sharex=True)[0]
        for ax, task in zip(panels, shown):
            mine = [line for line in lines if line["task"] == task]
            for at, line in enumerate(mine):
                colour = "#0072B2" if line["kind"] == "model" else "#D55E00"
                low, high = line["low"], line["high"]
                if low is not None and high is not None:
                    ax.plot([100 * low, 100 * high], [-at, -at], color=colour, linewidth=1.6)
                ax.plot(100 * line["value"], -at, "o", color=colour, markersize=5)
            ax.axvline(100 * CHANCE, color="#999999", linewidth=1, linestyle=":")
            ax.set_yticks([-at for at in range(len(mine))], [line["name"] for line in mine])
            ax.set_ylim(0.7 - len(mine), 0.7)
            ax.set_title(titles_of(study)[task])
            ax.set_xlabel("macro AUROC × 100")
            ax.grid(axis="y", visible=False)
        style: dict[str, Any] = {"marker": "o", "markersize": 5, "linewidth": 1.6}
        return [
            handle("model", color="#0072B2", **style),
            handle("control", color="#D55E00", **style),
        ]

    more = len(dict.fromkeys(r.place.task for r in own)) - len(shown)
    caption = f"Models and their controls, {setting_words(leads)}, 95 % intervals; dotted: chance."
    caption += f" {counted(more, 'more task')} in controls.csv." if more else ""
    return Figure(
        name="controls_intervals",
        draw=draw,
        caption=caption,
        size=(7.4 if len(shown) < 3 else 10.5, 1.4 + 0.24 * most),
        numbers=Numbers(
            columns=("task", "leads", "name", "kind", "value", "low", "high"),
            rows=[{**line, "leads": leads} for line in lines],
            summary="one row per interval of the figure",
        ),
    )


def _lines(study: Study, rows: Sequence[Checked], task: str) -> list[dict[str, Any]]:
    """The intervals of a panel: each model and its own controls, then the shortcuts."""
    mine = [r for r in rows if r.place.task == task]
    lines: list[dict[str, Any]] = []

    def line(name: str, kind: str, value: float, low: float, high: float) -> None:
        known = {"value": value, "low": _known(low), "high": _known(high)}
        lines.append({"task": task, "name": name, "kind": kind} | known)

    for place in dict.fromkeys(r.place for r in mine):
        own = [r for r in mine if r.place == place]
        head = heads_of(study)[place.model, place.policy]
        for r in [r for r in own if r.model == r.model][:1]:
            line(f"{head.label}{head.mark}", "model", r.model, r.model_low, r.model_high)
        for r in own:
            if r.control.kind != "shortcut":
                line(_within(r.control.title), "control", r.value, r.low, r.high)
    for name in dict.fromkeys(r.control.name for r in mine if r.control.kind == "shortcut"):
        r = next(r for r in mine if r.control.name == name)
        line(r.control.title, "control", r.value, r.low, r.high)
    return lines


def _without(study: Study) -> Section:
    """Headlines without models that met the source."""
    rows = again(study)
    if not rows:
        return Section(name="controls_unmet", title=_UNMET, parts=[Notes([words(study)], "plain")])
    changed = [r for r in rows if r.changes]
    said = [
        f"{_where(r)}: {r.changes} ({r.said}; without: {r.without or 'nothing'})." for r in changed
    ]
    if not changed:
        said = [f"None of {counted(len(rows), 'headline')} changes its sign or its best model."]
    columns = [
        Column("about", "Of", "group"),
        Column("leads", "Leads", spell=setting_words),
        Column("said", "All models"),
        Column("without", "Without those that met the source"),
        Column("changes", "Change"),
        Column("left_out", "Left out"),
    ]
    table = Table(
        name="controls_unmet",
        caption=f"{_UNMET}, macro {study.metrics[study.metric].title} × 100.",
        columns=columns,
        rows=[{**vars(r)} for r in rows],
        notes=[
            "Of a task, models that met its source are left out; of a mean over datasets, the "
            "datasets whose source one of the two models met. Models of which nothing says what "
            "they met stay in; the notes of the page name them."
        ],
    )
    return Section(name="controls_unmet", title=_UNMET, parts=[Notes(said, "plain"), table])


def _where(row: Again) -> str:
    return f"{row.about}, {setting_words(row.leads)}"
