"""Whether probabilities mean what they say: Brier score, slope, intercept, expected calibration
error, and bins of equal mass, label by label.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ecgbench.results.by_label import Answer, ByLabel, Own, Question, Repeats, blocks, number
from ecgbench.stats.calibration import (
    BINS,
    intercept,
    ordered_perfectly,
    reliability,
    slope,
    squared_error,
)
from ecgbench.stats.clustered import (
    Bools,
    Estimate,
    Floats,
    Patients,
    mean,
    share,
    smaller_class,
)

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
        ordered = np.any([ordered_perfectly(b.target, b.probability) for b in own], axis=0)
        return [ORDERED if one else "" for one in ordered]

    def answers(self, own: Own, key: str) -> dict[str, Answer]:
        """Means over lead draws and fits."""
        every = [(b.target, b.probability, b.patients) for b in own]
        bins = [reliability(b.target, b.probability) for b in own]
        return {
            "brier": mean([_brier(*of) for of in every]),
            "slope": mean([slope(*of) for of in every]),
            "intercept": mean([intercept(*of) for of in every]),
            "ece": np.mean([b.ece for b in bins], axis=0),
            "ece_by_chance": np.mean([b.ece_by_chance for b in bins], axis=0),
        }


def _brier(target: Bools, probability: Floats, patients: Patients) -> Estimate:
    made = share(squared_error(target, probability), np.ones_like(target), patients)
    return replace(made, units=smaller_class(target, patients))


def bins(asked: ByLabel, repeats: Repeats, names: Sequence[str]) -> list[dict[str, Any]]:
    """Bins of equal mass over these labels together (POOLED), then of each, of all repeats: label,
    bin, probability, observed, low, high, records, patients.
    """
    facts = {"names": list(names)}
    made = asked.kept("bins", repeats, facts, lambda: {"rows": list(_bins(repeats, names))})
    rows: list[dict[str, Any]] = made["rows"]
    return rows


def _bins(repeats: Repeats, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    of = {
        name: [one.only(np.array(one.names) == name) for one in own]
        for own in blocks(repeats)
        for name in own[0].names
        if name in names
    }
    if not of:
        return
    together = {POOLED: [one for name in names for one in of[name]]}
    together |= {name: of[name] for name in names}
    for name, those in together.items():
        target = np.concatenate([one.target[0] for one in those])
        probability = np.concatenate([one.probability[0] for one in those])
        whose = np.concatenate([one.patients.of_record for one in those])
        patients = Patients(of_record=whose, count=those[0].patients.count)
        made = reliability(target, probability, BINS)
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
