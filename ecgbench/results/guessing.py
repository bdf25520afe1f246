"""Better than guessing or not: three answers, by the 95 % interval of an AUROC.

It lies above 0.5 (better than guessing); it ends below 0.5 + NEAR (not better than guessing); else
these patients cannot tell, and the answer says how many would. Fewer than LEAST_PATIENTS patients
never tell.
"""

from typing import Any

import numpy as np

from ecgbench.results.compare import LEAST_PATIENTS
from ecgbench.stats.detectable import needed, times_as_many

CHANCE, NEAR = 0.5, 0.1
FEWEST = 20
"""No smaller number of patients is printed."""
BETTER, OPEN, NOT = ANSWERS = "better than guessing", "cannot be told", "not better than guessing"
MACRO = "macro"


def graded(row: dict[str, Any]) -> dict[str, Any]:
    """A row (label, value, low, high, patients; of a label positives and n, its records) with its
    answer, and where it cannot be told with how many patients would tell: of a label those who
    have it. No number where there is no value.
    """
    value, low, high = (np.nan if row[n] is None else row[n] for n in ("value", "low", "high"))
    answer = BETTER if low > CHANCE else NOT if high < CHANCE + NEAR else OPEN
    answer = answer if row["patients"] >= LEAST_PATIENTS else OPEN
    # as far as the value lies from where the answer would turn to one side or the other
    far = max(value - CHANCE, CHANCE + NEAR - value)
    n = row.get("positives", row["patients"])
    if row["label"] == MACRO:
        enough = max(n * times_as_many((high - low) / 2, far), LEAST_PATIENTS)
    else:
        enough = needed(CHANCE + far, (row["n"] - n) / n) if 0 < n < row["n"] else 0.0
    # fewer than there are: a part of the interval is of few in a fold, or of repeated fits
    printed = answer == OPEN and not np.isnan(value) and max(enough, FEWEST) > n
    return row | {"answer": answer, "needed": max(enough, FEWEST) if printed else None}
