"""`ecgbench freeze`: a plan with its hypotheses and its hash, before test records are scored."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from ecgbench.cli import frozen as frozen_study
from ecgbench.cli import run
from ecgbench.cli.options import DATA, PREPARED, add_commands, argument, flag, option
from ecgbench.core import provenance
from ecgbench.core.cells import Request
from ecgbench.core.text import counted, quoted
from ecgbench.errors import BadSetting, MissingData, UnknownName
from ecgbench.study import ledger
from ecgbench.study.frozen import Frozen, write

EXAMPLE = """\
# A plan for ecgbench: what is run, and which hypotheses are tested. Change it, then:
#
#   ecgbench freeze PLAN.toml --out runs/NAME     before any test record is scored
#   ecgbench run --out runs/NAME                  runs what is frozen
#   ecgbench report runs/NAME                     tests the hypotheses, says what is exploratory

title = "Two limb leads on PTB-XL"
alpha = 0.05            # two-sided, within each family after Holm

[run]                   # the options of `ecgbench run` that say what is studied
models = ["laef", "stmem"]
tasks = ["ptbxl_super"]
leads = ["2", "12", "I+II"]
seeds = 5
weights = "released"
protocol = "probe"

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
# further words: tasks = ["ptbxl_super"] (default: all of [run]; several: the mean over datasets),
# metric = "auroc", policy and against_policy (where [run] has several)
"""
ALPHA, LARGEST = 0.05, 0.2


def add(app: typer.Typer) -> None:
    """Add the command to the program."""
    add_commands(app, freeze)


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
    """Write down what is run and tested before any test record is scored.

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
    for name, times in kept.plan.tested.items():
        if times:
            typer.echo(
                f"note: test records of {name} were scored {counted(times, 'time')} on this "
                f"machine before; the report says so",
                err=True,
            )
    typer.echo(f"next: ecgbench run --out {quoted(folder)}")


def _frozen(file: Path, data: Path | None, prepared: Path | None) -> Frozen:
    from ecgbench.data.source import where
    from ecgbench.study import plan as planning
    from ecgbench.study.hypotheses import hypotheses

    said = _said(file)
    words = _words(file, said.get("run"))
    study: Request = planning.check(frozen_study.of(_command(), words))
    every, home = planning.all_tasks(), where(prepared, data)
    used = dict.fromkeys(every[task][0] for task in study.tasks)
    code = provenance.code()
    tables = said.get("hypothesis", [])
    if not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
        raise BadSetting(f"{file}: hypotheses are tables; write [[hypothesis]] before each")
    return Frozen(
        title=str(said.get("title", "")),
        alpha=_alpha(file, said.get("alpha", ALPHA)),
        words=words,
        hypotheses=hypotheses(tables, study),
        date=provenance.date(),
        **code,
        tested={name: len(ledger.scorings(home / name)) for name in used},
    )


def _said(file: Path) -> dict[str, Any]:
    try:
        said = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise MissingData(
            f"no plan file {file}; an example: ecgbench freeze --example > {quoted(file)}"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSetting(
            f"{file} is no TOML: {error}; an example: ecgbench freeze --example"
        ) from None
    for word in said:
        if word not in ("title", "alpha", "run", "hypothesis"):
            raise UnknownName(f"word of {file}", word, ["title", "alpha", "run", "hypothesis"])
    return said


def _words(file: Path, table: Any) -> dict[str, str]:
    """The words of [run]: option of `ecgbench run` -> value as typed."""
    if not isinstance(table, Mapping) or not table:
        raise BadSetting(f"{file} has no table [run]; an example: ecgbench freeze --example")
    if not table.get("tasks") and not table.get("suite"):
        raise BadSetting(f'{file}: [run] names no tasks; write tasks = ["ptbxl_super"]')
    words = {}
    for name, value in table.items():
        if isinstance(value, dict):
            raise BadSetting(f"{file}: [run] {name} is a table; write a word, a number or a list")
        if value is False:
            continue
        text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        words[name.replace("-", "_")] = "yes" if value is True else text
    return words


def _alpha(file: Path, value: Any) -> float:
    if isinstance(value, float) and 0 < value <= LARGEST:
        return value
    raise BadSetting(f"{file}: alpha = {value!r}; a fraction above 0 and at most {LARGEST:g}")


def _command() -> Any:
    """`ecgbench run`, as the command line reads its words."""
    program = typer.Typer()
    run.add(program)
    return typer.main.get_command(program)
