"""What the keys of fits and cells are made of: everything that can change the number, nothing that
cannot.
"""

from typing import Any

from ecgbench.core.cards import Task
from ecgbench.core.cells import FITS, SCORES, Cell, Fit, Scoring, Training
from ecgbench.evaluate import probe
from ecgbench.evaluate.evaluation import Evaluation


def fit_facts(evaluation: Evaluation, fit: Fit, task: Task, training: Training) -> dict[str, Any]:
    """Facts of a fit: features at the leads of its training, records, labels, training, its seed
    and fold.
    """
    own = probe.facts() if training.protocol == "probe" else {}
    return {
        "fits": FITS,
        "fit": task.name,
        "labels": list(task.labels),
        "fold": fit.fold,
        "records": evaluation.selection.labelled(task.columns),
        "training": {**training.facts(), **own},
        "seed": fit.seed,
        **({"shown": fit.shown} if fit.shown else {}),
        **evaluation.facts(fit.policy or evaluation.contract.policy),
    }


def cell_facts(
    evaluation: Evaluation,
    cell: Cell,
    task: Task,
    fit_key: str,
    scoring: Scoring,
    control: str = "",
) -> dict[str, Any]:
    """Facts of a cell: its fit, setting, policy, labels and which records are scored.

    Not metrics, nor the draws of the bootstrap, their kind, or the family of comparisons: they
    change no prediction.
    """
    return {
        "fits": FITS,
        "scores": SCORES,
        "cell": task.name,
        "labels": list(task.labels),
        "fit": fit_key,
        "records": evaluation.selection.labelled(task.columns),
        "setting": str(cell.setting),
        "scoring": scoring.of_predictions,
        **({"control": control} if control else {}),
        **evaluation.facts(cell.policy),
    }
