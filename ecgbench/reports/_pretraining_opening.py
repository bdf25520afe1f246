"""What the page of a pre-training opens with: its outcome, the probe of the encoder that each stage
selects.
"""

from collections.abc import Iterator, Sequence

from ecgbench.reports._chart import Axis, Dot, Panel, Series, ticks
from ecgbench.reports._section import Numbers, Row
from ecgbench.reports._shown import Opening, Tile
from ecgbench.reports._text import points
from ecgbench.results.pretraining import Pretraining, Stage

COLUMNS = ("stage", "step", "probe", "best", "task", "data")
_ROOM = 0.2
"""Of the range of the probes, above and below them."""


def opening(source: Pretraining) -> tuple[Opening, Numbers]:
    """Of a pre-training, finished or not, and the numbers it shows."""
    probed = [stage for stage in source.stages if stage.selected]
    shown = Opening(
        sentence=_sentence(source, probed),
        about=(
            "A probe: macro AUROC × 100 of a linear head on frozen features, "
            f"{source.compared_on}. {source.star}. A probe chooses the "
            "encoder: it has no interval and is no test score."
        ),
        tiles=list(_tiles(source, probed)),
        panel=_panel(source, probed) if probed else None,
        figure="dynamics",
    )
    rows = [_row(source, stage) for stage in probed]
    return shown, Numbers(columns=COLUMNS, rows=rows, summary="the probes that the page opens with")


def _sentence(source: Pretraining, probed: Sequence[Stage]) -> str:
    if not probed:
        return "This pre-training has kept no encoder yet."
    last, task = probed[-1], source.recipe["task"]
    outcome = f"the encoder of {last.name} reads {task} with macro AUROC {_probe(last)}"
    before = f", after {_probe(probed[0])} in {probed[0].name}" if len(probed) > 1 else ""
    made = f" (data: {source.data})" if source.warning else ""
    if source.open:
        return f"Not finished: so far {outcome}{before}{made}."
    return f"The pre-training is finished: {outcome}{before}{made}."


def _tiles(source: Pretraining, probed: Sequence[Stage]) -> Iterator[Tile]:
    mark = " (synthetic)" if source.warning else ""
    for stage in probed:
        assert stage.selected is not None
        words = f"probe of {stage.name} at t*, step {stage.selected['step']:,}{mark}"
        yield Tile(value=_probe(stage), interval="", words=words)
    if (records := source.corpora.get("records")) is not None:
        yield Tile(value=f"{records:,}", interval="", words=f"recordings to train on{mark}")


def _probe(stage: Stage) -> str:
    assert stage.selected is not None
    return points(stage.selected["score"])


def _row(source: Pretraining, stage: Stage) -> Row:
    assert stage.selected is not None
    return {
        "stage": stage.name,
        "step": stage.selected["step"],
        "probe": stage.selected["score"],
        "best": stage.best,
        "task": source.recipe["task"],
        "data": source.data,
    }


def _panel(source: Pretraining, probed: Sequence[Stage]) -> Panel:
    kept = [encoder for stage in probed for encoder in stage.checkpoints]
    scores = [100 * encoder["score"] for encoder in kept]
    last = max(encoder["step"] for encoder in kept)
    room = _ROOM * (max(scores) - min(scores)) or 1.0
    low, high = max(0.0, min(scores) - room), min(102.0, max(scores) + room)
    title = f"Probe of the kept encoders{' (synthetic)' if source.warning else ''}"
    return Panel(
        title=title,
        x=Axis(label="step", low=0, high=1.04 * last, ticks=ticks(0, last, 5)),
        y=Axis(label="macro AUROC × 100", low=low, high=high, ticks=ticks(low, high)),
        series=[_series(at, stage) for at, stage in enumerate(probed)],
        said=" ".join(f"{stage.name.capitalize()}: {_probe(stage)} at t*." for stage in probed),
        names=[
            (stage.selected["step"], 100 * stage.selected["score"], "t*")
            for stage in probed
            if stage.selected
        ],
    )


def _series(at: int, stage: Stage) -> Series:
    return Series(
        at=at,
        label=stage.name,
        dots=[
            Dot(
                x=encoder["step"],
                y=100 * encoder["score"],
                said=f"{stage.name}, step {encoder['step']:,}: {points(encoder['score'])}",
            )
            for encoder in stage.checkpoints
        ],
    )
