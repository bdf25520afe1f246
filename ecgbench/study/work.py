"""Computes the cells of one job. A failing model costs its own cells and no others."""

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np

from ecgbench import models, policies
from ecgbench.cards.cell import Cell
from ecgbench.core import provenance
from ecgbench.core.files import quarantine, warnings_to
from ecgbench.core.folders import finished
from ecgbench.core.keys import grouped
from ecgbench.core.registry import same_directory
from ecgbench.core.restored import restored
from ecgbench.core.text import counted, quoted, shortened
from ecgbench.data.people import people
from ecgbench.data.prepare import prepare
from ecgbench.data.select import Selection
from ecgbench.errors import STOPS, BadWeights, EcgbenchError, LeakError, PolicyError, WriteError
from ecgbench.evaluate import gates, network, protocols
from ecgbench.evaluate.batches import TOLERANCE, alone_and_together, repeats
from ecgbench.evaluate.device import choose
from ecgbench.evaluate.encode import SHARED_TOLERANCE, Encoder
from ecgbench.evaluate.evaluation import Evaluation
from ecgbench.evaluate.features import NOT_OF_THE_RECORDING
from ecgbench.evaluate.fits import Fitting
from ecgbench.policies.hide import Policy
from ecgbench.study import controls, same_network
from ecgbench.study.cell import CellRequest, compute
from ecgbench.study.engines import Event
from ecgbench.study.facts import dataset_facts, network_facts
from ecgbench.study.jobs import Job, enter
from ecgbench.study.progress import Reporter
from ecgbench.study.store import Store, noted, outdate
from ecgbench.study.verify import Intact
from ecgbench.weights import released
from ecgbench.weights.load import digest

FATAL = (BadWeights, WriteError, LeakError, gates.GateError)
"""Errors that stop the run, because the user must correct them, or that disqualify a model: none of
its numbers can be trusted, and all cells of its job fail.
"""
_LIMITED = (PolicyError, gates.FitError)
"""Of these, errors that fail the current cells only."""
LONGEST_REASON, LONGEST_TRACE = 500, 20_000
"""Characters of what an exception says that are kept."""
WAIT = 1.0
"""Seconds between two checks whether another run still computes the same job."""


def _is_fatal(error: BaseException) -> bool:
    return isinstance(error, (*FATAL, *STOPS)) and not isinstance(error, _LIMITED)


def reason_of(error: BaseException) -> str:
    r"""The message of an exception as one line for a terminal.

    >>> reason_of(ValueError("no memory:\n  you asked\tfor \x1b[31mmuch"))
    'ValueError: no memory: you asked for U+001B[31mmuch'
    """
    reason = str(error) if isinstance(error, EcgbenchError) else f"{type(error).__name__}: {error}"
    return shortened(reason[: 4 * LONGEST_REASON], LONGEST_REASON)


def work(job: Job, send: Callable[[Event], None]) -> None:
    """Compute a job, and leave a reason for each cell without a number. EcgbenchError for errors
    that stop the whole run.
    """
    provenance.code()  # kept from now on: the checkout may change while the job runs
    reporter = Reporter(send)
    with same_directory(), warnings_to(reporter.note), _alone(job, send):
        enter(job)
        with restored("job", job.name):  # the next job may be in this process
            _CellComputation(job, reporter)()


@contextmanager
def _alone(job: Job, send: Callable[[Event], None]) -> Iterator[None]:
    """Once no other run computes the same job."""
    store = Store(job.folders.out)
    for again in count():
        with store.claim(job.name) as mine:
            if mine:
                yield
                return
        if not again:
            send(("note", f"{job.model} on {job.dataset}: another command has it; waiting"))
        send(("wait",))
        time.sleep(WAIT)


def open_evaluation(job: Job, reporter: Reporter) -> Evaluation:
    """The model on the dataset of the job."""
    plan, folders = job.plan, job.folders
    precision = protocols.of_the_encoder(plan.training)
    built = network.build(job.model, job.weights, choose(job.device), precision)
    contract = built.card.contract(plan.fits[0].contract)
    for layout in built.licensed:
        released.show_terms(layout, reporter.note)
    where = job.dataset, folders.data, folders.prepared
    copy = prepare(*where, limit=plan.limit, fix=plan.fix, division=plan.division)
    permutation = controls.permutation(plan.control)
    few = controls.labelled(plan.control)
    selection = Selection(copy, plan.limit, plan.exclude, permutation=permutation, few=few)
    store = Store(folders.out, folders.shared)
    return Evaluation(
        network=built,
        contract=contract,
        selection=selection,
        training=plan.training,
        features=store.shared_features(built.name, copy.name),
        run_features=store.features_folder(built.name, copy.name),
        progress=reporter,
        keep_views=job.settings.views == "keep",
        change=plan.control if plan.control == controls.PHASES else "",
        tabular=_tabular(plan.control, selection),
    )


def _tabular(control: str, selection: Selection) -> np.ndarray | str | None:
    """What a shortcut knows of the used records from the tables of the dataset."""
    named = controls.named(control)
    if named is None or not named.tabular:
        return None
    known = people(selection.prepared).iloc[selection.index.index]
    shortcut: Any = models.get(control)
    features: np.ndarray | str = shortcut.features(known)
    return features


def _demand_alone_as_together(evaluation: Evaluation) -> None:
    """EcgbenchError where features of a model from outside depend on the windows beside theirs."""
    own, contract = evaluation.network, evaluation.contract
    if models.ROOM.built_in(own.name):
        return
    repeated = True
    tolerance = TOLERANCE if own.device == "cpu" else SHARED_TOLERANCE
    worst = limit = 0.0
    with suppress(Exception):  # its cells say what it cannot do
        exact = replace(own, precision="float32").encoder
        encoder = Encoder(exact, contract, Policy(contract.policy, None))
        repeated = repeats(encoder)
        worst, limit = alone_and_together(encoder, tolerance)
    if digest(own.module) != own.sha256:
        return  # it is disqualified
    again = f"ecgbench check model {quoted(models.ROOM.argument(own.name))}"
    if not repeated:
        raise EcgbenchError(
            f"{own.name}: two passes over one input give other features: chance, no leak (dropout "
            f"that stays on, a mask that is drawn); draw only where self.training: {again}"
        )
    if worst > limit:
        raise EcgbenchError(
            f"{own.name}: features of three windows in one batch and of each by itself differ "
            f"by {worst:.2g}, more than {limit:.2g}; a window must not change another's "
            f"(a norm without running statistics): {again}"
        )


class _CellComputation:
    """The cells of a job, one stage after the other."""

    def __init__(self, job: Job, reporter: Reporter) -> None:
        self.job, self.reporter, self.store = job, reporter, Store(job.folders.out)
        self.plan = job.plan
        self.requests: dict[Cell, CellRequest] = {}
        """Cells whose keys are known."""
        self.lost: set[Cell] = set()
        """Cells that failed in this job."""
        self.over: set[Cell] = set()
        """Cells that were there, or cannot run."""
        self.by_fold: dict[str, Evaluation] = {}
        """The model on its dataset, for each fold of the job."""
        self._changed: dict[Evaluation, Evaluation] = {}
        """The same with changed recordings."""

    def __call__(self) -> None:
        self._set_edited_aside()
        try:
            with self._failing(self.plan.cells):
                models.get(self.job.model)  # a plug-in's import may fail in any way
                evaluation = open_evaluation(self.job, self.reporter)
                _demand_alone_as_together(evaluation)
                self._demand_same_network(evaluation)
                self.by_fold = evaluation.by_fold(self.plan.folds)
                self._identify()
                self._compute(self._unfinished())
                own = evaluation.network
                gates.unchanged(own.card.title, own.sha256, digest(own.module))
        except (LeakError, gates.GateError) as error:
            cells = [c for c in self.plan.cells if c not in self.over]
            for folder in filter(None, map(self.store.folder, cells)):
                quarantine(folder, reason_of(error))
            self._fail(cells, error)

    def _set_edited_aside(self) -> None:
        """Cells of another version of a model or policy from outside make room even where that of
        now cannot be loaded: their numbers are of code that is no longer there.
        """
        model = models.ROOM.code_hash(self.job.model)
        for cell in self.plan.cells:
            folder = self.store.cell_folder(cell)
            known, policy = noted(folder), policies.ROOM.code_hash(cell.policy)
            now = {"modules": model, "policy_modules": policy}
            if any(own not in (None, known.get(name, own)) for name, own in now.items()):
                outdate(folder)

    @cached_property
    def _intact(self) -> Intact:
        return Intact(self.store)

    def _demand_same_network(self, evaluation: Evaluation) -> None:
        facts = evaluation.facts(evaluation.contract.policy)
        runs = self.store.path, self.job.folders.shared or self.store.path
        try:
            same_network.demand(evaluation.network, evaluation.contract, facts, runs, keep=True)
        except EcgbenchError:  # what is stored is of the other one
            for folder in filter(finished, map(self.store.cell_folder, self.plan.cells)):
                outdate(folder)
            raise

    def _unfinished(self) -> list[Cell]:
        """The cells that are left to do."""
        known = [c for c in self.plan.cells if c in self.requests and c not in self.lost]
        for folder in dict.fromkeys(self.requests[c].fitting.folder for c in known):
            if finished(folder):
                self._intact.fit(folder)
        return [c for c in known if not self._is_over(c)]

    def _compute(self, todo: list[Cell]) -> None:
        frozen = protocols.get(self.plan.training.protocol).frozen
        for part in grouped(todo, lambda c: c.fit).values():
            with self._failing(part):
                self._begin(part)
                fitting = self.requests[part[0]].fitting
                if frozen:
                    fitting.features()
                    continue
                tuned = fitting.tuned()
                for cells in grouped(part, lambda c: c.policy).values():
                    self._policy(tuned, cells)
                tuned.forget()
        todo = [c for c in todo if frozen and c not in self.lost]
        for (fold, _), cells in grouped(todo, lambda c: (c.fit.fold, c.policy)).items():
            self._policy(self.by_fold[fold], cells)

    def _begin(self, cells: Sequence[Cell], together: bool = False) -> None:
        """Say which cells are lost if the process ends now. together: one of them may be at fault,
        so each is then tried alone.
        """
        self.reporter.send(("cells", tuple(c.identity for c in cells), together))

    def _policy(self, evaluation: Evaluation, cells: list[Cell]) -> None:
        """Test windows of all cells of a policy together, then each cell alone."""
        scoring, policy = self.plan.scoring, cells[0].policy
        evaluation = self._tested(evaluation)
        self._begin(cells, len(cells) > 1)
        wanted = [evaluation.rows(c, scoring) for c in cells]
        what, singly = f"test windows, {policy}", scoring.draw == "window"
        try:
            evaluation.compute(policy, np.concatenate(wanted), what, singly)
        except BaseException as error:  # a plug-in may raise SystemExit
            if _is_fatal(error):
                raise
            # perhaps one lead setting is at fault: each cell computes again what it needs
            self.reporter.note(
                f"{evaluation.name}: {what}: {reason_of(error)}; going on cell by cell"
            )
        for cell, needed in zip(cells, wanted, strict=True):
            self._begin([cell])
            with self._failing([cell]):
                evaluation.compute(policy, needed, what, singly)
                macro = compute(evaluation, self.requests[cell])
                same = evaluation.cache(cell.policy).constant
                more = f"; {NOT_OF_THE_RECORDING}" if same else ""
                self.reporter.note(f"{cell.label}: macro {100 * macro:.1f}{more}")

    @contextmanager
    def _failing(self, cells: Sequence[Cell]) -> Iterator[None]:
        """An error inside fails these cells and no others, unless it stops the run or disqualifies
        the model.
        """
        try:
            yield
        except BaseException as error:
            if _is_fatal(error):
                raise
            self._fail(cells, error)

    def _fail(self, cells: Sequence[Cell], error: BaseException) -> None:
        self.lost.update(cells)
        trace = "".join(traceback.format_exception(error))[-LONGEST_TRACE:]
        without = [c for c in cells if self.store.folder(c) is None]
        for cell in without:
            self.store.give_reason(cell, "failed", reason_of(error), trace)
        if kept := len(cells) - len(without):
            text = f"{self.job.model}: {counted(kept, 'cell')} could not be compared with what "
            text += f"would be computed now, and stay as they are: {reason_of(error)}"
            self.reporter.send(("uncompared", text))

    def _identify(self) -> None:
        """The keys of the cells before anything is computed, and the facts they share, stored."""
        shared = {
            fold: {
                "model": self.store.add_facts("models", network_facts(evaluation)),
                "dataset": self.store.add_facts("datasets", dataset_facts(evaluation.selection)),
            }
            for fold, evaluation in self.by_fold.items()
        }
        fittings = {f: Fitting(self.by_fold[f.fold], f, self.store) for f in self.plan.fits}
        for part in grouped(self.plan.cells, lambda c: c.policy).values():
            with self._failing(part):
                for cell in part:
                    request = CellRequest(
                        cell=cell,
                        fitting=fittings[cell.fit],
                        job=self.job,
                        store=self.store,
                        facts=shared[cell.fit.fold],
                    )
                    self.store.set_aside(cell, request.key)
                    self.requests[cell] = request

    def _is_over(self, cell: Cell) -> bool:
        """Whether a cell is finished already or cannot run, which is stored. One whose fit is gone
        is computed once more, which makes the fit; what is stored of it stays.
        """
        finished_already = self._intact.cell(cell) and finished(self.requests[cell].fitting.folder)
        if not finished_already:
            evaluation = self._tested(self.by_fold[cell.fit.fold])
            reason = evaluation.refusal(cell, self.plan.scoring)
            if not reason:
                return False
            self.store.give_reason(cell, "skipped", reason)
        self.over.add(cell)
        return True

    def _tested(self, evaluation: Evaluation) -> Evaluation:
        """With the test recordings of a control that changes them and reuses fits."""
        if not controls.reuses_fits(self.plan.control):
            return evaluation
        if evaluation not in self._changed:
            self._changed[evaluation] = evaluation.changed(self.plan.control)
        return self._changed[evaluation]
