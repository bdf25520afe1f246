"""Provenance: which records of which release were used, what each network is and what it was fed,
and every command and commit behind the numbers.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from ecgbench.core import provenance
from ecgbench.core.text import counted, duration, enumerated
from ecgbench.reports import (
    Code,
    Column,
    Facts,
    Group,
    Link,
    Notes,
    Numbers,
    Part,
    ReportCard,
    Row,
    Section,
    Table,
)
from ecgbench.reports._facts import columns, marked
from ecgbench.reports._text import millions, moment
from ecgbench.results.facts import DatasetFacts, ModelFacts
from ecgbench.results.notes import kinds
from ecgbench.results.study import Study

CARD = ReportCard(
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
_DATASETS = (
    Column("dataset", "Dataset"),
    Column("version", "Version"),
    Column("records_release", "Released", "number", "{:,}".format, note="records"),
    Column("records", "Used", "number", "{:,}".format, note="records"),
    Column("test_records", "Test", "number", "{:,}".format, note="records"),
    Column("test_patients", "Test", "number", "{:,}".format, note="patients"),
    Column("tasks", "Tasks"),
    Column("licence", "Licence"),
)
_MODELS = (
    Column("model", "Model"),
    Column("parameters", "Parameters", "number", millions),
    Column("fs", "Rate", "number", "{:g}".format, note="Hz"),
    Column("seconds", "Window", "number", "{:g}".format, note="s"),
    Column("leads", "Leads", "number"),
    Column("policy", "Absent leads"),
    Column("windows", "Windows", "number", "{:.3g}".format, note="averaged"),
    Column("weights", "Weights"),
    Column("corpora", "Pre-trained on"),
)
_COMMANDS = (
    Column("started", "Began", spell=moment),
    Column("command", "Command"),
    Column("device", "Device"),
    Column("computed", "Cells computed", "number"),
    Column("reused", "Cells reused", "number"),
    Column("seconds", "Duration", "number", spell=duration),
    Column("ended", "Ended", spell=lambda ended: "yes" if ended else "did not end"),
)
_COMMITS = (
    Column("version", "Version"),
    Column("commit", "Commit"),
    Column("cells", "Cells it scored", "number"),
    Column("fits", "Cells it fitted", "number"),
    Column("features", "Cells with features of it", "number"),
)


def sections(study: Study) -> list[Section]:
    """Data, models, and what is known of the commands; facts in words on the page, in tables for a
    paper.
    """
    return [
        Section(name="data", title="Data", parts=_data(study)),
        Section(name="models", title="Models", parts=_models(study)),
        Section(name="provenance", title="Provenance", parts=_made_by(study)),
    ]


def _data(study: Study) -> list[Part]:
    parts: list[Part] = []
    rows: list[Row] = []
    for data in study.datasets:
        title = marked(data.title, data.synthetic)
        parts.append(Group(f"{title}, version {data.version}", [Facts(_of_dataset(data))]))
        tasks = [
            f"{task.title} ({counted(task.n_labels, 'label')})"
            for task in study.tasks
            if task.dataset == data.name
        ]
        rows.append(vars(data) | {"dataset": title, "tasks": ", ".join(tasks)})
    caption = "Datasets, their records, and the tasks on them."
    table = Table(
        name="datasets", caption=caption, columns=_DATASETS, rows=rows, formats=("csv", "md", "tex")
    )
    return [*parts, table]


def _of_dataset(data: DatasetFacts) -> dict[str, Any]:
    limit = "" if data.limit is None else f"; limited to {data.limit}"
    facts: dict[str, Any] = {
        "Records": f"{data.records:,} used, {data.records_prepared:,} in this copy, "
        f"{data.records_release:,} in the release{limit}",
        "Test set": f"{counted(data.test_records, 'record')} of "
        f"{counted(data.test_patients, 'patient')}",
        "Flat leads": f"{counted(data.flat, 'record')} with a lead without variation (kept)",
    }
    if data.fewer_leads:
        facts["Fewer leads"] = f"{counted(data.fewer_leads, 'record')} without all twelve leads"
    facts["Suspect"] = "none"
    if data.suspect:
        share = f"{data.suspect / data.records:.2%}"
        found = f"{counted(data.suspect, 'record')} ({share}; kept)"
        facts["Suspect"] = f"{found}: {kinds(data.found)}"
    if data.repaired or data.fix:
        how = "prepared with --fix; " if data.fix else ""
        what = f": {kinds(data.fixed)}" if data.fixed else ""
        facts["Repaired"] = f"{how}{counted(data.repaired, 'record')}{what}"
    lost = [f"{each['record']}: {each['reason']}" for each in data.quarantined]
    shown = Group(
        counted(len(lost), "record"),
        [Notes(lost, "plain")],
        folded=True,
        unfolded=len(lost) <= _MANY,
    )
    facts["Quarantined"] = shown if lost else "none"
    left_out = [f"{n:,} {why}" for why, n in data.excluded.items()]
    facts["Left out by rule"] = "; ".join(left_out) or "none"
    if data.verified:
        facts["Reader tried on"] = data.verified
    facts["Licence"] = data.licence
    if data.doi:
        facts["DOI"] = Link(data.doi, doi(data.doi))
    return facts | {"Digest": Code(data.digest)}


def doi(text: str) -> str:
    """The address of a DOI given bare or as an address: always at doi.org.

    >>> doi("10.13026/kfzx-aw45"), doi("https://doi.org/10.1/x")
    ('https://doi.org/10.13026/kfzx-aw45', 'https://doi.org/10.1/x')
    """
    bare = re.sub(r"^(https?://(dx\.)?doi\.org/|doi:)", "", text.strip())
    return "https://doi.org/" + quote(bare, safe="/().;-_:")


def _models(study: Study) -> list[Part]:
    parts: list[Part] = []
    rows: list[Row] = []
    for model in study.models:
        policies = enumerated([head.policy for head in columns(study) if head.model == model.name])
        random = " (random weights)" if model.weights == "random" else ""
        own = " (own)" if model.weights_source.get("own") else ""
        parts.append(Group(f"{model.title}{random}", [Facts(_of_model(model, policies))]))
        rows.append(
            {
                **vars(model),
                "model": model.title,
                "fs": model.contract.get("fs"),
                "seconds": model.contract.get("seconds"),
                "leads": len(model.contract.get("leads", ())),
                "policy": policies,
                "weights": f"{model.weights}{own}",
                "corpora": ", ".join(model.corpora),
            }
        )
    table = Table(
        name="models",
        caption="Models, what each is fed, and what its weights were trained on.",
        columns=_MODELS,
        rows=rows,
        numbers=Numbers(columns=[*(c.name for c in _MODELS), "paper"], rows=rows) if rows else None,
        formats=("csv", "md", "tex"),
    )
    return [*parts, table]


def _of_model(model: ModelFacts, policies: str) -> dict[str, Any]:
    contract = model.contract
    size = f"; {model.parameters:,} parameters" if model.parameters else ""
    corpora = f"; on {', '.join(model.corpora)}" if model.corpora else ""
    return {
        "Network": f"{model.summary}{size}",
        "Input": contract_words(contract),
        "Policy used": policies or "--",
        "An absent lead": f"under policy {contract['policy']}: {contract['absent']}",
        "Windows": "--" if model.windows is None else f"{model.windows:.3g} of a record averaged",
        "Weights": list(_weights(model)),
        **({"Pre-training": f"{model.objective}{corpora}"} if model.objective else {}),
        "Paper": model.paper,
        "Licence": model.licence,
    }


def _weights(model: ModelFacts) -> Iterator[str | Code]:
    yield model.weights
    if model.weights_sha256:
        yield ", sha256 of the tensors "
        yield Code(model.weights_sha256)
    source = model.weights_source
    if source.get("file"):
        yield f"; from {source['file']}, sha256 "
        yield Code(str(source["sha256"]))
        yield f", licence {source['licence']}" if source.get("licence") else ""
        yield f": {source['terms']}" if source.get("terms") else ""


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


def _made_by(study: Study) -> list[Part]:
    """Everything that is known, what is empty left out."""
    known, writer = study.provenance, provenance.code()
    facts = {
        word.replace("_", " "): ", ".join(map(str, v)) if isinstance(v, list | tuple) else v
        for word, v in asdict(known).items()
        if word not in _IN_TABLES and v not in (None, "", [], ())
    }
    facts["plan hash"] = Code(known.plan_hash)
    commands = [vars(c) | {"command": Code(c.command)} for c in known.commands]
    commits = [
        asdict(o.code) | vars(o) | {"commit": _commit(asdict(o.code))} for o in known.origins
    ]
    lost = sum(not command.ended for command in known.commands)
    parts: list[Part] = [
        _table(
            "provenance",
            _COMMANDS,
            commands,
            f"The commands that worked in the folder. Fits took {duration(known.seconds_fits)}, "
            f"scores {duration(known.seconds_cells)}."
            + (f" {lost} did not end: counted until the last note." if lost else ""),
            "command in the folder",
        ),
        _table(
            "commits",
            _COMMITS,
            commits,
            "The code behind the cells. This report: "
            f"ecgbench {writer['version']}, commit {_commit(writer)}.",
            "commit",
        ),
        Facts(facts),
    ]
    if study.scorer and study.results and not known.commands:
        parts.append(Notes(["Which commands computed these cells is not known: none is noted."]))
    if known.packages:
        parts.append(Group("Packages", [Facts(known.packages)], folded=True))
    return parts


def _table(
    name: str, columns: Sequence[Column], rows: Sequence[Row], caption: str, what: str
) -> Table:
    numbers = Numbers(columns=[c.name for c in columns], rows=rows, summary=f"one row per {what}")
    return Table(
        name=name,
        caption=caption,
        columns=columns,
        rows=rows,
        numbers=numbers,
        formats=("csv", "md", "html"),
    )


def _commit(code: Mapping[str, Any]) -> str:
    """A commit and whether something was changed."""
    return (code["commit"] or "not known") + (" with uncommitted changes" if code["dirty"] else "")
