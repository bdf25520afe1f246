"""Provenance: which records of which release were used, what each network is and what it was fed,
and every command and commit behind the numbers.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

import pandas as pd

from ecgbench import reports as r
from ecgbench.cards.cell import RANDOM
from ecgbench.core import provenance
from ecgbench.core.text import counted, duration, enumerated
from ecgbench.reports import _facts as facts
from ecgbench.reports._text import millions, moment
from ecgbench.results.notes import kinds
from ecgbench.results.study import Run

CARD = r.ReportCard(
    title="Provenance",
    summary="which records were used, what each network was fed, every command and commit, seeds",
    reads="run",
    order=90,
    exploratory=False,
)
_MANY = 5
"""A longer list of records is folded."""
_WHERE = {"native": "before resampling", "record": "after resampling", "window": "each window"}
_IN_TABLES = {
    *("command", "commands", "commit", "dirty", "device", "origins", "packages"),
    *("seconds_cells", "seconds_fits", "version"),
}
_COUNT = "{:,}".format
_DATASETS = (
    r.Column("dataset"),
    r.Column("version"),
    r.Column("records_release", kind="number", spell=_COUNT),
    r.Column("records_prepared", kind="number", spell=_COUNT),
    r.Column("limit", kind="number", spell=_COUNT),
    r.Column("records", kind="number", spell=_COUNT),
    r.Column("test_records", kind="number", spell=_COUNT),
    r.Column("test_patients", kind="number", spell=_COUNT),
    r.Column("flat", kind="number", spell=_COUNT),
    r.Column("fewer_leads", kind="number", spell=_COUNT),
    r.Column("suspect", kind="number", spell=_COUNT),
    r.Column("repaired", kind="number", spell=_COUNT),
    r.Column("quarantined", kind="number", spell=_COUNT),
    r.Column("excluded"),
    r.Column("verified"),
    r.Column("tasks"),
    r.Column("licence"),
    r.Column("doi", cell=lambda row: r.Link(row["doi"], doi(row["doi"]))),
    r.Column("digest", cell=lambda row: r.Code(row["digest"])),
)
_MODELS = (
    r.Column("model"),
    r.Column("summary"),
    r.Column("parameters", kind="number", spell=millions),
    r.Column("fs", kind="number", spell="{:g}".format),
    r.Column("seconds", kind="number", spell="{:g}".format),
    r.Column("leads", kind="number"),
    r.Column("input"),
    r.Column("policy"),
    r.Column("absent"),
    r.Column("windows", kind="number", spell="{:.3g}".format),
    r.Column("weights"),
    r.Column("tensors", cell=lambda row: r.Code(row["tensors"])),
    r.Column("file"),
    r.Column("file_sha256", cell=lambda row: r.Code(row["file_sha256"])),
    r.Column("terms"),
    r.Column("objective"),
    r.Column("corpora"),
    r.Column("paper"),
    r.Column("licence"),
)
_IN_PRINT = {
    *("dataset", "version", "records_release", "records", "test_records", "test_patients"),
    *("tasks", "licence"),
    *("model", "parameters", "fs", "seconds", "leads", "policy", "windows", "weights", "corpora"),
}
"""Columns for which a table on paper has room."""
_COMMANDS = (
    r.Column("started", spell=moment),
    r.Column("command", cell=lambda row: r.Code(row["command"])),
    r.Column("device"),
    r.Column("computed", kind="number"),
    r.Column("reused", kind="number"),
    r.Column("seconds", kind="number", spell=duration),
    r.Column("ended", spell=lambda ended: "yes" if ended else "did not end"),
)
_COMMITS = (
    r.Column("version"),
    r.Column("commit"),
    r.Column("cells", kind="number"),
    r.Column("fits", kind="number"),
    r.Column("features", kind="number"),
)


def rows(study: Run) -> pd.DataFrame:
    """Of each command that worked in the folder."""
    commands: pd.DataFrame = _frame(list(map(vars, study.provenance.commands)), _COMMANDS)
    return commands


def sections(study: Run, rows: pd.DataFrame) -> list[r.Section]:
    """Data, models, and what is known of the commands; facts in words on the page, in tables for a
    paper.
    """
    return [
        r.Section(name="data", title="Data", parts=_data(study)),
        r.Section(name="models", title="Models", parts=_models(study)),
        r.Section(name="provenance", title="Provenance", parts=_made_by(study, rows)),
    ]


def _frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[r.Column], *more: str) -> Any:
    return pd.DataFrame(rows, columns=[*(c.name for c in columns), *more], dtype=object)


def _table(
    name: str, caption: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[r.Column]
) -> list[r.Part]:
    """The columns of each row as facts on the page, and the table of all in CSV and for a paper."""
    columns, frame = [c.of_file(name) for c in columns], _frame(rows, columns)
    groups = [
        r.Group(
            row[columns[0].name] + (" (random weights)" if row.get("weights") == RANDOM else ""),
            folded=True,
            parts=[
                r.Facts(
                    {
                        c.title: c.cell(row) if c.cell else c.spell(row[c.name])
                        for c in columns[1:]
                        if row[c.name] not in (None, "")
                    }
                )
            ],
        )
        for row in r.records(frame)
    ]
    printed = [c for c in columns if c.name in _IN_PRINT]
    formats: Sequence[r.Format] = ("csv", "md", "tex")
    table = r.Table(name=name, caption=caption, rows=frame, columns=printed, formats=formats)
    return [*groups, table]


def _data(study: Run) -> list[r.Part]:
    rows, details = [], []
    for data in study.datasets:
        title = facts.marked(data.title, data.synthetic)
        tasks = [
            f"{task.title} ({counted(task.n_labels, 'label')})"
            for task in study.tasks
            if task.dataset == data.name
        ]
        rows.append(
            vars(data)
            | {
                "dataset": title,
                "tasks": ", ".join(tasks),
                "excluded": "; ".join(f"{n:,} {why}" for why, n in data.excluded.items()),
                "quarantined": len(data.quarantined),
            }
        )
        notes = [f"suspect: {kinds(data.found)}"] if data.suspect else []
        notes += [f"repaired (--fix): {kinds(data.fixed)}"] if data.fixed else []
        notes += [f"quarantined {each['record']}: {each['reason']}" for each in data.quarantined]
        if notes:
            words = r.Notes(notes, "plain")
            few = len(notes) <= _MANY
            details.append(r.Group(f"Records of {title}", [words], folded=True, unfolded=few))
    caption = "Datasets, their records, and the tasks on them."
    return [*_table("datasets", caption, rows, _DATASETS), *details]


def doi(text: str) -> str:
    """The address of a DOI given bare or as an address: always at doi.org.

    >>> doi("10.13026/kfzx-aw45"), doi("https://doi.org/10.1/x")
    ('https://doi.org/10.13026/kfzx-aw45', 'https://doi.org/10.1/x')
    """
    bare = re.sub(r"^(https?://(dx\.)?doi\.org/|doi:)", "", text.strip())
    return "https://doi.org/" + quote(bare, safe="/().;-_:")


def _models(study: Run) -> list[r.Part]:
    rows = []
    for model in study.models:
        contract, source = model.contract, model.weights_source
        fed, absent = "not known", ""
        if contract:
            fed = contract_words(contract)
            absent = f"under policy {contract['policy']}: {contract['absent']}"
        heads = [head for head in facts.columns(study) if head.model == model.name]
        terms = [f"licence {source['licence']}"] if source.get("licence") else []
        terms += [source["terms"]] if source.get("terms") else []
        rows.append(
            vars(model)
            | {
                "model": model.title,
                "fs": contract.get("fs"),
                "seconds": contract.get("seconds"),
                "leads": len(contract.get("leads", ())),
                "input": fed,
                "policy": enumerated([head.policy for head in heads]),
                "absent": absent,
                "weights": model.weights + (" (own)" if source.get("own") else ""),
                "tensors": model.weights_sha256,
                "file": source.get("file"),
                "file_sha256": source.get("sha256"),
                "terms": "; ".join(terms),
                "corpora": ", ".join(model.corpora),
            }
        )
    caption = "Models, what each is fed, and what its weights were trained on."
    return _table("models", caption, rows, _MODELS)


def contract_words(contract: Mapping[str, Any]) -> str:
    """An input contract in one line: `paper: 100 Hz, windows of 5 s, 12 leads, no filter,
    normalisation none`.
    """
    band, decimate = contract.get("filter"), contract.get("decimate", 1)
    filtered = "no filter"
    if band:
        where = f"{band['kind']}, {_WHERE[band.get('where', 'native')]}"
        filtered = f"band-pass {band['low']:g}–{band['high']:g} Hz ({where})"
    scope = " of each window" if contract.get("scope") == "window" else ""
    parts = [
        f"{contract['fs']:g} Hz",
        f"windows of {contract['seconds']:g} s",
        counted(len(contract["leads"]), "lead"),
        filtered,
        f"limited to ±{contract['clip']:g} mV" if contract.get("clip") else "",
        f"normalisation {contract['normalisation']}{scope}",
        f"a window every {contract['stride']:g} s" if contract.get("stride") else "",
        f"the leads joined and decimated by {decimate}" if decimate > 1 else "",
    ]
    return f"{contract['name']}: " + ", ".join(filter(None, parts))


def _made_by(study: Run, rows: pd.DataFrame) -> list[r.Part]:
    """Everything that is known, what is empty left out."""
    known, writer = study.provenance, provenance.code()
    other = {
        word.replace("_", " "): ", ".join(map(str, v)) if isinstance(v, list | tuple) else v
        for word, v in asdict(known).items()
        if word not in _IN_TABLES and v not in (None, "", [], ())
    }
    codes = [asdict(origin.code) for origin in known.origins]
    commits = [
        code | vars(origin) | {"commit": _commit(code)}
        for code, origin in zip(codes, known.origins)
    ]
    lost = sum(not command.ended for command in known.commands)
    parts: list[r.Part] = [
        r.Table(
            name="provenance",
            caption="The commands that worked in the folder. Fits took "
            f"{duration(known.seconds_fits)}, scores {duration(known.seconds_cells)}."
            + (f" {lost} did not end: counted until the last note." if lost else ""),
            rows=rows,
            columns=_COMMANDS,
            summary="one row per command in the folder",
            formats=("csv", "md", "html"),
        ),
        r.Table(
            name="commits",
            caption="The code behind the cells. This report: "
            f"ecgbench {writer['version']}, commit {_commit(writer)}.",
            rows=_frame(commits, _COMMITS),
            columns=_COMMITS,
            summary="one row per commit",
            formats=("csv", "md"),
        ),
        r.Group(
            "Settings",
            [r.Facts(other | {"plan hash": r.Code(known.plan_hash)})],
            folded=True,
        ),
    ]
    if study.scorer and study.results and not known.commands:
        parts.append(r.Notes(["Which commands computed these cells is not known: none is noted."]))
    if known.packages:
        parts.append(r.Group("Packages", [r.Facts(known.packages)], folded=True))
    return parts


def _commit(code: Mapping[str, Any]) -> str:
    """A commit and whether something was changed."""
    return (code["commit"] or "not known") + (" with uncommitted changes" if code["dirty"] else "")
