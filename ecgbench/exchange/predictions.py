"""Results of which there are predictions only: a table of them becomes an export.

    .csv, .tsv, .parquet   record, label, probability; and perhaps target, patient. Or a row per
                           record with probability:LABEL, and perhaps target:LABEL
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

KINDS = (".csv", ".tsv", ".parquet", ".npz")
ELSEWHERE = "elsewhere"
"""The protocol of predictions that ecgbench did not make."""
_LONG = ["record", "label", "probability"]
_DATASET = ("title", "doi", "licence", "synthetic", "verified")


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
    table = _table(file, known)
    copy = None
    if data or prepared or f"target:{known.labels[0]}" not in table:
        places = [Path(place).expanduser() if place else None for place in (data, prepared)]
        copy = prepare(dataset, places[0], places[1])
        table = _looked_up(table, copy, known, file)
    table = table.assign(leads=leads)
    settings = parse_leads(leads)
    if len(settings) > 1:
        raise BadSetting(f"--leads {leads}: one setting, such as 12 or I")
    called = re.sub(r"\W+", "_", model or file.stem)
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
    with making(to) as new:
        folder = Folder(new, [request])
        network = {"name": called, "title": model or file.stem, "weights": OWN_WEIGHTS}
        about = _data_facts(dataset, known, table, copy)
        cell_facts = {
            "model": folder.store.add_facts("models", network),
            "dataset": folder.store.add_facts("datasets", about),
            "dataset_name": dataset,
            "weights_name": OWN_WEIGHTS,
            "n_records": len(table),
            "windows": None,
            "fit": f"fits/{ELSEWHERE}",
            "blind": 0.0,
            "code": {},
            "device": "",
            "excluded": 0,
            "finished": 0.0,
        }
        tables = {PREDICTIONS: table, SCORES: score_table(request.scoring.metrics, table)}
        folder.add(plan_of(request).cells[0], cell_facts, tables)
        given = read(new)
        folder.close(by, given, given)
        move(new, to)


def _table(file: Path, task: Task) -> pd.DataFrame:
    """record, perhaps patient, then probability:LABEL and perhaps target:LABEL in the order of the
    task.
    """
    if file.suffix not in KINDS:
        raise BadSetting(f"{file}: predictions are read from {enumerated(KINDS)}")
    try:
        if file.suffix == ".npz":
            wide = _of_arrays(file, task)
        elif file.suffix == ".parquet":
            wide = _wide(pd.read_parquet(file))
        else:
            names = {"record": str, "patient": str, "label": str}
            separator = "\t" if file.suffix == ".tsv" else ","
            wide = _wide(pd.read_csv(file, dtype=names, sep=separator, keep_default_na=False))
        labels = [n.partition(":")[2] for n in map(str, wide) if n.startswith("probability:")]
        odd = [n for n in labels if n not in task.labels] or [
            n for n in task.labels if n not in labels and task.least is None
        ]
        if odd:
            raise ValueError(f"label {odd[0]!r} is in the file or in {task.name}, not in both")
        kept = [n for n in task.labels if n in labels]
        targets = [f"target:{n}" for n in kept]
        p = wide[[f"probability:{n}" for n in kept]].to_numpy(float)
        if not ((p >= 0) & (p <= 1)).all():
            raise ValueError("a probability is missing, or not between 0 and 1")
        if wide["record"].duplicated().any():
            raise ValueError("a record is there twice")
        y = wide[targets].to_numpy(float) if targets[0] in wide else None
        if y is not None and not np.isin(y, (-1, 0, 1)).all():
            raise ValueError("a target is not 1, 0 or -1 (not known)")
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise BadSetting(
            f"{file}: {one_line(error)}; it needs the columns {enumerated(_LONG)}"
        ) from None
    columns = {n: wide[n].astype(str) for n in ("record", "patient") if n in wide}
    target = np.zeros(p.shape, np.int8) if y is None else y.astype(np.int8)
    made = prediction_table(columns, kept, p, target)
    return made.drop(columns=targets) if y is None else made


def _of_arrays(file: Path, task: Task) -> pd.DataFrame:
    with np.load(file, allow_pickle=False) as held:
        arrays = {name: held[name] for name in held}
    labels = arrays.get("label", np.asarray(task.labels)).tolist()
    shape = (len(arrays["probability"]), len(labels))
    for name in {"probability", "target"} & set(arrays):
        if arrays[name].shape != shape:
            raise ValueError(
                f"{name} is {arrays[name].shape}, and {task.name} has {shape[1]} labels"
            )
    numbers = [f"{n:0{len(str(shape[0]))}}" for n in range(1, shape[0] + 1)]
    made = {"record": arrays.get("record", np.asarray(numbers))}
    made |= {"patient": arrays["patient"]} if "patient" in arrays else {}
    for kind in ("probability", "target"):
        if kind in arrays:
            made |= {f"{kind}:{label}": arrays[kind][:, k] for k, label in enumerate(labels)}
    return pd.DataFrame(made)


def _wide(table: pd.DataFrame) -> pd.DataFrame:
    """A row per record."""
    if not set(_LONG) <= set(table):
        return table
    kinds = [kind for kind in ("probability", "target") if kind in table]
    made = table.pivot(index="record", columns="label", values=kinds)
    made.columns = [":".join(pair) for pair in made.columns]
    if "patient" in table:
        made.insert(0, "patient", table.groupby("record")["patient"].first())
    return made.reset_index()


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
    own = split.loc[table["record"]]
    labels = [n.partition(":")[2] for n in map(str, table) if n.startswith("probability:")]
    column = dict(zip(task.labels, task.columns))
    targets = {f"target:{n}": own[column[n]].to_numpy(np.int8) for n in labels}
    if any(name in table and (table[name] != values).any() for name, values in targets.items()):
        raise BadSetting(f"{file}: its targets are not those of {task.name}")
    table = table.drop(columns=[n for n in ("patient", *targets) if n in table])
    whole = table.assign(**targets)
    whole.insert(1, "patient", own["patient"].to_numpy())
    return whole


def _data_facts(name: str, task: Task, table: pd.DataFrame, copy: Copy | None) -> dict[str, Any]:
    """Facts of the data set, as far as they are known."""
    if copy:
        made = dataset_facts(Selection(copy, None))
        return made | {"quarantined": [], "tasks": {task.name: made["tasks"][task.name]}}
    card = facts(datasets.ROOM.card(name))
    named = "patient" in table
    if not named:
        table["patient"] = table["record"]
    patients = sorted(set(table["patient"]))
    about = {"title": task.title, "dataset": name, "evaluation_only": task.parent is not None}
    about |= {"rule": task.rule, "paper": task.paper, "absent": task.absent}
    return {
        "name": name,
        **{k: card[k] for k in _DATASET},
        "version": "not known",
        "patients_known": named,
        **dict.fromkeys(("records", "records_prepared", "records_release"), card["records"]),
        "test_records": len(table),
        "test_patients": len(patients),
        "patients": patients,
        "limit": None,
        "tasks": {task.name: about | {"n_labels": len(task.labels)}},
        "cautions": ["its test records were not compared with those of the task"],
    }
