"""Estimate of a study before it runs: `ecgbench run --dry-run`. Nothing is written.

The time of a model on a dataset is that of one record of noise, filtered and encoded by the code of
a run at the leads of the missing cells, times the number of records; and of reading the files where
they are not prepared.
"""

import time
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ecgbench import datasets
from ecgbench.cards.cell import Cell
from ecgbench.cards.model import InputContract
from ecgbench.cards.plan import Folders, Plan, Request, plan_of
from ecgbench.core.keys import grouped
from ecgbench.core.parallel import cores
from ecgbench.core.seeds import rng
from ecgbench.core.text import aligned, counted, duration, size
from ecgbench.data import disk
from ecgbench.data.counts import DOWNLOADED, count, in_words
from ecgbench.data.prepare import FEW, MOST
from ecgbench.data.reading import checked_row
from ecgbench.data.select import SPLITS
from ecgbench.data.source import Source, rows, where
from ecgbench.ecg import preprocess
from ecgbench.ecg.draw import bits
from ecgbench.ecg.leads import ALL, LEADS, LeadSubset
from ecgbench.errors import BadWeights, EcgbenchError, WriteError
from ecgbench.evaluate import protocols
from ecgbench.evaluate.protocols.probe import LEAD_DRAWS
from ecgbench.policies.hide import NATIVE, Policy
from ecgbench.study.differences import differences
from ecgbench.study.finished import as_now

if TYPE_CHECKING:
    from ecgbench.evaluate.network import Network

STARTING = 4.0
"""Seconds of a run besides its records: imports, checks and the heads of a small study."""
CELL_BYTES = 30_000
"""Bytes of a cell besides its arrays: names of records, JSON."""
TRIED = 4
"""Records that are read, and sets of leads that are encoded."""
CALLS = 3
"""Of what is timed."""
STEP = 3
"""A window forwards and backwards takes as long as so many that are encoded."""


@dataclass(frozen=True)
class Cost:
    """What the missing cells of one model on one dataset take."""

    seconds: float = 0.0
    run: int = 0
    """Bytes in the run folder."""
    views: int = 0
    """Bytes next to the prepared copy."""
    preparation: str = ""
    """Models of the same one share their views."""
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
    seconds, views = STARTING + sum(c.seconds for c in costs.values()), dict[tuple[str, str], int]()
    for name, (source, records) in counts.items():
        yield in_words(name, records, plan.division, source)
        if source == "prepared":
            yield from (f"  {text}" for text in differences(plan, name, folders))
        else:
            views[name, ""] = disk.bytes_of(datasets.get(name).CARD, sum(records.values()))
        if source == DOWNLOADED:
            spent, unusable = _reading(name, folders, plan.fix, sum(records.values()))
            seconds += spent
            yield from unusable
    table = [("model", "data", "cells", "fits", "time", "disk")]
    for (model, name), cost in costs.items():
        cells, took = of_each[model, name], "" if cost.failed else duration(cost.seconds)
        numbers = str(len(cells)), str(len({c.fit for c in cells})), took, size(cost.run)
        table.append((model, name, *numbers))
        views[name, cost.preparation] = cost.views
    yield from aligned(table, right=range(2, 6))
    failed = [(*key, cost.failed) for key, cost in costs.items() if cost.failed]
    yield from (f"{model} on {name}: it fails: {why}" for model, name, why in failed)
    if skipped := sum(cost.skipped for cost in costs.values()):
        why = "the model cannot read these leads under this policy"
        yield f"{counted(skipped, 'cell')} will be skipped: {why}"
    home, run = where(folders.prepared, folders.data), sum(cost.run for cost in costs.values())
    needed = {folders.out: run, home: sum(views.values())}
    kept = f"up to {size(needed[home])} for prepared signals in {home}"
    yield f"disk: {size(run)} in {folders.out}, {kept}"
    yield from disk.lacking(needed)
    yield (
        f"time: about {duration(seconds)} on {device}{' without what failed' if failed else ''}: "
        f"one record of each model times the records, without scoring and the report; nothing was "
        f"computed"
    )


def _reading(name: str, folders: Folders, fix: bool, records: int) -> tuple[float, list[str]]:
    """Seconds to read and check so many records, by those of a few, and why these cannot be used,
    where none of them can.
    """
    source = Source.of(name, folders.data, folders.prepared, fix)
    few = [*rows(source.index.iloc[:: max(1, len(source.index) // TRIED)])]
    began = time.perf_counter()
    why = [str(checked_row(source, row)[0]["reason"]) for row in few]
    each = (time.perf_counter() - began) / max(1, len(few))
    lost = [f"none of {len(why)} records of {name} that were tried can be used: {''.join(why[:1])}"]
    seconds = each * records / (min(MOST, cores()) if records > FEW else 1)
    return seconds, lost if why and all(why) else []


def _cost(plan: Plan, cells: Sequence[Cell], records: dict[str, int], device: str) -> Cost:
    """Of cells of one model on one dataset, with so many records in each split."""
    from ecgbench.evaluate import network  # torch: seconds, which a finished study need not spend
    from ecgbench.study.work import reason_of

    try:
        fit, precision = cells[0].fit, protocols.of_the_encoder(plan.training)
        net = network.build(fit.model, fit.weights, device, precision)
        contract = net.card.contract(fit.contract)
        reads = [c for c in cells if c.policy != NATIVE or _native(net, contract, c)]
        skipped = len(cells) - len(reads)
        if not reads or not all(records.get(split) for split in SPLITS):
            return Cost(skipped=skipped)
        return replace(_cost_of(net, contract, plan, reads, records), skipped=skipped)
    except (BadWeights, WriteError):
        raise
    except Exception as error:  # a network may raise anything; the run says which cells fail
        if not isinstance(error, EcgbenchError):  # those say all in one line
            traceback.print_exc()
        return Cost(failed=reason_of(error))


def _native(net: "Network", contract: InputContract, cell: Cell) -> bool:
    """Whether a network reads the leads of a cell, and needs no others."""
    return net.card.native and not contract.refuses(LeadSubset.from_bits(_leads(cell)))


def _cost_of(
    net: "Network",
    contract: InputContract,
    plan: Plan,
    cells: Sequence[Cell],
    records: dict[str, int],
) -> Cost:
    """Of cells that the network reads."""
    training, fits, every = plan.training, {c.fit for c in cells}, sum(records.values())
    dataset, _, task = datasets.tasks()[cells[0].task]
    card, dim = datasets.get(dataset).CARD, net.card.dim
    noise = noise_of(round(card.fs * card.seconds))
    filtered = partial(preprocess.view, noise, card.fs, contract.preparation)
    windows, kept = contract.windows(filtered().shape[1]), filtered().nbytes
    # a frozen encoder meets each record once, whichever fold tests it and whichever fit asks
    frozen = protocols.is_frozen(training.protocol)
    folds = len({fit.fold for fit in fits}) if frozen else 1
    asked = grouped(cells, lambda c: (frozen or c.fit, c.policy))
    sets = [(policy, {_leads(c) for c in own}) for (_, policy), own in asked.items()]
    test, one = folds * records["test"] * windows, _seconds(net, contract, contract.policy)
    seconds = every * seconds_of(filtered) + test * sum(
        len(own) * (_seconds(net, contract, policy, own) if policy == NATIVE else one)
        for policy, own in sets
    )
    run = len(cells) * (records["test"] * (9 * len(task.labels) + 4 * dim) + CELL_BYTES)
    if frozen:
        learnt = records["train"] * protocols.learns(training.protocol) + records["val"]
        learnt += records["test"] * (folds > 1)
        shown = training.epochs if protocols.uses(training.protocol, "epochs") else LEAD_DRAWS
        learnt *= shown if training.leads == "random" else windows
        learnt *= len({(fit.policy, fit.shown) for fit in fits})
        seconds += learnt * one
        run += (4 * dim + 8) * (learnt + test * sum(len(own) for _, own in sets))
    else:
        step = STEP if net.card.parameters else 1
        epoch = step * records["train"] + windows * records["val"]
        seconds += len(fits) * training.epochs * epoch * one
        run += len(fits) * sum(t.nbytes for t in net.module.state_dict().values())
    return Cost(seconds, run, every * kept, str(contract.preparation))


def _leads(cell: Cell) -> int:
    """Bit mask of leads such as a cell measures."""
    return int(bits(cell.setting, "record", 1)[0])


def _seconds(
    net: "Network", contract: InputContract, policy: str, masks: Collection[int] = (ALL.bits,)
) -> float:
    """Of a window under a policy, by those of a few sets of leads, or of all where an encoder does
    part of its work for all of them at once.
    """
    from ecgbench.evaluate.batches import SLOTS, serves
    from ecgbench.evaluate.encode import Encoder

    batch = SLOTS if serves(net.device) else 1
    window = noise_of(batch * contract.samples)
    filling = Policy.of(policy, lambda: [window])
    encoder = Encoder(net.encoder, contract, filling, dim=net.card.dim)
    few = 1 if encoder.shares_embeddings else max(1, len(masks) // TRIED)
    wanted = dict.fromkeys(sorted(masks)[::few], np.arange(batch))
    return seconds_of(lambda: encoder(window, wanted)) / (len(wanted) * batch)


def noise_of(samples: int, leads: int = len(LEADS)) -> np.ndarray:
    """(leads, samples) float32: noise of 0.3 mV."""
    return (0.3 * rng("estimate", samples).standard_normal((leads, samples))).astype(np.float32)


def seconds_of(work: Callable[[], object]) -> float:
    """Seconds of a call: the fewest of a few, since the first takes longer and the machine may do
    other work meanwhile.
    """
    spent = []
    for _ in range(CALLS):
        began = time.perf_counter()
        work()
        spent.append(time.perf_counter() - began)
    return min(spent)
