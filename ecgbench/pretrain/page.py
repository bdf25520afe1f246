"""Pre-training: its outcome, recipe, data, codebooks, curve and times beside the paper's, finished
or not.
"""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ecgbench import reports as r
from ecgbench.core.text import duration
from ecgbench.pretrain import stored
from ecgbench.pretrain.stored import NEAR, OWN, Pretraining, Stage

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Sheet

CARD = r.ReportCard(
    title="Pre-training",
    summary="recipe, data, codebooks, curve and times of a pre-training, finished or not",
    reads="pretraining",
    order=10,
)
MOST = 1000
"""Points of one line; of more steps, the extremes of equal parts are drawn."""
_LATER = r.Notes(["Known when both stages are finished."])
_STAR: dict[str, Any] = {"color": "#333333", "linewidth": 1.1, "linestyle": ":", "zorder": 2}
_KNOWN: dict[str, Any] = {"color": "#D55E00", "linewidth": 1.2, "linestyle": "--", "zorder": 2}


def rows(source: Pretraining) -> pd.DataFrame:
    """The encoder that each stage selects, and its probe."""
    made = [
        {
            "stage": stage.name,
            "step": chosen["step"],
            "probe": chosen["score"],
            "best": stage.best,
            "encoders": len(stage.checkpoints),
            "encoder": chosen["encoder"],
            "task": source.recipe["task"],
            "data": source.data,
        }
        for stage in source.stages
        if (chosen := stage.selected)
    ]
    return pd.DataFrame(made)


def sections(source: Pretraining, rows: pd.DataFrame) -> list[r.Section]:
    """One section for each question that a reader of the weights has."""
    parts: dict[str, tuple[str, Sequence[r.Part | None]]] = {
        "recipe": ("Recipe", _recipe(source)),
        "data": ("Data", [facts_of(source.corpora | source.finished.get("development", {}))]),
        "dynamics": ("Training dynamics", [_dynamics(source)]),
        "curve": ("Loss and accuracy", [_curve(source)]),
        "elbow": ("Sizes of codebooks", [_elbow(source)]),
        "phases": ("Time", [_times(source)]),
        "made_with": ("Made with", [facts_of(source.finished.get("made_with", {}))]),
    }
    made = [r.Section(name="outcome", parts=[_outcome(source), _selection(rows)])]
    for name, (title, shown) in parts.items():
        if there := [part for part in shown if part is not None]:
            made.append(r.Section(name=name, title=title, parts=there))
    return made


def _outcome(source: Pretraining) -> r.Opening:
    """The probe of the encoder that each stage selects."""
    mark = " (synthetic)" if source.warning else ""
    found = [(stage, chosen) for stage in source.stages if (chosen := stage.selected)]
    head, rest = "This pre-training has kept no encoder yet.", ""
    if found:
        state = "Not finished: so far" if source.open else "The pre-training is finished:"
        head = f"{state} the encoder of stage {len(found)} reads {source.recipe['task']}{mark}: "
        rest = "; ".join(
            f"macro AUROC {r.points(chosen['score'])} by {stage.name}, step {chosen['step']:,}"
            for stage, chosen in found
        )
        rest += "."
    about = (
        f"A probe: macro AUROC × 100 of a linear head on frozen features, {source.compared_on}. "
        f"{source.star}. A probe chooses the encoder: it has no interval and is no test score."
    )
    return r.Opening(lines=[(head, rest)], about=about)


def _recipe(source: Pretraining) -> list[r.Part]:
    """Settings under the names that they have in a recipe."""
    first, second = source.recipe["stages"]
    table = r.Table(
        name="recipe",
        columns=[
            r.Column("setting", "Setting"),
            r.Column("first", "Stage 1"),
            r.Column("second", "Stage 2"),
        ],
        rows=[
            {"setting": key, "first": _value(first[key]), "second": _value(second[key])}
            for key in first
        ],
        formats=("html",),
    )
    return [facts_of({key: of for key, of in source.recipe.items() if key != "stages"}), table]


def facts_of(known: Mapping[str, Any]) -> r.Part:
    """Under the names of the files."""
    facts = {key: _value(value) for key, value in known.items() if value is not None}
    return r.Facts(facts) if facts else _LATER


def _value(value: Any) -> Any:
    if isinstance(value, dict):
        return ", ".join(f"{key} {of}" for key, of in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if value is None or isinstance(value, bool):
        return {None: "all", True: "yes", False: "no"}[value]
    digest = isinstance(value, str) and re.fullmatch("[0-9a-f]{40,}", value)
    return r.Code(value) if digest else value


def _selection(rows: pd.DataFrame) -> r.Table:
    """The encoder that each stage selects."""
    summary = "the probes that the page opens with"
    return r.Table(name="opening", rows=rows, summary=summary)


def _times(source: Pretraining) -> r.Part:
    """What each phase took, here and in the paper."""
    if not source.phases:
        return _LATER
    names = (
        *("phase", "seconds", "records", "device"),
        *("projected_records", "projected_seconds", "paper_seconds"),
    )
    rows = [{key: row[key] for key in names} | {"data": source.data} for row in source.phases]
    probing = sum(stage["probing_seconds"] for stage in source.finished["stages"].values())
    notes = [
        f"Here: {'; '.join(dict.fromkeys(row['device'] for row in rows))}. Data: {source.data}. "
        f"Not in the table: keeping and measuring encoders ({duration(probing)}).",
        "Projected: the paper's amount of work on this device, at the seconds per recording "
        "measured here; from few recordings it is far too long.",
        "Paper: its own round figures, a month as 30 days, on an NVIDIA DGX A100 of 8 GPUs.",
    ]
    return r.Table(
        name="phases",
        caption=f"Time of a pre-training of LAEF by recipe {source.recipe['name']}.",
        columns=(
            r.Column("phase", "Phase"),
            r.Column("seconds", "Here", "number", duration),
            r.Column("records", "Recordings", "number", "{:,}".format),
            r.Column("projected_seconds", "Projected", "number", duration),
            r.Column("projected_records", "for recordings", "number", "{:,}".format),
            r.Column("paper_seconds", "Paper", "number", duration),
        ),
        rows=pd.DataFrame(rows),
        notes=[*notes, *([source.warning] if source.warning else [])],
        summary="one row per phase, in seconds",
    )


def _figure(source: Pretraining, name: str, draw: Any, caption: str, **more: Any) -> r.Figure:
    caption = f"{caption} Data: {source.data}.{' Not finished.' if source.open else ''}"
    return r.Figure(name=name, draw=draw, caption=caption, **more)


def _axis(ax: Any, stage: Stage, title: str, unit: str, last: int | None = None) -> None:
    """Title and unit of a panel; with `last`, an axis of steps that shows t*."""
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    ax.set(title=f"{stage.name.capitalize()}: {title}", ylabel=unit)
    ax.set_xlabel("step" if last else "codes")
    ax.margins(y=0.12)
    for axis in (ax.xaxis, *([ax.yaxis] if unit == "codes" else [])):
        axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axis.set_major_locator(MaxNLocator(5, integer=True))
    if last:
        ax.set_xlim(0, 1.04 * last)
    if last and stage.selected:
        ax.axvline(stage.selected["step"], **_STAR)


def _dynamics(source: Pretraining) -> r.Figure | None:
    """Entropy, cosine and probe of the kept encoders; None where there are none."""
    stages = [stage for stage in source.stages if stage.checkpoints]
    if not stages:
        return None
    rows = [
        {
            "stage": stage.name,
            "step": encoder["step"],
            "layer": f"block {layer['block']}" if layer["block"] else "embedder",
            **{key: layer[key] for key in ("entropy", "intra", "inter")},
            "macro_auroc": encoder["score"],
            "selected": encoder is stage.selected,
            "data": source.data,
        }
        for stage in stages
        for encoder in stage.checkpoints
        for layer in encoder["layers"]
    ]
    caption = (
        "Spectral entropy of the nodes of kept encoders: 0 one direction, 1 all directions alike. "
        "Cosine: mean over different nodes that share an edge. Linear probe: frozen, mean-pooled "
        f"features of twelve leads, {source.compared_on}. Band: within {NEAR} of the best. "
        f"{source.star}."
    )
    numbers, summary = pd.DataFrame(rows), "one row per kept encoder and layer"
    draw, size = partial(_draw_dynamics, stages, numbers), (10.4, 2.7 * len(stages) + 1.1)
    return _figure(source, "dynamics", draw, caption, size=size, numbers=numbers, summary=summary)


def _draw_dynamics(stages: Sequence[Stage], rows: pd.DataFrame, sheet: "Sheet") -> list[Any]:
    grid = sheet.subplots(len(stages), 3, squeeze=False)
    layers = list(dict.fromkeys(rows["layer"]))
    for (spread, cosine, probe), stage in zip(grid, stages):
        mine = rows[rows["stage"] == stage.name]
        size = 4.5 if len(stage.checkpoints) <= 40 else 0
        for at, layer in enumerate(layers):
            own, style = mine[mine["layer"] == layer], r.look(at) | {"markersize": size}
            hollow = style | {"linestyle": "--", "markerfacecolor": "white"}
            spread.plot(own["step"], own["entropy"], **style)
            cosine.plot(own["step"], own["intra"], **style)
            cosine.plot(own["step"], own["inter"], **hollow)
        last = int(mine["step"].max())
        _draw_probe(probe, stage, size)
        _axis(spread, stage, "spectral entropy", "normalised entropy", last)
        _axis(cosine, stage, "edge-wise cosine", "mean cosine", last)
        _axis(probe, stage, "linear probe", "macro AUROC × 100", last)
    # so that stages compare; differences of the probe are too small for it
    for column in grid.T[:2]:
        low, high = zip(*(ax.get_ylim() for ax in column))
        for ax in column:
            ax.set_ylim(min(low), max(high))
    return [
        *(r.handle(layer, at, markersize=5) for at, layer in enumerate(layers)),
        r.handle("within leads (intra)"),
        r.handle("between leads (inter)", linestyle="--"),
        r.handle("t*, selected", **_STAR),
    ]


def _draw_probe(ax: Any, stage: Stage, size: float) -> None:
    """Probes of the kept encoders, the band of those as good as the best, and t*."""
    assert stage.selected is not None
    best, step = 100 * stage.best, stage.selected["step"]
    steps = [encoder["step"] for encoder in stage.checkpoints]
    floor = [best - 100 * near for near in stage.margins]
    ax.fill_between(steps, floor, best, color="#E69F00", alpha=0.3, linewidth=0, zorder=1)
    scores = [100 * encoder["score"] for encoder in stage.checkpoints]
    ax.plot(steps, scores, "o-", color="#000000", linewidth=1.5, markersize=size)
    side, shift = ("left", 5) if step < 0.55 * steps[-1] else ("right", -5)
    where: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
    ax.annotate(f"t* = {step:,}", (step, 0.04), (shift, 0), ha=side, fontsize=8.5, **where)


def _curve(source: Pretraining) -> r.Figure | None:
    """Loss and accuracy of each step; None before the first."""
    stages = [stage for stage in source.stages if stage.curve]
    if not stages:
        return None
    caption = (
        "Loss: mean cross-entropy of the masked nodes, summed over codebooks. Accuracy: their "
        "share whose likeliest code is the target. Running means over a fortieth of the steps, at "
        f"most 500. Frequencies alone: entropy of the codes ({source.compared_on}), the loss of "
        "who knows how often codes occur and nothing of the ECG."
    )
    size = (9.6 if len(stages) > 1 else 7.2, 5.4)
    return _figure(source, "curve", partial(_draw_curve, stages), caption, size=size)


def _draw_curve(stages: Sequence[Stage], sheet: "Sheet") -> list[Any]:
    for (loss, accuracy), stage in zip(sheet.subplots(2, len(stages), squeeze=False).T, stages):
        steps, books = stage.curve, stage.books.get("codebooks")
        _draw_steps(loss, np.array([row["loss"] for row in steps]), r.COLOURS[0])
        for at, size in enumerate(stage.sizes):
            right = np.array([100 * row[f"accuracy_{at + 1}"] for row in steps])
            _draw_steps(accuracy, right, r.COLOURS[at % 8], f"{size} codes")
        # The accuracy has no line of chance: naming the commonest code is right more often than
        # 1/C, how often is not kept.
        if books:
            loss.axhline(sum(books[str(size)]["entropy"] for size in stage.sizes), **_KNOWN)
        _axis(loss, stage, "loss", "loss (nats)", len(steps))
        _axis(accuracy, stage, "masked accuracy", "masked accuracy, %", len(steps))
        accuracy.set_ylim(0, None)
        accuracy.legend(fontsize=8)
    return [
        r.handle("each step", color=r.COLOURS[0], alpha=0.35),
        r.handle("running mean", color=r.COLOURS[0]),
        r.handle("frequencies alone", **_KNOWN),
        r.handle("t*, selected", **_STAR),
    ]


def _draw_steps(ax: Any, values: np.ndarray, colour: str, label: str = "") -> None:
    """Values of steps 1, 2, ..., and their running mean in the middle of its steps."""
    window = max(1, min(500, len(values) // 40))
    steps = np.arange(1, len(values) + 1)
    mean = np.convolve(values, np.full(window, 1 / window), "valid")
    middle = steps[(window - 1) // 2 :][: len(mean)]
    ax.plot(*_thinned(steps, values), color=colour, linewidth=0.8, alpha=0.35)
    ax.plot(*_thinned(middle, mean), color=colour, linewidth=1.6, zorder=3, label=label)


def _thinned(steps: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All points, or of too many the least and the greatest of equal parts, so that no peak is
    hidden.
    """
    if len(steps) <= MOST:
        return steps, values
    parts = np.array_split(np.arange(len(steps)), MOST // 2)
    shown = sorted({part[pick(values[part])] for part in parts for pick in (np.argmin, np.argmax)})
    return steps[shown], values[shown]


def _elbow(source: Pretraining) -> r.Figure | None:
    """Inertia and use of codebooks by their size; None where none was tried."""
    stages = [stage for stage in source.stages if stage.elbow]
    if not stages:
        return None
    rows = [
        {"stage": stage.name} | row | {"chosen": row["codes"] in stage.sizes, "data": source.data}
        for stage in stages
        for row in stage.elbow
    ]
    caption = (
        "Codebooks fitted on the corpus, measured on vectors scaled to length 1 that took no part "
        f"({source.compared_on}). Inertia: mean squared distance to the nearest centre. "
        "Perplexity: exp of the entropy of the codes."
    )
    numbers, summary = pd.DataFrame(rows), "one row per codebook that was tried"
    draw, size = partial(_draw_elbow, stages, numbers), (8.4, 2.7 * len(stages) + 1.1)
    return _figure(source, "elbow", draw, caption, size=size, numbers=numbers, summary=summary)


def _draw_elbow(stages: Sequence[Stage], rows: pd.DataFrame, sheet: "Sheet") -> list[Any]:
    black, used, spread = {"color": "#000000", "marker": "o"}, r.look(0), r.look(1)
    for (inertia, usage), stage in zip(sheet.subplots(len(stages), 2, squeeze=False), stages):
        mine = rows[rows["stage"] == stage.name]
        last = mine["codes"].max()
        inertia.plot(mine["codes"], mine["inertia"], **black)
        usage.plot(mine["codes"], mine["used"], **used)
        usage.plot(mine["codes"], mine["perplexity"], **spread)
        usage.plot([0, last], [0, last], color="#999999", linewidth=1, linestyle=":")
        _axis(inertia, stage, "inertia", "inertia per vector")
        _axis(usage, stage, "codes met and perplexity", "codes")
        for ax in (inertia, usage):
            ax.set(xlim=(0, 1.05 * last), ylim=(0, None))
            for size in stage.sizes:
                ax.axvline(size, **_KNOWN)
    return [
        r.handle("codes met", **used),
        r.handle("perplexity", **spread),
        r.handle("all codes, equally often", linestyle=":", color="#999999"),
        r.handle("sizes that are used", **_KNOWN),
    ]


def heading_of(title: str, source: Any, *banners: tuple[str, str]) -> r.Heading:
    """The head of the page of a training: its data, and what nobody may overlook."""
    more = (("Synthetic", source.warning), ("Not finished", source.open))
    shown = [*banners, *(each for each in more if each[1])]
    lines = [f"Data: {source.data}"]
    said = [text for _, text in shown]
    return r.Heading(title=title, lines=lines, banners=shown, in_banners=said)


def _heading(source: Pretraining) -> r.Heading:
    recipe = source.recipe.get("name")
    title = f"LAEF, pre-trained by recipe {recipe}" if recipe else "LAEF, in pre-training"
    return heading_of(title, source, ("Own weights", OWN))


KIND = r.Kind(Pretraining, stored.FILES, stored.read, _heading)
