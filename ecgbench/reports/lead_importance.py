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
from ecgbench.core.text import counted, enumerated, shortened
from ecgbench.datasets._labels import categories
from ecgbench.ecg.leads import LEADS, LIMB, LIMB_RADIUS, positions
from ecgbench.published import LEAD_RANGE
from ecgbench.reports import _facts as facts
from ecgbench.reports._figure import COLOURS
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
from ecgbench.results.study import Study
from ecgbench.stats.lead_importance import HALVINGS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Sheet

CARD = r.ReportCard(
    title="Lead importance",
    summary="how well conditions are recognised from each lead alone, where a run has all twelve",
    reads="run",
    order=65,
)
GREY = 0.5
"""Reliability below which a profile is grey."""
_SIGN = {"°": f"reliability below {GREY}: other patients would give another order of leads"}
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


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A column of a task."""

    title: str
    head: facts.Head
    found: Importance
    suffix: str
    """Of the names of its files."""

    @property
    def averages(self) -> list[Profile]:
        """The macro, and categories in which a condition counts."""
        return [self.found.macro, *(g for g in self.found.categories if g.conditions)]

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


def sections(study: Study) -> list[r.Section]:
    """Nothing where no column holds all twelve single leads, or no label has a category."""
    shown = list(_shown(study)) if METRIC in study.metrics else []
    if not shown:
        return []
    several = len(shown) > 1
    parts: list[r.Part] = []
    for one in shown:
        notes = r.Notes(list(_notes(study, one)))
        own: list[r.Part] = [notes, *_profiles(one), *_figures(one)]
        parts += [r.Group(one.title, own)] if several else own
    title = "What one lead tells" + ("" if several else f": {shown[0].title}")
    return [r.Section(name="lead_importance", title=title, short=CARD.title, parts=parts)]


def _shown(study: Study) -> Iterator[Shown]:
    heads, known, titles = facts.heads_of(study), categories(), facts.titles_of(study)
    wanted = []
    for task in titles:
        labels = study.labels.loc[study.labels["task"] == task, "label"]
        if known.keys() & set(labels):
            wanted += [(task, names) for names in columns(study, task)]
    pieces = [partial(importance, study, *which, known) for which in wanted]
    precompute.each(study.scorer, study.stage, (CARD.title, "models of a task"), pieces)
    for number, (task, names) in enumerate(wanted, 1):
        random = " (random weights)" if heads[names].untrained else ""
        yield Shown(
            title=f"{titles[task]}, {heads[names].label}{random}",
            head=heads[names],
            found=importance(study, task, names, known),
            suffix="" if number == 1 else f"_{number}",
        )


def grey(profile: Profile) -> bool:
    """Whether nothing should be read into it."""
    return not profile.reliability >= GREY


def _notes(study: Study, one: Shown) -> Iterator[str]:
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


def _profiles(one: Shown) -> list[r.Part]:
    """The mean profiles; those of conditions, how far leads are apart and every pair of leads as
    CSV.
    """
    whole = [one.found.macro, *one.found.categories]
    ranges = []
    for g in whole:
        low, high = g.bounds if g.pairs else (None, None)
        names = ("name", "conditions", "few", "within", "expected", "bound", "reliability")
        own = {name: getattr(g, name) for name in names}
        ranges.append(own | {"range": g.range if g.pairs else None, "low": low, "high": high})
    table = r.Table(
        name=f"lead_importance{one.suffix}",
        caption=f"{one.title}: AUROC of each lead alone less the mean over the twelve, in points, "
        f"times its reliability; below it the mean z over the twelve leads, as the paper has it.",
        columns=[
            r.Column("name", "Conditions"),
            *(r.Column(lead, lead, "number") for lead in LEADS),
            r.Column("range", "Range", "number", note="at least 95 %"),
            r.Column("bound", "Exchangeable leads", "number", r.points, note="range, 95 % up to"),
            r.Column("reliability", "Reliability", "number", "{:.2f}".format),
        ],
        rows=[
            {
                "name": r.Cell(g.name, "°" if grey(g) else "", f"{g.conditions} counted"),
                **{lead: _cell(g, at) for at, lead in enumerate(LEADS)},
                "range": r.Cell(r.points(g.range), small=r.bracket(*g.bounds)),
                "bound": g.bound,
                "reliability": None if np.isnan(g.reliability) else g.reliability,
            }
            for g in one.averages
        ],
        marks=_SIGN if any(map(grey, one.averages)) else {},
        numbers=one.long(
            [one.found.macro, *sorted(one.found.categories, key=lambda g: not g.conditions)]
        ),
        summary=_SUMMARY,
    )
    pairs = [
        {"name": g.name, "first": LEADS[a], "second": LEADS[b]}
        | dict(zip(("difference", "low", "high"), pair))
        for g in one.averages
        for (a, b), pair in zip(PAIRS, g.pairs)
    ]
    return [
        table,
        r.Table(
            name=f"lead_importance_conditions{one.suffix}",
            rows=one.long(one.found.conditions, of_conditions=True),
            summary=_SUMMARY,
        ),
        r.Table(
            name=f"lead_importance_ranges{one.suffix}",
            rows=one.frame(ranges),
            summary="the macro mean or a category: how far leads are apart, what is left out of it",
        ),
        r.Table(
            name=f"lead_importance_pairs{one.suffix}",
            rows=one.frame(pairs),
            summary="a lead less another, for the macro mean and each category",
        ),
    ]


def _cell(g: Profile, at: int) -> r.Cell:
    z = "" if np.isnan(g.z[at]) else f"z {g.z[at]:+.1f}".replace("-", "−")
    return r.Cell(r.signed(g.shrunk[at]), small=z)


def _figures(one: Shown) -> Iterator[r.Figure]:
    macro, averages = one.found.macro, one.averages[1:]
    yield r.Figure(
        name=f"lead_importance_bars{one.suffix}",
        draw=partial(_bars, macro),
        caption=f"{one.title}: macro AUROC of each lead alone. Intervals are of its distance from "
        f"the mean over leads, 95 %, over patients.",
        size=(7.4, 3.6),
    )
    if averages:
        across = min(3, len(averages))
        down = -(-len(averages) // across)
        yield r.Figure(
            name=f"lead_importance_body{one.suffix}",
            draw=partial(_bodies, averages, across, down),
            caption=f"{one.title}: the body from the front, the patient's left on the right. Chest "
            f"leads lie where their electrodes do, limb leads at their angle in the frontal plane. "
            f"Points, shrunk.",
            size=(2.9 * across + 0.7, 3.0 * down + 0.7),
        )
    order = [g.name for g in one.found.categories]
    drawn = [c for c in one.found.conditions if c.positives >= FEWEST_POSITIVES]
    drawn = [c for c in drawn if np.isfinite(c.shrunk).all()]
    drawn.sort(key=lambda c: order.index(c.category))
    if shown := [*averages, *drawn]:
        yield r.Figure(
            name=f"lead_importance_map{one.suffix}",
            draw=partial(_heat, shown),
            caption=f"{one.title}: categories, then conditions. AUROC of one lead alone less the "
            f"mean over the twelve, in points, shrunk. Grey: reliability below {GREY}, or a range "
            f"that exchangeable leads give too.",
            size=(8.2, 1.5 + (0.3 if len(shown) <= _WRITTEN else 0.17) * len(shown)),
        )


def _faded(g: Profile) -> bool:
    """Whether a figure has it in grey."""
    return grey(g) or (g.category != "" and g.left_out != "")


def _title(g: Profile, most: int) -> str:
    return shortened(g.name if g.category else g.name.upper(), most)


def _bars(macro: Profile, sheet: "Sheet") -> list[Any]:
    """Each lead with the interval of its distance from the mean over leads, on the band of ranges
    that exchangeable leads are not beyond.
    """
    from matplotlib.patches import Patch

    ax, values = sheet.subplots(), 100 * np.array(macro.aurocs)
    middle, half = values.mean(), 50 * macro.bound
    ends = middle + 100 * np.array([macro.low, macro.high])
    ax.axhspan(middle - half, middle + half, color=_FADED, zorder=0)
    ax.axhline(middle, color="#888888", linewidth=0.8, zorder=1)
    ax.bar(range(len(LEADS)), values, color=COLOURS[5], zorder=2, width=0.66)
    known = np.flatnonzero(np.isfinite(ends).all(axis=0))
    reach = np.abs(ends - values)[:, known]
    ax.errorbar(known, values[known], yerr=reach, fmt="none", ecolor="#333333", capsize=2.5)
    ax.set_xticks(range(len(LEADS)), LEADS)
    every = [*values, *ends.ravel(), middle - half, middle + half]
    low, high = np.nanmin(every), np.nanmax(every)
    margin = max(0.15 * (high - low), 0.5)
    ax.set_ylim(low - margin, high + margin)
    ax.set_ylabel("macro AUROC × 100")
    return [Patch(color=_FADED, label="as wide as 95 % of ranges of exchangeable leads")]


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


def _bodies(lines: Sequence[Profile], across: int, down: int, sheet: "Sheet") -> None:
    """A body for each line, with the leads where they lie."""
    scale = _scale(lines)
    axes = sheet.subplots(down, across, squeeze=False).ravel()
    for ax, line in zip(axes, lines):
        _body(ax, line, scale)
    for ax in axes[len(lines) :]:
        ax.set_visible(False)
    if not all(_faded(line) for line in lines):
        shown = list(axes[: len(lines)])
        sheet.colorbar(scale, ax=shown, shrink=0.6, label="points, shrunk")


def _body(ax: "Axes", line: Profile, scale: Any) -> None:
    from matplotlib.patches import Circle, Ellipse, FancyBboxPatch

    outline: dict[str, Any] = {"facecolor": "none", "edgecolor": "#bbbbbb", "linewidth": 1.1}
    ax.add_patch(Ellipse((0, 1.5), 0.55, 0.7, **outline))
    ax.add_patch(FancyBboxPatch((-0.87, -0.95), 1.74, 1.9, boxstyle="round,pad=0.13", **outline))
    ax.add_patch(Circle((0, 0), LIMB_RADIUS, linestyle=":", **outline))
    for lead, (x, y) in positions().items():
        value, limb = 100 * line.shrunk[LEADS.index(lead)], lead in LIMB
        sound = np.isfinite(value) and not _faded(line)
        if limb:
            ax.plot([0, x], [0, y], color="#d5d5d5", linewidth=0.8, zorder=1)
        look = {"facecolor": _FADED, "edgecolor": "#aaaaaa"}
        if sound:
            look = {"facecolor": scale.to_rgba(value), "edgecolor": "#333333"}
        radius = 0.17 if limb else 0.095
        ax.add_patch(Circle((x, y), radius, linewidth=0.7, zorder=3, **look))
        text = "#777777" if not sound else _on(value, scale) if limb else "black"
        below = y if limb else y - 0.19
        ax.text(x, below, lead, ha="center", va="center", fontsize=6.3, color=text, zorder=4)
    ax.set(xlim=(-1.75, 1.75), ylim=(-1.7, 1.95), aspect="equal")
    ax.axis("off")
    words = _title(line, 28) + (" (grey)" if _faded(line) else "")
    ax.set_title(words, fontsize=8, loc="center")
