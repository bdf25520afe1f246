"""From sections to files: every table as CSV, Markdown and LaTeX, every figure as PNG, SVG and
PDF, and the page of them all.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from ecgbench.core.files import put, sweep
from ecgbench.core.registry import Room
from ecgbench.errors import BadSetting
from ecgbench.reports import _kinds, _predictions
from ecgbench.reports._drawn import draw, drawn
from ecgbench.reports._exploratory import said
from ecgbench.reports._page import html
from ecgbench.reports._section import Figure, Group, Part, Reads, Section, Table
from ecgbench.reports._table import csv_text, latex_text, markdown_text, numbers
from ecgbench.results.study import Study

Content = str | bytes | Callable[[BinaryIO], object]


PICTURES = ("png", "svg", "pdf")
"""Kinds of file that a figure becomes."""


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
    reads, kind = _kinds.of(source)
    heading = kind.heading(source)
    named = [room.resolve(name) for name in [*(only or ()), *also]]
    # those of other packages only where they are named: nobody knows what an import of them does
    usual = [] if only is not None else filter(room.built_in, room.names())
    every = [*usual, *named]
    # those from outside last: they may change this process, and what the others say is made by then
    made = _made(room, filter(room.built_in, every), named, reads, source)
    outside = [name for name in every if not room.built_in(name)]
    if outside:
        made |= _made(room, outside, named, reads, left_alone(source))
    cards = {name: room.card(name) for name in dict.fromkeys(every) if name in made}
    names = sorted(cards, key=lambda name: (cards[name].order, bool(cards[name].asked_by)))
    files, summaries = _together([made[name] for name in names])
    sections = [section for name in names for section in made[name].sections]
    drawings = {
        name.removesuffix(".svg"): text
        for name, text in files.items()
        if isinstance(text, bytes) and name.endswith(".svg")
    }
    left_out = tuple(f".{kind}" for kind in PICTURES if kind not in pictures)
    files = {name: text for name, text in files.items() if not name.endswith(left_out)}
    beside = {name: summaries.get(name, "") for name in files}
    streamed = only is None and isinstance(source, Study) and bool(source.results)
    if streamed and _predictions.rows(source) <= _predictions.MOST:
        files[_predictions.NAME] = _predictions.content(source)
        beside[_predictions.NAME] = _predictions.SUMMARY
    files["index.html"] = html(heading, sections, drawings, beside)
    sweep(folder, below=False)  # the reader's folder: what else lies below it is not ours
    return [put(folder / name, content) for name, content in files.items()]


@dataclass(frozen=True)
class _Made:
    """What a report is made of."""

    sections: list[Section]
    files: dict[str, Content]
    """Name -> content of all that lies beside the page."""
    summaries: dict[str, str]
    """Name -> what a row is."""


def _made(
    room: Room, names: Iterable[str], named: Sequence[str], reads: Reads, source: Any
) -> dict[str, _Made]:
    """Name -> what it is made of, of those reports that are `named`, or that no option asks for;
    BadSetting where one that is named reads another kind of source.
    """
    cards = {name: room.card(name) for name in dict.fromkeys(names)}
    for name, card in cards.items():
        if card.reads != reads and name in named:
            raise BadSetting(
                f"report {name} reads a {card.reads}, and this is a {reads}; see: ecgbench reports"
            )
    asked = {name: card for name, card in cards.items() if name in named or not card.asked_by}
    mine = [name for name, card in asked.items() if card.reads == reads]
    if isinstance(source, Study):
        source = replace(source, together=frozenset(mine))
    sections = {name: _sections(room, name, source) for name in mine}
    _, kind = _kinds.of(source)
    kept = kind.pictures(source)
    parts = (part for own in sections.values() for s in own for part in _parts(s.parts))
    figures = [part for part in parts if isinstance(part, Figure)]
    if kept:
        kind.ahead(source, ("pictures", "figures"), [partial(draw, one, kept) for one in figures])
    return {name: _Made(own, *_files(own, kept)) for name, own in sections.items()}


def left_alone(source: Any) -> Any:
    """The same for reports from outside: what they compute is not kept in the run folder, where
    others would read it.
    """
    if not isinstance(source, Study):
        return source
    scorer = source.scorer and replace(source.scorer, keep=False)
    return replace(source, scorer=scorer, beside=tuple(map(left_alone, source.beside)))


def _together(reports: Iterable[_Made]) -> tuple[dict[str, Content], dict[str, str]]:
    """Files and summaries of all reports; BadSetting where two write one file."""
    files: dict[str, Content] = {}
    summaries: dict[str, str] = {}
    for made in reports:
        for name, content in made.files.items():
            _add(files, name, content)
        summaries |= made.summaries
    return files, summaries


def _add(files: dict[str, Content], name: str, content: Content) -> None:
    if files.setdefault(name, content) != content:
        raise BadSetting(
            f"two reports write {name}; give the table or figure of yours another name"
        )


def _sections(room: Room, name: str, source: Any) -> list[Section]:
    with room.calling(name):
        sections = list(room.get(name).sections(source))
    wrong = [type(section).__name__ for section in sections if not isinstance(section, Section)]
    if wrong:
        raise BadSetting(f"report {name!r} gives a {wrong[0]} where a Section belongs")
    return [said(section, room.card(name), source) for section in sections]


def _files(
    sections: Sequence[Section], kept: Path | None
) -> tuple[dict[str, Content], dict[str, str]]:
    """Name -> content, and name -> what a row is, of all that lies beside the page; `kept`: where
    pictures are.
    """
    files: dict[str, Content] = {}
    summaries: dict[str, str] = {}
    for section in sections:
        for name, content in _of_section(section, summaries, kept):
            _add(files, name, content)
    return files, summaries


def _of_section(
    section: Section, summaries: dict[str, str], kept: Path | None
) -> Iterator[tuple[str, Content]]:
    for part in _parts(section.parts):
        rows = numbers(part) if isinstance(part, Table) and "csv" in part.formats else None
        rows = part.numbers if isinstance(part, Figure) else rows
        if rows is not None:
            summaries[f"{part.name}.csv"] = rows.summary
            yield f"{part.name}.csv", csv_text(rows.columns, rows.rows)
        if isinstance(part, Figure):
            for kind, picture in drawn(part, kept).items():
                yield f"{part.name}.{kind}", picture
    for kind, text in (("md", markdown_text(section)), ("tex", latex_text(section))):
        if text:
            yield f"{section.name}.{kind}", text


def _parts(parts: Sequence[Part]) -> Iterator[Table | Figure]:
    """All tables and figures, those inside groups too."""
    for part in parts:
        if isinstance(part, Group):
            yield from _parts(part.parts)
        elif isinstance(part, Table | Figure):
            yield part
