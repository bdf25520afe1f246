"""Estimate of a study before it runs: `ecgbench run --dry-run`. Nothing is written.

The time of a model on a dataset is that of one window of noise, encoded by the code of a run at the
leads of the missing cells, times the number of windows.
"""

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ecgbench import datasets
from ecgbench.cards.cell import Cell
from ecgbench.cards.plan import Folders, Plan, Request, plan_of
from ecgbench.core.keys import grouped
from ecgbench.core.seeds import rng
from ecgbench.core.text import aligned, counted, duration, size
from ecgbench.data import disk
from ecgbench.data.counts import count, in_words
from ecgbench.data.select import SPLITS
from ecgbench.data.source import where
from ecgbench.ecg.draw import bits
from ecgbench.ecg.leads import ALL, LEADS, LeadSubset
from ecgbench.errors import BadWeights, EcgbenchError, WriteError
from ecgbench.evaluate import protocols
from ecgbench.evaluate.protocols.probe import LEAD_DRAWS
from ecgbench.policies.hide import NATIVE, Policy
from ecgbench.study.finished import as_now

if TYPE_CHECKING:
    from ecgbench.evaluate.network import Network

STARTING, PREPARING = 4.0, 0.01
"""Seconds of a run besides its records: imports, checks and the heads of a small study; and of a
record that is read and filtered.
"""
CELL_BYTES = 30_000
"""Bytes of a cell besides its arrays: names of records, JSON."""
TRIED = 4
"""Sets of leads that are encoded."""
STEP = 3
"""A window forwards and backwards takes as long as so many that are encoded."""


class Cost(NamedTuple):
    """What the missing cells of one model on one dataset take."""

    seconds: float = 0.0
    run: int = 0
    """Bytes in the run folder."""
    views: int = 0
    """Bytes next to the prepared copy."""
    skipped: int = 0
    """Cells whose leads the model cannot read."""
    failed: str = ""
    """Why there is no estimate."""


def lines(request: Request, folders: Folders, device: str) -> Iterator[str]:
    """The study, its datasets, its models, and the total. BadWeights where weights do not fit."""
    plan, tasks = plan_of(request), datasets.tasks()
    there = {cell.identity for cell in as_now(plan, folders)}
    missing = [c for c in plan.cells if c.identity not in there]
    of_each = grouped(missing, lambda c: (c.fit.model, tasks[c.task][0]))
    counts = {
        name: count(name, folders.data, folders.prepared, plan.limit, plan.division)
        for name in dict.fromkeys(name for _, name in of_each)
    }
    costs = {key: _cost(plan, own, counts[key[1]][1], device) for key, own in of_each.items()}
    fits = f"{counted(len(plan.fits), 'fit')} ({plan.training.protocol})"
    done = len(plan.cells) - len(missing)
    yield f"{counted(len(plan.cells), 'cell')} of {fits}, {done} of them finished in {folders.out}"
    if not missing:
        yield "nothing is left to compute"
        return
    signals = sum(cost.views for cost in costs.values())
    for name, (source, records) in counts.items():
        yield in_words(name, records, plan.division, source)
        if source == "prepared":
            from ecgbench.study.differences import differences  # scipy: a third of a second

            yield from (f"  {text}" for text in differences(plan, name, folders))
        else:
            signals += disk.bytes_of(datasets.get(name).CARD, sum(records.values()))
    table = [("model", "data", "cells", "fits", "time", "disk")]
    for key, cost in costs.items():
        numbers = str(len(of_each[key])), str(len({c.fit for c in of_each[key]}))
        took = "" if cost.failed else duration(cost.seconds)
        table.append((*key, *numbers, took, size(cost.run)))
    yield from aligned(table, right=range(2, 6))
    failed = {key: cost.failed for key, cost in costs.items() if cost.failed}
    yield from (f"{model} on {name}: it fails: {why}" for (model, name), why in failed.items())
    if skipped := sum(cost.skipped for cost in costs.values()):
        why = "the model cannot read these leads under this policy"
        yield f"{counted(skipped, 'cell')} will be skipped: {why}"
    home, run = where(folders.prepared, folders.data), sum(cost.run for cost in costs.values())
    kept = f"up to {size(signals)} for prepared signals in {home}"
    yield f"disk: {size(run)} in {folders.out}, {kept}"
    yield from disk.lacking({folders.out: run, home: signals})
    seconds = duration(STARTING + sum(cost.seconds for cost in costs.values()))
    yield (
        f"time: about {seconds} on {device}{' without what failed' if failed else ''}: one window "
        f"of each model times the windows, without scoring and the report; nothing was computed"
    )


def _cost(plan: Plan, cells: Sequence[Cell], records: dict[str, int], device: str) -> Cost:
    """Of cells of one model on one dataset, with so many records in each split."""
    from ecgbench.evaluate import network  # torch: seconds, which a finished study need not spend
    from ecgbench.study.work import reason_of

    try:
        fit, precision = cells[0].fit, protocols.of_the_encoder(plan.training)
        net = network.build(fit.model, fit.weights, device, precision)
        refuses = net.card.contract(fit.contract).refuses
        reads = [
            c
            for c in cells
            if c.policy != NATIVE
            or (net.card.native and not refuses(LeadSubset.from_bits(_leads(c))))
        ]
        skipped = len(cells) - len(reads)
        if not reads or not all(records.get(split) for split in SPLITS):
            return Cost(skipped=skipped)
        return _cost_of(net, plan, reads, records)._replace(skipped=skipped)
    except (BadWeights, WriteError):
        raise
    except Exception as error:  # a network may raise anything; the run says which cells fail
        if not isinstance(error, EcgbenchError):  # those say all in one line
            traceback.print_exc()
        return Cost(failed=reason_of(error))


def _cost_of(net: "Network", plan: Plan, cells: Sequence[Cell], records: dict[str, int]) -> Cost:
    """Of cells that the network reads."""
    training, fits, dim = plan.training, {c.fit for c in cells}, net.card.dim
    dataset, _, task = datasets.tasks()[cells[0].task]
    card, contract = datasets.get(dataset).CARD, net.card.contract(cells[0].fit.contract)
    samples, every = round(card.seconds * contract.fs), sum(records.values())
    windows = contract.windows(samples)
    # a frozen encoder meets each record once, whichever fold tests it and whichever fit asks
    frozen = protocols.is_frozen(training.protocol)
    folds = len({fit.fold for fit in fits}) if frozen else 1
    sets = {(frozen or c.fit, c.policy, _leads(c)) for c in cells}
    masks = sorted({*map(_leads, cells)})
    one, each = (_seconds(net, cells, own) for own in ([ALL.bits], masks))
    test = folds * records["test"] * windows * len(sets)
    run = len(cells) * (records["test"] * (9 * len(task.labels) + 4 * dim) + CELL_BYTES)
    seconds = test * each + every * PREPARING
    if frozen:
        learnt = records["train"] * protocols.learns(training.protocol) + records["val"]
        learnt += records["test"] * (folds > 1)
        shown = training.epochs if protocols.uses(training.protocol, "epochs") else LEAD_DRAWS
        learnt *= shown if training.leads == "random" else windows
        learnt *= len({(fit.policy, fit.shown) for fit in fits})
        seconds += learnt * one
        run += (4 * dim + 8) * (learnt + test)
    else:
        epoch = (STEP if net.card.parameters else 1) * records["train"] + windows * records["val"]
        seconds += len(fits) * training.epochs * epoch * one
        run += len(fits) * sum(t.nbytes for t in net.module.state_dict().values())
    return Cost(seconds, run, every * 4 * len(LEADS) * samples)


def _leads(cell: Cell) -> int:
    """Bit mask of leads such as a cell measures."""
    return int(bits(cell.setting, "record", 1)[0])


def _seconds(net: "Network", cells: Sequence[Cell], masks: Sequence[int]) -> float:
    """Of a window at one set of leads, by those of a few, or of all where an encoder does part of
    its work for all of them at once.
    """
    from ecgbench.evaluate.batches import SLOTS, serves
    from ecgbench.evaluate.encode import Encoder

    contract, batch = net.card.contract(cells[0].fit.contract), SLOTS if serves(net.device) else 1
    window = noise_of(batch * contract.samples)
    filling = Policy.of(cells[0].policy, lambda: [window])
    encoder = Encoder(net.encoder, contract, filling, dim=net.card.dim)
    few = masks if encoder.shares_embeddings else masks[:: max(1, len(masks) // TRIED)]
    wanted = dict.fromkeys(few, np.arange(batch))
    return seconds_of(lambda: encoder(window, wanted)) / (len(wanted) * batch)


def noise_of(samples: int) -> np.ndarray:
    """(12, samples) float32: noise of 0.3 mV."""
    noise = rng("estimate", samples).standard_normal((len(LEADS), samples))
    return (0.3 * noise).astype(np.float32)


def seconds_of(work: Callable[[], object]) -> float:
    """Seconds of a call: the fewer of two, since the first takes longer."""
    spent = []
    for _ in range(2):
        began = time.perf_counter()
        work()
        spent.append(time.perf_counter() - began)
    return min(spent)
