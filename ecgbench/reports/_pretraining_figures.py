"""Figures of the report of a pre-training: dynamics of its kept encoders, its curve, and the sizes of its codebooks."""

import math
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ecgbench.pretraining.selection import MARGIN
from ecgbench.reports import _form, lead_curve
from ecgbench.reports._form import Fact

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 1000
"""Points of one line; of more steps, the extremes of equal parts are drawn."""
_STAR: Fact = {"color": "#333333", "linewidth": 1.1, "linestyle": ":", "zorder": 2}
_KNOWN: Fact = {"color": "#D55E00", "linewidth": 1.2, "linestyle": "--", "zorder": 2}


def layer_name(block: int) -> str:
    """A layer of an encoder in words: 0 is the embedder."""
    return f"block {block}" if block else "embedder"


def caption(found: Fact, name: str) -> str:
    """What a figure shows."""
    split = f"validation split of {found['recipe']['task']}"
    means = list(dict.fromkeys(f"{_window(len(s['curve']))}" for s in found["stages"] if _window(len(s["curve"])) > 1))
    mean = f" Running means over {_form.enumerated(means)} steps." if means else ""
    said = {
        "dynamics": "Spectral entropy of the nodes of kept encoders: 0 one direction, 1 all directions alike. Cosine: mean over different "
        f"nodes that share an edge. Linear probe: frozen, mean-pooled features of twelve leads, {split}. Band: within {100 * MARGIN:g} of "
        "the best; t*: the earliest encoder in it.",
        "curve": "Loss: mean cross-entropy of the masked nodes, summed over codebooks. Accuracy: their share whose likeliest code is the "
        f"target.{mean} Frequencies alone: entropy of the codes ({split}), the loss of who knows how often codes occur and nothing of the "
        "ECG.",
        "elbow": f"Codebooks fitted on the corpus, measured on held-out vectors scaled to length 1 ({split}). Inertia: mean squared "
        "distance to the nearest centre. Perplexity: exp of the entropy of the codes. Rings: the sizes that are used.",
    }  # fmt: skip
    return f"{said[name]} Data: {found['data']}.{' Not finished.' if found['open'] else ''}"


@contextmanager
def figure(found: Fact, name: str) -> "Iterator[Figure]":
    """A figure of FIGURES, of the stages that have something to show in it."""
    import matplotlib
    from matplotlib.figure import Figure

    key, paint = FIGURES[name]
    stages = [stage for stage in found["stages"] if stage[key]]
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # a user's matplotlibrc must not change a published figure
        matplotlib.rcParams.update(lead_curve._STYLE)
        wide = {"dynamics": 10.4, "curve": 9.6 if len(stages) > 1 else 7.2, "elbow": 8.4}[name]
        made = Figure(figsize=(wide, 5.4 if name == "curve" else 2.7 * len(stages) + 1.1), layout="constrained", facecolor="white")
        handles = paint(made, stages)
        words = textwrap.fill(_form.shortened(caption(found, name), 900), int(17 * wide))
        made.supxlabel(words, fontsize=7.5, color="#444444", x=0.01, ha="left")
        made.legend(handles=handles, loc="outside upper left", ncols=len(handles), handlelength=2.4, fontsize=8.5, columnspacing=1.4)
        yield made


def _line(label: str, **look: Any) -> Any:
    from matplotlib.lines import Line2D

    style: dict[str, Any] = {"color": "#666666", "linewidth": 1.4, **look}
    return Line2D([], [], label=label, **style)


def _axis(ax: Any, stage: Fact, words: tuple[str, str], last: int | None = None) -> None:
    """Title and unit of a panel; with `last`, an axis of steps that shows t*."""
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    ax.set(title=f"{stage['name'].capitalize()}: {words[0]}", ylabel=words[1], xlabel="step" if last else "codes")
    ax.margins(y=0.12)
    for axis in (ax.xaxis, *([ax.yaxis] if words[1] == "codes" else [])):
        axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axis.set_major_locator(MaxNLocator(5, integer=True))
    if last:
        ax.set_xlim(0, 1.04 * last)
    if last and stage["selected"]:
        ax.axvline(stage["selected"]["step"], **_STAR)


def _dynamics(figure: "Figure", stages: Sequence[Fact]) -> list[Any]:
    grid = figure.subplots(len(stages), 3, squeeze=False)
    for (spread, cosine, probe), stage in zip(grid, stages):
        kept, best, chosen = stage["checkpoints"], 100 * stage["best"], stage["selected"]
        steps, size = [one["step"] for one in kept], 4.5 if len(kept) <= 40 else 0
        for at in range(len(kept[0]["layers"])):
            of = {key: [one["layers"][at][key] for one in kept] for key in ("entropy", "intra", "inter")}
            look = lead_curve._look(at) | {"linewidth": 1.5, "markersize": size}
            spread.plot(steps, of["entropy"], **look)
            cosine.plot(steps, of["intra"], **look)
            cosine.plot(steps, of["inter"], **look | {"linestyle": "--", "markerfacecolor": "white"})
        probe.axhspan(best - 100 * MARGIN, best, color="#E69F00", alpha=0.3, linewidth=0, zorder=1)
        probe.plot(steps, [100 * one["score"] for one in kept], "o-", color="#000000", linewidth=1.5, markersize=size)
        probe.plot(chosen["step"], 100 * chosen["score"], "o", color="#D55E00", markersize=9, fillstyle="none", mew=1.6, zorder=4)
        side, shift = ("left", 5) if chosen["step"] < 0.55 * steps[-1] else ("right", -5)
        where: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "fontsize": 8.5}
        probe.annotate(f"t* = {chosen['step']:,}", (chosen["step"], 0.04), (shift, 0), ha=side, **where)
        _axis(spread, stage, ("spectral entropy", "normalised entropy"), steps[-1])
        _axis(cosine, stage, ("edge-wise cosine", "mean cosine"), steps[-1])
        _axis(probe, stage, ("linear probe", "macro AUROC × 100"), steps[-1])
    for column in grid.T[:2]:  # so that stages compare; differences of the probe are too small for it
        low, high = zip(*(ax.get_ylim() for ax in column))
        for ax in column:
            ax.set_ylim(min(low), max(high))
    names = [layer_name(at) for at in range(len(stages[0]["checkpoints"][0]["layers"]))]
    layers = [_line(name, **lead_curve._look(at), markersize=5) for at, name in enumerate(names)]
    return [*layers, _line("within leads (intra)"), _line("between leads (inter)", linestyle="--"), _line("t*, selected", **_STAR)]


def _curve(figure: "Figure", stages: Sequence[Fact]) -> list[Any]:
    for (loss, accuracy), stage in zip(figure.subplots(2, len(stages), squeeze=False).T, stages):
        curve, books = stage["curve"], stage["books"].get("codebooks")
        _run(loss, np.array([row["loss"] for row in curve]), lead_curve.COLOURS[0])
        for at, size in enumerate(stage["sizes"]):
            _run(accuracy, np.array([100 * row[f"accuracy_{at + 1}"] for row in curve]), lead_curve.COLOURS[at % 8], f"{size} codes")
        # No line of chance stands at the accuracy: naming the commonest code is right more often than 1/C, how often is not kept.
        if books:
            loss.axhline(sum(math.log(books[str(size)]["perplexity"]) for size in stage["sizes"]), **_KNOWN)
        _axis(loss, stage, ("loss", "loss (nats)"), len(curve))
        _axis(accuracy, stage, ("masked accuracy", "masked accuracy, %"), len(curve))
        accuracy.set_ylim(0, None)
        accuracy.legend(fontsize=8)
    blue: dict[str, Any] = {"color": lead_curve.COLOURS[0]}
    means = [_line("running mean", **blue)] if any(_window(len(stage["curve"])) > 1 for stage in stages) else []
    single = _line("each step", **blue, alpha=0.35 if means else 1)
    return [single, *means, _line("frequencies alone", **_KNOWN), _line("t*, selected", **_STAR)]


def _window(steps: int) -> int:
    """Steps of a running mean."""
    return max(1, min(500, steps // 40))


def _run(ax: Any, values: np.ndarray, colour: str, label: str = "") -> None:
    """Values of steps 1, 2, ..., and their running mean in the middle of its steps."""
    window, steps = _window(len(values)), np.arange(1, len(values) + 1)
    mean = np.convolve(values, np.full(window, 1 / window), "valid")
    ax.plot(*_thinned(steps, values), color=colour, linewidth=0.8, alpha=0.35)
    ax.plot(*_thinned(steps[(window - 1) // 2 :][: len(mean)], mean), color=colour, linewidth=1.6, zorder=3, label=label)


def _thinned(steps: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All points, or of too many the least and the greatest of equal parts, so that no peak is hidden."""
    if len(steps) <= MOST:
        return steps, values
    parts = np.array_split(np.arange(len(steps)), MOST // 2)
    kept = sorted({int(part[pick(values[part])]) for part in parts for pick in (np.argmin, np.argmax)})
    return steps[kept], values[kept]


def _elbow(figure: "Figure", stages: Sequence[Fact]) -> list[Any]:
    black, used, spread = {"color": "#000000", "marker": "o"}, lead_curve._look(0), lead_curve._look(1)
    for (inertia, usage), stage in zip(figure.subplots(len(stages), 2, squeeze=False), stages):
        sizes = [row["codes"] for row in stage["elbow"]]
        for ax, key, look in ((inertia, "inertia", black), (usage, "used", used), (usage, "perplexity", spread)):
            ax.plot(sizes, [row[key] for row in stage["elbow"]], linewidth=1.5, markersize=5, zorder=3, **look)
            rings = [(row["codes"], row[key]) for row in stage["elbow"] if row["codes"] in stage["sizes"]]
            ax.plot(*zip(*rings), "o", color=look["color"], markersize=11, fillstyle="none", mew=1.3) if rings else None
        usage.plot([0, sizes[-1]], [0, sizes[-1]], color="#999999", linewidth=1, linestyle=":")
        _axis(inertia, stage, ("inertia", "inertia per vector"))
        _axis(usage, stage, ("codes met and perplexity", "codes"))
        inertia.set(xlim=(0, 1.05 * sizes[-1]), ylim=(0, None))
        usage.set(xlim=(0, 1.05 * sizes[-1]), ylim=(0, None))
    return [_line("codes met", **used), _line("perplexity", **spread), _line("all codes, equally often", linestyle=":", color="#999999")]


FIGURES = {"dynamics": ("checkpoints", _dynamics), "curve": ("curve", _curve), "elbow": ("elbow", _elbow)}
"""Name -> what of a stage it needs, and its painter."""
