"""A recording is found again under whatever was done to it that is not its heart."""

import numpy as np
import pytest
from scipy.signal import butter, resample_poly, sosfilt

from ecgbench.data.duplicates import TOGETHER, VOTES
from ecgbench.datasets import demo
from ecgbench.ecg.fingerprint import OVERLAP, Fingerprint, agreement, fingerprint
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


def noisy(x: np.ndarray, db: float) -> np.ndarray:
    size = x.std(axis=1, keepdims=True) * 10 ** (-db / 20)
    return x + size * np.random.default_rng(1).normal(size=x.shape)


ALTERED = {
    "inverted": (lambda x: -x, FS, 0.0),
    "one lead inverted": (lambda x: x * np.where(np.arange(12) == 1, -1, 1)[:, None], FS, 0.0),
    "with noise of a tenth": (lambda x: noisy(x, 20), FS, 0.0),
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


@pytest.mark.long
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
    for lead in range(len(LEADS)):
        lacking = np.zeros_like(whole)
        lacking[lead], lacking[lead - 1, 7] = whole[lead], np.nan
        assert votes(every, fingerprint(lacking, FS), 0.0) >= VOTES
        assert agreement(whole, FS, lacking, FS, 0.0)[0] == pytest.approx(1)


def test_noise_and_what_lasts_a_second_are_found_as_a_whole_only() -> None:
    draw = np.random.default_rng(0)
    for seconds in (1, 3, 10):
        first, second = draw.normal(size=(2, 12, seconds * 100))
        same = -3 * first + 1
        assert votes(fingerprint(first, 100), fingerprint(same, 100), 0.0) >= VOTES
        assert votes(fingerprint(first, 100), fingerprint(second, 100), 0.0) == 0
        assert agreement(first, 100, same, 100, 0.0)[0] == pytest.approx(1)
    beat = signal(5)[:, :1500]  # 3 s: beats of one person resemble each other
    assert agreement(beat, FS, noisy(beat, 20), FS, 0.0)[0] == 0
    assert agreement(beat, FS, beat[:, :-100], FS, 0.0)[0] == 0


def test_regular_beats_and_drift_say_nothing() -> None:
    """A simulator's beats, shifted, are alike in all recordings of one rate."""
    time, draw = np.arange(1000) / 100, np.random.default_rng(1)
    for phase in (0.0, 0.7):
        first, second = (
            np.cos(np.pi * time + at) ** 60 + draw.normal(0, 0.02, (12, 1000)) for at in (0, phase)
        )
        assert agreement(first, 100, second, 100, phase / np.pi)[0] == 0
        assert agreement(first, 100, -2 * first, 100, 0.0)[0] == pytest.approx(1)
    ramps = time * draw.uniform(1, 9, (2, 1)) + draw.normal(0, 0.001, (2, 1000))
    drifting = np.full((2, 12, 1000), np.nan)
    drifting[:, 0] = ramps
    assert agreement(drifting[0], 100, drifting[1], 100, 0.0)[0] < 0.5


def test_what_cannot_be_compared_does_not_agree() -> None:
    whole = signal(5)
    assert len(fingerprint(whole[:, :3], FS).hashes) == 0
    assert len(fingerprint(np.zeros((12, 5000)), FS).hashes) == 0
    short = whole[:, : round(OVERLAP * FS)]
    assert agreement(whole, FS, short, FS, 0.0)[0] == 0
    upper, lower = whole.copy(), whole.copy()
    upper[6:], lower[:6] = 0, 0
    assert agreement(upper, FS, lower, FS, 0.0)[0] == 0
