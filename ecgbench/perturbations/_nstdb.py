"""Noise of the MIT-BIH Noise Stress Test Database: the first ten minutes of each recording, which
come with the package (nstdb/SOURCE.md).
"""

import io
from functools import cache
from importlib.resources import files

import numpy as np
from scipy.signal import resample_poly

from ecgbench.ecg.electrodes import ELECTRODES

FS = 360
"""Hz."""
MARGIN = 36
"""Samples on either side of a stretch that resampling may look at."""


@cache
def recorded(kind: str) -> np.ndarray:
    """(2, time) int16 steps of bw, em or ma at FS."""
    content = (files("ecgbench.perturbations") / "nstdb" / f"{kind}.npz").read_bytes()
    return np.asarray(np.cumsum(np.load(io.BytesIO(content))["steps"], axis=1, dtype=np.int16))


def noise(kind: str, samples: int, fs: float, random: np.random.Generator) -> np.ndarray:
    """(9, samples) at `fs` Hz: for each electrode a stretch of its own, of a channel and from a
    place that are drawn; a stretch that is longer than the recording begins again.
    """
    whole = recorded(kind).astype(np.float64)
    whole -= whole.mean(axis=1, keepdims=True)
    length = int(np.ceil(samples * FS / fs)) + 2 * MARGIN
    made = np.empty((len(ELECTRODES), samples))
    for row in made:
        channel, start = whole[random.integers(2)], int(random.integers(whole.shape[1]))
        row[:] = _resampled(np.take(channel, np.arange(start, start + length), mode="wrap"), fs)[
            :samples
        ]
    return made


def _resampled(stretch: np.ndarray, fs: float) -> np.ndarray:
    up, down = (round(rate * 10) for rate in (fs, FS))
    first = int(np.ceil(MARGIN * fs / FS))
    return np.asarray(resample_poly(stretch, up, down)[first:])
