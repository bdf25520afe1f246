"""From cells to rows: seeds averaged, intervals over shared draws, paired differences with the best of each lead setting.

Source of the rules: ARCHITECTURE section 3 (score at random leads, interval and p, asterisk); the LAEF paper's evaluation
protocol for the asterisk.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from ecgbench.cells import Cell, Scoring
from ecgbench.results.score import MACRO, draws_of_patients, score
from ecgbench.stats.bootstrap import percentile_interval
from ecgbench.stats.paired import Difference, holm_with_best, paired_difference


@dataclass(frozen=True, kw_only=True, eq=False)
class Scored:
    """One finished cell, as far as a comparison needs it."""

    cell: Cell
    dataset: str
    scores: pd.DataFrame
    replicates: np.ndarray
    predictions: pd.DataFrame

    @property
    def macro(self) -> float:
        """Macro AUROC of all its records."""
        return float(self.scores.loc[self.scores["label"] == MACRO, "auroc"].iloc[0])

    def on(self, records: Sequence[str], scoring: Scoring) -> "Scored":
        """The same cell scored on some of its records, with draws over the patients of those alone."""
        part = self.predictions.set_index("record").loc[list(records)].reset_index()
        labels = [c.split(":", 1)[1] for c in map(str, part.columns) if c.startswith("target:")]
        weights = draws_of_patients(self.dataset, list(part["patient"]), scoring.draws, scoring.bootstrap)
        target, probability = (part[[f"{kind}:{n}" for n in labels]].to_numpy() for kind in ("target", "probability"))
        again = score(labels, target, probability, weights)
        return Scored(cell=self.cell, dataset=self.dataset, scores=again.table, replicates=again.replicates, predictions=part)


@dataclass(kw_only=True, eq=False)
class Row:
    """One row of the main table: a task, a model, a lead setting as typed, a policy."""

    task: str
    model: str
    leads: str
    policy: str
    weights: str = ""
    """As asked for; the table shows what was loaded."""
    cells: list[Scored] = field(default_factory=list)
    status: str = "ok"
    ragged: bool = False
    """Whether it averages fewer lead draws or fits than another row of its task and setting; it is then compared with none."""
    difference: Difference | None = None
    """Best of the setting minus this row; None for the best itself and where status is not ok."""
    p_holm: float = np.nan
    best: bool = False

    @property
    def score(self) -> float:
        """Mean over fits and lead-drawing seeds of the macro AUROC."""
        return float(np.mean([c.macro for c in self.cells])) if self.status == "ok" else np.nan

    @property
    def std(self) -> float:
        """Spread over lead-drawing seeds (ddof 1) of the mean over fits; NaN with a single draw."""
        by_seed: dict[str, list[float]] = {}
        for c in self.cells:
            by_seed.setdefault(str(c.cell.setting), []).append(c.macro)
        return float(np.std([np.mean(v) for v in by_seed.values()], ddof=1)) if self.status == "ok" and len(by_seed) > 1 else np.nan

    @property
    def replicates(self) -> np.ndarray:
        """(draw,) mean over its cells: a draw of patients applies to all seeds."""
        return np.asarray(np.mean([c.replicates[:, 0] for c in self.cells], axis=0))

    @property
    def interval(self) -> tuple[float, float]:
        """95 % percentile interval over patients."""
        return percentile_interval(self.replicates) if self.status == "ok" else (np.nan, np.nan)


def compare(rows: Sequence[Row], scoring: Scoring) -> None:
    """Mark the best row of one task and setting and compare the others with it; rows that are not ok are left out.

    Where their records differ, all sides are scored anew on the intersection, or their draws would be of different patients.
    The best is chosen on the same data, so the Holm family is all pairs of rows, of which those with the best are reported. It is
    that of the plan: the pairs of a row that has no number yet count, with p = 1; a row that was skipped does not.
    """
    able = [r for r in rows if r.status == "ok" and np.isfinite(r.score)]
    if not able:
        return
    # a mean over other draws of leads or other fits is another quantity: such a row has a number and is in no comparison
    drawn = [{(str(c.cell.setting), c.cell.fit.seed) for c in r.cells} for r in able]
    for row, own in zip(able, drawn, strict=True):
        row.ragged = own != set.union(*drawn)
    able = [r for r in able if not r.ragged]
    if not able:
        return
    best = max(able, key=lambda r: r.score)
    best.best = True
    held = [frozenset(c.predictions["record"]) for r in able for c in r.cells]
    common = None if len(set(held)) == 1 else frozenset.intersection(*held)
    first = able.index(best)
    sides = [_restricted(r, common, scoring) for r in able]
    scores, replicates = [s.score for s in sides], [s.replicates for s in sides]
    planned = sum(r.status != "skipped" for r in rows)
    for i, adjusted in enumerate(holm_with_best(scores, replicates, first, planned)):
        if i != first:
            able[i].difference = paired_difference(scores[first], scores[i], replicates[first], replicates[i])
            able[i].p_holm = float(adjusted)


def _restricted(row: Row, records: frozenset[str] | None, scoring: Scoring) -> Row:
    if records is None:
        return row
    cells = [c.on([r for r in c.predictions["record"] if r in records], scoring) for c in row.cells]
    return Row(task=row.task, model=row.model, leads=row.leads, policy=row.policy, cells=cells)
