"""Computes the controls of a run, each by a run of its own into a folder below it."""

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ecgbench import models
from ecgbench.core.cells import Folders, Plan
from ecgbench.core.files import making, move
from ecgbench.study import controls, shortcuts
from ecgbench.study.engine import Engine
from ecgbench.study.job_record import Outcome
from ecgbench.study.progress import Display
from ecgbench.study.run import Run
from ecgbench.study.store import Store


def studies(plan: Plan, folders: Folders, control: str) -> Iterator[tuple[Plan, Folders]]:
    """The plans of a control of a study in `folders`, and where each goes."""
    if controls.CONTROLS[control].kind == "shortcut":
        models.resolve(str(shortcuts.path(control)))
    for name in controls.names(control, plan.training):
        out = controls.folder(folders.out, name)
        shared = None if controls.CONTROLS[control].kind == "shortcut" else folders.out
        yield controls.derived(plan, name), replace(folders, out=out, shared=shared)


class Controls:
    """The controls of a finished run."""

    def __init__(self, run: Run, progress: Display, engine: Engine) -> None:
        self.run, self.progress, self.engine = run, progress, engine

    def __call__(self, names: Sequence[str]) -> dict[str, list[Outcome]]:
        """Compute what is missing of them; control -> the outcome of each of its runs."""
        done = dict[str, list[Outcome]]()
        for control in names:
            every = list(studies(self.run.plan, self.run.folders, control))
            for number, (one, folders) in enumerate(every, 1):
                which = f" ({number} of {len(every)})" if len(every) > 1 else ""
                self.progress.note(f"control {one.control}{which}")
                done.setdefault(control, []).append(self._computed(one, folders))
        return done

    def _computed(self, plan: Plan, folders: Folders) -> Outcome:
        shortcut = controls.of(plan.control).kind == "shortcut"
        if plan.control == controls.LEADS:
            take_fits(plan, self.run.store, Store(folders.out))
        # what is read from tables, or measured in few steps, needs no GPU
        device = "cpu" if shortcut else self.run.device
        one = Run(plan, folders, self.progress, self.engine, device)
        pinned = self.run.pin_environment and not shortcut
        return one(False, pinned, self.run.keep_views and not shortcut)


def take_fits(plan: Plan, run: Store, control: Store) -> None:
    """Make the fits of a run known to a control that tests the same fits on other recordings. The
    key of each says whether it is the one.
    """
    for fit in plan.fits:
        for done in run.fit_folder(fit, "any").parent.glob("[!.]*/DONE"):
            there = control.path / done.parent.relative_to(run.path)
            if not there.exists():
                with making(there) as passing:
                    shutil.copytree(done.parent, passing, copy_function=_linked, dirs_exist_ok=True)
                    move(passing, there)


def _linked(source: str, target: str) -> None:
    """The same file under another name; a copy where the disk has no such thing."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
