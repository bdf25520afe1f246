"""One finished cell of a run: its files, read when they are asked for, and whether they are what
they say: in their own place, under the key that their facts give, with values that can be. Hashes
alone would let a copied folder pass, and one that somebody hashed anew.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from safetensors import safe_open
from safetensors.numpy import save

from ecgbench import metrics
from ecgbench.core.cells import Cell, key
from ecgbench.core.files import put, sha256_of
from ecgbench.core.folders import DONE, damaged, finished, read_json, read_table, recorded
from ecgbench.core.registry import folder_name
from ecgbench.errors import BadSetting, MissingData
from ecgbench.stats.known import UNKNOWN
from ecgbench.study.quarantine import set_aside
from ecgbench.study.recent import Recent
from ecgbench.study.scores import MACRO, ROUNDING, Predicted, ranks_records

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
_READ_LAST: Recent[Predicted] = Recent(size=lambda one: one.size, most=2**26)
"""Predictions that several questions are asked of, one after the other."""


@dataclass(frozen=True)
class Code:
    """The code that computed something; None where it is not known."""

    version: str | None = None
    commit: str | None = None
    dirty: bool | None = None
    """Whether its checkout had uncommitted changes."""

    @classmethod
    def of(cls, known: Mapping[str, Any]) -> "Code":
        """From what a document says."""
        return cls(known.get("version"), known.get("commit"), known.get("dirty"))


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """A finished cell. Every file is compared with the hash that was stored with it when it is
    read, and what it holds with what it can hold; Damaged where it is another.
    """

    cell: Cell
    run: Path
    folder: Path
    """Where its files lie."""
    PARTS: ClassVar[tuple[str, ...]] = ("cells", "fits", "features")
    """What code computes."""

    @cached_property
    def document(self) -> dict[str, Any]:
        """What cell.json says: identity, key, weights, counts, times, and where its fit and
        features lie.
        """
        says = cell_document(self.folder, self.hashes)
        if says["identity"] != self.cell.identity:
            raise _elsewhere(self.folder, says)
        return says

    @cached_property
    def hashes(self) -> dict[str, str]:
        """Of its files, as its DONE says."""
        return recorded(self.folder)

    @property
    def dataset(self) -> str:
        """Name of the dataset."""
        return str(self.document["dataset_name"])

    @cached_property
    def content(self) -> str:
        """sha256 of its DONE, which holds the hashes of all its files."""
        return hashlib.sha256((self.folder / DONE).read_bytes()).hexdigest()

    @cached_property
    def fitted(self) -> dict[str, Any]:
        """What fit.json says; nothing where the fit is gone."""
        return fit_document(self.fit_folder) if finished(self.fit_folder) else {}

    @property
    def fit_folder(self) -> Path:
        """Where its fit lies."""
        return self.run / str(self.document["fit"])

    @cached_property
    def fit_content(self) -> str:
        """sha256 of the DONE of its fit; "" where the fit is gone."""
        with suppress(OSError):
            return hashlib.sha256((self.fit_folder / DONE).read_bytes()).hexdigest()
        return ""

    @property
    def marks(self) -> list[str]:
        """What must be said beside the numbers of its fit."""
        return list(self.fitted.get("marks", []))

    @cached_property
    def code(self) -> dict[str, list[Code]]:
        """Which code computed the cell, its fit, and the features of both."""
        documents = self.document, self.fitted
        features = [code for one in documents for code in one.get("features_code", [{}])]
        known = [self.document["code"]], self.fitted.get("code", [{}]), features
        return {part: list(map(Code.of, codes)) for part, codes in zip(self.PARTS, known)}

    @property
    def uncommitted(self) -> bool:
        """Whether any of it was a checkout with uncommitted changes."""
        return any(code.dirty for codes in self.code.values() for code in codes)

    def predictions(self) -> pd.DataFrame:
        """record, patient, leads (what was measured: "II+V2"), then `probability:<label>` and
        `target:<label>` of each label.
        """
        return self._predicted()[0].to_pandas(use_threads=False)

    def predicted(self) -> Predicted:
        """The same as arrays, without `leads`."""
        file, state = self.folder / PREDICTIONS, None
        with suppress(OSError):  # that it is gone is said by whoever reads it
            at = file.stat()
            state = at.st_ino, at.st_size, at.st_mtime_ns, at.st_ctime_ns
        return _READ_LAST((file, self.content, state), lambda: self._predicted()[1])

    def _predicted(self) -> tuple["pyarrow.Table", Predicted]:
        table = read_table(self.folder, PREDICTIONS)
        return table, _checked_predictions(self.folder / PREDICTIONS, table, self._records)

    def scores(self) -> pd.DataFrame:
        """metric, label ("macro": their mean), value (a fraction), n (records; of a label those it
        is known of), positives; of the metrics that the run computed.
        """
        return pd.DataFrame(self.scored())

    def scored(self) -> dict[str, np.ndarray]:
        """The same as columns."""
        return scores_of(self.folder, self._records)

    @property
    def _records(self) -> int:
        return int(self.document["n_records"])

    def features(self) -> tuple[list[str], np.ndarray]:
        """Test records, and features (record, dim) float32, the mean over a record's windows.
        MissingData where none were kept, or where they are damaged.
        """
        return read_pooled(self.run, self.document["features"], self.folder)

    def feature_file(self) -> Path:
        """Where its features lie; MissingData where none were kept."""
        return _pooled_file(self.run, self.document["features"], self.folder)

    def validation(self) -> pd.DataFrame:
        """What its fit predicts for the validation records with all twelve leads: the columns of
        `predictions` but `leads`. A probe: for the training and validation records, each by the
        heads of the cross-validation that were fitted without its patient.
        """
        folder = self.fit_folder
        if not finished(folder):
            raise BadSetting(f"{folder} is gone; run the same command again to fit anew")
        table = read_table(folder, VALIDATION)
        _checked_predictions(folder / VALIDATION, table, None)
        return table.to_pandas(use_threads=False)


# documents of cells and fits


def cell_document(folder: Path, hashes: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What cell.json says; Damaged where it is not that of a cell of this place and this key.

    hashes: what DONE says, where it was read already.
    """
    says = _document_of(folder, CELL, hashes)
    facts = says["key_facts"]
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


def _elsewhere(folder: Path, says: dict[str, Any]) -> Exception:
    return damaged(folder, folder, f"holds the files of another cell, {says.get('identity')}")


def fit_document(folder: Path) -> dict[str, Any]:
    """What fit.json says; Damaged where it is not that of a fit of this key."""
    return _document_of(folder, FIT)


def _document_of(
    folder: Path, name: str, hashes: Mapping[str, str] | None = None
) -> dict[str, Any]:
    says = read_json(folder, name, hashes)
    own = ""
    if isinstance(facts := says.get("key_facts"), dict):
        with suppress(TypeError, ValueError):  # NaN, which JSON of others may hold
            own = key(facts)
    if not own or own != says.get("key") or folder_name(own) != folder.name:
        raise damaged(folder / name, folder, "does not hold the facts of its key")
    return says


# tables of cells and fits


def _checked_predictions(file: Path, table: "pyarrow.Table", records: int | None) -> Predicted:
    """What a table of predictions holds; Damaged where that is a record twice, more or fewer than
    `records`, a probability outside 0 to 1, or a target that is none.
    """
    try:
        texts = [table[column] for column in ("record", "patient")]
        if any(str(c.type) not in ("string", "large_string") or c.null_count for c in texts):
            fault = "holds a record or a patient that is no text"
        else:
            own = Predicted.of(table)
            fault = _fault_of_predictions(own, records)
    except KeyError:
        fault = "lacks a column"
    if fault:
        raise damaged(file, file.parent, fault)
    return own


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
    if not ((target == UNKNOWN) | (target == 0) | (target == 1)).all():
        return "holds a target that is neither 0 nor 1"
    return ""


def scores_of(folder: Path, records: int | None) -> dict[str, np.ndarray]:
    """The columns of stored scores; Damaged where they cannot be: of other records, outside the
    range of their metric, without a value where there must be one, or a mean that is not that of
    its labels.
    """
    table = read_table(folder, SCORES)
    if not set(_SCORED) <= set(table.column_names):
        raise damaged(folder / SCORES, folder, "lacks a column")
    columns = {column: table[column].to_numpy() for column in table.column_names}
    metric, label, value, n, positives = (columns[c] for c in _SCORED)
    for one in dict.fromkeys(metric):
        own = metric == one
        faults = _faults_of_scores(str(one), value[own], n[own], positives[own])
        if label[own][0] != MACRO or (records is not None and n[own][0] != records):
            faults = iter([f"scores of {n[own][0]} records, not {records}"])
        for fault in faults:
            raise damaged(folder / SCORES, folder, f"holds {fault}")
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


# features, averaged over windows: stored once, whichever tasks refer to them


def store_pooled(
    run: Path, folder: Path, records: Sequence[str], features: np.ndarray
) -> dict[str, str]:
    """Write features (record, dim) float32 into `folder` unless they are there, in a file that is
    named by the sha256 of its content; returns what refers to them.
    """
    content = save({"features": features}, metadata={"records": json.dumps(list(records))})
    sha256 = hashlib.sha256(content).hexdigest()
    file = folder / f"{sha256}.safetensors"
    if file.exists() and sha256_of(file) != sha256:
        set_aside(run, file, "it does not hold the features that it is named by")
    if not file.exists():
        put(file, content)
    return {"path": file.relative_to(run).as_posix(), "sha256": sha256}


def _pooled_file(run: Path, reference: dict[str, Any] | None, cell: Path) -> Path:
    """The file that a cell in the folder `cell` refers to. MissingData where none was kept."""
    if not reference or not (file := run / reference["path"]).is_file():
        again = f"remove {cell} and run the same command again, without run.keep_features=off"
        raise MissingData(f"features of this cell were not kept; {again}")
    return file


def read_pooled(
    run: Path, reference: dict[str, Any] | None, cell: Path
) -> tuple[list[str], np.ndarray]:
    """Records and their features (record, dim) float32. MissingData where none were kept, or where
    they are damaged.
    """
    file = _pooled_file(run, reference, cell)
    if pooled_damaged(run, reference):
        raise MissingData(
            f"{file} is not what the run wrote; the same `ecgbench run` command computes it again"
        )
    with safe_open(file, framework="numpy") as opened:
        return json.loads(opened.metadata()["records"]), opened.get_tensor("features")


def pooled_damaged(run: Path, reference: dict[str, Any] | None) -> bool:
    """Whether the file that a cell refers to is there and holds something else; that it was not
    kept, or was removed to free disk, is no damage.
    """
    if not reference:
        return False
    return sha256_of(run / reference["path"]) not in ("", reference["sha256"])
