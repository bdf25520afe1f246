"""Operating points, label by label: what a threshold that was frozen on the validation records with
twelve leads gives, and one chosen at that number of leads, by cross-fitting over test patients.
Both within each fold.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ecgbench.errors import BadSetting
from ecgbench.results.by_label import Label, Own, Question, Shared, There, in_all
from ecgbench.results.result import Result
from ecgbench.results.score import arrays
from ecgbench.seeds import rng
from ecgbench.stats.clustered import Estimate, mean
from ecgbench.stats.components import Interval
from ecgbench.stats.known import UNKNOWN
from ecgbench.stats.operating import (
    FROM,
    Kept,
    Rate,
    Rates,
    crossed,
    halves,
    predictive,
    rates,
    threshold,
    usable,
)

KEPT: tuple[Kept, ...] = ("specificity", "sensitivity")
LEVEL = 0.95
FROZEN, OWN = "frozen at 12 leads", "own, 2-fold cross-fitted"
RATES = Rates._fields
PREVALENCES = (0.01, 0.05, 0.1)
"""Stated ones, of predictive values."""
TEST_SET = "test set"
VALUES = ("ppv", "npv")
NOT_VALIDATED = "its fit has no predictions of this label for validation records"


class Way(NamedTuple):
    """What a threshold keeps, and where it comes from."""

    kept: Kept
    thresholds: str

    @property
    def key(self) -> str:
        """Among the keys of `Operating`."""
        return f"{self.kept}, {self.thresholds}"

    @property
    def facts(self) -> dict[str, Any]:
        """In a CSV file."""
        return {"kept": self.kept, "level": LEVEL, "thresholds": self.thresholds}


WAYS = tuple(Way(kept, source) for kept in KEPT for source in (FROZEN, OWN))
OF_PREVALENCE = (TEST_SET, *map(str, PREVALENCES))


class Operating(Question):
    """`RATES` with intervals and the mean threshold; of frozen ones predictive values too, in
    columns such as `ppv 0.05`, `ppv 0.05_low`.
    """

    name = "operating points"
    keys = tuple(way.key for way in WAYS)
    averaged = tuple(f"{value} {of}" for value in VALUES for of in OF_PREVALENCE)

    def __init__(self) -> None:
        self._frozen = _Frozen()
        self._ways = {way.key: way for way in WAYS}

    def unmet(self, own: Own, key: str) -> str:
        """Too few records to choose a threshold from, in some fold."""
        way = self._ways[key]
        for one in own:
            for place, result in enumerate(one.folds):
                if way.thresholds == FROZEN:
                    at = self._frozen(result, one.name, way.kept)
                    if isinstance(at, str):
                        return at
                    continue
                there = one.fold == place
                first = _first(one, there, result)
                fewest = min(usable(one.target[there][h], way.kept) for h in (first, ~first))
                if fewest < FROM:
                    return _few(fewest, way.kept, "test records of one half")
        return ""

    def answers(self, own: Own, key: str) -> dict[str, Estimate | float]:
        """Means over lead draws and fits; of the threshold over folds and halves too."""
        way = self._ways[key]
        found: list[Rates] = []
        thresholds: list[float] = []
        for one in own:
            flagged, used = self._flagged(one, way)
            found.append(rates(one.target, flagged, one.patients))
            thresholds += used
        both = Rates(*(mean([each[k] for each in found]) for k in range(len(RATES))))
        made: dict[str, Estimate | float] = {"threshold": float(np.mean(thresholds))}
        made |= dict(zip(RATES, both))
        if way.thresholds == FROZEN:
            made |= _values(both, float(own[0].target.mean()))
        return made

    def shared(self, rows: Sequence[There]) -> Shared:
        """Those with a number in all rows, under both thresholds; where no label has one of a
        source, under the other.
        """
        made: dict[str, Sequence[str]] = {}
        for kept in KEPT:
            both = [Way(kept, source).key for source in (FROZEN, OWN)]
            sets = [in_all([row.known(key) for row in rows]) for key in both]
            made |= dict.fromkeys(both, in_all([names for names in sets if names]))
        return made

    def interval(self, estimate: Estimate) -> Interval:
        """Of a share."""
        return estimate.share_interval()

    def _flagged(self, one: Label, way: Way) -> tuple[np.ndarray, list[float]]:
        """(record,) who is flagged, each fold by its own threshold, and the thresholds."""
        flagged, used = np.zeros(len(one.target), bool), []
        for place, result in enumerate(one.folds):
            there = one.fold == place
            score = one.probability[there]
            if way.thresholds == FROZEN:
                at = float(self._frozen(result, one.name, way.kept))
                flagged[there] = score >= at
                used.append(at)
                continue
            first = _first(one, there, result)
            made = crossed(one.target[there], score, first, way.kept, LEVEL)
            if made is None:
                raise ValueError(f"{one.name} has no threshold; `unmet` tells why")
            flagged[there] = made[0]
            used += made[1]
        return flagged, used


def _values(found: Rates, own: float) -> Mapping[str, float]:
    """Predictive values at the stated prevalences and at the test set's own."""
    made: dict[str, float] = {}
    both = Rate.of(found.sensitivity), Rate.of(found.specificity)
    for of in OF_PREVALENCE:
        after = predictive(*both, own if of == TEST_SET else float(of))
        for name, value, (low, high) in (
            ("ppv", after.ppv, after.ppv_interval),
            ("npv", after.npv, after.npv_interval),
        ):
            made |= {f"{name} {of}": value, f"{name} {of}_low": low, f"{name} {of}_high": high}
    return made


class _Frozen:
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


def _first(one: Label, there: np.ndarray, result: Result) -> np.ndarray:
    """(record of a fold,) which are in the first half."""
    random = rng("halves", result.dataset, result.cell.fit.fold, one.name)
    return halves(one.target[there], one.patients.only(there), random)
