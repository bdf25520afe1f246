"""Scores and intervals of finished cells, computed from their predictions and kept in
<run>/derived/, which may be deleted.
"""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors import SafetensorError
from safetensors.numpy import load, save

from ecgbench import metrics
from ecgbench.cells import Scoring, key
from ecgbench.errors import WriteError
from ecgbench.files import put
from ecgbench.results.result import Result
from ecgbench.results.score import COLUMNS, ROUNDING, Draws, Scored, score

VERSION = 3
"""Raised by hand when the same predictions begin to give other intervals."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Scorer:
    """Scores the cells of one run."""

    run: Path
    scoring: Scoring
    patients: Mapping[tuple[str, str], tuple[str, ...]]
    """(dataset, fold) -> who is drawn, each once, in alphabetical order."""

    def __call__(self, result: Result, metric: str, names: frozenset[str] | None = None) -> Scored:
        """A cell under a metric. `names`: of these records alone, with draws over their patients
        only.
        """
        patients = (
            None if names is not None else self.patients[result.dataset, result.cell.fit.fold]
        )
        key_facts = {
            "version": VERSION,
            "cell": result.content,
            "metric": metric,
            "source": _source(metric),
            "draws": self.scoring.draws,
            "bootstrap": self.scoring.bootstrap,
            "absent": self.scoring.absent,
            "patients": patients and _digest(patients),
            "names": names and _digest(names),
        }
        file = self.run / "derived" / f"{key(key_facts)}.safetensors"
        arrays, summary = _cached(file) or _cache(
            file, *self._computed(result, metric, patients, names)
        )
        replicates = arrays.pop("replicates")
        table = pd.DataFrame({"label": summary.pop("labels"), **arrays})[["label", *COLUMNS]]
        stored = result.scores()
        own = stored.loc[stored["metric"] == metric, "value"].to_numpy()
        # the macro is stored without the labels that are absent
        same = len(own) == len(table) and np.allclose(
            own[1:], table["value"][1:], rtol=0, atol=ROUNDING, equal_nan=True
        )
        edited = names is None and len(own) > 0 and not same
        return Scored(
            cell=result.cell,
            metric=metric,
            table=table,
            replicates=replicates,
            predictions=partial(_predictions, result, names, wins=not edited),
            edited=edited,
            **summary,
        )

    def _computed(
        self,
        result: Result,
        metric: str,
        patients: tuple[str, ...] | None,
        names: frozenset[str] | None,
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        predictions = _predictions(result, names)
        own = sorted(set(predictions["patient"]))
        drawn = patients or tuple(own)
        draws = Draws(
            dataset=result.dataset,
            fold=result.cell.fit.fold,
            patients=tuple(sorted(predictions["record"])) if self._records else drawn,
            draws=self.scoring.draws,
            bootstrap=self.scoring.bootstrap,
        )
        scores = score(metric, predictions, draws, self.scoring.absent)
        arrays = {name: scores.table[name].to_numpy() for name in COLUMNS}
        summary = {
            "labels": list(scores.table["label"]),
            "records": _digest(predictions["record"]),
            "n_records": len(predictions),
            "n_patients": len(own),
            "lost": scores.lost,
            "bootstrap": scores.bootstrap,
        }
        return {**arrays, "replicates": scores.replicates}, summary

    @property
    def _records(self) -> bool:
        """Whether records are drawn, not patients."""
        return self.scoring.bootstrap == "records"


def _predictions(result: Result, names: frozenset[str] | None, wins: bool = True) -> pd.DataFrame:
    """Of all its records, or of some; then without what was stored of comparisons with others."""
    predictions = result.predictions()
    if names is not None:
        predictions = predictions[predictions["record"].isin(names)].reset_index(drop=True)
    kept = [
        c
        for c in map(str, predictions.columns)
        if (wins and names is None) or not c.startswith("wins:")
    ]
    return predictions[kept]


def _cached(file: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]] | None:
    """What was computed before; None where it was not, or where the file is not what was
    written.
    """
    with suppress(OSError, ValueError, SafetensorError):
        sha256, data = file.read_bytes().split(b"\n", 1)
        if hashlib.sha256(data).hexdigest().encode() == sha256:
            summary, tensors = data.split(b"\n", 1)
            return load(tensors), json.loads(summary)
    return None


def _cache(
    file: Path, arrays: dict[str, np.ndarray], summary: dict[str, Any]
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    data = json.dumps(summary).encode() + b"\n" + save(arrays)
    with suppress(WriteError):  # a run folder that is only read is no error
        put(file, hashlib.sha256(data).hexdigest().encode() + b"\n" + data)
    return arrays, summary


def _source(metric: str) -> str:
    """sha256 of the file of a metric: a plug-in may change while its author works on it."""
    file = metrics.get(metric).__file__
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else ""


def _digest(names: Any) -> str:
    return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()
