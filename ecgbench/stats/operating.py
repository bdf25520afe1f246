"""Thresholds, and the sensitivity, specificity, predictive values and net benefit that they give.

A record is flagged where its score is at or above the threshold. A threshold is the score of a
record: for a specificity the lowest that flags no more of the records without the label than that
allows, for a sensitivity the highest that misses no more of those with it.

Many labels are computed together: every shape may begin with axes of labels, written `...`.
"""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ecgbench.stats.clustered import (
    Bools,
    Ends,
    Floats,
    Influence,
    Ints,
    Patients,
    share,
    smaller_class,
)

Measure = Literal["specificity", "sensitivity"]
FROM = 10
"""Records of the class that a threshold is taken from, at least."""


def threshold(
    target: Bools, score: Floats, fixed: Measure, level: float, among: Bools | None = None
) -> Floats:
    """(...) of `target` and `score` (..., record), to keep the specificity or sensitivity at
    `level` in these very records, or in those `among` them (..., record). ValueError where the
    class is empty.

    >>> target, score = np.array([False, False, True, True]), np.array([1, 2, 3, 4.0])
    >>> float(threshold(target, score, "sensitivity", 1))
    3.0
    """
    there = np.ones_like(target) if among is None else among
    own = (target if fixed == "sensitivity" else ~target) & there
    n = np.asarray(np.count_nonzero(own, axis=-1))
    if not n.all():
        raise ValueError(f"no record to keep the {fixed} of")
    wrong = np.floor((1 - level) * n + 1e-9).astype(np.intp)
    ranked = np.sort(np.where(own, score, np.inf), axis=-1)
    position = wrong if fixed == "sensitivity" else n - 1 - wrong
    at = np.take_along_axis(ranked, position[..., None], axis=-1)
    if fixed == "sensitivity":
        return np.asarray(at[..., 0])
    higher = np.where(there & (score > at), score, np.inf).min(axis=-1)
    return np.asarray(np.where(np.isinf(higher), np.nextafter(at[..., 0], np.inf), higher))


def usable(target: Bools, fixed: Measure) -> Ints:
    """(...) how many records a threshold would be taken from; it needs `FROM`."""
    return np.asarray(np.count_nonzero(target if fixed == "sensitivity" else ~target, axis=-1))


def halves(target: Bools, patients: Patients, random: np.random.Generator) -> Bools:
    """(record,) which records are in the first half, for one label. Half of the patients with the
    label and half of those without it are drawn at random.
    """
    with_it = patients.sums(target.astype(np.float64)) > 0
    first = np.zeros(patients.count, bool)
    for group in (np.flatnonzero(with_it), np.flatnonzero(~with_it)):
        first[random.permutation(group)[::2]] = True
    return np.asarray(first[patients.of_record])


def fewest(target: Bools, first: Bools, fixed: Measure) -> Ints:
    """(...) records of the half that has fewer, of those that a threshold is taken from."""
    own = target if fixed == "sensitivity" else ~target
    of_first, of_rest = (np.count_nonzero(own & half, axis=-1) for half in (first, ~first))
    return np.asarray(np.minimum(of_first, of_rest))


def crossed(
    target: Bools, score: Floats, first: Bools, fixed: Measure, level: float
) -> tuple[Bools, tuple[Floats, Floats]]:
    """(..., record) flagged by the threshold that was chosen in the other half, and the two
    thresholds (...). ValueError where one half has fewer than `FROM` records to choose it from.
    """
    if (fewest(target, first, fixed) < FROM).any():
        raise ValueError(f"a threshold needs {FROM} records of its class in each half")
    of_first, of_rest = (threshold(target, score, fixed, level, h) for h in (first, ~first))
    at = np.where(first, of_rest[..., None], of_first[..., None])
    return np.asarray(score >= at), (of_first, of_rest)


class Rates(NamedTuple):
    """Shares of the records with the label that are flagged, and without it that are not."""

    sensitivity: Influence
    specificity: Influence


def rates(target: Bools, flagged: Bools, patients: Patients) -> Rates:
    """Of `target` and `flagged` (..., record), with records of both classes."""
    return Rates(share(flagged, target, patients), share(~flagged, ~target, patients))


class Predictive(NamedTuple):
    """Predictive values at a prevalence, (...); NaN where nobody, or everybody, is flagged."""

    ppv: Floats
    ppv_interval: Ends
    npv: Floats
    npv_interval: Ends


class Rate(NamedTuple):
    """A share (...) and its 95 % interval."""

    value: Floats
    interval: Ends

    @classmethod
    def of(cls, found: Influence) -> "Rate":
        """Of an estimate of a share."""
        return cls(np.asarray(found.value), found.share_interval())


def predictive(sensitivity: Rate, specificity: Rate, prevalence: ArrayLike) -> Predictive:
    """Positive and negative predictive value where a share `prevalence` has the label, by Bayes'
    theorem from the likelihood ratios.

    Their intervals come from those of sensitivity and specificity, which rest on different records
    (Newcombe 2016, doi:10.1177/0962280213502144: MOVER-R).
    """
    found, of_found = sensitivity
    clear, of_clear = specificity
    ill = np.asarray(prevalence, np.float64)
    alarms = Ends(1 - of_clear.high, 1 - of_clear.low)
    missed = Ends(1 - of_found.high, 1 - of_found.low)
    ppv = _after(found, 1 - clear, ill)
    npv = _after(clear, 1 - found, 1 - ill)
    of_alarms = _ratio(found, of_found, 1 - clear, alarms)
    of_rest = _ratio(clear, of_clear, 1 - found, missed)
    return Predictive(
        ppv, _shares(of_alarms, ill, np.isnan(ppv)), npv, _shares(of_rest, 1 - ill, np.isnan(npv))
    )


def _after(true: Floats, false: Floats, prevalence: Floats) -> Floats:
    right, wrong = true * prevalence, false * (1 - prevalence)
    nothing = np.full(np.shape(right), np.nan)
    return np.asarray(np.divide(right, right + wrong, out=nothing, where=right + wrong > 0))


def _ratio(above: Floats, of_above: Ends, below: Floats, of_below: Ends) -> Ends:
    """Intervals of above / below, both between 0 and 1; infinite above where `below` may be 0."""
    product = above * below

    def end(a: Floats, b: Floats) -> Floats:
        rest = a * b * (2 * above - a) * (2 * below - b)
        return np.asarray(np.sqrt(np.maximum(0.0, product**2 - rest)))

    low = product - end(of_above.low, of_below.high)
    high = product + end(of_above.high, of_below.low)
    under_low = of_below.high * (2 * below - of_below.high)
    under_high = of_below.low * (2 * below - of_below.low)
    shape = np.shape(product)
    lowest = np.divide(low, under_low, out=np.zeros(shape), where=under_low != 0)
    return Ends(
        np.maximum(0.0, lowest),
        np.divide(high, under_high, out=np.full(shape, np.inf), where=under_high > 0),
    )


def _shares(ratio: Ends, prevalence: Floats, none: Bools) -> Ends:
    """Shares after a test with these likelihood ratios; NaN where there is none."""
    odds = prevalence / (1 - prevalence)
    finite = (np.where(np.isinf(r), 0.0, r) * odds for r in ratio)
    made = (np.where(np.isinf(r), 1.0, f / (1 + f)) for r, f in zip(ratio, finite))
    return Ends(*(np.where(none, np.nan, end) for end in made))


def net_benefit(target: Bools, flagged: Bools, patients: Patients, chance: float) -> Influence:
    """Net benefit per record where one right flag is worth (1 - chance) / chance wrong ones: share
    of right flags less chance / (1 - chance) x share of wrong ones (Vickers and Elkin 2006,
    doi:10.1177/0272989X06295361); target and flagged (..., record).
    """
    worth: Floats = np.where(target, 1.0, -chance / (1 - chance)) * flagged
    value = worth.mean(axis=-1)
    parts = patients.sums(worth - np.asarray(value)[..., None]) / target.shape[-1]
    units = smaller_class(target, patients)
    return Influence(value=value, parts=parts, units=units, growth=patients.growth)
