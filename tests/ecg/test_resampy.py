"""What our resampling differs from the reference benchmark's by (resampy on each crop): the figure
on each card, measured again.
"""

import re
from pathlib import Path

import numpy as np
import pytest
import resampy

from ecgbench import models
from ecgbench.data.prepare import prepare
from ecgbench.ecg.preprocess import view

NATIVE = 500


def resampled(name: str) -> bool:
    card = models.ROOM.card(name)
    other = "resampy" in card.choices.get("resampling", "")  # of the reference benchmark
    return bool(other and models.ROOM.built_in(name))


@pytest.mark.real
@pytest.mark.long
@pytest.mark.parametrize("name", [n for n in models.names() if resampled(n)])
def test_the_difference_to_resampy_is_the_one_on_the_card(name: str, real_ptbxl: Path) -> None:
    """Root mean square of the difference over that of the signal, median over crops of genuine
    recordings.
    """
    card = models.ROOM.card(name)
    fed, copy = card.contract("paper"), prepare("ptbxl", real_ptbxl, None)
    crop, off = round(fed.seconds * NATIVE), []
    for record in list(copy.index["record"])[::50]:
        signal = copy.recording(record).signal
        ours = view(signal, NATIVE, fed.preparation)
        for i in range(signal.shape[1] // crop):
            theirs = resampy.resample(
                signal[:, i * crop : (i + 1) * crop].astype(float), NATIVE, fed.fs, axis=1
            )[:, : fed.samples]
            mine = ours[:, i * fed.samples : (i + 1) * fed.samples]
            off.append(float(np.sqrt(((mine - theirs) ** 2).mean() / (mine**2).mean())))
    said = re.search(r"differ by ([\d.]+) %", card.choices["resampling"])
    assert said is not None
    assert 100 * float(np.median(off)) == pytest.approx(float(said[1]), rel=0.15)
