"""A figure of values with their intervals: panels side by side, a line for each place."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ecgbench.core.text import shortened
from ecgbench.reports._figure import LONGEST, handle, look

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Sheet


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A value, as fractions; bounds are None or NaN where there are none."""

    panel: str
    place: str
    series: str
    value: float
    low: float | None
    high: float | None
    diamond: bool = False


def draw(
    lines: Sequence[Interval],
    wide: int,
    sheet: "Sheet",
    zero: float = 0.0,
    unit: str = "points",
) -> list[Any]:
    """Panels in rows of at most `wide`, with a line at `zero`; returns entries of a legend."""
    panels, places, series = (
        list(dict.fromkeys(getattr(line, name) for line in lines))
        for name in ("panel", "place", "series")
    )
    wide = min(wide, len(panels))
    axes = sheet.subplots(-(-len(panels) // wide), wide, squeeze=False, sharex=True, sharey=True)
    axes = axes.ravel()
    for ax, panel in zip(axes, panels):
        ax.axvline(100 * zero, color="#999999", linewidth=1, zorder=1)
        ax.grid(visible=False, axis="y")
        ax.set_title(shortened(panel, LONGEST))
        for line in (line for line in lines if line.panel == panel):
            at = series.index(line.series)
            here = list(dict.fromkeys(one.series for one in lines if one.place == line.place))
            shift = here.index(line.series) - (len(here) - 1) / 2
            y = places.index(line.place) + shift * 0.6 / len(here)
            style = look(at) | {"linestyle": "none", "markersize": 4}
            style |= {"marker": "D", "markersize": 6} if line.diamond else {}
            if line.low is not None and line.high is not None:
                reach = [100 * line.low, 100 * line.high]
                ax.plot(reach, [y, y], color=style["color"], linewidth=1.3)
            ax.plot([100 * line.value], [y], **style)
    for ax in axes[len(panels) :]:
        ax.set_visible(False)
    for ax in axes[len(panels) - wide : len(panels)]:  # the lowest of each column
        ax.tick_params(labelbottom=True)
        ax.set_xlabel(unit, fontsize=8)
    axes[0].set_yticks(range(len(places)), [shortened(place, 40) for place in places])
    axes[0].set_ylim(len(places) - 0.5, -0.5)
    return [handle(name, at) for at, name in enumerate(series)]
