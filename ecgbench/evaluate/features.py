"""Features of windows, kept in the run folder: computed once for all tasks, settings and seeds, and
across kills.

Every shard carries the hash of what it holds and of the folder that it was written for, and is
compared with it when it is read; one that does not fit is set aside, and its rows are computed
again.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from ecgbench.core import provenance
from ecgbench.core.aside import CHANGED, UNPROVED, set_aside
from ecgbench.core.files import metadata, put
from ecgbench.data.views import View
from ecgbench.evaluate import batches, gates
from ecgbench.evaluate.encode import Encoder
from ecgbench.evaluate.rows import decode
from ecgbench.weights.load import digest

FLUSH_SECONDS = 20.0
"""A kill loses at most this much work."""


class FeatureCache:
    """Rows of work (`inference.rows`) -> features (row, dim) float32, in shards of one folder."""

    def __init__(self, folder: Path, records: Sequence[str], environment: str = "") -> None:
        """`records`: the records that positions in rows of work stand for; `environment`: see
        `inference.network`.
        """
        self.folder, self.records, self.environment = folder, records, environment
        self.environments: set[str] = set()
        """In which the features were computed."""
        self.code: list[dict[str, Any]] = []
        """What `provenance.code` said there, each once."""
        self._rows, self._features = np.zeros(0, np.int64), np.zeros((0, 0), np.float32)
        self._new: list[tuple[np.ndarray, np.ndarray]] = []
        self._flushed = time.monotonic()
        self._merge(
            [shard for p in sorted(folder.glob("*.safetensors")) if (shard := self._read(p))]
        )

    def missing(self, rows: np.ndarray) -> np.ndarray:
        """Those of `rows` that have no features yet, each once, in order."""
        return np.setdiff1d(rows, self._rows)

    def take(self, rows: np.ndarray) -> np.ndarray:
        """(row, dim) float32; every row must be there."""
        if len(lost := self.missing(rows)):
            raise KeyError(f"{len(lost)} of {len(rows)} rows have no features yet")
        return np.asarray(self._features[np.searchsorted(self._rows, rows)])

    def compute(
        self,
        encoder: Encoder,
        view: View,
        rows: np.ndarray,
        advance: Callable[[int], None],
        places: np.ndarray | None = None,
    ) -> None:
        """Compute what is missing of `rows`; `advance` is called with the number of rows done.

        places: see `batches.first_places`; None: a batch holds windows of one record.
        GateError when encoding changed the network: what it computed since the last shard is
        dropped, or the next run would find it and see nothing wrong.
        """
        if not len(missing := self.missing(rows)):
            return
        before, self._flushed = digest(encoder.network), time.monotonic()
        try:
            for part, features in self._encoded(encoder, view, missing, places):
                self._new.append((part, features))
                if time.monotonic() - self._flushed > FLUSH_SECONDS:
                    self._flush(encoder, before)
                advance(len(part))
        finally:
            self._flush(encoder, before)

    def add(self, rows: np.ndarray, features: np.ndarray) -> None:
        """Features (row, dim) that no network computed; they are not written."""
        self._merge([(rows, features)])

    def remove(self) -> None:
        """Remove the shards and what is known of them."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._rows, self._features = np.zeros(0, np.int64), np.zeros((0, 0), np.float32)
        self.environments.clear()
        self.code.clear()

    def _flush(self, encoder: Encoder, before: str) -> None:
        new, self._new = self._new, []
        if not new:
            return
        gates.unchanged("features", before, digest(encoder.network))
        rows, features = (np.concatenate(part) for part in zip(*new))
        last = max((int(p.stem) for p in self.folder.glob("*.safetensors")), default=-1)
        made = {"environment": self.environment, "code": provenance.code()}
        proof = proof_of(self.folder.name, rows, features, made)
        # one entry: safetensors writes several in an order of chance
        told = {"made": json.dumps({**made, "proof": proof})}
        shard = save({"rows": rows, "features": features}, told)
        put(self.folder / f"{last + 1:06d}.safetensors", shard)
        self._note(made)
        self._merge(new)
        self._flushed = time.monotonic()

    def _note(self, made: dict[str, Any]) -> None:
        """Where features were computed."""
        if environment := made["environment"]:
            self.environments.add(environment)
        if (code := made["code"]) not in self.code:
            self.code.append(code)

    def _encoded(
        self, encoder: Encoder, view: View, rows: np.ndarray, places: np.ndarray | None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Rows and their features, part by part."""
        if places is None:
            return (self._encode(encoder, view, part) for part in _by_record(rows))
        return batches.encoded(encoder, lambda p: view.get(self.records[p]), rows, places)

    def _encode(
        self, encoder: Encoder, view: View, rows: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        position, window, mask = decode(rows)
        signal = view.get(self.records[int(position[0])])
        features = encoder(signal, {int(m): window[mask == m] for m in np.unique(mask)})
        order = np.concatenate([rows[mask == m] for m in features])
        return order, np.concatenate(list(features.values()))

    def _read(self, path: Path) -> tuple[np.ndarray, np.ndarray] | None:
        """A shard; one that is not as it was written is set aside, for it can be computed again."""
        made: dict[str, Any] = {}
        try:
            content = path.read_bytes()
            shard, told = load(content), metadata(content)
            made = dict(json.loads(told.get("made", "{}")))
            proof = made.pop("proof", None)
            if proof == proof_of(self.folder.name, shard["rows"], shard["features"], made):
                self._note(made)
                return shard["rows"], shard["features"]
            why = UNPROVED if proof is None else CHANGED
        except (OSError, SafetensorError, ValueError, KeyError, TypeError, AttributeError):
            why = CHANGED
        set_aside(path, why, "its features are computed again")
        return None

    def _merge(self, parts: list[tuple[np.ndarray, np.ndarray]]) -> None:
        if len(self._rows):
            parts = [(self._rows, self._features), *parts]
        if parts:
            rows, features = (np.concatenate(part) for part in zip(*parts))
            self._rows, first = np.unique(rows, return_index=True)
            self._features = features[first]


def proof_of(folder: str, rows: np.ndarray, features: np.ndarray, made: dict[str, Any]) -> str:
    """blake2b over all that a shard says, and the name of its folder, which stands for all that its
    features rest on.
    """
    shapes = [(str(part.dtype), part.shape) for part in (rows, features)]
    total = hashlib.blake2b(json.dumps([folder, shapes, made], sort_keys=True).encode())
    for part in (rows, features):
        total.update(np.ascontiguousarray(part).data)
    return total.hexdigest()


def _by_record(rows: np.ndarray) -> Iterator[np.ndarray]:
    rows = np.sort(rows)
    position, _, _ = decode(rows)
    yield from np.split(rows, np.flatnonzero(np.diff(position)) + 1) if len(rows) else []
