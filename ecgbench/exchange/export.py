"""`ecgbench runs export`: results as one folder that anybody can read, check and report.

README.md, index.html, ...     for people: who measured it, the command, tables
results/MODEL.json             scores in the schema of Every Eval Ever
export.json, and plan.toml, cells/, models/, datasets/, invocations/ as a run folder has them:
                               predictions of each test record, and what they are of
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from ecgbench import __version__, reports
from ecgbench.cards.cell import Cell
from ecgbench.cards.plan import Request
from ecgbench.core.files import as_json, as_parquet, making, move, put, sha256_of
from ecgbench.core.folders import DONE, publish
from ecgbench.core.keys import key
from ecgbench.core.provenance import date
from ecgbench.core.text import counted, enumerated, line
from ecgbench.errors import BadSetting
from ecgbench.exchange import every_eval_ever
from ecgbench.exchange.names import LEFT_OUT, WITHHELD, Names, may_go
from ecgbench.results.origin import without_folders
from ecgbench.results.study import Run, read
from ecgbench.study import invocation, lent
from ecgbench.study.store import Store
from ecgbench.study.stored import CELL, PREDICTIONS, SCORES

REPORTS = ("verdicts", "main_table", "lead_curve", "labels", "provenance")
_OF_CELL = (
    *("blind", "code", "device", "environments", "excluded", "features_code", "finished"),
    *("lacking_leads", "n_patients", "n_records", "seconds", "weights_sha256", "windows"),
)
_OF_FIT = ("classes", "code", "features_code", "marks", "protocol", "records", "seconds")


class Folder:
    """A folder of results that is being written."""

    def __init__(self, path: Path, requests: Sequence[Request]) -> None:
        self.store, self.cells = Store(path), dict[str, str]()
        for request in requests:
            self.study = key(self.store.add_request(request).shared())

    def add(self, cell: Cell, facts: dict[str, Any], tables: Mapping[str, pd.DataFrame]) -> None:
        """A cell; tables by the names of their files."""
        known = {"exported": facts.get("key", ""), "identity": cell.identity}
        about = {"key": key(known), "key_facts": known, "features": None, "study": self.study}
        folder = self.store.cell_folder(cell)
        files = {file: as_parquet(table) for file, table in tables.items()}
        publish(folder, {**files, CELL: as_json(facts | about | {"identity": cell.identity})})
        self.cells[cell.identity] = sha256_of(folder / DONE)

    def close(self, by: str, given: Run, told: Run) -> None:
        """Write the page of what was added, read as `given`, the scores of what is `told`, and who
        measured them.
        """
        new, by = self.store.path, line(by)
        for model, content in every_eval_ever.logs(told, by).items():
            put(new / "results" / f"{model}.json", as_json(content))
        reports.write(given, new, only=REPORTS, pictures=("png",))
        put(new / "README.md", _page(told, by))
        facts = {"by": by, "made": date(), "version": __version__, "cells": self.cells}
        lent.write(new, facts)
        shutil.rmtree(new / "locks", ignore_errors=True)


def free(to: Path) -> None:
    """BadSetting where a folder holds anything."""
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise BadSetting(f"{to} is there and not empty; name a new folder: --to FOLDER")


def export(study: Run, to: Path, by: str) -> list[str]:
    """Write what may be given away of a run; returns what stays, in sentences. BadSetting where the
    folder holds anything, or others measured it.
    """
    free(to)
    if lent.read(study.path):
        raise BadSetting(f"{study.path} is an export already; copy it")
    names = Names.of(study)
    with making(to) as new:
        folder = _fill(study, names, new)
        given = read(new, unfinished=True)
        folder.close(by, given, _with_withheld(given, study, names))
        move(new, to)
    stays = [t.title for t in study.tasks if not may_go(t.dataset)]
    withheld = f"scores without predictions: {enumerated(stays)}, whose data are not open"
    return [LEFT_OUT, *([withheld] if stays else [])]


def _fill(study: Run, names: Names, new: Path) -> Folder:
    """The cells of a study, and why others have no number."""
    source = Store(study.path)
    folder = Folder(new, [names.request(one.request()) for one in source.requested()])
    facts = {kind: source.facts(kind) for kind in ("models", "datasets")}
    done = set[Cell]()
    for r in study.results:
        done.add(r.cell)
        if not may_go(r.dataset):
            folder.store.give_reason(names.cell(r.cell), "skipped", "its data are not open")
            continue
        document = r.document
        model, data = (facts[f"{kind}s"][document[kind]] for kind in ("model", "dataset"))
        of_cell = {
            **{name: document[name] for name in _OF_CELL if name in document},
            "key": document["key"],
            "model": folder.store.add_facts("models", names.model(model)),
            "dataset": folder.store.add_facts("datasets", names.data(data)),
            "dataset_name": names.datasets.get(r.dataset, r.dataset),
            "weights_name": names.weights(str(document["weights_name"])),
            "fit": f"fits/{r.fit_folder.name}",
            "fitted": {name: r.fitted[name] for name in _OF_FIT if name in r.fitted},
        }
        tables = {PREDICTIONS: names.predictions(r.predictions(), r.dataset), SCORES: r.scores()}
        folder.add(names.cell(r.cell), of_cell, tables)
    for cell in source.existing_plan().cells:
        if cell not in done and (state := source.state(cell)[0]) in ("failed", "skipped"):
            folder.store.give_reason(names.cell(cell), state, WITHHELD)
    for facts_of in invocation.stored(source):
        typed = "" if names.datasets else without_folders(str(facts_of["command"]))
        told = {**facts_of, "command": typed}
        folder.store.add_facts("invocations", {**told, "sha256": key(told)})
    return folder


def _with_withheld(given: Run, study: Run, names: Names) -> Run:
    """What was exported, with the scores of a study whose predictions stay behind."""
    tasks = [t for t in study.tasks if not may_go(t.dataset)]
    kept = {t.name for t in tasks}
    data = [d for d in study.datasets if not may_go(d.name)]
    others = study.main[study.main["task"].isin(kept)]
    others = others.assign(weights=others["weights"].map(names.weights))
    here = given.main[~given.main["task"].isin(kept)]
    known = {m.name for m in given.models}
    lost = [replace(m, weights=names.weights(m.weights)) for m in study.models]
    return replace(
        given,
        models=[*given.models, *(m for m in lost if m.name not in known)],
        main=pd.concat([here, others], ignore_index=True) if len(others) else here,
        tasks=[*given.tasks, *tasks],
        datasets=[*given.datasets, *data],
    )


def _page(given: Run, by: str) -> str:
    """README.md."""
    commands = [c.command for c in given.provenance.commands if c.command]
    known = given.provenance
    packages = ", ".join(f"{name} {version}" for name, version in known.packages.items())
    made = f"ecgbench {known.version}, Python {known.python}, {packages}"
    made = made if known.version else "another program"
    titled = enumerated([d.title for d in given.datasets])
    licences = "; ".join(f"{d.title}: {d.licence}" for d in given.datasets)
    return f"""# {enumerated([m.title for m in given.models])} on {titled}

{counted(len(given.results), "cell")}, exported by ecgbench {__version__}. Computed by {made}.

    {(chr(10) + "    ").join(commands or ["ecgbench read FOLDER"])}

[index.html](index.html) has tables and figures, [main_table.md](main_table.md) the scores,
`results/` every score in the schema of Every Eval Ever, `cells/` the predictions (record, patient,
and of each label probability and target; -1: not known). Every score again from the predictions,
and a report:

    ecgbench check results FOLDER
    ecgbench report FOLDER
    ecgbench report RUN --with FOLDER

{LEFT_OUT[:1].upper()}{LEFT_OUT[1:]}. Licences: {licences}.

Measured by {by} on {date()[:10]}, on {known.platform or "an unknown machine"}.
"""
