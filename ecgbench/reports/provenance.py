"""Provenance: every command and commit behind the numbers, versions, seeds, and what wrote the
report.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ecgbench.core import provenance
from ecgbench.core.text import counted, duration
from ecgbench.reports import (
    Code,
    Column,
    Facts,
    Group,
    Notes,
    Numbers,
    Part,
    ReportCard,
    Row,
    Section,
    Table,
)
from ecgbench.reports._text import moment
from ecgbench.results.facts import Provenance
from ecgbench.results.study import Study

CARD = ReportCard(
    title="Provenance",
    summary="every command and commit behind the numbers, versions and seeds",
    reads="run",
    order=90,
    exploratory=False,
)
_APART = {
    *("command", "commands", "commit", "dirty", "device", "origins", "packages"),
    *("seconds_cells", "seconds_fits", "version"),
}
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
    """Everything that is known, what is empty left out."""
    known, writer = study.provenance, provenance.code()
    facts = {
        word.replace("_", " "): _value(value)
        for word, value in asdict(known).items()
        if word not in _APART and value not in (None, "", [], ())
    }
    facts["plan hash"] = Code(known.plan_hash)
    written = f"This report: ecgbench {writer['version']}, commit {_commit(writer)}."
    commands = [vars(c) | {"command": Code(c.command)} for c in known.commands]
    commits = [
        asdict(o.code) | vars(o) | {"commit": _commit(asdict(o.code))} for o in known.origins
    ]
    parts: list[Part] = [
        _table("provenance", _COMMANDS, commands, _summary(known), "command in the folder"),
        _table("commits", _COMMITS, commits, f"The code behind the cells. {written}", "commit"),
        Facts(facts),
    ]
    if study.scorer and study.results and not known.commands:
        parts.append(Notes(["Which commands computed these cells is not known: none is noted."]))
    if known.packages:
        parts.append(Group("Packages", [Facts(known.packages)], folded=True))
    return [Section(name="provenance", title=CARD.title, parts=parts)]


def _table(
    name: str, columns: Sequence[Column], rows: Sequence[Row], caption: str, what: str
) -> Table:
    return Table(
        name=name,
        caption=caption,
        columns=columns,
        rows=rows,
        numbers=Numbers(
            columns=[c.name for c in columns], rows=rows, summary=f"one row per {what}"
        ),
        formats=("csv", "md", "html"),
    )


def _summary(known: Provenance) -> str:
    """What all commands did together."""
    computed, reused, seconds = (
        sum(getattr(command, word) or 0 for command in known.commands)
        for word in ("computed", "reused", "seconds")
    )
    lost = sum(not command.ended for command in known.commands)
    return (
        f"{counted(len(known.commands), 'command')} worked in the folder for {duration(seconds)} "
        f"in all: {counted(computed, 'cell')} computed; {counted(reused, 'cell')} there already "
        f"and reused. Fits took {duration(known.seconds_fits)}, scores "
        f"{duration(known.seconds_cells)}."
        + (f" {lost} did not end: counted until its last note, or still running." if lost else "")
    )


def _commit(code: dict[str, Any]) -> str:
    """A commit and whether something was changed."""
    return (code["commit"] or "not known") + (" with uncommitted changes" if code["dirty"] else "")


def _value(value: Any) -> Any:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
