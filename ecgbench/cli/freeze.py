"""`ecgbench freeze`: a plan with its hypotheses and its hash, before test records are scored."""

from pathlib import Path

import typer

from ecgbench.cli.options import DATA, MORE, PREPARED, add_commands, argument, flag, option
from ecgbench.cli.settings import loaded
from ecgbench.core import provenance
from ecgbench.core.text import quoted
from ecgbench.errors import BadSetting
from ecgbench.study.frozen import Frozen, write

EXAMPLE = """\
# A plan for ecgbench: what is run, and which hypotheses are tested. Change it, then:
#
#   ecgbench freeze PLAN.toml --out runs/NAME     before any test record is scored
#   ecgbench run --out runs/NAME                  runs what is frozen
#   ecgbench report runs/NAME                     tests the hypotheses, says what is exploratory

title = "Two limb leads on PTB-XL"
alpha = 0.05            # two-sided, within each family after Holm

models = ["laef", "stmem"]
tasks = ["ptbxl_super"]
leads = ["2", "12", "I+II"]
seeds = 5
weights = "released"

[training]
protocol = "probe"      # further keys: ecgbench run --settings

[[hypothesis]]
name = "LAEF keeps its skill with leads I and II"
kind = "non-inferiority"
model = "laef"
leads = "I+II"
against = "own 12 leads"
margin = 0.05           # of macro AUROC, as a fraction: yours to justify
family = "primary"      # hypotheses of one family are corrected together

[[hypothesis]]
name = "LAEF is better than ST-MEM with two random leads"
kind = "superiority"
model = "laef"
leads = "2"
against = "stmem"
family = "primary"
# further words: tasks = ["ptbxl_super"] (default: all; several: the mean over datasets),
# metric = "auroc", policy and against_policy (where the study has several)
"""


def add(app: typer.Typer) -> None:
    """Add the command to the program."""
    add_commands(app, freeze, panel=MORE)


def freeze(
    plan: Path | None = argument("Plan file, TOML; see --example.", None, metavar="[PLAN.toml]"),
    out: Path | None = option(
        "Run folder that the plan is for, without a score yet.  (default: runs/ and the name of "
        "the plan file)",
        "--out",
        "-o",
    ),
    data: Path | None = DATA,
    prepared: Path | None = PREPARED,
    example: bool = flag("Print a plan file to start from, and do nothing else.", "--example"),
) -> None:
    """Write down hypotheses before any test record is scored.

    The plan is checked word for word and written to OUT/frozen.json with its date, its hash, and
    how often the test records had been scored on this machine by then. `ecgbench run --out OUT`
    then runs it, and the report says which results were planned; all else is exploratory.

    Examples:

      ecgbench freeze --example > plan.toml

      ecgbench freeze plan.toml --out runs/limb
    """
    from ecgbench.study.store import cells_of  # pandas: half a second

    if example:
        typer.echo(EXAMPLE, nl=False)
        return
    if plan is None:
        raise BadSetting("freeze: name a plan file; an example: ecgbench freeze --example")
    folder = out or Path("runs") / plan.stem
    frozen = _frozen(plan, data, prepared)
    kept, new = write(folder, frozen, scored=any(True for _ in cells_of(folder)))
    known = ", as it was before" if not new else ""
    typer.echo(f"frozen on {kept.plan.date}{known}: {folder}")
    for number, h in enumerate(kept.plan.hypotheses, 1):
        typer.echo(f"  {number}. {h.name} ({h.kind}, family {h.family})")
    typer.echo(f"sha256 {kept.stated}")
    typer.echo(
        "a date of one's own machine proves little: register this hash elsewhere (OSF, a commit)"
    )
    typer.echo(f"next: ecgbench run --out {quoted(folder)}")


def _frozen(file: Path, data: Path | None, prepared: Path | None) -> Frozen:
    from ecgbench.study import plan as planning
    from ecgbench.study.hypotheses import hypotheses
    from ecgbench.study.plan_file import dump

    plan = loaded(str(file))
    if not plan.values.get("tasks"):
        raise BadSetting(f'{file} names no tasks; write tasks = ["ptbxl_super"]')
    study = planning.check(plan.request())
    return Frozen(
        title=plan.title,
        alpha=plan.alpha,
        plan=dump(plan.request()),
        hypotheses=hypotheses(plan.hypotheses, study),
        date=provenance.date(),
        **provenance.code(),
    )
