"""The lead-by-lead preparation against its table of gains, and the independence of leads. Published
values: policies/test_contracts.py.
"""

from typing import get_args

import numpy as np
import pytest

from ecgbench.cards.model import Normalisation
from ecgbench.ecg.filters import Filter
from ecgbench.ecg.preprocess import Preparation, Resampler, decimate, normalise, view
from ecgbench.errors import BadSetting

BAND = Filter(kind="firwin-filtfilt", low=0.05, high=47)
NOTCH = Filter(kind="notch-butterworth-median", low=0.67, high=40, where="record")
NOISE = np.random.default_rng(0).normal(0, 0.4, (12, 5000)).astype(np.float32)


def seen(
    signal: np.ndarray,
    fs: float,
    to_fs: float,
    band: Filter | None = None,
    resampler: Resampler = "polyphase",
) -> np.ndarray:
    return view(signal, fs, Preparation(fs=to_fs, filter=band, resampler=resampler))


@pytest.mark.parametrize(
    ("hz", "gain"),
    [(0, 0.964), (0.5, 0.964), (5, 0.994), (40, 1.001), (45, 0.631), (47, 0.249), (50, 0.011)],
)
def test_gains(hz: float, gain: float) -> None:
    t = np.arange(20_000) / 500
    x = np.cos(2 * np.pi * hz * t)[None]
    inner = slice(5000, 15_000)
    y = seen(x, 500, 500, BAND)
    assert float(x[0, inner] @ y[0, inner] / (x[0, inner] @ x[0, inner])) == pytest.approx(
        gain, abs=6e-4
    )


@pytest.mark.parametrize("resampler", ["polyphase", "fft"])
def test_resampling_keeps_what_both_rates_hold_and_removes_what_would_fold_over(
    resampler: Resampler,
) -> None:
    low, high = (np.sin(2 * np.pi * hz * np.arange(5000) / 500)[None] for hz in (10, 80))
    expected = np.sin(2 * np.pi * 10 * np.arange(1000) / 100)
    inner = slice(50, -50)
    np.testing.assert_allclose(
        seen(low, 500, 100, None, resampler)[0, inner], expected[inner], atol=5e-3
    )
    assert np.abs(seen(high, 500, 100, None, resampler)[0, inner]).max() < 5e-3


@pytest.mark.parametrize("to_fs", [500, 250, 100])
def test_sinusoids_at_a_rate_that_is_not_round_are_as_exact_as_at_a_round_one(to_fs: float) -> None:
    def error(rate: float, hz: float) -> float:
        wave = seen(np.sin(2 * np.pi * hz * np.arange(10 * rate) / rate)[None], rate, to_fs)[0]
        true = np.sin(2 * np.pi * hz * np.arange(wave.size) / to_fs)
        return float(np.abs(wave - true)[100:-100].max())

    for hz in (1, 10, 0.3 * to_fs):
        assert error(512.41, hz) < 1.05 * error(512, hz) + 2e-5


@pytest.mark.parametrize("band", [None, BAND, NOTCH])
@pytest.mark.parametrize("resampler", ["polyphase", "fft"])
@pytest.mark.parametrize("to_fs", [100, 250, 500])
def test_a_lead_is_bit_identical_whatever_the_others_hold(
    band: Filter | None, to_fs: float, resampler: Resampler
) -> None:
    before = seen(NOISE, 500, to_fs, band, resampler)
    for kept in (0, 7, 11):
        other = np.random.default_rng(1).normal(3, 50, NOISE.shape).astype(np.float32)
        other[1] = 0
        other[kept] = NOISE[kept]
        np.testing.assert_array_equal(seen(other, 500, to_fs, band, resampler)[kept], before[kept])


def test_einthoven_survives() -> None:
    x = NOISE.astype(np.float64)
    x[2] = x[1] - x[0]
    y = seen(x, 500, 100, BAND)
    np.testing.assert_allclose(y[2], y[1] - y[0], atol=1e-6)


@pytest.mark.parametrize("level", [0.0, -0.7310001, 12.345])
@pytest.mark.parametrize("resampler", ["polyphase", "fft"])
def test_a_constant_lead_stays_exactly_constant_and_becomes_minus_one(
    level: float, resampler: Resampler
) -> None:
    x = NOISE.copy()
    x[4] = level
    for band, left in ((None, 1), (BAND, 0.964), (NOTCH, 0)):
        y = seen(x, 500, 100, band, resampler)
        assert np.ptp(y[4]) == 0
        assert y[4, 0] == pytest.approx(level * left, rel=1e-3)
        assert (normalise(y, "minmax-per-lead")[4] == -1).all()


def test_an_offset_bends_no_edge() -> None:
    shifted = seen(NOISE + np.float32(8), 500, 100, BAND) - seen(NOISE, 500, 100, BAND)
    assert np.ptp(shifted) < 1e-4


def test_lengths_and_limits() -> None:
    for samples, fs, to_fs in [
        (5000, 500, 100),
        (4096, 400, 250),
        (10_001, 1000, 240),
        (1283, 257, 100),
    ]:
        for resampler in ("polyphase", "fft"):
            chosen = Preparation(fs=to_fs, filter=BAND, resampler=resampler, clip=0.25)
            made = view(NOISE[:, :samples].repeat(3, axis=1)[:1, :samples], fs, chosen)
            assert made.shape == (1, chosen.length(samples, fs))
            assert np.abs(made).max() == 0.25
    assert seen(NOISE[:, :100], 500, 100, BAND).shape == (12, 20)  # shorter than the filter
    assert seen(NOISE[:, :20], 500, 500, NOTCH).shape == (12, 20)


def test_the_running_median_is_scipys_medfilt() -> None:
    """ECGFounder takes the median by scipy.signal.medfilt, which is slow and continues a signal by
    zeros.
    """
    from scipy.signal import butter, filtfilt, iirnotch, medfilt

    x = NOISE[:2].astype(float)
    for b, a in (iirnotch(50, 30, 500), butter(4, [0.67, 40], "bandpass", fs=500)):
        x = filtfilt(b, a, x)
    np.testing.assert_allclose(
        seen(NOISE[:2], 500, 500, NOTCH), x - np.stack([medfilt(row, 201) for row in x]), atol=1e-6
    )


def test_decimation_mixes_the_seam_between_two_leads_and_nothing_else() -> None:
    x = np.repeat(np.arange(12.0)[:, None], 2500, 1).astype(np.float32)
    y = decimate(x, 5)
    assert y.shape == (12, 500)
    # the Chebyshev filter lets 0.9943 of a constant through, 0.05 dB of ripple
    np.testing.assert_allclose(
        y[1:-1, 50:-50], x[1:-1, 250:-250:5] * 10 ** (-2 * 0.05 / 20), rtol=1e-3
    )
    assert 0.01 < np.abs(y[1, -1] - y[1, 250]) < 0.5


def test_hidden_rows_stay_hidden_and_influence_nothing() -> None:
    hidden = NOISE.copy()
    hidden[[1, 5]] = np.nan
    there = [i for i in range(12) if i not in (1, 5)]
    for how in get_args(Normalisation)[1:]:
        scaled = normalise(hidden, how)
        assert np.isnan(scaled[[1, 5]]).all()
        np.testing.assert_array_equal(scaled[there], normalise(NOISE[there], how))
    np.testing.assert_array_equal(normalise(hidden, "none"), hidden)
    assert np.isnan(normalise(np.full((2, 9), np.nan), "standardise-record")).all()


def test_normalisations_by_their_definition() -> None:
    scaled = normalise(NOISE, "standardise-record")
    np.testing.assert_allclose(
        scaled, (NOISE - NOISE.mean(dtype=float)) / NOISE.std(dtype=float), atol=1e-5
    )
    assert (normalise(np.full((3, 100), 0.1, np.float32), "standardise-record") == 0).all()
    whole = normalise(NOISE, "minmax-record")
    np.testing.assert_allclose(
        whole, (NOISE - NOISE.min()) / (NOISE.max() - NOISE.min()), atol=1e-6
    )
    lead = normalise(NOISE, "standardise-per-lead")[3]
    np.testing.assert_allclose(lead, (NOISE[3] - NOISE[3].mean()) / NOISE[3].std(), atol=1e-5)
    flat = np.where(np.arange(12)[:, None] == 4, np.float32(0.1), NOISE)
    assert (normalise(flat, "standardise-per-lead")[4] == 0).all()
    lead = normalise(NOISE, "minmax-per-lead")[3]
    assert (lead.min(), lead.max()) == (-1, pytest.approx(1))
    centred = NOISE - np.median(NOISE, axis=1, keepdims=True)
    scale = np.percentile(np.abs(centred[:2]), 95)
    np.testing.assert_allclose(
        normalise(NOISE, "median-record"), (centred / scale).clip(-6, 6), atol=1e-5
    )
    tiny = np.array([[0, 0, 0, 0.02], [0, 0, 0, 3]])  # nothing below 0.05 is a scale
    np.testing.assert_allclose(normalise(tiny / 100, "median-record")[:, 3], [0.004, 0.6])
    spike = np.where(np.arange(100) == 7, 9, np.arange(100) % 2 - 0.5)[None]
    assert normalise(spike, "median-record").max() == 6
    with pytest.raises(BadSetting, match="standardize"):
        normalise(NOISE, "standardize")
