"""What the key of a cell is made of: what can change the number, and nothing that cannot."""

from typing import Any

from ecgbench.core.cards import Task
from ecgbench.core.cells import FITS, SCORES, Cell, Scoring
from ecgbench.evaluate.evaluation import Evaluation


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
