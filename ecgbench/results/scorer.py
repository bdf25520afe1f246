"""Scores and intervals of finished cells, computed from their predictions and kept in tables of the
run (results.cache).
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from ecgbench import metrics
from ecgbench.core.cells import Scoring
from ecgbench.results.cache import Cache
from ecgbench.results.evidence import Evidence, Sure, evidence
from ecgbench.results.score import Draws, Scored, score
from ecgbench.stats.paired import Difference
from ecgbench.study.scores import COLUMNS, ROUNDING, Predicted
from ecgbench.study.stored import Result

VERSION = 11
"""Raised by hand when the same predictions begin to give other intervals, or more beside them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Scorer:
    """Scores the cells of one run."""

    run: Path
    scoring: Scoring
    patients: Mapping[tuple[str, str], tuple[str, ...]]
    """(dataset, fold) -> who is drawn, each once, in alphabetical order."""
    keep: bool = True
    """Whether what is computed is kept; what was kept before is read in any case."""
    _whole: dict[tuple[str, str, str], Scored] = field(default_factory=dict, init=False, repr=False)
    """Cells that were scored on all their records; many tables ask for the same."""

    def __call__(self, result: Result, metric: str, names: frozenset[str] | None = None) -> Scored:
        """A cell under a metric. `names`: of these records alone, with draws over their patients
        only.
        """
        known = (result.content, result.cell.identity, metric)
        if names is None and known in self._whole:
            return self._whole[known]
        # who is drawn; None: those of the records
        drawn = self.patients[result.dataset, result.cell.fit.fold] if names is None else None
        facts = self.facts(metric) | {
            "cell": result.content,
            "patients": drawn and digest(drawn),
            "names": names and digest(names),
        }
        row = dict(
            self.cache.row("scores", facts, lambda: self._computed(result, metric, names, drawn))
        )
        row |= {"content": row.pop("cell"), "columns": {n: row.pop(n) for n in ("label", *COLUMNS)}}
        wins = names is None and not row["edited"]
        scored = Scored(
            **row,
            cell=result.cell,
            predictions=partial(_predictions, result, names, wins=wins),
        )
        if names is None:
            self._whole[known] = scored
        return scored

    @cached_property
    def cache(self) -> Cache:
        """What was computed of the run; its table `scores` has a row for each cell and metric."""
        return Cache(self.run / "derived", self.keep)

    def evidence(self, rows: Sequence[Sequence[Scored]]) -> Evidence:
        """How sure rows of cells of a metric and their differences are."""
        facts = self.facts(rows[0][0].metric) | {
            "rows": [[(c.content, c.records, c.cell.identity) for c in cells] for cells in rows]
        }
        known = self.kept(facts, lambda: asdict(evidence(rows, self.scoring.absent)))
        return Evidence(
            rows=[Sure(**one) for one in known["rows"]],
            pairs=[Difference(**one) for one in known["pairs"]],
        )

    def facts(self, metric: str) -> dict[str, Any]:
        """What any interval rests on."""
        scoring = self.scoring
        how = {"draws": scoring.draws, "bootstrap": scoring.bootstrap, "absent": scoring.absent}
        return {"version": VERSION, "metric": metric, "source": _source(metric), **how}

    def kept(
        self, facts: dict[str, Any], compute: Callable[[], dict[str, Any]], table: str = "others"
    ) -> dict[str, Any]:
        """What was computed from these facts before; else it is computed, and kept in a table as
        JSON.
        """

        def row() -> dict[str, str]:
            return {"value": json.dumps(compute(), default=np.ndarray.tolist)}

        known: dict[str, Any] = json.loads(self.cache.row(table, facts, row)["value"])
        return known

    def _computed(
        self,
        result: Result,
        metric: str,
        names: frozenset[str] | None,
        drawn: tuple[str, ...] | None,
    ) -> dict[str, Any]:
        predictions = _predictions(result, names)
        own = np.unique(predictions.patients).tolist()
        records = self.scoring.bootstrap == "records"
        draws = Draws(
            dataset=result.dataset,
            fold=result.cell.fit.fold,
            patients=tuple(sorted(predictions.records)) if records else drawn or tuple(own),
            draws=self.scoring.draws,
            bootstrap=self.scoring.bootstrap,
        )
        row = dict(vars(score(metric, predictions, draws, self.scoring.absent)))
        columns = row.pop("columns")
        return {
            "cell": result.content,
            "metric": metric,
            **columns,
            **row,
            "records": digest(predictions.records),
            "n_records": len(predictions.records),
            "n_patients": len(own),
            "edited": names is None and _edited(result, metric, columns["value"]),
        }


def _edited(result: Result, metric: str, value: np.ndarray) -> bool:
    """Whether a cell stores other values of the metric, (1 + label,): its file was another then."""
    stored = result.scored()
    own = stored["value"][stored["metric"] == metric]
    # the macro is stored without the labels that are absent
    same = len(own) == len(value) and np.allclose(
        own[1:], value[1:], rtol=0, atol=ROUNDING, equal_nan=True
    )
    return len(own) > 0 and not same


def _predictions(result: Result, names: frozenset[str] | None, wins: bool = True) -> Predicted:
    """Of all its records, or of some; then without what was stored of comparisons with others."""
    predictions = result.predicted()
    if names is not None:
        predictions = predictions.only(names)
    return predictions if wins and names is None else replace(predictions, wins={})


def _source(metric: str) -> str:
    """sha256 of the files of a metric: it may change while its author works on it."""
    file = Path(str(metrics.get(metric).__file__))
    return metrics.ROOM.source_hash(metric) or hashlib.sha256(file.read_bytes()).hexdigest()


def digest(names: Iterable[str]) -> str:
    """sha256 of names, in whatever order."""
    return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()
