"""One model on one dataset: its view of the recordings, its features, its policies."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ecgbench import adapters, models
from ecgbench.adapters._adapt import NATIVE, Policy
from ecgbench.benchmark.progress import Watcher
from ecgbench.benchmark.selection import SPLITS, Selection
from ecgbench.cards import InputContract, facts
from ecgbench.cells import NUMERICS, Cell, Scoring, key
from ecgbench.datasets._views import BATCH, View
from ecgbench.ecg import preprocess
from ecgbench.ecg.draw import Draw, Fixed, LeadSetting
from ecgbench.ecg.leads import bits_to_mask, rows_of
from ecgbench.errors import BadSetting
from ecgbench.inference import rows
from ecgbench.inference.encode import Encoder
from ecgbench.inference.features import FeatureCache
from ecgbench.inference.network import Network
from ecgbench.seeds import rng
from ecgbench.training.linear import Split

Record = tuple[int, str, int]
"""Position in the prepared index, record, number of evaluation windows."""


@dataclass(eq=False)
class Subject:
    """A network, its contract and a selection of records."""

    network: Network
    contract: InputContract
    selection: Selection
    store: Path
    watcher: Watcher
    _caches: dict[str, FeatureCache] = field(default_factory=dict)
    _policies: dict[str, Policy] = field(default_factory=dict)
    _rows: dict[tuple[LeadSetting, Draw], np.ndarray] = field(default_factory=dict)

    @cached_property
    def view(self) -> View:
        """The recordings as the contract's filter and rate make them."""
        found = View(self.selection.prepared, self.contract)
        missing = found.missing(list(self.selection.index["record"]))
        with self.watcher.stage(f"{self.name}: filter and resample", len(missing), "records") as advance:
            for start in range(0, len(missing), BATCH):
                found.fill(missing[start : start + BATCH])
                advance(len(missing[start : start + BATCH]))
        return found

    @property
    def name(self) -> str:
        """For people: `stmem on ptbxl`."""
        return f"{self.network.name} on {self.selection.prepared.name}"

    @cached_property
    def records(self) -> dict[str, list[Record]]:
        """Per split, the records that hold at least one window."""
        found: dict[str, list[Record]] = {}
        for split in SPLITS:
            part = self.selection.of(split)
            named = zip(part.index.to_numpy(), part["record"])
            counted = [(int(p), str(r), preprocess.windows(self.view.length(r), self.contract.samples)) for p, r in named]
            found[split] = [r for r in counted if r[2] > 0]
            if not found[split]:
                raise BadSetting(f"{self.name}: no {split} record is as long as one window of {self.contract.seconds} s")
        return found

    @property
    def excluded(self) -> int:
        """Records shorter than one window, counted and left out."""
        return len(self.selection.index) - sum(len(r) for r in self.records.values())

    @property
    def windows(self) -> float:
        """Evaluation windows per record, on average."""
        return float(np.mean([w for records in self.records.values() for _, _, w in records]))

    def policy(self, name: str) -> Policy:
        """A policy, fitted on the training split where it learns."""
        if name not in self._policies:
            self._policies[name] = Policy.of(name, self._training)
        return self._policies[name]

    def _training(self) -> Iterator[np.ndarray]:
        return (self.view.get(r) for _, r, _ in self.records["train"])

    def refusal(self, cell: Cell, scoring: Scoring) -> str | None:
        """A sentence when a cell cannot run, else None."""
        if cell.policy != NATIVE:
            return None
        if not self.network.card.native:
            return f"{self.network.card.title} reads all of its leads at once; policy native is not for it"
        if isinstance(cell.setting, Fixed):
            return self.contract.refuses(cell.setting.subset)
        blind = self.blind(cell, scoring)
        return f"{self.network.card.title} sees nothing of {cell.setting} in {blind:.0%} of the records" if blind else None

    def blind(self, cell: Cell, scoring: Scoring) -> float:
        """Share of test windows in which nothing that was measured reaches the network, whatever the policy fills in."""
        _, _, masks = rows.decode(self.rows(cell, scoring))
        kinds, counts = np.unique(masks, return_counts=True)
        seen = [self._sees(bits_to_mask(m), self.policy(cell.policy)) for m in kinds]
        return float(counts[~np.array(seen)].sum() / counts.sum())

    def _sees(self, measured: np.ndarray, policy: Policy) -> bool:
        own = rows_of(self.contract.leads)
        if policy.fill is None or measured[own].any():
            return bool(measured[own].any())
        tried = [rng("blind", i).normal(size=(len(measured), 8)).astype(np.float32) for i in range(2)]
        a, b = (policy.fill(np.where(measured[:, None], x, np.float32(np.nan)), measured, policy.state)[own] for x in tried)
        return not np.array_equal(a, b)

    def rows(self, cell: Cell, scoring: Scoring) -> np.ndarray:
        """Rows of work of a cell: the windows of its test records under its leads."""
        asked = (cell.setting, scoring.draw)
        if asked not in self._rows:
            self._rows[asked] = rows.measured(cell.setting, self.records["test"], scoring.draw)
        return self._rows[asked]

    def facts(self, policy: str) -> dict[str, Any]:
        """Everything that can change a feature, for keys."""
        state = self.policy(policy).state or {}
        contract = {k: v for k, v in facts(self.contract).items() if k != "absent"}
        own = {} if policy == NATIVE else {"policy_source": _source(adapters.get(policy))}
        return {
            "source": _source(models.get(self.network.name)), **own, "numerics": NUMERICS, "preprocess": preprocess.VERSION,
            "dataset": self.selection.prepared.name, "data": self.selection.prepared.digest, "model": self.network.name,
            "weights": self.network.sha256, "contract": contract, "precision": "float32", "policy": policy,
            "policy_state": {k: hashlib.sha256(np.ascontiguousarray(v).tobytes()).hexdigest() for k, v in sorted(state.items())},
        }  # fmt: skip

    def cache(self, policy: str) -> FeatureCache:
        """The features computed so far under a policy."""
        if policy not in self._caches:
            place = self.store / "features" / self.selection.prepared.name / self.network.name / key(self.facts(policy))
            self._caches[policy] = FeatureCache(place)
        return self._caches[policy]

    def compute(self, policy: str, wanted: np.ndarray, what: str, singly: bool = False) -> None:
        """Compute what is missing of `wanted`, with progress; `singly`: see Encoder."""
        cache = self.cache(policy)
        encoder = Encoder(self.network.module, self.contract, self.policy(policy), singly)
        missing = cache.missing(wanted)
        with self.watcher.stage(f"{self.name}: {what}", len(missing), "windows") as advance:
            cache.compute(encoder, self.view, missing, advance)

    def split(self, name: str, columns: list[str]) -> Split:
        """Features at twelve leads and targets of a split, for training."""
        records = self.records[name]
        target = self.selection.index.loc[[p for p, _, _ in records], columns].to_numpy(np.int8)
        features = self.cache(self.contract.policy).take(rows.complete(records))
        return Split(records=[r for _, r, _ in records], features=features, owner=owners(records), target=target)


def _source(module: ModuleType) -> str | None:
    """sha256 of the file of a stranger that entered by path: it changes under its author's hands, and NUMERICS knows nothing of it."""
    stranger = module.__name__.startswith("ecgbench_stranger_")
    return hashlib.sha256(Path(str(module.__file__)).read_bytes()).hexdigest() if stranger else None


def owners(records: list[Record]) -> np.ndarray:
    """(window,) which record each window belongs to."""
    return np.repeat(np.arange(len(records)), [w for _, _, w in records])
