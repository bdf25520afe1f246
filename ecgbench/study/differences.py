"""What difference of two models the test records of a study can show."""

from collections.abc import Iterator

import numpy as np

from ecgbench.cards.plan import Folders, Plan
from ecgbench.data.prepare import find
from ecgbench.data.select import Selection
from ecgbench.stats.detectable import expected

ASSUMED = 0.85, 0.5
"""AUROC of two models, and the correlation of their errors, for the smallest detectable difference.
"""


def differences(plan: Plan, name: str, folders: Folders) -> Iterator[str]:
    """From how large a difference on the test records of a prepared dataset tell two models apart,
    for each task of a plan.
    """
    there = find(name, folders.data, folders.prepared, plan.limit, division=plan.division)
    chosen, (auroc, shared) = Selection(there, plan.limit, plan.exclude), ASSUMED
    table = chosen.index if plan.division.cross else chosen.of("test")
    for task in there.tasks:
        target = table[task.columns].to_numpy(np.int8)
        positives, negatives = ((target == value).sum(axis=0) for value in (1, 0))
        least = expected(positives, negatives, auroc, shared)
        if np.isfinite(least) and task.name in {c.task for c in plan.cells}:
            yield (
                f"{task.name}: 4 of 5 such studies find a difference of {100 * least:.1f} points "
                f"between two models (near AUROC {auroc:g}, with {shared:.0%} of their error in "
                f"common)"
            )
