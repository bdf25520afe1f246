"""Provenance: every command and commit behind the numbers, versions, seeds, and what wrote the
report.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ecgbench.core import provenance
from ecgbench.core.cells import OFFICIAL
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
from ecgbench.study import ledger

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
_TESTED = (
    Column("dataset", "Test records of"),
    Column("fold", "Fold"),
    Column("records", "Records", "number"),
    Column("before_times", "Before", "number", note="times scored"),
    Column("before_models", "Before", "number", note="models"),
    Column("before_weights", "Before", "number", note="weights"),
    Column("before_settings", "Before", "number", note="settings"),
    Column("here_times", "In this run", "number", note="times scored"),
    Column("here_models", "In this run", "number", note="models"),
    Column("here_weights", "In this run", "number", note="weights"),
    Column("here_settings", "In this run", "number", note="settings"),
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
    parts += _tested(study)
    if known.packages:
        parts.append(Group("Packages", [Facts(known.packages)], folded=True))
    return [Section(name="provenance", title=CARD.title, parts=parts)]


def _tested(study: Study) -> list[Part]:
    """How often the test splits of this run were scored on the machine, before it and in it."""
    own, titles = ledger.scorings(study.path), {d.name: d.title for d in study.datasets}
    rows, late = [], False
    for told in ledger.before(study.path):
        mine = [s for s in own if s.test == told.test]
        if not mine:
            continue
        late = late or told.late
        now = ledger.Counts.of(mine)
        rows.append(
            {
                "dataset": titles.get(mine[0].dataset, mine[0].dataset),
                "fold": "" if mine[0].fold == OFFICIAL else mine[0].fold,
                "records": mine[0].records,
                "test": told.test,
                **{f"before_{name}": value for name, value in asdict(told.counts).items()},
                **{f"here_{name}": value for name, value in asdict(now).items()},
            }
        )
    damaged = ledger.unread(study.path)
    if not rows:
        there = (study.path / ledger.FILE).exists()
        why = f"{ledger.FILE} {'names none of them' if there else 'is not there'}"
        unknown = f"How often the test records were scored is not known: {why}."
        return [Notes([unknown])] if study.scorer and study.results else []
    since = " This run had scores before there was a ledger; those are not counted." * late
    caption = (
        f"How often the test records of this run were scored on this machine: each time, one model "
        f"on one task. Other machines and other programs are not known.{since}"
    )
    found: list[Part] = [_table("tested", _TESTED, rows, caption, "test split")]
    if damaged:
        lines = counted(damaged, "line")
        found.append(Notes([f"{lines} of {ledger.FILE} cannot be read and are not counted here."]))
    return found


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
