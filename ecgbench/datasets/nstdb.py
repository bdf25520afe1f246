"""MIT-BIH Noise Stress Test Database: three half-hour recordings of noise, two channels at 360 Hz.

G. B. Moody, W. E. Muldrow, R. G. Mark, Computers in Cardiology 1984;11:381-384; PhysioNet nstdb
1.0.0, doi 10.13026/C2HS3T. Of volunteers in motion, at places on the limbs where no ECG was seen:

    nstdb/bw.{hea,dat}   baseline wander       WFDB format 212; the headers state a gain of 0, which
    nstdb/em.{hea,dat}   electrode motion      means not calibrated: 200 steps per mV by convention
    nstdb/ma.{hea,dat}   muscle

It holds no ECG, so no task and no run reads it. The perturbations bw, em and ma come with its first
ten minutes; `noise` reads all of it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ecgbench.datasets._cards import card, manifest
from ecgbench.ecg.readers import wfdb
from ecgbench.ecg.recording import Recording
from ecgbench.errors import MissingData

KINDS = ("bw", "em", "ma")
GAIN = 200.0
"""Digital steps per mV, of a signal that states none (the WFDB convention)."""
CARD = card("nstdb")
MANIFEST = manifest("nstdb")


NO_ECG = (
    f"{CARD.title} is noise, no ECG, and is not prepared; to add it to test recordings: "
    f"ecgbench run --perturb em@6"
)


def noise(root: Path, kind: str) -> np.ndarray:
    """(2, 650000) float32 in mV at 360 Hz: both channels of bw, em or ma in the folder `root`;
    BadRecord where a file is missing or its checksums do not hold.
    """
    # the reader returns standard leads only; the names go no further
    names = {"NOISE1": "I", "NOISE2": "II"}
    return wfdb.read(root / kind, kind, kind, CARD.fs, GAIN, names).signal


def index(root: Path) -> pd.DataFrame:
    """MissingData: it holds no ECG."""
    raise MissingData(NO_ECG)


def read(root: Path, row: Mapping[str, Any]) -> Recording:
    """MissingData: it holds no ECG."""
    raise MissingData(NO_ECG)
