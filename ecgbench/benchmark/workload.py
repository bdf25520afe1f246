"""What a job will have to do, counted, and how long that takes here, tried on random records. Called in the process of the job."""

import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from ecgbench import models
from ecgbench.adapt import NATIVE, Policy, TrainingSplit
from ecgbench.benchmark.job import Event, Job
from ecgbench.benchmark.plan import all_tasks
from ecgbench.benchmark.work import STOPS, enter
from ecgbench.cards import DatasetCard, InputContract
from ecgbench.cells import Cell, Fit, Places
from ecgbench.datasets import get
from ecgbench.ecg import preprocess
from ecgbench.ecg.draw import Fixed, training_leads
from ecgbench.ecg.leads import ALL, LEADS
from ecgbench.errors import BadRecord, EcgbenchError, MissingData
from ecgbench.inference import network, rows
from ecgbench.inference.encode import Encoder
from ecgbench.prepared.prepare import find
from ecgbench.prepared.source import Source
from ecgbench.prepared.subset import SPLITS, Selection, _quotas
from ecgbench.results.score import draws_of_patients, score
from ecgbench.seeds import rng
from ecgbench.training import finetune, trial
from ecgbench.weights.load import digest

PREPARING = 0.011
"""Seconds per record of ten seconds that is read and checked (PTB-XL, 2,000 records, one core)."""
PUBLISHED = {"train": 0.8, "val": 0.1, "test": 0.1}
"""Shares of the splits where a dataset is not on this machine."""
TRIED = 5
"""Trial records per lead setting, at most."""
DRAWS = 100
"""Bootstrap draws of a trial of scoring."""
CELL_BYTES, CELL_SECONDS = 30_000, 0.1
"""What a cell needs beyond its arrays: records' names, JSON; hashing and flushing eight files."""


@dataclass(frozen=True)
class Census:
    """The records that a run would use."""

    source: str
    """"prepared", "downloaded" or "absent": whether they were counted, or the card's figures taken."""
    index: pd.DataFrame
    """record, split, samples, fs (Hz)."""

    def records(self, contract: InputContract) -> dict[str, list[tuple[int, str, int]]]:
        """Per split position, record and evaluation windows."""
        found: dict[str, list[tuple[int, str, int]]] = {s: [] for s in SPLITS}
        columns = (self.index[c] for c in ("record", "split", "samples", "fs"))
        for i, (record, split, length, rate) in enumerate(zip(*columns)):
            count = contract.windows(contract.preparation.length(int(length), rate))
            if count:
                found[split].append((i, record, count))
        return found


def census(dataset: str, places: Places, limit: int | None) -> Census:
    """Count the records without preparing any."""
    card = get(dataset).CARD
    try:
        return Census("prepared", Selection(find(dataset, places.data, places.prepared), limit).index)
    except (MissingData, BadRecord):
        pass
    try:
        sizes = {str(s): int(n) for s, n in Source.of(dataset, places.data).index["split"].value_counts().items()}
        return Census("downloaded", _invented(card, sizes, limit))
    except (MissingData, BadRecord):
        return Census("absent", _invented(card, {s: round(share * card.records) for s, share in PUBLISHED.items()}, limit))


def _invented(card: DatasetCard, sizes: dict[str, int], limit: int | None) -> pd.DataFrame:
    sizes = sizes if limit is None or limit >= sum(sizes.values()) else _quotas(sizes, limit)
    split = np.repeat(list(sizes), list(sizes.values()))
    names = [f"{i:05d}" for i in range(len(split))]
    return pd.DataFrame({"record": names, "split": split, "samples": round(card.fs * card.seconds), "fs": card.fs})


def measure(job: Job) -> Event:
    """Try a job's model and multiply by its counts; every cell of the job counts as not computed yet.

    Returns {"source", "records": {split: n}, "seconds": {"preparing", "training", "evaluation"}, "disk": {"run", "prepared"}, "skipped"}.
    """
    enter(job.doors)
    return _Trial(job)()


def tried(job: Job) -> Event:
    """`measure`, or {"failed": reason} where the model itself fails; weights that do not match and the like are raised."""
    try:
        return measure(job)
    except STOPS:
        raise
    except Exception as error:  # a stranger's network may raise anything; the run will tell its cells
        traceback.print_exc()
        return {"failed": str(error) if isinstance(error, EcgbenchError) else f"{type(error).__name__}: {error}"}


class _Trial:
    """One model on one dataset."""

    def __init__(self, job: Job) -> None:
        started = time.perf_counter()
        self.job, self.training, self.tasks = job, job.plan.training, all_tasks()
        self.card, self.census = get(job.dataset).CARD, census(job.dataset, job.places, job.plan.limit)
        built = network.build(job.model, job.weights, job.device)
        self.contract = built.card.contract(job.plan.fits[0].contract)
        self.net = built.in_precision(self.training.of_the_encoder, self.contract)
        usual = [(round(self.card.fs * self.card.seconds), self.card.fs), *zip(self.census.index["samples"], self.census.index["fs"])]
        self.samples = max(self.contract.preparation.length(int(n), fs) for n, fs in dict.fromkeys(usual))
        self.records = self.census.records(self.contract)
        self.cells = [c for c in job.plan.cells if not self._skipped(c)]
        self.fits = list(dict.fromkeys(c.fit for c in self.cells))
        if hasten := getattr(models.get(job.model), "hasten", None):
            hasten(self.net.module, sum(w for split in self.records.values() for _, _, w in split))
        digest(self.net.module)
        self.begun = time.perf_counter() - started
        self.learned: dict[str, tuple[Policy, float]] = {}
        self.costs: dict[tuple[str, ...], float] = {}

    def __call__(self) -> Event:
        sizes = {s: len(r) for s, r in self.records.items()}
        told = {"source": self.census.source, "records": sizes, "skipped": len(self.job.plan.cells) - len(self.cells)}
        if not self.cells or not all(sizes.values()):
            return told | {"seconds": {"preparing": 0.0, "training": 0.0, "evaluation": 0.0}, "disk": {"run": 0, "prepared": 0}}
        linear = self.training.protocol == "linear"
        training = self._probed() if linear else len(self.fits) * self._tuned.fit(self.training, sizes["train"], sizes["val"])
        turns = [self.cells] if linear else [[c for c in self.cells if c.fit == f] for f in self.fits]
        encoded = sum(self._encoded(p, cells) for cells in turns for p in dict.fromkeys(c.policy for c in cells))
        scored = sum(self._scored(len(self.tasks[c.task][2].labels)) for c in self.cells)
        seconds = {"preparing": self.begun + self._prepared(), "training": training, "evaluation": encoded + scored}
        return told | {"seconds": seconds, "disk": {"run": self._run_bytes(), "prepared": self._prepared_bytes()}}

    def _skipped(self, cell: Cell) -> bool:
        if cell.policy != NATIVE:
            return False
        if isinstance(cell.setting, Fixed):
            return not self.net.card.native or self.contract.refuses(cell.setting.subset) is not None
        unseen = len(LEADS) - len(self.contract.leads)
        return not self.net.card.native or cell.setting.k <= unseen  # of many records some draw none that the network reads

    def _prepared(self) -> float:
        """Reading and checking where there is no prepared copy, and the contract's filter and rate."""
        raw, spent = trial.signal(round(self.card.fs * self.card.seconds), "raw"), []
        for _ in range(4):
            started = time.perf_counter()
            preprocess.view(raw, self.card.fs, self.contract.preparation)
            spent.append(time.perf_counter() - started)
        count = len(self.census.index)
        whole = 0 if self.census.source == "prepared" else self.card.records
        return count * float(np.mean(spent[1:])) + whole * PREPARING * self.card.seconds / 10

    def _policy(self, name: str) -> tuple[Policy, float]:
        """A policy learned from random records, and the seconds that learning from the training split takes."""
        if name not in self.learned:
            drawn = {f"{i}": trial.signal(self.samples, "policy", i) for i in range(8)}
            started = time.perf_counter()
            policy = Policy.of(name, lambda: TrainingSplit(frozenset(drawn), drawn.items))
            spent = (time.perf_counter() - started) / len(drawn) * len(self.records["train"])
            self.learned[name] = policy, spent if policy.state else 0.0
        return self.learned[name]

    def _encoder(self, policy: str, singly: bool = False) -> Encoder:
        return Encoder(self.net.encoder, self.contract, self._policy(policy)[0], singly, self.net.card.dim)

    def _encoded(self, policy: str, cells: Sequence[Cell]) -> float:
        """Test records under all leads that cells of one policy ask for."""
        test, scoring = self.records["test"], self.job.plan.scoring
        chosen = _spread(test)
        settings = [c.setting for c in _settings(cells, policy)]
        asked = [dict(_wanted(np.concatenate([rows.measured(s, [r], scoring.draw) for s in settings]))) for r in chosen]
        encoder = self._encoder(policy, scoring.draw == "window")
        key = (policy, *map(str, settings))
        if key not in self.costs:  # the fits of a fine-tuning ask for the same
            self.costs[key] = trial.encoding(encoder, self.samples, asked)
        return len(test) * self.costs[key] + self._policy(policy)[1]

    def _probed(self) -> float:
        """Features of the training and validation split, once or for each fit, and the heads."""
        learn, check = self.records["train"], self.records["val"]
        windows = round(np.mean([w for _, _, w in learn]))
        shapes = [(self.net.card.dim, len(self.tasks[f.task][2].labels)) for f in self.fits]
        per_shape = {s: trial.probing(self.training, s, windows, (len(learn), len(check))) for s in dict.fromkeys(shapes)}
        heads = sum(per_shape[s] for s in shapes)
        if self.training.leads == "all":
            asked = [{ALL.bits: np.arange(w)} for _, _, w in _spread(learn)]
            policies = dict.fromkeys(f.policy or self.contract.policy for f in self.fits)
            return heads + sum(trial.encoding(self._encoder(p), self.samples, asked) for p in policies) * (len(learn) + len(check))
        each = dict.fromkeys((f.policy, f.seed) for f in self.fits)
        drawn = [dict(_wanted(np.concatenate(list(self._shown(r))))) for r in _spread(learn)]
        return heads + sum(trial.encoding(self._encoder(p), self.samples, drawn) for p, _ in each) * len(learn)

    def _shown(self, record: tuple[int, str, int]) -> Iterator[np.ndarray]:
        place, name, windows = record
        for epoch in range(self.training.epochs):
            mask = training_leads(self.contract.leads, "train leads", 0, epoch, name)
            yield rows.encode(place, rng("window", 0, epoch, name).integers(windows, size=1), np.array([mask]))

    @cached_property
    def _tuned(self) -> trial.Tuning:
        fit: Fit = self.fits[0]
        fed = finetune.Feeding(card=self.net.card, contract=self.contract, policy=self._policy(fit.policy or self.contract.policy)[0])
        return trial.tuning(self.net, fed, self.training, self.samples, len(self.tasks[fit.task][2].labels))

    def _scored(self, labels: int) -> float:
        """Scoring and storing one cell."""
        key = (f"{labels} labels",)
        if key not in self.costs:
            count, scoring = len(self.records["test"]), self.job.plan.scoring
            drawn, names = rng("trial", "scores"), tuple(map(str, range(labels)))
            target = (drawn.random((count, labels)) < 0.2).astype(np.int8)
            started = time.perf_counter()
            weights = draws_of_patients("trial", [str(i) for i in range(count)], DRAWS, scoring.bootstrap)
            score(names, target, drawn.random((count, labels)), weights)
            self.costs[key] = CELL_SECONDS + (time.perf_counter() - started) * scoring.draws / DRAWS
        return self.costs[key]

    def _run_bytes(self) -> int:
        """Fits, cells and, of a linear run, features, which stay; those of a fine-tuned network are removed after use."""
        dim, test, draws = self.net.card.dim, self.records["test"], self.job.plan.scoring.draws
        labels = {name: len(task.labels) for name, (_, _, task) in self.tasks.items()}
        heads = sum(4 * (dim + 1) * labels[f.task] for f in self.fits)
        cells = sum(len(test) * (9 * labels[c.task] + 4 * dim) + 8 * draws * (1 + labels[c.task]) + CELL_BYTES for c in self.cells)
        if self.training.protocol == "finetune":
            weights = sum(t.numel() * t.element_size() for t in self.net.module.state_dict().values())
            return heads + cells + len(self.fits) * weights
        return heads + cells + self._rows() * (4 * dim + 8)

    def _rows(self) -> int:
        """Rows of features: distinct windows under distinct leads."""
        scoring, test, chosen = self.job.plan.scoring, self.records["test"], _spread(self.records["test"])
        total = 0.0
        for policy in dict.fromkeys(c.policy for c in self.cells):
            wanted = [rows.measured(c.setting, chosen, scoring.draw) for c in _settings(self.cells, policy)]
            total += len(np.unique(np.concatenate(wanted))) * len(test) / len(chosen)
        learn, check = self.records["train"], sum(w for _, _, w in self.records["val"])
        if self.training.leads == "all":
            return round(total) + sum(w for _, _, w in learn) + check
        each = len(dict.fromkeys((f.policy, f.seed) for f in self.fits))
        return round(total) + each * (self.training.epochs * len(learn) + check)

    def _prepared_bytes(self) -> int:
        """Views of the contract, and the prepared copy where there is none."""
        whole = 0 if self.census.source == "prepared" else 2 * len(LEADS) * round(self.card.records * self.card.fs * self.card.seconds)
        return whole + 4 * len(LEADS) * self.samples * len(self.census.index)


def _settings(cells: Sequence[Cell], policy: str) -> list[Cell]:
    """Cells of one policy, one for each lead setting."""
    return list({str(c.setting): c for c in cells if c.policy == policy}.values())


def _spread(records: list[tuple[int, str, int]]) -> list[tuple[int, str, int]]:
    return records[:: max(1, len(records) // TRIED)][:TRIED]


def _wanted(codes: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    _, window, mask = rows.decode(np.unique(codes))
    for m in np.unique(mask):
        yield int(m), window[mask == m]
