"""Runs the controls of a finished study, each with its own plan (`study.controls`)."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ecgbench import models
from ecgbench.cards.plan import Folders, Request, plan_of
from ecgbench.core.files import DAMAGED, making, move
from ecgbench.core.text import counted
from ecgbench.study import shortcuts
from ecgbench.study.controls import derived, folder, named, names, reuses_fits, shortcut
from ecgbench.study.jobs import Execution
from ecgbench.study.outcome import Outcome
from ecgbench.study.progress import Display
from ecgbench.study.run import remove_windows, run
from ecgbench.study.store import Store


def studies(
    requests: Sequence[Request], folders: Folders, control: str
) -> Iterator[tuple[list[Request], Folders]]:
    """The requests and folders of a control of a study; one for each permutation."""
    if shortcut(control):
        models.resolve(str(shortcuts.path(control)))
    shared = None if shortcut(control) else folders.out
    for name in names(control, requests[0].training):
        into = replace(folders, out=folder(folders.out, name), shared=shared)
        yield [derived(request, name) for request in requests], into


def called(control: str) -> str:
    """For people.

    >>> called("phases"), called("perturb em@6"), called("heads same")
    ('control phases', 'perturb em@6', 'heads same')
    """
    return f"control {control}" if named(control) else control


def lines(requests: Sequence[Request], folders: Folders, wanted: Sequence[str]) -> Iterator[str]:
    """The cells that each of the `wanted` controls still needs, in words."""
    for control in wanted:
        every = list(studies(requests, folders, control))
        missing = sum(
            Store(into.out).folder(cell) is None
            for derived_requests, into in every
            for cell in {cell for one in derived_requests for cell in plan_of(one).cells}
        )
        times = f", {len(every)} times" if len(every) > 1 else ""
        yield f"{called(control)}: {counted(missing, 'cell')} left{times}"


def compute(
    folders: Folders,
    wanted: Sequence[str],
    execution: Execution,
    progress: Display,
    typed: Request,
) -> dict[str, Outcome]:
    """Compute what is missing of the controls of a finished run, and of perturbations of the study
    as `typed`; control -> the outcome of its cells, in all permutations.
    """
    done: dict[str, Outcome] = {}
    folders = folders.absolute()
    every_request = [file.request() for file in Store(folders.out).requested()]
    for control in wanted:
        requests = [typed] if called(control) == control else every_request
        own = replace(execution, settings=replace(execution.settings, keep_features=False))
        if shortcut(control):  # what is read from tables, or measured in few steps, needs no GPU
            alone = replace(own.settings, views="stream")
            own = replace(own, device="cpu", settings=alone)
        every = list(studies(requests, folders, control))
        for number, (derived_requests, into) in enumerate(every, 1):
            which = f" ({number} of {len(every)})" if len(every) > 1 else ""
            progress.note(f"{called(derived_requests[0].control)}{which}")
            store = Store(into.out)
            if reuses_fits(control):
                _take_fits(derived_requests, Store(folders.out), store)
            done[control] = run(derived_requests, into, own, progress, done.get(control))
            remove_windows(store)
    return done


def _take_fits(requests: Sequence[Request], run: Store, control: Store) -> None:
    """Make the fits of a run known to a control that tests the same fits on other recordings. The
    key of each says whether it is the one.
    """
    for fit in {fit for request in requests for fit in plan_of(request).fits}:
        for done in run.fit_folder(fit, "any").parent.glob("[!.]*/DONE"):
            if done.parent.name.endswith(DAMAGED):
                continue
            there = control.path / done.parent.relative_to(run.path)
            if not there.exists():
                with making(there) as passing:
                    shutil.copytree(done.parent, passing, dirs_exist_ok=True)
                    move(passing, there)
