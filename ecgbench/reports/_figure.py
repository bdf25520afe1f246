"""The one style of all figures, and their bytes: the same every time, whatever the reader's
matplotlib is set to.
"""

import io
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ecgbench.core.text import shortened
from ecgbench.reports._section import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Sheet

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")
"""Distinct under the common colour-vision deficiencies (Okabe and Ito 2008, Color Universal Design;
yellow replaced by grey).
"""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LONGEST = 60
"""Characters of a title or a name that a figure shows."""
_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.7,
    "axes.edgecolor": "#555555",
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "svg.hashsalt": "ecgbench",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
    "text.parse_math": False,
}
_LETTERS = 14.6
"""Of the caption, and..."""
_LEGEND = 12.5
"""... of the legend, in an inch."""
_EMPTY = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"Creator": None, "Producer": None, "CreationDate": None},
}
"""Formats of a figure, and what its file must not tell: when and by what it was written."""


@contextmanager
def drawing(figure: Figure) -> "Iterator[Sheet]":
    """The matplotlib figure with everything drawn on it, caption and legend too."""
    import matplotlib
    from matplotlib.figure import Figure as Sheet

    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # a user's matplotlibrc must not change a published figure
        matplotlib.rcParams.update(_STYLE)
        sheet = Sheet(figsize=figure.size, layout="constrained", facecolor="white")
        handles = list(figure.draw(sheet) or ())
        width = figure.size[0]
        caption = textwrap.fill(shortened(figure.caption, 20 * LONGEST), int(_LETTERS * width))
        sheet.supxlabel(caption, fontsize=7.5, color="#444444", x=0.01, ha="left")
        if handles:
            widest = max(len(handle.get_label()) for handle in handles)
            fit = max(1, int(_LEGEND * width) // (widest + 8))
            sheet.legend(
                handles=handles,
                loc="outside upper left",
                ncols=min(len(handles), fit),
                handlelength=2.4,
            )
        yield sheet


def pictures(figure: Figure) -> dict[str, bytes]:
    """PNG, SVG and PDF."""
    with drawing(figure) as sheet:
        return rendered(sheet)


def rendered(sheet: "Sheet") -> dict[str, bytes]:
    """The files of what is drawn, by format."""
    first, *others = _EMPTY
    made = {first: _bytes(sheet, first)}
    sheet.set_layout_engine("none")  # the same places in all of them, found once
    return made | {kind: _bytes(sheet, kind) for kind in others}


def _bytes(sheet: "Sheet", kind: str) -> bytes:
    out = io.BytesIO()
    sheet.savefig(out, format=kind, dpi=160, metadata=_EMPTY[kind])
    return out.getvalue()


def look(at: int) -> dict[str, Any]:
    """Colour, marker and line of the series at a place, different for the first 24."""
    cycle = at // len(COLOURS)
    return {
        "color": COLOURS[at % len(COLOURS)],
        "marker": MARKERS[(at + cycle) % len(MARKERS)],
        "linestyle": ("-", "--", ":")[cycle % 3],
    }


def handle(label: str, at: int | None = None, **more: Any) -> Any:
    """An entry of a legend: of the series at a place, or a line that looks like `more`."""
    from matplotlib.lines import Line2D

    style: dict[str, Any] = (
        {"color": "#666666", "linewidth": 1.4} if at is None else {"markersize": 6, **look(at)}
    )
    # matplotlib leaves such a label out of the legend
    label = f" {label}" if label.startswith("_") else label
    return Line2D([], [], label=label, **style | more)


def lead_axis(ax: "Axes", leads: Sequence[int], right: float | None = None) -> None:
    """A logarithmic axis of numbers of leads, of which those have a label that leave room for the
    next.

    right: how far it reaches, where something stands right of the last number.
    """
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    ticks = sorted(set(leads)) or [12]
    labels = [str(n) if len(ticks) <= 6 or n in (1, 2, 3, 4, 6, 8, 12) else "" for n in ticks]
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_major_formatter(FixedFormatter(labels))
    ax.xaxis.set_minor_locator(NullLocator())
    margin = 2**0.25 if len(ticks) > 1 else 2
    ax.set_xlim(ticks[0] / margin, max(ticks[-1] * margin, (right or 0) * 2**0.18))
    ax.set_xlabel("measured leads")
