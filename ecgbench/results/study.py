"""Everything a report may say about a run: tables at once; predictions and features when they are
asked for.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from ecgbench.cards.cell import RANDOM
from ecgbench.cards.rooms import MetricCard
from ecgbench.core.keys import grouped
from ecgbench.core.note import Note
from ecgbench.core.registry import plain
from ecgbench.core.text import enumerated
from ecgbench.ecg.draw import Count
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import BadSetting, MissingData
from ecgbench.evaluate import protocols
from ecgbench.results import notes, precompute
from ecgbench.results.compare import Row, comparisons, correct, main
from ecgbench.results.evidence import OfLabel
from ecgbench.results.facts import Command, DatasetFacts, ModelFacts, Provenance, TaskFacts
from ecgbench.results.options import Options
from ecgbench.results.origin import below, origins
from ecgbench.results.precompute import Stage
from ecgbench.results.reader import Reader
from ecgbench.results.scorer import Scorer
from ecgbench.study import frozen, invocation, lent
from ecgbench.study.stored import Result

FULL = str(len(LEADS))
"""The setting in which nothing is missing, as typed."""
AUROC = "auroc"
T = TypeVar("T")
BY_LABEL = ("metric", "task", "model", "policy", "leads", *OfLabel._fields)


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run, ready to be reported. Values are fractions."""

    path: Path
    """The run folder."""
    main: pd.DataFrame
    """As main_table.csv, one row per metric x task x model x setting x policy, in the order of the
    plan. Numbers are NaN where status is not ok. docs/reference/columns.md says what each column of
    these tables is.
    """
    cells: pd.DataFrame
    """As cells.csv, one row per cell and metric."""
    labels: pd.DataFrame
    """As labels.csv, one row per finished cell, metric and label."""
    comparisons: pd.DataFrame
    """As comparisons.csv, one row per comparison with the best of a metric, task and setting."""
    metrics: dict[str, MetricCard]
    """By name; tables lead with the first."""
    tasks: list[TaskFacts]
    models: list[ModelFacts]
    datasets: list[DatasetFacts]
    notes: list[Note]
    """What must be said beside the numbers, the gravest first."""
    provenance: Provenance
    results: list[Result]
    """Finished cells in the order of the plan: predictions, features and validation predictions of
    each on request.
    """
    scorer: Scorer | None = field(default=None, repr=False)
    """Scores cells; None of a study made by hand."""
    stage: Stage | None = field(default=None, repr=False)
    """Shows what takes long."""
    options: Options = field(default_factory=Options)
    """What its reader asks of reports."""
    by_label: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=BY_LABEL))
    """BY_LABEL: a row for each row of `main` with placements and each of its labels, over all
    draws, fits and folds: value and its 95 % interval over patients; patients of whom it is known
    that they have it, and that they do not; positives and n: records with it, and of which it is
    known.
    """
    other_runs: tuple["Run", ...] = ()
    """Other runs whose scores are printed too (`ecgbench report --set report.runs`)."""

    @cached_property
    def columns(self) -> list[tuple[str, str]]:
        """Model and policy of each column of the main table, in the order asked."""
        return list(dict.fromkeys(zip(self.main["model"], self.main["policy"])))

    @cached_property
    def untrained(self) -> frozenset[tuple[str, str]]:
        """The columns that are a frozen encoder with random weights."""
        if not protocols.is_frozen(self.provenance.protocol):
            return frozenset()
        tables = (self.main, self.cells)
        random = pd.concat([t.loc[t["weights"] == RANDOM, ["model", "policy"]] for t in tables])
        return frozenset(zip(random["model"], random["policy"]))

    @cached_property
    def real_tasks(self) -> list[str]:
        """Tasks that have rows and whose data are not synthetic, in their order."""
        synthetic = {data.name for data in self.datasets if data.synthetic}
        known = {task.name: task.dataset for task in self.tasks}
        present = dict.fromkeys(self.main["task"])
        ordered = [name for name in {**known, **present} if name in present]
        return [name for name in ordered if known.get(name) not in synthetic]

    @property
    def sign(self) -> int:
        """1 where higher values of the metric that tables lead with are better, else -1."""
        return 1 if self.metrics[self.metric].direction == "higher" else -1

    def value(self, task: str, model: str, policy: str, leads: str) -> float:
        """Of the metric that tables lead with; NaN where there is none."""
        return float(self.scores.get((task, model, policy, leads), ("", np.nan))[1])

    @property
    def metric(self) -> str:
        """The metric that tables lead with."""
        return next(iter(self.metrics))

    @cached_property
    def finished(self) -> dict[tuple[str, str, str, str], list[Result]]:
        """(task, model, policy, leads as typed) -> its finished cells: lead draws, fits, folds."""
        return grouped(
            self.results,
            lambda r: (r.cell.task, r.cell.fit.model, r.cell.policy, r.cell.setting.typed),
        )

    @cached_property
    def scores(self) -> dict[tuple[str, str, str, str], tuple[str, float]]:
        """(task, model, policy, leads as typed) -> status and value of its row, by the metric that
        tables lead with.
        """
        rows = self.main[self.main["metric"] == self.metric]
        columns = rows[["task", "model", "policy", "leads", "status", "value"]]
        return {tuple(row[:4]): (row[4], row[5]) for row in columns.itertuples(index=False)}

    def classes(self, task: str, model: str) -> list[str] | None:
        """The labels of all tasks of its fit that the classifier in a file of weights knows; None
        where heads were fitted, or the fit is gone.
        """
        fitted = (
            r.fitted for r in self.results if (r.cell.task, r.cell.fit.model) == (task, model)
        )
        return next((list(one["classes"]) for one in fitted if "classes" in one), None)

    def of(self, metric: str) -> "Run":
        """The study with the rows of one metric alone."""
        name = next((n for n in self.metrics if plain(n) == plain(metric)), None)
        if name is None:
            raise BadSetting(
                f"this study was read with {', '.join(self.metrics)}; read it with "
                f"metrics=[{metric!r}]"
            )
        if len(self.metrics) == 1:
            return self
        mine: dict[str, Any] = {"metrics": {name: self.metrics[name]}}
        for table in ("main", "cells", "labels", "comparisons", "by_label"):
            rows = getattr(self, table)
            mine[table] = rows[rows["metric"] == name].reset_index(drop=True)
        return replace(self, **mine)

    def result(
        self,
        task: str,
        model: str,
        setting: str,
        policy: str,
        fit_seed: int | None = None,
        fold: str | None = None,
    ) -> Result:
        """The finished cell with a setting as printed (`1@seed3`, `I+II`, `12`) or as typed (`1`).

        fit_seed: of its fit. fold: of a cross-validation, "2/5". MissingData where
        there is none, BadSetting where there are several.
        """
        found = self._matching(task, model, setting, policy, seed=fit_seed, fold=fold)
        if len(found) > 1:
            cells = [r.cell for r in found]
            every = [f"{c.setting} (fit_seed={c.fit.seed}, fold={c.fit.fold!r})" for c in cells]
            raise BadSetting(
                f"{self.path} holds {len(found)} cells of {model} on {task}, policy {policy}: "
                f"{enumerated(every)}; choose one with setting, fit_seed or fold, or read all with "
                f"study.predictions()"
            )
        return found[0]

    def predictions(self, task: str, model: str, leads: str, policy: str) -> pd.DataFrame:
        """Predictions of all folds, fits and draws of leads, in the order of the plan.

        leads: as typed (`1`) or as printed (`1@seed3`). One row per test record and label: record,
        patient, fold, fit_seed, seed (of the draw of leads; NaN where none are drawn), label,
        probability, target (1, 0; -1: not known). MissingData where there is no finished cell.
        """
        found = self._matching(task, model, leads, policy)
        return pd.concat([long(r) for r in found], ignore_index=True)

    def _matching(self, task: str, model: str, leads: str, policy: str, **fit: Any) -> list[Result]:
        """MissingData where there is none."""
        found = [
            r
            for r in self.results
            if (r.cell.task, r.cell.fit.model, r.cell.policy) == (task, model, policy)
            and str(leads) in (str(r.cell.setting), r.cell.setting.typed)
            and all(value in (None, getattr(r.cell.fit, name)) for name, value in fit.items())
        ]
        if not found:
            raise MissingData(
                f"{self.path} holds no finished cell of {model} on {task} at {leads}, policy "
                f"{policy}; its cells stand in study.cells"
            )
        return found


def once(function: Callable[[Run], T]) -> Callable[[Run], T]:
    """A function of a study that many reports ask: it is computed once, and whoever has its result
    leaves it as it is.
    """
    name = f"{function.__module__}.{function.__qualname__}"

    @wraps(function)
    def known(study: Run) -> T:
        kept = vars(study)  # as a cached_property does
        if name not in kept:
            kept[name] = function(study)
        found: T = kept[name]
        return found

    return known


@once
def by_auroc(study: Run) -> Run:
    """The study led by AUROC, of which alone it is known what chance gives; read anew where it was
    read without.
    """
    if study.metric == AUROC:
        return study
    return study.of(AUROC) if AUROC in study.metrics else read(study.path, (AUROC,))


def long(result: Result) -> pd.DataFrame:
    """A row per record and label."""
    own, cell = result.predicted(), result.cell
    times = len(own.labels)
    return pd.DataFrame(
        {
            "record": np.repeat(np.asarray(own.records, dtype=object), times),
            "patient": np.repeat(own.patients.astype(object), times),
            "fold": cell.fit.fold,
            "fit_seed": cell.fit.seed,
            "seed": getattr(cell.setting, "seed", None),
            "label": own.labels * len(own.records),
            "probability": own.probability.ravel(),
            "target": own.target.ravel(),
        }
    )


def read(
    path: str | Path,
    metrics: Sequence[str] = (),
    stage: Stage | None = None,
    tasks: Sequence[str] = (),
    others: Sequence[Path] = (),
    unfinished: bool = False,
) -> Run:
    """Read a run folder.

    `metrics`: names or paths of metrics, the one that tables lead with first; those of the run
    where there is none. `tasks`: of those alone, as if no other had been asked for; a note says
    which are left out. `others`: folders of `ecgbench runs export`, whose rows stand beside those
    of the run. `unfinished`: an export that is being made. Intervals are computed from the stored
    predictions; `stage` shows what takes long. Nothing is written. MissingData when there is no
    run; BadSetting where others tested on other records or labels, and of an export that
    lost its mark.

    >>> study = read("runs/demo")  # doctest: +SKIP
    >>> study.main[["model", "leads", "metric", "value", "low", "high"]]  # doctest: +SKIP
    >>> cell = study.result("demo", "laef", "12", "native")  # doctest: +SKIP
    >>> records, features = cell.features()  # doctest: +SKIP
    """
    if tasks and frozen.read(Path(path)):
        raise BadSetting(
            f"{path} holds a frozen plan ({frozen.FILE}), and a report of some tasks would leave "
            f"out what was frozen; leave --tasks {','.join(tasks)} out"
        )
    reader = Reader.of(Path(path), metrics, tasks, others)
    own = [r for r in reader.results.values() if r.run == reader.run.path]
    known = reader.lent or unfinished
    if not known and any(r.exported for r in own):
        raise BadSetting(f"{path} is an export without its {lent.FILE}; ask for another one")
    rows = precompute.rows(reader, stage)
    correct(rows)
    cells, labels = reader.tables()
    study = Run(
        path=reader.run.path,
        metrics=reader.cards,
        **_planned(reader),
        provenance=_provenance(reader),
        notes=[],
        main=main(rows),
        cells=cells,
        labels=labels,
        comparisons=comparisons(rows),
        by_label=_by_label(rows),
        results=list(reader.results.values()),
        scorer=reader.score,
        stage=stage,
    )
    more = notes.notes(reader.plan, study, rows)
    return replace(study, notes=[*notes.left_out(reader.whole, reader.plan), *more])


def _by_label(rows: Sequence[Row]) -> pd.DataFrame:
    names = ("metric", "task", "model", "policy", "leads")
    made = [[*(getattr(row, n) for n in names), *of] for row in rows for of in row.sure.labels]
    return pd.DataFrame(made, columns=list(BY_LABEL))


def _planned(reader: Reader) -> dict[str, Any]:
    """Tasks, models and datasets of the cells that were wanted for, in their order."""
    known = {t: facts for d in reader.datasets.values() for t, facts in d["tasks"].items()}
    wanted = dict.fromkeys(c.task for c in reader.plan.cells)
    models = dict.fromkeys(c.fit.model for c in reader.plan.cells)
    tasks = [TaskFacts.of(known[t], name=t) for t in wanted if t in known]
    used = dict.fromkeys(t.dataset for t in tasks)
    return {
        "tasks": tasks,
        "models": [ModelFacts.of(reader.models[m]) for m in models if m in reader.models],
        "datasets": [DatasetFacts.of(reader.datasets[d]) for d in used],
    }


def _provenance(reader: Reader) -> Provenance:
    plan = reader.plan
    settings = [c.setting for c in plan.cells]
    known: dict[str, Any] = {"command": "", "version": ""}
    for last in list(reader.results.values())[-1:]:
        known |= {"device": last.document["device"], **last.document["code"]}
    commands, results = invocation.stored(reader.run), list(reader.results.values())
    fits = {r.document["fit"]: r.fitted.get("seconds", 0.0) for r in results}
    return Provenance.of(
        invocation.latest(commands) or known,
        commands=tuple(map(Command.of, commands)),
        origins=origins([*results, *below(reader.run.path)]),
        seconds_cells=sum(r.document.get("seconds", 0.0) for r in results),
        seconds_fits=sum(fits.values()),
        **vars(plan.training),
        **vars(plan.scoring) | {"metrics": tuple(reader.cards)},
        contract=plan.cells[0].fit.contract,
        plan_hash=reader.run.plan_hash,
        seeds=tuple(sorted({s.seed for s in settings if isinstance(s, Count)})),
        fit_seeds=tuple(sorted({c.fit.seed for c in plan.cells})),
    )
