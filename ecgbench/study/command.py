"""What `ecgbench run` and `ecgbench.run` do once their options are read: import recordings, plan,
check, compute, and print what became of it.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ecgbench.cards.plan import Folders, Request
from ecgbench.core.text import line, quoted
from ecgbench.study import engines
from ecgbench.study.jobs import Execution
from ecgbench.study.options import RunOptions

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


def run(options: RunOptions) -> Done:
    """Compute what is missing of a study or, with `dry_run`, print how long it takes.
    EcgbenchError for what a user must correct first.
    """
    options = options.imported()
    request, folders, execution = options.study, options.folders, options.execution
    return _compute(request, folders, execution, options.controls, options.dry_run)


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
    preflight.demand_labelled(request, folders, controls)
    for text in preflight.random_instead(request):
        print(text)
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
    failed = any(one.failed or one.uncompared for one in outcomes.values())
    return Done(out=out, failed=failed, report=report)


def _reported(out: Path, execution: Execution) -> bool:
    """Whether a run that is complete writes its report: of many cells it takes long, and the
    machine from which jobs are sent to a cluster is not for work.
    """
    from ecgbench.study.store import Store

    sent = engines.get(execution.engine).CARD.other_machines
    few = len(Store(out).existing_plan().cells) <= REPORTED
    return execution.settings.report and few and not sent
