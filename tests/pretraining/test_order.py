"""Orders of recordings, and the statistical test that docs/pretraining.md ("Streaming") states.

A batch of B recordings is compared with B uniform draws without replacement from all N: how many
of it are of each stratum (the source dataset; the tenth of the source's order; both of them follow
where a recording stands in the source), and how many pairs of it are of one patient. Each batch
gives a p value; p values of batches of many packings are uniform, if batches are such draws.
"""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import chi2, kstest

from ecgbench.pretraining import order
from ecgbench.pretraining.order import Buffered
from ecgbench.pretraining.shards import placement

N, BATCH, BLOCK, BUFFER = 20_000, 100, 32, 2_048
DATASET = np.repeat(np.arange(4), [11_000, 5_000, 3_000, 1_000])
TENTH = np.arange(N) * 10 // N
PATIENT = np.sort(np.random.default_rng(1).integers(0, 6_000, N))
"""Neighbours in the source, three recordings each on average."""

Draw = Callable[[int], np.ndarray]
"""A number -> one batch, as rows of the source; batches of different numbers are independent."""


def streamed(buffer: int = BUFFER, packing: str = "") -> Draw:
    """A batch somewhere in a pass of its own over the stream, each over a packing of its own unless
    that is named.
    """

    def draw(number: int) -> np.ndarray:
        at = np.arange(N) if packing == "as in the source" else placement(packing or str(number), N)
        first = int(np.random.default_rng(number).integers(0, N - BATCH))
        return at[Buffered(N, BLOCK, buffer).rows(first, first + BATCH, ("epoch", number))]

    return draw


def uniform(number: int) -> np.ndarray:
    return np.random.default_rng(number).choice(N, BATCH, replace=False)


def of_strata(strata: np.ndarray, draw: Draw, batches: int = 800) -> np.ndarray:
    """(batch,) p values of the counts of strata against the multivariate hypergeometric law, whose
    covariance is (N - B) / (N - 1) of the multinomial's.
    """
    share = np.bincount(strata) / N
    counts = np.stack([np.bincount(strata[draw(i)], minlength=len(share)) for i in range(batches)])
    distance = ((counts - BATCH * share) ** 2 / (BATCH * share)).sum(1) * (N - 1) / (N - BATCH)
    return chi2.sf(distance, len(share) - 1)


def of_patients(draw: Draw, batches: int = 800) -> np.ndarray:
    """(batch,) p values of the number of pairs of one patient: its rank among uniform draws, ties
    broken by chance.
    """

    def pairs(rows: np.ndarray) -> int:
        met = np.bincount(PATIENT[rows])
        return int((met * (met - 1) // 2).sum())

    law = np.sort([pairs(uniform(10**6 + i)) for i in range(4_000)])
    own = np.array([pairs(draw(i)) for i in range(batches)])
    below, upto = (np.searchsorted(law, own, side) / len(law) for side in ("left", "right"))
    return below + np.random.default_rng(0).random(batches) * (upto - below)


def judged(draw: Draw) -> dict[str, float]:
    """By what is compared: the p value of Kolmogorov and Smirnov that its p values are uniform."""
    found = {
        "dataset": of_strata(DATASET, draw),
        "tenth": of_strata(TENTH, draw),
        "patient": of_patients(draw),
    }
    return {name: float(kstest(p, "uniform").pvalue) for name, p in found.items()}


def test_a_batch_of_the_stream_is_a_uniform_draw_of_records() -> None:
    for draw in (uniform, streamed(), streamed(packing="one")):
        told = judged(draw)
        assert min(told.values()) > 0.001, told


@pytest.mark.parametrize("buffer", [BLOCK, BUFFER])
def test_the_same_test_finds_an_order_without_placement(buffer: int) -> None:
    told = judged(streamed(buffer, "as in the source"))
    assert max(told.values()) < 1e-9, told


def overlaps(block: int, buffer: int, packings: int = 200) -> np.ndarray:
    """How many recordings each batch of one pass shares with each of the next."""
    orders, found, whole = Buffered(N, block, buffer), [], N // BATCH
    for number in range(packings):
        of_batch = np.empty((2, N), np.int64)
        for epoch in (0, 1):
            rows = orders.rows(0, N, ("pass", number, epoch))
            of_batch[epoch, rows] = np.arange(N) // BATCH
        pairs = of_batch[0] * whole + of_batch[1]
        found.append(np.bincount(pairs, minlength=whole**2))
    return np.concatenate(found)


@pytest.mark.parametrize(("block", "buffer"), [(32, 2_048), (256, 2_048), (32, N)])
def test_over_passes_recordings_of_one_block_meet_as_often_as_the_formula_says(
    block: int, buffer: int
) -> None:
    """The mean of the overlap is that of uniform draws, B^2 / N. Its variance is 1 + (B^2 s / n^2)
    (1 - n / N)^2 times theirs, s being the recordings of a block and n those that are shuffled
    together; 1 where those are all.
    """
    met = overlaps(block, buffer)
    assert met.mean() == BATCH**2 / N
    uniform = BATCH**2 / N * (1 - BATCH / N) ** 2 * N / (N - 1)
    n = N / len(Buffered(N, block, buffer).groups(0, N, ("pass", 0, 0)))
    foreseen = 1 + BATCH**2 * block / n**2 * (1 - n / N) ** 2
    assert met.var() / uniform == pytest.approx(foreseen, rel=0.02)


@pytest.mark.parametrize(("records", "block", "buffer"), [(1, 4, 4), (103, 8, 24), (96, 8, 16)])
def test_each_place_has_one_recording_and_needs_no_other_place(
    records: int, block: int, buffer: int
) -> None:
    orders = Buffered(records, block, buffer)
    every = orders.rows(0, records, ("a", 1))
    assert sorted(every.tolist()) == list(range(records))
    for first in range(records):
        for end in range(first + 1, min(first + 20, records) + 1):
            np.testing.assert_array_equal(orders.rows(first, end, ("a", 1)), every[first:end])
    groups = orders.groups(0, records, ("a", 1))
    blocks = [orders.blocks(number, ("a", 1)) for number in groups]
    assert max(map(len, blocks)) * block <= max(buffer, block)
    assert max(map(len, blocks)) - min(map(len, blocks)) <= 1
    assert sorted(np.concatenate(blocks).tolist()) == list(range(-(-records // block)))
    assert len(orders.blocks(groups.stop, ("a", 1))) == 0
    if records > 1:
        assert (every != orders.rows(0, records, ("a", 2))).any()


def test_in_memory_an_order_is_the_permutation_that_it_has_always_been() -> None:
    """Released weights rest on it."""
    assert order.whole(7, ("pre-training order", 3, 0)).tolist() == [3, 1, 2, 6, 5, 4, 0]
    assert order.whole(7, ("codebook records", 1)).tolist() == [0, 1, 5, 4, 6, 2, 3]
