"""From sections to files: every table as CSV, Markdown and LaTeX, every figure as PNG, SVG and
PDF, and the page of them all.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ecgbench.errors import BadSetting
from ecgbench.files import put, sweep
from ecgbench.reports import _kinds
from ecgbench.reports._drawn import draw, drawn
from ecgbench.reports._exploratory import said
from ecgbench.reports._page import html
from ecgbench.reports._section import Figure, Group, Part, Section, Table
from ecgbench.reports._table import csv_text, latex_text, markdown_text, numbers
from ecgbench.room import Room

Content = str | bytes


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
    names = _chosen(room, reads, only, also)
    sections = [section for name in names for section in _sections(room, name, source)]
    kept = kind.pictures(source)
    figures = [one for s in sections for one in _parts(s.parts) if isinstance(one, Figure)]
    if kept:
        kind.ahead(source, ("pictures", "figures"), [partial(draw, one, kept) for one in figures])
    files, summaries = _files(sections, kept)
    drawings = {
        name.removesuffix(".svg"): text
        for name, text in files.items()
        if isinstance(text, bytes) and name.endswith(".svg")
    }
    left_out = tuple(f".{kind}" for kind in PICTURES if kind not in pictures)
    files = {name: text for name, text in files.items() if not name.endswith(left_out)}
    beside = {name: summaries.get(name, "") for name in files}
    files["index.html"] = html(kind.heading(source), sections, drawings, beside)
    sweep(folder, below=False)  # the reader's folder: what else lies below it is not ours
    return [put(folder / name, content) for name, content in files.items()]


def _chosen(room: Room, reads: str, only: Sequence[str] | None, also: Sequence[str]) -> list[str]:
    """The reports to write, properly spelled, each once, in the order of the page; UnknownName,
    BadSetting.
    """
    named = [room.resolve(name) for name in [*(only or ()), *also]]
    always = [] if only is not None else [n for n in room.names() if not room.card(n).asked_by]
    cards = {name: room.card(name) for name in (*always, *named)}
    for name in named:
        if (other := room.card(name).reads) != reads:
            raise BadSetting(
                f"report {name} reads a {other}, and this is a {reads}; see: ecgbench reports"
            )
    mine = [name for name, card in cards.items() if card.reads == reads]
    return sorted(mine, key=lambda name: cards[name].order)


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
            if name in files and files[name] != content:
                raise BadSetting(
                    f"two reports write {name}; give the table or figure of yours another name"
                )
            files[name] = content
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
