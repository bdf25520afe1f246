"""The one style of all figures, and their bytes: the same every time, whatever the reader's
matplotlib is set to.
"""

import io
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
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
    "svg.fonttype": "none",
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


def pictures(figure: Figure, kinds: Sequence[str]) -> dict[str, bytes]:
    """Kind of file -> its content."""
    with drawing(figure) as sheet:
        return rendered(sheet, kinds)


def rendered(sheet: "Sheet", kinds: Sequence[str]) -> dict[str, bytes]:
    """The files of what is drawn, by kind."""
    # the same places in all of them, found once: that takes as long as a drawing
    if (engine := sheet.get_layout_engine()) is not None:
        engine.execute(sheet)
    sheet.set_layout_engine(None)
    made = {}
    for kind in kinds:
        out = io.BytesIO()
        sheet.savefig(out, format=kind, dpi=160, metadata=_EMPTY[kind])
        made[kind] = out.getvalue()
    return made


def inline(name: str, svg: str, of_column: Callable[[int], str]) -> str:
    """The SVG of a figure as an element of the page: in the page's colours, light or dark, with ids
    of its own and coordinates to a hundredth of a point.

    of_column: attributes by which the page filters what is drawn with the gid `column-N`.
    """

    def own(found: re.Match[str]) -> str:
        if column := re.fullmatch(r"column-(\d+)", found[1]):
            return of_column(int(column[1]))
        return f' id="{name}-{found[1]}"' if found[1] in used else ""

    used = set(re.findall(r'(?:href="|url\()#([^")]+)', svg))
    svg = svg[svg.index("<svg") :].replace("xlink:href", "href")
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", svg, flags=re.S)
    svg = re.sub(r"(?<!scale\()(-?\d+\.\d\d)\d+", r"\1", svg)
    svg = re.sub(r' id="([^"]+)"', own, svg)
    svg = re.sub(r'((?:href="|url\()#)([^")]+)', rf"\g<1>{name}-\2", svg)
    return re.sub(r"(?<=: )#([0-9a-f]{6})\b", _page_colour, svg)


def _page_colour(found: re.Match[str]) -> str:
    """A grey stands as far between ink and paper as in the file; others are those of the style
    sheet, where it has them.
    """
    code = found[0].upper()
    red, green, blue = (int(code[at : at + 2], 16) for at in (1, 3, 5))
    if not red == green == blue:
        return f"var(--c{COLOURS.index(code)})" if code in COLOURS else code
    return f"color-mix(in srgb, var(--ink) {100 - round(red / 2.55)}%, var(--paper))"


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
