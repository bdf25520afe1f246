"""What a job will take: counts, times the seconds of one short probe of its model, or of what
earlier runs have stored.

Called in the process of the job, because a model may do anything to it.
"""

import copy
import itertools
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ecgbench import datasets
from ecgbench.adapters.hide import NATIVE, Policy, TrainingSplit
from ecgbench.core.cells import Cell, Folders
from ecgbench.core.division import Division
from ecgbench.core.folders import read_json
from ecgbench.core.registry import folder_name
from ecgbench.core.seeds import rng
from ecgbench.data import views
from ecgbench.data.disk import bytes_of
from ecgbench.data.prepare import find, seen
from ecgbench.data.select import SPLITS, Selection, quotas_of
from ecgbench.ecg import preprocess
from ecgbench.ecg.draw import Fixed
from ecgbench.ecg.leads import ALL, LEADS
from ecgbench.errors import (
    BadRecord,
    BadWeights,
    Damaged,
    EcgbenchError,
    MissingData,
    WriteError,
)
from ecgbench.evaluate import network, protocols, rows
from ecgbench.evaluate.device import choose
from ecgbench.evaluate.encode import Encoder
from ecgbench.evaluate.protocols.probe import FOLDS, LEAD_DRAWS, PENALTIES
from ecgbench.stats import logistic
from ecgbench.study.controls import LABELS
from ecgbench.study.controls import LEADS as LEADS_NAMES
from ecgbench.study.plan import all_tasks

if TYPE_CHECKING:
    from ecgbench.study.jobs import Job

READING = 0.011
"""Seconds per record of ten seconds that is read and checked (PTB-XL, 2,000 records, one core)."""
HEAD = 5e-5
"""Seconds per record and epoch of a linear head (one core)."""
PROBE = 0.2, 2e-6, 6e-8
"""Seconds of the penalties of a fold in `--protocol probe`: in any case, per window and number of a
feature, and of those for each label (LAEF on 2,000 records of PTB-XL, one core).
"""
PACE = 0.042
"""Seconds of the small path that `_pace` tries, on the core of those figures."""
CELL_SECONDS, CELL_BYTES = 0.3, 30_000
"""What a cell needs to be scored and stored, and beyond its arrays: records' names, JSON."""
PUBLISHED = {"train": 0.8, "val": 0.1, "test": 0.1}
"""Shares of the splits where a dataset is not on this machine."""
TRIED, BATCH = 4, 4
"""Sets of leads that a timed encoding is tried with; records of a timed training step on a CPU."""
KNOWN = 20
"""Stored fits or cells that are looked at, at most."""


def measure(job: "Job") -> dict[str, Any]:
    """Every cell of the job counts as not computed yet. Nothing is written.

    {"source", "records": {split: n}, "seconds": {"preparing", "training", "evaluation"}, "disk":
    {"run", "prepared"} (bytes), "views": {folder: bytes that it lacks}, "skipped": cells}, or
    {"failed": reason} where the model fails.
    BadWeights and WriteError are raised.
    """
    try:
        return _Probe(job)()
    except (BadWeights, WriteError):
        raise
    # a plug-in's network may raise anything; the run will say which cells fail
    except Exception as error:
        traceback.print_exc()
        kind = "" if isinstance(error, EcgbenchError) else f"{type(error).__name__}: "
        return {"failed": f"{kind}{error}"}


def count(
    dataset: str,
    folders: Folders,
    limit: int | None,
    division: Division = Division(),  # noqa: B008  (frozen)
) -> tuple[str, dict[str, int]]:
    """("prepared", "downloaded" or "absent": whether records were counted, or the card's figure
    taken; records of each split, in a cross-validation those of an average fold).
    """
    source, sizes = _counted(dataset, folders, limit, division)
    if division.cross:
        tested = round(sum(sizes.values()) / division.cross)
        sizes = {"train": sum(sizes.values()) - 2 * tested, "val": tested, "test": tested}
    return source, sizes


def _counted(
    dataset: str, folders: Folders, limit: int | None, division: Division
) -> tuple[str, dict[str, int]]:
    with suppress(MissingData, BadRecord):
        copy = find(dataset, folders.data, folders.prepared, limit, division=division)
        return "prepared", _sizes(Selection(copy, limit).index["split"])
    card = datasets.get(dataset).CARD
    # what no task is tested on is all for training
    shares = PUBLISHED if card.tasks else {"train": 1.0}
    source, sizes = "absent", {s: round(share * card.records) for s, share in shares.items()}
    with suppress(MissingData, BadRecord):
        source, sizes = (
            "downloaded",
            _sizes(seen(dataset, folders.data, folders.prepared, division).published["split"]),
        )
    if limit is not None and limit < sum(sizes.values()):
        sizes = quotas_of(sizes, limit)
    return source, sizes


def tested(
    dataset: str, folders: Folders, limit: int | None, division: Division
) -> dict[str, tuple[list[int], list[int]]]:
    """Task -> positives and negatives of each label among the test records, in a cross-validation
    among all; nothing where the dataset is not prepared.
    """
    with suppress(MissingData, BadRecord):
        copy = find(dataset, folders.data, folders.prepared, limit, division=division)
        chosen = Selection(copy, limit)
        table = chosen.index if division.cross else chosen.of("test")
        counts = {}
        for task in copy.tasks:
            target = table[task.columns].to_numpy(np.int8)
            positives, negatives = ((target == v).sum(axis=0).tolist() for v in (1, 0))
            counts[task.name] = positives, negatives
        return counts
    return {}


def _sizes(split: Any) -> dict[str, int]:
    counts = split.value_counts()
    return {s: int(counts[s]) for s in SPLITS if s in counts}


class _Probe:
    """One model on one dataset."""

    def __init__(self, job: "Job") -> None:
        begun = time.perf_counter()
        self.job, self.plan, self.training = job, job.plan, job.plan.training
        self.card, self.tasks = datasets.get(job.dataset).CARD, all_tasks()
        plan = self.plan
        self.source, self.records = count(job.dataset, job.folders, plan.limit, plan.division)
        built = network.build(job.model, job.weights, choose(job.device))
        self.contract = built.card.contract(job.plan.fits[0].contract)
        self.net = built.in_precision(protocols.of_the_encoder(self.training), self.contract)
        raw = noise_of(round(self.card.fs * self.card.seconds))
        seen = partial(preprocess.view, raw, self.card.fs, self.contract.preparation)
        self.view, self.viewed = seen(), seconds_of(seen)
        self.windows = self.contract.windows(self.view.shape[1])
        self.cells = [c for c in self.plan.cells if not self._skipped(c)]
        self.fits = list(dict.fromkeys(c.fit for c in self.cells))
        self.folds = len({f.fold for f in self.fits})
        self.begun = time.perf_counter() - begun

    def __call__(self) -> dict[str, Any]:
        seconds = dict.fromkeys(("preparing", "training", "evaluation"), 0.0)
        disk, lacking = dict.fromkeys(("run", "prepared"), 0), dict[str, int]()
        if self.cells and self.windows and all(self.records.get(s) for s in SPLITS):
            frozen, test = protocols.get(self.training.protocol).frozen, self.records["test"]
            scoring = _stored(self.job, "cells/*/{}/*/*/cell.json", lambda note: note["seconds"])
            # a control of the labels has the run's features, one of the leads its fits
            control = self.plan.control
            encoded = not (control.startswith(LABELS) and frozen)
            encoding = self._encoding(frozen) * (self._tested if frozen else test)
            training = self._on_features(encoded) if frozen else self._finetuning()
            seconds = {
                "preparing": self.begun + (0.0 if control else self._preparing()),
                "training": 0.0 if control == LEADS_NAMES else training,
                "evaluation": encoding * encoded + (scoring or CELL_SECONDS) * len(self.cells),
            }
            disk = {"run": self._run_bytes(), "prepared": self._copy_bytes()}
            lacking = self._view_bytes() if self.job.keep_views else {}
        return {
            "source": self.source,
            "records": self.records,
            "tested": tested(
                self.job.dataset, self.job.folders, self.plan.limit, self.plan.division
            ),
            "skipped": len(self.plan.cells) - len(self.cells),
            "seconds": seconds,
            "disk": disk,
            "views": lacking,
        }

    def _skipped(self, cell: Cell) -> bool:
        if cell.policy != NATIVE:
            return False
        if not self.net.card.native:
            return True
        if isinstance(cell.setting, Fixed):
            return self.contract.refuses(cell.setting.subset) is not None
        # of many records some draw none that the network reads
        return cell.setting.k <= len(LEADS) - len(self.contract.leads)

    def _preparing(self) -> float:
        """Reading and checking where there is no prepared copy, and the contract's filter and
        rate.
        """
        read = 0 if self.source == "prepared" else READING * self.card.seconds / 10
        return sum(self.records.values()) * (self.viewed + read)

    @property
    def _tested(self) -> int:
        """Records that are tested in one fold or another."""
        return self.records["test"] * self.folds

    @property
    def _trained(self) -> int:
        """Records that train or validate in one fold or another."""
        own = self.records["train"] + self.records["val"]
        return own if self.folds == 1 else own + self.records["test"]

    def _work(self, cells: Sequence[Cell]) -> dict[str, tuple[int, ...]]:
        """Policy -> distinct windows and leads of one record that cells ask for."""
        work = {}
        for policy in dict.fromkeys(c.policy for c in cells):
            settings = dict.fromkeys(c.setting for c in cells if c.policy == policy)
            asked = [rows.measured(s, self._record, self.plan.scoring.draw) for s in settings]
            work[policy] = tuple(np.unique(np.concatenate(asked)).tolist())
        return work

    @property
    def _record(self) -> list[tuple[int, str, int, int]]:
        return [(0, "record", self.windows, ALL.bits)]

    def _encoding(self, frozen: bool) -> float:
        """Seconds of one record under all leads: once, or by the network of each fit."""
        turns = [[c for c in self.cells if frozen or c.fit == f] for f in self.fits]
        return sum(
            self._timed(policy, work)
            for cells in turns[: 1 if frozen else None]
            for policy, work in self._work(cells).items()
        )

    @cache  # noqa: B019  (lives as long as the probe)
    def _timed(self, name: str, work: tuple[int, ...]) -> float:
        """Seconds of one record's rows under one policy, by those of its first few sets of
        leads.
        """
        _, window, mask = rows.decode(np.array(work))
        part = {int(m): window[mask == m] for m in np.unique(mask)}
        split = TrainingSplit(frozenset({"record"}), lambda: {"record": self.view}.items())
        encoder = Encoder(
            self.net.encoder,
            self.contract,
            Policy.of(name, lambda: split),
            self.plan.scoring.draw == "window",
            self.net.card.dim,
        )
        if not encoder.shares_embeddings:
            part = dict(itertools.islice(part.items(), TRIED))
        share = len(work) / sum(map(len, part.values()))
        return seconds_of(lambda: encoder(self.view, part)) * share

    def _complete(self, policy: str) -> float:
        """Seconds of all windows of one record with all leads."""
        return self._timed(policy, tuple(rows.complete(self._record).tolist()))

    def _on_features(self, encode: bool = True) -> float:
        """Features of the training and validation split, once or for each fit, and the heads; the
        heads alone where the features are there.
        """
        learn, check = self.records["train"], self.records["val"]
        whole = self.training.leads != "random"
        passes = {
            (f.policy or self.contract.policy, f.shown if whole else f.seed) for f in self.fits
        }
        # all windows with all leads, or windows in other leads each time
        shown = self._shown() / self.windows
        if self.training.protocol == "probe":
            encoded = (1 if whole else 1 + shown) * self._trained
            heads = self._probes()
        else:
            encoded = max(shown, 1) * self._trained if self.folds > 1 else shown * learn + check
            heads = len(self.fits) * self.training.epochs * (learn + check) * HEAD
        if not encode:
            return heads
        return heads + sum(self._complete(policy) for policy, _ in passes) * encoded

    def _shown(self) -> int:
        """Windows of a training record that heads are fitted to."""
        if self.training.leads != "random":
            return self.windows
        if self.training.protocol == "probe":
            return max(LEAD_DRAWS, self.windows)
        return self.training.epochs

    def _probes(self) -> float:
        numbers = (self.records["train"] + self.records["val"]) * self._shown() * self.net.card.dim
        labels = sum(len(self.tasks[f.task][2].labels) for f in self.fits)
        always, number, label = PROBE
        folds = len(self.fits) * (always + numbers * number) + labels * numbers * label
        return FOLDS * folds * _pace()

    def _finetuning(self) -> float:
        """All fits, as earlier ones with the same model took, or by one training step."""
        learn, check = self.records["train"], self.records["val"]
        known = _stored(
            self.job, "fits/*/{}/*/fit.json", lambda note: note["seconds"] / note["records"]
        )
        if known is not None:
            return len(self.fits) * learn * known
        record, step = self._step()
        policy = self.fits[0].policy or self.contract.policy
        batch = min(self.training.batch, learn)
        epoch = learn // batch * (batch * record + step) + check * self._complete(policy)
        return len(self.fits) * self.training.epochs * epoch

    def _step(self) -> tuple[float, float]:
        """Seconds of one record forward and backward, and of the optimiser, on a copy."""
        module, device = copy.deepcopy(self.net.module), self.net.device
        size = BATCH if device == "cpu" else self.training.micro_batch or self.training.batch
        window = torch.from_numpy(noise_of(self.contract.received, len(self.contract.leads)))
        x = window.expand(size, -1, -1).to(device)
        leads = torch.ones(x.shape[:2], dtype=torch.bool, device=device)
        for name, parameter in module.named_parameters():
            parameter.requires_grad_(not name.startswith(self.net.card.fixed))
        module.train()

        def learn() -> None:
            module(x, leads).pooled.float().square().mean().backward()
            if device != "cpu":
                torch.cuda.synchronize()

        record = seconds_of(learn) / size
        return record, seconds_of(torch.optim.AdamW(module.parameters(), lr=0.0).step)

    def _run_bytes(self) -> int:
        """Fits, cells and features of a frozen encoder; a fine-tuned network's are removed after
        use.
        """
        dim, test = self.net.card.dim, self.records["test"]
        named = {f.task for f in self.fits} | {c.task for c in self.cells}
        labels = {name: len(self.tasks[name][2].labels) for name in named}
        probe, drawn = self.training.protocol == "probe", self.training.leads == "random"
        number = 8 if probe else 4
        heads = sum(number * (dim + 1) * labels[f.task] for f in self.fits)
        cells = sum(test * (9 * labels[c.task] + 4 * dim) + CELL_BYTES for c in self.cells)
        if self.training.protocol == "finetune":
            return (
                heads
                + cells
                + len(self.fits) * sum(t.nbytes for t in self.net.module.state_dict().values())
            )
        # a probe with random leads also needs all windows with all leads
        whole = self.windows if probe and drawn else 0
        learn, check = self._trained - self.records["val"], self.records["val"]
        features = self._tested * sum(map(len, self._work(self.cells).values())) + (
            learn * (self._shown() + whole)
            + check * (self.windows + (self._shown() if probe and drawn else 0))
        ) * len({f.shown for f in self.fits})
        return heads + cells + features * (4 * dim + 8)

    def _copy_bytes(self) -> int:
        """The prepared copy where there is none."""
        return 0 if self.source == "prepared" else bytes_of(self.card, sum(self.records.values()))

    def _view_bytes(self) -> dict[str, int]:
        """Folder of the contract's view -> bytes that it lacks."""
        preparation, limit = self.contract.preparation, self.plan.limit
        folder, folders = views.key(preparation), self.job.folders
        if self.source != "prepared":
            return {folder: sum(self.records.values()) * self.view.nbytes}
        copy = find(self.job.dataset, folders.data, folders.prepared, limit)
        rows = Selection(copy, limit, self.plan.exclude).index.index.to_numpy()
        return {folder: views.missing_bytes(copy, preparation, folder, rows)}


def noise_of(samples: int, leads: int = len(LEADS)) -> np.ndarray:
    """(leads, samples) float32: noise of 0.3 mV."""
    return (0.3 * rng("estimate", samples).standard_normal((leads, samples))).astype(np.float32)


def _pace() -> float:
    """How much longer than `PACE` a small path of penalties takes, here and now."""
    x = noise_of(32, 400)
    target = (x[:, :4] > 0.3).astype(np.int8)
    taken = seconds_of(lambda: list(logistic.path(x, target, np.ones(len(x)), PENALTIES)))
    return taken / PACE


def seconds_of(work: Callable[[], object]) -> float:
    """Of a second call: the first one warms up."""
    work()
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _stored(job: "Job", pattern: str, value: Callable[[dict[str, Any]], float]) -> float | None:
    """Mean over what the run folder holds of this model from this device; None where there is
    nothing. What is damaged is passed over: a run computes it again.
    """
    files = job.folders.out.glob(pattern.format(folder_name(job.model)))
    known = []
    for file in sorted(itertools.islice(files, KNOWN)):
        with suppress(Damaged):
            note = read_json(file.parent, file.name)
            if note.get("device", job.device) == job.device:
                known.append(value(note))
    return float(np.mean(known)) if known else None
