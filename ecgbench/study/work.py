"""Computes the cells of one job. Where a model fails, its own cells fail and no others."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

import numpy as np

from ecgbench import models
from ecgbench.adapters.hide import Policy
from ecgbench.core import provenance
from ecgbench.core.cells import Cell, Fit, grouped
from ecgbench.core.text import quoted
from ecgbench.errors import BadWeights, EcgbenchError, LeakError, PolicyError, WriteError
from ecgbench.evaluate import gates, protocols, torchrun
from ecgbench.evaluate.batches import TOLERANCE, alone_and_together
from ecgbench.evaluate.encode import SHARED_TOLERANCE, Encoder
from ecgbench.evaluate.evaluation import Evaluation
from ecgbench.evaluate.fits import Fitting
from ecgbench.study import controls, disqualified, frozen, keys, ledger, recomputed
from ecgbench.study.cell import CellRequest, compute
from ecgbench.study.described import dataset_facts, network_facts
from ecgbench.study.events import Failed, Finished, InProgress, Skipped
from ecgbench.study.folders import finished
from ecgbench.study.job import Compute, Job, enter
from ecgbench.study.open_evaluation import open_evaluation
from ecgbench.study.reporter import Reporter, reason_of, trace_of
from ecgbench.study.reused import Reused
from ecgbench.study.store import Store
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


def _demand_alone_as_together(evaluation: Evaluation) -> None:
    """EcgbenchError where features of a model from outside depend on the windows beside theirs."""
    network, contract = evaluation.network, evaluation.contract
    if models.ROOM.built_in(network.name):
        return
    tolerance = TOLERANCE if network.device == "cpu" else SHARED_TOLERANCE
    exact = replace(network, precision="float32").encoder
    worst = limit = 0.0
    with suppress(Exception):  # its cells say what it cannot do
        encoder = Encoder(exact, contract, Policy(contract.policy, None))
        worst, limit = alone_and_together(encoder, tolerance)
    # one that moves is told apart, and disqualified
    if worst > limit and digest(network.module) == network.sha256:
        raise EcgbenchError(
            f"{network.name}: features of three windows in one batch and of each by itself differ "
            f"by {worst:.2g}, more than {limit:.2g}; a window must not change another's: "
            f"ecgbench check model {quoted(models.ROOM.argument(network.name))}"
        )


def take_part() -> None:
    """In every process of torchrun but the first: do this process's share of each fine-tuning,
    until the first process has finished.
    """
    while (message := torchrun.hear()) is not None:
        job = Job.from_json(message["job"])
        assert isinstance(job, Compute)
        enter(job)
        _share(job)


def _share(job: Compute) -> None:
    mine = _CellComputation(job, Reporter(job.id, lambda event: None))
    fit = job.plan.fits[0]
    evaluation = open_evaluation(job, mine.reporter).by_fold([fit.fold])[fit.fold]
    mine.fitting(evaluation, fit).train()


class _CellComputation:
    """The cells of a job, one stage after the other."""

    def __init__(self, job: Compute, reporter: Reporter) -> None:
        self.job, self.reporter, self.store = job, reporter, Store(job.folders.out)
        self.plan = job.plan
        self.frozen = protocols.get(job.plan.training.protocol).frozen
        self.requests: dict[Cell, CellRequest] = {}
        """Cells whose keys are known."""
        self.lost: set[Cell] = set()
        """Cells that failed in this job."""
        self.fitless: list[Cell] = []
        """Finished cells whose fit is gone, or was set aside."""
        self.by_fold: dict[str, Evaluation] = {}
        """The model on its dataset, for each fold of the job."""

    def __call__(self) -> None:
        identity, model = "", self.job.model
        try:
            with self._failing(self.plan.cells):
                models.get(model)  # a plug-in's import may fail in any way
                evaluation = open_evaluation(self.job, self.reporter)
                network, identity = evaluation.network, disqualified.identity(evaluation)
                reason = disqualified.reason_against(self.store.path, model, identity)
                if reason is not None:
                    self.reporter.disqualified(reason, "")
                    return
                _demand_alone_as_together(evaluation)
                self.by_fold = evaluation.by_fold(self.plan.folds)
                self._fit_for_all()
                self._identify()
                known = [c for c in self.plan.cells if c in self.requests and c not in self.lost]
                self.store.add_keys({c.identity: self.requests[c].key for c in known})
                self.reused = Reused(self.store, self.reporter.note)
                for fitting in dict.fromkeys(self.requests[c].fitting for c in known):
                    self.reused.fit(fitting.folder)
                todo = [c for c in known if not self._is_over(c)]
                there = [self.requests[c].key for c in known if self.store.folder(c)]
                self.store.add_finished(there, at=0.0)
                self._note(todo)
                self._fit_again()
                (self._frozen if self.frozen else self._finetune)(todo)
                gates.unchanged(network.card.title, network.sha256, digest(network.module))
                for layout in network.licensed if not self.lost else ():
                    released.note_terms(model, layout)
        except DISQUALIFIES as error:
            reason, trace = reason_of(error), trace_of(error)
            if identity:
                disqualified.disqualify(self.store.path, model, identity, reason, trace)
            self.reporter.disqualified(reason, trace)

    def _note(self, todo: Sequence[Cell]) -> None:
        """In the ledgers: which test splits are about to be scored with this network."""
        lines = []
        for (fold, task), cells in grouped(todo, lambda c: (c.fit.fold, c.task)).items():
            evaluation = self.by_fold[fold]
            selection = evaluation.selection
            lines.append(
                ledger.Scoring(
                    test=selection.tested,
                    dataset=selection.prepared.name,
                    records=len(selection.of("test")),
                    fold=fold,
                    task=task,
                    model=self.job.model,
                    weights=evaluation.network.sha256,
                    contract=cells[0].fit.contract,
                    protocol=self.plan.training.protocol,
                    run=self.store.path.resolve().name,
                    date=provenance.date(),
                    frozen=frozen.hash_of(self.store.path),
                )
            )
        if lines:
            machine = self.by_fold[todo[0].fit.fold].selection.prepared.folder.parent
            ledger.note(lines, self.store.path, machine)

    def fitting(self, evaluation: Evaluation, fit: Fit) -> Fitting:
        """A fit of the job."""
        return Fitting(evaluation, fit, self.store)

    def _fit_for_all(self) -> None:
        """Fits that serve every policy, before the code of a policy from outside is in this
        process.
        """
        foreign = {name for room, name in self.job.foreign if room == "adapters"}
        cells = [c for c in self.plan.cells if c.policy in foreign and not c.fit.policy]
        reused = Reused(self.store, self.reporter.note)
        for fit, part in grouped(cells, lambda c: c.fit).items():
            fitting = self.fitting(self.by_fold[fit.fold], fit)
            if reused.fit(fitting.folder):
                continue
            with self._failing(part):
                self.reporter.tell(InProgress, part, False)
                self._fitted(fitting)

    def _fit_again(self) -> None:
        """Fits on which finished cells rest that are there no longer; the cells stay."""
        for part in grouped(self.fitless, lambda c: c.fit).values():
            with self._failing(part):
                self.reporter.tell(InProgress, part, False)
                self._fitted(self.requests[part[0]].fitting)
                self.reporter.tell(Finished, part)

    def _fitted(self, fitting: Fitting) -> None:
        """Leave a fit in the store."""
        if self.frozen:
            fitting.features()
            fitting.head()
        else:
            self._tuned(fitting).forget()

    def _tuned(self, fitting: Fitting) -> Evaluation:
        whole = [c for c in self.plan.cells if c.fit == fitting.fit]
        message = {"job": self.job.of(whole).to_json()}
        return fitting.tuned(partial(torchrun.call, message))

    def _frozen(self, todo: list[Cell]) -> None:
        for part in grouped(todo, lambda c: c.fit).values():
            with self._failing(part):
                self.reporter.tell(InProgress, part, False)
                self.requests[part[0]].fitting.features()
        todo = [c for c in todo if c not in self.lost]
        for (fold, _), cells in grouped(todo, lambda c: (c.fit.fold, c.policy)).items():
            self._policy(self.by_fold[fold], cells)

    def _finetune(self, todo: list[Cell]) -> None:
        for part in grouped(todo, lambda c: c.fit).values():
            with self._failing(part):
                self.reporter.tell(InProgress, part, False)
                tuned = self._tuned(self.requests[part[0]].fitting)
                for cells in grouped(part, lambda c: c.policy).values():
                    self._policy(tuned, cells)
                tuned.forget()

    def _policy(self, evaluation: Evaluation, cells: list[Cell]) -> None:
        """Test windows of all cells of a policy together, then each cell alone."""
        scoring, policy = self.plan.scoring, cells[0].policy
        if self.plan.control == controls.LEADS:
            evaluation = evaluation.changed(controls.LEADS)
        self.reporter.tell(InProgress, cells, len(cells) > 1)
        wanted = [evaluation.rows(c, scoring) for c in cells]
        what, singly = f"test windows, {policy}", scoring.draw == "window"
        together, checked = np.concatenate(wanted), False
        try:
            evaluation.compute(policy, together, what, singly)
            recomputed.check(evaluation, self.job, policy, together)
            checked = True
        except Exception as error:
            if _is_fatal(error):
                raise
            # perhaps one lead setting is at fault: each cell computes again what it needs
            self.reporter.note(
                f"{evaluation.name}: {what}: {reason_of(error)}; going on cell by cell"
            )
        for cell, needed in zip(cells, wanted, strict=True):
            self.reporter.tell(InProgress, [cell], False)
            with self._failing([cell]):
                evaluation.compute(policy, needed, what, singly)
                if not checked:
                    recomputed.check(evaluation, self.job, policy, needed)
                macro = compute(evaluation, self.requests[cell])
                self.reporter.tell(Finished, [cell])
                self.reporter.note(f"{cell.label}: macro {100 * macro:.1f}")

    @contextmanager
    def _failing(self, cells: Sequence[Cell]) -> Iterator[None]:
        """An error inside fails these cells and no others, unless it stops the run or disqualifies
        the model.
        """
        try:
            yield
        except Exception as error:
            if _is_fatal(error):
                raise
            self.lost.update(cells)
            reason, trace = reason_of(error), trace_of(error)
            for cell in (c for c in cells if self.store.folder(c) is None):
                self.store.give_reason(cell, "failed", reason, trace)
            self.reporter.tell(Failed, cells, reason, trace)

    def _identify(self) -> None:
        """The keys of the cells before anything is computed, and the facts they share, stored."""
        shared = {
            fold: {
                "model": self.store.add_facts("models", network_facts(evaluation)),
                "dataset": self.store.add_facts("datasets", dataset_facts(evaluation.selection)),
            }
            for fold, evaluation in self.by_fold.items()
        }
        fittings = {fit: self.fitting(self.by_fold[fit.fold], fit) for fit in self.plan.fits}
        for part in grouped(self.plan.cells, lambda c: c.policy).values():
            with self._failing(part):
                for cell in part:
                    own = shared[cell.fit.fold]
                    self.requests[cell] = self._request(fittings[cell.fit], cell, own)

    def _request(self, fitting: Fitting, cell: Cell, shared: dict[str, str]) -> CellRequest:
        task = fitting.evaluation.selection.prepared.task(cell.task)
        scoring = self.plan.scoring
        folder = fitting.folder.relative_to(self.store.path)
        return CellRequest(
            cell=cell,
            task=task,
            fitting=fitting,
            store=self.store,
            scoring=scoring,
            key_facts=keys.cell_facts(
                fitting.evaluation, cell, task, fitting.key, scoring, self.plan.control
            ),
            references={"fit": folder.as_posix(), **shared},
            keep_features=self.job.keep_features,
            pinned=self.job.pin_environment,
            recomputed=recomputed.wanted(fitting.evaluation, self.job, cell.policy),
        )

    def _is_over(self, cell: Cell) -> bool:
        """Whether a cell is finished already or cannot run; the latter is stored and reported."""
        evaluation = self.by_fold[cell.fit.fold]
        if self.reused.cell(cell):
            if finished(self.requests[cell].fitting.folder):
                self.reporter.tell(Finished, [cell])
            else:
                self.fitless.append(cell)
        elif reason := evaluation.refusal(cell, self.plan.scoring):
            self.store.give_reason(cell, "skipped", reason)
            self.reporter.tell(Skipped, [cell], reason)
        else:
            return False
        return True
