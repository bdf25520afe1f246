"""Drawings of a page: every line and letter where it was, in fewer bytes."""

import re
from collections.abc import Iterator, Sequence
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import numpy as np
import pytest

from ecgbench.reports import Drawings, Figure, drawn

MOST = 10**6
pytestmark = pytest.mark.rendered
HREF = "{http://www.w3.org/1999/xlink}href"
POINT = re.compile(r"-?\d+(?:\.\d+)?")


def matrix(transform: str) -> np.ndarray:
    whole = np.eye(3)
    for name, inside in re.findall(r"(\w+)\(([^)]*)\)", transform):
        values = [float(v) for v in re.split(r"[ ,]+", inside.strip())]
        step = np.eye(3)
        if name == "translate":
            step[:2, 2] = [*values, 0.0][:2]
        elif name == "scale":
            step[0, 0], step[1, 1] = values[0], values[-1]
        elif name == "rotate":
            angle = np.radians(values[0])
            step[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
        else:
            raise AssertionError(name)
        whole = whole @ step
    return whole


def painted(roots: Sequence[Element]) -> list[np.ndarray]:
    """Points (2, point) of all that is painted of the first, every reference to any followed."""
    known = {one.get("id"): one for root in roots for one in root.iter() if one.get("id")}

    def of(one: Element, outer: np.ndarray, used: bool = False) -> Iterator[np.ndarray]:
        tag = one.tag.rpartition("}")[2]
        if tag in ("defs", "clipPath") and not used:
            return
        own = outer @ matrix(one.get("transform", ""))
        if tag == "use":
            shift = matrix(f"translate({one.get('x', 0)} {one.get('y', 0)})")
            target = (one.get("href") or one.get(HREF) or "")[1:]
            yield from of(known[target], own @ shift, used=True)
        elif tag == "path":
            numbers = np.array([float(v) for v in POINT.findall(one.get("d", ""))])
            x, y = numbers[::2], numbers[1::2]
            yield (own @ np.array([x, y, np.ones(len(x))]))[:2]
        for child in one:
            yield from of(child, own)

    return list(of(roots[0], np.eye(3)))


def draw(sheet: Any) -> None:
    left, right = sheet.subplots(1, 2)
    left.plot([0, 1, 2], [3, 1, 2], marker="o")
    left.fill_between([0, 1, 2], [1, 0, 1], alpha=0.3)
    left.set_ylabel("Macro AUROC × 100")
    left.set_title("At 12 leads & fewer")
    right.imshow(np.arange(4).reshape(2, 2))
    right.text(0.4, 0.6, "at 12 leads", rotation=30)


@pytest.fixture(scope="module")
def svg() -> str:
    figure = Figure(name="two", draw=draw, caption="Two panels.", size=(5, 3))
    return drawn(figure, None)["svg"].decode()


def test_every_point_is_where_it_was(svg: str) -> None:
    page = Drawings()
    inline = page.inline(svg, MOST)
    before = painted([ElementTree.fromstring(svg)])
    after = painted([ElementTree.fromstring(text) for text in (inline, page.outlines)])
    assert len(before) == len(after) > 20
    for was, now in zip(before, after):
        np.testing.assert_allclose(now, was, atol=0.02)  # points: a fiftieth of a pixel


def test_names_of_two_are_their_own_and_letters_stand_once(svg: str) -> None:
    page = Drawings()
    first, second = page.inline(svg, MOST), page.inline(svg, MOST)
    own = [set(re.findall(r'\bid="([^"]+)"', text)) for text in (first, second, page.outlines)]
    assert not own[0] & own[1]
    assert not (own[0] | own[1]) & own[2]
    for text, names in zip((first, second), own):
        asked = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text))
        assert {a or b for a, b in asked} <= names | own[2]
    assert not re.search("DejaVu|metadata|xlink", first)
    alone = Drawings()
    alone.inline(svg, MOST)
    assert page.outlines == alone.outlines
    assert len(first) < len(svg) / 2


def test_one_that_is_too_large_leaves_nothing_behind(svg: str) -> None:
    page = Drawings()
    assert page.inline(svg, 5000) is None
    assert page.outlines == ""
