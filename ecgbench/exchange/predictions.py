"""Results of which there are predictions only: a table of them becomes an export.

    .csv, .tsv, .parquet   record, label, probability; and perhaps target, patient
    .npz                   probability (record, label); and perhaps target, record, patient, label

Without targets, and wherever the recordings are at hand, records are looked up in the test split.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ecgbench import datasets
from ecgbench.cards.cell import Training
from ecgbench.cards.checked import facts
from ecgbench.cards.dataset import Task
from ecgbench.cards.plan import Request, plan_of
from ecgbench.core.files import making, move
from ecgbench.core.text import enumerated, one_line
from ecgbench.data.copy import Copy
from ecgbench.data.prepare import prepare
from ecgbench.data.select import Selection
from ecgbench.ecg.draw import parse_leads
from ecgbench.errors import BadSetting
from ecgbench.evaluate.predict import prediction_table
from ecgbench.exchange.export import Folder, free
from ecgbench.exchange.names import OWN_WEIGHTS
from ecgbench.policies.hide import NATIVE
from ecgbench.results.study import read
from ecgbench.study.facts import dataset_facts
from ecgbench.study.plan import resolve_tasks
from ecgbench.study.scores import score_table
from ecgbench.study.stored import PREDICTIONS, SCORES

ELSEWHERE = "elsewhere"
"""The protocol of predictions that ecgbench did not make."""
_NEEDED = ("record", "label", "probability")
_WORDS = dict.fromkeys(("record", "patient", "label"), str)
_READ: dict[str, Any] = {
    ".csv": lambda file, task: pd.read_csv(file, dtype=_WORDS, keep_default_na=False),
    ".tsv": lambda file, task: pd.read_csv(file, dtype=_WORDS, keep_default_na=False, sep="\t"),
    ".parquet": lambda file, task: pd.read_parquet(file),
    ".npz": lambda file, task: _of_arrays(file, task),
}


def write(  # noqa: PLR0913  (each is a setting)
    file: Path,
    task: str,
    to: Path,
    *,
    model: str = "",
    leads: str = "12",
    by: str = "somebody",
    data: str | Path | None = None,
    prepared: str | Path | None = None,
) -> None:
    """Write an export of a table of predictions for the test records of a task.

    model: its name; that of the file if left out. leads: one setting, as typed. data, prepared:
    where the recordings are, to compare records and targets with those of the task. BadSetting and
    MissingData in one line.
    """
    (name,) = resolve_tasks([task])
    free(to)
    dataset, _, known = datasets.tasks()[name]
    table, copy = _table(file, known), None
    if data or prepared or not any(name.startswith("target:") for name in map(str, table)):
        places = [Path(place).expanduser() if place else None for place in (data, prepared)]
        copy = prepare(dataset, places[0], places[1])
        table = _looked_up(table, copy, known, file)
    called, settings = re.sub(r"\W+", "_", model or file.stem), parse_leads(leads)
    if len(settings) > 1:
        raise BadSetting(f"--leads {leads}: one setting, such as 12 or I")
    request = Request(
        models=(called,),
        tasks=(name,),
        leads=settings,
        seeds=1,
        weights=OWN_WEIGHTS,
        policies=(NATIVE,),
        parents={name: known.parent or name},
        training=Training(protocol=ELSEWHERE),
    )
    network = {"name": called, "title": model or file.stem, "weights": OWN_WEIGHTS}
    about = _of_copy(copy, name) if copy else _of_card(dataset, known, table)
    with making(to) as new:
        folder = Folder(new, [request])
        of_cell = {
            "model": folder.store.add_facts("models", network),
            "dataset": folder.store.add_facts("datasets", about),
            "dataset_name": dataset,
            "weights_name": OWN_WEIGHTS,
            "fit": f"fits/{ELSEWHERE}",
            "blind": 0.0,
            "code": {},
            "device": "",
            "excluded": 0,
            "finished": 0.0,
            "n_records": len(table),
            "windows": None,
        }
        scores = score_table(request.scoring.metrics, table)
        tables = {PREDICTIONS: table.assign(leads=leads), SCORES: scores}
        folder.add(plan_of(request).cells[0], of_cell, tables)
        given = read(new, unfinished=True)
        folder.close(by, given, given)
        move(new, to)


def _table(file: Path, task: Task) -> pd.DataFrame:
    """record, perhaps patient, then probability:LABEL and perhaps target:LABEL in the order of the
    task.
    """
    if file.suffix not in _READ:
        raise BadSetting(f"{file}: predictions are read from {enumerated(list(_READ))}")
    try:
        long = _READ[file.suffix](file, task)
        long = long.astype({name: str for name in _WORDS if name in long})
        return _wide(long, task)
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise BadSetting(f"{file}: {one_line(error)}; it needs {enumerated(_NEEDED)}") from None


def _of_arrays(file: Path, task: Task) -> pd.DataFrame:
    """The rows of an .npz; ValueError where its arrays do not belong together."""
    with np.load(file, allow_pickle=False) as held:
        arrays = {name: held[name] for name in held}
    records, labels = arrays["probability"].shape
    names = {"record": [f"{n:0{len(str(records))}}" for n in range(1, records + 1)]}
    made = {n: np.repeat(a, labels) for n, a in (names | arrays).items() if n in _WORDS}
    made["label"] = np.tile(arrays.get("label", task.labels), records)
    made |= {n: arrays[n].ravel() for n in ("probability", "target") if n in arrays}
    return pd.DataFrame(made)


def _wide(long: pd.DataFrame, task: Task) -> pd.DataFrame:
    """A row per record; ValueError where numbers or labels are not those of predictions."""
    there = set(long["label"])
    lacking = set() if task.least else set(task.labels) - there
    if odd := there - set(task.labels) or lacking:
        raise ValueError(f"label {min(odd)!r} is in the file or in {task.name}, not in both")
    labels = [label for label in task.labels if label in there]
    kinds = ["probability", *(["target"] if "target" in long else [])]
    both = long.pivot(index="record", columns="label", values=kinds).astype(float)
    p, y = (both[kind][labels].to_numpy() for kind in (kinds[0], kinds[-1]))
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError("a probability is missing, or not between 0 and 1")
    if len(kinds) > 1 and not np.isin(y, (-1, 0, 1)).all():
        raise ValueError("a target is not 1, 0 or -1 (not known)")
    columns = {"record": both.index.to_numpy()}
    if "patient" in long:
        columns["patient"] = long.groupby("record")["patient"].first().to_numpy()
    made = prediction_table(columns, labels, p, y.astype(np.int8))
    return made if len(kinds) > 1 else made.drop(columns=[f"target:{n}" for n in labels])


def _looked_up(table: pd.DataFrame, copy: Copy, task: Task, file: Path) -> pd.DataFrame:
    """With the patients and targets of the prepared copy; BadSetting where the records or targets
    are not those of its test split.
    """
    split = Selection(copy, None).of("test").set_index("record")
    if set(split.index) != set(table["record"]):
        common = len(set(split.index) & set(table["record"]))
        raise BadSetting(
            f"{file}: other test records of {task.name}: {len(table):,} in the file, "
            f"{len(split):,} in the copy, {common:,} in both"
        )
    own = split.loc[table["record"]].reset_index()
    columns = dict(zip(task.labels, task.columns))
    known = {f"target:{n}": own[columns[n]] for n in columns if f"probability:{n}" in table}
    if any(name in table and (table[name] != values).any() for name, values in known.items()):
        raise BadSetting(f"{file}: its targets are not those of {task.name}")
    return table.assign(patient=own["patient"], **known)


def _of_copy(copy: Copy, task: str) -> dict[str, Any]:
    """Facts of the data set as it lies here."""
    made = dataset_facts(Selection(copy, None))
    return made | {"quarantined": [], "tasks": {task: made["tasks"][task]}}


def _of_card(name: str, task: Task, table: pd.DataFrame) -> dict[str, Any]:
    """Facts of a data set of which the table is all that is here; gives the table patients."""
    card, named = facts(datasets.ROOM.card(name)), "patient" in table
    if not named:
        table["patient"] = table["record"]
    patients = sorted(set(table["patient"]))
    about = {"title": task.title, "dataset": name, "evaluation_only": task.parent is not None}
    about |= {"rule": task.rule, "paper": task.paper, "absent": task.absent}
    return {
        "name": name,
        **{k: card[k] for k in ("title", "doi", "licence", "synthetic", "verified")},
        "version": "not known",
        "patients_known": named,
        "limit": None,
        **dict.fromkeys(("records", "records_prepared", "records_release"), card["records"]),
        "test_records": len(table),
        "test_patients": len(patients),
        "patients": patients,
        "tasks": {task.name: about | {"n_labels": len(task.labels)}},
        "cautions": ["its test records were not compared with those of the task"],
    }
