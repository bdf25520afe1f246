"""One model on one dataset: its view of the recordings, its features, its policies."""

import copy
import hashlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd

from ecgbench import datasets, models, perturbations, policies
from ecgbench.cards.cell import FEATURES, Cell, Fit, Scoring, Training
from ecgbench.cards.checked import facts
from ecgbench.cards.dataset import Task
from ecgbench.cards.model import InputContract
from ecgbench.core.division import OFFICIAL
from ecgbench.core.files import as_parquet
from ecgbench.core.keys import key
from ecgbench.core.text import quoted
from ecgbench.data.select import SPLITS, Selection
from ecgbench.data.views import View
from ecgbench.ecg import preprocess
from ecgbench.ecg.draw import Draw, Fixed, LeadSetting, can_give, training_leads
from ecgbench.ecg.leads import ALL, LeadSubset, bits_to_mask
from ecgbench.ecg.surrogates import CHANGES
from ecgbench.errors import BadRecord, BadSetting
from ecgbench.evaluate import batches, gates, protocols, rows
from ecgbench.evaluate.encode import SHARED_TOLERANCE, Encoder
from ecgbench.evaluate.features import FeatureCache
from ecgbench.evaluate.network import Network
from ecgbench.evaluate.predict import defined, prediction_table
from ecgbench.evaluate.rows import MOST, Record, positions, windows_of
from ecgbench.perturbations import PERTURBED, Perturbation
from ecgbench.policies.hide import NATIVE, Policy, sees

SHARED_CHECKED = 3
"""Number of records, and of sets of leads per record, whose features are computed twice."""


class Progress(Protocol):
    """Shows the progress of a run."""

    def note(self, text: str) -> None:
        """One line about something that is done."""

    def stage(
        self, text: str, total: int, unit: str
    ) -> AbstractContextManager[Callable[[int], None]]:
        """A stage of work; the context gives a function to call with the units just done."""


@dataclass(eq=False)
class Evaluation:
    """A network, its contract and a selection of records."""

    network: Network
    contract: InputContract
    selection: Selection
    training: Training
    features: Path
    """Folder of the features of this network on this dataset."""
    run_features: Path
    """Folder of features of changed recordings, or of other inputs than recordings."""
    progress: Progress
    keep_views: bool = True
    change: str = ""
    """Of a control: the change of the recordings, of CHANGES, or a perturbation behind
    PERTURBED.
    """
    tabular: np.ndarray | str | None = None
    """Of a control: (record, dim) features of the used records from tables alone, or why there are
    none.
    """
    shared: View | None = None
    """The recordings of all folds of a selection."""
    _caches: dict[Path, FeatureCache] = field(default_factory=dict)
    """By folder: policies without a fit share one in all folds."""
    _policies: dict[str, Policy] = field(default_factory=dict)
    _rows: dict[tuple[LeadSetting, Draw], np.ndarray] = field(default_factory=dict)

    @cached_property
    def view(self) -> View:
        """The recordings at the contract's rate and filter; computed with progress on first use."""
        if self.shared is not None:
            return self.shared
        # tabular features need the length of a record alone
        keep = self.keep_views and self.tabular is None
        done = self.perturbation
        change = CHANGES[self.change] if self.change and not done else None
        view = View(self.selection.prepared, self.contract, keep and not done, change, done)
        missing, before = view.missing(list(self.selection.index["record"])), 0

        def progress(done: int, total: int) -> None:
            nonlocal before
            advance(done - before)
            before = done

        what = f"{self.name}: filter and resample"
        with self.progress.stage(what, len(missing), "records") as advance:
            view.fill(missing, progress)
        return view

    @property
    def perturbation(self) -> Perturbation | None:
        """What is done to the recordings, of a plan that asks for it."""
        own = self.change.startswith(PERTURBED)
        return perturbations.one(self.change.removeprefix(PERTURBED)) if own else None

    def by_fold(self, folds: Sequence[str]) -> "dict[str, Evaluation]":
        """The same network and records under each of these folds. Recordings and features are
        shared; policies that learn do so on the training split of their own fold.
        """
        if set(folds) == {self.selection.fold}:
            return {self.selection.fold: self}
        own = replace(self, shared=self.view)
        return {
            fold: replace(own, selection=selection, _policies={}, _rows={})
            for fold, selection in self.selection.crossed(folds).items()
        }

    def changed(self, change: str) -> "Evaluation":
        """The same with changed recordings; fitted policies stay."""
        return replace(self, change=change, shared=None, _caches={})

    @property
    def name(self) -> str:
        """For people: `stmem on ptbxl`."""
        return f"{self.network.name} on {self.selection.prepared.name}"

    @cached_property
    def table(self) -> pd.DataFrame:
        """The used records. Rows of work name a record by its position here."""
        return self.selection.index.reset_index(drop=True)

    @cached_property
    def records(self) -> dict[str, list[Record]]:
        """Per split, the records of 1 to MOST windows, with a lead that the network reads."""
        by_split: dict[str, list[Record]] = {}
        seen = LeadSubset.of(*self.contract.leads).bits
        for split in SPLITS:
            own = self.table[self.table["split"] == split]
            counted = (
                Record(int(p), str(r), self.contract.windows(self.view.length(str(r))), int(has))
                for p, r, has in zip(own.index, own["record"], own["available"])
            )
            by_split[split] = [r for r in counted if 0 < r.windows <= MOST and r.available & seen]
            if own.empty:
                named = quoted(datasets.ROOM.argument(self.selection.prepared.name))
                raise BadSetting(
                    f"{self.name}: its {split} split is empty; ecgbench data facts {named} counts "
                    f"the records of each"
                )
            if not by_split[split]:
                under = f" under {self.change.removeprefix(PERTURBED)}" if self.change else ""
                raise BadSetting(
                    f"{self.name}{under}: no {split} record has one to {MOST:,} windows of "
                    f"{self.contract.seconds} s, with a lead of {'+'.join(self.contract.leads)}"
                )
        return by_split

    def tested(self, setting: LeadSetting) -> list[Record]:
        """The test records that have the leads of a setting."""
        return [r for r in self.records["test"] if can_give(setting, r.available)]

    @property
    def excluded(self) -> int:
        """Number of records that `records` leaves out."""
        return len(self.selection.index) - sum(len(r) for r in self.records.values())

    @property
    def windows(self) -> float:
        """Evaluation windows per record, on average."""
        return float(np.mean([w for records in self.records.values() for w in windows_of(records)]))

    def policy(self, name: str) -> Policy:
        """A policy, fitted on the training split where it learns."""
        if name not in self._policies:
            self._policies[name] = Policy.of(name, self._training)
        return self._policies[name]

    def _training(self) -> Iterator[np.ndarray]:
        """Recordings that a policy may learn from; what fills absent leads is learned where none
        is absent.
        """
        whole = [r.name for r in self.records["train"] if r.available == ALL.bits]
        if not whole:
            raise BadSetting(
                f"{self.name}: no training record has all twelve leads, and what fills absent ones "
                f"learns from those; choose --policy paper, zero, copy or einthoven"
            )
        return map(self.view.get, whole)

    def refusal(self, cell: Cell, scoring: Scoring) -> str | None:
        """The reason why a cell cannot run, else None."""
        try:
            there = self.tested(cell.setting)
        except BadSetting as error:
            if not self.perturbation:
                raise
            return str(error)  # a strip that is shorter than a window
        if not there:
            return f"no test record of {self.selection.prepared.name} has leads for {cell.setting}"
        if self.perturbation and (reason := self._undetermined(cell.setting)):
            return reason
        if isinstance(self.tabular, str):
            return f"{self.selection.prepared.name}: {self.tabular}"
        task, weights = self.selection.prepared.task(cell.task), cell.fit.weights
        if why := protocols.refuses(self.training.protocol, self.network.card, weights, task):
            return why
        if cell.policy != NATIVE:
            return None
        title = self.network.card.title
        if not self.network.card.native:
            return f"{title} reads all of its leads at once; policy native is not for it"
        if isinstance(cell.setting, Fixed):
            return self.contract.refuses(cell.setting.subset)
        blind = self.blind(cell, scoring)
        nothing = f"{title} sees nothing of {cell.setting} in {blind:.0%} of the records"
        return nothing if blind else None

    def _undetermined(self, setting: LeadSetting) -> str:
        """Why a perturbation cannot be done to the test records, of each set of leads that records
        have one; "" where it can.
        """
        assert self.perturbation
        for one in {record.available: record for record in self.tested(setting)}.values():
            try:
                self.perturbation(self.selection.prepared.recording(one.name))
            except BadRecord as error:
                return str(error)
        return ""

    def blind(self, cell: Cell, scoring: Scoring) -> float:
        """Share of test windows in which no measured sample reaches the network, directly or
        through the policy.
        """
        _, _, masks = rows.decode(self.rows(cell, scoring))
        kinds, counts = np.unique(masks, return_counts=True)
        seen = [sees(self.contract, bits_to_mask(m), self.policy(cell.policy)) for m in kinds]
        return float(counts[~np.array(seen)].sum() / counts.sum())

    def rows(self, cell: Cell, scoring: Scoring) -> np.ndarray:
        """Rows of work of a cell: the windows of its test records under its leads."""
        drawn = (cell.setting, scoring.draw)
        if drawn not in self._rows:
            self._rows[drawn] = rows.measured(cell.setting, self.tested(cell.setting), scoring.draw)
        return self._rows[drawn]

    @cached_property
    def slots(self) -> np.ndarray | None:
        """The slot in its batch of each record's first window, by position; None where batches
        hold windows of one record.
        """
        if not batches.serves(self.network.device):
            return None
        policy = self.policy(self.contract.policy)
        if not batches.steady(Encoder(self.network.encoder, self.contract, policy)):
            self.progress.note(
                f"{self.name}: here the last bits of a feature depend on the windows beside it, so "
                f"each record is computed by itself (slower)"
            )
            return None
        slots = np.zeros(len(self.table), np.int64)
        groups = list(self.records.values())
        if self.selection.fold != OFFICIAL:  # a record has one slot in all folds
            groups = [sorted(record for records in groups for record in records)]
        for records in groups:
            slots[positions(records)] = batches.first_slots(windows_of(records))
        return slots

    def facts(self, policy: str) -> dict[str, Any]:
        """Everything that can change a feature, for keys."""
        state = self.policy(policy).state or {}
        contract = {k: v for k, v in facts(self.contract).items() if k != "absent"}
        own: dict[str, Any] = {"change": self.change} if self.change else {}
        if self.perturbation:
            own["perturbation"] = perturbations.identity(self.perturbation.name)
        if policy != NATIVE:
            own["policy_source"] = policies.ROOM.source_hash(policy)
        if self.slots is not None:
            own["batch"] = batches.SLOTS
        if isinstance(self.tabular, np.ndarray):
            own["told"] = _hash(self.tabular)
        if file := self.network.file_sha256:
            own["weights_file"] = file
        return {
            "source": models.ROOM.source_hash(self.network.name),
            **own,
            "features": FEATURES,
            "preprocess": preprocess.VERSION,
            "dataset": self.selection.prepared.name,
            "data": self.selection.signals,
            "model": self.network.name,
            "weights": self.network.sha256,
            "contract": contract,
            "precision": self.network.precision,
            "path": "eager",  # results of compiled networks say "compiled"; none is since
            "policy": policy,
            "policy_state": {k: _hash(v) for k, v in sorted(state.items())},
        }

    @property
    def features_folder(self) -> Path:
        """Folder of the features of this network on this dataset."""
        return self.run_features if self.change or self.tabular is not None else self.features

    def cache(self, policy: str) -> FeatureCache:
        """The features computed so far under a policy."""
        folder = self.features_folder / "windows" / key(self.facts(policy))
        if folder not in self._caches:
            records = list(self.table["record"])
            self._caches[folder] = FeatureCache(folder, records, self.network.environment)
        return self._caches[folder]

    def compute(self, policy: str, wanted: np.ndarray, what: str, singly: bool = False) -> None:
        """Compute what is missing of `wanted`, with progress; `singly`: see Encoder."""
        cache = self.cache(policy)
        if isinstance(self.tabular, np.ndarray):
            cache.add(wanted, self.tabular[rows.decode(wanted)[0]])
            return
        encoder = Encoder(
            self.network.encoder, self.contract, self.policy(policy), singly, self.network.card.dim
        )
        missing = cache.missing(wanted)
        if encoder.shares_embeddings:
            self._check_shared(encoder, missing)
        with self.progress.stage(f"{self.name}: {what}", len(missing), "windows") as advance:
            cache.compute(encoder, self.view, missing, advance, self.slots)
        if not (
            models.ROOM.built_in(self.name) and (policy == NATIVE or policies.ROOM.built_in(policy))
        ):
            self._demand_the_same_again(encoder, missing, cache)

    def _demand_the_same_again(
        self, encoder: Encoder, done: np.ndarray, cache: FeatureCache
    ) -> None:
        """GateError, and no features are kept, where a few records that are encoded again have
        other ones.
        """
        of = rows.decode(done)[0]
        few = np.unique(of)[:: 1 + len(np.unique(of)) // SHARED_CHECKED]
        again = batches.encoded(
            encoder, lambda p: self.view.get(cache.records[p]), done[np.isin(of, few)], self.slots
        )
        for part, features in again:
            before = cache.take(part)
            if not np.abs(features - before).max() <= SHARED_TOLERANCE * np.abs(before).max():
                self.forget()
                raise gates.GateError(
                    f"{self.network.name}: a record that is encoded again has other features; "
                    f"neither the network nor policy {encoder.policy.name!r} may draw or remember"
                )

    def _check_shared(self, encoder: Encoder, missing: np.ndarray) -> None:
        """Try a few records of the study before the others are computed."""
        position, window, bits = rows.decode(missing)
        # the sets of leads with most to hide first
        for record in list(dict.fromkeys(position.tolist()))[:SHARED_CHECKED]:
            own = position == record
            fewest = sorted(np.unique(bits[own]).tolist(), key=int.bit_count)[:SHARED_CHECKED]
            part = {mask: window[own & (bits == mask)] for mask in fewest}
            encoder.check_shared(self.view.get(str(self.table["record"][record])), part)

    def task(self, fit: Fit) -> Task:
        """What a fit learns."""
        return self.selection.prepared.task(fit.task)

    def trained(self, fit: Fit) -> str:
        """The policy that fills absent leads in training."""
        return fit.policy or self.contract.policy

    def showing(self, fit: Fit) -> "Evaluation":
        """The same, for a fit to the leads that are tested: its training and validation records
        have these leads and no others. BadSetting where a split has no such record.
        """
        if not fit.shown:
            return self
        own, records = LeadSubset.parse(fit.shown).bits, dict(self.records)
        for split in ("train", "val"):
            having = [r for r in records[split] if r.available & own == own]
            if not having:
                raise BadSetting(
                    f"--train-leads same: no {split} record of {fit.task} has leads {fit.shown}; "
                    f"leave these leads out, or choose --train-leads all"
                )
            records[split] = [r._replace(available=own) for r in having]
        other = copy.copy(self)
        vars(other).update(records=records, slots=self.slots)
        return other

    def training_leads(self, record: Record, *words: str | int) -> int:
        """Bit mask of the leads of a record in training: drawn from `words`, or all that it has."""
        if self.training.leads != "random":
            return record.available
        return training_leads(self.contract.leads, *words, available=record.available)

    @property
    def validated(self) -> list[Record]:
        """The validation records, each with its leads in validation."""
        return [
            r._replace(available=self.training_leads(r, "validation leads", r.name))
            for r in self.records["val"]
        ]

    def predicted(self, records: list[Record], task: Task, probability: np.ndarray) -> bytes:
        """A parquet table of (record, label) probabilities for some records, with their targets."""
        table = self.table.loc[positions(records)]
        named = {c: table[c].to_numpy() for c in ("record", "patient")}
        known = defined(probability, table[task.columns].to_numpy(np.int8))
        return as_parquet(prediction_table(named, task.labels, *known))

    def target(self, split: str, columns: list[str]) -> np.ndarray:
        """(record, label) int8 of the records of a split."""
        return self.table.loc[positions(self.records[split]), columns].to_numpy(np.int8)

    def tuned(self, network: Network) -> "Evaluation":
        """The same model, contract, records and policies with fine-tuned weights."""
        other = copy.copy(self)
        other.network, other._caches = network, {}
        vars(other).pop("path", None)  # it may choose another
        return other

    def forget(self) -> None:
        """Remove the computed features: those of a fine-tuned network serve no other fit."""
        for folder in self._caches:
            shutil.rmtree(folder, ignore_errors=True)
        self._caches.clear()


def _hash(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
