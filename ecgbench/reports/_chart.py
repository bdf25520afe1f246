"""Charts of the page: panels of lines as SVG that follows the colours of the page, light or dark,
and whose points a reader can ask; drawn from the same points as the figure in the files beside it.

A panel is small and stands alone, so that several stack on a narrow screen.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup, escape

from ecgbench.core.text import shortened, visible
from ecgbench.reports._figure import COLOURS, MARKERS
from ecgbench.reports._filters import of_series, of_words
from ecgbench.reports._shown import Filters

WIDTH, HEIGHT = 420, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 42, 14, 14, 40
_LETTERS = 70
"""Of a label on an axis."""
_STEPS = (0.001, 0.002, 0.005)
_SHAPES = {
    "o": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0Z",
    "s": "M-3.6-3.6h7.2v7.2h-7.2Z",
    "^": "M0-4.4 4.2 3.4H-4.2Z",
    "D": "M0-4.8 4.8 0 0 4.8-4.8 0Z",
    "v": "M0 4.4 4.2-3.4H-4.2Z",
    "P": "M-1.6-4.4h3.2v2.8h2.8v3.2h-2.8v2.8h-3.2v-2.8h-2.8v-3.2h2.8Z",
    "X": "M-4-2.4-2.4-4 0-1.6 2.4-4 4-2.4 1.6 0 4 2.4 2.4 4 0 1.6-2.4 4-4 2.4-1.6 0Z",
    "*": "M0-5 1.3-1.7 4.8-1.5 2.1.7 3 4.1 0 2.2-3 4.1-2.1.7-4.8-1.5-1.3-1.7Z",
}
"""The signs of MARKERS as paths around 0."""


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A point of a series, in the units of its axes."""

    x: float
    y: float
    said: str
    """What it says in words, with its interval."""
    low: float | None = None
    high: float | None = None
    leads: str = ""
    """Its lead setting as typed, by which the page filters; "" where it has none."""
    apart: bool = False
    """Hollow, and not joined to the others."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """A line of a panel."""

    at: int
    """Its place among all series, which gives its colour and sign."""
    label: str
    dots: Sequence[Dot]


@dataclass(frozen=True, kw_only=True)
class Axis:
    """An axis: where it begins and ends, and what is written along it."""

    label: str
    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    scale: Literal["linear", "log"] = "linear"

    def share(self, value: float) -> float:
        """Where a value stands between the ends, 0 to 1."""
        low, high, value = (
            (math.log(v) for v in (self.low, self.high, value))
            if self.scale == "log"
            else (self.low, self.high, value)
        )
        return (value - low) / (high - low)


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Lines that share two axes."""

    title: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    said: str
    """The result in a sentence, for who hears the page."""
    level: tuple[float, str] | None = None
    """A horizontal line and its name, as of chance."""
    names: Sequence[tuple[float, float, str]] = ()
    """Where a word stands above a point: x, y, word."""
    task: str = ""
    """Its title, by which the page filters."""


def ticks(low: float, high: float, most: int = 6) -> list[tuple[float, str]]:
    """Round values between two ends, `most` at most.

    >>> ticks(56, 97)
    [(60, '60'), (70, '70'), (80, '80'), (90, '90')]
    >>> [word for _, word in ticks(0, 45_000)], ticks(0.901, 0.99)[:2]
    (['0', '10,000', '20,000', '30,000', '40,000'], [(0.92, '0.92'), (0.94, '0.94')])
    """
    sizes = (step * 10**power for power in range(12) for step in _STEPS)
    step = next(size for size in sizes if math.floor(high / size) - math.ceil(low / size) < most)
    places = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    values = [round(place * step, 6) for place in places]
    return [(int(v) if v == int(v) else v, f"{v:,.6g}") for v in values]


def svg(panel: Panel, mark: str, by: Filters | None = None) -> Markup:
    """The panel. `mark`: an id of its own on the page, for its title and the sentence it says. by:
    how the page filters.
    """
    body = Markup("").join(_body(panel, by))
    return Markup(
        '<svg class="plot" viewBox="0 0 {} {}" role="img" tabindex="0" aria-labelledby="{}-t {}-d">'
        '<title id="{}-t">{}</title><desc id="{}-d">{}</desc>{}</svg>'
    ).format(*(WIDTH, HEIGHT, mark, mark, mark, _text(panel.title), mark, _text(panel.said)), body)


def swatch(at: int) -> Markup:
    """The line and the sign of a series, for a legend."""
    return Markup(
        '<svg class="swatch c{}" viewBox="-14 -6 28 12" aria-hidden="true">'
        '<path class="line{}" d="M-14 0H14"/><path class="dot" d="{}"/></svg>'
    ).format(at % len(COLOURS), _dash(at), _sign(at))


def drawn(panels: Sequence[Panel]) -> list[Series]:
    """A series of each place that is drawn, for a legend."""
    found = {series.at: series for panel in panels for series in panel.series}
    return [found[at] for at in sorted(found)]


def _body(panel: Panel, by: Filters | None) -> Iterator[Markup]:
    yield from _frame(panel)
    for series in panel.series:
        parts = Markup("").join(_series(panel, series, by))
        yield Markup('<g class="series c{}"{}>{}</g>').format(
            series.at % len(COLOURS), of_series(by, series.at), parts
        )
    for x, y, word in panel.names:
        yield Markup('<text class="name" x="{}" y="{}"{}>{}</text>').format(
            _x(panel, x), _number(float(_y(panel, y)) - 5), of_words(by, word), _text(word)
        )


def _frame(panel: Panel) -> Iterator[Markup]:
    """Grid, ticks, labels and the level."""
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM
    for value, word in panel.y.ticks:
        y = _y(panel, value)
        yield Markup('<path class="grid" d="M{} {}H{}"/>').format(_LEFT, y, right)
        yield Markup('<text class="tick end" x="{}" y="{}" dy=".35em">{}</text>').format(
            _LEFT - 6, y, _text(word)
        )
    for value, word in panel.x.ticks:
        x = _x(panel, value)
        yield Markup('<path class="grid" d="M{} {}V{}"/>').format(x, _TOP, bottom)
        yield Markup('<text class="tick mid" x="{}" y="{}">{}</text>').format(
            x, bottom + 15, _text(word)
        )
    if panel.level is not None and panel.y.low < panel.level[0] < panel.y.high:
        y = _y(panel, panel.level[0])
        yield Markup('<path class="level" d="M{} {}H{}"/>').format(_LEFT, y, right)
        yield Markup('<text class="tick mid" x="{}" y="{}" dy="-.35em">{}</text>').format(
            (_LEFT + right) // 2, y, _text(panel.level[1])
        )
    yield Markup('<text class="axis mid" x="{}" y="{}">{}</text>').format(
        (_LEFT + right) // 2, HEIGHT - 6, _text(panel.x.label)
    )
    yield Markup(
        '<text class="axis mid" transform="translate(11 {}) rotate(-90)">{}</text>'
    ).format((_TOP + bottom) // 2, _text(panel.y.label))


def _series(panel: Panel, series: Series, by: Filters | None) -> Iterator[Markup]:
    joined = [dot for dot in series.dots if not dot.apart]
    if joined:
        way = "L".join(f"{_x(panel, d.x)} {_y(panel, d.y)}" for d in joined)
        yield Markup('<path class="line{}" d="M{}"/>').format(_dash(series.at), way)
    for dot in series.dots:
        x, y = _x(panel, dot.x), _y(panel, dot.y)
        bar = Markup("")
        if dot.low is not None and dot.high is not None:
            ends = _y(panel, dot.low), _y(panel, dot.high)
            bar = Markup('<path class="bar" d="M{} {}V{}"/>').format(x, *ends)
        leads = of_words(by, dot.leads)
        kind, said = " apart" if dot.apart else "", visible(dot.said)
        yield Markup(
            '<g class="at{}" data-x="{}" data-y="{}"{} data-said="{}">{}'
            '<path class="dot" transform="translate({} {})" d="{}"/></g>'
        ).format(kind, x, y, leads, said, bar, x, y, _sign(series.at))


def _x(panel: Panel, value: float) -> str:
    return _number(_LEFT + panel.x.share(value) * (WIDTH - _LEFT - _RIGHT))


def _y(panel: Panel, value: float) -> str:
    share = min(1.0, max(0.0, panel.y.share(value)))
    return _number(HEIGHT - _BOTTOM - share * (HEIGHT - _TOP - _BOTTOM))


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _text(text: str) -> Markup:
    return escape(visible(shortened(text, 20 * _LETTERS)))


def _sign(at: int) -> str:
    return _SHAPES[MARKERS[(at + at // len(COLOURS)) % len(MARKERS)]]


def _dash(at: int) -> str:
    return ("", " dash", " dots")[at // len(COLOURS) % 3]
