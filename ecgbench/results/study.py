"""Everything a report may say about a run: tables at once; predictions and features when they are
asked for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from ecgbench import metrics as room
from ecgbench.cards import MetricCard
from ecgbench.cells import Cell, Plan, key
from ecgbench.ecg.draw import Count
from ecgbench.errors import BadSetting, MissingData
from ecgbench.results import invocation, notes, tables
from ecgbench.results.compare import Row, Scored, compare
from ecgbench.results.facts import DatasetFacts, ModelFacts, Provenance, TaskFacts
from ecgbench.results.result import Result
from ecgbench.results.scorer import Scorer
from ecgbench.results.store import Store
from ecgbench.results.tables import Outcome
from ecgbench.room import plain

Facts = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Study:
    """A run, ready to be reported. Values are fractions."""

    path: Path
    """The run folder."""
    main: pd.DataFrame
    """One row per metric x task x model x setting of the plan x policy, in the order of the plan:
    task, model, leads (as typed), policy, weights, metric, value (mean over folds, fits and draws
    of leads), std (over draws of leads, ddof 1; NaN where there is one), low, high (95 % interval
    over patients), n_records, n_patients, n_labels, n_undefined, p, p_holm (against the best of the
    same metric, task and setting, over all pairs of rows; NaN in the best's own row), best,
    not_significantly_worse, status (ok, skipped, failed), note (what must be said of its fits).
    Numbers are NaN where status is not ok.
    """
    cells: pd.DataFrame
    """One row per cell and metric: task, model, leads, setting (`1@seed3`), seed, fit_seed, fold,
    policy, weights, status, reason, metric, value, low, high, n_records, windows (per record),
    seconds, blind (share of test windows that show the model nothing), excluded (records shorter
    than a window), lost (labels that draws lost), key, path (inside the run).
    """
    labels: pd.DataFrame
    """One row per finished cell, metric and label: task, model, setting, fit_seed, fold, policy,
    metric, label, value (NaN: undefined), low, high, n (records), positives.
    """
    comparisons: pd.DataFrame
    """One row per comparison with the best of a metric, task and setting: task, leads, metric,
    model, policy, best_model, best_policy, difference (best - other), low, high, p, p_holm,
    n_patients (in both).
    """
    metrics: dict[str, MetricCard]
    """By name; tables lead with the first."""
    tasks: list[TaskFacts]
    models: list[ModelFacts]
    datasets: list[DatasetFacts]
    notes: list[str]
    """What must be said beside the numbers, the gravest first."""
    provenance: Provenance
    results: list[Result]
    """Finished cells in the order of the plan: predictions, features and validation predictions of
    each on request.
    """

    @property
    def metric(self) -> str:
        """The metric that tables lead with."""
        return next(iter(self.metrics))

    def of(self, metric: str) -> "Study":
        """The study with the rows of one metric alone."""
        name = next((n for n in self.metrics if plain(n) == plain(metric)), None)
        if name is None:
            raise BadSetting(
                f"this study was read with {', '.join(self.metrics)}; read it with "
                f"metrics=[{metric!r}]"
            )
        frames = {k: getattr(self, k) for k in ("main", "cells", "labels", "comparisons")}
        mine: dict[str, Any] = {
            k: frame[frame["metric"] == name].reset_index(drop=True) for k, frame in frames.items()
        }
        return replace(self, **mine, metrics={name: self.metrics[name]})

    def result(self, task: str, model: str, setting: str, policy: str, fit_seed: int = 0) -> Result:
        """The finished cell with a setting as printed (`1@seed3`, `I+II`, `12`); MissingData where
        there is none.
        """
        for r in self.results:
            fit = r.cell.fit
            if (r.cell.task, fit.model, str(r.cell.setting), r.cell.policy, fit.seed) == (
                task,
                model,
                setting,
                policy,
                fit_seed,
            ):
                return r
        wanted = f"{model} on {task} at {setting}, policy {policy}, fit seed {fit_seed}"
        raise MissingData(
            f"{self.path} holds no finished cell of {wanted}; its cells stand in study.cells"
        )


def read(path: str | Path, metrics: Sequence[str] = ()) -> Study:
    """Read a run folder.

    `metrics`: names or paths of metrics, the one that tables lead with first; those of the run
    where there is none. Intervals are computed from the stored predictions and kept in the run
    folder where it can be written. MissingData when there is no run.

    >>> study = read("runs/demo")  # doctest: +SKIP
    >>> study.main[["model", "leads", "metric", "value", "low", "high"]]  # doctest: +SKIP
    >>> cell = study.result("demo", "laef", "12", "native")  # doctest: +SKIP
    >>> records, features = cell.features()  # doctest: +SKIP
    """
    run = Store(Path(path))
    plan = run.existing_plan()
    return _Reader(run, plan, _chosen(plan, metrics))()


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


class _Reader:
    """Reads one run."""

    def __init__(self, run: Store, plan: Plan, metrics: tuple[str, ...]) -> None:
        self.run, self.plan, self.metrics = run, plan, metrics
        self.cards: dict[str, MetricCard] = {m: room.card(m) for m in metrics}
        self.results = {c.identity: r for c in plan.cells if (r := self._result(c)) is not None}
        self.models, self.datasets, self.patients = self._facts()
        self.score = Scorer(run=run.path, scoring=plan.scoring, patients=self.patients)

    def __call__(self) -> Study:
        outcomes = [self._outcome(c) for c in self.plan.cells]
        rows = _rows(outcomes, self.cards)
        groups: dict[tuple[str, str, str], list[Row]] = {}
        for row in rows:
            groups.setdefault((row.metric, row.task, row.leads), []).append(row)
        for group in groups.values():
            compare(group, self._rescored)
        study = Study(
            path=self.run.path,
            metrics=self.cards,
            **self._declared(),
            provenance=self._provenance(),
            notes=[],
            main=tables.main(rows, {name: facts["weights"] for name, facts in self.models.items()}),
            cells=tables.cells(outcomes, self.metrics),
            labels=tables.labels(outcomes, self.metrics),
            comparisons=tables.comparisons(list(groups.values())),
            results=list(self.results.values()),
        )
        return replace(study, notes=notes.notes(self.plan, study, rows))

    def _result(self, cell: Cell) -> Result | None:
        folder = self.run.folder(cell)
        return Result(cell=cell, run=self.run.path, folder=folder) if folder else None

    def _outcome(self, cell: Cell) -> Outcome:
        result = self.results.get(cell.identity)
        status, reason = ("ok", "") if result else self.run.state(cell)
        scored = {m: self.score(result, m) for m in self.metrics} if result else {}
        return Outcome(cell=cell, status=status, reason=reason, result=result, scored=scored)

    def _rescored(self, scored: Scored, names: frozenset[str]) -> Scored:
        return self.score(self.results[scored.cell.identity], scored.metric, names)

    def _facts(
        self,
    ) -> tuple[dict[str, Facts], dict[str, Facts], dict[tuple[str, str], tuple[str, ...]]]:
        """Facts of models and of datasets by name, those that cells rest on before others, and who
        is drawn: the test patients of each dataset and fold, whichever of them a cell has.
        """
        models, datasets = self.run.facts("models"), self.run.facts("datasets")
        model = {facts["name"]: facts for facts in models.values()}
        dataset = {facts["name"]: facts for facts in datasets.values()}
        patients: dict[tuple[str, str], set[str]] = {}
        for r in self.results.values():
            document = r.document
            network = self._shared(models, "models", document["model"])
            data = self._shared(datasets, "datasets", document["dataset"])
            model[network["name"]] = {**network, "windows": document["windows"]}
            dataset[data["name"]] = data
            patients.setdefault((data["name"], r.cell.fit.fold), set()).update(data["patients"])
        return model, dataset, {where: tuple(sorted(names)) for where, names in patients.items()}

    def _shared(self, stored: Mapping[str, Facts], kind: str, sha256: str) -> Facts:
        if sha256 not in stored:
            raise BadSetting(
                f"{self.run.path / kind / sha256}.json is gone; run the same command again"
            )
        return stored[sha256]

    def _declared(self) -> dict[str, Any]:
        """Tasks, models and datasets of the cells that were asked for, in their order."""
        known = {
            task: facts
            for dataset in self.datasets.values()
            for task, facts in dataset["tasks"].items()
        }
        tasks = [
            TaskFacts.of(known[t], name=t)
            for t in dict.fromkeys(c.task for c in self.plan.cells)
            if t in known
        ]
        named = (m for m in dict.fromkeys(c.fit.model for c in self.plan.cells) if m in self.models)
        used = dict.fromkeys(t.dataset for t in tasks)
        return {
            "tasks": tasks,
            "models": [ModelFacts.of(self.models[m]) for m in named],
            "datasets": [DatasetFacts.of(self.datasets[d]) for d in used],
        }

    def _provenance(self) -> Provenance:
        plan, last = self.plan, next(reversed(self.results.values()), None)
        alone = {
            "command": "",
            "version": "",
            **({"device": last.document["device"], **last.document["code"]} if last else {}),
        }
        return Provenance.of(
            invocation.latest(self.run) or alone,
            protocol=plan.training.protocol,
            epochs=plan.training.epochs,
            contract=plan.cells[0].fit.contract,
            draw=plan.scoring.draw,
            bootstrap=plan.scoring.bootstrap,
            draws=plan.scoring.draws,
            metrics=self.metrics,
            plan_hash=key(plan.to_json()),
            seeds=tuple(
                sorted({c.setting.seed for c in plan.cells if isinstance(c.setting, Count)})
            ),
            fit_seeds=tuple(sorted({c.fit.seed for c in plan.cells})),
        )


def _rows(outcomes: Sequence[Outcome], cards: Mapping[str, MetricCard]) -> list[Row]:
    """Rows of the main table: seeds, fits and folds of one metric, task, model, setting and policy
    together.
    """
    rows: dict[tuple[str, ...], Row] = {}
    for metric, o in ((m, o) for m in cards for o in outcomes):
        c = o.cell
        row = rows.setdefault(
            (metric, c.task, c.fit.model, c.setting.typed, c.policy),
            Row(
                metric=metric,
                task=c.task,
                model=c.fit.model,
                leads=c.setting.typed,
                policy=c.policy,
                sign=cards[metric].sign,
                weights=c.fit.weights,
            ),
        )
        if metric in o.scored:
            row.cells.append(o.scored[metric])
            if o.result:
                row.marks += [mark for mark in o.result.marks if mark not in row.marks]
        elif row.status != "failed":
            row.status = "skipped" if o.status == "skipped" else "failed"
    return list(rows.values())
