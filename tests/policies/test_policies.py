"""Policies: the laws that every file of the room keeps, and what each of ours makes of missing
leads.

The laws run over `policies.names()`: a policy dropped into the room is covered without a line here.
"""

from collections.abc import Iterator

import numpy as np
import pytest

from ecgbench import policies
from ecgbench.ecg.leads import LEADS, LIMB, LIMB_FROM_I_II, LeadSubset
from ecgbench.policies.copy import nearest
from ecgbench.policies.hide import Policy

NAMES = policies.names()
SUBSETS = [
    LeadSubset.parse(t)
    for t in ("I", "aVR", "V4", "I+II", "III+aVF", "II+V2", "V1+V6", "I+aVL+V3", "III+aVR+aVL+aVF")
]
TIME = 60


def ecg(seed: int, dtype: type = np.float32) -> np.ndarray:
    """(12, time) mV: limb leads that keep Einthoven's law, an offset of its own in each chest
    lead.
    """
    generator = np.random.default_rng(seed)
    limb = LIMB_FROM_I_II @ generator.normal(0.1, 1, (2, TIME))
    return np.vstack([limb, generator.normal(0, 1, (6, TIME)) + np.arange(6)[:, None]]).astype(
        dtype
    )


def training() -> Iterator[np.ndarray]:
    """Read once: a policy may not go over its training records twice without keeping what it
    needs.
    """
    return map(ecg, range(100, 110))


def filled(name: str, signal: np.ndarray, subset: LeadSubset) -> np.ndarray:
    policy = Policy.of(name, training)
    assert policy.fill is not None
    return policy.fill(
        np.where(subset.mask[:, None], signal, np.nan).astype(signal.dtype),
        subset.mask,
        policy.state,
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_policy_works_on_one_record_of_any_length_and_precision(name: str) -> None:
    """A single sample, and float64: a record is not a batch, and its length is not known
    beforehand.
    """
    for signal in (ecg(0)[:, :1], ecg(0, np.float64)):
        out = filled(name, signal, SUBSETS[5])
        assert out.shape == signal.shape
        assert np.isfinite(out).all()


@pytest.mark.parametrize("subset", SUBSETS, ids=str)
def test_einthoven_gives_what_is_determined_and_zero_for_the_rest(subset: LeadSubset) -> None:
    signal = ecg(0, np.float64)
    out = filled("einthoven", signal, subset)
    limb = len([n for n in subset if n in LIMB]) >= 2
    for row, lead in enumerate(LEADS):
        known = lead in subset or (limb and lead in LIMB)
        np.testing.assert_allclose(
            out[row], signal[row] if known else 0, rtol=0, atol=1e-12, err_msg=lead
        )


def test_mean_is_the_average_of_the_records_averages_whatever_their_lengths() -> None:
    """One constant per lead; a long record weighs no more than a short one."""
    short, long = ecg(1)[:, :7], ecg(2)
    state = Policy.of("mean", lambda: iter([short, long])).state
    assert state is not None
    expected = (short.astype(np.float64).mean(1) + long.astype(np.float64).mean(1)) / 2
    np.testing.assert_allclose(state["mean"], expected, rtol=0, atol=1e-12)
    subset = LeadSubset.of("II", "V5")
    out = policies.get("mean").fill(
        np.where(subset.mask[:, None], ecg(3, np.float64), np.nan), subset.mask, state
    )
    np.testing.assert_allclose(
        out[~subset.mask], np.repeat(expected[~subset.mask, None], TIME, 1), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize(
    ("lead", "measured", "source", "sign"),
    [
        # limb leads: I 0, II 60, III 120, aVR -150, aVL -30, aVF 90 degrees
        ("II", "I+III", "I", 1),  # 60 and 60: the first in clinical order
        ("III", "I", "I", -1),  # 120, beyond 90
        ("aVF", "I", "I", 1),  # 90 does not exceed 90
        ("aVR", "II", "II", -1),  # 60 to -150 is 210, the other way round 150
        ("I", "V1", None, 1),
        # chest leads by number
        ("V2", "V1+V3", "V1", 1),  # 1 and 1: the first
        ("V4", "V1+V6", "V6", 1),
        ("V3", "I+II", None, 1),
    ],
)
def test_copy_takes_the_nearest_of_its_kind(
    lead: str, measured: str, source: str | None, sign: int
) -> None:
    subset, signal = LeadSubset.parse(measured), ecg(0)
    assert nearest(lead, list(subset)) == (source, sign)
    row = filled("copy", signal, subset)[LEADS.index(lead)]
    expected = np.zeros(TIME) if source is None else sign * signal[LEADS.index(source)]
    assert np.array_equal(row, expected)
