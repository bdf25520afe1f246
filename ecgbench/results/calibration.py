"""Whether probabilities mean what they say: Brier score, slope, intercept, expected calibration
error, and bins of equal mass, label by label.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ecgbench.results.by_label import Answer, Block, Own, Question, Repeats, blocks, number
from ecgbench.stats import calibration as stats
from ecgbench.stats.clustered import Bools, Floats, Influence, Patients, mean, share, smaller_class

KEY = "calibration"
ESTIMATES = ("brier", "slope", "intercept")
ERRORS = ("ece", "ece_by_chance")
ORDERED = "a threshold parts all records with it from all without, so there is no slope"
POOLED = "all labels"
"""What bins that hold records of every label are called."""


class Calibration(Question):
    """ESTIMATES with intervals, and ERRORS."""

    name = KEY
    keys = (KEY,)
    averaged = ERRORS

    def unmet(self, own: Own, key: str) -> list[str]:
        """ORDERED, in some lead draw."""
        ordered = np.any([stats.ordered_perfectly(b.target, b.probability) for b in own], axis=0)
        return [ORDERED if one else "" for one in ordered]

    def answers(self, own: Own, key: str) -> dict[str, Answer]:
        """Means over lead draws and fits."""
        bins = [stats.reliability(b.target, b.probability) for b in own]
        made: dict[str, Answer] = {
            "brier": mean([_brier(b) for b in own]),
            "slope": mean([stats.slope(*_of(b)) for b in own]),
            "intercept": mean([stats.intercept(*_of(b)) for b in own]),
        }
        return made | {
            error: np.mean([getattr(b, error) for b in bins], axis=0) for error in ERRORS
        }


def bins(repeats: Repeats, names: Sequence[str]) -> list[dict[str, Any]]:
    """Bins of equal mass over these labels together (POOLED), then of each, of all repeats: label,
    bin, probability, observed, low, high, records, patients.
    """
    of = {
        name: [one.only(np.array(one.names) == name) for one in own]
        for own in blocks(repeats)
        for name in own[0].names
        if name in names
    }
    together = {POOLED: [one for name in names for one in of[name]]} if of else {}
    each = together | {name: of[name] for name in names if of}
    return [row for name, those in each.items() for row in _bins(name, those)]


def _of(b: Block) -> tuple[Bools, Floats, Patients]:
    return b.target, b.probability, b.patients


def _brier(b: Block) -> Influence:
    error = stats.squared_error(b.target, b.probability)
    made = share(error, np.ones_like(b.target), b.patients)
    return replace(made, units=smaller_class(b.target, b.patients))


def _bins(name: str, those: Own) -> Iterator[dict[str, Any]]:
    """Of the labels of some blocks together."""
    target = np.concatenate([one.target[0] for one in those])
    probability = np.concatenate([one.probability[0] for one in those])
    whose = np.concatenate([one.patients.of_record for one in those])
    patients = replace(those[0].patients, of_record=whose)
    made = stats.reliability(target, probability, stats.BINS)
    which = np.arange(len(made.count))
    observed = share(target, made.of_record == which[:, None], patients)
    low, high = observed.share_interval()
    for place in which.tolist():
        yield {
            "label": name,
            "bin": place + 1,
            "probability": float(made.probability[place]),
            "observed": float(observed.value[place]),
            "low": number(low[place]),
            "high": number(high[place]),
            "records": int(made.count[place]),
            "patients": int(observed.units[place]),
        }
