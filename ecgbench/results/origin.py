"""Which code made the numbers of a run, and whether a report of them may be published."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ecgbench.core import provenance
from ecgbench.core.note import Note
from ecgbench.core.text import counted, quoted
from ecgbench.errors import BadSetting
from ecgbench.results.facts import Origin
from ecgbench.study import controls, lent
from ecgbench.study.store import Store
from ecgbench.study.stored import Code, Result

if TYPE_CHECKING:
    from ecgbench.results.study import Run

UNCOMMITTED = "computed from a checkout with uncommitted changes"
PUBLISHED = (
    "Published: clean commits of ecgbench computed every number and wrote this report; no cell is "
    "pending, and every cell without a number is listed with its reason."
)
"""The note of a report that was allowed."""
_FOLDERS = re.compile(r"(?<![^\s='\",])/(?:[^\s/'\",]+/)+")
"""What leads to the last folder or file of an absolute path."""


def below(run: Path) -> list[Result]:
    """Every finished cell of the controls, perturbed recordings, other heads and fewer labels of a
    run; none is read.
    """
    plans = [
        plan for place in controls.FOLDERS for plan in sorted((run / place).glob("*/plan.toml"))
    ]
    return [
        Result(cell=cell, run=store.path, folder=folder)
        for store in (Store(plan.parent) for plan in plans)
        for cell in store.existing_plan().cells
        if (folder := store.folder(cell))
    ]


def origins(results: Sequence[Result]) -> tuple[Origin, ...]:
    """Every code that took part, in the order of the cells."""
    codes = dict.fromkeys(code for r in results for part in r.code.values() for code in part)
    return tuple(
        Origin(
            code=code, **{part: sum(code in r.code[part] for r in results) for part in Result.PARTS}
        )
        for code in codes
    )


def without_folders(command: str) -> str:
    """A command without the folders of this machine that lead to a file or folder."""
    return _FOLDERS.sub("", command)


def published(study: "Run") -> "Run":
    """The study with the note that its report may be published, and commands without the folders
    of this machine; BadSetting where it may not.
    """
    for reason in _against(study):
        raise BadSetting(f"--publish: {reason}")
    facts = [(r.cell.fit.model, r.document.get("key_facts", {})) for r in study.results]
    sources = dict.fromkeys((model, of.get("source")) for model, of in facts)
    outside = [f"{model} ({source[:12]})" for model, source in sources if source]
    named = f" Plug-ins, known by the hashes of their files: {', '.join(outside)}."
    known = study.provenance
    commands = (replace(c, command=without_folders(c.command)) for c in known.commands)
    return replace(
        study,
        notes=[*study.notes, Note("published", PUBLISHED + (named if outside else ""))],
        provenance=replace(known, command=without_folders(known.command), commands=tuple(commands)),
    )


def _against(study: "Run") -> Iterator[str]:
    command = study.provenance.command or "the same `ecgbench run` command"
    cells = study.of(study.metric).cells
    if lent.read(study.path):
        yield f"{study.path} was measured by others, and is published as it was exported"
    if pending := int((cells["status"] == "missing").sum()):
        yield f"{pending} of {counted(len(cells), 'cell')} are not computed yet; run: {command}"
    if damaged := int((cells["status"] == "damaged").sum()):
        yield f"{damaged} of {counted(len(cells), 'cell')} are damaged; run: {command}"
    anew = f"run with a clean commit into a new folder: {command} --out NEW"
    every = [*study.results, *below(study.path)]
    if dirty := sum(r.uncommitted for r in every):
        yield f"{dirty} of {counted(len(every), 'cell')} were {UNCOMMITTED}; {anew}"
    codes = [{code for part in r.code.values() for code in part} for r in every]
    if unknown := sum(any(code.dirty is None for code in each) for each in codes):
        yield (
            f"the commit of {unknown} of {counted(len(codes), 'cell')}, of their fits or of their "
            f"features is not known; {anew}"
        )
    writer = Code.of(provenance.code())
    again = f"ecgbench report {quoted(study.path)} --publish"
    if writer.dirty is None:
        yield f"this ecgbench runs from no checkout, so it has no commit; from one, run: {again}"
    if writer.dirty:
        yield f"this checkout of ecgbench has uncommitted changes; commit them, then: {again}"
