"""Data: which records of which release were used, and which were not, and why."""

import re
from urllib.parse import quote

from ecgbench.core.text import counted
from ecgbench.reports import (
    Code,
    Column,
    Facts,
    Group,
    Link,
    Notes,
    ReportCard,
    Row,
    Section,
    Table,
)
from ecgbench.reports._facts import marked
from ecgbench.results.facts import DatasetFacts
from ecgbench.results.notes import kinds
from ecgbench.results.study import Study

CARD = ReportCard(
    title="Data",
    summary="which records of which release were used",
    reads="run",
    order=70,
    exploratory=False,
)
_MANY = 5
"""A longer list of records is folded."""


def sections(study: Study) -> list[Section]:
    """The facts of each dataset."""
    parts = []
    for data in study.datasets:
        title = f"{marked(data.title, data.synthetic)}, version {data.version}"
        parts.append(Group(title, [Facts(_facts(data))]))
    return [Section(name="data", title=CARD.title, parts=[*parts, _table(study)])]


def _table(study: Study) -> Table:
    """For a paper: the page has it in words."""
    rows: list[Row] = [
        {
            "dataset": marked(data.title, data.synthetic),
            "version": data.version,
            "licence": data.licence,
            "records_release": data.records_release,
            "records": data.records,
            "test_records": data.test_records,
            "test_patients": data.test_patients,
            "tasks": ", ".join(
                f"{task.title} ({counted(task.n_labels, 'label')})"
                for task in study.tasks
                if task.dataset == data.name
            ),
        }
        for data in study.datasets
    ]
    return Table(
        name="datasets",
        caption="Datasets, their records, and the tasks on them.",
        columns=[
            Column("dataset", "Dataset"),
            Column("version", "Version"),
            Column("records_release", "Released", "number", "{:,}".format, note="records"),
            Column("records", "Used", "number", "{:,}".format, note="records"),
            Column("test_records", "Test", "number", "{:,}".format, note="records"),
            Column("test_patients", "Test", "number", "{:,}".format, note="patients"),
            Column("tasks", "Tasks"),
            Column("licence", "Licence"),
        ],
        rows=rows,
        formats=("csv", "md", "tex"),
    )


def _facts(data: DatasetFacts) -> dict[str, object]:
    limit = "" if data.limit is None else f"; limited to {data.limit}"
    used = (
        f"{data.records:,} used, {data.records_prepared:,} in this copy, {data.records_release:,} "
        f"in the release{limit}"
    )
    count = len(data.quarantined)
    lost = Notes([f"{each['record']}: {each['reason']}" for each in data.quarantined], "plain")
    facts: dict[str, object] = {
        "Records": used,
        "Test set": (
            f"{counted(data.test_records, 'record')} of {counted(data.test_patients, 'patient')}"
        ),
        "Flat leads": f"{counted(data.flat, 'record')} with a lead without variation (kept)",
        **(
            {"Fewer leads": f"{counted(data.fewer_leads, 'record')} without all twelve leads"}
            if data.fewer_leads
            else {}
        ),
        "Suspect": f"{counted(data.suspect, 'record')} ({data.suspect / data.records:.2%}; kept): "
        f"{kinds(data.found)}"
        if data.suspect
        else "none",
        **({"Repaired": _repaired(data)} if data.repaired or data.fix else {}),
        "Quarantined": Group(counted(count, "record"), [lost], folded=True, unfolded=count <= _MANY)
        if count
        else "none",
        "Left out by rule": "; ".join(f"{n:,} {why}" for why, n in data.excluded.items()) or "none",
        **({"Reader tried on": data.verified} if data.verified else {}),
        "Licence": data.licence,
    }
    facts |= {"DOI": Link(data.doi, doi(data.doi))} if data.doi else {}
    return facts | {"Digest": Code(data.digest)}


def _repaired(data: DatasetFacts) -> str:
    how = "prepared with --fix; " if data.fix else ""
    what = f": {kinds(data.fixed)}" if data.fixed else ""
    return f"{how}{counted(data.repaired, 'record')}{what}"


def doi(text: str) -> str:
    """The address of a DOI given bare or as an address: always at doi.org.

    >>> doi("10.13026/kfzx-aw45"), doi("https://doi.org/10.1/x")
    ('https://doi.org/10.13026/kfzx-aw45', 'https://doi.org/10.1/x')
    """
    return "https://doi.org/" + quote(
        re.sub(r"^(https?://(dx\.)?doi\.org/|doi:)", "", text.strip()), safe="/().;-_:"
    )
