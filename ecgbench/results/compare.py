"""From cells to rows: seeds averaged, intervals over shared draws, paired differences with the best
of each lead setting.

Source of the rules: ARCHITECTURE section 3 (score at random leads, interval and p, asterisk); the
LAEF paper's evaluation protocol for the asterisk.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pandas as pd

from ecgbench.cells import Cell
from ecgbench.stats.bootstrap import percentile_interval
from ecgbench.stats.paired import Difference, holm_with_best, paired_difference


@dataclass(frozen=True, kw_only=True, eq=False)
class Scored:
    """One finished cell under one metric, as far as a comparison needs it."""

    cell: Cell
    metric: str
    table: pd.DataFrame
    """label (their mean first), value, low, high, n, positives."""
    replicates: np.ndarray
    """(draw,) of the mean over the labels."""
    records: str
    """Which records it has: a digest of their names."""
    predictions: Callable[[], pd.DataFrame] = pd.DataFrame
    """Reads them."""
    n_records: int = 0
    n_patients: int = 0
    lost: int = 0
    """Labels that a draw lost, summed over draws."""
    bootstrap: str = ""
    """How patients were drawn."""
    edited: bool = False
    """Whether the metric gave other values when the cell was computed: its file has been edited
    since.
    """

    @cached_property
    def value(self) -> float:
        """Mean over the labels, of all its records."""
        return float(self.table["value"].iloc[0])

    def names(self) -> frozenset[str]:
        """Names of its records."""
        return frozenset(self.predictions()["record"])

    def patients_shared(self, other: "Scored") -> int:
        """How many patients both have."""
        if self.records == other.records:
            return self.n_patients
        return len(set(self.predictions()["patient"]) & set(other.predictions()["patient"]))


Rescore = Callable[[Scored, frozenset[str]], Scored]
"""The same cell scored on some of its records, with draws over the patients of those alone."""


@dataclass(kw_only=True, eq=False)
class Row:
    """One row of the main table: a metric, a task, a model, a lead setting as typed, a policy."""

    task: str
    model: str
    leads: str
    policy: str
    metric: str
    sign: int = 1
    """1 where higher values of the metric are better, -1 where lower ones are."""
    weights: str = ""
    """As asked for; the table shows what was loaded."""
    cells: list[Scored] = field(default_factory=list)
    status: str = "ok"
    ragged: bool = False
    """Whether it averages fewer lead draws or fits than another row of its task and setting; it is
    then compared with none.
    """
    difference: Difference | None = None
    """Best of the setting minus this row; None for the best itself and where status is not ok."""
    p_holm: float = np.nan
    best: bool = False
    marks: list[str] = field(default_factory=list)
    """What must be said beside the numbers of its fits, each once."""

    @property
    def score(self) -> float:
        """Mean over folds, fits and lead-drawing seeds of the mean over the labels."""
        return float(np.mean([c.value for c in self.cells])) if self.status == "ok" else np.nan

    @property
    def std(self) -> float:
        """Spread over lead-drawing seeds (ddof 1) of the mean over fits; NaN with a single draw."""
        by_seed: dict[str, list[float]] = {}
        for c in self.cells:
            by_seed.setdefault(str(c.cell.setting), []).append(c.value)
        means = [np.mean(v) for v in by_seed.values()]
        return float(np.std(means, ddof=1)) if self.status == "ok" and len(means) > 1 else np.nan

    @property
    def replicates(self) -> np.ndarray:
        """(draw,) mean over its cells: a draw of patients applies to all seeds."""
        return np.asarray(np.mean([c.replicates for c in self.cells], axis=0))

    @property
    def interval(self) -> tuple[float, float]:
        """95 % percentile interval over patients."""
        return percentile_interval(self.replicates) if self.status == "ok" else (np.nan, np.nan)


def compare(rows: Sequence[Row], rescore: Rescore) -> None:
    """Mark the best row of one metric, task and setting and compare the others with it; rows that
    are not ok are left out.

    Where their records differ, all sides are scored anew on the intersection, or their draws would
    be of different patients. The best is chosen on the same data, so the Holm family is all pairs
    of rows, of which those with the best are reported. It is that of the plan: the pairs of a row
    that has no number yet count, with p = 1; a row that was skipped does not.
    """
    able = [r for r in rows if r.status == "ok" and np.isfinite(r.score)]
    if not able:
        return
    # a mean over other draws of leads or other fits is another quantity: such a row has a number
    # and is in no comparison
    drawn = [
        {(str(c.cell.setting), c.cell.fit.seed, c.cell.fit.fold) for c in r.cells} for r in able
    ]
    for row, own in zip(able, drawn, strict=True):
        row.ragged = own != set.union(*drawn)
    able = [r for r in able if not r.ragged]
    if not able:
        return
    best = max(able, key=lambda r: r.sign * r.score)
    best.best = True
    first = able.index(best)
    sides = _on_common_records(able, rescore)
    scores, replicates = [s.score for s in sides], [s.replicates for s in sides]
    planned = sum(r.status != "skipped" for r in rows)
    for i, adjusted in enumerate(holm_with_best(scores, replicates, first, planned)):
        if i != first:
            able[i].difference = paired_difference(
                scores[first], scores[i], replicates[first], replicates[i]
            )
            able[i].p_holm = float(adjusted)


def _on_common_records(rows: Sequence[Row], rescore: Rescore) -> Sequence[Row]:
    """The rows as they are, or scored on the records that all of them have in each fold."""
    by_fold: dict[str, list[Scored]] = {}
    for c in (c for r in rows for c in r.cells):
        by_fold.setdefault(c.cell.fit.fold, []).append(c)
    uneven = {fold: cells for fold, cells in by_fold.items() if len({c.records for c in cells}) > 1}
    if not uneven:
        return rows
    common = {
        fold: frozenset.intersection(*(c.names() for c in cells)) for fold, cells in uneven.items()
    }

    def alike(c: Scored) -> Scored:
        fold = c.cell.fit.fold
        return rescore(c, common[fold]) if fold in common else c

    return [replace(r, cells=[alike(c) for c in r.cells]) for r in rows]
