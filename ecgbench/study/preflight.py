"""Checks before a run: inputs that are missing, and changes that its folder does not allow."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pandas as pd

from ecgbench import datasets, metrics, models
from ecgbench.cards.cell import EITHER, RANDOM
from ecgbench.cards.plan import Folders, Plan, Request, plan_of
from ecgbench.core.division import OFFICIAL
from ecgbench.core.keys import grouped
from ecgbench.core.provenance import command
from ecgbench.core.text import enumerated, quoted
from ecgbench.data.copy import Copy
from ecgbench.data.prepare import seen
from ecgbench.data.select import Selection, only_labelled, selected
from ecgbench.data.source import root_of
from ecgbench.data.splits import demand_enough, divided, splits_of
from ecgbench.errors import (
    BadRecord,
    BadSetting,
    EcgbenchError,
    MissingData,
    MissingRequirements,
)
from ecgbench.study import controls, frozen, lent
from ecgbench.study.plan import check
from ecgbench.study.plan_file import as_values, parse
from ecgbench.study.scores import demand_labels
from ecgbench.study.store import Store, free
from ecgbench.weights.chosen import of as weights_of

MAY_GROW = ("models", "tasks", "leads", "seeds", "weights", "policy", "name")
"""Keys that a later command may change; weights only of other models."""


def demand(request: Request, folders: Folders, data: bool = True, typed: str = "") -> None:
    """EcgbenchError for what a checked study lacks. data: whether its datasets must be here. typed:
    its command line; "": that of this process.
    """
    _demand_frozen(request, folders.out)
    demand_writable(folders.out)
    if lent.read(folders.out):
        raise BadSetting(f"--out {folders.out} holds what others measured; choose another folder")
    demand_inputs(request, folders, data)
    plan = plan_of(request)
    _demand_divisible(plan, folders)
    try:
        whole = Store(folders.out).join(plan)
    except BadSetting as error:
        raise BadSetting(f"{error}: {command(free(folders.out), typed)}") from None
    _demand_labels(whole)


def _demand_labels(plan: Plan) -> None:
    """BadSetting where a metric of a plan cannot read the labels of one of its tasks."""
    known = datasets.tasks()
    for metric in filter(metrics.ROOM.known, plan.scoring.metrics):
        for task in dict.fromkeys(cell.task for cell in plan.cells):
            if task in known:
                dataset, _, of = known[task]
                demand_labels(metric, of, datasets.codes(dataset))


def demand_writable(out: Path) -> None:
    """BadSetting for a run folder that is a file or cannot be written."""
    there = next(p for p in (out, *out.absolute().parents) if p.exists())
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return
    which = "" if there == out else f"cannot be made, for {there} "
    why = "cannot be written" if there.is_dir() else "is a file"
    raise BadSetting(
        f"--out {out} {which}{why}; choose another folder, for example "
        f"--out {quoted(free(Path(out.name)))}"
    )


def locate(model: str, weights: str) -> str:
    """Why weights are not available on this machine, or "". A file that is no release of its
    authors is read into the network, before any data are.

    Left to the model's first job: a model that cannot be imported, and a plug-in's own released
    weights.
    """
    try:
        chosen = weights_of(model, weights)
    except BadSetting:
        return ""
    if chosen.kind in (RANDOM, EITHER):
        return ""
    try:
        if chosen.card.parameters != 0 and (chosen.kind == "card" or models.ROOM.built_in(model)):
            chosen.located()
        if chosen.kind == "file":
            from ecgbench.evaluate.network import build  # torch: a second or two

            with models.ROOM.calling(model):
                build(model, weights)
    except EcgbenchError as error:
        return str(error)
    return ""


def random_instead(request: Request) -> Iterator[str]:
    """A line for the models that get random weights, as `released_or_random` asks, since their
    released ones are not here.
    """
    names = []
    for name, word in request.weights_of().items():
        with suppress(EcgbenchError):  # the first job of the model says what is wrong
            chosen = weights_of(name, word)
            if chosen.kind == EITHER and chosen.card.weights and chosen.settled().kind == RANDOM:
                names.append(name)
    if names:
        yield (
            f"RANDOM WEIGHTS for {enumerated(names)}, whose released ones are not on this machine; "
            f"ecgbench models fetch {' '.join(names)} (--weights released stops without them)"
        )


def demand_inputs(request: Request, folders: Folders, data: bool = True) -> None:
    """BadSetting where a checked study lacks one thing, MissingRequirements where it lacks
    more: weights of its models, and (`data`) its datasets.
    """
    lines = [text for own in request.weights_of().items() if (text := locate(*own))]
    tasks = datasets.tasks()
    for name in dict.fromkeys(tasks[t][0] for t in request.tasks) if data else ():
        try:
            root_of(name, datasets.get(name).CARD, folders.data)
        except MissingData as error:
            lines.append(str(error))
    if len(lines) == 1:
        raise BadSetting(lines[0])
    if lines:
        raise MissingRequirements(f"{len(lines)} things that this run needs are not here:", *lines)


def _demand_frozen(request: Request, run: Path) -> None:
    """BadSetting where a plan is frozen in a run folder and a checked request has other settings
    than it: cells may be added, on the same terms.
    """
    kept = frozen.read(run)
    if kept is None:
        return
    frozen.demand_intact(kept, run)
    fixed = check(parse(kept.plan.plan, f"{run}/{frozen.FILE}").request())
    wanted, known = as_values(request), as_values(fixed)
    other = f"run: ecgbench run --out {quoted(run)}, or choose another folder"
    for name in (k for k in wanted if k not in MAY_GROW and wanted[k] != known[k]):
        raise BadSetting(
            f"{name} = {wanted[name]}: the plan frozen in {run} has {known[name]}; models, tasks "
            f"and leads may be added to it, nothing else changed; {other}"
        )
    mine, theirs = request.weights_of(), fixed.weights_of()
    for model in (m for m in mine if theirs.get(m, mine[m]) != mine[m]):
        raise BadSetting(
            f"--weights {model}={mine[model]}: the plan frozen in {run} has {theirs[model]}; "
            f"{other}"
        )


def _demand_divisible(plan: Plan, folders: Folders) -> None:
    """BadSetting where a dataset of the plan cannot be divided as it asks; datasets that are not
    here are not looked at.
    """
    if not plan.division:
        return
    for copy, own, index in _seen(plan, folders):
        if plan.division.cross is not None:
            named = [copy.task(task) for task in own]
            demand_enough(copy, named, index, plan.division)


def demand_labelled(request: Request, folders: Folders, wanted: Sequence[str]) -> None:
    """BadSetting where one of the `wanted` controls needs the labels of more patients than there
    are, in a dataset that is here.
    """
    known = (controls.labelled(controls.names(one, request.training)[0]) for one in wanted)
    numbers = [few[0] for few in known if few]
    plan = plan_of(request)
    for copy, _, index in _seen(plan, folders) if numbers else ():
        for fold in dict.fromkeys(fit.fold for fit in plan.fits):
            if fold != OFFICIAL:
                dealt = divided(copy, index, fold)
                index = index.assign(split=splits_of(dealt, fold))
            only_labelled(index, copy.name, max(numbers), draw=0)


def _seen(plan: Plan, folders: Folders) -> Iterator[tuple[Copy, list[str], pd.DataFrame]]:
    """Of each dataset of a plan that is here: its copy, its tasks in the plan, and the rows that
    are used, as far as is known before it is prepared.
    """
    wanted, tasks = dict.fromkeys(c.task for c in plan.cells), datasets.tasks()
    for name, own in grouped(wanted, lambda task: tasks[task][0]).items():
        with suppress(MissingData, BadRecord):  # preparing says what is wrong
            copy = seen(name, folders.data, folders.prepared, plan.division)
            index = copy.published[copy.published["record"].isin(selected(copy, plan.limit))]
            if len(copy.index) and not set(index["record"]) - set(copy.index["record"]):
                index = Selection(copy, plan.limit, plan.exclude).index
            yield copy, own, index
