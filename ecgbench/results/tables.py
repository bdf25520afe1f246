"""A published report, read from its CSV files: scores as they were printed. It has no predictions,
so nothing is computed again.
"""

from pathlib import Path
from typing import Any

import pandas as pd

from ecgbench import datasets, metrics
from ecgbench.core.note import Note, Notes
from ecgbench.errors import BadSetting
from ecgbench.results.facts import ModelFacts, Provenance, TaskFacts
from ecgbench.results.study import Run
from ecgbench.study.lent import MARK

MAIN = "main_table.csv"
"""The file by which a folder is known for a report of a run."""
_TABLES = {"main": "main_table", **{name: name for name in ("cells", "labels", "comparisons")}}
_TEXTS = dict.fromkeys(("leads", "setting", "fold", "commit"), str)


def read(folder: Path) -> Run:
    """The tables of a report, each row marked as not computed here. BadSetting where its files are
    not those of a report.
    """
    try:
        return _read(folder)
    except (LookupError, ValueError, TypeError, OSError) as error:
        why = f"{type(error).__name__}: {error}"
        raise BadSetting(f"{folder} is no whole report of a run ({why}); name another") from None


def _read(folder: Path) -> Run:
    tables: dict[str, Any] = {n: of_file(folder / f"{file}.csv") for n, file in _TABLES.items()}
    main = tables["main"]
    printed = Note("", f"{MARK}: as printed in {folder}")
    for name in ("main", "comparisons"):
        notes = [[Note("", text)] if isinstance(text, str) else [] for text in tables[name]["note"]]
        tables[name]["note"] = [Notes([printed, *own]) for own in notes]
    networks = of_file(folder / "models.csv")[["model", "weights"]].to_numpy().tolist()
    cards = {name: metrics.card(name) for name in dict.fromkeys(main["metric"])}
    code = of_file(folder / "commits.csv").iloc[-1]
    return Run(
        path=folder,
        **tables,
        metrics=cards,
        tasks=[_task(str(name), own) for name, own in main.groupby("task", sort=False)],
        models=[
            ModelFacts(name=name, title=f"{title} ({MARK})", weights=weights)
            for name, (title, weights) in zip(dict.fromkeys(main["model"]), networks)
        ],
        datasets=[],
        notes=[printed],
        provenance=Provenance.of(
            {"command": str(of_file(folder / "provenance.csv")["command"].iloc[-1])},
            version=str(code["version"]),
            commit=str(code["commit"]),
            **dict.fromkeys(("protocol", "contract", "draw", "plan_hash"), "not known"),
            epochs=0,
            draws=0,
            bootstrap="none",
            seeds=(),
            fit_seeds=(),
            metrics=tuple(cards),
        ),
        results=[],
    )


def of_file(file: Path) -> pd.DataFrame:
    """A CSV file of a report."""
    return pd.read_csv(file, keep_default_na=False, na_values=[""], dtype=_TEXTS)


def _task(name: str, rows: pd.DataFrame) -> TaskFacts:
    data, _, task = datasets.tasks().get(name, ("", None, None))
    return TaskFacts(
        name=name,
        title=task.title if task else name,
        dataset=data,
        evaluation_only=bool(task and task.parent),
        n_labels=int(rows["n_labels"].max()),
    )
