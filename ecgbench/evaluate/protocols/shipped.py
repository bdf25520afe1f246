"""Protocol `shipped`: the classifier that the authors' file brings is scored as it is. Nothing is
fitted, and no training record is used; thresholds come from validation records, as ever, and with
`--train-leads same` from those at the leads that are tested.

A label of a task is one of its classes where both have a code in common, a statement of PTB-XL or
a SNOMED CT code of the Challenge 2021 (see `cards.model.Classifier`). A label without such a class
is undefined: it has no score and is in no mean. Classes without a label are left out, but a softmax
is over all of them.
"""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ecgbench import datasets
from ecgbench.cards.cell import Fit
from ecgbench.cards.dataset import Task
from ecgbench.cards.model import Classifier, ModelCard
from ecgbench.core.text import enumerated
from ecgbench.evaluate import rows
from ecgbench.evaluate.protocols import Trained
from ecgbench.evaluate.rows import Needed

if TYPE_CHECKING:
    from ecgbench.evaluate.evaluation import Evaluation
    from ecgbench.weights.classifier import Head

SETTINGS = ("leads",)
SAME_LEADS = True
LEARNS = False
frozen = True


def classes_of(task: Task, classifier: Classifier) -> dict[str, int]:
    """Label of a task -> the row of its class; only labels that have one."""
    codes = datasets.vocabulary(task)
    found = {
        label: [
            n for n, one in enumerate(classifier.classes) if one.codes & codes.get(label, set())
        ]
        for label in task.labels
    }
    return {label: places[0] for label, places in found.items() if places}


def refuses(card: ModelCard, weights: str, task: Task) -> str:
    """Why weights cannot be scored on a task without a fit; "" where they can."""
    head = _head(card, weights)
    if head is None:
        return (
            f"--protocol shipped: {weights} weights of {card.title} bring no classifier whose "
            f"classes are known; choose --protocol probe"
        )
    if classes_of(task, head.of):
        return ""
    known = enumerated([one.name for one in head.of.classes if one.codes][:8])
    return (
        f"--protocol shipped: no label of {task.name} is a class of {card.title} ({known}); choose "
        f"another task (ecgbench list tasks), or --protocol probe"
    )


def of_the_fit(evaluation: "Evaluation", fit: Fit) -> Mapping[str, Any]:
    """What else can change a fit: the classifier, and which class each label is."""
    head = _head(evaluation.network.card, fit.weights)
    if head is None:
        return {}
    numbers = sha256(b"".join(part.tobytes() for part in (head.weight, head.bias)))
    return {
        "classes": classes_of(evaluation.task(fit), head.of),
        "classifier": numbers.hexdigest(),
        "softmax": head.of.softmax,
    }


def needs(evaluation: "Evaluation", fit: Fit) -> Needed:
    """The validation records, which thresholds are chosen on."""
    return Needed([rows.complete([])], rows.complete(evaluation.showing(fit).records["val"]))


def fit(evaluation: "Evaluation", fit: Fit, needed: Needed, checkpoint: Path) -> Trained:
    """The classifier as it is, a row for each label; NaN where it does not know one."""
    task, head = evaluation.task(fit), _head(evaluation.network.card, fit.weights)
    assert head is not None  # `refuses` has seen it
    known = classes_of(task, head.of)
    at = np.array([known.get(label, -1) for label in task.labels])
    weight, bias = head.weight[at], head.bias[at]
    weight[at < 0] = bias[at < 0] = np.nan
    names = {label: head.of.classes[n].name for label, n in known.items()}
    return Trained(
        head=(head.weight, head.bias, at) if head.of.softmax else (weight, bias),
        note={"fitted_to": "nothing", "records": 0, "classes": names},
        warnings=["its authors' classifier; labels that it does not know have no score"],
        summary=f"{len(known)} of {len(at)} labels known, nothing to fit",
    )


def _head(card: ModelCard, weights: str) -> "Head | None":
    from ecgbench.weights.classifier import head  # with torch

    return head(card, weights)
