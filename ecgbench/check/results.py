"""Results that others add: whether a folder of `ecgbench runs export` holds what it says."""

import html
import json
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

from ecgbench import __version__, datasets, reports
from ecgbench.check._properties import demand, tried
from ecgbench.core.folders import demand_intact
from ecgbench.core.registry import folder_name
from ecgbench.core.text import counted, enumerated, one_line
from ecgbench.data.prepare import prepare
from ecgbench.data.select import Selection
from ecgbench.errors import Damaged
from ecgbench.exchange.every_eval_ever import KEYS, VERSION
from ecgbench.exchange.export import REPORTS
from ecgbench.exchange.names import may_go
from ecgbench.results import tables
from ecgbench.results.facts import DatasetFacts
from ecgbench.results.study import Run, read
from ecgbench.study import lent
from ecgbench.study.store import Store

WITHIN = 1e-6
"""By which a stated score or end of an interval may differ from that of the predictions."""
_READ = (".csv", ".md", ".html")
"""A text of LaTeX has the widths of its columns besides."""
_UNSEEN = re.compile(r"(?s)<(svg|style|script|sup)\b.*?</\1>|<[^>]*>")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?(?!\w)")
"""No part of a hash: whoever writes a page again has another commit."""
_ROW, _NUMBERS = ("model", *KEYS), ("value", "low", "high")


def check(
    folder: Path, data: Path | None = None, prepared: Path | None = None
) -> Iterator[dict[str, Any]]:
    """Rows of name, ok, detail: hashes, known tasks and splits, and every score again.

    data, prepared: with either, test records are compared with those of the prepared copy.
    """
    whole = list(tried([("every cell is as it was exported", _hashes)], folder))
    yield from whole
    if not all(row["ok"] for row in whole):
        return
    try:
        study = read(folder)
    except Exception as error:  # strangers may have written anything
        yield {"name": "it can be read", "ok": False, "detail": one_line(error)}
        return
    for one in study.datasets:
        name = f"{one.title}: task and split are known"
        yield from tried([(name, _known)], study, one, data, prepared)
    yield from tried([(f"scores in {tables.MAIN}", _printed)], folder, study)
    stated = {file.stem for file in (folder / "results").glob("*.json")}
    for name in sorted(stated | {folder_name(model.name) for model in study.models}):
        yield from tried([(f"scores in results/{name}.json", _scores)], folder, study, name)
    yield from tried([("numbers of its pages", _pages)], folder, study)


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
    test = Selection(copy, one.limit).of("test").set_index("record")
    demand(tested == {*test.index}, "another split: other test records")
    for r in own:
        predicted, of = r.predicted(), datasets.tasks()[r.cell.task][2]
        rows = test.loc[predicted.records]
        demand((rows["patient"] == predicted.patients).all(), f"other patients in {r.cell.task}")
        if tuple(predicted.labels) == of.labels:
            same = (rows[[*of.columns]].to_numpy() == predicted.target).all()
            demand(same, f"other labels of the test records of {r.cell.task}")
    return f"{found}, with the labels of the prepared copy"


def _printed(folder: Path, study: Run) -> str:
    """Each score of the table, which the page of results shows, is that of the predictions."""
    rows = tables.of_file(folder / tables.MAIN).to_dict("records")
    return _compared(study, [(row, [row[name] for name in _NUMBERS]) for row in rows])


def _scores(folder: Path, study: Run, name: str) -> str:
    """Each score and interval that the log of a model states is that of the predictions."""
    log = json.loads((folder / "results" / f"{name}.json").read_text(encoding="utf-8"))
    model = str(log["model_info"]["id"])
    demand(log["schema_version"] == VERSION, f"schema {log['schema_version']}, not {VERSION}")
    demand(folder_name(model) == name, f"it is of {model}")
    stated = []
    for one in (one["score_details"] for one in log["evaluation_results"]):
        ends = one["uncertainty"].get("confidence_interval", {})
        numbers = [one["score"], *(ends.get(name, math.nan) for name in ("lower", "upper"))]
        stated.append((one["details"] | {"model": model}, numbers))
    return _compared(study, stated, model)


def _pages(folder: Path, study: Run) -> str:
    """Every number of the tables and pages is that of a report that is written again."""
    sent, files = lent.read(folder), list[str]()
    if sent["version"] != __version__:
        return (
            f"not compared: they were written by ecgbench {sent['version']}, this is {__version__}"
        )
    with TemporaryDirectory() as again:
        reports.write(study, Path(again), only=REPORTS, pictures=())
        for file in sorted(Path(again).iterdir()):
            if file.suffix not in _READ:
                continue
            files.append(file.name)
            there = folder / file.name
            demand(there.is_file(), f"{file.name} is not there")
            stated, made = (_numbers(one, sent["by"]) for one in (there, file))
            same = len(stated) == len(made) and np.allclose(stated, made, WITHIN, WITHIN)
            demand(same, f"{file.name} has other numbers than the predictions give; write it again")
    return f"those of {counted(len(files), 'file')} again; pictures and LaTeX were not compared"


def _numbers(file: Path, by: str) -> list[float]:
    """All that a reader sees in a text, in its order."""
    text = file.read_text(encoding="utf-8")
    if file.suffix in (".html", ".md"):
        text = html.unescape(_UNSEEN.sub(" ", text))
    return [float(n) for n in _NUMBER.findall(text.replace(f"{lent.MARK}: measured by {by}", ""))]


def _compared(study: Run, stated: Sequence[tuple[Any, list[float]]], model: str = "") -> str:
    """Raises Broken where rows (of a model) and their numbers are not those of a study."""
    rows = study.main[study.main["value"].notna()].to_dict("records")
    again = {tuple(row[k] for k in _ROW): row for row in rows if model in ("", row["model"])}
    wrong, without, seen = [], 0, set[tuple[str, ...]]()
    tasks = datasets.tasks()
    for facts, numbers in stated:
        of = tuple(str(facts[k]) for k in _ROW)
        row = again.get(of)
        if of in seen:
            wrong.append(f"{' '.join(of)} is stated twice")
        elif row is None and not pd.isna(numbers[0]):
            data = tasks[str(facts["task"])][0] if facts["task"] in tasks else ""
            if not data or may_go(data):  # predictions of data that are open are all in an export
                wrong.append(f"{' '.join(of)} has no predictions here")
            without += 1
        seen.add(of)
        if row is None:
            continue
        if not np.allclose(numbers, [row[n] for n in _NUMBERS], 0, WITHIN, equal_nan=True):
            wrong.append(f"{' '.join(of)} is stated as {numbers} and is {row['value']:.6g}")
    found = len(seen & again.keys())
    wrong += [f"{' '.join(of)} is not stated" for of in again if of not in seen]
    demand(not wrong, enumerated(wrong[:3]) + (" and others" if len(wrong) > 3 else ""))
    demand(found, f"none of {without} can be computed again: their predictions are not here")
    more = f"; {without} without predictions, not computed again" if without else ""
    return f"{found} computed again{more}"
