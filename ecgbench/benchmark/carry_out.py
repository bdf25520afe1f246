"""Carries one job out in this process, whatever its kind. Engines call it, most of them in a process of its own."""

import traceback
from typing import Any

from ecgbench import models
from ecgbench.benchmark.events import Emit, Over, Started, Stopped
from ecgbench.benchmark.job import Compute, Job, Look, Measure, enter
from ecgbench.benchmark.reporter import Reporter
from ecgbench.benchmark.work import work
from ecgbench.errors import BadSetting, EcgbenchError
from ecgbench.estimate.probe import measure
from ecgbench.inference import network
from ecgbench.results.store import Store


def carry_out(job: Job, emit: Emit, alone: bool = False) -> None:
    """Do a job and say all that happens in it; what stops the whole run is said too, not raised.

    `alone`: no run has asked for it, so that it says itself in the run folder what is asked for.
    """
    emit(Started(job.id))
    try:
        enter(job.plugins)
        if alone and isinstance(job, Compute):
            Store(job.folders.out).write_plan(job.plan)
        answer = _answer(job, Reporter(job.id, emit))
    except EcgbenchError as error:
        emit(Stopped(job.id, type(error).__name__, str(error)))
    else:
        emit(Over(job.id, answer))


def _answer(job: Job, reporter: Reporter) -> dict[str, Any]:
    if isinstance(job, Look):
        return look(job.model, job.weights, job.contract)
    if isinstance(job, Measure):
        return measure(job)
    assert isinstance(job, Compute)
    work(job, reporter)
    return {}


def look(model: str, weights: str | None, contract: str) -> dict[str, Any]:
    """Import a model and read its card; with `weights`, load them too, so that a mistake is found before hours of work.

    Returns {"policy": the policy of `contract`, or None where the model cannot be imported, which is its own failure}.
    EcgbenchError for a contract that the card does not have and weights that do not match.
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
        except Exception:  # a plug-in's network: its job will tell
            traceback.print_exc()
    return {"policy": card.contract(contract).policy}
