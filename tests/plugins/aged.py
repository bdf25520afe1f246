"""Aged: generated recordings with two planted relations. Whether a patient is "old" stands in the
table of ages and nowhere in the signal; whether a recording is "loud" stands in the signal alone.

Enters as `--tasks tests/plugins/aged.py`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ecgbench.cards.dataset import DatasetCard, Task
from ecgbench.core.seeds import rng
from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.recording import Recording

RECORDS = 140
TEST = 60

CARD = DatasetCard(
    title="Aged",
    version="1",
    doi="",
    licence="MIT",
    url="",
    folder="",
    synthetic=True,
    records=RECORDS,
    patients=RECORDS,
    fs=100.0,
    seconds=2.5,
    leads=LEADS,
    index_files=(),
    tasks=(
        Task(name="aged_old", title="Old", labels=("old",)),
        Task(name="aged_loud", title="Loud", labels=("loud",)),
    ),
    splits="fixed: 65 train, 15 val, 60 test",
)


def index(root: Path | None) -> pd.DataFrame:
    """One row per record: record, patient, split, age, sex and a column per label."""
    age = rng("aged", "age").uniform(20, 90, RECORDS)
    return pd.DataFrame(
        {
            "record": [f"R{i:03d}" for i in range(RECORDS)],
            "patient": [f"P{i:03d}" for i in range(RECORDS)],
            "split": [*["train"] * 65, *["val"] * 15, *["test"] * TEST],
            "age": [f"{years:.1f}" for years in age],
            "sex": ["F", "M"] * (RECORDS // 2),
            "aged_old:old": (age > 55).astype(np.int8),
            "aged_loud:loud": rng("aged", "loud")
            .permutation(np.arange(RECORDS) % 2)
            .astype(np.int8),
        }
    )


def read(root: Path | None, row: Mapping[str, Any]) -> Recording:
    """Noise, of which lead V1 is ten times as strong where the record is loud."""
    signal = 0.1 * rng("aged", row["record"]).standard_normal((12, 250))
    signal[LEADS.index("V1")] *= 10 if row["aged_loud:loud"] else 1
    return Recording(
        signal=signal.astype(np.float32),
        unit="mV",
        leads=LEADS,
        fs=CARD.fs,
        record=row["record"],
        patient=row["patient"],
    )
