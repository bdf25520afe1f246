"""Genuine files of each format: two readers agree, Einthoven's laws hold, signals that are no leads
are left out.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ecgbench.ecg.leads import LEADS, LIMB_FROM_I_II
from ecgbench.ecg.readers import arrays, csv, wfdb
from ecgbench.ecg.readers.arrays import FileFormat
from ecgbench.ecg.recording import Recording

pytestmark = pytest.mark.real


@pytest.fixture
def samples(real_data: Path) -> Path:
    return real_data / "samples"


def _off(recording: Recording) -> float:
    """Largest distance of a limb lead from what I and II say of it, mV."""
    x = recording.clinical().signal
    return float(np.abs(LIMB_FROM_I_II @ x[:2] - x[:6]).max())


def test_a_record_with_frank_leads_keeps_the_twelve_and_does_not_need_the_other_file(
    samples: Path, tmp_path: Path
) -> None:
    folder = samples / "ptbdb" / "patient001"
    recording = wfdb.read(
        folder / "s0010_re", "s0010_re", "patient001", expected_fs=1000, expected_gain=2000
    )
    assert recording.leads == LEADS
    assert recording.signal.shape == (12, 38400)
    assert _off(recording) < 0.003
    for suffix in (".hea", ".dat"):
        (tmp_path / f"s0010_re{suffix}").write_bytes((folder / f"s0010_re{suffix}").read_bytes())
    np.testing.assert_array_equal(
        wfdb.read(tmp_path / "s0010_re", "s0010_re", "p").signal, recording.signal
    )


def test_a_table_of_chapman(samples: Path) -> None:
    (file,) = (samples / "chapman" / "ECGDataDenoised").glob("*.csv")
    recording = csv.read(file, file.stem, "p", FileFormat(leads=LEADS, fs=500, per_mv=1000))
    assert recording.signal.shape == (12, 5000)
    assert recording.signal[0, 0] == np.float32(-0.16533)
    assert 0.1 < np.abs(recording.signal).max() < 10


def test_tracings_of_code15(samples: Path) -> None:
    file = samples / "code15" / "exams_part0_sample.hdf5"
    file_format = FileFormat(leads=LEADS, fs=400, per_mv=1, variable="tracings", leads_first=False)
    exams = pd.read_csv(samples / "code15" / "exams.csv")
    recording = arrays.hdf5(file, "0", "p", file_format, position=0)
    assert recording.signal.shape == (12, 4096)
    assert 0.1 < np.abs(recording.signal).max() < 30
    assert len(exams) > 1
