"""Descriptors against the recipe's published values, Kaldi's conventions and a plain loop; and
which samples they speak of.
"""

import json
import math
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.signal import decimate
from scipy.stats import kurtosis, skew

from ecgbench.ecg.filters import Filter
from ecgbench.ecg.preprocess import Preparation, normalise, view
from ecgbench.errors import UnknownName
from ecgbench.models import laef
from ecgbench.pretrain.descriptors import (
    PRESETS,
    Descriptor,
    Mfcc,
    TimeFrequency,
    preset,
)

GOLDEN = np.load(Path(__file__).parents[1] / "data" / "preproc" / "golden_seed0.npz")
RECIPE = Descriptor(
    "recipe", (TimeFrequency(samples=64), Mfcc(samples=64, fft=64, low=20, high=50))
)
"""HuBERT-ECG's own segmentation."""
NOISE = np.random.RandomState(0).randn(64)
KALDI = {
    RECIPE.parts[1]: (
        "17.5063 -9.9592 -7.5198 -5.8167 -8.8824 -20.7407 7.647 "
        "-20.7118 -5.4719 8.0444 16.3444 10.6277 -16.6923"
    ),
    PRESETS["mfcc-paper"].parts[0]: (
        "-12.3701 3.8263 -13.3081 28.4311 -22.9511 21.9313 -14.3115 "
        "27.6055 -53.1112 247.084 40.8291 -8.1759 8.0101"
    ),
    PRESETS["mfcc-ecg"].parts[0]: (
        "8.3731 -11.9741 -3.4836 -12.8377 -2.5864 4.7203 -14.336 "
        "3.9976 -17.5437 -4.2998 -21.9363 6.1367 2.8981"
    ),
}
"""What torchaudio 2.11 (compliance.kaldi.mfcc in float64, FFT length set) makes of the first
samples of NOISE. It computes its filters in float32, which moves coefficients by up to 1.3e-3; with
such filters ours differ by less than 2e-4.
"""


def recorded() -> np.ndarray:
    """The record of the check values, 10 s at 500 Hz (tests/policies/test_contracts.py)."""
    z = (
        np.random.RandomState(zlib.crc32(b"input|preproc|public-0"))
        .standard_normal((1, 12, 5000))
        .astype(np.float32)
    )
    return (np.float32(0.3) * z)[0] + 0.5 * np.sin(
        2 * np.pi * 0.3 * np.arange(5000) / 500 + np.arange(12)[:, None]
    )


def windows(count: int = 6) -> torch.Tensor:
    """(count, 12, 500): quiet waves of the size of ECG on an offset, scaled as LAEF's contract
    says.
    """
    draw = np.random.default_rng(0)
    walk = draw.normal(size=(count, 12, 500)).cumsum(-1) + draw.normal(
        size=(count, 12, 500)
    ) * draw.choice([0.001, 0.1, 3], (count, 12, 1))
    return torch.from_numpy(np.stack([normalise(w, "minmax-per-lead") for w in walk]))


def mel(hz: float) -> float:
    return 1127 * math.log(1 + hz / 700)


def plain_mfcc(spec: Mfcc, x: np.ndarray) -> list[float]:
    """One segment, step by step after Kaldi's description."""
    x = x - x.mean()
    x = np.array([x[i] - 0.97 * x[max(i - 1, 0)] for i in range(len(x))])
    x = x * (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(len(x)) / (len(x) - 1))) ** 0.85
    power = np.abs(np.fft.rfft(x, spec.fft)) ** 2
    step, logs = (mel(spec.high) - mel(spec.low)) / 24, []
    for i in range(23):
        left = mel(spec.low) + i * step
        bins = [mel(k * 100 / spec.fft) for k in range(spec.fft // 2)]
        energy = sum(
            p * max(0, min((m - left) / step, (left + 2 * step - m) / step))
            for p, m in zip(power, bins)
        )
        logs.append(math.log(max(energy, np.finfo(np.float32).eps)))
    cepstrum = [
        math.sqrt((1 if k == 0 else 2) / 23)
        * sum(v * math.cos(math.pi * k * (i + 0.5) / 23) for i, v in enumerate(logs))
        for k in range(13)
    ]
    return [c * (1 + 11 * math.sin(math.pi * k / 22)) for k, c in enumerate(cepstrum)]


def plain_time_frequency(_: TimeFrequency, x: np.ndarray) -> list[float]:
    s, rms, peak = np.abs(np.fft.fft(x) ** 2) / len(x), np.sqrt((x**2).mean()), np.abs(x).max()
    shape = [
        x.min(),
        x.max(),
        x.mean(),
        rms,
        x.var(),
        x.std(),
        (x**2).mean(),
        peak,
        np.ptp(x),
        peak / rms,
        skew(x),
        kurtosis(x),
    ]
    return [*shape, s.max(), s.sum(), s.mean(), s.var()]


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1.5e-3), (np.float32, 2e-3)])
def test_the_recipes_values_over_a_whole_record(dtype: type, tolerance: float) -> None:
    """Section 1 to 3 of the recipe: filter, scaling, decimation lead by lead, two samples off each
    end, windows of 64.
    """
    band = Preparation(fs=500, filter=Filter(kind="firwin-filtfilt", low=0.05, high=47))
    lead = decimate(
        normalise(view(recorded(), 500, band), "minmax-per-lead")[:, :2500].astype(np.float64),
        5,
        axis=1,
    )
    found = RECIPE(torch.from_numpy(lead[:, 2:-2].reshape(-1).astype(dtype)))[::4].numpy()
    np.testing.assert_allclose(found[:, :16], GOLDEN["hub_timefreq16"], rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(found[:, 16:], GOLDEN["hub_mfcc13"], atol=tolerance)


@pytest.mark.parametrize("spec", KALDI, ids=lambda s: f"{s.samples}-{s.fft}-{s.low:g}")
def test_kaldis_conventions(spec: Mfcc) -> None:
    np.testing.assert_allclose(
        spec(torch.from_numpy(NOISE[None, : spec.samples]))[0],
        np.array(KALDI[spec].split(), float),
        atol=1.5e-3,
    )


@pytest.mark.parametrize("name", ["mfcc-paper", "mfcc-ecg", "time-frequency", "mixed", "mixed-ecg"])
def test_a_batch_is_what_a_loop_over_leads_and_segments_gives(name: str) -> None:
    x, described = windows(), preset(name)
    found = described(x)
    assert found.shape == (6, 12, 20, described.dim)
    assert found.dtype == torch.float32
    plain = {Mfcc: plain_mfcc, TimeFrequency: plain_time_frequency}
    for b, lead, j in [(0, 0, 0), (1, 4, 19), (2, 11, 7), (3, 2, 12), (4, 5, 3), (5, 8, 18)]:
        one = x[b, lead].numpy().astype(np.float64)[25 * j : 25 * j + 25]
        expected = [value for part in described.parts for value in plain[type(part)](part, one)]  # type: ignore[operator]
        np.testing.assert_allclose(described(x.double())[b, lead, j], expected, atol=1e-8)
        np.testing.assert_allclose(found[b, lead, j], expected, atol=2e-3)


def test_amplitude_moves_c0_alone_where_no_filter_is_empty() -> None:
    x = windows().double() + 0.1 * torch.randn(
        6, 12, 500, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    moved = preset("mfcc-ecg")(10 * x) - preset("mfcc-ecg")(x)
    np.testing.assert_allclose(moved[..., 0], math.log(100) * math.sqrt(23), atol=1e-6)  # 22.09
    assert moved[..., 1:].abs().max() < 1e-6
    # constants do not move along
    assert (preset("mfcc-paper")(10 * x) - preset("mfcc-paper")(x))[..., 9].abs().min() > 1


@pytest.mark.parametrize("level", [0.0, -1.0, -0.7310001, 12.345, 1e-30])
def test_segments_without_variation_are_finite(level: float) -> None:
    x = torch.full((1, 500), level)
    both = preset("mixed")(x)[0, 0]
    assert both.isfinite().all()
    assert both[16].item() == pytest.approx(-76.457, abs=1e-3)  # C0
    assert both[17:].abs().max() < 1e-4
    assert both[[4, 10, 11]].tolist() == [0, 0, 0]  # variance, skewness, kurtosis
    assert both[12].item() == pytest.approx(25 * level**2, rel=1e-5)  # S max
    x[0, ::2] = x[0, ::2].nextafter(torch.tensor(100.0))  # no more than rounding
    assert preset("mixed")(x).isfinite().all()


NODE_SAMPLES = laef.LaefConfig().node_samples


def test_segment_j_is_25_samples_and_node_j_sees_40() -> None:
    """Which samples move descriptor j, and which move node j of the embedder."""
    torch.manual_seed(0)
    signal = windows(1)[0, 0].requires_grad_(True)
    nodes = laef.build().embed_leads(signal)
    assert nodes.shape[0] == 20
    before = preset("mixed")(signal)
    for j in range(20):
        seen = (
            torch.autograd.grad(nodes[j].square().sum(), signal, retain_graph=True)[0]
            .nonzero()[:, 0]
            .tolist()
        )
        assert seen == list(NODE_SAMPLES(j)) == list(range(24 * j, 24 * j + 40))
        for sample in (25 * j, 25 * j + 24):
            moved = signal.detach().clone()
            moved[sample] += 0.1
            assert (preset("mixed")(moved) != before).any(1).nonzero().tolist() == [[j]]


def test_absent_leads_stay_apart_and_the_input_is_left_alone() -> None:
    x = windows(2)
    whole = preset("mixed")(x)
    some = x.clone()
    some[0, 3] = torch.nan
    found = preset("mixed")(some)
    assert found[0, 3].isnan().all()
    there = torch.ones(2, 12, dtype=torch.bool)
    there[0, 3] = False
    torch.testing.assert_close(found[there], whole[there], rtol=0, atol=0)
    single = x[0, 0, :25].clone()
    preset("mixed")(single)
    assert torch.equal(single, x[0, 0, :25])
    assert preset("mixed")(x[:0]).shape == (0, 12, 20, 29)


def test_neither_autocast_nor_the_size_of_a_batch_changes_the_type_or_the_values() -> None:
    x = windows(40)
    whole = preset("mixed")(x)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(preset("mixed")(x), whole)
    torch.testing.assert_close(
        torch.cat([preset("mixed")(part) for part in x.split(7)]), whole, rtol=1e-4, atol=1e-3
    )


def test_presets_tell_their_facts_and_refuse_what_they_cannot_describe() -> None:
    assert {name: d.dim for name, d in PRESETS.items()} == {
        "mfcc-paper": 13,
        "mfcc-ecg": 13,
        "time-frequency": 16,
        "mixed": 29,
        "mixed-ecg": 29,
    }
    facts = [json.dumps(d.facts, sort_keys=True) for d in PRESETS.values()]
    assert len(set(facts)) == len(PRESETS)
    assert '"high": 47' in json.dumps(preset("mfcc-ecg").facts)
    with pytest.raises(UnknownName, match="mfcc-paper"):
        preset("mfcc_paper")
