"""Forest plot: every model less one baseline, dataset by dataset and over all of them.

`ecgbench report --baseline merl` names the baseline; else it is the first trained model of the run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ecgbench.core.registry import plain
from ecgbench.core.text import counted, enumerated, shortened
from ecgbench.errors import BadSetting
from ecgbench.reports import (
    LONGEST,
    Figure,
    Notes,
    Numbers,
    ReportCard,
    Section,
    handle,
    look,
)
from ecgbench.reports._facts import Head, setting_words
from ecgbench.reports._standing import Standing, foremost, settings, shown_alone, standing
from ecgbench.results import ahead
from ecgbench.results.study import Study
from ecgbench.stats.components import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Sheet

CARD = ReportCard(
    title="Against a baseline",
    summary="every model less one baseline, dataset by dataset and over all",
    reads="run",
    order=46,
)
MOST = 4
"""Lead settings that one figure shows."""
WHOLE = "all datasets"
Shown = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class _Line:
    """One difference."""

    leads: str
    head: Head
    dataset: str
    estimate: Estimate


def sections(study: Study) -> list[Section]:
    """Nothing of a single task or a single trained column."""
    found = [
        s for leads in foremost(study, MOST) if (s := standing(study, leads)) and len(s.tasks) > 1
    ]
    if not found:
        return []
    baseline = _baseline(study, found)
    against = [s for s in found if baseline in s.heads]
    pieces = [partial(_lines, s, baseline) for s in against]
    ahead.each(study.scorer, study.stage, (CARD.title, "lead settings"), pieces)
    lines = [line for s in against for line in _lines(s, baseline)]
    if not lines:
        return []
    titles = {data.name: data.title for data in study.datasets}
    titles |= {
        group.name: enumerated([titles[name] for name in group.datasets])
        for s in found
        for group in s.joint.groups
    }
    rows = [_row(line, baseline) for line in lines]
    heads = list(dict.fromkeys(line.head for line in lines))
    places = list(dict.fromkeys(line.dataset for line in lines))
    down = (len(heads) + 1) // 2
    figure = Figure(
        name="forest",
        draw=partial(_draw, lines, heads, places, titles, baseline),
        caption=f"Difference to {baseline.label} in points, 95 % intervals over patients; right of "
        f"0 is better than {baseline.label}.{_diamonds(found, lines)}",
        size=(9.6, (0.5 + 0.34 * len(places)) * down + 1.2),
        numbers=Numbers(
            columns=list(rows[0]), rows=rows, summary="one row per lead setting, column and dataset"
        ),
    )
    note = (
        f"Against {baseline.label}, which --baseline changes. Several tasks of one dataset are "
        f"averaged first."
    )
    if len(settings(study)) > MOST:
        note += f" {shown_alone(foremost(study, MOST), 'across_pairs.csv')}"
    return [
        Section(
            name="forest",
            title=f"Every model against {baseline.label}",
            short=CARD.title,
            parts=[figure, Notes([note])],
        )
    ]


def _diamonds(found: Sequence[Standing], lines: Sequence[_Line]) -> str:
    """What they are a mean of, where there are any."""
    there = {line.leads for line in lines if line.dataset == WHOLE}
    counts = {len(s.joint.datasets) for s in found if s.leads in there}
    if not counts:
        return ""
    same = len(counts) == 1
    over = counted(counts.pop(), "dataset") if same else "all datasets that have a score there"
    return f" Diamonds: the mean over {over}."


def _baseline(study: Study, found: Sequence[Standing]) -> Head:
    trained = [h for h in dict.fromkeys(h for s in found for h in s.values) if not h.untrained]
    name = study.options.baseline
    if not name:
        return trained[0]
    mine = [h for h in trained if plain(h.model) == plain(name)]
    if not mine:
        raise BadSetting(
            f"--baseline {name}: no trained model of this run has a score in every task under that "
            f"name; there are {', '.join(dict.fromkeys(h.model for h in trained))}"
        )
    return mine[0]


def _lines(s: Standing, baseline: Head) -> list[_Line]:
    others = [h for h in s.values if not h.untrained and h != baseline]
    if not others:
        return []
    weights = [s.sign * s.joint.less(s.entry(h), s.entry(baseline)) for h in others]
    by_dataset = s.joint.by_dataset(weights)
    parts = {**by_dataset, WHOLE: s.joint.contrasts(weights)} if len(by_dataset) > 1 else by_dataset
    return [
        _Line(leads=s.leads, head=head, dataset=dataset, estimate=estimates[at])
        for at, head in enumerate(others)
        for dataset, estimates in parts.items()
    ]


def _row(line: _Line, baseline: Head) -> Shown:
    bounds = line.estimate.as_difference()
    return {
        "leads": line.leads,
        "model": line.head.model,
        "policy": line.head.policy,
        "baseline": baseline.model,
        "baseline_policy": baseline.policy,
        "dataset": line.dataset,
        "difference": line.estimate.value,
        "low": bounds.low,
        "high": bounds.high,
        "se": line.estimate.se,
        "df": line.estimate.df,
        "p": line.estimate.p,
    }


def _draw(
    lines: Sequence[_Line],
    heads: Sequence[Head],
    places: Sequence[str],
    titles: dict[str, str],
    baseline: Head,
    sheet: "Sheet",
) -> list[Any]:
    down = (len(heads) + 1) // 2
    across = min(2, len(heads))
    axes = sheet.subplots(down, across, squeeze=False, sharex=True, sharey=True).ravel()
    shown = list(dict.fromkeys(line.leads for line in lines))
    for ax, head in zip(axes, heads):
        _panel(ax, [line for line in lines if line.head == head], places, shown)
        ax.set_title(shortened(head.label, LONGEST))
    for ax in axes[len(heads) :]:
        ax.set_visible(False)
    for ax in axes[max(0, len(heads) - across) : len(heads)]:  # the lowest of each column
        ax.tick_params(labelbottom=True)
        ax.set_xlabel("points", fontsize=8)
    axes[0].set_yticks(range(len(places)))
    axes[0].set_yticklabels([shortened(titles.get(p, p), 28) for p in places])
    axes[0].set_ylim(len(places) - 0.5, -0.5)
    return [handle(setting_words(leads), at) for at, leads in enumerate(shown)]


def _panel(ax: "Axes", lines: Sequence[_Line], places: Sequence[str], shown: Sequence[str]) -> None:
    ax.axvline(0, color="#999999", linewidth=1, zorder=1)
    for line in lines:
        at = shown.index(line.leads)
        y = places.index(line.dataset) + (at - (len(shown) - 1) / 2) * 0.6 / max(len(shown), 1)
        bounds = line.estimate.as_difference()
        style = look(at) | {"linestyle": "none", "markersize": 4}
        if line.dataset == WHOLE:
            style |= {"marker": "D", "markersize": 6}
        ax.plot([100 * bounds.low, 100 * bounds.high], [y, y], color=style["color"], linewidth=1.3)
        ax.plot([100 * line.estimate.value], [y], **style)
    ax.grid(visible=False, axis="y")
