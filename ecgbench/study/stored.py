"""A finished cell with its fit and features: files, read when needed and compared with their stored
hashes.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from safetensors import safe_open
from safetensors.numpy import save

from ecgbench.cards.cell import Cell
from ecgbench.core.division import OFFICIAL, fold_number
from ecgbench.core.files import sha256_of
from ecgbench.core.folders import DONE, damaged, finished, read_json, read_table, recorded
from ecgbench.core.keys import key
from ecgbench.core.registry import folder_name
from ecgbench.core.text import one_line
from ecgbench.errors import BadSetting, Damaged, MissingData
from ecgbench.study import lent
from ecgbench.study.recent import Recent
from ecgbench.study.scores import Predicted
from ecgbench.study.store import name_of, put_named

CELL, FIT = "cell.json", "fit.json"
PREDICTIONS, SCORES, VALIDATION = "predictions.parquet", "scores.parquet", "validation.parquet"

_READ_LAST: Recent[Predicted] = Recent(size=lambda one: one.size, most=2**26)
"""Predictions that are read several times in a row."""


@dataclass(frozen=True)
class Code:
    """The version of the code that computed something; None where it is not known."""

    version: str | None = None
    commit: str | None = None
    dirty: bool | None = None
    """Whether its checkout had uncommitted changes."""

    @classmethod
    def of(cls, known: Mapping[str, Any]) -> "Code":
        """From a document."""
        return cls(known.get("version"), known.get("commit"), known.get("dirty"))


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """A finished cell. Every file is compared with its hash when it is read; Damaged where it
    differs.
    """

    cell: Cell
    run: Path
    folder: Path
    """Folder of its files."""
    told: dict[str, Any] | None = None
    """In place of its document, of a cell that others measured and that stands beside a run."""
    PARTS: ClassVar[tuple[str, ...]] = ("cells", "fits", "features")
    """Parts that are computed."""

    @cached_property
    def document(self) -> dict[str, Any]:
        """Content of cell.json: identity, key, weights, counts, times, and the folders of its fit
        and features.
        """
        if self.told is not None:
            return self.told
        found = document_of(self.folder, CELL, self.hashes)
        if (identity := found["identity"]) != self.cell.identity:
            raise damaged(self.folder, self.folder, f"holds another cell, {identity}")
        return found

    @cached_property
    def hashes(self) -> dict[str, str]:
        """Hashes of its files, from its DONE."""
        return recorded(self.folder)

    @property
    def dataset(self) -> str:
        """Name of the dataset."""
        return str(self.document["dataset_name"])

    @property
    def exported(self) -> bool:
        """Whether `ecgbench runs export` wrote it."""
        return "exported" in self.document.get("key_facts", {})

    @cached_property
    def content(self) -> str:
        """sha256 of its DONE, which holds the hashes of all its files."""
        return sha256_of(self.folder / DONE)

    @cached_property
    def fitted(self) -> dict[str, Any]:
        """Content of fit.json; empty where the fit is gone, and what an export says of it."""
        if finished(self.fit_folder):
            return document_of(self.fit_folder, FIT)
        return dict(self.document.get("fitted", {}))

    @property
    def fit_folder(self) -> Path:
        """Folder of its fit."""
        return self.run / str(self.document["fit"])

    @property
    def overlap(self) -> float:
        """n_test / n_train of a fold of a cross-validation; 0 where there is one test set. Where
        the fit is gone, a probe is taken to have learned from as few folds as other protocols do.
        """
        if self.cell.fit.fold == OFFICIAL:
            return 0.0
        learned = self.fitted.get("records")
        if not learned:
            return 1 / (fold_number(self.cell.fit.fold)[1] - 2)
        return len(self.predicted().records) / float(learned)

    @property
    def marks(self) -> list[str]:
        """Warnings about its fit, to be shown with its numbers."""
        return list(self.fitted.get("marks", []))

    @cached_property
    def code(self) -> dict[str, list[Code]]:
        """Versions of the code that computed the cell, its fit, and the features of both."""
        documents = self.document, self.fitted
        features = [code for one in documents for code in one.get("features_code", [{}])]
        known = [self.document["code"]], self.fitted.get("code", [{}]), features
        return {part: list(map(Code.of, codes)) for part, codes in zip(self.PARTS, known)}

    @property
    def uncommitted(self) -> bool:
        """Whether any of them had uncommitted changes."""
        return any(code.dirty for codes in self.code.values() for code in codes)

    def predictions(self) -> pd.DataFrame:
        """record, patient, leads (measured: "II+V2"), then `probability:<label>` and
        `target:<label>` of each label.
        """
        return read_table(self.folder, PREDICTIONS).to_pandas(use_threads=False)

    def predicted(self) -> Predicted:
        """The same as arrays, without `leads`."""
        where = self.folder, self.content
        return _READ_LAST(where, self._read)

    def _read(self) -> Predicted:
        table = read_table(self.folder, PREDICTIONS)
        try:
            found = Predicted.of(table)
            wrong = found.fault
        except (KeyError, TypeError, ValueError) as error:
            wrong = f"holds no table of predictions ({one_line(error)})"
        if wrong and lent.read(self.run):  # its maker hashed it so
            raise Damaged(
                f"{self.folder / PREDICTIONS} {wrong}; ask who sent it for another export"
            )
        if wrong:
            raise damaged(self.folder / PREDICTIONS, self.folder, wrong)
        return found

    def scores(self) -> pd.DataFrame:
        """metric, label ("macro": their mean), value (a fraction), n (records; for a label those
        where it is known), positives; for the metrics that the run computed.
        """
        return pd.DataFrame(self.scored())

    def scored(self) -> dict[str, np.ndarray]:
        """The same as columns."""
        table = read_table(self.folder, SCORES)
        return {column: table[column].to_numpy() for column in table.column_names}

    def features(self) -> tuple[list[str], np.ndarray]:
        """Test records, and features (record, dim) float32, the mean over a record's windows.
        MissingData where none were stored, or where they are damaged.
        """
        return read_pooled(self.run, self.document["features"], self.folder)

    def validation(self) -> pd.DataFrame:
        """What its fit predicts for the validation records with all twelve leads: the columns of
        `predictions` but `leads`. A probe: for the training and validation records, each by the
        heads of the cross-validation that were fitted without its patient.
        """
        folder = self.fit_folder
        if not finished(folder):
            raise BadSetting(f"{folder} is gone; run the same command again to fit anew")
        return read_table(folder, VALIDATION).to_pandas(use_threads=False)


def document_of(folder: Path, name: str, hashes: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Content of cell.json or fit.json; Damaged where it does not belong to a folder of this key.

    hashes: content of DONE, if it was read already.
    """
    found = read_json(folder, name, hashes)
    stated = key(found.get("key_facts", {}))
    called = folder_name(stated) if name == FIT else name_of(str(found.get("identity")))
    if stated != found.get("key") or called != folder.name:
        raise damaged(folder / name, folder, "does not hold the facts of its key")
    return found


# features, averaged over windows: stored once, whichever tasks refer to them


def store_pooled(
    run: Path, folder: Path, records: Sequence[str], features: np.ndarray
) -> dict[str, str]:
    """Write features (record, dim) float32 into `folder` unless they are there, in a file named by
    the sha256 of its content; returns a reference to them.
    """
    content = save({"features": features}, metadata={"records": json.dumps(list(records))})
    sha256 = hashlib.sha256(content).hexdigest()
    file = folder / f"{sha256}.safetensors"
    put_named(file, content)
    return {"path": file.relative_to(run).as_posix(), "sha256": sha256}


def _pooled_file(run: Path, reference: dict[str, Any] | None, cell: Path) -> Path:
    """The file that a cell in the folder `cell` refers to. MissingData where none was kept."""
    if lent.read(run):
        raise MissingData(f"features are not exported, and {run} is an export")
    if not reference or not (file := run / reference["path"]).is_file():
        again = f"remove {cell} and run the same command again, without run.keep_features=off"
        raise MissingData(f"features of this cell were not kept; {again}")
    return file


def read_pooled(
    run: Path, reference: dict[str, Any] | None, cell: Path
) -> tuple[list[str], np.ndarray]:
    """Records and their features (record, dim) float32. MissingData where none were stored, or
    where they are damaged.
    """
    file = _pooled_file(run, reference, cell)
    if pooled_damaged(run, reference):
        raise MissingData(
            f"{file} is not what the run wrote; the same `ecgbench run` command computes it again"
        )
    with safe_open(file, framework="numpy") as opened:
        return json.loads(opened.metadata()["records"]), opened.get_tensor("features")


def pooled_damaged(run: Path, reference: dict[str, Any] | None) -> bool:
    """Whether the file that a cell refers to is damaged; a missing file is not."""
    if not reference:
        return False
    return sha256_of(run / reference["path"]) not in ("", reference["sha256"])
