"""Baselines that know little of a recording: each file is a model plug-in, which
`ecgbench run --controls` enters by its path.

A file of one that reads what tables say of a recording, not its signal, has `features(people)`: a
table of `data.people` -> (record, dim) float32, or why there is nothing to know.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from ecgbench.cards.model import InputContract, reference_feeding
from ecgbench.ecg.leads import LEADS

SECONDS = 10.0


def path(name: str) -> Path:
    """The file of a shortcut."""
    return Path(__file__).with_name(f"{name}.py")


def contract(fs: float) -> InputContract:
    """How a shortcut is fed: no record is too short, none is filtered."""
    fed = reference_feeding(fs=fs, seconds=SECONDS, leads=LEADS)
    return replace(fed, policy="native", absent="nothing", short="edge")


def one_hot(words: list[str], kinds: list[str]) -> np.ndarray:
    """(record, kind) float32; zeros where a word is of no kind."""
    return np.array([[word == kind for kind in kinds] for word in words], np.float32)
