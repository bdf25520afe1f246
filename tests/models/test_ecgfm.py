"""How ECG-FM's authors prepare a recording (tests/data/parity/ecgfm)."""

import numpy as np

from ecgbench.ecg.preprocess import normalise, view
from ecgbench.models import ecgfm
from tests.models.packs import golden, signal


def test_resampling_and_scaling_are_the_authors() -> None:
    x = signal("ecg-fm-pre", 4000)[0].numpy().astype(np.float64)
    x[8], x[9] = 0.5, 0.7
    contract = ecgfm.CARD.contract("paper")
    made = normalise(view(x, 400, contract.preparation), contract.normalisation)
    assert np.abs(made[:, :2500:25] - golden("ecgfm")["pre_400to500_z"]).max() <= 1e-5
