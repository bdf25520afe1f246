"""Two electrodes exchanged: RA/LA, V1/V2."""

from itertools import combinations

import numpy as np

from ecgbench.cards.rooms import PerturbationCard
from ecgbench.ecg.electrodes import ELECTRODES
from ecgbench.ecg.leads import CHEST

LEG = "RL"
"""The right leg, taken to have the potential of the left one."""
CARD = PerturbationCard(
    title="{} exchanged",
    acts_on="electrodes",
    level="two electrodes",
    levels=(
        *("RA/LA", "RA/LL", "LA/LL", f"RA/{LEG}", f"LA/{LEG}"),
        *(f"{a}/{b}" for a, b in combinations(CHEST, 2)),
    ),
    summary="the cables of two electrodes are exchanged; with RL, both legs count as one potential",
    source="algebra of the leads; with RL an approximation",
)


def apply(signal: np.ndarray, fs: float, level: str, random: np.random.Generator) -> np.ndarray:
    """(9, time) potentials after the exchange."""
    first, second = level.split("/")
    made, at = signal.copy(), ELECTRODES.index(first)
    if second == LEG:
        made[at] = signal[ELECTRODES.index("LL")]
        return made
    other = ELECTRODES.index(second)
    made[[at, other]] = signal[[other, at]]
    return made
