"""The picture of an ablation: scores of the cells by seed, and what their differences are."""

from collections.abc import Mapping, Sequence
from functools import partial
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

from ecgbench.reports import Figure, Numbers, handle
from ecgbench.reports._figure import COLOURS
from ecgbench.results.ablation import Ablation, Compared
from ecgbench.stats.components import Interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Sheet

READING = {"twelve": "twelve leads", "one": "one lead", "padded": "one lead, padded"}
"""Of a study of lead sampling, in words."""
WIDE = 44
"""Letters of a line of a label."""
_MEAN, _SEED, _BEFORE, _PAPER = COLOURS[0], COLOURS[5], COLOURS[7], COLOURS[1]
_SURE: dict[str, Any] = {"color": _MEAN, "marker": "o", "markersize": 6}
_NOT: dict[str, Any] = {**_SURE, "markerfacecolor": "white"}
_DOTS: dict[str, Any] = {"color": _SEED, "marker": "o", "markersize": 3.5, "linestyle": ""}
_START: dict[str, Any] = {"color": _BEFORE, "marker": "D", "markersize": 5, "linestyle": ""}
_PRINTED: dict[str, Any] = {"color": _PAPER, "marker": "x", "markersize": 6, "linestyle": ""}


class Row(NamedTuple):
    """One line of the panel of differences, fractions."""

    name: str
    value: float
    interval: Interval
    evidence: bool
    paper: float | None


class Shown(NamedTuple):
    """One line of the panel of scores, fractions."""

    name: str
    seeds: list[float]
    before: float
    """Mean before the first step."""
    interval: Interval


def scores(
    source: Ablation, compared: Mapping[str, Compared], printed: Mapping[str, float]
) -> Figure:
    """Scores on the left, differences on the right: of cells from the reference, or the contrasts
    of a study of lead sampling.
    """
    every, rows = _shown(source), _rows(source, compared, printed)
    what = (
        f"Right: the network that was shown {source.reference} leads less the one that was shown "
        "all, simultaneous 95 % intervals over seeds and patients."
        if source.readings
        else f"Right: less {source.reference}, simultaneous 95 % intervals over seeds and "
        "patients; none of one seed."
    )
    left = (
        "a row: leads shown in training, and leads read; one lead: the mean over the twelve"
        if source.readings
        else "95 % intervals over patients"
    )
    caption = (
        "Left: macro AUROC × 100 of a linear head on frozen features of twelve leads, "
        f"{source.compared_on}; {left}. {what if rows else ''} Filled: the "
        f"order is evidence at this budget. Data: {source.data}."
        f"{' Not finished.' if source.open else ''}"
    )
    lines = max(len(every), len(rows))
    columns = ("cell", "seed", "step", "score")
    numbers = Numbers(
        columns=columns,
        rows=[
            dict(zip(columns, (name, seed, step, score)))
            for name, cell in source.cells.items()
            for seed, by_step in sorted(cell.scores.items())
            for step, score in sorted(by_step.items())
        ],
        summary="one row per network that was probed",
    )
    return Figure(
        name="ablation_scores",
        draw=partial(_draw, every, rows),
        caption=caption,
        size=(10.4, 1.9 + 0.34 * lines),
        numbers=numbers,
    )


def _rows(
    source: Ablation, compared: Mapping[str, Compared], printed: Mapping[str, float]
) -> list[Row]:
    if source.readings:
        return [Row(c.name, c.value, c.interval, c.evidence, None) for c in source.contrasts]
    of = printed.get(source.reference)
    return [
        Row(
            name,
            found.difference,
            found.interval,
            found.evidence,
            None if of is None or name not in printed else printed[name] - of,
        )
        for name, found in compared.items()
    ]


def _draw(every: Sequence[Shown], rows: Sequence[Row], sheet: "Sheet") -> list[Any]:
    left, *others = sheet.subplots(1, 2 if rows else 1, squeeze=False)[0]
    _scores(left, every)
    handles = [
        handle("mean over seeds", **_SURE),
        handle("one seed", **_DOTS),
        handle("before the first step", **_START),
    ]
    for right in others:
        _differences(right, rows)
        handles.append(handle("no evidence", **_NOT))
        if any(row.paper is not None for row in rows):
            handles.append(handle("the paper's difference, other task and budget", **_PRINTED))
    return handles


def _shown(source: Ablation) -> list[Shown]:
    if not source.readings:
        return [
            Shown(
                name,
                [by_step[source.steps] for by_step in cell.scores.values()],
                cell.mean(0),
                source.patient_interval(name),
            )
            for name, cell in source.cells.items()
        ]
    none = Interval(float("nan"), float("nan"))
    return [
        Shown(
            f"{key.cell} shown: {READING[key.reading]}",
            list(score.by_seed.values()),
            source.readings[key._replace(step=0)].mean,
            none,
        )
        for key, score in source.readings.items()
        if key.step == source.steps
    ]


def _scores(ax: Any, every: Sequence[Shown]) -> None:
    for at, row in enumerate(every):
        ax.plot([100 * score for score in row.seeds], [at + 0.18] * len(row.seeds), **_DOTS)
        ax.plot(100 * row.before, at, zorder=2, **_START)
        _bar(ax, at, sum(row.seeds) / len(row.seeds), row.interval, _SURE)
    _lines(ax, [row.name for row in every])
    ax.set(title="Scores", xlabel="macro AUROC × 100")


def _differences(ax: Any, rows: Sequence[Row]) -> None:
    ax.axvline(0, color="#555555", linewidth=0.9)
    for at, row in enumerate(rows):
        _bar(ax, at, row.value, row.interval, _SURE if row.evidence else _NOT)
        if row.paper is not None:
            ax.plot(100 * row.paper, at, zorder=4, **_PRINTED)
    _lines(ax, [row.name for row in rows])
    ax.set(title="Differences", xlabel="macro AUROC × 100")


def _bar(ax: Any, at: int, value: float, interval: Interval, style: Mapping[str, Any]) -> None:
    if interval.low == interval.low:
        ax.plot([100 * interval.low, 100 * interval.high], [at, at], color=_MEAN, linewidth=1.4)
    ax.plot(100 * value, at, zorder=3, linestyle="", **style)


def _lines(ax: Any, names: Sequence[str]) -> None:
    ax.set_yticks(range(len(names)), [fill(name, WIDE) for name in names])
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.grid(axis="y", visible=False)
