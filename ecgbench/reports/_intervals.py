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
    shifts: dict[tuple[str, str], float] = {}
    for place, own in lines.groupby("place"):
        here = list(dict.fromkeys(own["series"]))
        for at, name in enumerate(here):
            shifts[str(place), name] = (at - (len(here) - 1) / 2) * 0.6 / len(here)
    wide = min(wide, len(panels))
    axes = sheet.subplots(-(-len(panels) // wide), wide, squeeze=False, sharex=True, sharey=True)
    axes = axes.ravel()
    for ax, panel in zip(axes, panels):
        ax.axvline(0, color="#999999", linewidth=1, zorder=1)
        ax.grid(visible=False, axis="y")
        ax.set_title(shortened(panel, LONGEST))
        mine = lines[lines["panel"] == panel]
        for (name, diamond), own in mine.groupby(["series", "diamond"], sort=False):
            y = [places.index(place) + shifts[place, name] for place in own["place"]]
            style = look(series.index(name)) | {"linestyle": "none", "markersize": 4}
            style |= {"marker": "D", "markersize": 6} if diamond else {}
            drawn = own[["value", "low", "high"]].astype(float).mul(100).assign(y=y)
            bars = drawn.dropna()
            ax.hlines(bars["y"], bars["low"], bars["high"], color=style["color"], linewidth=1.3)
            ax.plot(drawn["value"], y, **style)
    for ax in axes[len(panels) :]:
        ax.set_visible(False)
    for ax in axes[len(panels) - wide : len(panels)]:  # the lowest of each column
        ax.tick_params(labelbottom=True)
        ax.set_xlabel("points", fontsize=8)
    axes[0].set_yticks(range(len(places)), [shortened(place, LONGEST) for place in places])
    axes[0].set_ylim(len(places) - 0.5, -0.5)
    return [handle(name, at) for at, name in enumerate(series)]
