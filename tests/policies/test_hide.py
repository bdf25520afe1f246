"""The way from a record to a network's input: hidden leads influence nothing, and a policy that
leaks is stopped.

Every case runs over the names of the room and native, so a policy dropped into the room is covered
without a line here.
"""

from itertools import product
from typing import Any

import numpy as np
import pytest

from ecgbench.cards.model import InputContract
from ecgbench.ecg.leads import ALL, LEADS, LeadSubset
from ecgbench.errors import LeakError
from ecgbench.policies import ROOM
from ecgbench.policies.hide import NATIVE, Policy, adapt, sees

EIGHT = ("I", "II", "V1", "V2", "V3", "V4", "V5", "V6")
POLICIES = [*ROOM.names(), NATIVE]
NORMALISATIONS = ("none", "minmax-per-lead", "standardise-per-lead", "standardise-record")
FEEDINGS = list(product(NORMALISATIONS, ("before", "after")))
SUBSETS = [
    LeadSubset.parse(t) for t in ("I", "III", "V3", "I+II", "II+aVF", "I+V2", "aVR+aVL+V1+V6")
]
VIEW = (np.random.default_rng(0).normal(0, 1, (12, 80)) + np.linspace(-1, 1, 12)[:, None]).astype(
    np.float32
)


def contract(
    normalisation: str = "none", fill: str = "before", leads: tuple[str, ...] = LEADS
) -> InputContract:
    facts: dict[str, Any] = {"normalisation": normalisation, "fill": fill, "leads": leads}
    facts |= {"name": "paper", "fs": 100, "seconds": 0.8, "unit": "mV", "filter": None}
    return InputContract(**facts, policy="zero", absent="0 mV")


def training() -> list[np.ndarray]:
    return [np.random.default_rng(s).normal(s, 1, (12, 30)).astype(np.float32) for s in range(1, 4)]


@pytest.fixture(scope="module")
def policies() -> dict[str, Policy]:
    return {name: Policy.of(name, training) for name in POLICIES}


@pytest.mark.parametrize("leads", [LEADS, EIGHT], ids=["twelve", "eight"])
@pytest.mark.parametrize(("normalisation", "fill"), FEEDINGS)
@pytest.mark.parametrize("name", POLICIES)
def test_hidden_leads_change_no_bit(
    name: str, normalisation: str, fill: str, leads: tuple[str, ...], policies: dict[str, Policy]
) -> None:
    """The promise the study rests on: whatever stands in a lead that was not measured, the network
    receives the same bytes.
    """
    noise, was = np.random.default_rng(1).normal(0, 1e3, VIEW.shape), VIEW.copy()
    for subset in SUBSETS:
        there = subset.mask[:, None]
        others = [
            np.where(there, VIEW, hidden).astype(np.float32)
            for hidden in (noise, 0, np.nan, np.inf)
        ]
        results = [
            adapt(v, subset.mask, contract(normalisation, fill, leads), policies[name])
            for v in (VIEW, *others)
        ]
        assert len({(s.tobytes(), m.tobytes()) for s, m in results}) == 1, str(subset)
        signal, measured = results[0]
        assert np.array_equal(VIEW, was)
        assert signal.shape == (len(leads), 80)
        assert signal.dtype == np.float32
        assert measured.dtype == bool
        if name == NATIVE:
            assert measured.tolist() == [n in subset for n in leads]
            assert np.array_equal(np.isnan(signal), np.repeat(~measured[:, None], 80, 1))
        else:
            assert measured.all()
            assert np.isfinite(signal).all()


@pytest.mark.parametrize("normalisation", NORMALISATIONS)
def test_with_all_leads_every_policy_gives_what_native_gives(
    normalisation: str, policies: dict[str, Policy]
) -> None:
    """Training sees twelve leads, so one head serves all policies."""
    expected = adapt(VIEW, ALL.mask, contract(normalisation), policies[NATIVE])[0]
    for name, fill in product(POLICIES, ("before", "after")):
        assert np.array_equal(
            adapt(VIEW, ALL.mask, contract(normalisation, fill), policies[name])[0], expected
        )


def scaled(x: np.ndarray, like: np.ndarray) -> np.ndarray:
    """x standardised by the mean and standard deviation of `like`, in float64."""
    like = like.astype(np.float64)
    return (x - like.mean()) / like.std()


@pytest.mark.parametrize("subset", SUBSETS, ids=str)
def test_what_zero_means(subset: LeadSubset, policies: dict[str, Policy]) -> None:
    """Before the normalisation 0 mV is a value like any other; after it an absent lead is 0 and the
    others do not know of it.
    """
    mask, zero = subset.mask, policies["zero"]
    padded = np.where(mask[:, None], VIEW, 0)

    def given(normalisation: str, fill: str) -> np.ndarray:
        return adapt(VIEW, mask, contract(normalisation, fill), zero)[0]

    assert np.array_equal(given("none", "before"), padded)
    assert np.array_equal(given("none", "after"), padded)
    assert (given("minmax-per-lead", "before")[~mask] == -1).all()
    assert (given("minmax-per-lead", "after")[~mask] == 0).all()
    assert np.array_equal(
        given("minmax-per-lead", "before")[mask], given("minmax-per-lead", "after")[mask]
    )
    np.testing.assert_allclose(
        given("standardise-record", "before"), scaled(padded, padded), atol=1e-5
    )
    after = given("standardise-record", "after")
    assert (after[~mask] == 0).all()
    np.testing.assert_allclose(after[mask], scaled(VIEW[mask], VIEW[mask]), atol=1e-5)


def test_under_fill_after_what_a_policy_knows_is_normalised_and_only_the_rest_is_zero(
    policies: dict[str, Policy],
) -> None:
    subset = LeadSubset.of("I", "II", "V1")
    signal = adapt(
        VIEW, subset.mask, contract("standardise-record", "after"), policies["einthoven"]
    )[0]
    known = np.vstack(
        [
            (np.array([[1, 0], [0, 1], [-1, 1], [-0.5, -0.5], [1, -0.5], [-0.5, 1]]) @ VIEW[:2]),
            VIEW[6:7],
        ]
    )
    np.testing.assert_allclose(signal[:7], scaled(known, known), atol=1e-5)
    assert not signal[7:].any()


def test_a_network_of_eight_leads_gets_its_rows_in_its_order_and_the_policy_sees_twelve() -> None:
    seen = []

    def fill(signal: np.ndarray, measured: np.ndarray, state: object) -> np.ndarray:
        seen.append((signal.shape, measured.tolist()))
        # every missing lead copies III, which the network does not read
        return np.where(measured[:, None], signal, signal[2])

    subset = LeadSubset.of("III", "V2")
    signal, measured = adapt(VIEW, subset.mask, contract(leads=EIGHT), Policy("own", fill))
    assert seen == [((12, 80), subset.mask.tolist())]
    assert np.array_equal(signal, VIEW[[2, 2, 2, 7, 2, 2, 2, 2]])
    assert measured.tolist() == [True] * 8
    _, measured = adapt(VIEW, subset.mask, contract(leads=EIGHT), Policy(NATIVE, None))
    assert measured.tolist() == [n == "V2" for n in EIGHT]


@pytest.mark.parametrize(("normalisation", "fill"), FEEDINGS)
def test_a_lead_that_a_network_does_not_read_does_not_reach_it_through_the_normalisation(
    normalisation: str, fill: str, policies: dict[str, Policy]
) -> None:
    """III alone is an all-zero input of a network of eight leads, and III beside I changes nothing
    under zero and native.
    """
    alone, _ = adapt(
        VIEW, LeadSubset.of("III").mask, contract(normalisation, fill, EIGHT), policies["zero"]
    )
    blank = -1 if (normalisation, fill) == ("minmax-per-lead", "before") else 0
    assert (alone == blank).all()
    for name in ("zero", NATIVE):
        one, both = (
            adapt(
                VIEW, LeadSubset.parse(t).mask, contract(normalisation, fill, EIGHT), policies[name]
            )[0]
            for t in ("I", "I+III+aVF")
        )
        assert one.tobytes() == both.tobytes()


def _forgets_one(signal: np.ndarray, measured: np.ndarray, state: object) -> np.ndarray:
    out = np.where(measured[:, None], signal, 0)
    out[np.flatnonzero(~measured)[-1], -1] = np.nan
    return out


def _peeks(signal: np.ndarray, measured: np.ndarray, state: object) -> np.ndarray:
    return np.where(measured[:, None], signal, signal.mean(0))


def _moves_one_sample(signal: np.ndarray, measured: np.ndarray, state: object) -> np.ndarray:
    out = np.where(measured[:, None], signal, 0)
    row = np.flatnonzero(measured)[0]
    out[row, 5] = np.nextafter(out[row, 5], np.inf)
    return out


def _moves_all_under_a_new_mask(
    signal: np.ndarray, measured: np.ndarray, state: object
) -> np.ndarray:
    measured[:] = False
    return np.zeros_like(signal)


BAD = [_forgets_one, _peeks, _moves_one_sample, _moves_all_under_a_new_mask]


@pytest.mark.parametrize("leads", [LEADS, EIGHT], ids=["twelve", "eight"])
@pytest.mark.parametrize("bad", BAD, ids=lambda f: f.__name__.strip("_"))
@pytest.mark.parametrize("fill", ["before", "after"])
def test_a_policy_that_peeks_forgets_or_alters_is_stopped(
    bad: Any, fill: str, leads: tuple[str, ...]
) -> None:
    for subset in SUBSETS:
        with pytest.raises(LeakError, match="policy 'bad'"):
            adapt(VIEW, subset.mask, contract("minmax-per-lead", fill, leads), Policy("bad", bad))


@pytest.mark.parametrize(
    ("leads", "measured", "policy", "told"),
    [
        (("I", "II"), "II", "zero", True),
        (("I", "II"), "V1", "zero", False),
        (("I", "II"), "V1", "mean", False),  # a constant of the training records
        (("I",), "II+III", "einthoven", True),
        (("I",), "II", "einthoven", False),
        (("I",), "aVF", "copy", True),
        (EIGHT, "III", NATIVE, False),
        (EIGHT, "V6", NATIVE, True),
    ],
)
def test_a_window_counts_as_seen_where_a_measured_sample_reaches_the_network(
    leads: tuple[str, ...], measured: str, policy: str, told: bool, policies: dict[str, Policy]
) -> None:
    mask = LeadSubset.parse(measured).mask
    assert sees(contract(leads=leads), mask, policies[policy]) == told
