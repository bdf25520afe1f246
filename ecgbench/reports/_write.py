"""From sections to files: every table as CSV, Markdown and LaTeX, every figure as PNG, SVG and
PDF, and the page of them all.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import pandas as pd

from ecgbench.cards.rooms import Reads
from ecgbench.core.files import put, sweep
from ecgbench.core.parallel import on_all_cores
from ecgbench.core.registry import Room
from ecgbench.errors import BadSetting
from ecgbench.reports import _kinds, _predictions
from ecgbench.reports._figure import pictures
from ecgbench.reports._made import NOTE
from ecgbench.reports._page import html
from ecgbench.reports._section import (
    Column,
    Figure,
    Group,
    Notes,
    Opening,
    Part,
    Section,
    Table,
)
from ecgbench.reports._table import csv_text, latex_text, markdown_text
from ecgbench.results.study import Run
from ecgbench.study import frozen

Content = str | bytes | Callable[[BinaryIO], object]
PICTURES = ("png", "svg", "pdf")
"""Kinds of file that a figure becomes."""
FILES = "<h2>Files beside this page</h2>"
"""The heading of the list of files in our pages."""
_LINK = re.compile(r'<a href="([a-z][a-z0-9_-]*\.(?:csv|md|tex|png|svg|pdf))">')
EXPLORATORY = "Exploratory: what stands here was not asked by the frozen plan."


def write(
    room: Room,
    source: Any,
    folder: Path,
    *,
    only: Sequence[str] | None,
    also: Sequence[str],
    pictures: Sequence[str] = PICTURES,
) -> list[Path]:
    """See `reports.write`."""
    if unknown := [kind for kind in pictures if kind not in PICTURES]:
        raise BadSetting(
            f"figures as {unknown[0]!r}: choose among {', '.join(PICTURES)}, comma-separated"
        )
    reads, kind = _kinds.of(room, source)
    heading = kind.heading(source)
    sections = _sections(room, source, reads, only, also)
    drawings, files, summaries = _files(sections, pictures)
    listed = {name: summaries.get(name, "") for name in files}
    streamed = only is None and isinstance(source, Run) and bool(source.results)
    if streamed and _predictions.rows(source) <= _predictions.MOST:
        files[_predictions.NAME] = _predictions.content(source)
        listed[_predictions.NAME] = _predictions.SUMMARY
    # first: where it is cut off, the next one knows that the other files are of a report
    files = {"index.html": html(heading, sections, drawings, listed), **files}
    known = _linked(folder / "index.html")
    taken = [name for name in files if (folder / name).exists()]
    if taken and known is None and not (folder / NOTE).exists():
        raise BadSetting(
            f"{folder / taken[0]} would be replaced, and no report wrote it; choose another folder"
        )
    sweep(folder, below=False)  # the reader's folder: what else lies below it is not ours
    before = known if known and only is None else set()
    written = [put(folder / name, content) for name, content in files.items()]
    for name in before - files.keys():
        (folder / name).unlink(missing_ok=True)
    return written


def _linked(page: Path) -> set[str] | None:
    """The files beside a page that it says are of its report: those of an earlier report would
    stay beside the new ones. What else people put there is not among them. None where it is the
    page of no report.
    """
    if not page.is_file():
        return None
    _, ours, listed = page.read_text(encoding="utf-8", errors="replace").partition(FILES)
    return set(_LINK.findall(listed)) if ours else None


def _sections(
    room: Room, source: Any, reads: Reads, only: Sequence[str] | None, also: Sequence[str]
) -> list[Section]:
    """Of the reports `only`, or of all of ours that no option asks for, and of `also`, in the order
    of the page; BadSetting where one that is named reads another kind of source.
    """
    named = [room.resolve(name) for name in [*(only or ()), *also]]
    # those of other packages only where they are named: nobody knows what an import of them does
    usual = [] if only is not None else filter(room.built_in, room.names())
    cards = {name: room.card(name) for name in dict.fromkeys([*usual, *named])}
    for name in named:
        if (other := cards[name].reads) != reads:
            raise BadSetting(
                f"report {name} reads a {other}, and this is a {reads}; see: ecgbench list reports"
            )
    mine = [
        name
        for name, card in cards.items()
        if card.reads == reads and (name in named or not card.option)
    ]
    made = {name: _of_report(room, name, source) for name in mine}
    order = sorted(mine, key=lambda name: (cards[name].order, bool(cards[name].option)))
    return [section for name in order for section in made[name]]


def sections_of(room: Room, name: str, source: Any) -> list[Section]:
    """What a report shows of its rows: what its `sections` say, or a table of all of them."""
    module = room.get(name)
    with room.calling(name):
        rows = module.rows(source)
        if not isinstance(rows, pd.DataFrame):
            raise BadSetting(f"rows gives a {type(rows).__name__} where a DataFrame belongs")
        if shown := getattr(module, "sections", None):
            return list(shown(source, rows))
    if rows.empty:
        return []
    card, numbers = module.CARD, rows.select_dtypes("number").columns
    columns = [Column(c, kind="number" if c in numbers else "text") for c in map(str, rows.columns)]
    table = Table(name=Path(name).stem, caption=card.summary, columns=columns, rows=rows)
    return [Section(name=table.name, title=card.title, parts=[table])]


def _of_report(room: Room, name: str, source: Any) -> list[Section]:
    sections = sections_of(room, name, source)
    for section in sections:
        if not isinstance(section, Section):
            word = type(section).__name__
            raise BadSetting(f"report {name!r} gives a {word} where a Section belongs")
    if room.card(name).exploratory and isinstance(source, Run) and frozen.read(source.path):
        return [_exploratory(section) for section in sections]
    return sections


def _exploratory(section: Section) -> Section:
    """Where a plan is frozen, all results but those of its hypotheses say that they are not."""
    if section.title:
        return replace(section, title=f"{section.title} (exploratory)")
    return replace(section, parts=[*section.parts, Notes([EXPLORATORY])])


def _files(
    sections: Sequence[Section], pictures: Sequence[str]
) -> tuple[dict[str, bytes], dict[str, Content], dict[str, str]]:
    """SVG of the page by figure; name -> content, and name -> what a row is, of all that lies
    beside the page. BadSetting where two of them have one name.
    """
    parts = [part for section in sections for part in _parts(section.parts)]
    figures = [part for part in parts if isinstance(part, Figure)]
    openings = [p.figure for s in sections for p in s.parts if isinstance(p, Opening) and p.figure]
    alone = [one for one in openings if one.name not in {figure.name for figure in figures}]
    drawn = _drawn([*figures, *alone], ["svg", *(kind for kind in pictures if kind != "svg")])
    files: dict[str, Content] = {}
    summaries: dict[str, str] = {}

    def add(name: str, content: Content) -> None:
        if files.setdefault(name, content) != content:
            raise BadSetting(
                f"two reports write {name}; give the table or figure of yours another name"
            )

    for section in sections:
        for part in _parts(section.parts):
            if part.numbers is not None and "csv" in getattr(part, "formats", ["csv"]):
                summaries[f"{part.name}.csv"] = part.summary
                add(f"{part.name}.csv", csv_text(part.numbers))
            if isinstance(part, Figure):
                for kind in PICTURES:
                    if kind in pictures:
                        add(f"{part.name}.{kind}", drawn[part.name][kind])
        for kind, text in (("md", markdown_text(section)), ("tex", latex_text(section))):
            if text:
                add(f"{section.name}.{kind}", text)
    return {name: made["svg"] for name, made in drawn.items()}, files, summaries


def _drawn(figures: Sequence[Figure], kinds: Sequence[str]) -> dict[str, dict[str, bytes]]:
    """Name -> kind -> picture, drawn on all cores."""
    drawn = on_all_cores([partial(pictures, figure, kinds) for figure in figures])
    # one that no process could draw is drawn here
    return {one.name: made or pictures(one, kinds) for one, made in zip(figures, drawn)}


def _parts(parts: Sequence[Part]) -> Iterator[Table | Figure]:
    """All tables and figures, those inside groups too."""
    for part in parts:
        if isinstance(part, Group):
            yield from _parts(part.parts)
        elif isinstance(part, Table | Figure):
            yield part
