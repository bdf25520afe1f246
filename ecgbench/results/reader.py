"""Reads a run folder: which cells are finished, what they rest on, and rows of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from ecgbench import metrics as room
from ecgbench.cards.cell import NONE, RANDOM, Cell
from ecgbench.cards.plan import Plan
from ecgbench.cards.rooms import MetricCard
from ecgbench.core.keys import grouped
from ecgbench.core.note import Note
from ecgbench.core.parallel import on_all_cores
from ecgbench.data import contamination
from ecgbench.ecg.draw import Fixed
from ecgbench.errors import BadSetting, Damaged
from ecgbench.evaluate import protocols
from ecgbench.results import beside
from ecgbench.results.compare import Row, compare
from ecgbench.results.origin import UNCOMMITTED
from ecgbench.results.score import Scored, counted
from ecgbench.results.scorer import Scorer
from ecgbench.study import lent
from ecgbench.study.scores import COLUMNS
from ecgbench.study.store import Status, Store
from ecgbench.study.stored import Result
from ecgbench.study.verify import Verifier, fault

Facts = dict[str, Any]
_AT_ONCE = 64
"""Cells that are compared with their hashes in one piece."""
_GRAVEST: Sequence[Status] = ("missing", "failed", "damaged", "skipped", "ok")
"""Of the states of its cells, a row has the one that stands first; one that is not computed yet
counts as failed.
"""
WITHIN = "mean of {} folds; the interval allows for what folds that train one another share"
"""The note of a row over folds."""

CELL_COLUMNS = (
    *("task", "model", "leads", "setting", "seed", "fit_seed", "fold", "policy", "weights"),
    *("seen", "status", "reason", "metric", "value", "low", "high", "value_distinct", "n_records"),
    *("windows", "seconds", "blind", "excluded", "environment", "lost", "commit", "uncommitted"),
    *("key", "path"),
)
_OF_CELL = ("task", "model", "setting", "fit_seed", "fold", "policy", "weights", "seen", "metric")
_OF_LABEL = ("label", *COLUMNS)
LABEL_COLUMNS = (*_OF_CELL, *_OF_LABEL, "same_as")


_SEEN: dict[contamination.Relation, str] = {
    **dict.fromkeys(("equal", "contains"), "yes"),
    **dict.fromkeys(("part", "overlaps"), "part"),
    "unknown": "unknown",
    "none": "no",
}


class Reader:
    """Reads one run."""

    @classmethod
    def of(
        cls,
        path: Path,
        metrics: Sequence[str] = (),
        tasks: Sequence[str] = (),
        others: Sequence[Path] = (),
    ) -> "Reader":
        """Of a run folder; the others as `study.read` says. MissingData when there is no run."""
        run = Store(path)
        plan = run.existing_plan()
        made = cls(run, plan.of_tasks(tasks), _chosen(plan, metrics), plan)
        for folder in others:
            made.join(cls.of(folder, tuple(made.cards)))
        return made

    def __init__(
        self, run: Store, plan: Plan, metrics: tuple[str, ...], whole: Plan | None = None
    ) -> None:
        """plan: what is read; whole: all that the run asked for, if that is more."""
        self.run, self.plan, self.whole = run, plan, whole or plan
        self.cards: dict[str, MetricCard] = {m: room.card(m) for m in metrics}
        self.damaged: dict[str, str] = {}
        """Identity of a finished cell that cannot be believed -> why, and what to do."""
        self.verifier = Verifier.of(run)
        self.results = self._believed()
        """Identity -> every other finished cell."""
        self.lent = lent.read(run.path)
        self.by: dict[str, str] = {}
        """Identity of a cell that others measured -> who."""
        if self.lent:
            self._demand_as_sent()
        self._take_facts()

    def _take_facts(self) -> None:
        self.models, self.datasets, patients = self._facts()
        tasks = {t: facts for d in self.datasets.values() for t, facts in d["tasks"].items()}
        codes = {task: facts.get("codes", {}) for task, facts in tasks.items()}
        self.score = Scorer(scoring=self.plan.scoring, patients=patients, codes=codes)

    def join(self, other: "Reader") -> None:
        """Take in the cells of a run of others; BadSetting as `beside.taken` says."""
        found = beside.taken(self, other)
        cells = tuple(one.cell for one in found.results.values())
        self.plan = self.plan.joined(replace(other.plan, cells=cells)).powered()
        self.results |= found.results
        self.by |= found.by
        self.verifier.models.update(found.models)
        self._take_facts()

    def _demand_as_sent(self) -> None:
        """BadSetting where what others sent is not what they wrote; marks the titles of models."""
        sent, has = self.lent["cells"], self.results
        there = {c.identity: has.get(c.identity) for c in self.plan.cells}
        if changed := [n for n, one in there.items() if sent.get(n) != (one and one.content)]:
            raise BadSetting(
                f"{self.run.path}: the predictions of {changed[0]} are not as they were exported; "
                f"ask who sent them for another export"
            )
        self.by = dict.fromkeys(has, str(self.lent["by"]))
        for facts in self.verifier.models.values():
            facts["title"] = f"{facts['title']} ({lent.MARK})"

    def _believed(self) -> dict[str, Result]:
        finished = [
            Result(cell=cell, run=self.run.path, folder=folder)
            for cell in self.plan.cells
            if (folder := self.run.folder(cell))
        ]
        batches = [finished[n : n + _AT_ONCE] for n in range(0, len(finished), _AT_ONCE)]
        wrong: dict[Result, object] = {}

        def read() -> None:
            wrong.update((one, fault(self.verifier.demand_documents, one)) for one in finished)

        # a process says no more than that a batch is sound; what is wrong is found here
        pieces = [partial(self._demand_files, batch) for batch in batches[1:]]
        sound = [None, *on_all_cores(pieces, meanwhile=read)]
        for one in (one for batch, good in zip(batches, sound) if not good for one in batch):
            wrong[one] = wrong[one] or fault(self.verifier.demand_files, one)
        self.damaged |= {one.cell.identity: str(why) for one, why in wrong.items() if why}
        return {one.cell.identity: one for one, why in wrong.items() if not why}

    def _demand_files(self, batch: Sequence[Result]) -> bool:
        for one in batch:
            self.verifier.demand_files(one)
        return True

    def state(self, cell: Cell) -> tuple[Status, str]:
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
                self.leave_out({cell.identity: str(error)})
        return None

    def leave_out(self, damaged: Mapping[str, str]) -> None:
        """Of cells of these identities it is known why they cannot be believed."""
        self.damaged |= damaged
        for identity in damaged:
            self.results.pop(identity, None)

    def rows(self, cells: Sequence[Cell]) -> list[Row]:
        """Rows of the main table: seeds, fits and folds of one metric, task, model, setting and
        policy together; each compared with the best of its setting, with p as it is.
        """
        together = grouped(cells, lambda c: (c.task, c.fit.model, c.setting.typed, c.policy))
        known = len(self.damaged)
        rows = [self._row(metric, own) for metric in self.cards for own in together.values()]
        if len(self.damaged) > known:  # found under one metric; rows of another have the cell still
            return self.rows(cells)
        for mine in grouped(rows, lambda row: row.setting).values():
            compare(mine, self.rescored, self.score.evidence)
        return rows

    def tables(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """CELL_COLUMNS, one row per cell and metric; and LABEL_COLUMNS, one row per finished cell,
        metric and label.
        """
        wanted = [(metric, cell) for metric in self.cards for cell in self.plan.cells]
        scored = [self.scored(cell, metric) for metric, cell in wanted]
        rows = [self._cell(*one, scores) for one, scores in zip(wanted, scored)]
        table = pd.DataFrame(rows, columns=list(CELL_COLUMNS))
        found = [one for one in scored if one]
        own = table.loc[[one is not None for one in scored], list(_OF_CELL)]
        labels = own.loc[own.index.repeat([len(one.same_as) for one in found])]
        labels = labels.reset_index(drop=True)
        for name in _OF_LABEL:
            labels[name] = [value for one in found for value in one.columns[name][1:].tolist()]
        labels["same_as"] = [same for one in found for same in one.same_as]
        return table, labels

    def seen(self, task: str, model: str, weights: str) -> str:
        """Whether the source of a task was among what a model was pre-trained on: yes, part (of
        it), unknown, or no.
        """
        data = next((d for d in self.datasets.values() if task in d["tasks"]), None)
        if weights in (RANDOM, NONE) or not data:
            return "no"
        corpora = self.models.get(model, {}).get("corpora", ())
        return _SEEN[contamination.met(corpora, data["name"], data["title"])[0]]

    def _cell(self, metric: str, cell: Cell, scored: Scored | None) -> dict[str, Any]:
        """What there is of the columns, and more; what is not there becomes NaN. `weights` as
        loaded, or as wanted where none were.
        """
        known: dict[str, Any] = {"key": "", "path": "", "weights_name": cell.fit.weights}
        if scored:
            result = self.results[cell.identity]
            known |= result.document | {
                "path": result.folder.relative_to(result.run).as_posix(),
                "environment": " + ".join(result.document.get("environments", [])),
                "commit": result.document["code"].get("commit"),
                "uncommitted": result.uncommitted,
                "lost": scored.lost,
                "value_distinct": scored.distinct,
                **{name: scored.columns[name][0] for name in ("value", "low", "high")},
            }
        status, reason = self.state(cell)
        weights = str(known["weights_name"])
        return known | {
            "task": cell.task,
            "model": cell.fit.model,
            "leads": cell.setting.typed,
            "setting": str(cell.setting),
            "seed": getattr(cell.setting, "seed", None),
            "fit_seed": cell.fit.seed,
            "fold": cell.fit.fold,
            "policy": cell.policy,
            "weights": weights,
            "seen": self.seen(cell.task, cell.fit.model, weights),
            "metric": metric,
            "status": status,
            "reason": reason,
        }

    def _row(self, metric: str, cells: Sequence[Cell]) -> Row:
        first, setting = cells[0], cells[0].setting
        model = first.fit.model
        weights = self.models.get(model, {}).get("weights") or first.fit.weights
        scored = [one for one in (self.scored(cell, metric) for cell in cells) if one]
        status = min((self.state(cell)[0] for cell in cells), key=_GRAVEST.index)
        results = [self.results[c.identity] for c in cells if c.identity in self.results]
        row = Row(
            metric=metric,
            task=first.task,
            model=model,
            leads=first.setting.typed,
            n_leads=len(setting.subset) if isinstance(setting, Fixed) else setting.k,
            named=isinstance(setting, Fixed),
            policy=first.policy,
            sign=self.cards[metric].sign,
            weights=weights,
            seen=self.seen(first.task, model, weights),
            untrained=protocols.is_frozen(self.plan.training.protocol) and weights == RANDOM,
            cells=scored,
            status="failed" if status == "missing" else status,
        )
        row.notes = list(self._notes(row, results))
        return row

    def _notes(self, row: Row, results: Sequence[Result]) -> Iterator[Note]:
        """What must be said of its fits, each once, and what its number rests on."""
        for who in dict.fromkeys(self.by.get(r.cell.identity) for r in results):
            if who:
                yield Note("", f"{lent.MARK}: measured by {who}")
        for mark in dict.fromkeys(mark for r in results for mark in r.marks):
            yield Note("fit", mark)
        used, folds = ({c.cell.fit.fold for c in s} for s in (counted(row.cells), row.cells))
        for data in (d for d in self.datasets.values() if row.task in d["tasks"]):
            if data["limit"] is not None and data["records"] < data["records_prepared"]:
                yield Note("", "limited: the records chosen favour rare labels")
            if used < folds:
                within = WITHIN.format(f"{len(used)} of {len(folds)}")
                yield Note("", f"{within}; in the others no label has both values")
            elif data.get("folds"):
                yield Note("", WITHIN.format(data["folds"]))
            if not data.get("patients_known", True):
                text = "no patients are named: with several records of one the interval is narrow"
                yield Note("", text)
        if any(r.uncommitted for r in results):
            yield Note("uncommitted", UNCOMMITTED)
        lost = {r.cell.fit.fold: r.document.get("lacking_leads", 0) for r in results}
        if fewer := sum(lost.values()):
            yield Note("", f"{fewer} test records without these leads are left out")
        # of a cross-validation each fold states the records of all folds
        known = [self.verifier.datasets[r.document["dataset"]]["test_records"] for r in results]
        if results and row.records + fewer < max(known):
            yield Note("", f"scored on {row.records} of {max(known)} records")

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
        weights: dict[str, set[Any]] = {}
        for r in self.results.values():
            document = r.document
            network, data = models[document["model"]], datasets[document["dataset"]]
            source = network.get("weights_source", {}).get("sha256")
            sets = weights.setdefault(network["name"], set())
            sets.add((network.get("weights_sha256"), source))
            more = {"windows": document["windows"], "sets_of_weights": len(sets)}
            model[network["name"]] = {**network, **more}
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
