"""Features of windows in the run folder: computed once for all tasks, settings and seeds, and kept
across kills.
"""

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from ecgbench.core import provenance
from ecgbench.core.files import warn_once
from ecgbench.core.parts import DATA, Parts
from ecgbench.data.views import View
from ecgbench.evaluate import batches, gates
from ecgbench.evaluate.encode import Encoder
from ecgbench.weights.load import digest

CONSTANT = 1e-6
"""Of the largest feature: what differs by less between windows does not depend on them."""
NOT_OF_THE_RECORDING = "features do not depend on the recording: this is the score of guessing"
FLUSH_SECONDS = 20.0
"""A kill loses at most this much work."""


class FeatureCache:
    """Rows of work (`rows`) -> features (row, dim) float32, in blocks of one folder (`core.parts`).

    A damaged block is reported and its rows are computed again; so are those of a block from
    another folder.
    """

    def __init__(self, folder: Path, records: Sequence[str], environment: str = "") -> None:
        """`records`: the records that positions in rows of work stand for; `environment`: see
        `network`.
        """
        self.folder, self.records, self.environment = folder, records, environment
        self.environments: set[str] = set()
        """In which the features were computed."""
        self.code: list[dict[str, Any]] = []
        """What `provenance.code` said there, each once."""
        self._rows, self._features = np.zeros(0, np.int64), np.zeros((0, 0), np.float32)
        self._new: list[tuple[np.ndarray, np.ndarray]] = []
        self._flushed, self._parts = time.monotonic(), Parts(folder)
        blocks = []
        for name, about in self._parts.rows.to_dict("index").items():
            if about["work"] != folder.name:
                continue
            if (content := self._parts.read(str(name))) is None:
                text = "features are not as they were written; they are computed again"
                warn_once(folder / self._parts.names[about["part"]] / DATA, text)
                continue
            block = load(content)
            blocks.append((block["rows"], block["features"]))
            self._note(about["environment"], json.loads(about["code"]))
        self._merge(blocks)

    def missing(self, rows: np.ndarray) -> np.ndarray:
        """Those of `rows` that have no features yet, each once, in order."""
        return np.setdiff1d(rows, self._rows)

    def take(self, rows: np.ndarray) -> np.ndarray:
        """(row, dim) float32; every row must be there."""
        if len(lost := self.missing(rows)):
            raise KeyError(f"{len(lost)} of {len(rows)} rows have no features yet")
        return np.asarray(self._features[np.searchsorted(self._rows, rows)])

    @property
    def constant(self) -> bool:
        """Whether all features are the same: they do not depend on the recording."""
        if len(self._rows) < 2 or not self._features.size:
            return False
        spread = float(np.ptp(self._features, axis=0).max())
        return spread <= CONSTANT * float(np.abs(self._features).max())

    def compute(
        self,
        encoder: Encoder,
        view: View,
        rows: np.ndarray,
        advance: Callable[[int], None],
        slots: np.ndarray | None = None,
    ) -> None:
        """Compute what is missing of `rows`; `advance` is called with the number of rows done.

        slots: see `batches.first_slots`; None: a batch holds windows of one record. GateError when
        encoding changed the network: its features since the last block are dropped, or the next run
        would use them.
        """
        if not len(missing := self.missing(rows)):
            return
        before, self._flushed = digest(encoder.network), time.monotonic()
        try:
            for part in batches.encoded(
                encoder, lambda p: view.get(self.records[p]), missing, slots
            ):
                self._new.append(part)
                if time.monotonic() - self._flushed > FLUSH_SECONDS:
                    self._flush(encoder, before)
                advance(len(part[0]))
        finally:
            self._flush(encoder, before)

    def add(self, rows: np.ndarray, features: np.ndarray) -> None:
        """Add features (row, dim) that no network computed; they are not written."""
        self._merge([(rows, features)])

    def _flush(self, encoder: Encoder, before: str) -> None:
        new, self._new = self._new, []
        if not new:
            return
        gates.unchanged("features", before, digest(encoder.network))
        rows, features = (np.concatenate(part) for part in zip(*new))
        content, code = save({"rows": rows, "features": features}), provenance.code()
        about = {"work": self.folder.name, "environment": self.environment}
        name = hashlib.sha256(content).hexdigest()
        self._parts.append([({"name": name, **about, "code": json.dumps(code)}, content)])
        self._note(self.environment, code)
        self._merge(new)
        self._flushed = time.monotonic()

    def _note(self, environment: str, code: dict[str, Any]) -> None:
        """Where features were computed."""
        self.environments |= {environment} - {""}
        if code not in self.code:
            self.code.append(code)

    def _merge(self, parts: list[tuple[np.ndarray, np.ndarray]]) -> None:
        if len(self._rows):
            parts = [(self._rows, self._features), *parts]
        if parts:
            rows, features = (np.concatenate(part) for part in zip(*parts))
            self._rows, first = np.unique(rows, return_index=True)
            self._features = features[first]
