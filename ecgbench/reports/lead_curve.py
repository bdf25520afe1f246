"""The lead curve: macro AUROC against the number of measured leads, one panel per task, one line per model and policy.

Random leads (one subset per record) form the curve; named sets (I, II, I+II) are separate hollow markers beside their
number of leads and never part of it. The x axis is logarithmic: most of what is lost is lost between one lead and three.
lead_curve.csv holds exactly the numbers drawn, as fractions.
"""

import io
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ecgbench.files import put
from ecgbench.reports import _facts, _form
from ecgbench.reports._form import Fact
from ecgbench.results.study import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = ("task", "model", "policy", "weights", "leads", "n_leads", "named", "macro_auroc", "low", "high")
"""Columns of lead_curve.csv; every row is also a row of main_table.csv. `named`: drawn as a hollow marker off the curve."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")
"""Distinct under the common colour-vision deficiencies (Okabe and Ito 2008, Color Universal Design; yellow replaced by grey)."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

_STYLE: dict[Any, Any] = {
    "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": "#e3e3e3", "grid.linewidth": 0.7,
    "axes.edgecolor": "#555555", "axes.titlesize": 10, "axes.titleweight": "bold", "axes.titlelocation": "left", "axes.axisbelow": True,
    "legend.frameon": False, "svg.hashsalt": "ecgbench", "svg.fonttype": "path", "text.parse_math": False,
}  # fmt: skip
_LONGEST = 60
"""Characters of a title or a name that the figure shows."""
_GAP = 0.045
"""Distance between neighbouring lines at one number of leads, in doublings of the number of leads."""


def facts(study: Study) -> dict[str, Any]:
    """`series` (label, random), `panels` (task, title, synthetic, points), `rows` (the CSV), `left_out` (sentences), `about`."""
    heads, tasks = _facts.columns(study), _facts.tasks(study)
    index = {(head["model"], head["policy"]): i for i, head in enumerate(heads)}
    rows = []
    for row in _facts.main_rows(study):
        number, named = _facts.leads_of(row["leads"])
        point = {name: row[name] for name in COLUMNS if name in row} | {"n_leads": number, "named": named}
        if row["status"] == "ok":
            rows.append(point | {"series": index[row["model"], row["policy"]]})
    panels = [task | {"points": [row for row in rows if row["task"] == task["task"]]} for task in tasks]
    limits = [f"{data['title']}: {data['limit']} records only (--limit)." for data in study.datasets if data["limit"] is not None]
    return {"series": heads, "panels": panels, "rows": rows, "left_out": _left_out(study), "about": limits}


def _left_out(study: Study) -> list[str]:
    """`LAEF at 1, 2, PTB-XL Super (failed)`; the task is said where there are several."""
    labels = {(head["model"], head["policy"]): head["label"] for head in _facts.columns(study)}
    titles = {task["task"]: task["title"] for task in _facts.tasks(study)}
    said = []
    for gap in _facts.gaps(study):
        where = f", {titles[gap['task']]}" if len(titles) > 1 else ""
        said.append(f"{labels[gap['model'], gap['policy']]} at {', '.join(gap['leads'])}{where} ({gap['word']})")
    return said


def draw(facts: dict[str, Any], folder: Path) -> list[Path]:
    """Write lead_curve.png, .svg and .csv; returns their paths."""
    with _figure(facts) as figure:
        png, svg = _bytes(figure, "png"), _bytes(figure, "svg")
    made: dict[str, str | bytes] = {"png": png, "svg": svg, "csv": csv_text(facts)}
    return [put(folder / f"lead_curve.{kind}", content) for kind, content in made.items()]


def csv_text(facts: Fact) -> str:
    """lead_curve.csv."""
    return _form.table_text(COLUMNS, facts["rows"])


def svg_text(facts: Fact) -> str:
    """The figure as an `<svg>` element, to stand inside a page."""
    with _figure(facts) as figure:
        text = _bytes(figure, "svg").decode()
    return text[text.index("<svg") :]


def caption(facts: Fact) -> str:
    """What the figure shows, and what it leaves out."""
    named = any(row["named"] for row in facts["rows"])
    drawn = any(not row["named"] and row["n_leads"] < 12 for row in facts["rows"])
    words = [("Filled markers: leads" if named else "Leads") + " drawn at random for each record."] if drawn else []
    words += ["Hollow markers: the named leads in every record."] if named else []
    words += ["Bars: 95 % intervals over patients."] if facts["rows"] else []
    words += facts["about"]
    if facts["left_out"]:
        shown = facts["left_out"][:6]
        more = len(facts["left_out"]) - len(shown)
        words.append("Left out: " + "; ".join(shown) + (f"; and {more} more, see main_table.csv" if more else "") + ".")
    return " ".join(words)


@contextmanager
def _figure(facts: Fact) -> "Iterator[Figure]":
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # a user's matplotlibrc must not change a published figure
        matplotlib.rcParams.update(_STYLE)
        panels = facts["panels"]
        across = 1 if len(panels) < 2 else 2 if len(panels) <= 4 else 3
        down = max(1, math.ceil(len(panels) / across))
        size = (7.4, 4.6) if across == 1 else (9.6, 2.9 * down + 1.1)
        figure = Figure(figsize=size, layout="constrained", facecolor="white")
        axes = figure.subplots(down, across, squeeze=False).ravel().tolist()
        for ax, panel in zip(axes, panels):
            _panel(ax, panel, across)
        for ax in axes[len(panels) :]:
            ax.set_visible(False)
        _words(figure, axes, facts, across)
        yield figure


def _words(figure: "Figure", axes: "Sequence[Axes]", facts: Fact, across: int) -> None:
    import textwrap

    figure.supylabel("Macro AUROC × 100", fontsize=9)
    words = textwrap.fill(_form.shortened(caption(facts), 20 * _LONGEST), 108 if across == 1 else 140)
    figure.supxlabel(words, fontsize=7.5, color="#444444", x=0.01, ha="left")
    drawn = {row["series"] for row in facts["rows"]}
    handles = [_handle(i, series) for i, series in enumerate(facts["series"]) if i in drawn]
    if handles:
        widest = max(len(handle.get_label()) for handle in handles)
        fit = max(1, (92 if across == 1 else 120) // (widest + 8))
        figure.legend(handles=handles, loc="outside upper left", ncols=min(len(handles), fit), handlelength=2.4)


def _handle(at: int, series: Fact) -> Any:
    from matplotlib.lines import Line2D

    label = _form.shortened(series["label"], _LONGEST) + (" (random weights)" if series["random"] else "")
    label = f" {label}" if label.startswith("_") else label  # matplotlib leaves such a label out of the legend
    return Line2D([], [], label=label, markersize=6, **_look(at))


def _look(at: int) -> dict[str, Any]:
    cycle = at // len(COLOURS)
    return {"color": COLOURS[at % len(COLOURS)], "marker": MARKERS[(at + cycle) % len(MARKERS)], "linestyle": ("-", "--", ":")[cycle % 3]}


def _panel(ax: "Axes", panel: Fact, room: int) -> None:
    counts = sorted({point["n_leads"] for point in panel["points"]})
    spots = _spots(panel["points"])
    drawn = sorted({point["series"] for point in panel["points"]})
    for place, at in enumerate(drawn):
        shift = (place - (len(drawn) - 1) / 2) * min(_GAP, 0.12 / len(drawn))
        mine = [point for point in panel["points"] if point["series"] == at]
        curve = sorted((point for point in mine if not point["named"]), key=lambda point: point["n_leads"])
        _draw(ax, [(point["n_leads"] * 2**shift, point) for point in curve], _look(at))
        _draw(ax, [(spots[point["leads"]] * 2**shift, point) for point in mine if point["named"]], _look(at), hollow=True)
    for leads, x in spots.items():
        _name(ax, leads, x, [point for point in panel["points"] if point["leads"] == leads], upright=len(spots) > 4 or room > 1)
    _axes(ax, counts, max([*counts, *spots.values()], default=12))
    ax.set_title(_form.shortened(panel["title"], _LONGEST))
    if not panel["points"]:
        ax.set(xticks=[], yticks=[])
        ax.text(0.5, 0.5, "no number yet", transform=ax.transAxes, ha="center", color="#777777")


def _name(ax: "Axes", leads: str, x: float, points: Sequence[Fact], upright: bool) -> None:
    from matplotlib.patheffects import withStroke

    top = max(100 * max(point["high"] or 0, point["macro_auroc"]) for point in points)
    halo = [withStroke(linewidth=2.5, foreground="white")]
    turned = 90 if upright and "+" in leads else 0
    ax.annotate(
        leads,
        (x, top),
        (0, 3),
        textcoords="offset points",
        ha="center",
        va="bottom",
        rotation=turned,
        fontsize=7,
        path_effects=halo,
        zorder=4,
    )


def _spots(points: Sequence[Fact]) -> dict[str, float]:
    """Where each named set stands: right of its number of leads, short of the next number, in the order asked."""
    counts = sorted({point["n_leads"] for point in points})
    named = list(dict.fromkeys((point["n_leads"], point["leads"]) for point in points if point["named"]))
    spots: dict[str, float] = {}
    for number in counts:
        sets = [leads for of, leads in named if of == number]
        following = next((count for count in counts if count > number), 2 * number)
        step = min(0.2, 0.8 * math.log2(following / number) / (len(sets) + 1))
        spots |= {leads: number * 2 ** (step * (i + 1)) for i, leads in enumerate(sets)}
    return spots


def _draw(ax: "Axes", points: Sequence[tuple[float, Fact]], look: Fact, hollow: bool = False) -> None:
    points = [(x, point) for x, point in points if point["macro_auroc"] is not None]  # no label has both values: no score
    # Each bar is drawn from its own ends, not as lengths around the estimate: an estimate may lie outside its interval.
    bars = [(x, 100 * point["low"], 100 * point["high"]) for x, point in points if None not in (point["low"], point["high"])]
    for x, low, high in bars:
        ax.plot([x, x], [low, high], color=look["color"], linewidth=1.3, solid_capstyle="butt", alpha=0.75)
    extra = {"linestyle": "none", "markerfacecolor": "white", "markersize": 5} if hollow else {"linewidth": 1.6, "markersize": 6}
    ax.plot([x for x, _ in points], [100 * point["macro_auroc"] for _, point in points], **({**look} | extra), zorder=3)


def _axes(ax: "Axes", counts: Sequence[int], right: float) -> None:
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    ax.set_xscale("log", base=2)
    ticks = list(counts) or [12]
    shown = [n for n in ticks if len(ticks) <= 6 or n in (1, 2, 3, 4, 6, 8, 12)]
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_major_formatter(FixedFormatter([str(n) if n in shown else "" for n in ticks]))
    ax.xaxis.set_minor_locator(NullLocator())
    margin = 2**0.25 if len(ticks) > 1 else 2
    ax.set_xlim(min(ticks) / margin, max(right * 2**0.18, max(ticks) * margin))
    ax.set_xlabel("measured leads")
    ax.margins(y=0.12)
    low, high = ax.get_ylim()
    ax.set_ylim(max(low, 0), min(high, 102))
    if low < 50 < high:
        ax.axhline(50, color="#999999", linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        where = ("axes fraction", "data")
        ax.annotate("chance", (1, 50), (3, 0), xycoords=where, textcoords="offset points", va="center", fontsize=7, color="#777777")


def _bytes(figure: "Figure", kind: str) -> bytes:
    out = io.BytesIO()
    empty = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}[kind]
    figure.savefig(out, format=kind, dpi=160, metadata=empty)
    return out.getvalue()
