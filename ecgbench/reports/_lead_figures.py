"""Figures of leads: a heat map, bars, and the body with the leads where they lie."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ecgbench.core.text import shortened
from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.places import LIMB_ANGLES, ROUND, places
from ecgbench.reports._section import Figure, Numbers
from ecgbench.reports._text import MINUS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Sheet

_GREY = "#e6e6e6"
_COLOURS = "RdBu_r"
_NAME = 34
"""Letters of a condition beside a heat map."""
_WRITTEN = 40
"""Rows of a heat map that has its numbers written in the squares."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """A condition or a category in a figure."""

    name: str
    values: Sequence[float]
    """(lead,) points, shrunk."""
    grey: bool
    """Whether nothing should be read into it."""


def heat_map(name: str, lines: Sequence[Line], caption: str, numbers: Numbers) -> Figure:
    """Lines x leads."""
    height = 1.5 + (0.3 if len(lines) <= _WRITTEN else 0.17) * len(lines)
    return Figure(
        name=name,
        draw=partial(_heat, lines),
        caption=caption,
        size=(8.2, height),
        numbers=numbers,
    )


def _most(lines: Sequence[Line]) -> float:
    sound = [abs(v) for line in lines if not line.grey for v in line.values]
    return max([*sound, 0.1])


def _heat(lines: Sequence[Line], sheet: "Sheet") -> None:
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize, to_rgba

    ax, most = sheet.subplots(), _most(lines)
    scale = ScalarMappable(Normalize(-most, most), colormaps[_COLOURS])
    colours = np.array(
        [
            [to_rgba(_GREY)] * len(LEADS) if x.grey else scale.to_rgba(np.array(x.values))
            for x in lines
        ]
    )
    ax.grid(visible=False)
    ax.imshow(colours, aspect="auto", interpolation="none")
    small = len(lines) > _WRITTEN
    ax.set_xticks(range(len(LEADS)), LEADS, fontsize=8)
    names = [shortened(line.name, _NAME) for line in lines]
    ax.set_yticks(range(len(lines)), names, fontsize=5.5 if small else 7.5)
    ax.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    for y, line in enumerate(lines if not small else ()):
        for x, value in enumerate(line.values):
            if np.isfinite(value):
                colour = "#888888" if line.grey else _on(value, most)
                ax.text(x, y, _spelled(value), ha="center", va="center", fontsize=6, color=colour)
    if not all(line.grey for line in lines):
        sheet.colorbar(scale, ax=ax, shrink=0.6, label="points, shrunk")


def _spelled(value: float) -> str:
    return "0.0" if round(value, 1) == 0 else f"{value:+.1f}".replace("-", MINUS)


def _on(value: float, most: float) -> str:
    return "white" if abs(value) > 0.65 * most else "black"


def bars(
    name: str,
    values: Sequence[Sequence[float]],
    null: tuple[float, float],
    caption: str,
    numbers: Numbers,
) -> Figure:
    """Macro AUROC of each lead with the interval of its distance from the mean over leads.

    values: (value, low, high) by lead, fractions. null: middle, and half the range that
    exchangeable leads are not beyond.
    """
    return Figure(
        name=name,
        draw=partial(_bars, values, null),
        caption=caption,
        size=(7.4, 3.6),
        numbers=numbers,
    )


def _bars(
    values: Sequence[Sequence[float]], null: tuple[float, float], sheet: "Sheet"
) -> list[Any]:
    from matplotlib.patches import Patch

    from ecgbench.reports._figure import COLOURS

    ax, table = sheet.subplots(), 100 * np.array(values)
    middle, half = 100 * null[0], 100 * null[1]
    ax.axhspan(middle - half, middle + half, color=_GREY, zorder=0)
    ax.axhline(middle, color="#888888", linewidth=0.8, zorder=1)
    reach = np.abs(table[:, 1:] - table[:, :1]).T
    ax.bar(range(len(LEADS)), table[:, 0], color=COLOURS[5], zorder=2, width=0.66)
    known = np.isfinite(reach).all(axis=0)
    places = np.flatnonzero(known)
    ax.errorbar(
        places, table[known, 0], yerr=reach[:, known], fmt="none", ecolor="#333333", capsize=2.5
    )
    ax.set_xticks(range(len(LEADS)), LEADS)
    low = min(float(np.nanmin(table)), middle - half)
    high = max(float(np.nanmax(table)), middle + half)
    margin = max(0.15 * (high - low), 0.5)
    ax.set_ylim(low - margin, high + margin)
    ax.set_ylabel("macro AUROC × 100")
    return [Patch(color=_GREY, label="as wide as 95 % of ranges of exchangeable leads")]


def bodies(name: str, lines: Sequence[Line], caption: str, numbers: Numbers) -> Figure:
    """A body for each line."""
    across = min(3, len(lines))
    down = -(-len(lines) // across)
    return Figure(
        name=name,
        draw=partial(_bodies, lines, across, down),
        caption=caption,
        size=(2.9 * across + 0.7, 3.0 * down + 0.7),
        numbers=numbers,
    )


def _bodies(lines: Sequence[Line], across: int, down: int, sheet: "Sheet") -> None:
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    most = _most(lines)
    scale = ScalarMappable(Normalize(-most, most), colormaps[_COLOURS])
    axes = sheet.subplots(down, across, squeeze=False).ravel()
    for ax, line in zip(axes, lines):
        _body(ax, line, scale, most)
    for ax in axes[len(lines) :]:
        ax.set_visible(False)
    if not all(line.grey for line in lines):
        shown = list(axes[: len(lines)])
        sheet.colorbar(scale, ax=shown, shrink=0.6, label="points, shrunk")


def _body(ax: "Axes", line: Line, scale: Any, most: float) -> None:
    from matplotlib.patches import Circle, Ellipse, FancyBboxPatch

    outline: dict[str, Any] = {"facecolor": "none", "edgecolor": "#bbbbbb", "linewidth": 1.1}
    ax.add_patch(Ellipse((0, 1.5), 0.55, 0.7, **outline))
    trunk = FancyBboxPatch((-0.87, -0.95), 1.74, 1.9, boxstyle="round,pad=0.13", **outline)
    ax.add_patch(trunk)
    ax.add_patch(Circle((0, 0), ROUND, linestyle=":", **outline))
    for lead, (x, y) in places().items():
        value = line.values[LEADS.index(lead)]
        sound = np.isfinite(value) and not line.grey
        limb = lead in LIMB_ANGLES
        if limb:
            ax.plot([0, x], [0, y], color="#d5d5d5", linewidth=0.8, zorder=1)
        colour = scale.to_rgba(value) if sound else _GREY
        radius = 0.17 if limb else 0.095
        edge = "#333333" if sound else "#aaaaaa"
        ax.add_patch(
            Circle((x, y), radius, facecolor=colour, edgecolor=edge, linewidth=0.7, zorder=3)
        )
        text = "#777777" if not sound else _on(value, most) if limb else "black"
        below = (x, y) if limb else (x, y - 0.19)
        ax.text(*below, lead, ha="center", va="center", fontsize=6.3, color=text, zorder=4)
    ax.set_xlim(-1.75, 1.75)
    ax.set_ylim(-1.7, 1.95)
    ax.set_aspect("equal")
    ax.axis("off")
    words = shortened(line.name, 28) + (" (grey)" if line.grey else "")
    ax.set_title(words, fontsize=8, loc="center")
