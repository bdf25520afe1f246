"""The metric of the PhysioNet/CinC Challenges 2020 and 2021: rewards for 26 classes of diagnoses,
in part also for a class that is treated alike; 0 is "always sinus rhythm" and 1 is all right.

A record's output is the classes whose probability is at least 0.5: entries of the Challenge could
choose their thresholds in training, a metric of this package sees the test records alone. The
labels of a task are found by their SNOMED CT codes; several of one class count as one. Labels of no
class are left out. A class that the task lacks is in no record and in no output, and a record
without any class earns nothing, as in the official scorer. Undefined, where that gives 0: where
no record has a class beside sinus rhythm.

The weights are those of evaluation-2021 by PhysioNet/Computing in Cardiology Challenges, under the
licence in challenge2021_LICENSE.txt.
"""

import csv
from collections.abc import Sequence
from importlib.resources import files

import numpy as np

from ecgbench.cards.rooms import MetricCard
from ecgbench.core.text import shortened
from ecgbench.errors import BadSetting

CARD = MetricCard(
    title="Challenge 2021 score",
    direction="higher",
    range=(None, 1.0),
    chance=0.0,
    summary="weighted reward over 26 classes, above that of always saying sinus rhythm",
    source="Reyna et al. 2021, doi:10.23919/CinC53138.2021.9662687",
    together=True,
)
THRESHOLD = 0.5
SINUS_RHYTHM = "426783006"


def _weights() -> tuple[tuple[str, ...], np.ndarray]:
    """Codes of the classes, several of one class separated by `|`; and (class, class) what an
    output, the column, earns where a record has the class of the row.
    """
    text = (files("ecgbench.metrics") / "challenge2021_weights.csv").read_text(encoding="utf-8")
    (_, *classes), *rows = csv.reader(text.splitlines())
    return tuple(classes), np.array([row[1:] for row in rows], float)


CLASSES, WEIGHTS = _weights()


def value(target: np.ndarray, score: np.ndarray, labels: Sequence[str]) -> np.ndarray:
    """(1 + label,) the score, and NaN of each label, which has no score of its own; BadSetting
    where no label is the code of a class.
    """
    return replicates(target, score, np.ones((1, len(target))), labels)[0]


def influence(target: np.ndarray, score: np.ndarray, labels: Sequence[str]) -> None:
    """None: `replicates` weighs patients exactly."""
    return


def replicates(
    target: np.ndarray, score: np.ndarray, weights: np.ndarray, labels: Sequence[str]
) -> np.ndarray:
    """(draw, 1 + label) the same under each row of weights (draw, record), exactly."""
    of_class = np.array(
        [[bool({*own.split("|")} & {*label.split("|")}) for own in CLASSES] for label in labels]
    )
    if not of_class.any():
        raise BadSetting(
            f"metric challenge2021 is of the classes of the Challenge by their SNOMED CT codes, "
            f"as of --tasks georgia, and none is among {shortened(', '.join(labels), 60)}; leave "
            f"it out"
        )
    made = np.full((len(weights), 1 + len(labels)), np.nan)
    has, said = ((one.astype(int) @ of_class) > 0 for one in (target, score >= THRESHOLD))
    made[:, 0] = scores(has, said, weights)
    return made


def scores(labels: np.ndarray, binary: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(draw,) the official score of labels and outputs, both (record, class) bool in the order of
    CLASSES, under each row of weights (draw, record); NaN where the labels are sinus rhythm alone.
    """
    always = np.zeros_like(labels) | np.isin(CLASSES, SINUS_RHYTHM)
    given, right, least = (weights @ _rewards(labels, of) for of in (binary, labels, always))
    made: np.ndarray = np.full(len(weights), np.nan)
    return np.divide(given - least, right - least, out=made, where=right != least)


def _rewards(labels: np.ndarray, binary: np.ndarray) -> np.ndarray:
    """(record,) what outputs earn: less, the more classes are labelled or put out."""
    classes = (labels | binary).sum(axis=1)
    return np.asarray(((labels @ WEIGHTS) * binary).sum(axis=1) / np.maximum(classes, 1))
