"""Pre-training: its outcome, recipe, data, codebooks, curve and times beside the paper's, finished
or not.
"""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ecgbench.core.text import duration, enumerated
from ecgbench.reports import (
    Code,
    Column,
    Facts,
    Figure,
    Notes,
    Numbers,
    Part,
    ReportCard,
    Section,
    Table,
    Text,
    handle,
    look,
    points,
)
from ecgbench.reports._figure import COLOURS
from ecgbench.reports._section import Opening, Tile
from ecgbench.results.pretraining import Pretraining, Stage, entropy_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Sheet

CARD = ReportCard(
    title="Pre-training",
    summary="recipe, data, codebooks, curve and times of a pre-training, finished or not",
    reads="pretraining",
    order=10,
)
MOST = 1000
"""Points of one line; of more steps, the extremes of equal parts are drawn."""
_LATER = "Known when both stages are finished."
_LEFT_OUT = {
    "id": "PTB-XL's validation or test folds under another name",
    "patient": "of a patient of a validation or test split",
    "signal": "with the samples of a validation or test recording",
}
_WORDS = {
    "datasets": "Corpora",
    "task": "Development task",
    "descriptor": "Descriptor of stage 1",
    "codes": "Codes of stage 1",
    "refined": "Codes of stage 2",
    "block": "Stage 2 clusters nodes of block",
    "init": "Stage 2 starts from",
    "probe_records": "Training recordings of a probe",
    "windows": "Windows for entropy and cosine",
    "kept": "Recordings in memory as",
    "adamw": "Decoupled weight decay (AdamW)",
    "batch": "Recordings per step",
    "micro": "Recordings per pass",
    "edge_drop": "Edges within leads left out",
    "lr": "Learning rate",
    "probe_every": "Steps between kept encoders",
    "ratio": "Masked share of the nodes of a lead",
}
"""Settings whose names do not explain themselves."""
_STAR: dict[str, Any] = {"color": "#333333", "linewidth": 1.1, "linestyle": ":", "zorder": 2}
_KNOWN: dict[str, Any] = {"color": "#D55E00", "linewidth": 1.2, "linestyle": "--", "zorder": 2}


def sections(source: Pretraining) -> list[Section]:
    """One section for each question that a reader of the weights has."""
    figures = {
        "Training dynamics": _dynamics(source),
        "Loss and accuracy": _curve(source),
        "Sizes of codebooks": _elbow(source),
    }
    return [
        Section(name="outcome", parts=[_outcome(source)]),
        Section(name="recipe", title="Recipe", parts=_recipe(source)),
        Section(name="data", title="Data", parts=[Facts(_data(source))]),
        Section(name="selection", title="Selection", parts=[_selection(source)]),
        *(
            Section(name=figure.name, title=title, parts=[figure])
            for title, figure in figures.items()
            if figure is not None
        ),
        Section(name="phases", title="Time", parts=[_times(source)]),
        Section(name="made_with", title="Made with", parts=[_made_with(source)]),
    ]


def _outcome(source: Pretraining) -> Opening:
    """The probe of the encoder that each stage selects."""
    probed = [(stage, stage.selected) for stage in source.stages if stage.selected]
    mark = " (synthetic)" if source.warning else ""
    sentence = "This pre-training has kept no encoder yet."
    if probed:
        task, scores = source.recipe["task"], [points(chosen["score"]) for _, chosen in probed]
        state = "Not finished: so far" if source.open else "The pre-training is finished:"
        before = f", after {scores[0]} in {probed[0][0].name}" if len(probed) > 1 else ""
        sentence = (
            f"{state} the encoder of {probed[-1][0].name} reads {task} with macro AUROC "
            f"{scores[-1]}{before}{mark}."
        )
    tiles = [
        Tile(
            value=points(chosen["score"]),
            interval="",
            words=f"probe of {stage.name} at t*, step {chosen['step']:,}{mark}",
        )
        for stage, chosen in probed
    ]
    if (records := source.corpora.get("records")) is not None:
        tiles.append(Tile(value=f"{records:,}", interval="", words=f"recordings to train on{mark}"))
    about = (
        f"A probe: macro AUROC × 100 of a linear head on frozen features, {source.compared_on}. "
        f"{source.star}. A probe chooses the encoder: it has no interval and is no test score."
    )
    draw = partial(_probes, [stage for stage, _ in probed], mark)
    figure = Figure(name="probes", draw=draw) if probed else None
    return Opening(sentence=sentence, about=about, tiles=tiles, figure=figure, more="dynamics")


def _probes(stages: Sequence[Stage], mark: str, sheet: "Sheet") -> list[Any]:
    """The probes of the encoders that each stage kept, with its best."""
    ax = sheet.subplots()
    for at, stage in enumerate(stages):
        _, steps, scores, chosen = _kept(stage)
        ax.plot(steps, scores, **look(at))
        best = chosen["step"], 100 * chosen["score"]
        ax.annotate("t*", best, (0, 6), textcoords="offset points", ha="center")
    ax.margins(y=0.2)
    ax.set(xlabel="step", ylabel="macro AUROC × 100", title=f"Probe of the kept encoders{mark}")
    return [handle(stage.name, at) for at, stage in enumerate(stages)]


def _kept(stage: Stage) -> tuple[list[dict[str, Any]], list[int], list[float], dict[str, Any]]:
    """Of a stage with kept encoders: these, their steps, their probes x 100, the selected one."""
    assert stage.selected is not None
    encoders = stage.checkpoints
    scores = [100 * encoder["score"] for encoder in encoders]
    return encoders, [encoder["step"] for encoder in encoders], scores, stage.selected


def _recipe(source: Pretraining) -> list[Part]:
    recipe = source.recipe
    first, second = recipe["stages"]
    columns = [
        Column("setting", "Setting"),
        Column("first", "Stage 1", "number"),
        Column("second", "Stage 2", "number"),
    ]
    rows = [
        {"setting": _word(key), "first": _value(first[key]), "second": _value(second[key])}
        for key in first
    ]
    facts = {_word(key): _value(value) for key, value in recipe.items() if key != "stages"}
    return [Facts(facts), Table(name="recipe", columns=columns, rows=rows, formats=("html",))]


def _word(key: str) -> str:
    return _WORDS.get(key, key.replace("_", " ").capitalize())


def _value(value: Any) -> Any:
    if isinstance(value, dict):
        return ", ".join(f"{key} {of}" for key, of in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if value is None or isinstance(value, bool):
        return {None: "all", True: "yes", False: "no"}[value]
    return Code(value) if isinstance(value, str) and re.fullmatch("[0-9a-f]{40,}", value) else value


def _data(source: Pretraining) -> Mapping[str, Any]:
    corpora, split = source.corpora, source.finished.get("development", {})
    gone = [f"{n:,} {_LEFT_OUT.get(why, why)}" for why, n in corpora.get("left_out", {}).items()]
    used = development = "--"
    if split:
        used = (
            f"{corpora['records']:,} to train on; {corpora['too_short']:,} too short for a window"
        )
        development = (
            f"{split['task']}: {split['train']:,} training and {split['validation']:,} validation "
            "recordings"
        )
    return {
        "Recordings": used,
        "Left out": "; ".join(gone) or "none",
        "Development": development,
        "Digest of the corpus": Code(corpora.get("corpus", "--")),
        **{f"Prepared {name}": Code(sha) for name, sha in corpora.get("datasets", {}).items()},
    }


def _selection(source: Pretraining) -> Table:
    """The encoder that each stage selects."""
    rows = [
        {
            "stage": stage.name,
            "step": stage.selected["step"],
            "probe": stage.selected["score"],
            "best": stage.best,
            "encoders": len(stage.checkpoints),
            "encoder": stage.selected["encoder"],
            "task": source.recipe["task"],
            "data": source.data,
        }
        for stage in source.stages
        if stage.selected
    ]
    columns = [
        Column("stage", "Stage"),
        Column("step", "t*", "number", "{:,}".format),
        Column("probe", "Probe at t*", "number", partial(points, digits=2)),
        Column("best", "Best probe", "number", partial(points, digits=2)),
        Column("encoders", "Encoders", "number", "{:,}".format),
        Column("encoder", "Encoder of t*", "number"),
    ]
    return Table(
        name="opening",
        columns=columns,
        rows=[row | {"encoder": Code(f"{row['encoder'][:16]}…")} for row in rows],
        notes=[f"{source.star}. Probe: on {source.compared_on}."],
        numbers=_numbers(rows, "the probes that the page opens with"),
        formats=("csv", "html"),
    )


def _numbers(rows: list[dict[str, Any]], summary: str) -> Numbers:
    return Numbers(columns=list(rows[0]) if rows else (), rows=rows, summary=summary)


def _times(source: Pretraining) -> Part:
    """What each phase took, here and in the paper."""
    if not source.phases:
        return Notes([_LATER])
    names = (
        *("phase", "seconds", "records", "device"),
        *("projected_records", "projected_seconds", "paper_seconds"),
    )
    rows = [{key: row[key] for key in names} | {"data": source.data} for row in source.phases]
    devices = dict.fromkeys(row["device"] for row in rows)
    probing = sum(stage["probing_seconds"] for stage in source.finished["stages"].values())
    notes = [
        f"Here: {'; '.join(devices)}. Data: {source.data}.",
        "Projected: the paper's amount of work on this device, at the seconds per recording "
        "measured here: extraction and clustering meet each ECG once, training meets a recording "
        "in each step. What does not grow with recordings (starting, compiling) is projected too: "
        "from few recordings the projection is far too long.",
        "Clustering fits all codebooks of the elbow curves at once, reading included. Not in the "
        f"table: keeping and measuring encoders ({duration(probing)}).",
        "Paper: its own round figures, a month as 30 days, on an NVIDIA DGX A100 of 8 GPUs; how "
        "many of them a phase took it does not say.",
    ]
    return Table(
        name="phases",
        caption=f"Time of a pre-training of LAEF by recipe {source.recipe['name']}.",
        columns=(
            Column("phase", "Phase"),
            Column("seconds", "Here", "number", duration),
            Column("records", "Recordings", "number", "{:,}".format),
            Column("projected_seconds", "Projected", "number", duration),
            Column("projected_records", "for recordings", "number", "{:,}".format),
            Column("paper_seconds", "Paper", "number", duration),
        ),
        rows=rows,
        notes=[*notes, *([source.warning] if source.warning else [])],
        numbers=_numbers(rows, "one row per phase, in seconds"),
    )


def _made_with(source: Pretraining) -> Part:
    known = source.finished.get("made_with", {})
    facts = {
        _word(key): _value(value)
        for key, value in known.items()
        if key != "dirty" and value is not None
    }
    if known.get("dirty") and "Commit" in facts:
        facts["Commit"] = [facts["Commit"], " with uncommitted changes"]
    return Facts(facts) if facts else Text(_LATER, "fine")


def _about(source: Pretraining, caption: str) -> str:
    return f"{caption} Data: {source.data}.{' Not finished.' if source.open else ''}"


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


def _layer(block: int) -> str:
    return f"block {block}" if block else "embedder"


def _dynamics(source: Pretraining) -> Figure | None:
    """Entropy, cosine and probe of the kept encoders; None where there are none."""
    stages = [stage for stage in source.stages if stage.checkpoints]
    if not stages:
        return None
    rows = [
        {
            "stage": stage.name,
            "step": encoder["step"],
            "layer": _layer(layer["block"]),
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
        f"features of twelve leads, {source.compared_on}. Band: within {source.near} of the best. "
        f"{source.star}."
    )
    return Figure(
        name="dynamics",
        draw=partial(_draw_dynamics, stages),
        caption=_about(source, caption),
        size=(10.4, 2.7 * len(stages) + 1.1),
        numbers=_numbers(rows, "one row per kept encoder and layer"),
    )


def _draw_dynamics(stages: Sequence[Stage], sheet: "Sheet") -> list[Any]:
    grid = sheet.subplots(len(stages), 3, squeeze=False)
    for (spread, cosine, probe), stage in zip(grid, stages):
        encoders, steps, _, _ = _kept(stage)
        size = 4.5 if len(steps) <= 40 else 0
        for at in range(len(encoders[0]["layers"])):
            style = look(at) | {"linewidth": 1.5, "markersize": size}
            hollow = style | {"linestyle": "--", "markerfacecolor": "white"}
            for ax, key, how in (
                (spread, "entropy", style),
                (cosine, "intra", style),
                (cosine, "inter", hollow),
            ):
                ax.plot(steps, [encoder["layers"][at][key] for encoder in encoders], **how)
        _draw_probe(probe, stage, size)
        _axis(spread, stage, "spectral entropy", "normalised entropy", steps[-1])
        _axis(cosine, stage, "edge-wise cosine", "mean cosine", steps[-1])
        _axis(probe, stage, "linear probe", "macro AUROC × 100", steps[-1])
    # so that stages compare; differences of the probe are too small for it
    for column in grid.T[:2]:
        low, high = zip(*(ax.get_ylim() for ax in column))
        for ax in column:
            ax.set_ylim(min(low), max(high))
    count = len(stages[0].checkpoints[0]["layers"])
    return [
        *(handle(_layer(at), at, markersize=5, linewidth=1.4) for at in range(count)),
        handle("within leads (intra)"),
        handle("between leads (inter)", linestyle="--"),
        handle("t*, selected", **_STAR),
    ]


def _draw_probe(ax: Any, stage: Stage, size: float) -> None:
    """Probes of the kept encoders, the band of those as good as the best, and t*."""
    _, steps, scores, chosen = _kept(stage)
    best, step = 100 * stage.best, chosen["step"]
    floor = [best - 100 * near for near in stage.margins]
    ax.fill_between(steps, floor, best, color="#E69F00", alpha=0.3, linewidth=0, zorder=1)
    ax.plot(steps, scores, "o-", color="#000000", linewidth=1.5, markersize=size)
    ring: dict[str, Any] = {"markersize": 9, "fillstyle": "none", "mew": 1.6, "zorder": 4}
    ax.plot(step, 100 * chosen["score"], "o", color="#D55E00", **ring)
    side, shift = ("left", 5) if step < 0.55 * steps[-1] else ("right", -5)
    where: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
    ax.annotate(f"t* = {step:,}", (step, 0.04), (shift, 0), ha=side, fontsize=8.5, **where)


def _curve(source: Pretraining) -> Figure | None:
    """Loss and accuracy of each step; None before the first."""
    stages = [stage for stage in source.stages if stage.curve]
    if not stages:
        return None
    windows = dict.fromkeys(_window(len(stage.curve)) for stage in stages)
    means = [str(window) for window in windows if window > 1]
    caption = (
        "Loss: mean cross-entropy of the masked nodes, summed over codebooks. Accuracy: their "
        "share whose likeliest code is the target."
        f"{f' Running means over {enumerated(means)} steps.' if means else ''} Frequencies alone: "
        f"entropy of the codes ({source.compared_on}), the loss of who knows how often codes occur "
        "and nothing of the ECG."
    )
    return Figure(
        name="curve",
        draw=partial(_draw_curve, stages),
        caption=_about(source, caption),
        size=(9.6 if len(stages) > 1 else 7.2, 5.4),
    )


def _draw_curve(stages: Sequence[Stage], sheet: "Sheet") -> list[Any]:
    for (loss, accuracy), stage in zip(sheet.subplots(2, len(stages), squeeze=False).T, stages):
        steps, books = stage.curve, stage.books.get("codebooks")
        _draw_steps(loss, np.array([row["loss"] for row in steps]), COLOURS[0])
        for at, size in enumerate(stage.sizes):
            right = np.array([100 * row[f"accuracy_{at + 1}"] for row in steps])
            _draw_steps(accuracy, right, COLOURS[at % 8], f"{size} codes")
        # The accuracy has no line of chance: naming the commonest code is right more often than
        # 1/C, how often is not kept.
        if books:
            loss.axhline(sum(entropy_of(books[str(size)]) for size in stage.sizes), **_KNOWN)
        _axis(loss, stage, "loss", "loss (nats)", len(steps))
        _axis(accuracy, stage, "masked accuracy", "masked accuracy, %", len(steps))
        accuracy.set_ylim(0, None)
        accuracy.legend(fontsize=8)
    return [
        handle("each step", color=COLOURS[0], alpha=0.35),
        handle("running mean", color=COLOURS[0]),
        handle("frequencies alone", **_KNOWN),
        handle("t*, selected", **_STAR),
    ]


def _window(steps: int) -> int:
    """Steps of a running mean."""
    return max(1, min(500, steps // 40))


def _draw_steps(ax: Any, values: np.ndarray, colour: str, label: str = "") -> None:
    """Values of steps 1, 2, ..., and their running mean in the middle of its steps."""
    window, steps = _window(len(values)), np.arange(1, len(values) + 1)
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
    ends = {int(part[pick(values[part])]) for part in parts for pick in (np.argmin, np.argmax)}
    shown = sorted(ends)
    return steps[shown], values[shown]


def _elbow(source: Pretraining) -> Figure | None:
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
        "Perplexity: exp of the entropy of the codes. Rings: the sizes that are used."
    )
    return Figure(
        name="elbow",
        draw=partial(_draw_elbow, stages),
        caption=_about(source, caption),
        size=(8.4, 2.7 * len(stages) + 1.1),
        numbers=_numbers(rows, "one row per codebook that was tried"),
    )


def _draw_elbow(stages: Sequence[Stage], sheet: "Sheet") -> list[Any]:
    black, used, spread = {"color": "#000000", "marker": "o"}, look(0), look(1)
    for (inertia, usage), stage in zip(sheet.subplots(len(stages), 2, squeeze=False), stages):
        sizes = [row["codes"] for row in stage.elbow]
        lines = ((inertia, "inertia", black), (usage, "used", used), (usage, "perplexity", spread))
        for ax, key, style in lines:
            values = [row[key] for row in stage.elbow]
            ax.plot(sizes, values, linewidth=1.5, markersize=5, zorder=3, **style)
            rings = [(size, v) for size, v in zip(sizes, values) if size in stage.sizes]
            if rings:
                ring: dict[str, Any] = {"markersize": 11, "fillstyle": "none", "mew": 1.3}
                ax.plot(*zip(*rings), "o", color=style["color"], **ring)
        usage.plot([0, sizes[-1]], [0, sizes[-1]], color="#999999", linewidth=1, linestyle=":")
        _axis(inertia, stage, "inertia", "inertia per vector")
        _axis(usage, stage, "codes met and perplexity", "codes")
        for ax in (inertia, usage):
            ax.set(xlim=(0, 1.05 * sizes[-1]), ylim=(0, None))
    return [
        handle("codes met", **used),
        handle("perplexity", **spread),
        handle("all codes, equally often", linestyle=":", color="#999999"),
    ]
