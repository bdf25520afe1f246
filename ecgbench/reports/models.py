"""Models: what each network is, what it was fed, what an absent lead became, and where its weights
are from.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ecgbench.core.text import counted, enumerated
from ecgbench.reports import (
    Code,
    Column,
    Facts,
    Group,
    Numbers,
    ReportCard,
    Row,
    Section,
    Table,
)
from ecgbench.reports._facts import columns
from ecgbench.reports._text import millions
from ecgbench.results.facts import ModelFacts
from ecgbench.results.study import Study

CARD = ReportCard(
    title="Models",
    summary="what each network is and what it was fed",
    reads="run",
    order=80,
    exploratory=False,
)
_WHERE = {"native": "before resampling", "record": "after resampling", "window": "each window"}


def sections(study: Study) -> list[Section]:
    """The facts of each model."""
    parts = []
    for model in study.models:
        random = " (random weights)" if model.weights == "random" else ""
        policies = [head.policy for head in columns(study) if head.model == model.name]
        parts.append(Group(f"{model.title}{random}", [Facts(_facts(model, policies))]))
    return [Section(name="models", title=CARD.title, parts=[*parts, _table(study)])]


def _table(study: Study) -> Table:
    """For a paper: the page has it in words."""
    rows: list[Row] = []
    for model in study.models:
        contract = model.contract
        policies = [head.policy for head in columns(study) if head.model == model.name]
        own = " (own)" if model.weights_source.get("own") else ""
        rows.append(
            {
                "model": model.title,
                "parameters": model.parameters,
                "fs": contract.get("fs"),
                "seconds": contract.get("seconds"),
                "leads": len(contract.get("leads", ())),
                "policy": enumerated(policies),
                "windows": model.windows,
                "weights": f"{model.weights}{own}",
                "corpora": ", ".join(model.corpora),
                "paper": model.paper,
            }
        )
    return Table(
        name="models",
        caption="Models, what each is fed, and what its weights were trained on.",
        columns=[
            Column("model", "Model"),
            Column("parameters", "Parameters", "number", millions),
            Column("fs", "Rate", "number", "{:g}".format, note="Hz"),
            Column("seconds", "Window", "number", "{:g}".format, note="s"),
            Column("leads", "Leads", "number"),
            Column("policy", "Absent leads"),
            Column("windows", "Windows", "number", "{:.3g}".format, note="averaged"),
            Column("weights", "Weights"),
            Column("corpora", "Pre-trained on"),
        ],
        rows=rows,
        numbers=Numbers(columns=list(rows[0]), rows=rows) if rows else None,
        formats=("csv", "md", "tex"),
    )


def _facts(model: ModelFacts, policies: list[str]) -> dict[str, object]:
    contract = model.contract
    size = f"; {model.parameters:,} parameters" if model.parameters else ""
    corpora = f"; on {', '.join(model.corpora)}" if model.corpora else ""
    return {
        "Network": f"{model.summary}{size}",
        "Input": contract_words(contract),
        "Policy used": enumerated(policies) or "--",
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
    where = _WHERE[band.get("where", "native")] if band else ""
    scope = " of each window" if contract.get("scope") == "window" else ""
    parts = [
        f"{contract['fs']:g} Hz",
        f"windows of {contract['seconds']:g} s",
        counted(len(contract["leads"]), "lead"),
        f"band-pass {band['low']:g}–{band['high']:g} Hz ({band['kind']}, {where})"
        if band
        else "no filter",
        f"limited to ±{contract['clip']:g} mV" if contract.get("clip") else "",
        f"normalisation {contract['normalisation']}{scope}",
        f"a window every {contract['stride']:g} s" if contract.get("stride") else "",
        f"the leads joined and decimated by {decimate}" if decimate > 1 else "",
    ]
    return f"{contract['name']}: " + ", ".join(filter(None, parts))
