"""Results that others add: whether a folder of `ecgbench runs export` holds what it says."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from ecgbench import datasets
from ecgbench.check._properties import Broken, demand, tried
from ecgbench.core.folders import demand_intact
from ecgbench.core.text import counted, enumerated
from ecgbench.data.prepare import prepare
from ecgbench.data.select import Selection
from ecgbench.errors import Damaged, EcgbenchError
from ecgbench.exchange.every_eval_ever import KEYS, VERSION
from ecgbench.results.facts import DatasetFacts
from ecgbench.results.study import Run, read
from ecgbench.study import lent
from ecgbench.study.store import Store

WITHIN = 1e-6
"""By which a stated score or end of an interval may differ from that of the predictions."""


def check(
    folder: Path, data: Path | None = None, prepared: Path | None = None
) -> Iterator[dict[str, Any]]:
    """Rows of name, ok, detail: hashes, known tasks and splits, and every score again.

    data, prepared: with either, test records are compared with those of the prepared copy.
    """
    whole = list(tried([("every file is as it was exported", _hashes)], folder))
    yield from whole
    if not all(row["ok"] for row in whole):
        return
    try:
        study = read(folder)
    except EcgbenchError as error:
        yield {"name": "it can be read", "ok": False, "detail": str(error)}
        return
    for one in study.datasets:
        name = f"{one.title}: task and split are known"
        yield from tried([(name, _known)], study, one, data, prepared)
    for model in study.models:
        yield from tried([(f"scores of {model.name}", _scores)], folder, study, model.name)


def _hashes(folder: Path) -> str:
    found = lent.read(folder)
    demand(found, f"{folder} holds no {lent.FILE}; write one: ecgbench runs export RUN --to FOLDER")
    store, wrong = Store(folder), []
    for cell in store.existing_plan().cells:
        at = store.folder(cell)
        try:
            if at:
                demand_intact(at)
        except Damaged as error:
            wrong.append(str(error).partition(";")[0])
    demand(not wrong, enumerated(wrong[:3]) + (" and others" if len(wrong) > 3 else ""))
    return f"{counted(len(found['cells']), 'cell')}, measured by {found['by']}"


def _known(study: Run, one: DatasetFacts, data: Path | None, prepared: Path | None) -> str:
    """The version and labels of a card, all test records that are stated, and no other."""
    own = [r for r in study.results if r.dataset == one.name]
    demand(datasets.ROOM.built_in(one.name), "a data set that nobody else has")
    card = datasets.ROOM.card(one.name)
    demand(one.version == card.version, f"version {one.version}, known is {card.version}")
    tested: set[str] = set()
    for r in own:
        predicted = r.predicted()
        tested |= set(predicted.records)
        task = next((t for t in card.tasks if t.name == r.cell.task), None)
        demand(task, f"no task {r.cell.task} of {card.title}")
        fixed = task is not None and task.least is None
        demand(
            not fixed or tuple(predicted.labels) == task.labels,  # type: ignore[union-attr]
            f"labels of {r.cell.task} are not those of the task",
        )
    demand(
        not own or len(tested) == one.test_records,
        f"{len(tested):,} test records have predictions, and {one.test_records:,} are stated",
    )
    found = f"{one.test_records:,} test records of {one.test_patients:,} patients"
    if not (data or prepared or card.synthetic) or one.folds:
        return f"{found}; not compared with a prepared copy"
    division = Store(study.path).existing_plan().division
    copy = prepare(one.name, data, prepared, limit=one.limit, division=division)
    wanted = set(Selection(copy, one.limit).of("test")["record"])
    demand(tested <= wanted and len(tested) == len(wanted), "another split: other test records")
    return f"{found}, as in the prepared copy"


def _scores(folder: Path, study: Run, model: str) -> str:
    """Each stated score and interval is that of the predictions."""
    file = next((f for f in (folder / "results").glob("*.json") if _model(f) == model), None)
    demand(file, f"results/ has no file of {model}")
    log = json.loads(file.read_text(encoding="utf-8")) if file else {}
    demand(log["schema_version"] == VERSION, f"schema {log['schema_version']}, not {VERSION}")
    rows = study.main[study.main["model"] == model]
    again = {tuple(row[k] for k in KEYS): row for row in rows.to_dict("records")}
    wrong, without = [], 0
    for stated in log["evaluation_results"]:
        of = tuple(stated["score_details"]["details"][k] for k in KEYS)
        row = again.pop(of, None)
        if row is None or row["status"] != "ok":
            without += 1
        elif not _equal(stated["score_details"], row):
            score = stated["score_details"]["score"]
            wrong.append(f"{' '.join(of)} is stated as {score:.6g} and is {row['value']:.6g}")
    wrong += [f"{' '.join(of)} is not stated" for of, row in again.items() if row["status"] == "ok"]
    if wrong:
        raise Broken(enumerated(wrong[:3]) + (" and others" if len(wrong) > 3 else ""))
    more = f"; {without} without predictions, not computed again" if without else ""
    return f"{len(log['evaluation_results']) - without} computed again{more}"


def _model(file: Path) -> str:
    try:
        return str(json.loads(file.read_text(encoding="utf-8"))["model_info"]["id"])
    except (ValueError, LookupError, TypeError, OSError):
        return ""


def _equal(stated: Any, row: Any) -> bool:
    ends = stated["uncertainty"].get("confidence_interval", {})
    pairs = [(stated["score"], row["value"])]
    pairs += [(ends.get("lower", math.nan), row["low"]), (ends.get("upper", math.nan), row["high"])]
    return all(abs(a - b) <= WITHIN or (pd.isna(a) and pd.isna(b)) for a, b in pairs)
