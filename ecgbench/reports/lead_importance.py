"""Lead importance: how well each condition, and each category of conditions, is told from one lead
alone, where a run holds all twelve single leads.

A number is an AUROC less the mean over the twelve leads, in points, times its reliability: how far
the profile over leads is the same in other patients. Below GREY it is grey. See
docs/lead_importance.md.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ecgbench.core.text import counted, enumerated, shortened
from ecgbench.datasets._labels import categories
from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.places import LIMB_ANGLES, ROUND, places
from ecgbench.published import LEAD_RANGE
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
from ecgbench.reports._facts import Head, heads_of, titles_of, untrained_marks
from ecgbench.reports._figure import COLOURS
from ecgbench.results import ahead
from ecgbench.results.lead_importance import (
    FEWEST_POSITIVES,
    METRIC,
    Condition,
    Importance,
    Pair,
    Profile,
    Trained,
    columns,
    importance,
)
from ecgbench.results.lead_importance import Group as Average
from ecgbench.results.study import Study
from ecgbench.stats.lead_importance import EXCHANGES, HALVINGS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Sheet

CARD = ReportCard(
    title="Lead importance",
    summary="how well conditions are told from each lead alone, where a run has all twelve",
    reads="run",
    order=65,
)
GREY = 0.5
"""Reliability below which a profile is grey."""
PAIRS = 5
"""Pairs of leads of a category that the page shows; the CSV has all."""
_SIGN = {"°": f"reliability below {GREY}: other patients would give another order of leads"}
_WHOSE = ("task", "model", "policy")
_BOUNDS = ("difference", "low", "high")
_LONG = (
    *(*_WHOSE, "category", "name", "lead", "auroc", *_BOUNDS, "shrunk", "z"),
    *("reliability", "range", "expected", "bound", "grey"),
)
_TRAINED: dict[Trained, str] = {
    "same": "One probe for each lead, fitted and tested on that lead alone (--train-leads same).",
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
    head: Head
    found: Importance
    suffix: str
    """Of the names of its files."""

    @property
    def averages(self) -> list[Average]:
        """The macro, and categories in which a condition counts."""
        return [self.found.macro, *(g for g in self.found.categories if g.conditions)]

    def of(self, **values: Any) -> dict[str, Any]:
        """A row of a CSV file: NaN as None."""
        found = self.found
        whose = {"task": found.task, "model": found.model, "policy": found.policy}
        return whose | {n: None if v != v else v for n, v in values.items()}


def sections(study: Study) -> list[Section]:
    """Nothing where no column holds all twelve single leads, or no label has a category."""
    shown = list(_shown(study)) if METRIC in study.metrics else []
    if not shown:
        return []
    several = len(shown) > 1
    parts: list[Part] = []
    for one in shown:
        own: list[Part] = [
            Notes(list(_notes(study, one))),
            _profiles(one),
            _ranges(one),
            *_pairs(one),
            *_figures(one),
            _conditions(one),
        ]
        parts += [Group(one.title, own)] if several else own
    title = "What one lead tells" + ("" if several else f": {shown[0].title}")
    return [Section(name="lead_importance", title=title, short=CARD.title, parts=parts)]


def _shown(study: Study) -> Iterator[Shown]:
    heads, known, titles = heads_of(study), categories(), titles_of(study)
    asked = []
    for task in titles:
        labels = study.labels.loc[study.labels["task"] == task, "label"]
        if known.keys() & set(labels):
            asked += [(task, names) for names in columns(study, task)]
    pieces = [partial(importance, study, *which, known) for which in asked]
    ahead.each(study.scorer, study.stage, (CARD.title, "models of a task"), pieces)
    for number, (task, names) in enumerate(asked, 1):
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
    found, macro = one.found, one.found.macro
    yield (
        f"{_TRAINED[found.trained]} {found.patients:,} test patients."
        + (" The encoder has random weights." if one.head.untrained else "")
    )
    low, high = macro.bounds
    there = np.isfinite([low, high]).all()
    interval = f"95 % interval at least {points(low)} to {points(high)}" if there else "no interval"
    yield (
        f"Macro AUROC of one lead: {points(min(macro.aurocs))} to {points(max(macro.aurocs))}, a "
        f"range of {points(macro.range)} points ({interval}). Leads that are "
        f"exchangeable within patients would give {points(macro.expected)} on average and up to "
        f"{points(macro.bound)} in 95 of 100 cases. "
        f"The paper prints {points(LEAD_RANGE[0])} to {points(LEAD_RANGE[1])} for LAEF fine-tuned "
        f"with random leads on the 164 conditions of Cardio-Learning. Its figure needs "
        f"Cardio-Learning, which cannot be had as a whole, so it is not drawn here."
    )
    yield (
        f"Grey: {sum(map(grey, found.conditions))} of "
        f"{counted(len(found.conditions), 'condition')}. In {HALVINGS} halvings of the patients, "
        f"the reliability of the order of leads is below {GREY} (median correlation of the halves, "
        f"Spearman-Brown) or cannot be had. Nothing should be read into these."
    )
    yield (
        f"Categories are ours. In their means are conditions with at least {FEWEST_POSITIVES} "
        f"positives whose range is beyond that of exchangeable leads: each patient's leads put in "
        f"an order of their own, {EXCHANGES} times. They were chosen on the same data, which makes "
        f"the means somewhat wide."
    )
    if found.unassigned:
        yield f"In no category: {enumerated(found.unassigned)}. They count in the macro mean alone."
    yield (
        "III, aVR, aVL and aVF are combinations of I and II: a low number says that such a lead by "
        "itself tells less here, not that it is unimportant. Of two leads, only a difference with "
        "its interval says which tells more."
    )
    facts = next((m for m in study.models if m.name == found.model), None)
    if facts and "lead" in str(facts.contract.get("normalisation", "")):
        yield (
            f"{one.head.title} receives each lead scaled by itself, which hides voltage: nothing "
            f"here says which leads show hypertrophy."
        )


def _name(profile: Profile) -> Cell:
    empty = isinstance(profile, Average) and not profile.conditions
    return Cell(profile.name, "°" if grey(profile) and not empty else "")


def _marks(one: Shown) -> dict[str, str]:
    return untrained_marks([one.head]) | (_SIGN if any(map(grey, one.averages)) else {})


def _profiles(one: Shown) -> Table:
    def cell(g: Average, at: int) -> Cell:
        z = "" if np.isnan(g.z[at]) else f"z {g.z[at]:+.1f}".replace("-", "−")
        return Cell(signed(g.shrunk[at]), small=z)

    empty = [g for g in one.found.categories if not g.conditions]
    return Table(
        name=f"lead_importance{one.suffix}",
        caption=f"{one.title}: AUROC of each lead alone less the mean over the twelve, in points, "
        f"times its reliability; below it the mean z over the twelve leads, as the paper has it.",
        columns=[Column("name", "Conditions"), *(Column(lead, lead, "number") for lead in LEADS)],
        rows=[
            {"name": _name(g)} | {lead: cell(g, at) for at, lead in enumerate(LEADS)}
            for g in one.averages
        ],
        marks=_marks(one),
        numbers=_long(one, [*one.averages, *empty]),
    )


def _ranges(one: Shown) -> Table:
    """How wide each profile is."""
    rows: list[Row] = []
    kept: list[Row] = []
    for g in (one.found.macro, *one.found.categories):
        left = [f"{g.few} with < {FEWEST_POSITIVES} positives"] if g.few else []
        left += [f"{g.within} not beyond exchangeable leads"] if g.within else []
        count = f"{g.conditions} of {g.conditions + g.few + g.within}"
        row: dict[str, Any] = {"name": _name(g), "conditions": Cell(count, small="; ".join(left))}
        row |= dict.fromkeys(("range", "expected", "reliability", "widest"))
        if g.conditions:
            row |= {
                "range": Cell(points(g.range), small=bracket(*g.bounds)),
                "expected": Cell(points(g.expected), small=f"95 %: {points(g.bound)}"),
                "reliability": None if np.isnan(g.reliability) else f"{g.reliability:.2f}",
                "widest": _spelled(max(g.pairs, key=lambda p: abs(p.difference))),
            }
        rows.append(row)
        wide = {"range": g.range, "low": g.bounds[0], "high": g.bounds[1]} if g.pairs else {}
        names = ("name", "conditions", "few", "within", "expected", "bound", "reliability")
        kept.append(one.of(**wide, **{n: getattr(g, n) for n in names}))
    return Table(
        name=f"lead_importance_ranges{one.suffix}",
        caption="How far the twelve leads are apart, in points of AUROC.",
        columns=[
            Column("name", "Conditions"),
            Column("conditions", "Counted"),
            Column("range", "Range", "number", note="at least 95 %"),
            Column("expected", "Exchangeable leads", "number", note="mean"),
            Column("reliability", "Reliability", "number"),
            Column("widest", "Widest difference", note="for all pairs at once"),
        ],
        rows=rows,
        marks=_marks(one),
        numbers=Numbers(
            columns=(
                *(*_WHOSE, "name", "conditions", "few", "within"),
                *("range", "low", "high", "expected", "bound", "reliability"),
            ),
            rows=kept,
            summary="the macro mean or a category: how far leads are apart",
        ),
    )


def _spelled(p: Pair) -> Cell:
    first, second, value, low, high = p.first, p.second, p.difference, p.low, p.high
    if value < 0:
        first, second, value, low, high = second, first, -value, -high, -low
    return Cell(f"{first} − {second}: {signed(value)}", small=signed_bracket(low, high))


def _pairs(one: Shown) -> Iterator[Table]:
    """Pairs of leads that differ, the widest first; the CSV holds all."""
    rows: list[Row] = []
    for g in one.averages:
        apart = [p for p in g.pairs if p.low > 0 or p.high < 0]
        apart.sort(key=lambda p: -abs(p.difference))
        count = f"{len(apart)} of {len(g.pairs)}"
        rows += [
            {"name": g.name, "difference": _spelled(p), "differ": count} for p in apart[:PAIRS]
        ]
    if not rows:
        return
    yield Table(
        name=f"lead_importance_pairs{one.suffix}",
        caption=f"Pairs of leads that differ, at most {PAIRS} of each; the intervals hold for all "
        f"66 pairs at once.",
        columns=[
            Column("name", "Conditions", "group"),
            Column("difference", "Difference", note="points, 95 %"),
            Column("differ", "Pairs that differ", "number"),
        ],
        rows=rows,
        numbers=Numbers(
            columns=(*_WHOSE, "name", "first", "second", *_BOUNDS),
            rows=[one.of(name=g.name, **vars(p)) for g in one.averages for p in g.pairs],
            summary="a lead less another, for the macro mean and each category",
        ),
        formats=("csv", "html"),
    )


def _conditions(one: Shown) -> Group:
    """What counts and what not, folded away."""
    order = [g.name for g in one.found.categories]
    found = sorted(one.found.conditions, key=lambda c: order.index(c.category))
    names = ("category", "name", "positives", "range", "bound", "reliability", "left_out")
    table = Table(
        name=f"lead_importance_conditions{one.suffix}",
        columns=[
            Column("category", "Category", "group"),
            Column("name", "Condition"),
            Column("positives", "Positives", "number", "{:,}".format),
            Column("range", "Range", "number", points, note="points"),
            Column("bound", "Exchangeable leads", "number", points, note="95 % up to"),
            Column("reliability", "Reliability", "number", "{:.2f}".format),
            Column("left_out", "Left out of its category"),
        ],
        rows=[one.of(**{name: getattr(c, name) for name in names}) for c in found],
        numbers=_long(one, one.found.conditions),
        formats=("csv", "html"),
    )
    return Group(counted(len(found), "condition"), [table], folded=True)


def _long(one: Shown, profiles: Sequence[Profile]) -> Numbers:
    """A row for each profile and lead."""
    rows: list[Row] = []
    for g in profiles:
        whole = {n: getattr(g, n) for n in ("name", "reliability", "range", "expected", "bound")}
        whole |= {"grey": grey(g), "category": ""}
        if isinstance(g, Condition):
            whole |= {name: getattr(g, name) for name in ("category", "positives", "left_out")}
        for at, lead in enumerate(LEADS):
            own = {name: getattr(g, name)[at] for name in (*_BOUNDS, "shrunk", "z")}
            rows.append(one.of(lead=lead, auroc=g.aurocs[at], **own, **whole))
    more = ("positives", "left_out") if any(isinstance(g, Condition) for g in profiles) else ()
    return Numbers(
        columns=(*_LONG, *more),
        rows=rows,
        summary="one row per condition, category or the macro mean, and lead; fractions",
    )


@dataclass(frozen=True, kw_only=True)
class Line:
    """A condition or a category in a figure."""

    name: str
    values: np.ndarray
    """(lead,) points, shrunk."""
    grey: bool


def _line(g: Profile) -> Line:
    left_out = isinstance(g, Condition) and g.left_out != ""
    name = g.name.upper() if isinstance(g, Average) else g.name
    return Line(name=name, values=100 * np.array(g.shrunk), grey=grey(g) or left_out)


def _figures(one: Shown) -> Iterator[Figure]:
    macro, averages = one.found.macro, one.averages[1:]
    yield Figure(
        name=f"lead_importance_bars{one.suffix}",
        draw=partial(_bars, macro),
        caption=f"{one.title}: macro AUROC of each lead alone. Intervals are of its distance from "
        f"the mean over leads, 95 %, over patients.",
        size=(7.4, 3.6),
        numbers=_long(one, [macro]),
    )
    if averages:
        across = min(3, len(averages))
        down = -(-len(averages) // across)
        yield Figure(
            name=f"lead_importance_body{one.suffix}",
            draw=partial(_bodies, list(map(_line, averages)), across, down),
            caption=f"{one.title}: the body from the front, the patient's left on the right. Chest "
            f"leads lie where their electrodes do, limb leads at their angle in the frontal plane. "
            f"Points, shrunk. Limb leads are combinations of I and II.",
            size=(2.9 * across + 0.7, 3.0 * down + 0.7),
            numbers=_long(one, averages),
        )
    order = [g.name for g in one.found.categories]
    drawn = [c for c in one.found.conditions if c.positives >= FEWEST_POSITIVES]
    drawn = [c for c in drawn if np.isfinite(c.shrunk).all()]
    drawn.sort(key=lambda c: order.index(c.category))
    if shown := [*averages, *drawn]:
        yield Figure(
            name=f"lead_importance_map{one.suffix}",
            draw=partial(_heat, list(map(_line, shown))),
            caption=f"{one.title}: categories, then conditions. AUROC of one lead alone less the "
            f"mean over the twelve, in points, shrunk. Grey: reliability below {GREY}, or a range "
            f"that exchangeable leads give too.",
            size=(8.2, 1.5 + (0.3 if len(shown) <= _WRITTEN else 0.17) * len(shown)),
            numbers=_long(one, shown),
        )


def _bars(macro: Average, sheet: "Sheet") -> list[Any]:
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


def _scale(lines: Sequence[Line]) -> Any:
    """Colours from the lowest to the highest value that is not grey, white at 0."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    most = max([0.1, *(float(abs(line.values).max()) for line in lines if not line.grey)])
    return ScalarMappable(Normalize(-most, most), colormaps["RdBu_r"])


def _on(value: float, scale: Any) -> str:
    """The colour of letters on that of a value."""
    return "white" if abs(value) > 0.65 * scale.norm.vmax else "black"


def _heat(lines: Sequence[Line], sheet: "Sheet") -> None:
    """Lines x leads."""
    from matplotlib.colors import to_rgba

    ax, scale = sheet.subplots(), _scale(lines)
    faded = [to_rgba(_FADED)] * len(LEADS)
    ax.imshow(
        np.array([faded if line.grey else scale.to_rgba(line.values) for line in lines]),
        aspect="auto",
        interpolation="none",
    )
    ax.grid(visible=False)
    written = len(lines) <= _WRITTEN
    ax.set_xticks(range(len(LEADS)), LEADS, fontsize=8)
    names = [shortened(line.name, 34) for line in lines]
    ax.set_yticks(range(len(lines)), names, fontsize=7.5 if written else 5.5)
    ax.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    for y, line in enumerate(lines if written else ()):
        for x, value in enumerate(line.values):
            colour = "#888888" if line.grey else _on(value, scale)
            text = signed(value / 100) if np.isfinite(value) else ""
            ax.text(x, y, text, ha="center", va="center", fontsize=6, color=colour)
    if not all(line.grey for line in lines):
        sheet.colorbar(scale, ax=ax, shrink=0.6, label="points, shrunk")


def _bodies(lines: Sequence[Line], across: int, down: int, sheet: "Sheet") -> None:
    """A body for each line, with the leads where they lie."""
    scale = _scale(lines)
    axes = sheet.subplots(down, across, squeeze=False).ravel()
    for ax, line in zip(axes, lines):
        _body(ax, line, scale)
    for ax in axes[len(lines) :]:
        ax.set_visible(False)
    if not all(line.grey for line in lines):
        shown = list(axes[: len(lines)])
        sheet.colorbar(scale, ax=shown, shrink=0.6, label="points, shrunk")


def _body(ax: "Axes", line: Line, scale: Any) -> None:
    from matplotlib.patches import Circle, Ellipse, FancyBboxPatch

    outline: dict[str, Any] = {"facecolor": "none", "edgecolor": "#bbbbbb", "linewidth": 1.1}
    ax.add_patch(Ellipse((0, 1.5), 0.55, 0.7, **outline))
    ax.add_patch(FancyBboxPatch((-0.87, -0.95), 1.74, 1.9, boxstyle="round,pad=0.13", **outline))
    ax.add_patch(Circle((0, 0), ROUND, linestyle=":", **outline))
    for lead, (x, y) in places().items():
        value, limb = line.values[LEADS.index(lead)], lead in LIMB_ANGLES
        sound = np.isfinite(value) and not line.grey
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
    words = shortened(line.name, 28) + (" (grey)" if line.grey else "")
    ax.set_title(words, fontsize=8, loc="center")
