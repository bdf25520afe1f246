"""What a cell predicts, as arrays.

A report reads thousands of cells, most of them small: as tables of pandas they would take longer to
read than to score.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

TARGET, PROBABILITY, WINS = "target:", "probability:", "wins:"
"""How columns of labels begin: `target:<label>`, `wins:<metric>:<label>`."""


class _Table(Protocol):
    """Of pandas, or of pyarrow."""

    def __getitem__(self, name: str) -> Any: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Predicted:
    """Predictions of a cell for its test records. Nobody writes into the arrays: they are held."""

    records: list[str]
    patients: np.ndarray
    """(record,) str."""
    labels: list[str]
    target: np.ndarray
    """(record, label) int8; -1 where a label is not known of a record."""
    probability: np.ndarray
    """(record, label) float64."""
    wins: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Metric -> (record, label) how many comparisons each record wins, twice; of the metrics whose
    wins were stored.
    """

    @classmethod
    def of(cls, table: "pd.DataFrame | Predicted") -> "Predicted":
        """Of a table with the columns record, patient, then `probability:<label>` and
        `target:<label>` of each label; what was read already as it is. KeyError where a column is
        not there.
        """
        if isinstance(table, Predicted):
            return table
        return cls.from_columns(table, list(map(str, table.columns.tolist())))

    @classmethod
    def from_columns(cls, table: _Table, names: Sequence[str]) -> "Predicted":
        """Of a table of pyarrow or pandas whose columns have these names."""
        labels = [name.removeprefix(TARGET) for name in names if name.startswith(TARGET)]
        records, patients = (table[name].to_numpy() for name in ("record", "patient"))
        return cls(
            records=records.tolist(),
            patients=np.asarray(patients, dtype=str),
            labels=labels,
            target=_beside(table, TARGET, labels, len(records)),
            probability=_beside(table, PROBABILITY, labels, len(records)),
            wins={
                metric: _beside(table, f"{WINS}{metric}:", labels, len(records))
                for metric in _metrics(names, labels)
            },
        )

    def only(self, names: frozenset[str]) -> "Predicted":
        """Of these records alone. Where some are left out, without what was stored of comparisons
        with them.
        """
        there = np.array([name in names for name in self.records], bool)
        if there.all():
            return self
        return replace(
            self,
            records=[name for name in self.records if name in names],
            patients=self.patients[there],
            target=_of(self.target, there),
            probability=_of(self.probability, there),
            wins={},
        )

    @property
    def size(self) -> int:
        """Bytes, about."""
        arrays = (self.patients, self.target, self.probability, *self.wins.values())
        return 64 * len(self.records) + sum(array.nbytes for array in arrays)


def _metrics(names: Sequence[str], labels: Sequence[str]) -> list[str]:
    """Metrics whose wins are there for every label."""
    known = {name for name in names if name.startswith(WINS)}
    if not known or not labels:
        return []
    last = f":{labels[0]}"
    begun = [n.removeprefix(WINS).removesuffix(last) for n in known if n.endswith(last)]
    return [m for m in begun if all(f"{WINS}{m}:{label}" in known for label in labels)]


def _beside(table: _Table, kind: str, labels: Sequence[str], records: int) -> np.ndarray:
    """(record, label), the records of a label one after the other in memory."""
    columns = [table[f"{kind}{label}"].to_numpy() for label in labels]
    made = np.stack(columns) if columns else np.empty((0, records))
    made.setflags(write=False)
    return made.T


def _of(values: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Some records of (record, label), in the same order of memory."""
    return np.ascontiguousarray(values.T[:, there]).T
