"""Invented runs: several datasets, tasks, models, lead settings and folds, with a stated skill; no
recording and no network. Tables may be changed when they are read.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, logit

from ecgbench.cards.cell import Bootstrap, Cell, Fit, Scoring, Training
from ecgbench.cards.plan import Request
from ecgbench.core.division import OFFICIAL, Division
from ecgbench.core.files import as_json, as_parquet
from ecgbench.core.folders import publish
from ecgbench.core.keys import key
from ecgbench.core.seeds import rng
from ecgbench.ecg.draw import Count, parse_leads
from ecgbench.evaluate.predict import prediction_table
from ecgbench.results.score import Draws, Scored, score
from ecgbench.results.study import Run, read
from ecgbench.study.scores import Predicted, score_table, with_wins
from ecgbench.study.store import Status, Store
from ecgbench.study.stored import Result

CONTRACT = {
    "name": "paper",
    "fs": 100,
    "seconds": 5,
    "leads": ["I", "II"],
    "unit": "mV",
    "filter": None,
    "normalisation": "none",
    "fill": "before",
    "policy": "zero",
    "absent": "0 mV",
}


@dataclass(frozen=True, kw_only=True)
class Data:
    """Test records of a dataset, and its tasks."""

    tasks: Mapping[str, int]
    """Task -> how many labels."""
    records: int = 120
    per_patient: int = 1
    prevalence: float = 0.3
    title: str = ""
    evaluation_only: Mapping[str, bool] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Further ones, or others."""


@dataclass(frozen=True, kw_only=True)
class Made:
    """What is written; `skill` of (model, leads as typed) is the distance of positives from
    negatives in standard deviations.
    """

    data: Mapping[str, Data]
    models: Sequence[str] = ("good", "weak")
    leads: str = "1,12"
    seeds: int = 2
    fits: tuple[int, ...] = (0,)
    skill: Callable[[str, str], float] = lambda model, leads: 1.0
    training: Training = field(default_factory=Training)
    scoring: Scoring = field(default_factory=Scoring)
    seed: int = 0
    shared: float = 0.6
    """Share of the noise that all cells have in common."""
    prevalence: Mapping[str, float] = field(default_factory=dict)
    """Of a label by its name, `A0`, where it is not that of its dataset; 0: no record has it."""
    lost: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """(leads, label) -> what its skill is there, whatever the model."""
    folds: int = 0
    """Of a cross-validation, patients in turn; 0: the datasets' own split."""
    unknown: int = 0
    """The last label is not known of every so many records; 0: of all it is."""
    validated: int = 0
    """Validation records that fits have predictions for."""
    lacking: Sequence[tuple[str, str, str]] = ()
    """(task, model, leads) without a score: their fit failed."""
    gone: Callable[[Cell], tuple[Status, str] | None] = lambda cell: None
    """Why another cell has no score; its status `missing` is that it is not computed yet."""
    change: Callable[[str, pd.DataFrame], pd.DataFrame] = lambda model, table: table
    """What becomes of the predictions of a model before they are scored."""
    earlier: bool = False
    """Every second cell is as an earlier version stored it, without wins."""


def labels_of(task: str, count: int) -> list[str]:
    """`A0`, `A1` of task a."""
    return [f"{task.upper()}{k}" for k in range(count)]


def targets(made: Made, data: Data, name: str) -> dict[str, np.ndarray]:
    """Task -> (record, label) int8; a label has both values."""
    of_tasks = {}
    for task, count in data.tasks.items():
        common = [made.prevalence.get(label, data.prevalence) for label in labels_of(task, count)]
        target = rng("made", made.seed, name, task).random((data.records, count)) < common
        target[0], target[1] = np.greater(common, 0), False
        of_tasks[task] = target.astype(np.int8)
        if made.unknown:
            of_tasks[task][2 :: made.unknown, -1] = -1
    return of_tasks


def folds(made: Made) -> list[str]:
    """As fits name them."""
    return [f"{k + 1}/{made.folds}" for k in range(made.folds)] or [OFFICIAL]


def request(made: Made) -> Request:
    """What it was asked for."""
    return Request(
        models=tuple(made.models),
        tasks=tuple(task for data in made.data.values() for task in data.tasks),
        leads=parse_leads(made.leads),
        seeds=made.seeds,
        fit_seeds=tuple(made.fits),
        policies=("zero",),
        division=Division(cross=made.folds or None),
        training=made.training,
        scoring=made.scoring,
        name="made",
    )


def write(path: Path, made: Made, **more: Any) -> Store:
    """Write the run."""
    run = Store(path)
    asked = run.add_request(request(made))
    models = {m: run.add_facts("models", model_facts(m) | more.get(m, {})) for m in made.models}
    run.add_facts("invocations", invocation_facts())
    where = {task: name for name, data in made.data.items() for task in data.tasks}
    known = {name: targets(made, data, name) for name, data in made.data.items()}
    facts = {
        (name, fold): run.add_facts("datasets", dataset_facts(name, d) | _in_fold(d, fold))
        for name, d in made.data.items()
        for fold in folds(made)
    }
    for cell in asked.cells:
        name = where[cell.task]
        if (cell.task, cell.fit.model, cell.setting.typed) in made.lacking:
            run.give_reason(cell, "failed", "it broke")
            continue
        if why := made.gone(cell):
            if why[0] != "missing":
                run.give_reason(cell, *why)
            continue
        about = {
            "model": models[cell.fit.model],
            "dataset": facts[name, cell.fit.fold],
            "dataset_name": name,
        }
        _write_cell(run, cell, made, made.data[name], known[name][cell.task], about)
    if made.validated:
        for data in made.data.values():
            for task, count in data.tasks.items():
                for model in made.models:
                    _write_fit(run, made, (task, model), count)
    return run


def fit_facts(task: str, model: str) -> dict[str, Any]:
    """What the key of a fit is made of here; all seeds and folds have the same one."""
    return {"fit": task, "model": model}


def key_facts(cell: Cell) -> dict[str, Any]:
    """What the key of a cell is made of here."""
    fit = key(fit_facts(cell.fit.task, cell.fit.model))
    facts = {"cell": cell.task, "model": cell.fit.model, "setting": str(cell.setting), "fit": fit}
    return facts | {"identity": cell.identity}


def fit_folder(task: str, model: str) -> str:
    """Where a fit lies in the run."""
    return f"fits/{task}/{model}/{key(fit_facts(task, model))}"


def _write_fit(run: Store, made: Made, names: tuple[str, str], count: int) -> None:
    random = rng("made", made.seed, *names, "validation")
    target = (random.random((made.validated, count)) < 0.3).astype(np.int8)
    score = made.skill(names[1], "12") * target + random.standard_normal(target.shape)
    columns = {name: [f"v{i:03}" for i in range(len(target))] for name in ("record", "patient")}
    labels = labels_of(names[0], count)
    table = prediction_table(columns, labels, 1 / (1 + np.exp(-score)), target)
    facts = fit_facts(*names)
    note = {"key": key(facts), "key_facts": facts, "marks": []}
    files = {"validation.parquet": as_parquet(table), "fit.json": as_json(note)}
    publish(run.path / fit_folder(*names), files)


def patients(data: Data) -> list[str]:
    """Of its records."""
    return [f"p{i // data.per_patient:05}" for i in range(data.records)]


def _in_fold(data: Data, fold: str) -> dict[str, Any]:
    """Facts of a dataset that are those of one fold; none of its own split."""
    if fold == OFFICIAL:
        return {}
    number, count = map(int, fold.split("/"))
    return {"folds": count, "patients": sorted(set(patients(data)))[number - 1 :: count]}


def _write_cell(
    run: Store, cell: Cell, made: Made, data: Data, target: np.ndarray, about: dict[str, Any]
) -> None:
    name, leads = about["dataset_name"], cell.setting.typed
    common = rng("made", made.seed, name, cell.task, "noise").standard_normal(target.shape)
    own = rng("made", made.seed, name, cell.identity).standard_normal(target.shape)
    noise = np.sqrt(made.shared) * common + np.sqrt(1 - made.shared) * own
    labels = labels_of(cell.task, target.shape[1])
    skill = [made.lost.get((leads, n), made.skill(cell.fit.model, leads)) for n in labels]
    score = np.array(skill) * target + noise
    columns = {
        "record": [f"r{i:05}" for i in range(len(target))],
        "patient": patients(data),
        "leads": [leads if not leads.isdigit() else "II"] * len(target),
    }
    table = prediction_table(columns, labels, 1 / (1 + np.exp(-score)), target)
    tested = _in_fold(data, cell.fit.fold).get("patients", columns["patient"])
    table = made.change(cell.fit.model, table[table["patient"].isin(tested)])
    table = table.reset_index(drop=True)
    study = key(run.existing_plan().shared())
    note = cell_note(cell, len(table), about | {"study": study})
    metrics, wins = made.scoring.metrics, not made.earlier or len(cell.identity) % 2
    files = {
        "predictions.parquet": as_parquet(with_wins(metrics, table) if wins else table),
        "scores.parquet": as_parquet(score_table(metrics, table)),
        "cell.json": as_json(note),
    }
    publish(run.cell_folder(cell), files)


def cell_note(cell: Cell, records: int, about: dict[str, Any]) -> dict[str, Any]:
    """What cell.json says."""
    return {
        **about,
        "identity": cell.identity,
        "key": key(key_facts(cell)),
        "key_facts": key_facts(cell),
        "finished": 0.0,
        "seconds": 1.0,
        "device": "cpu",
        "code": {},
        "weights_name": "released",
        "n_records": records,
        "excluded": 0,
        "blind": 0.0,
        "windows": 2.0,
        "features": None,
        "fit": fit_folder(cell.task, cell.fit.model),
    }


def model_facts(name: str) -> dict[str, Any]:
    """What a store says of a model."""
    return {
        "name": name,
        "title": name.title(),
        "summary": "a network",
        "paper": "none",
        "licence": "MIT",
        "parameters": 9,
        "weights": "released",
        "weights_sha256": "ab" * 32,
        "contract": CONTRACT,
        "origin": "a test",
    }


def dataset_facts(name: str, data: Data) -> dict[str, Any]:
    """What a store says of a dataset."""
    names = sorted(set(patients(data)))
    return {
        "name": name,
        "title": data.title or name.title(),
        "version": "1",
        "doi": "",
        "licence": "MIT",
        "synthetic": False,
        "records": data.records,
        "records_prepared": data.records,
        "records_release": data.records,
        "limit": None,
        "digest": "d",
        "flat": 0,
        "test_records": data.records,
        "test_patients": len(names),
        "quarantined": [],
        "patients": names,
        "tasks": {
            task: {
                "title": task.title(),
                "dataset": name,
                "evaluation_only": data.evaluation_only.get(task, False),
                "n_labels": labels,
            }
            for task, labels in data.tasks.items()
        },
        **data.facts,
    }


def invocation_facts() -> dict[str, Any]:
    """What a store says of a command."""
    facts = {
        "command": "ecgbench run",
        "started": 0.0,
        "seconds": 1.0,
        "computed": 1,
        "ended": True,
        "device": "cpu",
        "version": "0",
        "packages": {},
    }
    return facts | {"sha256": key(facts)}


def scored_cell(cell: Cell, table: pd.DataFrame, draws: Draws) -> Scored:
    """A cell under AUROC that lies in no run."""
    return Scored(
        **vars(score("auroc", table, draws)),
        cell=cell,
        metric="auroc",
        records=" ".join(table["record"]),
        predictions=lambda: Predicted.of(table),
        n_records=len(table),
        n_patients=table["patient"].nunique(),
    )


def cells_in_folds(
    target: np.ndarray,
    fold: np.ndarray,
    scored: np.ndarray,
    model: str = "m",
    bootstrap: Bootstrap = "none",
) -> list[Scored]:
    """A cell of each fold, in no run; target and scores (record, label), fold (record,), and every
    record is a patient.
    """
    labels, made = [f"L{k}" for k in range(target.shape[1])], []
    for k in np.unique(fold):
        mine = np.flatnonzero(fold == k)
        names = [f"r{i:04d}" for i in mine]
        columns = {"record": names, "patient": names}
        table = prediction_table(columns, labels, scored[mine], target[mine].astype(np.int8))
        fit = Fit(task="t", model=model, contract="paper", weights="random", seed=0, fold=f"{k}/9")
        draws = Draws(
            dataset="d", patients=tuple(names), draws=2000, bootstrap=bootstrap, fold=fit.fold
        )
        cell = Cell(fit=fit, task="t", setting=Count(12, 0), policy="zero")
        made.append(scored_cell(cell, table, draws))
    return made


VALIDATED = Made(
    data={"first": Data(tasks={"a": 3}, records=300, per_patient=2)},
    skill=lambda model, leads: {"good": 2.0, "weak": 1.0}[model] * (0.6 if leads == "1" else 1.0),
    validated=200,
)
Changed = Callable[[Result, pd.DataFrame], pd.DataFrame]


def make(path: Path, made: Made = VALIDATED, **more: Any) -> Run:
    """Write it, and read it."""
    write(path, made, **more)
    return read(path)


@dataclass(frozen=True, kw_only=True, eq=False)
class Seen(Result):
    """A result whose tables are changed when they are read."""

    tested: Changed
    validated: Changed

    def predictions(self) -> pd.DataFrame:
        """Of the test records."""
        return self.tested(self, super().predictions())

    def predicted(self) -> Predicted:
        """The same as arrays."""
        return Predicted.of(self.predictions())

    def validation(self) -> pd.DataFrame:
        """Of the validation records."""
        return self.validated(self, super().validation())


def same(result: Result, table: pd.DataFrame) -> pd.DataFrame:
    """Nothing is changed."""
    return table


def seen(study: Run, tested: Changed = same, validated: Changed = same) -> Run:
    """The study with tables that are changed when they are read."""
    made = [
        Seen(cell=r.cell, run=r.run, folder=r.folder, tested=tested, validated=validated)
        for r in study.results
    ]
    return replace(study, results=made, scorer=None)


def in_folds(study: Run, count: int, shift: float) -> Run:
    """The same predictions as of a cross-validation whose fits score higher by `shift` from fold to
    fold, in the test records and in the validation records.
    """
    made = []
    for r in study.results:
        for k in range(count):
            fit = replace(r.cell.fit, fold=f"{k + 1}/{count}")

            def tested(_: Result, table: pd.DataFrame, k: int = k) -> pd.DataFrame:
                whose = pd.factorize(table["patient"])[0]
                return shifted(table[whose % count == k].reset_index(drop=True), k * shift)

            def validated(_: Result, table: pd.DataFrame, k: int = k) -> pd.DataFrame:
                return shifted(table, k * shift)

            fold = Seen(
                cell=replace(r.cell, fit=fit),
                run=r.run,
                folder=r.folder,
                tested=tested,
                validated=validated,
            )
            # each fold has a fit of its own; its files are those of the one that was written
            object.__setattr__(fold, "document", r.document | {"fit": _another(r, k)})
            made.append(fold)
    return replace(study, results=made, scorer=None)


def _another(result: Result, k: int) -> str:
    """The folder of its fit, spelled differently for each fold."""
    return result.document["fit"] + "/." * k


def shifted(table: pd.DataFrame, by: float) -> pd.DataFrame:
    """Predictions with higher log odds."""
    names = [c for c in table if c.startswith("probability:")]
    return table.assign(**{c: expit(logit(table[c]) + by) for c in names})


def rows(section_parts: Sequence[object], name: str) -> pd.DataFrame:
    """The CSV of a table or figure."""
    (part,) = [p for p in section_parts if getattr(p, "name", "") == name]
    frame: pd.DataFrame = part.numbers  # type: ignore[attr-defined]
    return frame
