"""NAME: noise of your own recorder, or anything else that happens to a signal.

Try it:  ecgbench check perturbation NAME
Run it:  ecgbench run --models laef --leads I,12 --perturb NAME@12
"""

import numpy as np

from ecgbench.cards.rooms import PerturbationCard

CARD = PerturbationCard(
    title="NAME, {} dB",  # in tables; {} is the level
    # what apply() receives and gives:
    #   noise       potentials (9, time) mV -> noise of any size; the level makes it as large
    #   electrodes  potentials (9, time) of RA, LA, LL, V1 ... V6 -> the same; a row of NaN is off
    #   leads       (12, time) mV, NaN in rows of leads that were not measured -> the same
    #   time        the same -> (12, other time)
    acts_on="noise",
    level="signal-to-noise ratio in dB",
    levels=("12", "6"),  # tried by check
    range=(-30.0, 100.0),  # of a number; leave it out where levels are names
    summary="a slow random walk at every electrode",
    source="where it comes from",
)


def apply(signal: np.ndarray, fs: float, level: float, random: np.random.Generator) -> np.ndarray:
    """random: take every random number from it, so that all models meet the same noise."""
    steps = random.standard_normal(signal.shape) / np.sqrt(fs)
    return steps.cumsum(axis=1)
