"""The page: index.html, one file that opens from disk and asks nothing of any network. It shows
whatever sections it is given.
"""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ecgbench.reports._section import Figure, Heading, Section
from ecgbench.reports._table import groups, plain, ranked, scores, spelled, spread
from ecgbench.reports._text import bracket, points
from ecgbench.text import visible

TEMPLATES = Path(__file__).parent / "templates"


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

    def drawing(figure: Figure) -> Markup:
        return Markup(_own_ids(figure.name, drawings[figure.name].decode()))

    page = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
    )
    page.trim_blocks = page.lstrip_blocks = True
    page.filters |= {"points": points, "plain": plain, "pieces": _pieces}
    page.globals |= {
        "bracket": bracket,
        "drawing": drawing,
        "groups": groups,
        "spelled": partial(spelled, page=True),
        "scores": scores,
        "ranked": ranked,
        "spread": spread,
    }
    seen = [section for section in sections if any(map(_shown, section.parts))]
    return page.get_template("page.html.j2").render(
        heading=heading, sections=seen, files=_by_stem(files)
    )


def _shown(part: Any) -> bool:
    return part.kind != "table" or "html" in part.formats


def _pieces(value: Any) -> list[Any]:
    """The pieces of a value of Facts."""
    return list(value) if isinstance(value, list | tuple) else [value]


def _own_ids(name: str, svg: str) -> str:
    """A drawing's own ids: several stand in one page."""
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", svg[svg.index("<svg") :])


def _by_stem(files: Mapping[str, str]) -> list[tuple[list[str], str]]:
    """Files of one name together, and what they are."""
    stems: dict[str, list[str]] = {}
    for name in files:
        stems.setdefault(name.partition(".")[0], []).append(name)
    return [(names, "".join(files[name] for name in names)) for names in stems.values()]
