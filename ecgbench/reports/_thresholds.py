"""Thresholds and what they give, label by label: frozen on the validation records with twelve
leads, and chosen at the number of leads by cross-fitting over test patients.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ecgbench.errors import BadSetting
from ecgbench.reports._predicted import Label, Line, in_all, none_known, number
from ecgbench.results.result import Result
from ecgbench.results.score import arrays
from ecgbench.seeds import rng
from ecgbench.stats.clustered import Estimate, mean, mean_of_labels
from ecgbench.stats.known import UNKNOWN
from ecgbench.stats.operating import (
    FROM,
    Kept,
    Rates,
    crossed,
    halves,
    rates,
    threshold,
    usable,
)

KEPT: tuple[Kept, ...] = ("specificity", "sensitivity")
LEVEL = 0.95
FROZEN, OWN = "frozen at 12 leads", "own, 2-fold cross-fitted"
NOT_VALIDATED = "its fit has no predictions of this label for validation records"
BOTH = ("sensitivity", "specificity")


class Way(NamedTuple):
    """What a threshold keeps, and where it comes from."""

    kept: Kept
    thresholds: str

    @property
    def facts(self) -> dict[str, Any]:
        """In a CSV file."""
        return {"kept": self.kept, "level": LEVEL, "thresholds": self.thresholds}


WAYS = tuple(Way(kept, source) for kept in KEPT for source in (FROZEN, OWN))


@dataclass(frozen=True, kw_only=True, eq=False)
class Point:
    """Of a label of a row, or the mean over labels."""

    rates: Rates
    threshold: float | None = None
    """Mean over lead draws, fits, folds and halves."""

    @property
    def numbers(self) -> dict[str, float | None]:
        """As a row of the CSV file holds them."""
        made: dict[str, float | None] = {"threshold": self.threshold}
        for name, found in zip(BOTH, self.rates):
            low, high = found.share_interval()
            made |= {name: found.value, f"{name}_low": number(low), f"{name}_high": number(high)}
        return made


@dataclass(frozen=True, kw_only=True, eq=False)
class Operated:
    """A label of a row."""

    counts: Mapping[str, int]
    points: Mapping[Way, Point | str]
    """Or why there is none."""
    lacking: str = ""
    """Why the label is left out altogether."""

    @property
    def prevalence(self) -> float:
        """Of the test set: the share of records with it."""
        positives, negatives = self.counts["positives"], self.counts["negatives"]
        return positives / (positives + negatives)


Found = Mapping[str, Operated]


class Frozen:
    """Thresholds from the validation records, each fit read once."""

    def __init__(self) -> None:
        self._known: dict[str, dict[tuple[str, Kept], float | str]] = {}

    def __call__(self, result: Result, label: str, kept: Kept) -> float | str:
        """One, or why there is none."""
        fit = str(result.document["fit"])
        if fit not in self._known:
            self._known[fit] = dict(self._read(result))
        known = self._known[fit]
        return known.get((label, kept), known.get(("", kept), NOT_VALIDATED))

    def _read(self, result: Result) -> Iterator[tuple[tuple[str, Kept], float | str]]:
        try:
            names, target, probability = arrays(result.validation())
        except BadSetting as error:
            yield from (
                (("", kept), f"no predictions of validation records: {error}") for kept in KEPT
            )
            return
        for k, name in enumerate(names):
            known = target[:, k] != UNKNOWN
            own = target[known, k] == 1
            for kept in KEPT:
                there = usable(own, kept)
                yield (
                    (name, kept),
                    threshold(own, probability[known, k], kept, LEVEL)
                    if there >= FROM
                    else _few(there, kept, "validation records"),
                )


def _few(there: int, kept: Kept, where: str) -> str:
    whose = "with the label" if kept == "sensitivity" else "without the label"
    return f"{there} {where} {whose}; a threshold needs {FROM}"


def operated(line: Line, frozen: Frozen) -> Iterator[tuple[str, Operated]]:
    """The labels of a row by name."""
    for repeats in line.labels() if line.repeats else ():
        name, counts = repeats[0].name, repeats[0].counts
        if lacking := next(filter(None, (one.lacking for one in repeats)), ""):
            none: dict[Way, Point | str] = dict.fromkeys(WAYS, lacking)
            yield name, Operated(counts=counts, points=none, lacking=lacking)
            continue
        yield (
            name,
            Operated(
                counts=counts,
                points={way: _point(line, repeats, way, frozen) for way in WAYS},
            ),
        )


def _point(line: Line, repeats: Sequence[Label], way: Way, frozen: Frozen) -> Point | str:
    """The mean over lead draws and fits, or why there is none."""
    made: list[Rates] = []
    thresholds: list[float] = []
    for one, folds in zip(repeats, line.repeats):
        flags = _flagged(one, folds, way, frozen)
        if isinstance(flags, str):
            return flags
        made.append(rates(one.target, flags[0], one.patients))
        thresholds += flags[1]
    return Point(rates=_over(mean, made), threshold=float(np.mean(thresholds)))


def _over(how: Callable[[Sequence[Estimate]], Estimate], made: Sequence[Rates]) -> Rates:
    """A mean of both rates."""
    return Rates(how([r.sensitivity for r in made]), how([r.specificity for r in made]))


def _flagged(
    one: Label, folds: Sequence[Result], way: Way, frozen: Frozen
) -> tuple[np.ndarray, list[float]] | str:
    """(record,) who is flagged, each fold by its own threshold, and the thresholds."""
    flagged, used = np.zeros(len(one.target), bool), []
    for place, result in enumerate(folds):
        there = one.fold == place
        target, score = one.target[there], one.probability[there]
        if way.thresholds == FROZEN:
            at = frozen(result, one.name, way.kept)
            if isinstance(at, str):
                return at
            flagged[there] = score >= at
            used.append(at)
            continue
        patients = one.patients.only(there)
        random = rng("halves", result.dataset, result.cell.fit.fold, one.name)
        first = halves(target, patients, random)
        made = crossed(target, score, first, way.kept, LEVEL)
        if made is None:
            least = min(usable(target[half], way.kept) for half in (first, ~first))
            return _few(least, way.kept, "test records of one half")
        flagged[there] = made[0]
        used += made[1]
    return flagged, used


def compared(found: Iterable[Found]) -> dict[Kept, list[str]]:
    """Labels that means are over: those with a number in all rows, under both thresholds; where no
    label has one of a source, under the other.
    """
    rows = [of for of in found if of]
    every: dict[Kept, list[str]] = {}
    for kept in KEPT:
        sets = []
        for source in (FROZEN, OWN):
            way = Way(kept, source)
            names = in_all(
                [{n: 1 for n, o in of.items() if isinstance(o.points[way], Point)} for of in rows]
            )
            sets += [names] if names else []
        every[kept] = [n for n in sets[0] if all(n in names for names in sets)] if sets else []
    return every


def means(found: Found, every: Mapping[Kept, Sequence[str]]) -> dict[Way, Point]:
    """Means over these labels."""
    made = {}
    for way in WAYS:
        own = [found[name].points[way] for name in every[way.kept] if name in found]
        there = [point.rates for point in own if isinstance(point, Point)]
        if there and len(there) == len(own):
            made[way] = Point(rates=_over(mean_of_labels, there))
    return made


def why(found: Found, way: Way) -> str:
    """Why no label has a number."""
    reasons = [o.points[way] for o in found.values() if not o.lacking]
    texts = list(dict.fromkeys(r for r in reasons if isinstance(r, str)))
    return texts[0] if texts else none_known()
