"""Half known: waves with labels that were not looked for in every record. It enters as
`--tasks ./half_known.py`.

What was not looked for is -1 in the index, and the task says so with `masked=True`. `again` is
`tall` once more, and every record with `steep` has `quick` too.
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

FS, SECONDS = 100.0, 3.0
SPLITS = {"train": 60, "val": 20, "test": 40}
LABELS = ("shifted", "tall", "again", "steep", "quick")
LOOKED_FOR = {"shifted": 1.0, "tall": 0.6, "steep": 0.8}
"""Share of the records that a finding was looked for in; `again` with `tall`, `quick` with
`steep`.
"""
OPPOSITE = False
"""Whether what was not looked for is the opposite of what it is: nobody must notice."""
TASK = Task(
    name="half_known",
    title="Half known",
    labels=LABELS,
    absent="looked for and not there",
    masked=True,
)
PART = Task(name="part", title="Part", labels=("tall",), parent="half_known", masked=True)
CARD = DatasetCard(
    title="Half known",
    version="1",
    doi="",
    licence="none",
    url="",
    folder="",
    synthetic=True,
    records=sum(SPLITS.values()),
    patients=sum(SPLITS.values()),
    fs=FS,
    seconds=SECONDS,
    leads=LEADS,
    index_files=(),
    verified="generated",
    tasks=(TASK, PART),
    splits="fixed",
)


def truth(record: str) -> dict[str, bool]:
    """What a record shows."""
    shifted, tall, quick, steep = rng("truth", record).random(4) < [0.3, 0.4, 0.5, 0.5]
    return dict(zip(LABELS, (shifted, tall, tall, steep and quick, quick)))


def index(root: Path | None) -> pd.DataFrame:
    """One row per record; the labels -1 where they were not looked for."""
    rows = []
    for number, split in enumerate(s for s, n in SPLITS.items() for _ in range(n)):
        record = f"H{number:03d}"
        row: dict[str, Any] = {"record": record, "patient": f"P{number}", "split": split}
        found = truth(record)
        for label, column in zip(LABELS, TASK.columns):
            finding = {"again": "tall", "quick": "steep"}.get(label, label)
            looked_for = rng("looked for", finding, record).random() < LOOKED_FOR[finding]
            is_so = found[label] != (OPPOSITE and not looked_for)
            row[column] = int(is_so) if looked_for else -1
        rows.append(row)
    return pd.DataFrame(rows)


def read(root: Path | None, row: Mapping[str, Any]) -> Recording:
    """Waves that are taller, quicker, sharper or shifted, with noise."""
    record, found = row["record"], truth(row["record"])
    noise, time = rng("noise", record), np.arange(int(FS * SECONDS)) / FS
    wave = np.sin(2 * np.pi * (1.5 if found["quick"] else 1.0) * time + noise.uniform(0, 6))
    wave = np.cbrt(wave) if found["steep"] else wave
    wave = (1.3 if found["tall"] else 1.0) * wave + 0.2 * found["shifted"]
    signal = wave + noise.normal(0, 0.5, (len(LEADS), len(time)))
    return Recording(
        signal=signal.astype(np.float32),
        unit="mV",
        leads=LEADS,
        fs=FS,
        record=record,
        patient=row["patient"],
    )
