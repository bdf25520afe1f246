"""Operating points, label by label: what a threshold that was frozen on the validation records with
twelve leads gives, and one chosen at that number of leads, by cross-fitting over test patients;
both within each fold. And what flagging is worth at stated threshold probabilities.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ecgbench.errors import BadSetting
from ecgbench.results.by_label import (
    ENDS,
    Answer,
    Block,
    Labels,
    Own,
    Question,
    Shared,
    in_all,
    known,
)
from ecgbench.stats import operating as stats
from ecgbench.stats.clustered import Bools, Ends, Floats, Influence, mean
from ecgbench.stats.known import parts
from ecgbench.stats.operating import FROM, Measure, Rate, Rates
from ecgbench.study.scores import Predicted
from ecgbench.study.stored import Result

KEPT: tuple[Measure, ...] = ("specificity", "sensitivity")
LEVEL = 0.95
FROZEN, OWN = "frozen at 12 leads", "own, 2-fold cross-fitted"
RATES = Rates._fields
PREVALENCES = (0.01, 0.05, 0.1)
"""Stated ones, of predictive values."""
CHANCES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
"""Threshold probabilities of the net benefit."""
TEST_SET = "test set"
VALUES = ("ppv", "npv")
NOT_VALIDATED = "its fit has no predictions of this label for validation records"


class Way(NamedTuple):
    """What a threshold keeps, and where it comes from."""

    kept: Measure
    thresholds: str

    @property
    def key(self) -> str:
        """Among the keys of `Operating`."""
        return f"{self.kept}, {self.thresholds}"


WAYS = {way.key: way for way in (Way(kept, source) for kept in KEPT for source in (FROZEN, OWN))}
OF_PREVALENCE = (TEST_SET, *map(str, PREVALENCES))


class Operating(Question):
    """`RATES` with intervals and the mean threshold; of frozen ones predictive values too, in
    columns such as `ppv 0.05`, `ppv 0.05_low`.
    """

    name = "operating points"
    keys = tuple(WAYS)
    averaged = tuple(f"{value} {of}" for value in VALUES for of in OF_PREVALENCE)

    def __init__(self) -> None:
        """No fit is read yet."""
        self._of_fit: dict[str, dict[Measure, dict[str, float | str]]] = {}

    def unmet(self, own: Own, key: str) -> list[str]:
        """Too few records to choose a threshold from, in some fold."""
        way, why = WAYS[key], [""] * len(own[0].names)
        for one in own:
            for result, there in one.by_fold:
                if way.thresholds == FROZEN:
                    found = self._frozen(result, way.kept, one.names)
                    more = [at if isinstance(at, str) else "" for at in found]
                else:
                    of = one.target[:, there], one.first_half[:, there]
                    more = [
                        _few(n, way.kept, "test records of one half") if n < FROM else ""
                        for n in stats.fewest(*of, way.kept).tolist()
                    ]
                why = [first or second for first, second in zip(why, more)]
        return why

    def answers(self, own: Own, key: str) -> dict[str, Answer]:
        """Means over lead draws and fits; of the threshold over folds and halves too."""
        way = WAYS[key]
        found: list[Rates] = []
        thresholds: list[Floats] = []
        for one in own:
            flagged, used = self._flagged(one, way)
            found.append(stats.rates(one.target, flagged, one.patients))
            thresholds += used
        both = Rates(*(mean([each[k] for each in found]) for k in range(len(RATES))))
        made: dict[str, Answer] = {"threshold": np.mean(thresholds, axis=0)}
        made |= dict(zip(RATES, both))
        if way.thresholds == FROZEN:
            made |= _values(both, own[0].target.mean(axis=-1))
        return made

    def shared(self, rows: Sequence[Labels]) -> Shared:
        """Those with a number in all rows, under both thresholds; where no label has one of a
        source, under the other.
        """
        made: dict[str, Sequence[str]] = {}
        for kept in KEPT:
            both = [Way(kept, source).key for source in (FROZEN, OWN)]
            sets = [in_all([known(row, key) for row in rows]) for key in both]
            made |= dict.fromkeys(both, in_all([names for names in sets if names]))
        return made

    def interval(self, estimate: Influence) -> Ends:
        """Of a share."""
        return estimate.share_interval()

    def _frozen(self, result: Result, kept: Measure, names: Sequence[str]) -> list[float | str]:
        """Of these labels the threshold, or why there is none; each fit is read once."""
        fit = str(result.document["fit"])
        if fit not in self._of_fit:
            self._of_fit[fit] = thresholds(result)
        found = self._of_fit[fit][kept]
        return [found.get(name, found.get("", NOT_VALIDATED)) for name in names]

    def _flagged(self, one: Block, way: Way) -> tuple[Bools, list[Floats]]:
        """(label, record) who is flagged, each fold by its own threshold, and the thresholds, each
        (label,).
        """
        flagged, used = np.zeros(one.target.shape, bool), []
        for result, there in one.by_fold:
            score = one.probability[:, there]
            if way.thresholds == FROZEN:
                at = np.array(self._frozen(result, way.kept, one.names), np.float64)
                flagged[:, there] = score >= at[:, None]
                used.append(at)
                continue
            target, first = one.target[:, there], one.first_half[:, there]
            flagged[:, there], both = stats.crossed(target, score, first, way.kept, LEVEL)
            used += both
        return flagged, used


class NetBenefit(Question):
    """Keys are the threshold probabilities as printed."""

    name = "net benefit"
    keys = tuple(map(str, CHANCES))
    averaged = ("prevalence",)

    def answers(self, own: Own, key: str) -> dict[str, Answer]:
        """Mean over lead draws and fits, and the share of the test records with the label."""
        chance = float(key)
        flagged = [(b.target, b.probability >= chance, b.patients) for b in own]
        return {
            "net_benefit": mean([stats.net_benefit(*each, chance) for each in flagged]),
            "prevalence": own[0].target.mean(axis=-1),
        }


def _values(found: Rates, own: Floats) -> Mapping[str, Floats]:
    """Predictive values at the stated prevalences and at the test set's `own` (label,)."""
    made: dict[str, Floats] = {}
    both = Rate.of(found.sensitivity), Rate.of(found.specificity)
    for of in OF_PREVALENCE:
        after = stats.predictive(*both, own if of == TEST_SET else float(of))
        for name in VALUES:
            ends = dict(zip(ENDS, getattr(after, f"{name}_interval")))
            made[f"{name} {of}"] = getattr(after, name)
            made |= {f"{name} {of}{end}": bound for end, bound in ends.items()}
    return made


def thresholds(result: Result) -> dict[Measure, dict[str, float | str]]:
    """Of each label, from the validation records of a fit: the threshold, or why there is none;
    "": why there is none of any label.
    """
    try:
        found = Predicted.of(result.validation())
    except BadSetting as error:
        return {kept: {"": f"no predictions of validation records: {error}"} for kept in KEPT}
    made: dict[Measure, dict[str, float | str]] = {}
    for kept in KEPT:
        made[kept] = dict.fromkeys(found.labels, _few(0, kept, "validation records"))
        for part in parts(found.target):
            target, score = (part.of(v).T for v in (found.target == 1, found.probability))
            there = stats.usable(target, kept)
            on = there >= FROM
            values: list[float | str] = [_few(n, kept, "validation records") for n in there]
            if on.any():
                at = stats.threshold(target[on], score[on], kept, LEVEL)
                for place, value in zip(np.flatnonzero(on), at.tolist()):
                    values[place] = value
            made[kept] |= zip(np.asarray(found.labels)[part.labels].tolist(), values)
    return made


def _few(there: int, kept: Measure, where: str) -> str:
    whose = "with the label" if kept == "sensitivity" else "without the label"
    return f"{there} {where} {whose}; a threshold needs {FROM}"
