"""Features of the windows of many records together, for a GPU, which one record does not keep busy.

Every batch has SLOTS windows with equally many leads, and the slot of a window follows from its
record alone. So the shape of a batch, and the order of every sum, is always the same: the features
of a window depend on itself and its slot, not on the other windows. A resumed, extended or repeated
run gives the same numbers, as without batches. `steady` tests whether a network on its device has
this property.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ecgbench.core.prefetch import GPU_THREADS, prefetched
from ecgbench.core.seeds import rng
from ecgbench.ecg.leads import LeadSubset
from ecgbench.evaluate.encode import Encoder, demand_finite
from ecgbench.evaluate.rows import decode
from ecgbench.policies.hide import NATIVE

SLOTS = 256
"""Windows of a batch. Part of every key of features computed this way."""
TOLERANCE = 1e-5
"""Of max(1, max|features|), where the order of sums may differ: batches, permutations."""


def serves(device: str) -> bool:
    """Whether features are computed this way on a device. A CPU gains nothing by it."""
    return device != "cpu"


def first_slots(windows: Sequence[int]) -> np.ndarray:
    """(record,) the slot of each record's first window, by the windows of the records in their
    fixed order.

    >>> first_slots([2, 2, 255, 1]).tolist()
    [0, 2, 4, 3]
    """
    counts = np.asarray(windows, np.int64)
    return (counts.cumsum() - counts) % SLOTS


def batches(rows: np.ndarray, slots: np.ndarray, leads: np.ndarray) -> list[np.ndarray]:
    """Rows of work (`evaluate.rows`) -> for each batch its rows, no two of them in one slot.

    leads (row,): number of leads that the network reads of each.
    """
    position, window, _ = decode(rows)
    slot = (slots[position] + window) % SLOTS
    table = pd.DataFrame({"row": rows, "slot": slot, "leads": leads}).sort_values("row")
    # the first row of each slot is in the first batch, the second in the second, ...
    turn = table.groupby(["leads", "slot"]).cumcount()
    return [batch.to_numpy() for _, batch in table["row"].groupby([table["leads"], turn])]


def encoded(
    encoder: Encoder,
    view: Callable[[int], np.ndarray],
    rows: np.ndarray,
    slots: np.ndarray | None,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows of work and their features (row, dim) float32, part by part, each row once.

    view: position of a record -> (12, time) mV at the contract's rate; called from several threads.
    slots (position,): see `first_slots`; None: record by record, each by itself. LeakError and
    EcgbenchError as of `Encoder`.
    """
    if slots is None:
        yield from _by_record(encoder, view, rows)
        return
    if encoder.policy.name == NATIVE:
        every = LeadSubset.of(*encoder.contract.leads).bits
        leads = np.bitwise_count(decode(rows)[2] & every).astype(int)
    else:
        leads = np.full(len(rows), len(encoder.contract.leads))

    def ready(part: np.ndarray) -> tuple[np.ndarray, np.ndarray, Tensor, Tensor]:
        position, window, _ = decode(part)
        slot = (slots[position] + window) % SLOTS
        return part, slot, *_batch(encoder, view, part, slot)

    ordered = batches(rows, slots, leads)
    for part, slot, signal, measured in prefetched(ready, ordered, GPU_THREADS):
        with torch.inference_mode():
            features = encoder.pooled(encoder.network(signal, measured), SLOTS).numpy()[slot]
        for broken in np.flatnonzero(~np.isfinite(features).all(axis=1)):
            demand_finite(features[broken], int(decode(part)[2][broken]))
        yield part, features


def _by_record(
    encoder: Encoder, view: Callable[[int], np.ndarray], rows: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    position, window, mask = decode(rows)
    for mine in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(position)) + 1):
        if len(mine):
            seen = mask[mine]
            wanted = {int(m): window[mine][seen == m] for m in np.unique(seen)}
            features = encoder(view(int(position[mine[0]])), wanted)
            order = np.concatenate([rows[mine][seen == m] for m in features])
            yield order, np.concatenate(list(features.values()))


def _batch(
    encoder: Encoder, view: Callable[[int], np.ndarray], part: np.ndarray, slot: np.ndarray
) -> tuple[Tensor, Tensor]:
    """The rows of a batch in their slots: signal (SLOTS, lead, sample), measured (SLOTS, lead).

    A slot without a row holds 0 in as many leads as the others have.
    """
    contract = encoder.contract
    signal = np.zeros((SLOTS, len(contract.leads), contract.received), np.float32)
    measured = np.zeros((SLOTS, len(contract.leads)), bool)
    position, window, masks = decode(part)
    # rows of one record stand together, and of one set of leads among them
    ends = np.flatnonzero(np.diff(position) | np.diff(masks)) + 1
    for these in np.split(np.arange(len(part)), ends):
        seen = view(int(position[these[0]]))
        windows, there = encoder.inputs(seen, int(masks[these[0]]), window[these])
        signal[slot[these]], measured[slot[these]] = windows, there
    empty = np.setdiff1d(np.arange(SLOTS), slot)
    measured[empty, : int(measured[slot[0]].sum())] = True
    return torch.from_numpy(signal), torch.from_numpy(measured)


@torch.inference_mode()
def steady(encoder: Encoder) -> bool:
    """Whether a window's features are identical next to other windows, with as many leads as the
    network reads, and with one where it reads any subset.
    """
    contract = encoder.contract
    shape = SLOTS, len(contract.leads), contract.received
    signal = torch.from_numpy(rng("places of a batch").normal(size=shape).astype(np.float32))
    even = torch.arange(SLOTS) % 2 == 0
    native = encoder.policy.name == NATIVE
    for leads in sorted({1, 2, shape[1] // 2, shape[1]}) if native else [shape[1]]:
        measured = torch.zeros(shape[:2], dtype=torch.bool)
        measured[:, :leads] = True
        full = encoder.pooled(encoder.network(signal, measured), SLOTS)
        for kept in (even, ~even):
            alone = torch.where(kept[:, None, None], signal, torch.zeros(()))
            half = encoder.pooled(encoder.network(alone, measured), SLOTS)
            if not torch.equal(full[kept], half[kept]):
                return False
    return True


@torch.inference_mode()
def repeats(encoder: Encoder) -> bool:
    """Whether two passes over one input give the same features, but for the order of sums."""
    contract = encoder.contract
    shape = 1, len(contract.leads), contract.received
    x = torch.from_numpy(rng("conformance", "again").standard_normal(shape).astype(np.float32))
    measured = torch.ones(shape[:2], dtype=torch.bool)
    one, other = (encoder.pooled(encoder.network(x.clone(), measured), 1) for _ in range(2))
    limit = TOLERANCE * max(1.0, float(one.abs().max()))
    # what is not finite is told by whoever computes it
    return not float((one - other).abs().max()) > limit


@torch.inference_mode()
def alone_and_together(encoder: Encoder, tolerance: float = TOLERANCE) -> tuple[float, float]:
    """The largest difference between features of three windows computed one by one and as one
    batch, also with mixed sets of leads; and its limit.
    """
    contract = encoder.contract
    shape = 3, len(contract.leads), contract.received
    x = 0.3 * torch.from_numpy(
        rng("conformance", "batch").standard_normal(shape).astype(np.float32)
    )
    measured = torch.ones(shape[:2], dtype=torch.bool)
    if encoder.policy.name == NATIVE:
        measured[1, 1:], measured[2, ::2] = False, False

    def features(part: slice) -> Tensor:
        given = x[part].clone(), measured[part].clone()  # a network may write into its input
        return encoder.pooled(encoder.network(*given), len(given[0]))

    together, alone = features(slice(3)), torch.cat([features(slice(i, i + 1)) for i in range(3)])
    limit = tolerance * max(1.0, float(alone.abs().max()))
    return float((together - alone).abs().max()), limit
