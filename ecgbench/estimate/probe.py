"""What a job will take: counts, times the seconds of one short probe of its model, or of what
earlier runs have stored.

Called in the process of the job, because a model may do anything to it.
"""

import copy
import itertools
import json
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ecgbench import datasets
from ecgbench.adapt import NATIVE, Policy, TrainingSplit
from ecgbench.benchmark.plan import all_tasks
from ecgbench.cells import Cell, Folders
from ecgbench.ecg import preprocess
from ecgbench.ecg.draw import Fixed
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import BadRecord, BadWeights, EcgbenchError, MissingData, WriteError
from ecgbench.inference import network, rows
from ecgbench.inference.encode import Encoder
from ecgbench.prepared.prepare import find
from ecgbench.prepared.source import Source
from ecgbench.prepared.subset import SPLITS, Selection, quotas_of
from ecgbench.room import folder_name
from ecgbench.seeds import rng
from ecgbench.stats import logistic
from ecgbench.training.probe import FOLDS, LEAD_DRAWS, PENALTIES

if TYPE_CHECKING:
    from ecgbench.benchmark.job import Measure

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


def measure(job: "Measure") -> dict[str, Any]:
    """Every cell of the job counts as not computed yet. Nothing is written.

    {"source", "records": {split: n}, "seconds": {"preparing", "training", "evaluation"}, "disk":
    {"run", "prepared"} (bytes), "skipped": cells}, or {"failed": reason} where the model fails.
    BadWeights and WriteError are raised.
    """
    try:
        return _Probe(job)()
    except (BadWeights, WriteError):
        raise
    # a plug-in's network may raise anything; the run will say which cells fail
    except Exception as error:
        traceback.print_exc()
        return {
            "failed": str(error)
            if isinstance(error, EcgbenchError)
            else f"{type(error).__name__}: {error}"
        }


def count(dataset: str, folders: Folders, limit: int | None) -> tuple[str, dict[str, int]]:
    """("prepared", "downloaded" or "absent": whether records were counted, or the card's figure
    taken; records of each split).
    """
    with suppress(MissingData, BadRecord):
        index = Selection(find(dataset, folders.data, folders.prepared), limit).index
        return "prepared", _sizes(index["split"])
    source, sizes = (
        "absent",
        {s: round(share * datasets.get(dataset).CARD.records) for s, share in PUBLISHED.items()},
    )
    with suppress(MissingData, BadRecord):
        source, sizes = "downloaded", _sizes(Source.of(dataset, folders.data).index["split"])
    return source, sizes if limit is None or limit >= sum(sizes.values()) else quotas_of(
        sizes, limit
    )


def _sizes(split: Any) -> dict[str, int]:
    counts = split.value_counts()
    return {s: int(counts[s]) for s in SPLITS if s in counts}


class _Probe:
    """One model on one dataset."""

    def __init__(self, job: "Measure") -> None:
        begun = time.perf_counter()
        self.job, self.plan, self.training = job, job.plan, job.plan.training
        self.card, self.tasks = datasets.get(job.dataset).CARD, all_tasks()
        self.source, self.records = count(job.dataset, job.folders, job.plan.limit)
        built = network.build(job.model, job.weights, job.device)
        self.contract = built.card.contract(job.plan.fits[0].contract)
        self.net = built.in_precision(self.training.of_the_encoder, self.contract)
        raw = _noise(round(self.card.fs * self.card.seconds))
        self.view = preprocess.view(raw, self.card.fs, self.contract.preparation)
        self.viewed = _seconds(
            lambda: preprocess.view(raw, self.card.fs, self.contract.preparation)
        )
        self.windows = self.contract.windows(self.view.shape[1])
        self.cells = [c for c in self.plan.cells if not self._skipped(c)]
        self.fits = list(dict.fromkeys(c.fit for c in self.cells))
        self.begun = time.perf_counter() - begun

    def __call__(self) -> dict[str, Any]:
        answer: dict[str, Any] = {
            "source": self.source,
            "records": self.records,
            "skipped": len(self.plan.cells) - len(self.cells),
        }
        seconds, disk = (
            {"preparing": 0.0, "training": 0.0, "evaluation": 0.0},
            {"run": 0, "prepared": 0},
        )
        if self.cells and self.windows and all(self.records.get(s) for s in SPLITS):
            frozen = self.training.frozen
            training = self._on_features() if frozen else self._finetuning()
            turns = (
                [self.cells]
                if frozen
                else [[c for c in self.cells if c.fit == f] for f in self.fits]
            )
            encoding = sum(self._encoding(cells) for cells in turns)
            cell = (
                _stored(self.job, "cells/*/{}/*/*/cell.json", lambda note: note["seconds"])
                or CELL_SECONDS
            )
            evaluation = encoding * self.records["test"] + cell * len(self.cells)
            seconds = {
                "preparing": self.begun + self._preparing(),
                "training": training,
                "evaluation": evaluation,
            }
            disk = {"run": self._run_bytes(), "prepared": self._prepared_bytes()}
        return answer | {"seconds": seconds, "disk": disk}

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
        unread = 0 if self.source == "prepared" else self.card.records
        return sum(self.records.values()) * self.viewed + unread * READING * self.card.seconds / 10

    def _rows(self, cells: Iterable[Cell]) -> np.ndarray:
        """Distinct windows and leads of one record that cells of one policy ask for."""
        settings = {str(c.setting): c.setting for c in cells}.values()
        measured = [
            rows.measured(s, [(0, "record", self.windows)], self.plan.scoring.draw)
            for s in settings
        ]
        return np.unique(np.concatenate(measured))

    def _encoding(self, cells: Sequence[Cell]) -> float:
        """Seconds of one record under all leads that cells ask for."""
        policies = dict.fromkeys(c.policy for c in cells)
        return sum(
            self._timed(policy, *self._rows(c for c in cells if c.policy == policy))
            for policy in policies
        )

    @cache  # noqa: B019  (lives as long as the probe)
    def _timed(self, name: str, *work: int) -> float:
        """Seconds of one record's rows under one policy, by those of its first few sets of
        leads.
        """
        _, window, mask = rows.decode(np.array(work))
        wanted = {int(m): window[mask == m] for m in np.unique(mask)}
        policy = Policy.of(
            name,
            lambda: TrainingSplit(frozenset({"record"}), lambda: {"record": self.view}.items()),
        )
        encoder = Encoder(
            self.net.encoder,
            self.contract,
            policy,
            self.plan.scoring.draw == "window",
            self.net.card.dim,
        )
        part = (
            wanted if encoder.shares_embeddings else dict(itertools.islice(wanted.items(), TRIED))
        )
        return (
            _seconds(lambda: encoder(self.view, part))
            * len(work)
            / sum(len(w) for w in part.values())
        )

    def _complete(self, policy: str) -> float:
        """Seconds of all windows of one record with all leads."""
        return self._timed(policy, *rows.complete([(0, "record", self.windows)]))

    def _on_features(self) -> float:
        """Features of the training and validation split, once or for each fit, and the heads."""
        learn, check = self.records["train"], self.records["val"]
        passes = {
            (f.policy or self.contract.policy, None if self.training.leads == "all" else f.seed)
            for f in self.fits
        }
        # all windows with all leads, or windows in other leads each time
        shown = self._shown() / self.windows
        if self.training.protocol == "probe":
            drawn = 0.0 if self.training.leads == "all" else shown
            encoded = (1 + drawn) * (learn + check)
            heads = self._probes()
        else:
            encoded = shown * learn + check
            heads = len(self.fits) * self.training.epochs * (learn + check) * HEAD
        return heads + sum(self._complete(policy) for policy, _ in passes) * encoded

    def _shown(self) -> int:
        """Windows of a training record that heads are fitted to."""
        if self.training.leads == "all":
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
        x = (
            torch.from_numpy(_noise(self.contract.received, len(self.contract.leads)))
            .expand(size, -1, -1)
            .to(device)
        )
        leads = torch.ones(x.shape[:2], dtype=torch.bool, device=device)
        for name, parameter in module.named_parameters():
            parameter.requires_grad_(not name.startswith(self.net.card.fixed))
        module.train()

        def learn() -> None:
            module(x, leads).pooled.float().square().mean().backward()
            if device != "cpu":
                torch.cuda.synchronize()

        record = _seconds(learn) / size
        return record, _seconds(torch.optim.AdamW(module.parameters(), lr=0.0).step)

    def _run_bytes(self) -> int:
        """Fits, cells and features of a frozen encoder; a fine-tuned network's are removed after
        use.
        """
        dim, test = self.net.card.dim, self.records["test"]
        labels = {name: len(task.labels) for name, (_, _, task) in self.tasks.items()}
        number = 8 if self.training.protocol == "probe" else 4
        heads = sum(number * (dim + 1) * labels[f.task] for f in self.fits)
        cells = sum(test * (9 * labels[c.task] + 4 * dim) + CELL_BYTES for c in self.cells)
        if self.training.protocol == "finetune":
            weights = sum(
                t.numel() * t.element_size() for t in self.net.module.state_dict().values()
            )
            return heads + cells + len(self.fits) * weights
        encoded = sum(
            len(self._rows(c for c in self.cells if c.policy == p))
            for p in {c.policy for c in self.cells}
        )
        probed = self.training.protocol == "probe" and self.training.leads == "random"
        learn = self.records["train"] * (self._shown() + (self.windows if probed else 0))
        learn += self.records["val"] * (self._shown() if probed else 0)
        return (
            heads
            + cells
            + (test * encoded + learn + self.records["val"] * self.windows) * (4 * dim + 8)
        )

    def _prepared_bytes(self) -> int:
        """Views of the contract, and the prepared copy where there is none."""
        whole = (
            0
            if self.source == "prepared"
            else 2 * len(LEADS) * round(self.card.records * self.card.fs * self.card.seconds)
        )
        return whole + self.view.nbytes * sum(self.records.values())


def _noise(samples: int, leads: int = len(LEADS)) -> np.ndarray:
    """(leads, samples) float32: noise of 0.3 mV."""
    return (0.3 * rng("estimate", samples).standard_normal((leads, samples))).astype(np.float32)


def _pace() -> float:
    """How much longer than `PACE` a small path of penalties takes, here and now."""
    x = _noise(32, 400)
    target = (x[:, :4] > 0.3).astype(np.int8)
    taken = _seconds(lambda: list(logistic.path(x, target, np.ones(len(x)), PENALTIES)))
    return taken / PACE


def _seconds(work: Callable[[], object]) -> float:
    """Of a second call: the first one warms up."""
    work()
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _stored(job: "Measure", pattern: str, value: Callable[[dict[str, Any]], float]) -> float | None:
    """Mean over what the run folder holds of this model from this device; None where there is
    nothing.
    """
    files = sorted(
        itertools.islice(Path(job.folders.out).glob(pattern.format(folder_name(job.model))), KNOWN)
    )
    notes = [json.loads(file.read_text()) for file in files]
    known = [value(note) for note in notes if note.get("device", job.device) == job.device]
    return float(np.mean(known)) if known else None
