"""From the options of `ecgbench run` that say what is studied to a request."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

import typer

from ecgbench.cli.options import integers, words
from ecgbench.core.cells import Request
from ecgbench.data.division import Division
from ecgbench.ecg.draw import parse_leads

T = TypeVar("T")


def request(given: Mapping[str, Any], tasks: tuple[str, ...] | None) -> Request:
    """What options ask for, not checked yet. given: option -> value as `ecgbench run` takes it,
    None where it was not typed. tasks: its tasks, with those that --records brought.
    """
    base, groups = _base(given["suite"], tasks), given["lr_groups"]
    leads, folds = given["leads"], given["folds"]
    return _changed(
        base,
        models=words(given["models"]),
        tasks=tasks,
        leads=None if leads is None else parse_leads(leads),
        seeds=given["seeds"],
        fit_seeds=integers("--fit-seeds", given["fit_seeds"]),
        weights=given["weights"],
        policies=words(given["policy"]),
        contract=given["contract"],
        limit=given["limit"],
        exclude=words(given["exclude"]),
        fix=given["fix"] or None,
        division=None if folds is None else Division.parse(folds),
        training=_changed(
            base.training,
            **{name: given[name] for name in ("protocol", "epochs", "lr", "batch", "precision")},
            leads=given["train_leads"],
            lr_groups=None if groups is None else groups == "on",
            micro_batch=given["micro_batch"],
        ),
        scoring=_changed(
            base.scoring,
            **{name: given[name] for name in ("draw", "rows", "bootstrap", "absent")},
            metrics=words(given["metrics"]),
        ),
    )


def _changed(base: T, **given: Any) -> T:
    """`base` with the options that were given."""
    return replace(base, **{name: v for name, v in given.items() if v is not None})  # type: ignore[type-var]


def _base(suite: str | None, tasks: tuple[str, ...] | None) -> Request:
    from ecgbench import suites
    from ecgbench.study import plan as planning

    if suite is None and tasks is not None:
        return Request(models=("laef", "stmem"), tasks=(), leads=parse_leads("1,2,12"))
    plan: Request = suites.get(suite or "demo").PLAN
    here, missing = planning.covered(plan)
    if missing and tasks is None:
        count = f"{len(here.tasks)} of its {len(plan.tasks)} tasks"
        typer.echo(
            f"suite {suite}: {count} can be run; no dataset here has {', '.join(missing)}", err=True
        )
    return here
