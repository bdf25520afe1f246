"""Recordings in one small file, for a machine that gets a checkout and no WFDB files.

`pack` writes some genuine recordings of PTB-XL at 100 Hz, with labels and folds, into
FOLDER/packed/recordings.npz. As a dataset (`--tasks ./benchmarks/packed.py --data FOLDER`) it has
the task `packed`, the five superclasses.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ecgbench.core.cards import DatasetCard, Task
from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.recording import Recording

LIMIT = 20e6
"""Bytes of the file."""
RECORDS, FS = 600, 100.0
LABELS = ("NORM", "MI", "STTC", "CD", "HYP")
FILE = "recordings.npz"

CARD = DatasetCard(
    title="PTB-XL, a few recordings at 100 Hz",
    version="1.0.3",
    doi="10.13026/kfzx-aw45",
    licence="CC BY 4.0",
    url="https://physionet.org/content/ptb-xl/1.0.3/",
    folder="packed",
    synthetic=False,
    records=RECORDS,
    patients=RECORDS,
    fs=FS,
    seconds=10.0,
    leads=LEADS,
    index_files=(FILE,),
    tasks=(Task(name="packed", title="Superclasses, a few recordings", labels=LABELS),),
    splits="folds 1 to 8, 9 and 10 of PTB-XL",
)


def pack(folder: Path, data: Path | None) -> str:
    """Write the file; one line that says what is in it."""
    from ecgbench.data.source import Source, rows

    source = Source.of("ptbxl", data)
    table = source.index.groupby("split", sort=False).head(RECORDS // 3).reset_index(drop=True)
    columns = source.module.CARD.task("ptbxl_super").columns
    steps = []
    for row in rows(table):
        signal = source.module.read(source.root, row).clinical().signal[:, :5000]
        # means over five samples of 500 Hz: enough for timings, and for a CPU against a GPU
        steps.append(np.round(1000 * signal.reshape(len(LEADS), -1, 5).mean(2)).astype(np.int16))
    to = folder / "packed" / FILE
    to.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        to,
        signal=np.stack(steps),
        target=table[columns].to_numpy(np.int8),
        **{c: table[c].astype(str).to_numpy("U") for c in ("record", "patient", "split")},
    )
    size = to.stat().st_size
    if size > LIMIT:
        raise SystemExit(f"{to} has {size / 1e6:.1f} MB, more than {LIMIT / 1e6:.0f}")
    return f"{to}: {len(table)} recordings, {size / 1e6:.1f} MB"


def index(root: Path) -> pd.DataFrame:
    """One row per record."""
    held = np.load(root / FILE, allow_pickle=False)
    table = pd.DataFrame({c: held[c] for c in ("record", "patient", "split")}, dtype=str)
    labels = pd.DataFrame(held["target"], columns=CARD.task("packed").columns)
    return pd.concat([table.assign(path=FILE), labels], axis=1)


def read(root: Path, row: Mapping[str, Any]) -> Recording:
    """One record in mV."""
    if root not in _SIGNALS:
        held = np.load(root / FILE, allow_pickle=False)
        _SIGNALS[root] = dict(zip(held["record"].tolist(), held["signal"]))
    signal = _SIGNALS[root][row["record"]] / np.float32(1000)
    return Recording(
        signal=signal,
        unit="mV",
        leads=LEADS,
        fs=FS,
        record=row["record"],
        patient=row["patient"],
    )


_SIGNALS: dict[Path, dict[str, np.ndarray]] = {}
"""Read once: the file is compressed as a whole."""
