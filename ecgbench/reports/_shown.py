"""Parts that only the page shows: what it opens with, and the map of scores in colours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from ecgbench.reports._chart import Panel


@dataclass(frozen=True, kw_only=True)
class Tile:
    """A number in large letters, and what it is."""

    value: str
    interval: str
    """95 %; "" where there is none."""
    words: str


@dataclass(frozen=True, kw_only=True)
class Opening:
    """What stands first on a page: a sentence, numbers, and a chart."""

    kind: ClassVar = "opening"
    sentence: str
    about: str = ""
    """What the words of the sentence mean, and how sure it is."""
    tiles: Sequence[Tile] = ()
    panel: "Panel | None" = None
    figure: str = ""
    """The figure that the panel is of."""
    whole: bool = False
    """Whether that figure has nothing but this panel, so that the page draws it once."""


@dataclass(frozen=True, kw_only=True)
class Spot:
    """A value of a map, a fraction."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class View:
    """One table of a map: its columns, and a row of values for each row of the map."""

    title: str
    of: str
    """The column of the run, or the lead setting, that all of it is of."""
    columns: Sequence[str]
    spots: Sequence[Sequence[Spot | None]]


@dataclass(frozen=True, kw_only=True)
class Heat:
    """A map of scores in colours: what the page shows of a figure, with numbers and intervals, one
    view at a time.
    """

    title: str
    head: str
    """What a row is."""
    rows: Sequence[tuple[str, str, str]]
    """Name, full name, and a count in words."""
    views: Sequence[View]
    """The page begins with the first."""
    notes: Sequence[str] = ()
    """Under it."""
    scale: tuple[float, float]
    """The values without colour and with the strongest."""
    task: str = ""
    """Its title, by which the page filters."""


@dataclass(frozen=True, kw_only=True)
class Filters:
    """By what a page filters: titles as its tables and figures spell them."""

    tasks: Sequence[str]
    models: Sequence[str]
    policies: Sequence[str]
    leads: Sequence[str]
    """As typed."""
    columns: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """A column as tables name it -> the places of its model and of its policy."""
    series: Sequence[tuple[int, int]] = ()
    """Of the columns in their order."""
