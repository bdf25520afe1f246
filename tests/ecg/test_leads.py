"""The algebra of the limb leads against formulas written by hand and ranks, and sets of leads over
all 4,095 of them.
"""

from itertools import combinations

import numpy as np
import pytest

from ecgbench.ecg.leads import (
    ALL,
    ANGLE,
    LEADS,
    LIMB,
    LIMB_FROM_I_II,
    LeadSubset,
    bits_to_mask,
    canonical,
    derivable,
    derive_limb,
    rows_of,
)
from ecgbench.errors import BadSetting, UnknownName

EVERY = [LeadSubset.from_bits(b) for b in range(1, 4096)]
PAIRS = list(combinations(LIMB, 2))


def hiding(subset: LeadSubset, signal: np.ndarray) -> np.ndarray:
    return np.where(subset.mask[:, None], signal, np.nan)


@pytest.mark.parametrize("pair", PAIRS, ids="+".join)
def test_two_leads_of_any_values_are_kept_and_einthoven_and_goldberger_hold(
    pair: tuple[str, str],
) -> None:
    signal, subset = np.random.default_rng(2).normal(0, 1, (12, 40)), LeadSubset.of(*pair)
    one, two, three, right, left, foot = derived = derive_limb(hiding(subset, signal), subset.mask)
    np.testing.assert_allclose(derived[rows_of(pair)], signal[rows_of(pair)], rtol=0, atol=1e-12)
    np.testing.assert_allclose(one + three, two, rtol=0, atol=1e-12)
    np.testing.assert_allclose(right + left + foot, 0, rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        [right, left, foot],
        [-(one + two) / 2, (one - three) / 2, (two + three) / 2],
        rtol=0,
        atol=1e-12,
    )


def test_leads_that_disagree_are_averaged_by_least_squares_and_chest_leads_take_no_part() -> None:
    signal, subset = (
        np.random.default_rng(3).normal(0, 1, (12, 40)),
        LeadSubset.of("I", "III", "aVF", "V1"),
    )
    plane, *_ = np.linalg.lstsq(LIMB_FROM_I_II[[0, 2, 5]], signal[[0, 2, 5]], rcond=None)
    np.testing.assert_allclose(
        derive_limb(hiding(subset, signal), subset.mask), LIMB_FROM_I_II @ plane, rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("names", [("I",), ("V1", "V2"), ("aVR", "V6")])
def test_one_limb_lead_is_not_enough(names: tuple[str, ...]) -> None:
    with pytest.raises(BadSetting, match="two"):
        derive_limb(np.zeros((12, 3)), LeadSubset.of(*names).mask)


def test_angles_are_those_of_the_algebra() -> None:
    """A dipole at 20 degrees: a bipolar lead sees the cosine, an augmented one sqrt(3)/2 of it, I
    and II being given.
    """
    one, two = (np.cos(np.radians(20 - ANGLE[n])) for n in ("I", "II"))
    seen = LIMB_FROM_I_II @ [one, two]
    size = np.where(np.char.startswith(LIMB, "a"), np.sqrt(3) / 2, 1)
    np.testing.assert_allclose(
        seen, size * [np.cos(np.radians(20 - ANGLE[n])) for n in LIMB], atol=1e-12
    )


def test_derivable_is_what_the_rank_of_the_measured_leads_says() -> None:
    """Nine electrodes span eight dimensions; a lead is determined when adding it does not raise the
    rank.
    """
    eye = np.eye(8)
    matrix = np.vstack([LIMB_FROM_I_II @ eye[:2], eye[2:]])
    ranks = {s.bits: np.linalg.matrix_rank(matrix[rows_of(s)]) for s in EVERY}
    for s in EVERY:
        expected = tuple(n for i, n in enumerate(LEADS) if ranks[s.bits | 1 << i] == ranks[s.bits])
        assert derivable(s) == expected, str(s)


def test_every_subset_survives_its_text_its_bits_and_its_mask() -> None:
    assert len(set(EVERY)) == 4095
    for s in EVERY:
        assert LeadSubset.parse("+".join(reversed(str(s).lower().split("+")))) == s
        assert LeadSubset.from_bits(s.bits) == s
        assert hash(LeadSubset.of(*reversed(s.leads))) == hash(s)
        assert (
            [n for n, m in zip(LEADS, s.mask, strict=True) if m]
            == list(s)
            == [n for n in LEADS if n in s]
        )
        assert len(s) == s.mask.sum()
    assert np.array_equal(
        bits_to_mask(np.array([s.bits for s in EVERY], np.int16)), [s.mask for s in EVERY]
    )
    assert EVERY[-1] == ALL


@pytest.mark.parametrize("bits", [0, -1, 4096, 4097])
def test_what_is_no_mask_of_twelve_leads_is_refused(bits: int) -> None:
    with pytest.raises(BadSetting, match=str(bits)):
        LeadSubset.from_bits(bits)


def test_a_set_is_never_empty_double_or_out_of_order() -> None:
    for leads in [(), ("I", "I"), ("II", "I"), ("I", "V7"), ("avr",)]:
        with pytest.raises(BadSetting):
            LeadSubset(leads)
    with pytest.raises(BadSetting, match=r"lead I is named twice in I\+V1\+i"):
        LeadSubset.of("I", "V1", "i")


def test_spelling_is_loose_and_an_unknown_name_is_told_the_nearest() -> None:
    assert (
        [canonical(n.upper()) for n in LEADS]
        == [canonical(f" {n.lower()} ") for n in LEADS]
        == list(LEADS)
    )
    with pytest.raises(
        UnknownName, match=r"unknown lead 'V7'; did you mean V\d.*Known: I, II, III, aVR"
    ):
        canonical("V7")
    with pytest.raises(UnknownName, match="did you mean aVR"):
        canonical("avrr")
    assert rows_of(["V6", "i", "AVF"]) == [11, 0, 5]
