"""Cardio-Learning: the union of eleven collections that HuBERT-ECG learned from, with 164 labels.

E. Coppola et al., medRxiv 2024.11.14.24317328. It cannot be had as one data set: its largest part,
CODE, is given on request only. What is here is its list of labels (labels/cardio_learning.csv, with
a category of ours) and its place in the table of what models were trained on
(`ecgbench.data.contamination`).
Its label columns for Hefei and SPH are known to be wrong in places, so none is derived from it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from ecgbench.core.cards import DatasetCard
from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.recording import Recording
from ecgbench.errors import MissingData

PARTS = (
    *("code", "ptbxl", "sph", "hefei", "ningbo", "chapman"),
    *("georgia", "cpsc2018", "cpsc_extra", "ptb"),
)
"""Of its parts those with a loader of their own; the eleventh is SaMi-Trop."""

CARD = DatasetCard(
    title="Cardio-Learning",
    version="HuBERT-ECG",
    doi="10.1101/2024.11.14.24317328",
    licence="that of each part",
    url="https://github.com/Edoar-do/HuBERT-ECG",
    folder="cardio_learning",
    synthetic=False,
    records=2_400_000,
    patients=1_700_000,
    fs=500.0,
    seconds=10.0,
    leads=LEADS,
    index_files=(),
    tasks=(),
    splits="none: it is not read",
    access="its parts one by one, CODE on request to its owners",
)


def index(root: Path) -> pd.DataFrame:
    """MissingData: it is not read as a whole."""
    raise MissingData(
        f"{CARD.title} is a union that may not be redistributed, and is not read as a whole; its "
        f"parts are: {', '.join(PARTS)}, and SaMi-Trop"
    )


def read(root: Path, row: Mapping[str, Any]) -> Recording:
    """MissingData: see `index`."""
    raise MissingData(f"{CARD.title} is not read as a whole; see ecgbench data facts of its parts")
