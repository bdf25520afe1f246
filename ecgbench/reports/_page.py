"""The page: index.html, one file that opens from disk and asks nothing of any network. It shows
whatever sections it is given, and is whole without its script, which sorts and filters.
"""

import base64
import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from ecgbench.core.text import visible
from ecgbench.reports import _filters
from ecgbench.reports._figure import inline
from ecgbench.reports._section import Figure, Heading, Opening, Section
from ecgbench.reports._table import groups, plain, ranked, scores, spelled, spread
from ecgbench.reports._text import bracket, points

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

    used = 0

    def drawing(figure: Figure) -> Markup:
        nonlocal used
        svg = drawings[figure.name].decode()
        drawn = inline(figure.name, svg, partial(_filters.of_series, heading.filters))
        if used + len(drawn) <= DRAWN:
            used += len(drawn)
            return Markup(drawn)
        # a page of all figures of eighteen tasks would not open on a phone
        there = [name for k in ("svg", "png", "pdf") if (name := f"{figure.name}.{k}") in files]
        links = [Markup(': <a href="{0}">{0}</a>').format(name) for name in there[:1]]
        return Markup("<p>Not drawn here, to keep the page small{}</p>").format(
            Markup("").join(links)
        )

    page = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: visible(value) if type(value) is str else value,  # Markup is ours
    )
    page.trim_blocks = page.lstrip_blocks = True
    page.filters |= {"points": points, "plain": plain, "pieces": _pieces}
    page.filters |= {"sortable": lambda value: f"{value:.7g}"}
    page.filters |= {"gathered": gathered, "extended": lambda kind, name: f"{name}.{kind}"}
    script = (TEMPLATES / "page.js").read_text(encoding="utf-8")
    openings = [p for section in sections for p in section.parts if isinstance(p, Opening)]
    page.globals |= {
        "bracket": bracket,
        "groups": groups,
        "spelled": spelled,
        "scores": scores,
        "ranked": ranked,
        "spread": spread,
        "of_row": partial(_filters.of_row, heading.filters),
        "of_column": partial(_filters.of_column, heading.filters),
        "drawing": drawing,
        "light": lambda figure: re.search(b"<image|QuadMesh", drawings[figure.name]),
        "heading": heading,
        "written": files,
        "opened": openings,
        "number": count().__next__,
        "script": Markup(script),
        "script_hash": hash_of(script),
    }
    page.tests["bare"] = lambda part: getattr(part, "style", "") == "fine"
    seen = _seen(sections, {one.figure.name for one in openings if one.figure})
    return page.get_template("page.html.j2").render(sections=seen, files=_by_stem(files))


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


def _seen(sections: Sequence[Section], above: Collection[str]) -> list[Section]:
    """Sections with what the page shows of them, where that is anything; above: the figures that
    stand at its top.
    """

    def seen(part: Any) -> bool:
        if part.kind == "figure":
            return part.page and part.name not in above
        return part.kind != "table" or "html" in part.formats

    shown = [one for one in sections if one.page]
    kept = [replace(one, parts=list(filter(seen, one.parts))) for one in shown]
    return [one for one in kept if one.parts]


def _pieces(value: Any) -> list[Any]:
    """The pieces of a value of Facts."""
    return list(value) if isinstance(value, list | tuple) else [value]


def _by_stem(files: Mapping[str, str]) -> list[tuple[list[str], str]]:
    """Files of one name together, and what they are."""
    stems: dict[str, list[str]] = {}
    for name in files:
        stems.setdefault(name.partition(".")[0], []).append(name)
    return [(names, "".join(files[name] for name in names)) for names in stems.values()]
