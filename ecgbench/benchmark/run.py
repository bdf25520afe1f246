"""Compute what a plan lacks: prepare, encode, fit, predict, score, store. A failing cell leaves a reason and the others go on."""

import time
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ecgbench import adapters, datasets, models, provenance
from ecgbench.adapters._adapt import NATIVE
from ecgbench.benchmark import fit, keys
from ecgbench.benchmark.cell import compute
from ecgbench.benchmark.plan import all_tasks
from ecgbench.benchmark.progress import Watcher, paced
from ecgbench.benchmark.selection import Selection
from ecgbench.benchmark.subject import Subject
from ecgbench.cards import facts
from ecgbench.cells import Cell, Plan, key
from ecgbench.datasets._prepare import prepare
from ecgbench.errors import BadWeights, EcgbenchError, LeakError
from ecgbench.inference import network, rows
from ecgbench.models._weights import digest
from ecgbench.results import store as stored
from ecgbench.results.store import Store
from ecgbench.training import gates

FATAL = (BadWeights, LeakError, gates.GateError)
"""What stops the whole run: a number that rests on it could not be trusted."""


@dataclass
class Outcome:
    """What a run did."""

    computed: int = 0
    reused: int = 0
    skipped: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where data are read and results written."""

    data: Path | None
    prepared: Path | None
    out: Path


class Run:
    """One run of a plan into a folder."""

    def __init__(self, plan: Plan, places: Places, watcher: Watcher) -> None:
        self.places, self.watcher, self.store = places, watcher, Store(places.out)
        self.asked, self.tasks, self.outcome = plan, all_tasks(), Outcome()
        self.declared: set[Cell] = set()

    def __call__(self) -> Outcome:
        """Compute every cell that is not finished. Raises what a user must mend; FATAL errors stop the run."""
        with self.store.alone():
            self.plan = self.store.join(self.asked)
            before = self.store.document() or {"facts": {}, "keys": {}}
            self.keys: dict[str, str] = dict(before["keys"])
            self.facts: dict[str, Any] = {"models": {}, "datasets": {}, "tasks": {}, **before["facts"], "provenance": self._provenance()}
            self.cells = [c for c in self.plan.cells if c in set(self.asked.cells) or self._entered(c)]
            pairs = list(dict.fromkeys((c.fit.model, c.fit.weights) for c in self.cells))
            for model, weights in pairs:
                if weights not in (network.RANDOM, network.EITHER):
                    network.build(model, weights)  # a mistake in --weights is found before hours of another model's work
            for model, weights in pairs:
                self._model(model, weights)
            if not self.outcome.computed and before["facts"].get("provenance"):
                self.facts["provenance"] = before["facts"]["provenance"]  # the numbers come from that run
                self._save()
                return self.outcome
            self.facts["provenance"]["seconds"] = round(time.time() - self.facts["provenance"]["started"], 1)
            self._save()
        return self.outcome

    def _provenance(self) -> dict[str, Any]:
        return {"command": provenance.command(), "started": round(time.time(), 1), "seconds": None, "device": "cpu", **provenance.here()}

    def _entered(self, cell: Cell) -> bool:
        """Whether the names of an earlier plan's cell are known to this process; a stranger's are only where its path is given."""
        here = cell.fit.model in models.names() and cell.policy in (*adapters.names(), NATIVE) and cell.task in self.tasks
        if not here:
            self.watcher.note(f"left as it is, for it enters by a path that this command does not name: {cell.label}")
        return here

    def _save(self) -> None:
        self.store.write_plan(self.plan, self.facts, self.keys)

    def _model(self, name: str, weights: str) -> None:
        mine = [c for c in self.cells if (c.fit.model, c.fit.weights) == (name, weights)]
        try:
            built = network.build(name, weights)
        except EcgbenchError:
            raise
        except Exception as error:  # a stranger's network may fail in any way
            self._fail(name, mine, error)
            return
        by_dataset: dict[tuple[str, str], list[Cell]] = {}
        for cell in mine:
            by_dataset.setdefault((self.tasks[cell.task][0], cell.fit.contract), []).append(cell)
        for (dataset, contract), cells in by_dataset.items():
            selection = self._selection(dataset)
            subject = Subject(built, built.card.contract(contract), selection, self.store.path, self.watcher)
            self._subject(subject, cells)
        gates.unchanged(built.card.title, built.sha256, digest(built.module))

    def _selection(self, dataset: str) -> Selection:
        card = datasets.get(dataset).CARD
        prepared = prepare(dataset, self.places.data, self.places.prepared, paced(f"prepare {dataset}", self.watcher.note))
        selection = Selection(prepared, self.plan.limit)
        flat = int((prepared.index.loc[selection.index.index, "flat"] != "").sum())
        self.facts["datasets"][dataset] = {
            **{k: facts(card)[k] for k in ("title", "version", "doi", "licence", "synthetic")},
            "records": len(selection.index), "records_prepared": len(prepared.index), "records_release": card.records,
            "limit": self.plan.limit, "digest": prepared.digest, "flat": flat,
            "test_records": len(selection.of("test")), "test_patients": int(selection.of("test")["patient"].nunique()),
            "quarantined": prepared.quarantined[["record", "reason"]].to_dict("records"),
        }  # fmt: skip
        return selection

    def _subject(self, subject: Subject, cells: list[Cell]) -> None:
        todo: list[Cell] = []
        for policy in dict.fromkeys(c.policy for c in cells):
            part = [c for c in cells if c.policy == policy]
            with self._at_the_cost_of(subject.name, part):
                self._declare(subject, part)
                todo += [c for c in part if not self._settled(subject, c)]
        if not todo:
            return
        with self._at_the_cost_of(subject.name, todo):
            records = [r for split in ("train", "val") for r in subject.records[split]]
            subject.compute(subject.contract.policy, rows.complete(records), "training windows")
            for policy in dict.fromkeys(c.policy for c in todo):
                self._policy(subject, policy, [c for c in todo if c.policy == policy])

    def _policy(self, subject: Subject, policy: str, cells: list[Cell]) -> None:
        scoring, what = self.plan.scoring, f"test windows, {policy}"
        wanted = [subject.rows(c, scoring) for c in cells]
        try:
            subject.compute(policy, np.concatenate(wanted), what, scoring.draw == "window")
        except FATAL:
            raise
        except Exception as error:  # of one lead setting, perhaps: each cell tries again what it needs
            self.watcher.note(f"{subject.name}: {what}: {type(error).__name__}: {error}; going on cell by cell")
        for cell, needed in zip(cells, wanted, strict=True):
            with self._at_the_cost_of(subject.name, [cell]):
                subject.compute(policy, needed, what, scoring.draw == "window")
                task, fit_task = (self.tasks[name][2] for name in (cell.task, cell.fit.task))
                head = fit.head(subject, cell.fit, fit_task, self.plan.training, self.store)
                macro = compute(subject, cell, (task, fit_task), head, scoring, self._folder(cell))
                self.outcome.computed += 1
                self.watcher.note(f"{cell.label}: macro AUROC {100 * macro:.1f}")

    @contextmanager
    def _at_the_cost_of(self, what: str, cells: list[Cell]) -> Iterator[None]:
        """Whatever fails inside costs these cells and no others; FATAL errors stop the run."""
        try:
            yield
        except FATAL:
            raise
        except Exception as error:
            self._fail(what, cells, error)

    def _declare(self, subject: Subject, cells: Iterable[Cell]) -> None:
        """Write down, before anything is computed, what the cells rest on and where they will lie."""
        card, contract = subject.network.card, subject.contract
        self.facts["models"][subject.network.name] = {
            **{k: facts(card)[k] for k in ("title", "summary", "paper", "licence", "parameters", "origin", "choices")},
            "weights": subject.network.weights, "weights_sha256": subject.network.sha256, "contract": facts(contract),
            "windows": subject.windows,
        }  # fmt: skip
        for cell in cells:
            task, fit_task = self.tasks[cell.task][2], self.tasks[cell.fit.task][2]
            fitted = keys.fit_key(subject, cell.fit, fit_task, self.plan.training)
            self.keys[cell.identity] = keys.cell_key(subject, cell, task, fitted, self.plan.scoring)
            self.declared.add(cell)
            self.facts["tasks"][task.name] = {
                "title": task.title, "dataset": subject.selection.prepared.name, "evaluation_only": task.parent is not None,
                "n_labels": len(task.labels),
            }  # fmt: skip
        self._save()

    def _settled(self, subject: Subject, cell: Cell) -> bool:
        """Whether a cell is finished already or cannot run; the latter is stored and said."""
        folder = self._folder(cell)
        if stored.finished(folder):
            self.outcome.reused += 1
            return True
        reason = subject.refusal(cell, self.plan.scoring)
        if reason is not None:
            stored.excuse(folder, stored.SKIPPED, reason)
            self.outcome.skipped.append(f"{cell.label}: {reason}")
            self.watcher.note(f"skipped {cell.label}: {reason}")
        return reason is not None

    def _folder(self, cell: Cell) -> Path:
        return self.store.cell_folder(cell, self.keys[cell.identity])

    def _fail(self, what: str, cells: list[Cell], error: Exception) -> None:
        """Store the reason; a cell that failed before its key was ever known lies under a key of its name. Finished cells stay."""
        unknown = [c for c in cells if c not in self.declared and c.identity not in self.keys]
        self.keys |= {c.identity: key({"undeclared": c.identity}) for c in unknown}
        reason = str(error) if isinstance(error, EcgbenchError) else f"{type(error).__name__}: {error}"
        for cell in cells:
            if not stored.finished(self._folder(cell)):
                stored.excuse(self._folder(cell), stored.FAILED, reason, "".join(traceback.format_exception(error)))
            self.outcome.failed.append(f"{cell.label}: {reason}")
        self.watcher.note(f"failed {len(cells)} cells of {what}: {reason}")
