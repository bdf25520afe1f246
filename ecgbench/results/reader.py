"""Reads a run folder: which cells are finished, what they rest on, and rows of them."""

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from mmap import mmap
from pathlib import Path
from typing import Any

from ecgbench import metrics as room
from ecgbench.core.cards import MetricCard
from ecgbench.core.cells import RANDOM, Cell, Plan, grouped
from ecgbench.core.parallel import on_all_cores
from ecgbench.errors import BadSetting, Damaged
from ecgbench.evaluate import protocols
from ecgbench.results.compare import FEWER, Row, compare
from ecgbench.results.origin import UNCOMMITTED
from ecgbench.results.score import Scored, counted
from ecgbench.results.scorer import Scorer
from ecgbench.study.store import Status, Store
from ecgbench.study.stored import Result
from ecgbench.study.verify import Verifier, fault

Facts = dict[str, Any]
_AT_ONCE = 64
"""Cells that are compared with their hashes in one piece."""
_GRAVEST: Sequence[Status] = ("failed", "damaged", "skipped", "ok")
"""Of the states of its cells, a row has the one that stands first; one that is not computed yet
counts as failed.
"""
_STATUS: Mapping[str, Status] = {"missing": "failed"}
WITHIN = (
    "mean of {} folds, each trained by itself; how much other training records would change it is "
    "not in the interval, and p is smaller by that"
)
"""The note of a row over folds."""
EMPTY = "; in the others no label has both values"


class Reader:
    """Reads one run."""

    @classmethod
    def of(cls, path: Path, metrics: Sequence[str] = (), tasks: Sequence[str] = ()) -> "Reader":
        """Of a run folder; `metrics` and `tasks` as `study.read` says. MissingData when there is no
        run.
        """
        run = Store(path)
        plan = run.existing_plan()
        return cls(run, plan.of_tasks(tasks), _chosen(plan, metrics), plan)

    def __init__(
        self, run: Store, plan: Plan, metrics: tuple[str, ...], whole: Plan | None = None
    ) -> None:
        """plan: what is read; whole: all that the run asked for, if that is more."""
        self.run, self.plan, self.metrics, self.whole = run, plan, metrics, whole or plan
        self.cards: dict[str, MetricCard] = {m: room.card(m) for m in metrics}
        self.damaged: dict[str, str] = {}
        """Identity of a finished cell that cannot be believed -> why, and what to do."""
        self.verifier = Verifier.of(run)
        self.results = self._believed()
        """Identity -> every other finished cell."""
        self.models, self.datasets, patients = self._facts()
        self.score = Scorer(run=run.path, scoring=plan.scoring, patients=patients)

    def _believed(self) -> dict[str, Result]:
        finished = [
            Result(cell=cell, run=self.run.path, folder=folder)
            for cell in self.plan.cells
            if (folder := self.run.folder(cell))
        ]

        known = [""] * len(finished)
        sound = mmap(-1, len(finished) + 1)  # which processes that are forked write in, too

        def look(start: int) -> None:
            for place in range(start, min(start + _AT_ONCE, len(finished))):
                sound[place] = not fault(self.verifier.demand_files, finished[place])

        def read() -> None:
            known[:] = (str(fault(self.verifier.demand_documents, one) or "") for one in finished)

        starts = range(0, len(finished), _AT_ONCE) if len(finished) > _AT_ONCE else ()
        on_all_cores([partial(look, start) for start in starts], meanwhile=read)
        # what no process has found sound is looked at here, so that it says what is wrong
        found = [
            why or ("" if sound[place] else str(fault(self.verifier.demand_files, result) or ""))
            for place, (result, why) in enumerate(zip(finished, known))
        ]
        self.damaged |= {r.cell.identity: why for r, why in zip(finished, found) if why}
        return {r.cell.identity: r for r, why in zip(finished, found) if not why}

    @cached_property
    def settings(self) -> dict[tuple[str, str], list[Cell]]:
        """(task, leads as typed) -> its cells: what is compared with one another."""
        return grouped(self.plan.cells, lambda cell: (cell.task, cell.setting.typed))

    def state(self, cell: Cell) -> tuple[str, str]:
        """(status, reason) of a cell: ok, damaged, or as the run says."""
        if cell.identity in self.results:
            return "ok", ""
        if why := self.damaged.get(cell.identity):
            return "damaged", why
        return self.run.state(cell)

    def scored(self, cell: Cell, metric: str) -> Scored | None:
        """None where a cell has no number."""
        if result := self.results.get(cell.identity):
            try:
                return self.score(result, metric)
            except Damaged as error:  # its hashes fit, and its values cannot be
                self.damaged[cell.identity] = str(error)
                del self.results[cell.identity]
        return None

    def rows(self, cells: Sequence[Cell]) -> list[Row]:
        """Rows of the main table: seeds, fits and folds of one metric, task, model, setting and
        policy together; each compared with the best of its setting, with p as it is.
        """
        together = grouped(cells, lambda c: (c.task, c.fit.model, c.setting.typed, c.policy))
        rows = [self._row(metric, own) for metric in self.cards for own in together.values()]
        for mine in grouped(rows, lambda row: row.setting).values():
            compare(mine, self.rescored, self.score.evidence)
        return rows

    def _row(self, metric: str, cells: Sequence[Cell]) -> Row:
        first = cells[0]
        model = first.fit.model
        weights = self.models.get(model, {}).get("weights") or first.fit.weights
        scored = [one for one in (self.scored(cell, metric) for cell in cells) if one]
        states = [self.state(cell)[0] for cell in cells]
        results = [self.results[c.identity] for c in cells if c.identity in self.results]
        row = Row(
            metric=metric,
            task=first.task,
            model=model,
            leads=first.setting.typed,
            policy=first.policy,
            sign=self.cards[metric].sign,
            weights=weights,
            untrained=protocols.is_frozen(self.plan.training.protocol) and weights == RANDOM,
            cells=scored,
            status=min((_STATUS.get(state, state) for state in states), key=_GRAVEST.index),
            marks=list(dict.fromkeys(mark for r in results for mark in r.marks)),
        )
        row.notes = self._conditions(row)
        if any(r.uncommitted for r in results):
            row.notes.append(UNCOMMITTED)
        lost = {r.cell.fit.fold: r.document.get("lacking_leads", 0) for r in results}
        if lacking := sum(lost.values()):
            row.notes.append(f"{lacking} test records without these leads are left out")
        # of a cross-validation each fold states the records of all folds
        known = [self.verifier.datasets[r.document["dataset"]]["test_records"] for r in results]
        if results and row.records + lacking < max(known):
            row.notes.append(f"{FEWER}{row.records} of {max(known)} records")
        return row

    def _conditions(self, row: Row) -> list[str]:
        """What the number of a row rests on."""
        notes = []
        used, folds = ({c.cell.fit.fold for c in s} for s in (counted(row.cells), row.cells))
        for data in (d for d in self.datasets.values() if row.task in d["tasks"]):
            if data["limit"] is not None and data["records"] < data["records_prepared"]:
                notes.append("limited: the records chosen favour rare labels")
            if used < folds:
                notes.append(WITHIN.format(f"{len(used)} of {len(folds)}") + EMPTY)
            elif data.get("folds"):
                notes.append(WITHIN.format(data["folds"]))
            if not data.get("patients_known", True):
                notes.append("records taken as independent: the interval may be too narrow")
        return notes

    def rescored(self, scored: Scored, names: frozenset[str]) -> Scored:
        """A cell scored again, on some of its records."""
        return self.score(self.results[scored.cell.identity], scored.metric, names)

    def _facts(
        self,
    ) -> tuple[dict[str, Facts], dict[str, Facts], dict[tuple[str, str], tuple[str, ...]]]:
        """Facts of models and of datasets by name, those that cells rest on before others, and who
        is drawn: the test patients of each dataset and fold, whichever of them a cell has.
        """
        models, datasets = self.verifier.models, self.verifier.datasets
        model = {facts["name"]: facts for facts in models.values()}
        dataset = {facts["name"]: facts for facts in datasets.values()}
        selections: dict[tuple[str, str], set[str]] = {}
        for r in self.results.values():
            document = r.document
            network, data = models[document["model"]], datasets[document["dataset"]]
            model[network["name"]] = {**network, "windows": document["windows"]}
            dataset[data["name"]] = data
            # of few selections, on which thousands of cells rest
            selections.setdefault((data["name"], r.cell.fit.fold), set()).add(document["dataset"])
        patients = {
            where: tuple(sorted({name for each in known for name in datasets[each]["patients"]}))
            for where, known in selections.items()
        }
        return model, dataset, patients


def _chosen(plan: Plan, requested: Sequence[str]) -> tuple[str, ...]:
    """Names of the metrics to read: those requested, else those of the run that this process
    knows.
    """
    if requested:
        return tuple(dict.fromkeys(room.resolve(name) for name in requested))
    known = tuple(name for name in plan.scoring.metrics if name in room.names())
    if not known:
        raise BadSetting(
            f"the metrics of this run are plug-ins; name the file of one: --metrics "
            f"./{plan.scoring.metrics[0]}.py"
        )
    return known
