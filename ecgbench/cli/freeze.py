"""`ecgbench freeze`: a plan with its hypotheses and its hash, before test records are scored."""

from pathlib import Path

import typer

from ecgbench import study
from ecgbench.cli.options import argument, flag, option
from ecgbench.core import provenance
from ecgbench.core.text import quoted
from ecgbench.errors import BadSetting
from ecgbench.study.frozen import Frozen, write

EXAMPLE = Path(study.__file__).with_name("example.toml")
"""A plan file to start from."""


def freeze(
    plan: Path | None = argument("Plan file, TOML; see --example.", None, metavar="[PLAN.toml]"),
    out: Path = option("Run folder, without a score yet.  (default: runs/PLAN)", "--out", "-o"),
    example: bool = flag("Print a plan file to start from, and do nothing else.", "--example"),
) -> None:
    """Write down hypotheses before any test record is scored.

    The plan is checked and written to OUT/frozen.json with its date and its hash. `ecgbench run
    --out OUT` then runs it, and the report says which results were planned; all others are
    exploratory.

    Examples:

      ecgbench freeze --example > plan.toml

      ecgbench freeze plan.toml --out runs/limb
    """
    if example:
        typer.echo(EXAMPLE.read_text(encoding="utf-8"), nl=False)
        return
    if plan is None:
        raise BadSetting("freeze: name a plan file; an example: ecgbench freeze --example")
    from ecgbench.study.hypotheses import hypotheses
    from ecgbench.study.plan import check
    from ecgbench.study.plan_file import dump, named
    from ecgbench.study.preflight import locate
    from ecgbench.study.store import cells_of  # pandas: half a second

    folder, file = out or Path("runs") / plan.stem, named(str(plan))
    if not file.values.get("tasks"):
        raise BadSetting(f'{plan} names no tasks; write tasks = ["ptbxl_super"]')
    checked = check(file.request())
    frozen = Frozen(
        title=file.title,
        alpha=file.alpha,
        plan=dump(file.request()),
        hypotheses=hypotheses(file.hypotheses, checked),
        date=provenance.date(),
        **provenance.code(),
    )
    kept, new = write(folder, frozen, scored=any(True for _ in cells_of(folder)))
    known = "" if new else ", as it was before"
    typer.echo(f"frozen on {kept.plan.date}{known}: {folder}")
    for number, h in enumerate(kept.plan.hypotheses, 1):
        typer.echo(f"  {number}. {h.name} ({h.kind}, family {h.family})")
    typer.echo(f"sha256 {kept.stated}")
    typer.echo("a date of one's own machine proves little: register the hash (OSF, a commit)")
    if absent := [model for model, word in checked.weights_of().items() if locate(model, word)]:
        typer.echo(
            f"weights that are not here yet: {', '.join(absent)}; get them before the run, or "
            f"freeze a plan with other weights in a new folder"
        )
    typer.echo(f"next: ecgbench run --out {quoted(folder)}")
