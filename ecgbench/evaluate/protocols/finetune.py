"""Protocol `finetune`: the whole network is trained, early layers slower than late ones and both
slower than the head.

Source: the reference benchmark (AdamW, rates lr, lr/10 and lr/100, constant, no clipping, one
random window per record and epoch, best epoch by record-level validation macro AUROC). Every group
must be trained, or the fit stops: in the reference benchmark one model's encoder was left out of
the optimiser by a misspelt prefix, and nothing said so.

Batch normalisation, where a network has it, sees the records of one forward pass: with smaller
passes or several processes its statistics are of fewer records, everything else is the same.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ecgbench.cards.cell import Fit
from ecgbench.core.text import counted
from ecgbench.evaluate import rows
from ecgbench.evaluate.protocols import Trained, linear
from ecgbench.evaluate.rows import Needed

if TYPE_CHECKING:
    from ecgbench.evaluate.evaluation import Evaluation

SETTINGS = (*linear.SETTINGS, "lr_groups", "precision", "micro_batch")
SAME_LEADS = True
frozen = False


def needs(evaluation: "Evaluation", fit: Fit) -> Needed:
    """None: features of the network as it was serve nothing."""
    return Needed([], rows.complete([]))


def fit(
    evaluation: "Evaluation", fit: Fit, needed: Needed, checkpoint: Path, tuner: Any = None
) -> Trained:
    """Fine-tune a copy of the network, by `tuner` if that is not `tuning.Tuner`."""
    from ecgbench.evaluate.tuning import tune

    evaluation, training = evaluation.showing(fit), evaluation.training
    learn, check = (len(evaluation.records[split]) for split in ("train", "val"))
    batch = min(training.batch, learn)
    total = training.epochs * (learn // batch * batch + check)
    epochs = counted(training.epochs, "epoch")
    what = f"{evaluation.name}: fine-tune {fit.task}, seed {fit.seed}, {epochs}"
    with evaluation.progress.stage(what, total, "records") as advance:
        return tune(evaluation, fit, checkpoint / "checkpoint.pt", advance, tuner)
