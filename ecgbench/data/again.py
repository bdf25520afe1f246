"""A record of a prepared copy, read once more from its published file."""

from typing import Any

import numpy as np

from ecgbench.data.checked import checked
from ecgbench.data.encoded import encode
from ecgbench.data.source import Source, read


def read_again(source: Source, row: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, float]:
    """What would be stored now of the record of a row of the index: (lead, time) int16, (12,)
    float32 gain, rate in Hz. BadRecord and OSError where it cannot be read.
    """
    whole = read(source.name, source.root, row)
    recording = checked(whole, source.module.CARD, source.fix).recording
    steps, gain = encode(recording)
    return steps, gain, recording.fs
