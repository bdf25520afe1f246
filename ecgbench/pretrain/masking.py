"""What a step of masked node modelling hides: the leads that a record shows, the nodes that are
masked, the edges that are dropped.

Everything follows from (seed, step, position of the record in the step's batch): batches may be
split over any number of processes and passes, and a resumed run draws what an uninterrupted one
would have drawn.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ecgbench.core.seeds import rng
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import BadSetting

NODES = 20
"""Nodes of a lead of 5 s, unless the network makes others: as many as the descriptors have
segments.
"""
MASKED = 0.40
"""Share of the nodes of every lead that is masked (paper, "Masking ratio")."""
EDGE_DROP = 0.2
"""Probability that an edge within a lead is left out in the second stage (paper, "Edge dropout and
codebook interaction").
"""

Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Draw:
    """What some records of one step show."""

    measured: Bools
    """(record, 12): L uniform on 1..12, then L leads without replacement."""
    masked: Bools
    """(record, 12, node): equally many in every lead that is shown, none in the others."""
    dropped: Bools | None
    """(record, 12, node, node): True at [r, l, t, s] where node t does not hear node s of its lead;
    None without edge drop.
    """


def masked_nodes(ratio: float, nodes: int = NODES) -> int:
    """round(ratio * nodes), the masked nodes of each lead. BadSetting where that masks none or
    leaves none to see.

    >>> masked_nodes(0.40)
    8
    """
    count = round(ratio * nodes) if 0 < ratio < 1 else 0
    if not 0 < count < nodes:
        raise BadSetting(
            f"a masking ratio of {ratio} masks {count} of {nodes} nodes per lead; the paper's is "
            f"{MASKED}"
        )
    return count


def draw(  # noqa: PLR0913  (each is a choice of a stage)
    seed: int,
    step: int,
    positions: Sequence[int],
    ratio: float = MASKED,
    edge_drop: float = 0.0,
    nodes: int = NODES,
    every: bool = False,
) -> Draw:
    """What the records at `positions` of the batch of `step` show, in that order.

    positions: places in the batch of the whole step, e.g. range(64, 128) for the second of several
    processes; a range costs what its records cost. every: all leads are shown; what is masked in
    them stays as it is. edge_drop: probability of each directed edge between different nodes of a
    lead, 0 draws none. BadSetting: a ratio that masks no or every node.

    >>> bool((draw(0, 7, [5, 3]).masked[1] == draw(0, 7, range(448)).masked[3]).all())
    True
    """
    count, leads = masked_nodes(ratio, nodes), len(LEADS)
    at = np.asarray(positions, np.int64)
    numbers = _uniform(("masked nodes", seed, step), at, 1 + leads + leads * nodes)
    shown = np.full_like(at, leads)[:, None] if every else 1 + (numbers[:, :1] * leads).astype(int)
    measured = _lowest(numbers[:, 1 : 1 + leads], shown)
    masked = (
        _lowest(numbers[:, 1 + leads :].reshape(-1, leads, nodes), np.array(count))
        & measured[..., None]
    )
    if not edge_drop:
        return Draw(measured, masked, None)
    dropped = (
        _uniform(("edge drop", seed, step), at, leads * nodes**2).reshape(-1, leads, nodes, nodes)
        < edge_drop
    )
    dropped[..., np.arange(nodes), np.arange(nodes)] = False
    return Draw(measured, masked, dropped)


def _uniform(
    words: tuple[str | int, ...], at: NDArray[np.int64], width: int
) -> NDArray[np.float64]:
    """(len(at), width) numbers in [0, 1): rows `at` of an endless table named by `words`.

    The generator jumps to the first row that is wanted, for one number takes one step of it.
    """
    if not len(at):
        return np.empty((0, width))
    first = int(at.min())
    generator = rng(*words)
    generator.bit_generator.advance(first * width)  # type: ignore[attr-defined]
    return generator.random((int(at.max()) + 1 - first, width))[at - first]


def _lowest(keys: NDArray[np.float64], count: NDArray[np.int64]) -> Bools:
    """True at the `count` smallest keys along the last axis: as many places at random, without
    replacement.
    """
    ranked = np.broadcast_to(np.arange(keys.shape[-1]) < count, keys.shape)
    chosen = np.empty(keys.shape, bool)
    np.put_along_axis(chosen, keys.argsort(-1), ranked, -1)
    return chosen
