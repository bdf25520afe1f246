"""Whether probabilities mean what they say: Brier score, slope, intercept, expected calibration
error, and bins of equal mass, label by label.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ecgbench.results.by_label import ByLabel, Label, Own, Question, Repeats, labels, number
from ecgbench.stats.calibration import (
    BINS,
    intercept,
    ordered_perfectly,
    reliability,
    slope,
    squared_error,
)
from ecgbench.stats.clustered import Estimate, Patients, mean, share

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

    def unmet(self, own: Own, key: str) -> str:
        """ORDERED, in some lead draw."""
        ordered = any(ordered_perfectly(one.target, one.probability) for one in own)
        return ORDERED if ordered else ""

    def answers(self, own: Own, key: str) -> dict[str, Estimate | float]:
        """Means over lead draws and fits."""
        every = [(one.target, one.probability, one.patients) for one in own]
        bins = [reliability(one.target, one.probability) for one in own]
        return {
            "brier": mean([_brier(one) for one in own]),
            "slope": mean([s for s in (slope(*of) for of in every) if s is not None]),
            "intercept": mean([intercept(*of) for of in every]),
            "ece": float(np.mean([b.ece for b in bins])),
            "ece_by_chance": float(np.mean([b.ece_by_chance for b in bins])),
        }


def _brier(one: Label) -> Estimate:
    made = share(squared_error(one.target, one.probability), one.every, one.patients)
    smaller = min(one.patients.number(own) for own in (one.target, ~one.target))
    return Estimate(value=made.value, parts=made.parts, units=smaller)


def bins(asked: ByLabel, repeats: Repeats, names: Sequence[str]) -> list[dict[str, Any]]:
    """Bins of equal mass over these labels together (POOLED), then of each, of all repeats: label,
    bin, probability, observed, low, high, records, patients.
    """
    facts = {"names": list(names)}
    made = asked.kept("bins", repeats, facts, lambda: {"rows": list(_bins(repeats, names))})
    rows: list[dict[str, Any]] = made["rows"]
    return rows


def _bins(repeats: Repeats, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    of = {own[0].name: own for own in labels(repeats) if own[0].name in names}
    if not of:
        return
    together = {POOLED: [one for own in of.values() for one in own], **of}
    for name, those in together.items():
        target = np.concatenate([one.target for one in those])
        probability = np.concatenate([one.probability for one in those])
        whose = np.concatenate([one.patients.of_record for one in those])
        patients = Patients(of_record=whose, count=those[0].patients.count)
        made = reliability(target, probability, BINS)
        for place in range(len(made.count)):
            observed = share(target, made.of_record == place, patients)
            low, high = observed.share_interval()
            yield {
                "label": name,
                "bin": place + 1,
                "probability": float(made.probability[place]),
                "observed": observed.value,
                "low": number(low),
                "high": number(high),
                "records": int(made.count[place]),
                "patients": observed.units,
            }
