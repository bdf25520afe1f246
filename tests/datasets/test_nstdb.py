"""NSTDB: noise in mV, and no data set of recordings."""

import io
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
import wfdb

from ecgbench.data.prepare import prepare
from ecgbench.datasets import nstdb
from ecgbench.errors import BadRecord, MissingData


def write(root: Path) -> np.ndarray:
    """bw, em and ma of a second, whose headers state a gain of 0; (2, 360) steps of each."""
    steps = np.random.default_rng(0).integers(-900, 900, (360, 2))
    for kind in nstdb.KINDS:
        wfdb.wrsamp(
            kind, 360, ["mV"] * 2, ["noise1", "noise2"], d_signal=steps, fmt=["212"] * 2,
            adc_gain=[200.0] * 2, baseline=[0] * 2, write_dir=str(root),
        )  # fmt: skip
        header = root / f"{kind}.hea"
        header.write_text(header.read_text().replace("200.0(0)/mV", "0"))
    return steps.T


def test_an_uncalibrated_signal_is_read_at_200_steps_a_mv(tmp_path: Path) -> None:
    steps = write(tmp_path)
    found = nstdb.noise(tmp_path, "em")
    assert found.dtype == np.float32
    assert np.allclose(found, steps / 200)
    samples = bytearray((tmp_path / "em.dat").read_bytes())
    samples[30] ^= 1
    (tmp_path / "em.dat").write_bytes(samples)
    with pytest.raises(BadRecord, match="checksum"):
        nstdb.noise(tmp_path, "em")


def test_noise_is_not_prepared(tmp_path: Path) -> None:
    (tmp_path / "nstdb").mkdir()
    write(tmp_path / "nstdb")
    with pytest.raises(MissingData, match="--perturb"):
        prepare("nstdb", tmp_path, tmp_path / "prepared")


@pytest.mark.parametrize("kind", nstdb.KINDS)
def test_the_package_has_the_first_ten_minutes_of_the_genuine_noise(
    kind: str, real_data: Path
) -> None:
    whole = nstdb.noise(real_data / "devices" / "nstdb", kind)
    assert whole.shape == (2, 650_000)
    content = (files("ecgbench.perturbations") / "nstdb" / f"{kind}.npz").read_bytes()
    shipped = np.cumsum(np.load(io.BytesIO(content))["steps"], axis=1, dtype=np.int16)
    assert (np.rint(whole[:, : shipped.shape[1]] * 200) == shipped).all()
