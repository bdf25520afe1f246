"""Estimate of a study before it runs: `ecgbench run --dry-run`. Nothing is written.

Cells are counted. Their time is that of one record, computed by the code of a run, times the number
of records, and of reading the files where they are not prepared; fitting a head and scoring are
not included.
"""

import itertools
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ecgbench import datasets, models
from ecgbench.cards.cell import Cell, Fit
from ecgbench.cards.plan import Folders, Plan, Request, plan_of
from ecgbench.core.keys import grouped
from ecgbench.core.parallel import cores
from ecgbench.core.seeds import rng
from ecgbench.core.text import aligned, counted, duration, size
from ecgbench.data import disk
from ecgbench.data.counts import DOWNLOADED, count, in_words
from ecgbench.data.prepare import FEW, MOST, changed, find
from ecgbench.data.reading import checked_row
from ecgbench.data.select import SPLITS, Selection
from ecgbench.data.source import Source, where
from ecgbench.data.source import rows as rows_of
from ecgbench.ecg import preprocess
from ecgbench.ecg.leads import ALL, LEADS, LeadSubset
from ecgbench.errors import BadRecord, BadWeights, EcgbenchError, MissingData, WriteError
from ecgbench.evaluate import network, protocols, rows
from ecgbench.evaluate.encode import Encoder
from ecgbench.evaluate.protocols.probe import LEAD_DRAWS
from ecgbench.policies.hide import NATIVE, Policy
from ecgbench.study.differences import differences
from ecgbench.study.store import Store
from ecgbench.study.stored import CELL, document_of
from ecgbench.study.work import reason_of
from ecgbench.weights.chosen import of as weights_by

CELL_BYTES = 30_000
"""Bytes of a cell besides its arrays: names of records, JSON."""
TRIED = 4
"""Sets of leads that a record is encoded with, and about how many records are read."""


@dataclass(kw_only=True)
class Stretch:
    """One model on one dataset: the missing cells, and what they take."""

    model: str
    dataset: str
    cells: list[Cell]
    training: float = 0.0
    """Seconds, including the features of training records."""
    evaluation: float = 0.0
    run: int = 0
    """Bytes in the run folder."""
    views: dict[str, int] = field(default_factory=dict)
    """Kind of view -> bytes next to the prepared copy."""
    skipped: int = 0
    """Cells whose leads the model cannot read."""
    failed: str = ""
    """Why there is no estimate of time."""


def lines(request: Request, folders: Folders, device: str) -> Iterator[str]:
    """The study, its datasets, its models, and the total. BadWeights where weights do not fit."""
    plan, tasks, store = plan_of(request), datasets.tasks(), Store(folders.out)
    there = {cell.identity for cell in _as_now(plan, store, folders)}
    missing = [c for c in plan.cells if c.identity not in there]
    groups = grouped(missing, lambda c: (c.fit.model, tasks[c.task][0]))
    parts = [Stretch(model=m, dataset=name, cells=cells) for (m, name), cells in groups.items()]
    sizes = {
        name: count(name, folders.data, folders.prepared, plan.limit, plan.division)
        for name in dict.fromkeys(p.dataset for p in parts)
    }
    for part in parts:
        try:
            _Trial(plan, part, device).fill(sizes[part.dataset][1])
        except (BadWeights, WriteError):
            raise
        except Exception as error:  # a network may raise anything; the run says which cells fail
            if not isinstance(error, EcgbenchError):  # those say all in one line
                traceback.print_exc()
            part.failed = reason_of(error)
    fits = f"{counted(len(plan.fits), 'fit')} ({plan.training.protocol})"
    done = len(plan.cells) - len(missing)
    yield f"{counted(len(plan.cells), 'cell')} of {fits}, {done} of them finished in {folders.out}"
    if not parts:
        yield "nothing is left to compute"
        return
    for name, counts in sizes.items():
        yield from _dataset(plan, name, folders, *counts)
    yield from _table(parts)
    yield from _disk(parts, folders, sizes)
    read = 0.0
    for name, (of, records) in sizes.items():
        if of == DOWNLOADED:
            whole, lost = _reading(name, folders, plan.fix, records)
            read += whole
            yield from lost
    seconds = read + sum(p.training + p.evaluation for p in parts)
    less = " without what failed" if any(p.failed for p in parts) else ""
    read_too = f", {duration(read)} of it to read the files" if read else ""
    yield (
        f"time: about {duration(seconds)} on {device}{read_too}{less}: one record of each model "
        f"times the records, without fitting, scoring and the report; nothing was computed"
    )


def _as_now(plan: Plan, store: Store, folders: Folders) -> Iterator[Cell]:
    """The finished cells whose recordings, labels, model and file of weights are as they are now.
    Of released data that are not prepared all count, since those do not change.
    """
    tasks, networks = datasets.tasks(), store.facts("models")
    of = {(fit.model, fit.weights): _code_and_file(fit) for fit in plan.fits}
    for name, cells in grouped(plan.cells, lambda c: tasks[c.task][0]).items():
        there = [(cell, folder) for cell in cells if (folder := store.folder(cell))]
        done = []
        for cell, folder in there:
            document = document_of(folder, CELL)
            if _stored_code_and_file(document, networks) == of[cell.fit.model, cell.fit.weights]:
                done.append((cell, document))
        try:
            copy = find(name, folders.data, folders.prepared, plan.limit, plan.fix, plan.division)
            if copy.card.any_leads and changed(copy):
                continue
        except (MissingData, BadRecord):
            yield from (cell for cell, _ in done if not datasets.get(name).CARD.any_leads)
            continue
        chosen = Selection(copy, plan.limit, plan.exclude)
        crossed = chosen.crossed(list(dict.fromkeys(cell.fit.fold for cell, _ in done)))
        now: dict[tuple[str, str], tuple[str, str]] = {}
        for cell, document in done:
            which, own = (cell.fit.fold, cell.task), crossed[cell.fit.fold]
            if which not in now:
                now[which] = own.signals, own.labelled(tasks[cell.task][2].columns)
            known = document["key_facts"]
            if (known.get("data"), known.get("records")) == now[which]:
                yield cell


def _code_and_file(fit: Fit) -> tuple[str | None, str | None]:
    """sha256 of the files of a model from outside, and of the file of its weights, if any; of
    weights that are not here the run says what is wrong.
    """
    source, file = None, None
    with suppress(EcgbenchError):
        source = models.ROOM.source_hash(fit.model)
        file = weights_by(fit.model, fit.weights).settled().origin()["sha256"]
    return source, file


def _stored_code_and_file(
    document: Mapping[str, Any], networks: Mapping[str, Mapping[str, Any]]
) -> tuple[str | None, str | None]:
    """The same of a stored cell; networks: facts of the models of its run."""
    facts, network = document.get("key_facts", {}), networks.get(str(document.get("model")), {})
    return facts.get("source"), network.get("weights_source", {}).get("sha256")


def _reading(
    name: str, folders: Folders, fix: bool, records: dict[str, int]
) -> tuple[float, list[str]]:
    """Seconds to read and check so many records, by those of a few, and why these cannot be used,
    where none of them can.
    """
    source = Source.of(name, folders.data, folders.prepared, fix)
    few = source.index.iloc[:: max(1, len(source.index) // TRIED)]
    began = time.perf_counter()
    why = [str(checked_row(source, row)[0]["reason"]) for row in rows_of(few)]
    each, whole = (time.perf_counter() - began) / max(1, len(few)), sum(records.values())
    lost = [f"none of {len(why)} records of {name} that were tried can be used: {why[0]}"]
    seconds = each * whole / (min(MOST, cores()) if whole > FEW else 1)
    return seconds, lost if why and all(why) else []


class _Trial:
    """One record through one model."""

    def __init__(self, plan: Plan, part: Stretch, device: str) -> None:
        self.plan, self.part, self.training = plan, part, plan.training
        fit, precision = part.cells[0].fit, protocols.of_the_encoder(plan.training)
        self.net = network.build(part.model, fit.weights, device, precision)
        self.contract = self.net.card.contract(fit.contract)
        card = datasets.get(part.dataset).CARD
        raw = noise_of(round(card.fs * card.seconds))
        filtered = partial(preprocess.view, raw, card.fs, self.contract.preparation)
        self.view, self.filtering = filtered(), seconds_of(filtered)
        self.warm = False
        """Whether the network has had its first pass."""
        self.filled: dict[str, float] = {}
        """Policy that fills missing leads -> seconds of a window, whichever leads it has."""
        self.windows = self.contract.windows(self.view.shape[1])
        self.record = [(0, "record", self.windows, ALL.bits)]
        self.every = rows.complete(self.record)

    def fill(self, records: dict[str, int]) -> None:
        """Time and disk of the part, with so many records in each split."""
        part, dim = self.part, self.net.card.dim
        frozen = protocols.is_frozen(self.training.protocol)
        cells = [c for c in part.cells if self._reads(c)]
        part.skipped = len(part.cells) - len(cells)
        if not cells or not self.windows or not all(records.get(s) for s in SPLITS):
            return
        fits = list(dict.fromkeys(c.fit for c in cells))
        fitted_to = ("train", "val") if protocols.learns(self.training.protocol) else ("val",)
        test, trained = records["test"], sum(records[split] for split in fitted_to)
        if frozen and (folds := len({fit.fold for fit in fits})) > 1:
            # a frozen encoder meets each record once, whichever fold tests it
            test, trained = test * folds, trained + test
        works = [
            (policy, np.unique(np.concatenate([self._work(c) for c in own])))
            for (_, policy), own in grouped(cells, lambda c: (frozen or c.fit, c.policy)).items()
        ]
        part.evaluation = self.filtering * sum(records.values())
        part.evaluation += test * sum(self._encoding(*work) for work in works)
        windows = test * sum(len(work) for _, work in works)
        if frozen:
            fitted = trained * self._training_windows()
            for policy, _ in {(f.policy or self.contract.policy, f.shown) for f in fits}:
                part.training += self._encoding(policy, self.every) / self.windows * fitted
                windows += fitted
        else:  # a window forwards and backwards takes as long as three that are encoded
            one = self._encoding(self.contract.policy, self.every)
            epoch = records["train"] * 3 * one / self.windows + records["val"] * one
            part.training = len(fits) * self.training.epochs * epoch
        labels = len(datasets.tasks()[cells[0].task][2].labels)
        part.run = len(cells) * (records["test"] * (9 * labels + 4 * dim) + CELL_BYTES)
        weights = sum(t.nbytes for t in self.net.module.state_dict().values())
        part.run += (4 * dim + 8) * windows if frozen else len(fits) * weights
        part.views = {str(self.contract.preparation): sum(records.values()) * self.view.nbytes}

    def _work(self, cell: Cell) -> np.ndarray:
        """Rows of the record that a cell needs."""
        return rows.measured(cell.setting, self.record, self.plan.scoring.draw)

    def _reads(self, cell: Cell) -> bool:
        """Whether the model can read the leads of a cell."""
        if cell.policy != NATIVE or not self.net.card.native:
            return cell.policy != NATIVE
        masks = np.unique(rows.decode(self._work(cell))[2]).tolist()
        return not any(self.contract.refuses(LeadSubset.from_bits(m)) for m in masks)

    def _encoding(self, name: str, work: np.ndarray) -> float:
        """Seconds of one record under a policy, by those of its first few sets of leads."""
        if name in self.filled:
            return self.filled[name] * len(work)
        _, window, mask = rows.decode(work)
        sets = {int(m): window[mask == m] for m in np.unique(mask)}
        policy, singly = Policy.of(name, lambda: [self.view]), self.plan.scoring.draw == "window"
        encoder = Encoder(self.net.encoder, self.contract, policy, singly, self.net.card.dim)
        if not encoder.shares_embeddings:
            sets = dict(itertools.islice(sets.items(), TRIED if name == NATIVE else 1))
        if not self.warm:  # the first pass takes longer
            encoder(self.view, {mask: windows[:1] for mask, windows in [*sets.items()][:1]})
            self.warm = True
        each = seconds_of(lambda: encoder(self.view, sets)) / sum(map(len, sets.values()))
        if not encoder.shares_embeddings and name != NATIVE:
            self.filled[name] = each
        return each * len(work)

    def _training_windows(self) -> int:
        """Windows of a training record that a head is fitted to."""
        if self.training.leads != "random":
            return self.windows
        drawn = protocols.uses(self.training.protocol, "epochs")
        return self.training.epochs if drawn else LEAD_DRAWS


def noise_of(samples: int, leads: int = len(LEADS)) -> np.ndarray:
    """(leads, samples) float32: noise of 0.3 mV."""
    return (0.3 * rng("estimate", samples).standard_normal((leads, samples))).astype(np.float32)


def seconds_of(work: Callable[[], object]) -> float:
    """Seconds of a call."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _dataset(
    plan: Plan, name: str, folders: Folders, source: str, sizes: dict[str, int]
) -> Iterator[str]:
    """Its records, and what its test records can show where their labels are known."""
    yield in_words(name, sizes, plan.division, source)
    if source == "prepared":
        yield from (f"  {text}" for text in differences(plan, name, folders))


def _table(parts: Sequence[Stretch]) -> Iterator[str]:
    rows = [("model", "data", "cells", "fits", "training", "evaluation", "disk")]
    for p in parts:
        counts = str(len(p.cells)), str(len({c.fit for c in p.cells}))
        times = duration(p.training), duration(p.evaluation), size(p.run)
        rows.append((p.model, p.dataset, *counts, *(("", "", "-") if p.failed else times)))
    yield from aligned(rows, right=range(2, 7))
    yield from (f"{p.model} on {p.dataset}: it fails: {p.failed}" for p in parts if p.failed)
    if skipped := sum(p.skipped for p in parts):
        why = "the model cannot read these leads under this policy"
        yield f"{counted(skipped, 'cell')} will be skipped: {why}"


def _disk(
    parts: Sequence[Stretch], folders: Folders, sizes: dict[str, tuple[str, dict[str, int]]]
) -> Iterator[str]:
    views = {(p.dataset, key): n for p in parts for key, n in p.views.items()}
    copies = {
        name: disk.bytes_of(datasets.get(name).CARD, sum(records.values()))
        for name, (source, records) in sizes.items()
        if source != "prepared"
    }
    home = where(folders.prepared, folders.data)
    run, cached = sum(p.run for p in parts), sum(views.values()) + sum(copies.values())
    yield f"disk: {size(run)} in {folders.out}, up to {size(cached)} for prepared signals in {home}"
    if cached > (free := disk.free_bytes(home)):
        yield (
            f"too little disk: {home} has {size(free)} free; ecgbench data prune frees what can "
            f"be made again; --prepared DIR names another place"
        )
