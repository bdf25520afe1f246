"""Thresholds, and what comes of them: sensitivity, specificity, predictive values, net benefit.

A record is flagged where its score is at or above the threshold. A threshold is the score of a
record: for a specificity the lowest that flags no more of the records without the label than that
allows, for a sensitivity the highest that misses no more of those with it.
"""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecgbench.stats.clustered import Estimate, Floats, Patients, share
from ecgbench.stats.components import Interval

Kept = Literal["specificity", "sensitivity"]
FROM = 10
"""Records of the class that a threshold is taken from, at least."""


def threshold(target: NDArray[np.bool_], score: Floats, kept: Kept, level: float) -> float:
    """Of one label, `target` and `score` (record,), to keep the specificity or sensitivity at
    `level` in these very records. ValueError where the class is empty.

    >>> threshold(np.array([False, False, True, True]), np.array([1, 2, 3, 4.0]), "sensitivity", 1)
    3.0
    """
    own = np.sort(score[target if kept == "sensitivity" else ~target])
    if not len(own):
        raise ValueError(f"no record to keep the {kept} of")
    wrong = int(np.floor((1 - level) * len(own) + 1e-9))
    if kept == "sensitivity":
        return float(own[wrong])
    last = own[len(own) - 1 - wrong]
    higher = score[score > last]
    return float(higher.min()) if len(higher) else float(np.nextafter(last, np.inf))


def usable(target: NDArray[np.bool_], kept: Kept) -> int:
    """How many records a threshold would be taken from; it needs `FROM`."""
    return int((target if kept == "sensitivity" else ~target).sum())


def halves(
    target: NDArray[np.bool_], patients: Patients, random: np.random.Generator
) -> NDArray[np.bool_]:
    """(record,) which records are in the first half: patients are dealt, those with the label and
    those without by turns.
    """
    with_it = patients.sums(target.astype(np.float64)) > 0
    first = np.zeros(patients.count, bool)
    for group in (np.flatnonzero(with_it), np.flatnonzero(~with_it)):
        first[random.permutation(group)[::2]] = True
    return np.asarray(first[patients.of_record])


def crossed(
    target: NDArray[np.bool_], score: Floats, first: NDArray[np.bool_], kept: Kept, level: float
) -> tuple[NDArray[np.bool_], tuple[float, float]] | None:
    """(record,) flagged by the threshold that was chosen in the other half, and the two thresholds;
    None where one half has fewer than `FROM` records to choose it from.
    """
    if min(usable(target[half], kept) for half in (first, ~first)) < FROM:
        return None
    of_first, of_rest = (
        threshold(target[half], score[half], kept, level) for half in (first, ~first)
    )
    return score >= np.where(first, of_rest, of_first), (of_first, of_rest)


class Rates(NamedTuple):
    """How many of those with the label are flagged, and of those without it are not."""

    sensitivity: Estimate
    specificity: Estimate


def rates(target: NDArray[np.bool_], flagged: NDArray[np.bool_], patients: Patients) -> Rates:
    """Of one label; `target` and `flagged` (record,), both classes there."""
    return Rates(share(flagged, target, patients), share(~flagged, ~target, patients))


class Predictive(NamedTuple):
    """Predictive values at a prevalence; NaN where nobody, or everybody, is flagged."""

    ppv: float
    ppv_interval: Interval
    npv: float
    npv_interval: Interval


class Rate(NamedTuple):
    """A share and its 95 % interval."""

    value: float
    interval: Interval

    @classmethod
    def of(cls, found: Estimate) -> "Rate":
        """Of an estimate of a share."""
        return cls(found.value, found.share_interval())


def predictive(sensitivity: Rate, specificity: Rate, prevalence: float) -> Predictive:
    """Positive and negative predictive value where a share `prevalence` has the label, by Bayes'
    theorem from the likelihood ratios.

    Their intervals come from those of sensitivity and specificity, which rest on different records
    (Newcombe 2016, doi:10.1177/0962280213502144: MOVER-R).
    """
    found, of_found = sensitivity
    clear, of_clear = specificity
    alarms = Interval(1 - of_clear.high, 1 - of_clear.low)
    missed = Interval(1 - of_found.high, 1 - of_found.low)
    ppv = _after(found, 1 - clear, prevalence)
    npv = _after(clear, 1 - found, 1 - prevalence)
    nothing = Interval(float("nan"), float("nan"))
    of_alarms = _ratio(found, of_found, 1 - clear, alarms)
    of_rest = _ratio(clear, of_clear, 1 - found, missed)
    return Predictive(
        ppv,
        nothing if np.isnan(ppv) else _shares(of_alarms, prevalence),
        npv,
        nothing if np.isnan(npv) else _shares(of_rest, 1 - prevalence),
    )


def _after(true: float, false: float, prevalence: float) -> float:
    right, wrong = true * prevalence, false * (1 - prevalence)
    return right / (right + wrong) if right + wrong > 0 else float("nan")


def _ratio(above: float, of_above: Interval, below: float, of_below: Interval) -> Interval:
    """Interval of above / below, both between 0 and 1; infinite above where `below` may be 0."""
    product = above * below
    low = product - np.sqrt(
        max(
            0.0,
            product**2
            - of_above.low
            * of_below.high
            * (2 * above - of_above.low)
            * (2 * below - of_below.high),
        )
    )
    high = product + np.sqrt(
        max(
            0.0,
            product**2
            - of_above.high
            * of_below.low
            * (2 * above - of_above.high)
            * (2 * below - of_below.low),
        )
    )
    under_low = of_below.high * (2 * below - of_below.high)
    under_high = of_below.low * (2 * below - of_below.low)
    return Interval(
        float(max(0.0, low / under_low)) if under_low else 0.0,
        float(high / under_high) if under_high > 0 else float("inf"),
    )


def _shares(ratio: Interval, prevalence: float) -> Interval:
    """Shares after a test with these likelihood ratios."""
    odds = prevalence / (1 - prevalence)
    low, high = (1.0 if np.isinf(r) else r * odds / (1 + r * odds) for r in ratio)
    return Interval(float(low), float(high))


def net_benefit(
    target: NDArray[np.bool_], flagged: NDArray[np.bool_], patients: Patients, chance: float
) -> Estimate:
    """Net benefit per record where one right flag is worth (1 - chance) / chance wrong ones: share
    of right flags less chance / (1 - chance) x share of wrong ones (Vickers and Elkin 2006,
    doi:10.1177/0272989X06295361).
    """
    worth: Floats = np.where(target, 1.0, -chance / (1 - chance)) * flagged
    value = float(worth.mean())
    smaller = min(patients.number(target), patients.number(~target))
    return Estimate(value=value, parts=patients.sums(worth - value) / len(target), units=smaller)
