"""Computes the controls of a run, each by a run of its own into a folder below it."""

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ecgbench import models
from ecgbench.core.cells import Folders, Plan
from ecgbench.core.files import making, move
from ecgbench.study import controls, shortcuts
from ecgbench.study.progress import Display
from ecgbench.study.run import Carrying, Outcome, remove_windows, run
from ecgbench.study.store import Store


def studies(plan: Plan, folders: Folders, control: str) -> Iterator[tuple[Plan, Folders]]:
    """The plans of a control of a study in `folders`, and where each goes."""
    if controls.CONTROLS[control].kind == "shortcut":
        models.resolve(str(shortcuts.path(control)))
    for name in controls.names(control, plan.training):
        out = controls.folder(folders.out, name)
        shared = None if controls.CONTROLS[control].kind == "shortcut" else folders.out
        yield controls.derived(plan, name), replace(folders, out=out, shared=shared)


def compute(
    plan: Plan, folders: Folders, names: Sequence[str], carrying: Carrying, progress: Display
) -> dict[str, list[Outcome]]:
    """Compute what is missing of the controls of a finished run; control -> the outcome of each of
    its runs.
    """
    done = dict[str, list[Outcome]]()
    folders = folders.absolute()
    for control in names:
        shortcut = controls.CONTROLS[control].kind == "shortcut"
        # what is read from tables, or measured in few steps, needs no GPU
        own = replace(carrying, keep_features=False)
        if shortcut:
            own = replace(own, device="cpu", pin_environment=False, keep_views=False)
        every = list(studies(plan, folders, control))
        for number, (one, places) in enumerate(every, 1):
            which = f" ({number} of {len(every)})" if len(every) > 1 else ""
            progress.note(f"control {one.control}{which}")
            if one.control == controls.LEADS:
                take_fits(one, Store(folders.out), Store(places.out))
            done.setdefault(control, []).append(run(one, places, own, progress))
            remove_windows(one, Store(places.out))
    return done


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
