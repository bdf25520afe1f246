"""A study for other people: no names of records, patients, folders or commands.

Records and patients get numbers in an order by chance, so that nothing of the order of their names
is left. Own data sets, and their tasks, get general names.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from secrets import SystemRandom
from typing import Any

import pandas as pd

from ecgbench import datasets
from ecgbench.core.files import making, move, put
from ecgbench.core.note import Notes
from ecgbench.core.registry import Room
from ecgbench.errors import BadSetting
from ecgbench.reports import _predictions, _write
from ecgbench.results.study import Run
from ecgbench.study.stored import Result

REPORTS = (
    *("main_table", "lead_curve", "across", "non_inferiority", "calibration", "operating"),
    "labels",
)
"""Others tell of commands, machines, files, ages or sexes."""
LEFT_OUT = (
    "left out: signals, features and weights; names of records and patients (random numbers "
    "instead); ages, sexes, devices and sites; folders, commands, machines and packages; names of "
    "own data sets; reasons and cautions in words; the reports of data, models, groups of "
    "patients, controls and provenance"
)
_PATH = re.compile(r"(?<![\w:/.])(?:~|[A-Za-z]:|\.{1,2})?[/\\][^\s;,'\"]+")
_WORDS = re.compile(r"[^\s;,:'\"()]+")
PLAIN = ("records", "recordings", "data", "folds", "labels", "leads", "patients", "models", "task")
"""Names of folders that are words of our sentences, and tell nothing."""
ZERO = "not among its labels"
"""What the card of an import says of 0 where nobody has edited it."""
_WEIGHTS = ("released", "random", "none")


@dataclass(frozen=True, kw_only=True)
class Names:
    """What stands in place of names."""

    datasets: Mapping[str, str]
    tasks: Mapping[str, str]
    titles: Mapping[str, str]
    records: Mapping[tuple[str, str], int]
    """Data set (as it was called) and record -> its number."""
    patients: Mapping[tuple[str, str], int]

    @classmethod
    def of(cls, study: Run) -> "Names":
        """Of all that a study holds."""
        own = [d for d in study.datasets if not datasets.ROOM.built_in(d.name)]
        sets = {d.name: f"own_{at}" for at, d in enumerate(own, 1)}
        tasks = [t for t in study.tasks if t.dataset in sets]
        titles = {d.title: f"Own recordings {at}" for at, d in enumerate(own, 1)}
        called = {t.title: f"Own task {at}" for at, t in enumerate(tasks, 1)}
        records, patients = set(), set()
        for r in study.results:
            one = r.predicted()
            records |= {(r.dataset, name) for name in one.records}
            patients |= {(r.dataset, str(name)) for name in one.patients}
        return cls(
            datasets=sets,
            tasks={t.name: f"own_task_{at}" for at, t in enumerate(tasks, 1)},
            titles=called | titles,
            records=_numbered(records),
            patients=_numbered(patients),
        )

    @cached_property
    def secret(self) -> set[str]:
        """Names that no sentence may hold."""
        return {name for _, name in (*self.records, *self.patients) if _tells(name)}

    def text(self, words: str) -> str:
        """A sentence without names and paths."""
        for old, new in {**self.titles, **self.tasks, **self.datasets}.items():
            if old.lower() in PLAIN:
                continue
            words = re.sub(rf"(?<!\w){re.escape(old)}(?!\w)", new, words)
        words = _PATH.sub("[left out]", words)
        return _WORDS.sub(lambda m: "[left out]" if m[0].strip(".") in self.secret else m[0], words)

    def called(self, one: Any, names: Mapping[str, str], **more: Any) -> Any:
        """Facts of a task or a data set under another name."""
        name, title = names.get(one.name, one.name), self.titles.get(one.title, one.title)
        return replace(one, name=name, title=title, **more)

    def rows(self, table: pd.DataFrame, result: Result) -> pd.DataFrame:
        """Predictions of a cell, in the order of the numbers."""
        dataset = {new: old for old, new in self.datasets.items()}.get(
            result.dataset, result.dataset
        )
        for column, numbers in (("record", self.records), ("patient", self.patients)):
            table[column] = [numbers[dataset, str(name)] for name in table[column]]
        return table.sort_values("record", kind="stable")


def _tells(name: str) -> bool:
    """Whether a name is none of the short numbers that sentences have."""
    return len(name) > (4 if name.isdigit() else 1)


def _numbered(names: set[tuple[str, str]]) -> dict[tuple[str, str], int]:
    order = sorted(names)
    SystemRandom().shuffle(order)
    return {name: at for at, name in enumerate(order, 1)}


def write(room: Room, study: Run, folder: Path) -> list[Path]:
    """Tables, page, figures and predictions; BadSetting where the folder holds anything."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadSetting(f"{folder} is there and not empty; name a new folder: --to FOLDER")
    names = Names.of(study)
    shared = _renamed(study, names)
    with making(folder) as new:
        written = _write.write(room, shared, new, only=REPORTS, also=())
        written.append(put(new / _predictions.NAME, _predictions.content(shared, names.rows)))
        move(new, folder)
    return [folder / path.name for path in written]


def _without(note: str, private: list[str]) -> str:
    """A note without what a person wrote on a card, and without the name of the table of labels."""
    for words in private:
        note = note.replace(words, "[left out]")
    return re.sub(r"\(as given in [^)]*\)", "(as given)", note)


def _renamed(study: Run, names: Names) -> Run:
    scorer = study.scorer
    if scorer:
        patients = {
            (names.datasets.get(d, d), fold): who for (d, fold), who in scorer.patients.items()
        }
        scorer = replace(scorer, patients=patients)
    private = [c for d in study.datasets if d.name in names.datasets for c in d.cautions]
    private += [t.absent for t in study.tasks if t.dataset in names.datasets and t.absent != ZERO]
    tables = ("main", "cells", "labels", "comparisons")
    unknown: dict[str, Any] = {"command": "", "commands": (), "platform": "", "packages": {}}
    hidden: dict[str, Any] = {"quarantined": (), "cautions": (), "digest": ""}
    tasks = [replace(t, dataset=names.datasets.get(t.dataset, t.dataset)) for t in study.tasks]
    changed: dict[str, Any] = {name: _table(getattr(study, name), names) for name in tables}
    return replace(
        study,
        path=Path("shared"),
        tasks=[names.called(t, names.tasks) for t in tasks],
        datasets=[names.called(d, names.datasets, **hidden) for d in study.datasets],
        notes=[replace(n, text=names.text(_without(n.text, private))) for n in study.notes],
        provenance=replace(study.provenance, device="", **unknown),
        results=[_result(r, names) for r in study.results],
        scorer=scorer,
        **changed,
    )


def _result(result: Result, names: Names) -> Result:
    """A cell under other names, with the files that it has."""
    cell = result.cell
    fit = replace(cell.fit, task=names.tasks.get(cell.fit.task, cell.fit.task))
    made = replace(result, cell=replace(cell, fit=fit, task=names.tasks.get(cell.task, cell.task)))
    called = names.datasets.get(result.dataset, result.dataset)
    made.__dict__["document"] = {**result.document, "dataset_name": called}
    return made


def _table(table: pd.DataFrame, names: Names) -> pd.DataFrame:
    made = table.copy()
    made["task"] = [names.tasks.get(name, name) for name in made["task"]]
    for column in {"weights", "best_weights"} & set(made):
        made[column] = [w if w in _WEIGHTS else "own weights" for w in made[column]]
    if "note" in made:
        made["note"] = made["note"].map(
            lambda notes: Notes(replace(n, text=names.text(n.text)) for n in notes)
        )
    if "path" in made:
        kept = (made["status"] == "missing") | (made["reason"] == "")
        made["reason"] = made["reason"].where(kept, "the reason is not shared")
        made["path"] = ""
    return made
