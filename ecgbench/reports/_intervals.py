"""A figure of differences with their intervals: panels side by side, a line for each place."""

from typing import TYPE_CHECKING, Any

import pandas as pd

from ecgbench.core.text import shortened
from ecgbench.reports._figure import LONGEST, handle, look

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Sheet


def draw(lines: pd.DataFrame, wide: int, sheet: "Sheet") -> list[Any]:
    """Panels in rows of at most `wide`, with a line at 0; returns entries of a legend.

    lines: panel, place, series, diamond (whether it is drawn as one); value, low and high are
    fractions, NaN or None where there is no interval.
    """
    panels, places, series = (
        list(dict.fromkeys(lines[name])) for name in ("panel", "place", "series")
    )
    wide = min(wide, len(panels))
    axes = sheet.subplots(-(-len(panels) // wide), wide, squeeze=False, sharex=True, sharey=True)
    axes = axes.ravel()
    for ax, panel in zip(axes, panels):
        ax.axvline(0, color="#999999", linewidth=1, zorder=1)
        ax.grid(visible=False, axis="y")
        ax.set_title(shortened(panel, LONGEST))
        for line in lines[lines["panel"] == panel].to_dict("records"):
            at = series.index(line["series"])
            here = list(dict.fromkeys(lines["series"][lines["place"] == line["place"]]))
            shift = here.index(line["series"]) - (len(here) - 1) / 2
            y = places.index(line["place"]) + shift * 0.6 / len(here)
            style = look(at) | {"linestyle": "none", "markersize": 4}
            style |= {"marker": "D", "markersize": 6} if line["diamond"] else {}
            if line["low"] is not None and line["high"] is not None:
                reach = [100 * line["low"], 100 * line["high"]]
                ax.plot(reach, [y, y], color=style["color"], linewidth=1.3)
            ax.plot([100 * line["value"]], [y], **style)
    for ax in axes[len(panels) :]:
        ax.set_visible(False)
    for ax in axes[len(panels) - wide : len(panels)]:  # the lowest of each column
        ax.tick_params(labelbottom=True)
        ax.set_xlabel("points", fontsize=8)
    axes[0].set_yticks(range(len(places)), [shortened(place, LONGEST) for place in places])
    axes[0].set_ylim(len(places) - 0.5, -0.5)
    return [handle(name, at) for at, name in enumerate(series)]
