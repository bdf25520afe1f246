"""Scores and intervals of finished cells, computed from their predictions."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from ecgbench import metrics
from ecgbench.cards.cell import Scoring
from ecgbench.results.evidence import Evidence, evidence
from ecgbench.results.score import Draws, Scored, score
from ecgbench.study.scores import ROUNDING, Predicted
from ecgbench.study.stored import Result

Known = dict[tuple[str, str, str, frozenset[str] | None], Scored]
"""Content and identity of a cell, metric, names of records (None: all) -> its scores."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Scorer:
    """Scores the cells of one run."""

    scoring: Scoring
    patients: Mapping[tuple[str, str], tuple[str, ...]]
    """(dataset, fold) -> who is drawn, each once, in alphabetical order."""
    codes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Task -> label -> its SNOMED CT code."""
    known: Known = field(default_factory=dict, init=False, repr=False)
    """What was scored before, in its order: many tables ask for the same."""

    def __call__(self, result: Result, metric: str, names: frozenset[str] | None = None) -> Scored:
        """A cell under a metric. `names`: of these records alone, with draws over their patients
        only.
        """
        known = (result.content, result.cell.identity, metric, names)
        if known not in self.known:
            self.known[known] = self._scored(result, metric, names)
        return self.known[known]

    def evidence(self, rows: Sequence[Sequence[Scored]]) -> Evidence:
        """How sure rows of cells of a metric and their differences are."""
        return evidence(rows, self.scoring.absent)

    def _scored(self, result: Result, metric: str, names: frozenset[str] | None) -> Scored:
        predictions = _predictions(result, names)
        predictions = replace(predictions, codes=self.codes.get(result.cell.task, {}))
        drawn = own = tuple(np.unique(predictions.patients).tolist())
        if self.scoring.bootstrap == "records":
            drawn = tuple(sorted(predictions.records))
        elif names is None:
            drawn = self.patients[result.dataset, result.cell.fit.fold] or own
        draws = Draws(
            dataset=result.dataset,
            fold=result.cell.fit.fold,
            patients=drawn,
            draws=self.scoring.draws,
            bootstrap=self.scoring.bootstrap,
        )
        made = score(metric, predictions, draws, self.scoring.absent)
        edited = names is None and _edited(result, metric, made.columns["value"])
        return Scored(
            **vars(made),
            cell=result.cell,
            metric=metric,
            records=digest(predictions.records),
            content=result.content,
            predictions=partial(_predictions, result, names, wins=not edited),
            n_records=len(predictions.records),
            n_patients=len(own),
            overlap=result.overlap,
            edited=edited,
        )


def _edited(result: Result, metric: str, value: np.ndarray) -> bool:
    """Whether a cell stores other values of the metric, (1 + label,): its file was another then."""
    stored = result.scored()
    own = stored["value"][stored["metric"] == metric]
    # the macro is stored without the labels that are absent
    first = 0 if metrics.card(metric).together else 1
    same = len(own) == len(value) and np.allclose(
        own[first:], value[first:], rtol=0, atol=ROUNDING, equal_nan=True
    )
    return len(own) > 0 and not same


def _predictions(result: Result, names: frozenset[str] | None, wins: bool = True) -> Predicted:
    """Of all its records, or of some; then without what was stored of comparisons with others."""
    predictions = result.predicted()
    if names is not None:
        predictions = predictions.only(names)
    return predictions if wins and names is None else replace(predictions, wins={})


def digest(names: Iterable[str]) -> str:
    """sha256 of names, in whatever order."""
    return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()
