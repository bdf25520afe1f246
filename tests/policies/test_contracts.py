"""The contracts of the cards against arrays that the authors' own preparation gave, and the laws of
windows.
"""

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ecgbench import models
from ecgbench.cards.model import InputContract
from ecgbench.ecg.filters import Filter
from ecgbench.ecg.leads import ALL, LEADS, LeadSubset
from ecgbench.ecg.preprocess import decimate, view
from ecgbench.errors import LeakError
from ecgbench.policies.hide import NATIVE, Policy, adapt, cut

GOLDEN = np.load(Path(__file__).parents[1] / "data" / "preproc" / "golden_seed0.npz")
ZERO = Policy.of("zero", lambda: pytest.fail("it does not learn"))
PLAIN: dict[str, Any] = {"name": "upstream", "fs": 100, "seconds": 0.5, "leads": LEADS}
PLAIN |= {"unit": "mV", "filter": None, "normalisation": "none", "fill": "after"}
PLAIN |= {"policy": "zero", "absent": "0"}


def recorded(samples: int, fs: float) -> np.ndarray:
    """The record of the check values: noise and a slow wave of another phase in each lead, (12,
    samples) float64.
    """
    z = (
        np.random.RandomState(zlib.crc32(b"input|preproc|public-0"))
        .standard_normal((1, 12, samples))
        .astype(np.float32)
    )
    return (np.float32(0.3) * z)[0] + 0.5 * np.sin(
        2 * np.pi * 0.3 * np.arange(samples) / fs + np.arange(12)[:, None]
    )


def contract(model: str, name: str) -> InputContract:
    return models.ROOM.card(model).contract(name)


def first_window(x: np.ndarray, fs: float, fed: InputContract, policy: Policy = ZERO) -> np.ndarray:
    signal, measured = adapt(view(x, fs, fed.preparation), ALL.mask, fed, policy)
    return cut(signal, measured, fed, np.zeros(1, int))[0]


@pytest.mark.parametrize(("fs", "samples"), [(500, 5000), (400, 4096), (1000, 10_000)])
def test_huberts_filter_resampling_and_scaling(fs: int, samples: int) -> None:
    fed = contract("hubertecg", "upstream")
    signal, _ = adapt(view(recorded(samples, fs), fs, fed.preparation), ALL.mask, fed, ZERO)
    assert signal.shape == tuple(GOLDEN[f"hub_pre_len_fs{fs}"])
    np.testing.assert_allclose(signal[:, :2500:97], GOLDEN[f"hub_pre_fs{fs}"], atol=2e-6)


def test_hubert_receives_the_decimated_concatenation() -> None:
    received = first_window(recorded(5000, 500), 500, contract("hubertecg", "upstream"))
    assert received.shape == (12, 500)
    np.testing.assert_allclose(received.reshape(-1)[::37], GOLDEN["hub_in6000"], atol=2e-6)
    fed = contract("hubertecg", "upstream")
    signal, _ = adapt(view(recorded(5000, 500), 500, fed.preparation), ALL.mask, fed, ZERO)
    lead_by_lead = np.concatenate([decimate(lead[None, :2500], 5)[0] for lead in signal])
    np.testing.assert_allclose(lead_by_lead[::37], GOLDEN["hub_in6000_perlead"], atol=2e-6)
    assert np.abs(received.reshape(-1) - lead_by_lead).max() > 1e-3  # it is something else


def test_the_reference_benchmark_filters_huberts_window_at_100_hz() -> None:
    received = first_window(recorded(500, 100), 100, contract("hubertecg", "paper"))
    np.testing.assert_allclose(received[:, ::19], GOLDEN["bench_hub_pre"], atol=2e-6)


@pytest.mark.parametrize(("seconds", "every"), [(9.0, 97), (2.4, 29)])
def test_st_mem_filters_and_standardises_each_crop(seconds: float, every: int) -> None:
    fed = InputContract(**{**vars(contract("stmem", "upstream")), "seconds": seconds})
    received = first_window(recorded(5000, 500), 500, fed)
    np.testing.assert_allclose(
        received[:, ::every], GOLDEN[f"stmem_pre_crop{fed.samples}"], atol=5e-6
    )


def test_ecg_jepa_resamples_the_record_and_keeps_eight_leads() -> None:
    received = first_window(recorded(5000, 500), 500, contract("ecgjepa", "upstream"))
    np.testing.assert_allclose(received[:, ::97], GOLDEN["jepa_pre"], atol=2e-6)


FED = [(name, c.name) for name in models.names() for c in models.get(name).CARD.contracts]


@pytest.mark.parametrize(("name", "fill"), FED)
def test_an_absent_lead_is_what_the_card_says(name: str, fill: str) -> None:
    """0 mV before the normalisation, or 0 after it; then the others know nothing of it."""
    fed = contract(name, fill)
    subset = LeadSubset.of(*[n for n in LEADS if n in fed.leads][1:3] or fed.leads)
    seen = view(recorded(5000, 500).astype(np.float32), 500, fed.preparation)
    signal, measured = adapt(seen, subset.mask, fed, ZERO)
    window = cut(signal, measured, fed, np.zeros(1, int))[0]
    absent = window[[n not in subset for n in fed.leads]]
    assert window.shape == (len(fed.leads), fed.received)
    assert np.isfinite(window).all()
    if fed.fill == "after":
        inner = absent[:, 100:-100] if fed.decimate > 1 else absent  # two leads mix at their seam
        assert np.abs(inner).max(initial=0) < 1e-6
    elif len(absent):
        assert np.ptp(absent, axis=1).max() < 1e-6
        assert absent[0, 0] == pytest.approx(
            {"none": 0, "minmax-per-lead": -1}.get(fed.normalisation, absent[0, 0])
        )


def test_three_overlapping_windows_of_st_mem_and_a_record_that_is_too_short() -> None:
    fed = contract("stmem", "upstream")
    counts = {0: 0, 1: 1, 2249: 1, 2250: 1, 2374: 1, 2375: 2, 2500: 3, 5000: 23}
    assert {n: fed.windows(n) for n in counts} == counts
    assert [contract("stmem", "paper").windows(n) for n in (599, 600, 1199, 2500)] == [0, 1, 1, 4]
    short = InputContract(**PLAIN, short="edge")
    signal = np.arange(24, dtype=np.float32).reshape(12, 2)
    signal[3] = np.nan
    window = cut(signal, np.arange(12) != 3, short, np.zeros(1, int))[0]
    assert window.shape == (12, 50)
    assert (window[5, 1:] == 11).all()
    assert np.isnan(window[3]).all()


@pytest.mark.parametrize("normalisation", ["minmax-record", "standardise-record"])
@pytest.mark.parametrize("fill", ["before", "after"])
def test_windows_are_normalised_one_by_one_without_what_was_not_measured(
    normalisation: str, fill: str
) -> None:
    fed = InputContract(
        **{**PLAIN, "fill": fill, "normalisation": normalisation, "scope": "window", "stride": 0.25}
    )

    def scale(x: np.ndarray) -> tuple[float, float]:
        minmax = normalisation == "minmax-record"
        return (x.min(), np.ptp(x)) if minmax else (x.mean(), x.std())

    x, subset = np.random.default_rng(0).normal(1, 1, (12, 200)), LeadSubset.of("II", "V3")
    x = x.astype(np.float32)
    x *= np.linspace(1, 9, 200, dtype=np.float32)
    starts = np.arange(fed.windows(200)) * fed.step
    assert starts.tolist() == [0, 25, 50, 75, 100, 125, 150]
    outcomes = [
        cut(*adapt(v, subset.mask, fed, ZERO), fed, starts)
        for v in (x, np.where(subset.mask[:, None], x, np.float32(7)))
    ]
    assert np.array_equal(*outcomes)
    native = cut(*adapt(x, subset.mask, fed, Policy(NATIVE, None)), fed, starts)
    assert np.isnan(native[:, ~subset.mask]).all()
    for window, alone, start in zip(outcomes[0], native, starts):
        there = x[subset.mask, start : start + 50].astype(float)
        blank = {"after": 0, "before": 10}[fill]
        known = np.vstack([there, np.zeros((blank, 50))])
        low, span = scale(known)
        np.testing.assert_allclose(window[subset.mask], (there - low) / span, atol=1e-5)
        np.testing.assert_allclose(
            window[~subset.mask], 0 if fill == "after" else -low / span, atol=1e-5
        )
        low, span = scale(there)
        np.testing.assert_allclose(alone[subset.mask], (there - low) / span, atol=1e-5)


def test_a_measured_lead_that_is_no_number_is_never_taken_for_a_blank_one() -> None:
    fed = InputContract(**{**PLAIN, "normalisation": "standardise-record", "scope": "window"})
    x = np.zeros((12, 50), np.float32)
    x[1] = np.nan
    for policy in (ZERO, Policy(NATIVE, None)):
        with pytest.raises(LeakError):
            adapt(x, LeadSubset.of("I", "II").mask, fed, policy)


def test_a_filter_of_windows_never_meets_a_hidden_lead() -> None:
    band = Filter(kind="butterworth-sosfiltfilt", low=0.67, high=40, where="window")
    how = {"filter": band, "seconds": 2, "normalisation": "standardise-record", "scope": "window"}
    fed = InputContract(**{**PLAIN, **how})
    x = np.random.default_rng(0).normal(0, 1, (12, 200)).astype(np.float32)
    mask = LeadSubset.of("I", "aVF").mask
    signal, measured = adapt(x, mask, fed, ZERO)
    window = cut(signal, measured, fed, np.zeros(1, int))[0]
    expected = band(x[mask], 100)
    np.testing.assert_allclose(
        window[mask], (expected - expected.mean()) / expected.std(), atol=1e-5
    )
    assert not window[~mask].any()


def test_a_limit_holds_for_what_a_policy_makes_of_limited_leads() -> None:
    """III is 6 mV by Einthoven's law."""
    x = np.repeat(np.float32([-3, 3, *[0] * 10])[:, None], 50, axis=1)
    policy = Policy.of("einthoven", lambda: pytest.fail("it does not learn"))
    fed = InputContract(**{**PLAIN, "clip": 3.0})
    assert adapt(x, LeadSubset.of("I", "II").mask, fed, policy)[0][2].max() == 3
