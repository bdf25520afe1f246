"""The page: index.html, one file that opens from disk and asks nothing of any network. It shows
whatever sections it is given, and is whole without its script, which sorts, filters and answers.
"""

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ecgbench.core.text import visible
from ecgbench.reports import _chart, _filters, _heat
from ecgbench.reports._section import Figure, Group, Heading, Part, Section
from ecgbench.reports._shown import Opening
from ecgbench.reports._svg import Drawings
from ecgbench.reports._table import groups, plain, ranked, scores, spelled, spread
from ecgbench.reports._text import bracket, points
from ecgbench.reports._trace import embedded

TEMPLATES = Path(__file__).parent / "templates"
DRAWN = 1_200_000
"""Bytes of drawings that a page holds; further ones are linked, beside it in the same folder."""


def html(
    heading: Heading,
    sections: Sequence[Section],
    drawings: Mapping[str, bytes],
    files: Mapping[str, str],
) -> str:
    """index.html as text; every value is escaped by the template engine, the drawings are our own.

    drawings: SVG by the name of its figure. files: what lies beside the page -> what a row of it
    is.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    def shown(value: Any) -> Any:
        return visible(value) if type(value) is str else value  # Markup is ours

    inside, used = Drawings(), 0

    def drawing(figure: Figure) -> Markup:
        nonlocal used
        room = DRAWN - used - len(inside.outlines)
        drawn = inside.inline(drawings[figure.name].decode(), room)
        if drawn is not None:
            used += len(drawn)
            return Markup(drawn)
        # a page of all figures of eighteen tasks would not open on a phone
        where = [f"{figure.name}.{kind}" for kind in ("svg", "png", "pdf")]
        told = Markup(': <a href="{0}">{0}</a>')
        links = [told.format(name) for name in where if name in files][:1]
        return Markup("<p>Not drawn here, to keep the page small{}</p>").format(
            *links or [Markup()]
        )

    page = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
    )
    page.trim_blocks = page.lstrip_blocks = True
    page.filters |= {"points": points, "plain": plain, "pieces": _pieces}
    page.filters |= {"sortable": lambda value: f"{value:.7g}"}
    page.filters |= {"gathered": gathered, "extended": lambda kind, name: f"{name}.{kind}"}
    script = (TEMPLATES / "page.js").read_text(encoding="utf-8")
    figures = {f.name: f for section in sections for f in _figures(section.parts)}
    parts = [part for section in sections for part in section.parts]
    openings = [part for part in parts if isinstance(part, Opening)]
    page.globals |= _tables() | _charts(heading)
    page.globals |= {
        "drawing": drawing,
        "outlines": lambda: Markup(inside.outlines),
        "heading": heading,
        "beside": files,
        "figures": figures,
        "opened": bool(openings),
        "whole": [one.figure for one in openings if one.whole],
        "script": Markup(script),
        "script_hash": hash_of(script),
        "traces": Markup(embedded(heading.traces)),
    }
    seen = [section for section in sections if any(map(_shown, section.parts))]
    return page.get_template("page.html.j2").render(sections=seen, files=_by_stem(files))


def _tables() -> dict[str, Any]:
    """What the templates call for tables."""
    return {
        "bracket": bracket,
        "groups": groups,
        "spelled": partial(spelled, page=True),
        "scores": scores,
        "ranked": ranked,
        "spread": spread,
    }


def _charts(heading: Heading) -> dict[str, Any]:
    """What the templates call for charts, and to say what is filtered by what."""
    by = heading.filters
    return {
        "of_row": partial(_filters.of_row, by),
        "of_column": partial(_filters.of_column, by),
        "of_words": partial(_filters.of_words, by),
        "of_task": partial(_filters.of_task, by),
        "of_series": partial(_filters.of_series, by),
        "plot": partial(_chart.svg, by=by),
        "drawn": _chart.drawn,
        "swatch": _chart.swatch,
        "squares": _heat.squares,
        "views": partial(_heat.views, by=by),
    }


def hash_of(script: str) -> str:
    """How a content security policy names the one script that may run."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def clause(text: str) -> tuple[str, str]:
    """A notice in one short line, and the rest of it.

    >>> clause("Demo is generated; its scores say nothing.")
    ('Demo is generated.', 'Its scores say nothing.')
    >>> clause("1 failed.")
    ('1 failed.', '')
    """
    first, _, rest = text.partition("; ")
    return (f"{first}.", rest[:1].upper() + rest[1:]) if rest else (text, "")


def gathered(
    notices: Sequence[tuple[str, str]],
) -> list[tuple[str, str, str, Sequence[str]]]:
    """Notices of one word together: the word, the first in one short line, its rest, the others."""
    by_word: dict[str, list[str]] = {}
    for word, text in notices:
        by_word.setdefault(word, []).append(text)
    return [(word, *clause(texts[0]), texts[1:]) for word, texts in by_word.items()]


def _figures(parts: Sequence[Part]) -> Iterator[Figure]:
    for part in parts:
        if isinstance(part, Group):
            yield from _figures(part.parts)
        elif isinstance(part, Figure):
            yield part


def _shown(part: Any) -> bool:
    return part.kind != "table" or "html" in part.formats


def _pieces(value: Any) -> list[Any]:
    """The pieces of a value of Facts."""
    return list(value) if isinstance(value, list | tuple) else [value]


def _by_stem(files: Mapping[str, str]) -> list[tuple[list[str], str]]:
    """Files of one name together, and what they are."""
    stems: dict[str, list[str]] = {}
    for name in files:
        stems.setdefault(name.partition(".")[0], []).append(name)
    return [(names, "".join(files[name] for name in names)) for names in stems.values()]
