"""Figures of a pre-training: dynamics of its kept encoders, its curve, and the sizes of its
codebooks.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ecgbench.core.text import enumerated
from ecgbench.reports import Figure, Numbers, handle, look
from ecgbench.reports._figure import COLOURS
from ecgbench.results.pretraining import Pretraining, Stage, entropy_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Sheet

MOST = 1000
"""Points of one line; of more steps, the extremes of equal parts are drawn."""
_STAR: dict[str, Any] = {"color": "#333333", "linewidth": 1.1, "linestyle": ":", "zorder": 2}
_KNOWN: dict[str, Any] = {"color": "#D55E00", "linewidth": 1.2, "linestyle": "--", "zorder": 2}


def layer_name(block: int) -> str:
    """A layer of an encoder in words: 0 is the embedder."""
    return f"block {block}" if block else "embedder"


def dynamics(source: Pretraining, numbers: Numbers) -> Figure | None:
    """Entropy, cosine and probe of the kept encoders; None where there are none."""
    stages = [stage for stage in source.stages if stage.checkpoints]
    caption = (
        "Spectral entropy of the nodes of kept encoders: 0 one direction, 1 all directions alike. "
        "Cosine: mean over different nodes that share an edge. Linear probe: frozen, mean-pooled "
        f"features of twelve leads, {source.compared_on}. Band: within {source.near} of the best. "
        f"{source.star}."
    )
    size = (10.4, 2.7 * len(stages) + 1.1)
    return (
        _figure("dynamics", source, partial(_dynamics, stages), caption, size, numbers)
        if stages
        else None
    )


def curve(source: Pretraining) -> Figure | None:
    """Loss and accuracy of each step; None before the first."""
    stages = [stage for stage in source.stages if stage.curve]
    windows = list(
        dict.fromkeys(
            f"{_window(len(s.curve))}" for s in source.stages if _window(len(s.curve)) > 1
        )
    )
    mean = f" Running means over {enumerated(windows)} steps." if windows else ""
    caption = (
        "Loss: mean cross-entropy of the masked nodes, summed over codebooks. Accuracy: their "
        f"share whose likeliest code is the target.{mean} Frequencies alone: entropy of the codes "
        f"({source.compared_on}), the loss of who knows how often codes occur and nothing of the "
        "ECG."
    )
    size = (9.6 if len(stages) > 1 else 7.2, 5.4)
    return (
        _figure("curve", source, partial(_curve, stages), caption, size, None) if stages else None
    )


def elbow(source: Pretraining, numbers: Numbers) -> Figure | None:
    """Inertia and use of codebooks by their size; None where none was tried."""
    stages = [stage for stage in source.stages if stage.elbow]
    caption = (
        "Codebooks fitted on the corpus, measured on held-out vectors scaled to length 1 "
        f"({source.compared_on}). Inertia: mean squared distance to the nearest centre. "
        "Perplexity: exp of the entropy of the codes. Rings: the sizes that are used."
    )
    size = (8.4, 2.7 * len(stages) + 1.1)
    return (
        _figure("elbow", source, partial(_elbow, stages), caption, size, numbers)
        if stages
        else None
    )


def _figure(
    name: str,
    source: Pretraining,
    draw: Any,
    caption: str,
    size: tuple[float, float],
    numbers: Numbers | None,
) -> Figure:
    caption = f"{caption} Data: {source.data}.{' Not finished.' if source.open else ''}"
    return Figure(name=name, draw=draw, caption=caption, size=size, numbers=numbers)


def _axis(ax: Any, stage: Stage, texts: tuple[str, str], last: int | None = None) -> None:
    """Title and unit of a panel; with `last`, an axis of steps that shows t*."""
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    ax.set(
        title=f"{stage.name.capitalize()}: {texts[0]}",
        ylabel=texts[1],
        xlabel="step" if last else "codes",
    )
    ax.margins(y=0.12)
    for axis in (ax.xaxis, *([ax.yaxis] if texts[1] == "codes" else [])):
        axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axis.set_major_locator(MaxNLocator(5, integer=True))
    if last:
        ax.set_xlim(0, 1.04 * last)
    if last and stage.selected:
        ax.axvline(stage.selected["step"], **_STAR)


def _mark(probe: Any, step: int, last: int) -> None:
    """The selected step, written beside its line."""
    side, shift = ("left", 5) if step < 0.55 * last else ("right", -5)
    where: dict[str, Any] = {
        "xycoords": ("data", "axes fraction"),
        "textcoords": "offset points",
        "fontsize": 8.5,
    }
    probe.annotate(f"t* = {step:,}", (step, 0.04), (shift, 0), ha=side, **where)


def _dynamics(stages: Sequence[Stage], sheet: "Sheet") -> list[Any]:
    grid = sheet.subplots(len(stages), 3, squeeze=False)
    for (spread, cosine, probe), stage in zip(grid, stages):
        encoders, best, chosen = stage.checkpoints, 100 * stage.best, stage.selected
        assert chosen is not None
        steps, size = [encoder["step"] for encoder in encoders], 4.5 if len(encoders) <= 40 else 0
        for at in range(len(encoders[0]["layers"])):
            of = {
                key: [encoder["layers"][at][key] for encoder in encoders]
                for key in ("entropy", "intra", "inter")
            }
            style = look(at) | {"linewidth": 1.5, "markersize": size}
            spread.plot(steps, of["entropy"], **style)
            cosine.plot(steps, of["intra"], **style)
            cosine.plot(
                steps, of["inter"], **style | {"linestyle": "--", "markerfacecolor": "white"}
            )
        floor = [best - 100 * near for near in stage.margins]
        probe.fill_between(steps, floor, best, color="#E69F00", alpha=0.3, linewidth=0, zorder=1)
        probe.plot(
            steps,
            [100 * encoder["score"] for encoder in encoders],
            "o-",
            color="#000000",
            linewidth=1.5,
            markersize=size,
        )
        probe.plot(
            chosen["step"],
            100 * chosen["score"],
            "o",
            color="#D55E00",
            markersize=9,
            fillstyle="none",
            mew=1.6,
            zorder=4,
        )
        _mark(probe, chosen["step"], steps[-1])
        _axis(spread, stage, ("spectral entropy", "normalised entropy"), steps[-1])
        _axis(cosine, stage, ("edge-wise cosine", "mean cosine"), steps[-1])
        _axis(probe, stage, ("linear probe", "macro AUROC × 100"), steps[-1])
    # so that stages compare; differences of the probe are too small for it
    for column in grid.T[:2]:
        low, high = zip(*(ax.get_ylim() for ax in column))
        for ax in column:
            ax.set_ylim(min(low), max(high))
    count = len(stages[0].checkpoints[0]["layers"])
    layers = [handle(layer_name(at), at, markersize=5, linewidth=1.4) for at in range(count)]
    return [
        *layers,
        handle("within leads (intra)"),
        handle("between leads (inter)", linestyle="--"),
        handle("t*, selected", **_STAR),
    ]


def _curve(stages: Sequence[Stage], sheet: "Sheet") -> list[Any]:
    for (loss, accuracy), stage in zip(sheet.subplots(2, len(stages), squeeze=False).T, stages):
        steps, books = stage.curve, stage.books.get("codebooks")
        _run(loss, np.array([row["loss"] for row in steps]), COLOURS[0])
        for at, size in enumerate(stage.sizes):
            right = np.array([100 * row[f"accuracy_{at + 1}"] for row in steps])
            _run(accuracy, right, COLOURS[at % 8], f"{size} codes")
        # The accuracy has no line of chance: naming the commonest code is right more often than
        # 1/C, how often is not kept.
        if books:
            loss.axhline(sum(entropy_of(books[str(size)]) for size in stage.sizes), **_KNOWN)
        _axis(loss, stage, ("loss", "loss (nats)"), len(steps))
        _axis(accuracy, stage, ("masked accuracy", "masked accuracy, %"), len(steps))
        accuracy.set_ylim(0, None)
        accuracy.legend(fontsize=8)
    blue: dict[str, Any] = {"color": COLOURS[0]}
    means = (
        [handle("running mean", **blue)]
        if any(_window(len(stage.curve)) > 1 for stage in stages)
        else []
    )
    single = handle("each step", **blue, alpha=0.35 if means else 1)
    return [single, *means, handle("frequencies alone", **_KNOWN), handle("t*, selected", **_STAR)]


def _window(steps: int) -> int:
    """Steps of a running mean."""
    return max(1, min(500, steps // 40))


def _run(ax: Any, values: np.ndarray, colour: str, label: str = "") -> None:
    """Values of steps 1, 2, ..., and their running mean in the middle of its steps."""
    window, steps = _window(len(values)), np.arange(1, len(values) + 1)
    mean = np.convolve(values, np.full(window, 1 / window), "valid")
    ax.plot(*_thinned(steps, values), color=colour, linewidth=0.8, alpha=0.35)
    ax.plot(
        *_thinned(steps[(window - 1) // 2 :][: len(mean)], mean),
        color=colour,
        linewidth=1.6,
        zorder=3,
        label=label,
    )


def _thinned(steps: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All points, or of too many the least and the greatest of equal parts, so that no peak is
    hidden.
    """
    if len(steps) <= MOST:
        return steps, values
    parts = np.array_split(np.arange(len(steps)), MOST // 2)
    shown = sorted(
        {int(part[pick(values[part])]) for part in parts for pick in (np.argmin, np.argmax)}
    )
    return steps[shown], values[shown]


def _elbow(stages: Sequence[Stage], sheet: "Sheet") -> list[Any]:
    black, used, spread = {"color": "#000000", "marker": "o"}, look(0), look(1)
    for (inertia, usage), stage in zip(sheet.subplots(len(stages), 2, squeeze=False), stages):
        sizes = [row["codes"] for row in stage.elbow]
        lines = ((inertia, "inertia", black), (usage, "used", used), (usage, "perplexity", spread))
        for ax, key, style in lines:
            ax.plot(
                sizes,
                [row[key] for row in stage.elbow],
                linewidth=1.5,
                markersize=5,
                zorder=3,
                **style,
            )
            rings = [(row["codes"], row[key]) for row in stage.elbow if row["codes"] in stage.sizes]
            ax.plot(
                *zip(*rings), "o", color=style["color"], markersize=11, fillstyle="none", mew=1.3
            ) if rings else None
        usage.plot([0, sizes[-1]], [0, sizes[-1]], color="#999999", linewidth=1, linestyle=":")
        _axis(inertia, stage, ("inertia", "inertia per vector"))
        _axis(usage, stage, ("codes met and perplexity", "codes"))
        inertia.set(xlim=(0, 1.05 * sizes[-1]), ylim=(0, None))
        usage.set(xlim=(0, 1.05 * sizes[-1]), ylim=(0, None))
    return [
        handle("codes met", **used),
        handle("perplexity", **spread),
        handle("all codes, equally often", linestyle=":", color="#999999"),
    ]
