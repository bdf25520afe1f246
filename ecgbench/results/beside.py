"""The cells of a run that others measured, as they stand beside those of a run of this machine."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import TYPE_CHECKING, Any

import numpy as np

from ecgbench.core.keys import grouped
from ecgbench.core.text import enumerated, quoted
from ecgbench.errors import BadSetting
from ecgbench.study.stored import Result

if TYPE_CHECKING:
    from ecgbench.results.reader import Reader


@dataclass(frozen=True, kw_only=True)
class Beside:
    """What a reader takes in."""

    results: dict[str, Result]
    """Identity -> cell; its model has another name where the run has one of that name."""
    by: dict[str, str]
    """Identity -> who measured it, with its protocol where that is another."""
    models: dict[str, dict[str, Any]]
    """sha256 -> facts of a model."""


def taken(own: "Reader", other: "Reader") -> Beside:
    """The cells of an export on the tasks of a run; BadSetting where it is no export, where no task
    is in both, and where test records or labels differ.
    """
    where = other.run.path
    if not other.lent:
        raise BadSetting(
            f"--with {where}: that is a run of this machine; ecgbench runs merge joins two, and "
            f"ecgbench runs export {quoted(where)} --to FOLDER makes one that stands beside others"
        )
    mine = grouped(own.results.values(), lambda r: (r.cell.task, r.cell.fit.fold))
    theirs = grouped(other.results.values(), lambda r: (r.cell.task, r.cell.fit.fold))
    if not (shared := [at for at in theirs if at in mine]):
        tasks = (enumerated(list(dict.fromkeys(" ".join(at) for at in t))) for t in (theirs, mine))
        raise BadSetting("--with {}: it holds {}, and the run {}".format(where, *tasks))
    for at in shared:
        _demand_alike(mine[at], theirs[at], str(where))
    names = {r.cell.fit.model for r in own.results.values()}
    protocols = {r.plan.training.protocol for r in (own, other)}
    who = str(other.lent["by"])
    who += f", protocol {other.plan.training.protocol}" if len(protocols) > 1 else ""
    results, models, called = {}, {}, dict[str, str]()
    for at in shared:
        of_run = mine[at][0].document
        for r in theirs[at]:
            model, document = r.cell.fit.model, r.document
            name = called.setdefault(model, _free(model, where.resolve().name, names))
            cell = replace(r.cell, fit=replace(r.cell.fit, model=name))
            facts = f"{document['model']} of {where}"
            models[facts] = {**other.verifier.models[document["model"]], "name": name}
            same = {name: of_run[name] for name in ("dataset", "dataset_name")}
            told = {**document, **same, "model": facts}
            results[cell.identity] = replace(r, cell=cell, told=told)
    return Beside(results=results, by=dict.fromkeys(results, who), models=models)


def _free(model: str, folder: str, taken: set[str]) -> str:
    """A name for a model of others, which no model of the run or of earlier ones has."""
    others = (f"{model}@{folder}-{number}" for number in count(2))
    return next(n for n in chain((model, f"{model}@{folder}"), others) if n not in taken)


def _demand_alike(mine: Iterable[Result], theirs: Iterable[Result], where: str) -> None:
    """BadSetting where cells of one task and fold are of other test records, or other labels."""
    own = [*mine]
    by_leads = {r.cell.setting.typed: r for r in reversed(own)}
    for other in theirs:
        one = by_leads.get(other.cell.setting.typed, own[0])
        a, b, task = one.predicted(), other.predicted(), one.cell.task
        if sorted(a.records) != sorted(b.records):
            common = len({*a.records} & {*b.records})
            raise BadSetting(
                f"--with {where}: other test records of {task}: {len(b.records):,} there, "
                f"{len(a.records):,} in the run, {common:,} in both; its own report: ecgbench "
                f"report {quoted(where)}"
            )
        order = [np.argsort(np.asarray(each.records, dtype=str)) for each in (a, b)]
        if a.labels != b.labels or (a.target[order[0]] != b.target[order[1]]).any():
            raise BadSetting(f"--with {where}: the labels of its test records of {task} are others")
