"""One finished cell of a run: what it is, and its files, read when they are asked for."""

import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from ecgbench.core.cells import Cell
from ecgbench.core.folders import DONE, finished, read_table, recorded
from ecgbench.errors import BadSetting
from ecgbench.results import whole
from ecgbench.results.facts import Code
from ecgbench.results.held import Held
from ecgbench.results.pooled import pooled_file, read_pooled
from ecgbench.results.predicted import Predicted

if TYPE_CHECKING:
    import pyarrow

_HELD: Held[Predicted] = Held(size=lambda one: one.size, most=2**26)
"""Predictions that several questions are asked of, one after the other."""


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
        says = whole.cell_document(self.folder, self.hashes)
        whole.demand_identity(self.folder, says, self.cell.identity)
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
        return whole.fit_document(self.fit_folder) if finished(self.fit_folder) else {}

    @property
    def fit_folder(self) -> Path:
        """Where its fit lies."""
        return self.run / str(self.document["fit"])

    @cached_property
    def fit_content(self) -> str:
        """The same of its fit; "" where the fit is gone."""
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
        features = [code for said in documents for code in said.get("features_code", [{}])]
        said = [self.document["code"]], self.fitted.get("code", [{}]), features
        return {part: list(map(Code.of, codes)) for part, codes in zip(self.PARTS, said)}

    @property
    def uncommitted(self) -> bool:
        """Whether any of it was a checkout with uncommitted changes."""
        return any(code.dirty for codes in self.code.values() for code in codes)

    def predictions(self) -> pd.DataFrame:
        """record, patient, leads (what was measured: "II+V2"), then `probability:<label>` and
        `target:<label>` of each label.
        """

        table, _ = self._predicted()
        return table.to_pandas(use_threads=False)

    def predicted(self) -> Predicted:
        """The same as arrays, without `leads`."""
        file = f"{self.folder}/{whole.PREDICTIONS}"
        try:
            at = os.stat(file)
        except OSError:
            return self._predicted()[1]
        state = (at.st_ino, at.st_size, at.st_mtime_ns, at.st_ctime_ns)
        return _HELD((file, self.content, state), lambda: self._predicted()[1])

    def _predicted(self) -> tuple["pyarrow.Table", Predicted]:
        table = read_table(self.folder, whole.PREDICTIONS)
        return table, whole.predicted(self.folder, whole.PREDICTIONS, table, self._records)

    def scores(self) -> pd.DataFrame:
        """metric, label ("macro": their mean), value (a fraction), n (records; of a label those it
        is known of), positives; of the metrics that the run computed.
        """
        return pd.DataFrame(self.scored())

    def scored(self) -> dict[str, np.ndarray]:
        """The same as columns."""
        table = read_table(self.folder, whole.SCORES)
        return whole.scored(self.folder, whole.SCORES, table, self._records)

    @property
    def _records(self) -> int:
        return int(self.document["n_records"])

    def features(self) -> tuple[list[str], np.ndarray]:
        """Test records, and features (record, dim) float32, the mean over a record's windows.
        MissingData where none were kept.
        """
        return read_pooled(self.run, self.document["features"], self.folder)

    def feature_file(self) -> Path:
        """Where its features lie; MissingData where none were kept."""
        return pooled_file(self.run, self.document["features"], self.folder)

    def validation(self) -> pd.DataFrame:
        """What its fit predicts for the validation records with all twelve leads: the columns of
        `predictions` but `leads`. A probe: for the training and validation records, each by the
        heads of the cross-validation that were fitted without its patient.
        """
        folder = self.fit_folder
        if not finished(folder):
            raise BadSetting(f"{folder} is gone; run the same command again to fit anew")
        table = read_table(folder, whole.VALIDATION)
        whole.predicted(folder, whole.VALIDATION, table, None)
        return table.to_pandas(use_threads=False)
