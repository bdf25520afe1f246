"""A map of scores on the page: a table whose cells have a colour, and the views a reader may
choose.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from ecgbench.reports._filters import of_words
from ecgbench.reports._shown import Filters, Heat, Spot, View
from ecgbench.reports._text import bracket, points
from ecgbench.reports._trace import embedded

LEVELS = 10
"""Colours, besides none."""


class Square(NamedTuple):
    """A cell as it is shown."""

    text: str
    interval: str
    level: int
    """0: no colour; -1: no value."""


def squares(heat: Heat, view: View) -> Iterator[tuple[tuple[str, str, str], list[Square]]]:
    """Each row of a map with its cells."""
    for row, spots in zip(heat.rows, view.spots):
        yield row, [_square(spot, heat) for spot in spots]


def views(heat: Heat, by: Filters | None) -> Markup:
    """All views as JSON: tenths of points, so that the page need not round anything."""
    made = [
        {
            "title": view.title,
            "columns": [[name, str(of_words(by, name))] for name in view.columns],
            "spots": [[_packed(spot, heat) for spot in spots] for spots in view.spots],
        }
        for view in heat.views
    ]
    return Markup(embedded(made))


def level(value: float, scale: Sequence[float]) -> int:
    """Which colour a value has.

    >>> [level(value, (0.5, 1.0)) for value in (0.4, 0.5, 0.76, 1.0)]
    [0, 0, 5, 10]
    """
    share = (value - scale[0]) / (scale[1] - scale[0])
    return round(LEVELS * min(1.0, max(0.0, share)))


def _square(spot: Spot | None, heat: Heat) -> Square:
    if spot is None:
        return Square("--", "", -1)
    return Square(points(spot.value), bracket(spot.low, spot.high), level(spot.value, heat.scale))


def _packed(spot: Spot | None, heat: Heat) -> Any:
    """Value, colour, and the ends of the interval where there is one."""
    if spot is None:
        return 0
    packed = [_tenths(spot.value), level(spot.value, heat.scale)]
    ends = [] if spot.low is None or spot.high is None else [spot.low, spot.high]
    return packed + [_tenths(end) for end in ends]


def _tenths(value: float) -> int:
    return int(points(value).replace(".", ""))
