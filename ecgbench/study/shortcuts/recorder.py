"""Where and with which device it was recorded, in place of the recording: what a score owes to
patients of one ward being recorded on its own machine.

Each site and each device that has LEAST records is a value of its own, the others are one, and
"not known" is one.
"""

from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
from torch import nn

from ecgbench.cards.model import ModelCard
from ecgbench.study.shortcuts import contract, one_hot

LEAST = 10
MOST = 100
"""Values of a column that are told apart, those with most records."""
OTHER = "\x1f"

CARD = ModelCard(
    title="Site and device",
    summary="where and with which device it was recorded, and nothing of the recording",
    paper="none",
    origin="this project",
    licence="MIT",
    parameters=0,
    dim=2 * (MOST + 2),
    contracts=(contract(fs=100.0),),
    native=True,
    groups={"early": (), "late": ()},
)


def features(people: pd.DataFrame) -> "np.ndarray | str":
    """(record, dim) float32; a sentence where all records are alike in both."""
    columns = [list(people[name]) for name in ("site", "device")]
    if not any(word for column in columns for word in column):
        return "neither site nor device is known of any record"
    if all(len(set(column)) == 1 for column in columns):
        return "all records come from one site and one device"
    return np.hstack([_values(column) for column in columns])


def _values(words: list[str]) -> np.ndarray:
    """(record, MOST + 2): a column per value, those that are rare together, and not known."""
    counts = Counter(word for word in words if word)
    common = [word for word, n in counts.most_common(MOST) if n >= LEAST]
    kinds = [*sorted(common), OTHER, ""]
    spelled = [word if word in common or not word else OTHER for word in words]
    hot = one_hot(spelled, kinds)
    return np.hstack([hot, np.zeros((len(hot), MOST + 2 - len(kinds)), np.float32)])


def build(weights: str | Path | None = None) -> nn.Module:
    """A module without a parameter, which nobody calls."""
    return nn.Identity()
