"""Whether a stored cell or fit is what it says it is: in its own place, under the key that its
facts give, with values that can be. Hashes alone would let a copied folder pass, and one that
somebody hashed anew.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ecgbench import metrics
from ecgbench.core.cells import key
from ecgbench.core.folders import damaged, read_json
from ecgbench.core.registry import folder_name
from ecgbench.results.predicted import Predicted
from ecgbench.results.score import MACRO, ROUNDING, ranks_records
from ecgbench.stats.known import UNKNOWN

if TYPE_CHECKING:
    import pyarrow

CELL, FIT = "cell.json", "fit.json"
PREDICTIONS, SCORES, VALIDATION = "predictions.parquet", "scores.parquet", "validation.parquet"

READ = (
    *("identity", "fit", "model", "dataset", "dataset_name", "features", "weights_name", "device"),
    *("code", "windows", "n_records", "excluded", "blind", "finished"),
)
"""What cell.json holds at least."""
_SCORED = ("metric", "label", "value", "n", "positives")


def cell_document(folder: Path, hashes: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What cell.json says; Damaged where it is not that of a cell of this place and this key.

    hashes: what DONE says, where it was read already.
    """
    says = read_json(folder, CELL, hashes)
    facts = says.get("key_facts")
    if not isinstance(facts, dict) or not _its_own(folder, says, facts):
        raise damaged(folder / CELL, folder, "does not hold the facts of its key")
    if not set(READ) <= set(says) or not isinstance(says["n_records"], int):
        raise damaged(folder / CELL, folder, "lacks what a report reads")
    task, model, setting = (str(facts.get(name)) for name in ("cell", "model", "setting"))
    identity = str(says["identity"])
    if (
        folder.parts[-4:-1] != tuple(map(folder_name, (task, model, setting)))
        or not (identity.startswith(f"{task}|{model}|") and f"|{setting}|" in identity)
        or str(says["fit"]).rpartition("/")[2] != facts.get("fit")
    ):
        raise _elsewhere(folder, says)
    return says


def demand_identity(folder: Path, says: dict[str, Any], identity: str) -> None:
    """Damaged where the document of a folder is that of another cell."""
    if says.get("identity") != identity:
        raise _elsewhere(folder, says)


def _elsewhere(folder: Path, says: dict[str, Any]) -> Exception:
    return damaged(folder, folder, f"holds the files of another cell, {says.get('identity')}")


def fit_document(folder: Path) -> dict[str, Any]:
    """What fit.json says; Damaged where it is not that of a fit of this key."""
    says = read_json(folder, FIT)
    facts = says.get("key_facts")
    if not isinstance(facts, dict) or not _its_own(folder, says, facts):
        raise damaged(folder / FIT, folder, "does not hold the facts of its key")
    return says


def _its_own(folder: Path, says: dict[str, Any], facts: dict[str, Any]) -> bool:
    try:
        own = key(facts)
    except (TypeError, ValueError):  # NaN, which JSON of others may hold
        return False
    return own == says.get("key") and folder_name(own) == folder.name


def predicted(folder: Path, name: str, table: "pyarrow.Table", records: int | None) -> Predicted:
    """What a table of predictions holds; Damaged where that is a record twice, more or fewer than
    `records`, a probability outside 0 to 1, or a target that is none.
    """
    fault = ""
    try:
        if not all(_texts(table[column]) for column in ("record", "patient")):
            fault = "holds a record or a patient that is no text"
        else:
            own = Predicted.from_columns(table, table.column_names)
            fault = _fault_of_predictions(own, records)
    except KeyError:
        fault = "lacks a column"
    if fault:
        raise damaged(folder / name, folder, fault)
    return own


def _texts(column: "pyarrow.ChunkedArray") -> bool:
    return str(column.type) in ("string", "large_string") and not column.null_count


def _fault_of_predictions(own: Predicted, records: int | None) -> str:
    target, probability, found = own.target, own.probability, len(own.records)
    if records is not None and found != records:
        return f"holds {found} records of {records}"
    if len(set(own.records)) < found:
        return "holds a record twice"
    if probability.dtype.kind not in "fiu" or target.dtype.kind not in "fiu":
        return "holds a probability or a target that is no number"
    if not ((probability >= 0) & (probability <= 1)).all():  # NaN is neither
        return "holds a probability outside 0 to 1"
    if target.dtype.kind == "f":
        valid = np.isin(target, (UNKNOWN, 0, 1))
    else:
        valid = (target >= UNKNOWN) & (target <= 1)
    if not valid.all():
        return "holds a target that is neither 0 nor 1"
    return ""


def scored(
    folder: Path, name: str, table: "pyarrow.Table", records: int | None
) -> dict[str, np.ndarray]:
    """The columns of stored scores; Damaged where they cannot be: of other records, outside the
    range of their metric, without a value where there must be one, or a mean that is not that of
    its labels.
    """
    if not set(_SCORED) <= set(table.column_names):
        raise damaged(folder / name, folder, "lacks a column")
    columns = {column: table[column].to_numpy() for column in table.column_names}
    metric, label, value, n, positives = (columns[c] for c in _SCORED)
    for one in dict.fromkeys(metric):
        own = metric == one
        found = _faults_of_scores(str(one), value[own], n[own], positives[own])
        if label[own][0] != MACRO or (records is not None and n[own][0] != records):
            found = iter([f"scores of {n[own][0]} records, not {records}"])
        for fault in found:
            raise damaged(folder / name, folder, f"holds {fault}")
    return columns


def _faults_of_scores(
    metric: str, value: np.ndarray, n: np.ndarray, positives: np.ndarray
) -> Iterator[str]:
    """`value`, `n`, `positives`: (1 + label,) of the mean, then of each label."""
    known, of_labels = value[np.isfinite(value)], value[1:][np.isfinite(value[1:])]
    if np.isinf(value).any():
        yield f"an infinite {metric}"
    if metrics.ROOM.built_in(metric):  # the file of any other may have changed since
        low, high = metrics.card(metric).range
        if ((known < low - ROUNDING) | (known > high + ROUNDING)).any():
            yield f"{metric} outside {low:g} to {high:g}"
        both = (positives[1:] > 0) & (positives[1:] < n[1:])
        if ranks_records(metric) and (both != np.isfinite(value[1:])).any():
            yield f"{metric} of labels without both values, or none of labels with both"
    mean = of_labels.mean() if len(of_labels) else np.nan
    if not np.isclose(value[0], mean, rtol=0, atol=ROUNDING, equal_nan=True):
        yield f"a mean {metric} that is not that of its labels"
