"""Computes the cells of one job. Where a model fails, its own cells fail and no others."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from ecgbench import gates, models
from ecgbench.benchmark import disqualified, fit, keys
from ecgbench.benchmark.cell import CellRequest, compute
from ecgbench.benchmark.described import dataset_facts, network_facts
from ecgbench.benchmark.evaluation import Evaluation
from ecgbench.benchmark.job import Compute, Job, register
from ecgbench.benchmark.plan import all_tasks
from ecgbench.benchmark.reporter import Reporter, reason_of, trace_of
from ecgbench.cells import Cell, key
from ecgbench.errors import BadWeights, LeakError, PolicyError, WriteError
from ecgbench.inference import network
from ecgbench.prepared.prepare import prepare
from ecgbench.prepared.subset import Selection
from ecgbench.results.store import Store
from ecgbench.training import ranks
from ecgbench.weights import released
from ecgbench.weights.load import digest

STOPS = (BadWeights, WriteError)
"""What the user must correct before anything else is computed: the run stops."""
DISQUALIFIES = (LeakError, gates.GateError)
"""What a model must never do: no number of it can be trusted, so all its other cells fail."""
_LIMITED = (PolicyError, gates.FitError)
"""Of those, errors that fail the current cells only."""


def _is_fatal(error: Exception) -> bool:
    """Whether an error stops the run or disqualifies the model, rather than failing the current
    cells only.
    """
    return isinstance(error, (*STOPS, *DISQUALIFIES)) and not isinstance(error, _LIMITED)


def work(job: Compute, reporter: Reporter) -> None:
    """Compute a job. EcgbenchError for what stops the whole run; everything else is an event."""
    _CellComputation(job, reporter)()


def take_part() -> None:
    """In every process of torchrun but the first: do this process's share of each fine-tuning,
    until the first process has finished.
    """
    while (message := ranks.hear()) is not None:
        job = Job.from_json(message["job"])
        assert isinstance(job, Compute)
        register(job.plugins)
        _share(job)


def _share(job: Compute) -> None:
    mine = _CellComputation(job, Reporter(job.id, lambda event: None))
    fitted = job.plan.fits[0]
    fit.train(mine._evaluation(), fitted, mine.tasks[fitted.task][2], job.plan.training, mine.store)


class _CellComputation:
    """The cells of a job, one stage after the other."""

    def __init__(self, job: Compute, reporter: Reporter) -> None:
        self.job, self.reporter, self.store = job, reporter, Store(job.folders.out)
        self.plan, self.cells, self.tasks = job.plan, list(job.plan.cells), all_tasks()
        self.key_facts: dict[Cell, dict[str, Any]] = {}
        self.references: dict[Cell, dict[str, str]] = {}
        self.lost: set[Cell] = set()
        """Cells that failed in this job."""

    def __call__(self) -> None:
        identity = ""
        try:
            with self._failing(self.cells):
                models.get(self.job.model)  # a plug-in's import may fail in any way
                evaluation = self._evaluation()
                identity = disqualified.identity(evaluation)
                if (
                    reason := disqualified.reason_against(self.store.path, self.job.model, identity)
                ) is not None:
                    self.reporter.disqualified(reason, "")
                    return
                self._identify(evaluation)
                todo = [c for c in self.cells if not self._is_over(evaluation, c)]
                (self._frozen if self.plan.training.frozen else self._finetune)(evaluation, todo)
                gates.unchanged(
                    evaluation.network.card.title,
                    evaluation.network.sha256,
                    digest(evaluation.network.module),
                )
        except DISQUALIFIES as error:
            reason, trace = reason_of(error), trace_of(error)
            if identity:
                disqualified.disqualify(self.store.path, self.job.model, identity, reason, trace)
            self.reporter.disqualified(reason, trace)

    def _evaluation(self) -> Evaluation:
        precision = self.plan.training.of_the_encoder
        built = network.build(self.job.model, self.job.weights, self.job.device)
        contract = built.card.contract(self.plan.fits[0].contract)
        built = built.in_precision(precision, contract)
        used = built.source["name"], built.source["file"]
        for layout in (w for w in built.card.weights if w.name in used or w.file in used):
            released.show_terms(self.job.model, layout, self.reporter.note)
        if built.precision != precision:
            self.reporter.note(
                f"{built.card.title}: features in {precision} are off by more than 1 %; it "
                f"computes in {built.precision}"
            )
        prepared = prepare(self.job.dataset, self.job.folders.data, self.job.folders.prepared)
        selection = Selection(prepared, self.plan.limit)
        return Evaluation(built, contract, selection, self.store, self.reporter)

    def _frozen(self, evaluation: Evaluation, todo: list[Cell]) -> None:
        for trained in dict.fromkeys(c.fit.policy for c in todo):
            for fitted in [f for f in dict.fromkeys(c.fit for c in todo) if f.policy == trained]:
                part = [c for c in todo if c.fit == fitted]
                with self._failing(part):
                    self.reporter.in_progress(part)
                    fit.features(evaluation, fitted, self.plan.training)
        todo = [c for c in todo if c not in self.lost]
        for policy in dict.fromkeys(c.policy for c in todo):
            self._policy(evaluation, [c for c in todo if c.policy == policy])

    def _finetune(self, evaluation: Evaluation, todo: list[Cell]) -> None:
        for fitted in dict.fromkeys(c.fit for c in todo):
            part = [c for c in todo if c.fit == fitted]
            with self._failing(part):
                self.reporter.in_progress(part)
                call = partial(
                    ranks.call,
                    {
                        "job": self.job.of(
                            [c for c in self.job.plan.cells if c.fit == fitted]
                        ).to_json()
                    },
                )
                tuned = fit.tuned(
                    evaluation,
                    fitted,
                    self.tasks[fitted.task][2],
                    self.plan.training,
                    (self.store, call),
                )
                for policy in dict.fromkeys(c.policy for c in part):
                    self._policy(tuned, [c for c in part if c.policy == policy])
                tuned.forget()

    def _policy(self, evaluation: Evaluation, cells: list[Cell]) -> None:
        """Test windows of all cells of a policy together, then each cell alone."""
        scoring, policy = self.plan.scoring, cells[0].policy
        self.reporter.in_progress(cells, len(cells) > 1)
        wanted = [evaluation.rows(c, scoring) for c in cells]
        what = f"test windows, {policy}"
        try:
            evaluation.compute(policy, np.concatenate(wanted), what, scoring.draw == "window")
        except Exception as error:
            if _is_fatal(error):
                raise
            # perhaps one lead setting is at fault: each cell computes again what it needs
            self.reporter.note(
                f"{evaluation.name}: {what}: {reason_of(error)}; going on cell by cell"
            )
        for cell, needed in zip(cells, wanted, strict=True):
            self.reporter.in_progress([cell])
            with self._failing([cell]):
                evaluation.compute(policy, needed, what, scoring.draw == "window")
                task, fit_task = (self.tasks[name][2] for name in (cell.task, cell.fit.task))
                head = fit.head(evaluation, cell.fit, fit_task, self.plan.training, self.store)
                request = CellRequest(
                    cell=cell,
                    tasks=(task, fit_task),
                    scoring=scoring,
                    key_facts=self.key_facts[cell],
                    references=self.references[cell],
                    keep_features=self.job.keep_features,
                )
                macro = compute(evaluation, request, head, self.store)
                self.reporter.finished(cell)
                self.reporter.note(f"{cell.label}: macro {100 * macro:.1f}")

    @contextmanager
    def _failing(self, cells: list[Cell]) -> Iterator[None]:
        """An error inside fails these cells and no others, unless it stops the run or disqualifies
        the model.
        """
        try:
            yield
        except Exception as error:
            if _is_fatal(error):
                raise
            self.lost |= set(cells)
            reason, trace = reason_of(error), trace_of(error)
            for cell in (c for c in cells if self.store.folder(c) is None):
                self.store.give_reason(cell, "failed", reason, trace)
            self.reporter.failed(cells, reason, trace)

    def _identify(self, evaluation: Evaluation) -> None:
        """Store, before anything is computed, the keys of the cells and the facts they share."""
        shared = {
            "model": self.store.add_facts("models", network_facts(evaluation)),
            "dataset": self.store.add_facts("datasets", dataset_facts(evaluation.selection)),
        }
        for policy in dict.fromkeys(c.policy for c in self.cells):
            part = [c for c in self.cells if c.policy == policy]
            with self._failing(part):
                for cell in part:
                    task, fit_task = self.tasks[cell.task][2], self.tasks[cell.fit.task][2]
                    fitted = key(keys.fit_facts(evaluation, cell.fit, fit_task, self.plan.training))
                    folder = self.store.fit_folder(cell.fit, fitted).relative_to(self.store.path)
                    self.references[cell] = {"fit": folder.as_posix(), **shared}
                    self.key_facts[cell] = keys.cell_facts(
                        evaluation, cell, task, fitted, self.plan.scoring
                    )
        self.cells = [c for c in self.cells if c in self.key_facts]
        self.store.add_keys({c.identity: key(self.key_facts[c]) for c in self.cells})

    def _is_over(self, evaluation: Evaluation, cell: Cell) -> bool:
        """Whether a cell is finished already or cannot run; the latter is stored and reported."""
        if self.store.folder(cell) is not None:
            self.reporter.finished(cell, earlier=True)
            return True
        reason = evaluation.refusal(cell, self.plan.scoring)
        if reason is not None:
            self.store.give_reason(cell, "skipped", reason)
            self.reporter.skipped(cell, reason)
        return reason is not None
