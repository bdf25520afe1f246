"""Lead importance: how well each condition, and each category of conditions, is recognised from one
lead alone, where a run holds all twelve single leads.

A number is an AUROC less the mean over the twelve leads, in points, times its reliability: how far
the profile over leads is the same in other patients. Below GREY it is grey. See
docs/explanation/lead_importance.md.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ecgbench import reports as r
from ecgbench.core.keys import grouped
from ecgbench.core.text import counted, enumerated, shortened
from ecgbench.datasets._labels import categories
from ecgbench.ecg.leads import LEADS
from ecgbench.published import LEAD_RANGE
from ecgbench.reports import _facts as facts
from ecgbench.results import precompute
from ecgbench.results.lead_importance import (
    FEWEST_POSITIVES,
    METRIC,
    PAIRS,
    Importance,
    Profile,
    Trained,
    columns,
    importance,
)
from ecgbench.results.study import Run
from ecgbench.stats.lead_importance import HALVINGS

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Sheet

CARD = r.ReportCard(
    title="Lead importance",
    summary="how well conditions are recognised from each lead alone, where a run has all twelve",
    reads="run",
    order=65,
)
GREY = 0.5
"""Reliability below which a profile is grey."""
_LONG = [
    *("category", "name", "lead", "auroc", "difference", "low", "high", "shrunk", "z"),
    *("reliability", "range", "expected", "bound", "grey"),
]
_SUMMARY = "one row per condition, category or the macro mean, and lead; fractions"
_TRAINED: dict[Trained, str] = {
    "same": "One fit for each lead, trained and tested on that lead alone (--train-leads same).",
    "random": "One fit on random leads (--train-leads random, the paper's way), tested on one lead "
    "at a time: it may give up some of a lead to serve all.",
    "all": "One fit on twelve leads, tested on one: this is also how well the model stands the "
    "loss of eleven. For what a lead holds: ecgbench run --train-leads same.",
}
_FADED = "#e6e6e6"
_WRITTEN = 40
"""Rows of a heat map that has its numbers written in the squares."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Shown:
    """A column of a task."""

    title: str
    head: facts.Head
    found: Importance
    suffix: str
    """Of the names of its files."""

    def frame(self, rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
        """Rows of a CSV file."""
        found = self.found
        whose = {"task": found.task, "model": found.model, "policy": found.policy}
        return pd.DataFrame([whose | row for row in rows])

    def long(self, profiles: Sequence[Profile], of_conditions: bool = False) -> pd.DataFrame:
        """A row for each profile and lead."""
        rows = []
        for g in profiles:
            whole = {n: getattr(g, n) for n in ("name", "reliability", "range", "expected")}
            whole |= {"bound": g.bound, "grey": grey(g), "category": g.category}
            if of_conditions:
                whole |= {"positives": g.positives, "left_out": g.left_out}
            for at, lead in enumerate(LEADS):
                of_lead = ("difference", "low", "high", "shrunk", "z")
                own = {name: getattr(g, name)[at] for name in of_lead}
                rows.append({**whole, "lead": lead, "auroc": g.aurocs[at], **own})
        more = ["positives", "left_out"] if of_conditions else []
        return self.frame(rows)[["task", *facts.MODEL, *_LONG, *more]]


def rows(study: Run) -> pd.DataFrame:
    """The macro mean, categories and conditions of each column of a task at each lead, and `shown`:
    all that is known of the column. None where no column holds all twelve single leads, or no label
    has a category.
    """
    found = list(_shown(study)) if METRIC in study.metrics else []
    frames = [one.long([*_whole(one), *one.found.conditions], of_conditions=True) for one in found]
    for frame, one in zip(frames, found):
        frame["shown"] = pd.Series([one] * len(frame), frame.index, dtype=object)
    return pd.concat(frames) if frames else pd.DataFrame({"shown": []})


def sections(study: Run, rows: pd.DataFrame) -> list[r.Section]:
    """On the page the first trained column of each task."""
    shown: list[Shown] = list(dict.fromkeys(rows["shown"]))
    if not shown:
        return []
    tasks = grouped(shown, lambda one: one.found.task).values()
    parts: list[r.Part] = []
    for own in tasks:
        first = next((one for one in own if not one.head.untrained), own[0])
        told: list[r.Part] = [*_map(first), r.Notes(list(_notes(study, first)))]
        told += [table for one in own for table in _tables(one)]
        parts += [r.Group(first.title, told)] if len(tasks) > 1 else told
    title = "What one lead tells" + ("" if len(tasks) > 1 else f": {first.title}")
    return [r.Section(name="lead_importance", title=title, short=CARD.title, parts=parts)]


def _shown(study: Run) -> Iterator[Shown]:
    heads, known, titles = facts.heads_of(study), categories(), facts.titles_of(study)
    wanted = []
    for task in titles:
        labels = study.labels.loc[study.labels["task"] == task, "label"]
        if known.keys() & set(labels):
            wanted += [(task, names) for names in columns(study, task)]
    pieces = [partial(importance, study, *which, known) for which in wanted]
    each = precompute.each(study.scorer, study.stage, (CARD.title, "models of a task"), pieces)
    for number, ((task, names), found) in enumerate(zip(wanted, each), 1):
        random = " (random weights)" if heads[names].untrained else ""
        yield Shown(
            title=f"{titles[task]}, {heads[names].label}{random}",
            head=heads[names],
            found=found,
            suffix="" if number == 1 else f"_{number}",
        )


def grey(profile: Profile) -> bool:
    """Whether nothing should be read into it."""
    return not profile.reliability >= GREY


def _notes(study: Run, one: Shown) -> Iterator[str]:
    """What was measured, and what not to read into it."""
    found = one.found
    yield (
        f"{_TRAINED[found.trained]} {found.patients:,} test patients."
        + (" The encoder has random weights." if one.head.untrained else "")
    )
    yield (
        f"The paper prints macro AUROC {r.points(LEAD_RANGE[0])} to {r.points(LEAD_RANGE[1])} over "
        f"single leads, for LAEF on Cardio-Learning."
    )
    yield (
        f"Grey: {sum(map(grey, found.conditions))} of "
        f"{counted(len(found.conditions), 'condition')}, whose order of leads has a reliability "
        f"below {GREY} over {HALVINGS} halvings of the patients. Nothing should be read into these."
    )
    if found.unassigned:
        yield f"In no category: {enumerated(found.unassigned)}. They count in the macro mean alone."
    model = next((m for m in study.models if m.name == found.model), None)
    if model and "lead" in str(model.contract.get("normalisation", "")):
        yield (
            f"{one.head.title} receives each lead scaled by itself, which hides voltage: nothing "
            f"here says which leads show hypertrophy."
        )


def _tables(one: Shown) -> list[r.Table]:
    """As CSV alone: the mean profiles, those of conditions, how far leads are apart and every pair
    of leads.
    """
    found = one.found
    averages = [found.macro, *(g for g in found.categories if g.conditions)]
    ranges = []
    for g in [found.macro, *found.categories]:
        low, high = g.bounds if g.pairs else (None, None)
        names = ("name", "conditions", "few", "within", "expected", "bound", "reliability")
        own = {name: getattr(g, name) for name in names}
        ranges.append(own | {"range": g.range if g.pairs else None, "low": low, "high": high})
    pairs = [
        {"name": g.name, "first": LEADS[a], "second": LEADS[b]}
        | dict(zip(("difference", "low", "high"), pair))
        for g in averages
        for (a, b), pair in zip(PAIRS, g.pairs)
    ]
    apart = "the macro mean or a category: how far leads are apart, what is left out of it"
    named = {
        "": (one.long(_whole(one)), _SUMMARY),
        "_conditions": (one.long(found.conditions, of_conditions=True), _SUMMARY),
        "_ranges": (one.frame(ranges), apart),
        "_pairs": (one.frame(pairs), "a lead less another, for the macro mean and each category"),
    }
    return [
        r.Table(name=f"lead_importance{name}{one.suffix}", rows=rows, summary=summary)
        for name, (rows, summary) in named.items()
    ]


def _whole(one: Shown) -> list[Profile]:
    """The macro mean, then categories, those with conditions first."""
    return [one.found.macro, *sorted(one.found.categories, key=lambda g: not g.conditions)]


def _map(one: Shown) -> list[r.Figure]:
    """Categories, then conditions with enough positives, by lead; nothing where there is none."""
    averages = [g for g in one.found.categories if g.conditions]
    order = [g.name for g in one.found.categories]
    drawn = [c for c in one.found.conditions if c.positives >= FEWEST_POSITIVES]
    drawn = [c for c in drawn if np.isfinite(c.shrunk).all()]
    drawn.sort(key=lambda c: order.index(c.category))
    shown = [*averages, *drawn]
    if not shown:
        return []
    figure = r.Figure(
        name=f"lead_importance_map{one.suffix}",
        draw=partial(_heat, shown),
        caption=f"{one.title}: categories, then conditions. AUROC of one lead alone less the "
        f"mean over the twelve, in points, shrunk. Grey: reliability below {GREY}, or a range "
        f"that exchangeable leads give too.",
        size=(8.2, 1.5 + (0.3 if len(shown) <= _WRITTEN else 0.17) * len(shown)),
    )
    return [figure]


def _faded(g: Profile) -> bool:
    """Whether a figure has it in grey."""
    return grey(g) or (g.category != "" and g.left_out != "")


def _title(g: Profile, most: int) -> str:
    return shortened(g.name if g.category else g.name.upper(), most)


def _scale(lines: Sequence[Profile]) -> Any:
    """Colours from the lowest to the highest value that is not grey, white at 0."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    sound = [np.abs(line.shrunk).max() for line in lines if not _faded(line)]
    most = 100 * max([0.001, *sound])
    return ScalarMappable(Normalize(-most, most), colormaps["RdBu_r"])


def _on(value: float, scale: Any) -> str:
    """The colour of letters on that of a value."""
    return "white" if abs(value) > 0.65 * scale.norm.vmax else "black"


def _heat(lines: Sequence[Profile], sheet: "Sheet") -> None:
    """Lines x leads."""
    from matplotlib.colors import to_rgba

    ax, scale = sheet.subplots(), _scale(lines)
    faded = [to_rgba(_FADED)] * len(LEADS)
    ax.imshow(
        np.array([faded if _faded(g) else scale.to_rgba(100 * np.array(g.shrunk)) for g in lines]),
        aspect="auto",
        interpolation="none",
    )
    ax.grid(visible=False)
    written = len(lines) <= _WRITTEN
    ax.set_xticks(range(len(LEADS)), LEADS, fontsize=8)
    names = [_title(line, 34) for line in lines]
    ax.set_yticks(range(len(lines)), names, fontsize=7.5 if written else 5.5)
    ax.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    for y, line in enumerate(lines if written else ()):
        for x, value in enumerate(line.shrunk):
            colour = "#888888" if _faded(line) else _on(100 * value, scale)
            text = r.signed(value) if np.isfinite(value) else ""
            ax.text(x, y, text, ha="center", va="center", fontsize=6, color=colour)
    if not all(_faded(line) for line in lines):
        sheet.colorbar(scale, ax=ax, shrink=0.6, label="points, shrunk")
