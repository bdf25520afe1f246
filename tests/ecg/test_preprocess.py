"""The lead-by-lead preparation against published check values, its table of gains, and the independence of leads."""

import zlib
from pathlib import Path

import numpy as np
import pytest

from ecgbench.ecg.preprocess import normalise, resampled_length, view, windows
from ecgbench.errors import BadSetting

BAND = (0.05, 47.0)
NOISE = np.random.default_rng(0).normal(0, 0.4, (12, 5000)).astype(np.float32)


def test_band_pass_and_scaling_match_the_published_check_values() -> None:
    """Columns 0, 97, ... of a 10 s record at 500 Hz, prepared by the code of HuBERT-ECG (no resampling at this rate)."""
    z = np.random.RandomState(zlib.crc32(b"input|preproc|public-0")).standard_normal((12, 5000)).astype(np.float32)
    x = 0.3 * z + 0.5 * np.sin(2 * np.pi * 0.3 * np.arange(5000) / 500 + np.arange(12)[:, None])
    prepared = normalise(view(x, 500, 500, BAND), "minmax-per-lead")
    golden = np.load(Path(__file__).parents[1] / "data" / "hub_pre_fs500.npy")
    np.testing.assert_allclose(prepared[:, :2500:97], golden, atol=1e-6)


@pytest.mark.parametrize(("hz", "gain"), [(0, 0.964), (0.5, 0.964), (5, 0.994), (40, 1.001), (45, 0.631), (47, 0.249), (50, 0.011)])
def test_gains(hz: float, gain: float) -> None:
    t = np.arange(20_000) / 500
    x = np.cos(2 * np.pi * hz * t)[None]
    inner = slice(5000, 15_000)
    y = view(x, 500, 500, BAND)
    assert float(x[0, inner] @ y[0, inner] / (x[0, inner] @ x[0, inner])) == pytest.approx(gain, abs=6e-4)


def test_resampling_keeps_what_both_rates_hold_and_removes_what_would_fold_over() -> None:
    low, high = (np.sin(2 * np.pi * hz * np.arange(5000) / 500)[None] for hz in (10, 80))
    expected = np.sin(2 * np.pi * 10 * np.arange(1000) / 100)
    inner = slice(50, -50)
    np.testing.assert_allclose(view(low, 500, 100, None)[0, inner], expected[inner], atol=5e-3)
    assert np.abs(view(high, 500, 100, None)[0, inner]).max() < 5e-3


@pytest.mark.parametrize("band", [None, BAND])
@pytest.mark.parametrize("to_fs", [100, 250, 500])
def test_a_lead_is_bit_identical_whatever_the_others_hold(band: tuple[float, float] | None, to_fs: float) -> None:
    before = view(NOISE, 500, to_fs, band)
    for kept in (0, 7, 11):
        other = np.random.default_rng(1).normal(3, 50, NOISE.shape).astype(np.float32)
        other[1] = 0
        other[kept] = NOISE[kept]
        np.testing.assert_array_equal(view(other, 500, to_fs, band)[kept], before[kept])


def test_einthoven_survives() -> None:
    x = NOISE.astype(np.float64)
    x[2] = x[1] - x[0]
    y = view(x, 500, 100, BAND)
    np.testing.assert_allclose(y[2], y[1] - y[0], atol=1e-6)


@pytest.mark.parametrize("level", [0.0, -0.7310001, 12.345])
def test_a_constant_lead_stays_exactly_constant_and_becomes_minus_one(level: float) -> None:
    x = NOISE.copy()
    x[4] = level
    for band in (None, BAND):
        y = view(x, 500, 100, band)
        assert np.ptp(y[4]) == 0
        assert y[4, 0] == pytest.approx(level, rel=0.04)
        assert (normalise(y, "minmax-per-lead")[4] == -1).all()


def test_an_offset_bends_no_edge() -> None:
    shifted = view(NOISE + np.float32(8), 500, 100, BAND) - view(NOISE, 500, 100, BAND)
    assert np.ptp(shifted) < 1e-4


def test_lengths() -> None:
    for samples, fs, to_fs in [(5000, 500, 100), (4096, 400, 250), (10_001, 1000, 240), (1283, 257, 100)]:
        assert view(np.zeros((1, samples)), fs, to_fs, BAND).shape == (1, resampled_length(samples, fs, to_fs))
    assert view(NOISE[:, :100], 500, 100, BAND).shape == (12, 20)  # shorter than the filter
    assert [windows(n, 500) for n in (499, 500, 1499)] == [0, 1, 2]


def test_hidden_rows_stay_hidden_and_influence_nothing() -> None:
    hidden = NOISE.copy()
    hidden[[1, 5]] = np.nan
    there = [i for i in range(12) if i not in (1, 5)]
    for how in ("minmax-per-lead", "standardise-record"):
        scaled = normalise(hidden, how)
        assert np.isnan(scaled[[1, 5]]).all()
        np.testing.assert_array_equal(scaled[there], normalise(NOISE[there], how))
    np.testing.assert_array_equal(normalise(hidden, "none"), hidden)
    assert np.isnan(normalise(np.full((2, 9), np.nan), "standardise-record")).all()


def test_normalisations_by_their_definition() -> None:
    scaled = normalise(NOISE, "standardise-record")
    np.testing.assert_allclose(scaled, (NOISE - NOISE.mean(dtype=float)) / NOISE.std(dtype=float), atol=1e-5)
    assert (normalise(np.full((3, 100), 0.1, np.float32), "standardise-record") == 0).all()
    lead = normalise(NOISE, "minmax-per-lead")[3]
    assert (lead.min(), lead.max()) == (-1, pytest.approx(1))
    with pytest.raises(BadSetting, match="standardize"):
        normalise(NOISE, "standardize")
