"""`--leads` parsed, and the draw of leads: nested, uniform, named by seed and record and by nothing
else.
"""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from ecgbench.ecg.draw import (
    Count,
    Fixed,
    bits,
    can_give,
    draw,
    parse_leads,
    settings,
    training_leads,
)
from ecgbench.ecg.leads import ALL, LEADS, LeadSubset, bits_to_mask
from ecgbench.errors import BadSetting, EcgbenchError, UnknownName

RECORDS = [f"{i:05d}" for i in range(6000)]


def test_subsets_of_a_record_nest_up_to_all_leads() -> None:
    for record in RECORDS[:40]:
        for window in (None, 0, 3):
            sets = [set(draw(k, 2, record, window)) for k in range(1, 13)]
            assert [len(s) for s in sets] == list(range(1, 13))
            assert all(a < b for a, b in pairwise(sets))
            assert sets[-1] == set(LEADS)


@pytest.mark.parametrize("window", [None, 5])
def test_every_lead_and_every_pair_is_as_likely(window: int | None) -> None:
    singles = [str(draw(1, 0, r, window)) for r in RECORDS]
    assert chisquare([singles.count(n) for n in LEADS]).pvalue > 1e-3
    pairs = [draw(2, 0, r, window).leads for r in RECORDS]
    assert chisquare([pairs.count(p) for p in combinations(LEADS, 2)]).pvalue > 1e-3


def test_the_draw_is_the_one_of_every_run_so_far() -> None:
    """Pinned: a change here changes every published number and calls for new FEATURES."""
    assert [str(draw(2, 0, "00001")), str(draw(2, 1, "00001")), str(draw(2, 0, "00001", 0))] == [
        "V1+V2",
        "II+aVR",
        "aVL+V3",
    ]


def test_bits_say_what_is_measured_in_each_window() -> None:
    fixed = LeadSubset.of("II", "V2")
    assert bits(Fixed(fixed), "r", 3).tolist() == [fixed.bits] * 3
    assert bits(Count(12, 3), "r", 2, "window").tolist() == [ALL.bits] * 2
    assert bits(Count(2, 3), "r", 4).tolist() == [draw(2, 3, "r").bits] * 4
    each = bits(Count(2, 3), "r", 40, "window")
    assert each.tolist() == [draw(2, 3, "r", w).bits for w in range(40)]
    assert len(set(each.tolist())) > 10
    assert (bits_to_mask(each).sum(1) == 2).all()
    assert bits(Count(2, 3), "r", 0, "window").dtype == bits(Fixed(fixed), "r", 0).dtype == np.int16


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("1,2,12,I,II,I+II", ["1", "2", "12", "I", "II", "I+II"]),
        ("1-12", [str(k) for k in range(1, 13)]),
        (" 1 , II ", ["1", "II"]),
        ("2-2,1 - 3,2", ["2", "1", "3"]),
        ("v2+i,I+V2, avr", ["I+V2", "aVR"]),
        ("12,1", ["12", "1"]),
        ("cinc12,CINC4, cinc2,I+II", ["12", "I+II+III+V2", "I+II"]),
    ],
)
def test_leads_as_typed(text: str, meant: list[str]) -> None:
    assert [str(x) for x in parse_leads(text)] == meant


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("13", "13.*1 to 12"),
        ("0", "0.*1 to 12"),
        ("1-13", "1-13.*1 to 12"),
        ("-3", "-3.*1-12"),
        ("1-", "1-.*1-12"),
        ("1-2-3", "1-2-3.*1-12"),
        ("1_0", "1_0.*1-12"),
        ("1.5", "1.5.*1-12"),
        ("²", "².*1-12"),
        ("2V", "2V.*II or I.V2"),
        ("5-2", "5-2.*2-5"),
        ("I+I", r"I.*twice in I\+I"),
        ("I+", "unknown lead ''"),
        ("1,,2", "1,,2.*empty.*--leads 1,2"),
        ("", "empty.*--leads 1,2"),
        ("1,", "1,.*empty"),
        ("I-III", "I-III"),
    ],
)
def test_bad_leads_are_refused_in_one_line_that_repeats_them(text: str, said: str) -> None:
    with pytest.raises(EcgbenchError, match=said) as caught:
        parse_leads(text)
    assert "\n" not in str(caught.value)


def test_an_unknown_lead_suggests_the_nearest() -> None:
    with pytest.raises(UnknownName, match="'V7'; did you mean V"):
        parse_leads("1,I+V7")


def test_settings_in_the_order_asked_with_twelve_leads_once() -> None:
    asked = parse_leads("2,II,12,1")
    ii = Fixed(LeadSubset.of("II"))
    assert settings(asked, 2) == [
        Count(2, 0),
        Count(2, 1),
        ii,
        Count(12, 0),
        Count(1, 0),
        Count(1, 1),
    ]
    assert [str(s) for s in settings(asked, 1)] == ["2@seed0", "II", "12", "1@seed0"]
    assert [s.typed for s in settings(asked, 1)] == ["2", "II", "12", "1"]
    assert settings((), 3) == []


def test_settings_that_cannot_be() -> None:
    for k in (0, 13, -1):
        with pytest.raises(BadSetting, match="1 to 12"):
            Count(k, 0)
    with pytest.raises(BadSetting, match="--seeds 0"):
        settings((1,), 0)


@given(st.integers(1, 4095), st.integers(0, 4))
def test_draws_are_among_the_leads_that_a_record_has(available: int, seed: int) -> None:
    has, count = LeadSubset.from_bits(available), available.bit_count()
    nested = [set(draw(k, seed, "r", available=available)) for k in range(1, count + 1)]
    assert all(small < large for small, large in pairwise(nested))
    assert nested[-1] == set(has)
    assert [can_give(Count(k, seed), available) for k in range(1, 13)] == [
        k <= count for k in range(1, 13)
    ]
    # the order of those it has is the order of all twelve
    order = [set(draw(k, seed, "r")) for k in range(1, 13)]
    whole = [next(iter(b - a)) for a, b in pairwise([set(), *order])]
    mine = [next(iter(b - a)) for a, b in pairwise([set(), *nested])]
    assert mine == [lead for lead in whole if lead in has]
    shown = LeadSubset.from_bits(training_leads(LEADS, "t", seed, available=available))
    assert set(shown) <= set(has)


def test_a_fixed_setting_needs_its_leads() -> None:
    setting, has = Fixed(LeadSubset.of("I", "V2")), LeadSubset.of("I", "II", "V2").bits
    assert can_give(setting, has)
    assert not can_give(setting, LeadSubset.of("I", "II").bits)
    with pytest.raises(BadSetting, match="r: none of its leads is among V1, V2"):
        training_leads(("V1", "V2"), "r", available=LeadSubset.of("II").bits)
