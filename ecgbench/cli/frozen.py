"""What `ecgbench run` does where a plan is frozen: it runs that, or more on the same terms."""

from pathlib import Path

import typer

from ecgbench.core.cells import Request
from ecgbench.core.text import quoted
from ecgbench.errors import BadSetting
from ecgbench.study import frozen
from ecgbench.study.plan_file import PlanFile, as_values, parse

MAY_GROW = ("models", "tasks", "leads", "seeds", "weights", "policy", "name")
"""Keys that another command may change; weights only of other models."""


def plan(out: Path | None) -> PlanFile | None:
    """The plan that is frozen in a run folder, which is said; None where there is none."""
    kept = frozen.read(out) if out else None
    if kept is None:
        return None
    _demand_intact(kept, f"{out}")
    typer.echo(
        f"the plan that was frozen on {kept.plan.date} (hash {kept.stated[:16]}) is run", err=True
    )
    return parse(kept.plan.plan, f"{out}/{frozen.FILE}")


def demand_same(checked: Request, out: Path) -> None:
    """BadSetting where a plan is frozen in `out` and a checked study has other settings than it:
    cells may be added, on the same terms.
    """
    from ecgbench.study import plan as planning

    kept = frozen.read(out)
    if kept is None:
        return
    _demand_intact(kept, f"{out}")
    fixed = planning.check(parse(kept.plan.plan, f"{out}/{frozen.FILE}").request())
    ours, theirs = as_values(checked), as_values(fixed)
    for key in (k for k in ours if k not in MAY_GROW and ours[k] != theirs[k]):
        raise BadSetting(
            f"{key} = {ours[key]}: the plan frozen in {out} has {theirs[key]}; models, tasks and "
            f"leads may be added to it, nothing else changed; run: ecgbench run --out "
            f"{quoted(out)}, or choose another folder"
        )
    both = set(checked.models) & set(fixed.models)
    mine, frozen_ = (request.weights_of() for request in (checked, fixed))
    for model in sorted(m for m in both if mine[m] != frozen_[m]):
        raise BadSetting(
            f"--weights {model}={mine[model]}: the plan frozen in {out} has {frozen_[model]}; run: "
            f"ecgbench run --out {quoted(out)}, or choose another folder"
        )


def _demand_intact(kept: frozen.Kept, out: str) -> None:
    if not kept.intact:
        raise BadSetting(
            f"{out}/{frozen.FILE} was changed after it was frozen: it states the hash "
            f"{kept.stated[:16]}, and holds {kept.plan.hash[:16]}; restore the file, or choose "
            f"another folder"
        )
