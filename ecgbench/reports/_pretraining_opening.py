"""What the page of a pre-training opens with: its outcome, the probe of the encoder that each stage
selects.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ecgbench.reports._figure import handle, look
from ecgbench.reports._section import Figure, Numbers, Opening, Row, Tile
from ecgbench.reports._text import points
from ecgbench.results.pretraining import Pretraining, Stage

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Sheet

COLUMNS = ("stage", "step", "probe", "best", "task", "data")


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
        figure=Figure(name="probes", draw=partial(_draw, probed, bool(source.warning)))
        if probed
        else None,
        more="dynamics",
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


def _draw(probed: Sequence[Stage], synthetic: bool, sheet: "Sheet") -> list[Any]:
    """The probes of the encoders that each stage kept, with its best."""
    ax = sheet.subplots()
    for at, stage in enumerate(probed):
        assert stage.selected is not None
        scores = [100 * encoder["score"] for encoder in stage.checkpoints]
        ax.plot([encoder["step"] for encoder in stage.checkpoints], scores, **look(at))
        best = stage.selected["step"], 100 * stage.selected["score"]
        ax.annotate("t*", best, (0, 6), textcoords="offset points", ha="center")
    ax.margins(y=0.2)
    ax.set(xlabel="step", ylabel="macro AUROC × 100")
    ax.set_title(f"Probe of the kept encoders{' (synthetic)' if synthetic else ''}")
    return [handle(stage.name, at) for at, stage in enumerate(probed)]
