"""Provenance: the command, versions, seeds and the machine that made the numbers."""

from dataclasses import asdict
from typing import Any

from ecgbench.reports import Code, Facts, Group, Part, ReportCard, Section, Text
from ecgbench.reports._text import moment
from ecgbench.results.study import Study
from ecgbench.text import duration

CARD = ReportCard(
    title="Provenance",
    summary="the command, versions and seeds behind the numbers",
    reads="run",
    order=90,
)
_APART = {"command", "packages", "seconds", "started", "dirty"}


def sections(study: Study) -> list[Section]:
    """Everything that is known, what is empty left out."""
    known = asdict(study.provenance)
    facts = {
        word.replace("_", " "): _value(word, value, known)
        for word, value in known.items()
        if word not in _APART and value not in (None, "", [], ())
    }
    facts |= {"started": moment(known["started"])} if known["started"] else {}
    facts |= {"duration": duration(known["seconds"])} if known["seconds"] is not None else {}
    parts: list[Part] = [Text(Code(known["command"])), Facts(facts)]
    if known["packages"]:
        parts.append(Group("Packages", [Facts(known["packages"])], folded=True))
    return [Section(name="provenance", title=CARD.title, parts=parts)]


def _value(word: str, value: Any, known: dict[str, Any]) -> Any:
    if word == "commit":
        return [Code(value), " with uncommitted changes" if known["dirty"] else ""]
    if word == "plan_hash":
        return Code(value)
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
