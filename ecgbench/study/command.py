"""What `ecgbench run` and `ecgbench.run` do once their options are read: import recordings, plan,
check, compute, and print what became of it.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ecgbench import perturbations
from ecgbench.core.cells import Folders, Request
from ecgbench.core.registry import folder_name
from ecgbench.core.text import line, quoted, words
from ecgbench.errors import BadSetting
from ecgbench.evaluate import torchrun
from ecgbench.study import controls, engines, frozen, jobs, own_records
from ecgbench.study import plan as planning
from ecgbench.study.jobs import Execution
from ecgbench.study.plan_file import PlanFile, RunSettings, named, parse, values

STUDY = (
    *("models", "tasks", "leads", "weights", "policy", "protocol", "train_leads", "metrics"),
    *("seeds", "folds", "limit"),
)
"""Options that are keys of a plan file, by their own names or those of KEYS."""
KEYS = {
    "protocol": "training.protocol",
    "train_leads": "training.leads",
    "metrics": "scoring.metrics",
}
RECORDS = ("labels", "fs", "unit", "signals")
"""Options that belong to `records`."""
REPORTED = 200
"""Cells of a study up to which a run writes its report."""


@dataclass(frozen=True, kw_only=True)
class Done:
    """What became of a study."""

    out: Path
    """The run folder."""
    failed: bool = False
    """Whether a cell failed."""
    report: Path | None = None
    """Folder of the report that is to be written now; None where a person writes it later."""

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Whatever goes wrong with the report is a line on standard error: the cells are stored."""
        try:
            yield
        except Exception as error:  # a full disk, or a bug in one of many reports
            why = line(f"{error}") or type(error).__name__
            again = f"ecgbench report {quoted(self.out)}"
            print(f"the report could not be written: {why}; again: {again}", file=sys.stderr)


def run(options: Mapping[str, Any], sets: Sequence[str] = (), command: str = "") -> Done:
    """Compute what is missing of a study or, with `dry_run`, print how long it takes.
    EcgbenchError for what a user must correct first.

    options: by the names of `cli.run.run`, each as typed; what is missing or None was not typed.
    sets: KEY=VALUE each. command: the command line that repeats it; "": that of this process.
    """
    trained = words(options.get("train_leads")) or ()
    given = {**options, "train_leads": trained[0] if trained else None}.get
    typed = values({KEYS.get(name, name): given(name) for name in STUDY}, sets)
    files = own_records.RecordFiles(
        folder=given("records"), **{name: given(name) for name in RECORDS}
    )
    plan = given("plan")
    folders = given("out"), given("prepared")
    out, prepared = own_records.within(files, typed, folders, studied=plan is not None)
    file = _plan_file(plan, typed, out)
    request = file.request()
    if planning.ALL in typed.get("tasks", (planning.ALL,)):
        request = _present(request, given("data"))
    request = planning.check(request)
    out = out or Path("runs") / folder_name(request.name or "+".join(request.tasks))
    where = Folders(data=given("data"), prepared=prepared, out=out)
    settings, device = file.section("run"), given("device") or "auto"
    execution = replace(_execution(settings, given("engine"), device), command=command)
    wanted = controls.resolve(words(given("controls")) or ())
    wanted += controls.of_heads(trained[1:])
    wanted += controls.of_perturbations(given("perturb") or perturbations.NONE)
    if used := given("labels_used"):
        if request.training.protocol != "probe":
            raise BadSetting(
                f"--labels-used {used}: only for --protocol probe, whose heads are fitted to "
                f"stored features; this study has --protocol {request.training.protocol}"
            )
        wanted += controls.of_labels(used)
    return _compute(request, where, execution, wanted, bool(given("dry_run")))


def _plan_file(plan: str | None, values: dict[str, Any], out: Path | None) -> PlanFile:
    """The plan that was named, or is frozen in `out`, or the demo, with what was typed."""
    studied = plan is not None or any(not key.startswith("run.") for key in values)
    kept = None if studied or out is None else frozen.read(out)
    if kept is not None and out is not None:
        frozen.demand_intact(kept, out)
        print(f"run: the plan frozen on {kept.plan.date} ({kept.stated[:16]})", file=sys.stderr)
        base = parse(kept.plan.plan, f"{out}/{frozen.FILE}")
    elif plan is None and "tasks" in values:
        base = PlanFile(values={})
    else:
        base = named(plan or "demo")
    for room, path in base.plugins:
        jobs.ROOMS[room].resolve(path)
    return replace(base, values={**base.values, **values})


def _present(request: Request, data: Path | None) -> Request:
    """A study of all tasks, or of those of a plan, without those that no dataset has or whose data
    are not here, which are named.
    """
    here, absent = planning.present(request.tasks, data)
    if not here or not absent:
        return request
    print(
        f"{len(here)} of {len(here) + len(absent)} tasks are run; no dataset or no data here: "
        f"{', '.join(absent)} (ecgbench list tasks; ecgbench data fetch NAME)",
        file=sys.stderr,
    )
    return replace(request, tasks=tuple(here))


def _execution(settings: RunSettings, engine: str | None, device: str) -> Execution:
    if not settings.timeout > 0:
        raise BadSetting(f"--set run.timeout={settings.timeout:g}: seconds, more than 0")
    if (several := torchrun.world()) > 1:
        raise BadSetting(
            f"torchrun started {several} processes of this command; a study shares its fits out "
            f"itself; run it without torchrun: ecgbench run --engine local:{several} ..."
        )
    name, options = engines.named(engine or "local")
    return Execution(engine=name, options=options, device=device, settings=settings)


def _compute(
    request: Request,
    folders: Folders,
    execution: Execution,
    controls: Sequence[str],
    dry_run: bool,
) -> Done:
    """Compute what is missing of a study, or print its time."""
    from ecgbench.evaluate.device import choose, demand
    from ecgbench.study import control_runs, estimate, preflight

    device = choose(execution.device)
    if not engines.get(execution.engine).CARD.other_machines:
        demand(device)
    preflight.demand(request, folders, data=not dry_run, typed=execution.command)
    if not dry_run:
        return _finish(request, folders, execution, controls)
    for text in estimate.lines(request, folders, device):
        print(text)
    for text in control_runs.lines([request], folders, controls):
        print(text)
    return Done(out=folders.out)


def _finish(
    request: Request, folders: Folders, execution: Execution, controls: Sequence[str]
) -> Done:
    """Run a study and its controls, and say what became of them."""
    from ecgbench.study import control_runs
    from ecgbench.study import run as running
    from ecgbench.study.progress import display
    from ecgbench.study.store import Store

    out, progress = folders.out, display()
    done = running.run([request], folders, execution, progress)
    if done.elsewhere:
        print(f"{done.elsewhere} jobs go on without this command")
        print(f"next: ecgbench runs status {quoted(out)}")
        return Done(out=out)
    after = control_runs.compute(folders, controls, execution, progress, request)
    if not execution.settings.keep_features:
        running.remove_windows(Store(out))
    outcomes = {f"{out}": done, **{control_runs.called(n): one for n, one in after.items()}}
    for what, one in outcomes.items():
        counts, *failures = one.lines(what)
        print(counts)
        for text in failures:
            print(text, file=sys.stderr)
    report = out / "report" if _reported(out, execution) else None
    if report is None:
        print(f"next: ecgbench report {quoted(out)}")
    failed = any(one.failed for one in outcomes.values())
    return Done(out=out, failed=failed, report=report)


def _reported(out: Path, execution: Execution) -> bool:
    """Whether a run that is complete writes its report: of many cells it takes long, and the
    machine from which jobs are sent to a cluster is not for work.
    """
    from ecgbench.study.store import Store

    sent = engines.get(execution.engine).CARD.other_machines
    few = len(Store(out).existing_plan().cells) <= REPORTED
    return execution.settings.report and few and not sent
