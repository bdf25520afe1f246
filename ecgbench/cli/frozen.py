"""What `ecgbench run` does where a plan is frozen: it runs that, or more on the same terms."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from ecgbench.cli import asked as options
from ecgbench.cli.options import words
from ecgbench.core.cells import Request
from ecgbench.core.text import quoted
from ecgbench.errors import BadSetting, UnknownName
from ecgbench.evaluate import protocols
from ecgbench.study import frozen

PANELS = ("What", "Leads", "Training")
"""Panels of `ecgbench run --help` whose options say what is studied."""
BESIDES = ("controls",)
"""Options there that add to a study and change none of its terms."""
WEIGHTS = "released"
"""Of `--weights`, where nothing is said."""


def asked(context: typer.Context, out: Path | None, tasks: tuple[str, ...] | None) -> Request:
    """The study of the options; where they name none, and one is frozen in `out`, that one."""
    kept = frozen.read(out) if out else None
    if kept is None or _typed(context) or tasks is not None:
        return options.request(context.params, tasks)
    _demand_intact(kept, f"{out}")
    typer.echo(
        f"the plan that was frozen on {kept.plan.date} (hash {kept.stated[:16]}) is run", err=True
    )
    return of(context.command, kept.plan.words)


def of(command: Any, said: Mapping[str, str]) -> Request:
    """The study of words of `ecgbench run` (option -> value), not checked yet; BadSetting,
    UnknownName.
    """
    known = {p.name: p for p in command.params if p.name and _studied(p)}
    arguments = []
    for name, value in said.items():
        if name not in known:
            raise UnknownName("word of [run]", name, sorted(known))
        flag = max(known[name].opts, key=len)
        arguments += [flag] if known[name].is_flag else [f"{flag}={value}"]
    try:
        given = command.make_context("ecgbench run", arguments).params
    except Exception as error:  # typer may have a click of its own: known by its method
        if not hasattr(error, "format_message"):
            raise
        raise BadSetting(f"[run]: {error.format_message().rstrip('.')}") from None
    return options.request(given, words(given["tasks"]))


def demand_same(context: typer.Context, checked: Request, out: Path) -> None:
    """BadSetting where a plan is frozen in `out` and a checked study has other settings than it:
    cells may be added, on the same terms.
    """
    from ecgbench.study import plan as planning

    kept = frozen.read(out)
    if kept is None:
        return
    _demand_intact(kept, f"{out}")
    plan = planning.check(of(context.command, kept.plan.words))
    ours, theirs = _terms(checked), _terms(plan)
    for flag in (f for f in ours if ours[f] != theirs[f]):
        raise BadSetting(
            f"{flag} {ours[flag]}: the plan frozen in {out} has {theirs[flag]}; models, tasks and "
            f"leads may be added to it, nothing else changed; run: ecgbench run --out "
            f"{quoted(out)}, or "
            f"choose another folder"
        )
    both = set(checked.models) & set(plan.models)
    mine, frozen_ = (planning.weights_of(r.weights, r.models) for r in (checked, plan))
    for model in sorted(m for m in both if mine[m] != frozen_[m]):
        raise BadSetting(
            f"--weights {model}={mine[model]}: the plan frozen in {out} has {frozen_[model]}; run: "
            f"ecgbench run --out {quoted(out)}, or choose another folder"
        )


def _terms(study: Request) -> dict[str, str]:
    """What all cells of a study share: option -> value."""
    training, scoring = study.training, study.scoring
    return {
        "--contract": study.contract,
        "--limit": str(study.limit),
        "--exclude": ",".join(study.exclude) or "nothing",
        "--fix": str(study.fix),
        "--folds": str(study.division) or "the datasets' splits",
        "--protocol": training.protocol,
        "--train-leads": training.leads,
        "the training": str(sorted(protocols.facts(training).items())),
        "--draw": scoring.draw,
        "--rows": scoring.rows,
        "--absent": scoring.absent,
        "--bootstrap": scoring.bootstrap,
    }


def _demand_intact(kept: frozen.Kept, out: str) -> None:
    if not kept.intact:
        raise BadSetting(
            f"{out}/{frozen.FILE} was changed after it was frozen: it states the hash "
            f"{kept.stated[:16]}, and holds {kept.plan.hash[:16]}; restore the file, or choose "
            f"another folder"
        )


def _typed(context: typer.Context) -> list[str]:
    """Options on the command line that say what is studied."""
    return [
        name
        for p in context.command.params
        if (name := p.name)
        and _studied(p)
        and getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
    ]


def _studied(parameter: Any) -> bool:
    panel = getattr(parameter, "rich_help_panel", None)
    return panel in PANELS and parameter.name not in BESIDES
