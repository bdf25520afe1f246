"""Computes one job. What happens is told in events, plain JSON values, because a job runs in a process of its own
(`engines.isolated`): whatever a model does there costs its own cells and no others.
"""

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from ecgbench import adapters, datasets, gates, models
from ecgbench.benchmark import fit, keys
from ecgbench.benchmark.cell import Wanted, compute
from ecgbench.benchmark.described import dataset_facts, network_facts
from ecgbench.benchmark.evaluation import Evaluation
from ecgbench.benchmark.job import Event, Job, Tell
from ecgbench.benchmark.plan import all_tasks
from ecgbench.cells import Cell, key
from ecgbench.errors import BadSetting, BadWeights, EcgbenchError, LeakError, PolicyError, WriteError
from ecgbench.inference import network
from ecgbench.prepared.prepare import prepare
from ecgbench.prepared.subset import Selection
from ecgbench.results.store import Store
from ecgbench.training import ranks
from ecgbench.weights import released
from ecgbench.weights.load import digest

STOPS = (BadWeights, WriteError)
"""The user's to mend before anything else is worth computing: the run stops."""
CONDEMNS = (LeakError, gates.GateError)
_LIMITED = (PolicyError, gates.FitError)
"""What a model must never do: no number of it could be trusted, so all that is left of it fails."""
LONGEST_REASON, LONGEST_TRACE = 500, 20_000
"""Characters of what a stranger's exception says that are kept."""


def enter(doors: Sequence[tuple[str, str]]) -> None:
    """Let the strangers in by their paths; nothing of them is imported yet."""
    for room, path in doors:
        {"models": models, "adapters": adapters, "datasets": datasets}[room].resolve(path)


def look(model: str, weights: str | None, contract: str) -> Event:
    """Import a model and read its card; with `weights`, load them too, so that a mistake is found before hours of work.

    Returns {"policy": the policy of `contract`, or None where the model cannot be imported, which is its own failure}.
    EcgbenchError for a contract that the card does not have and weights that do not match.
    """
    try:
        card = models.get(model).CARD
    except BadSetting:
        return {"policy": None}
    if weights is not None:
        try:
            network.build(model, weights)
        except EcgbenchError:
            raise
        except Exception:  # a stranger's network: its job will tell
            traceback.print_exc()
    return {"policy": card.contract(contract).policy}


class Teller:
    """A watcher whose every word is an event, and the words of a job."""

    def __init__(self, tell: Tell) -> None:
        self.tell = tell

    def note(self, text: str) -> None:
        """One line about something that is done."""
        self.tell({"kind": "note", "text": text})

    @contextmanager
    def stage(self, text: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
        """A stretch of work."""
        self.tell({"kind": "stage", "text": text, "total": total, "unit": unit})
        yield lambda n: self.tell({"kind": "advance", "n": int(n)})
        self.tell({"kind": "stage over"})

    def hold(self, cells: Sequence[Cell], together: bool = False) -> None:
        """What dies with this process from now on; `together`: it may be the fault of one of them, each deserves a try of its own."""
        self.tell({"kind": "hold", "cells": [c.identity for c in cells], "together": together})

    def settle(self, state: str, cells: Sequence[Cell], reason: str = "", trace: str = "") -> None:
        """Cells that are computed, reused, skipped or failed."""
        told = {"reason": brief(reason), "trace": trace[-LONGEST_TRACE:]}
        self.tell({"kind": "settled", "state": state, "cells": [c.identity for c in cells], **told})

    def condemn(self, error: Exception) -> None:
        """The model did what none may do."""
        trace = "".join(traceback.format_exception(error))[-LONGEST_TRACE:]
        self.tell({"kind": "condemned", "reason": brief(str(error)), "trace": trace})


def brief(reason: str) -> str:
    """A reason as one line that a terminal shows as it is.

    >>> brief("no memory:\\n  you asked\\tfor \\x1b[31mmuch")
    'no memory: you asked for ?[31mmuch'
    """
    line = " ".join(reason[: 4 * LONGEST_REASON].split())
    shown = "".join(c if c.isprintable() else "?" for c in line)
    return shown if len(shown) <= LONGEST_REASON else shown[:LONGEST_REASON] + " ..."


def _grave(error: Exception) -> bool:
    """Whether an error stops the run or condemns the model, and does not only cost the cells that met it."""
    return isinstance(error, (*STOPS, *CONDEMNS)) and not isinstance(error, _LIMITED)


def work(job: Job, tell: Tell) -> None:
    """Compute a job. EcgbenchError for what stops the whole run; everything else is told."""
    enter(job.doors)
    _Work(job, Teller(tell))()


def take_part(job: Job) -> None:
    """One process's part of the fine-tuning of a job's only fit, as the first process called for it."""
    enter(job.doors)
    mine = _Work(job, Teller(lambda event: None))
    fitted = job.plan.fits[0]
    fit.train(mine._subject(), fitted, mine.tasks[fitted.task][2], job.plan.training, mine.store)


class _Work:
    """The cells of a job, one stage after the other."""

    def __init__(self, job: Job, teller: Teller) -> None:
        self.job, self.teller, self.store = job, teller, Store(job.places.out)
        self.plan, self.cells, self.tasks = job.plan, list(job.plan.cells), all_tasks()
        self.key_facts: dict[Cell, dict[str, Any]] = {}
        self.references: dict[Cell, dict[str, str]] = {}
        self.lost: set[Cell] = set()
        """Cells that failed in this job."""

    def __call__(self) -> None:
        try:
            with self._at_the_cost_of(self.cells):
                models.get(self.job.model)  # a stranger's import may fail in any way
                evaluation = self._subject()
                self._identify(evaluation)
                todo = [c for c in self.cells if not self._settled(evaluation, c)]
                (self._linear if self.plan.training.protocol == "linear" else self._finetune)(evaluation, todo)
                gates.unchanged(evaluation.network.card.title, evaluation.network.sha256, digest(evaluation.network.module))
        except CONDEMNS as error:
            self.teller.condemn(error)

    def _subject(self) -> Evaluation:
        asked = self.plan.training.of_the_encoder
        built = network.build(self.job.model, self.job.weights, self.job.device)
        contract = built.card.contract(self.plan.fits[0].contract)
        built = built.in_precision(asked, contract)
        used = built.source["name"], built.source["file"]
        for layout in (w for w in built.card.weights if w.name in used or w.file in used):
            released.tell_terms(self.job.model, layout, self.teller.note)
        if built.precision != asked:
            self.teller.note(f"{built.card.title}: features in {asked} are off by more than 1 %; it computes in {built.precision}")
        prepared = prepare(self.job.dataset, self.job.places.data, self.job.places.prepared)
        selection = Selection(prepared, self.plan.limit)
        return Evaluation(built, contract, selection, self.store.path, self.teller)

    def _linear(self, evaluation: Evaluation, todo: list[Cell]) -> None:
        for trained in dict.fromkeys(c.fit.policy for c in todo):
            for fitted in [f for f in dict.fromkeys(c.fit for c in todo) if f.policy == trained]:
                part = [c for c in todo if c.fit == fitted]
                with self._at_the_cost_of(part):
                    self.teller.hold(part)
                    fit.features(evaluation, fitted, self.plan.training)
        todo = [c for c in todo if c not in self.lost]
        for policy in dict.fromkeys(c.policy for c in todo):
            self._policy(evaluation, [c for c in todo if c.policy == policy])

    def _finetune(self, evaluation: Evaluation, todo: list[Cell]) -> None:
        for fitted in dict.fromkeys(c.fit for c in todo):
            part = [c for c in todo if c.fit == fitted]
            with self._at_the_cost_of(part):
                self.teller.hold(part)
                call = partial(ranks.call, {"job": self.job.of([c for c in self.job.plan.cells if c.fit == fitted]).to_json()})
                tuned = fit.tuned(evaluation, fitted, self.tasks[fitted.task][2], self.plan.training, (self.store, call))
                for policy in dict.fromkeys(c.policy for c in part):
                    self._policy(tuned, [c for c in part if c.policy == policy])
                tuned.forget()

    def _policy(self, evaluation: Evaluation, cells: list[Cell]) -> None:
        """Test windows of all cells of a policy together, then each cell alone."""
        scoring, policy = self.plan.scoring, cells[0].policy
        self.teller.hold(cells, len(cells) > 1)
        wanted = [evaluation.rows(c, scoring) for c in cells]
        what = f"test windows, {policy}"
        try:
            evaluation.compute(policy, np.concatenate(wanted), what, scoring.draw == "window")
        except Exception as error:
            if _grave(error):
                raise
            # of one lead setting, perhaps: each cell tries again what it needs
            self.teller.note(f"{evaluation.name}: {what}: {brief(f'{type(error).__name__}: {error}')}; going on cell by cell")
        for cell, needed in zip(cells, wanted, strict=True):
            self.teller.hold([cell])
            with self._at_the_cost_of([cell]):
                evaluation.compute(policy, needed, what, scoring.draw == "window")
                task, fit_task = (self.tasks[name][2] for name in (cell.task, cell.fit.task))
                head = fit.head(evaluation, cell.fit, fit_task, self.plan.training, self.store)
                wanted_cell = Wanted(
                    cell=cell, tasks=(task, fit_task), scoring=scoring, key_facts=self.key_facts[cell],
                    references=self.references[cell],
                )  # fmt: skip
                macro = compute(evaluation, wanted_cell, head, self.store)
                self.teller.settle("computed", [cell])
                self.teller.note(f"{cell.label}: macro AUROC {100 * macro:.1f}")

    @contextmanager
    def _at_the_cost_of(self, cells: list[Cell]) -> Iterator[None]:
        """Whatever fails inside costs these cells and no others, except what stops the run or condemns the model."""
        try:
            yield
        except Exception as error:
            if _grave(error):
                raise
            self.lost |= set(cells)
            reason = str(error) if isinstance(error, EcgbenchError) else f"{type(error).__name__}: {error}"
            self.teller.settle("failed", cells, reason, "".join(traceback.format_exception(error)))

    def _identify(self, evaluation: Evaluation) -> None:
        """Store, before anything is computed, what the cells rest on and where they will lie."""
        shared = {
            "model": self.store.add_facts("models", network_facts(evaluation)),
            "dataset": self.store.add_facts("datasets", dataset_facts(evaluation.selection)),
        }
        for policy in dict.fromkeys(c.policy for c in self.cells):
            part = [c for c in self.cells if c.policy == policy]
            with self._at_the_cost_of(part):
                for cell in part:
                    task, fit_task = self.tasks[cell.task][2], self.tasks[cell.fit.task][2]
                    fitted = key(keys.fit_facts(evaluation, cell.fit, fit_task, self.plan.training))
                    folder = self.store.fit_folder(cell.fit, fitted).relative_to(self.store.path)
                    self.references[cell] = {"fit": folder.as_posix(), **shared}
                    self.key_facts[cell] = keys.cell_facts(evaluation, cell, task, fitted, self.plan.scoring)
        self.cells = [c for c in self.cells if c in self.key_facts]
        self.store.add_keys({c.identity: key(self.key_facts[c]) for c in self.cells})

    def _settled(self, evaluation: Evaluation, cell: Cell) -> bool:
        """Whether a cell is finished already or cannot run; the latter is stored and said."""
        if self.store.folder(cell) is not None:
            self.teller.settle("reused", [cell])
            return True
        reason = evaluation.refusal(cell, self.plan.scoring)
        if reason is not None:
            self.store.give_reason(cell, "skipped", reason)
            self.teller.settle("skipped", [cell], reason)
        return reason is not None
