"""Carries one job out in this process, whatever its kind. Engines call it, most of them in a
process of its own.
"""

import traceback
from contextlib import suppress
from typing import Any

from ecgbench import models
from ecgbench.core import aside, provenance
from ecgbench.core.registry import same_directory
from ecgbench.errors import BadSetting, EcgbenchError
from ecgbench.evaluate import network
from ecgbench.study.events import Emit, Note, Over, Started, Stopped
from ecgbench.study.job import Compute, Job, Locate, Look, enter
from ecgbench.study.reporter import Reporter
from ecgbench.study.store import Store
from ecgbench.study.work import work
from ecgbench.weights import shipped
from ecgbench.weights.load import located


def carry_out(job: Job, emit: Emit, alone: bool = False) -> None:
    """Do a job and emit its events. An error that stops the whole run is an event too; it is not
    raised.

    `alone`: the job comes from no run, so it writes plan.json itself.
    """
    emit(Started(job.id))
    provenance.code()  # kept from now on: the checkout may change while the job runs
    with same_directory():
        _carry_out(job, emit, alone)


def _carry_out(job: Job, emit: Emit, alone: bool) -> None:
    try:
        with aside.heard(lambda text: emit(Note(job.id, text))):
            answer = _answer(job, emit, alone)
    except EcgbenchError as error:
        emit(Stopped(job.id, type(error).__name__, str(error)))
    else:
        emit(Over(job.id, answer))


def _answer(job: Job, emit: Emit, alone: bool) -> dict[str, Any]:
    """What a look found."""
    enter(job)
    if alone and isinstance(job, Compute):
        Store(job.folders.out).write_plan(job.plan)
    match job:
        case Look():
            return look(job.model, job.weights, job.contract)
        case Locate():
            return locate(job.model, job.weights)
        case Compute():
            work(job, Reporter(job.id, emit))
    return {}


def locate(model: str, weights: str) -> dict[str, Any]:
    """{"lacks": why weights cannot be had on this machine, or "", "fetch": whether `ecgbench models
    fetch` gets them}.

    Left to `look`: a model that cannot be imported, and a plug-in's own words for its weights.
    """
    with suppress(BadSetting):
        card = models.get(model).CARD
        layout = next((w for w in card.weights if w.name == weights), None)
        if card.parameters and (layout or models.ROOM.built_in(model)):
            try:
                located(weights, card)
            except BadSetting as error:
                fetch = layout is not None and not shipped.comes_along(layout.url)
                return {"lacks": str(error), "fetch": fetch}
    return {"lacks": ""}


def look(model: str, weights: str | None, contract: str) -> dict[str, Any]:
    """Import a model and read its card; with `weights`, load them too, so that a mistake is found
    before hours of work.

    Returns {"policy": that of `contract`}, or None in its place where the model cannot be imported:
    its cells will fail later. EcgbenchError for a contract that the card does not have and weights
    that do not match.
    """
    try:
        card = models.get(model).CARD
    except BadSetting:
        return {"policy": None}
    if weights is not None:
        try:
            network.build(model, weights)
        except EcgbenchError:
            raise
        except Exception:  # a plug-in's network: its cells will fail with the reason
            traceback.print_exc()
    return {"policy": card.contract(contract).policy}
