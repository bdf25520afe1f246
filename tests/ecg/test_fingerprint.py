"""A recording is found again under whatever was done to it that is not its heart."""

import numpy as np
import pytest
from scipy.signal import butter, resample_poly, sosfilt

from ecgbench.data.duplicates import TOGETHER, VOTES
from ecgbench.datasets import demo
from ecgbench.ecg.fingerprint import HASHED, OVERLAP, Fingerprint, agreement, fingerprint
from ecgbench.ecg.leads import LEADS

ROWS = demo.index(None).to_dict("records")
FS = demo.CARD.fs


def signal(number: int) -> np.ndarray:
    return demo.read(None, ROWS[number]).clinical().signal.astype(float)


def votes(one: Fingerprint, two: Fingerprint, shift: float) -> int:
    """Equal hashes at a shift in seconds."""
    first, second = np.nonzero(one.hashes[:, None] == two.hashes)
    off = one.times[first] - two.times[second] - round(1000 * shift)
    return int((np.abs(off) <= TOGETHER / 2).sum())


def cut(x: np.ndarray, seconds: float) -> np.ndarray:
    return x[:, round(seconds * FS) :]


ALTERED = {
    "cut": (lambda x: cut(x, 1.514), FS, 1.514),
    "at 400 Hz": (lambda x: resample_poly(x, 4, 5, axis=1), 0.8 * FS, 0.0),
    "at 100 Hz": (lambda x: resample_poly(x, 1, 5, axis=1), 0.2 * FS, 0.0),
    "in 16 bits": (lambda x: np.rint(x / np.abs(x).max() * 32767), FS, 0.0),
    "high-passed": (
        lambda x: sosfilt(butter(2, 0.5, "highpass", fs=FS, output="sos"), x, axis=1),
        FS,
        0.0,
    ),
    "cut and in another unit at 400 Hz": (
        lambda x: 1000 * resample_poly(cut(x, 2.0), 4, 5, axis=1) + 70,
        0.8 * FS,
        2.0,
    ),
}


@pytest.mark.parametrize("how", ALTERED)
def test_an_altered_copy_is_found_at_its_shift(how: str) -> None:
    altered, fs, shift = ALTERED[how]
    for number in (0, 40, 90, 130, 170):
        whole = signal(number)
        copy = altered(whole)
        assert votes(fingerprint(whole, FS), fingerprint(copy, fs), shift) >= VOTES
        value, at = agreement(whole, FS, copy, fs, shift + 0.01)
        assert value > 0.99
        assert at == pytest.approx(shift, abs=0.005)
        # seen from the copy, the shift is the other way round
        assert agreement(copy, fs, whole, FS, -shift)[0] == pytest.approx(value, abs=1e-3)


def test_another_recording_of_the_same_heart_is_another_recording() -> None:
    patients: dict[str, list[int]] = {}
    for number, row in enumerate(ROWS):
        patients.setdefault(row["patient"], []).append(number)
    pairs = [own[:2] for own in patients.values() if len(own) > 1][:6]
    assert len(pairs) == 6
    for one, two in pairs:
        a, b = fingerprint(signal(one), FS), fingerprint(signal(two), FS)
        first, second = np.nonzero(a.hashes[:, None] == b.hashes)
        for shift in {0, *(a.times[first] - b.times[second]).tolist()}:
            assert agreement(signal(one), FS, signal(two), FS, shift / 1000)[0] < 0.95


def test_each_lead_stands_for_itself() -> None:
    whole = signal(3)
    every = fingerprint(whole, FS)
    assert np.array_equal(fingerprint(1000 * whole, FS).hashes, every.hashes)
    lacking = whole.copy()
    lacking[LEADS.index("V2")] = 0
    lacking[LEADS.index("V5"), 7] = np.nan
    fewer = fingerprint(lacking, FS)
    assert 0 < len(fewer.hashes) < len(every.hashes)
    assert set(fewer.hashes) < set(every.hashes)
    assert agreement(whole, FS, lacking, FS, 0.0)[0] == pytest.approx(1)
    lacking[[LEADS.index(lead) for lead in HASHED]] = 0
    assert len(fingerprint(lacking, FS).hashes) == 0


def test_what_cannot_be_compared_does_not_agree() -> None:
    whole = signal(5)
    assert len(fingerprint(whole[:, :3], FS).hashes) == 0
    assert len(fingerprint(np.zeros((12, 5000)), FS).hashes) == 0
    short = whole[:, : round(OVERLAP * FS)]
    assert agreement(whole, FS, short, FS, 0.0)[0] == 0
    upper, lower = whole.copy(), whole.copy()
    upper[6:], lower[:6] = 0, 0
    assert agreement(upper, FS, lower, FS, 0.0)[0] == 0
