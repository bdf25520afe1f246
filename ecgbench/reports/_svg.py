"""Drawings inside the page: the same pictures in a third of their bytes.

Every drawing file is whole by itself, with the outlines of its letters. Of several in one page the
outlines are needed once, and coordinates to a hundredth of a point.
"""

import re
from collections.abc import Iterator, Sequence
from html import escape
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

_OWN = re.compile(r"(?<=url\(#)[^)]+|(?<=^#).+")
"""Names of other elements in an attribute."""
_PLACED = ("d", "x", "y", "width", "height", "points")
_LONG = re.compile(r"-?\d+\.\d{3,}")
_SHIFT = re.compile(r"translate\([^)]*\)")
_SPACE = re.compile(r"\s*([A-Za-z])\s*|\s+")
_WORD = re.compile(r'(<use href="#l[^>]*/>)+')
_INHERITED = "stroke-linejoin:round;stroke-linecap:butt"
"""What the style sheet in each file says of everything in it."""


class Drawings:
    """The drawings of one page. `outlines` comes after all of them."""

    def __init__(self) -> None:
        self._letters: dict[str, str] = {}
        self._words: dict[str, str] = {}
        self._count = 0

    def inline(self, svg: str, most: int) -> str | None:
        """One as an element of the page, whose names are those of no other; None where it and the
        letters it brings are more than `most` bytes.
        """
        before = len(self._letters), len(self._words), len(self.outlines)
        made = self._inline(svg)
        if len(made) + len(self.outlines) - before[2] <= most:
            return made
        for known, count in zip((self._letters, self._words), before):
            for name in list(known)[count:]:
                del known[name]
        return None

    def _inline(self, svg: str) -> str:
        root = ElementTree.fromstring(svg)
        letters = {
            str(one.get("id")): self._letter(one)
            for one in root.iter()
            if _local(one.tag) == "path" and _is_letter(one)
        }
        wanted = {name for one in root.iter() for v in one.attrib.values() for name in _named(v)}
        names = dict(letters)
        for name in sorted(wanted - set(letters)):
            names[name] = f"d{self._count}"
            self._count += 1
        size = {name: root.get(name, "") for name in ("width", "height", "viewBox")}
        head = "".join(f' {name}="{escape(value)}"' for name, value in size.items())
        inner = "".join(piece for one in root for piece in self._pieces(one, names, letters))
        return f'<svg{head} style="{_INHERITED}">{inner}</svg>'

    @property
    def outlines(self) -> str:
        """Of the letters and words of all drawings."""
        if not self._letters:
            return ""
        paths = "".join(f'<path id="{name}"{rest}/>' for rest, name in self._letters.items())
        words = "".join(f'<g id="{name}">{word}</g>' for word, name in self._words.items())
        size = 'width="0" height="0" style="position:absolute"'
        return f'<svg {size} aria-hidden="true"><defs>{paths}{words}</defs></svg>'

    def _pieces(
        self, one: Element, names: dict[str, str], letters: dict[str, str]
    ) -> Iterator[str]:
        tag = _local(one.tag)
        if tag in ("metadata", "style") or one.get("id") in letters:
            return
        inner = "".join(piece for child in one for piece in self._pieces(child, names, letters))
        text = escape((one.text or "").strip())
        own = _attributes(one, names)
        if tag in ("g", "defs") and not inner:
            return
        if tag == "g" and not own:
            yield inner
        elif tag == "g" and "id" not in one.attrib and _WORD.fullmatch(inner):
            word = self._words.setdefault(inner, f"w{len(self._words)}")
            yield f'<use href="#{word}"{own}/>'
        elif inner or text:
            yield f"<{tag}{own}>{text}{inner}</{tag}>"
        else:
            yield f"<{tag}{own}/>"

    def _letter(self, one: Element) -> str:
        own = _attributes(one, {}, drop=("id",))
        return self._letters.setdefault(own, f"l{len(self._letters)}")


def _is_letter(one: Element) -> bool:
    """Outlines are defined by matplotlib as paths in units of the font, with its scale."""
    return "id" in one.attrib and one.get("transform", "").startswith("scale(0.015625)")


def _attributes(one: Element, names: dict[str, str], drop: Sequence[str] = ()) -> str:
    made = []
    for full, value in one.attrib.items():
        name = _local(full)
        if name in drop or (name == "id" and value not in names):
            continue
        if name == "id":
            value = names[value]
        elif name in _PLACED:
            value = _SPACE.sub(lambda m: m[1] or " ", _short(value)).strip()
        elif name == "transform":
            value = _SHIFT.sub(lambda m: _short(m[0]), value)
        elif name == "style":
            value = re.sub(r"([:;])\s+", r"\1", value)
        if names and name != "id":
            value = _OWN.sub(lambda m: names.get(m[0], m[0]), value)
        made.append(f' {name}="{escape(value)}"')
    return "".join(made)


def _named(value: str) -> list[str]:
    return _OWN.findall(value)


def _short(value: str) -> str:
    return _LONG.sub(lambda m: f"{float(m[0]):.2f}".rstrip("0").rstrip("."), value)


def _local(name: str) -> str:
    return name.rpartition("}")[2]
