"""What a card declares to be mended in samples, and nothing beyond."""

import numpy as np
import pytest

from ecgbench.ecg.readers.arrays import FileFormat, recording
from ecgbench.ecg.repair import Repair
from ecgbench.errors import BadRecord

REPAIR = Repair(gap_seconds=0.02, clip_mv=3.0)


def test_gaps_are_filled_along_a_line_and_peaks_limited() -> None:
    signal = np.array([[0.0, np.nan, np.nan, 0.9, 5.0, -7.0], [1.0, 2.0, 3.0, 2.0, 1.0, np.nan]])
    mended, done = REPAIR(signal, 100, "a")
    np.testing.assert_allclose(mended, [[0, 0.3, 0.6, 0.9, 3, -3], [1, 2, 3, 2, 1, 1]])
    assert done == (
        ("gaps", "3 missing samples filled in, 0.02 s in a row at most"),
        ("clip", "2 samples of up to 7 mV limited to 3 mV"),
    )
    untouched, nothing = REPAIR(mended, 100, "a")
    np.testing.assert_array_equal(untouched, mended)
    assert nothing == ()


def test_a_longer_gap_costs_the_record() -> None:
    signal = np.zeros((2, 50))
    signal[1, 10:13] = np.nan
    with pytest.raises(BadRecord, match=r"a: 3 samples are missing, up to 0.03 s in a row"):
        REPAIR(signal, 100, "a")
    with pytest.raises(BadRecord, match=r"2 samples are missing"):
        REPAIR(np.array([[np.nan, np.nan], [0, 0]]), 100, "a")


def test_a_file_without_a_header_is_mended_by_its_layout() -> None:
    counts = np.full((2, 40), 4000, np.int16)
    counts[0, 7] = -(2**15)
    file_format = FileFormat(leads=("I", "V1"), fs=100, per_mv=1000)
    with pytest.raises(BadRecord, match="1 samples are NaN"):
        recording(counts, file_format, "a", "p")
    mended = recording(counts, FileFormat(**{**vars(file_format), "repair": REPAIR}), "a", "p")
    assert (mended.signal == 3).all()
    assert [kind for kind, _ in mended.repaired] == ["gaps", "clip"]
    assert mended.repaired[0][1].startswith("1 missing samples")


def test_an_infinite_sample_is_no_peak() -> None:
    signal = np.zeros((2, 100))
    signal[1, 7] = np.inf
    with pytest.raises(BadRecord, match="r: 1 samples are infinite"):
        Repair(gap_seconds=0.05, clip_mv=3.0)(signal, 500, "r")
