"""A recording refuses what cannot be trusted, and puts its leads in clinical order without touching
a sample.
"""

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from ecgbench.ecg.leads import LEADS, LIMB, LIMB_FROM_I_II
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord

NOISE = np.random.default_rng(0).normal(0, 1, (12, 50)).astype(np.float32)


def make(**changes: Any) -> Recording:
    return Recording(
        **{
            "signal": NOISE,
            "unit": "mV",
            "leads": LEADS,
            "fs": 500.0,
            "record": "r7",
            "patient": "p",
            **changes,
        }
    )


def spoiled(value: float) -> np.ndarray:
    signal = NOISE.copy()
    signal[3, 7] = value
    return signal


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"leads": (*LEADS[:11], "V5")}, "V5.*twice|twice.*V5"),
        ({"leads": (*LEADS[:11], "V7")}, "unknown lead 'V7'"),
        ({"leads": LEADS[:11]}, "11 leads"),
        ({"signal": NOISE[0]}, "shape"),
        ({"signal": NOISE[:, :0]}, "shape"),
        ({"signal": NOISE[:0], "leads": ()}, "shape"),
        ({"unit": "uV"}, "uV.*mV"),
        ({"fs": 0.0}, "0.0 Hz"),
        ({"fs": float("nan")}, "nan Hz"),
        ({"fs": float("inf")}, "inf Hz"),
        ({"signal": spoiled(np.nan)}, "1 samples are not finite"),
        ({"signal": spoiled(-np.inf)}, "not finite"),
        ({"signal": NOISE.astype(np.float64) * 1e300}, "not finite"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_refusals_name_the_record(changes: dict[str, Any], said: str) -> None:
    """BadRecord in every case: preparing quarantines the record and goes on."""
    with pytest.raises(BadRecord, match=said) as caught:
        make(**changes)
    assert str(caught.value).startswith("r7: ")


def test_leads_in_another_order_give_the_same_clinical_record() -> None:
    order = np.random.default_rng(1).permutation(12)
    shuffled = make(signal=NOISE[order], leads=[LEADS[i].upper() for i in order])
    assert shuffled.leads == tuple(LEADS[i] for i in order)
    clinical = shuffled.clinical()
    assert clinical.leads == LEADS
    assert np.array_equal(clinical.signal, NOISE)
    assert (clinical.unit, clinical.fs, clinical.record, clinical.patient) == (
        "mV",
        500.0,
        "r7",
        "p",
    )
    few = make(signal=NOISE[:3], leads=["V6", "aVF", "I"])
    assert few.clinical().leads == ("I", "aVF", "V6")
    assert np.array_equal(few.clinical().signal, NOISE[[2, 1, 0]])
    assert np.array_equal(few.rows[[0, 5, 11]], NOISE[[2, 1, 0]])
    assert np.isnan(np.delete(few.rows, [0, 5, 11], axis=0)).all()


@pytest.mark.parametrize("pair", list(combinations(LIMB, 2)), ids="+".join)
def test_any_two_limb_leads_give_the_six(pair: tuple[str, str]) -> None:
    plane = LIMB_FROM_I_II @ NOISE[:2].astype(np.float64)
    rows = [plane[LIMB.index(n)] for n in pair]
    made = make(signal=np.array([*rows, NOISE[9]]), leads=[*pair, "V4"]).completed().clinical()
    assert made.leads == (*LIMB, "V4")
    np.testing.assert_allclose(made.signal[:6], plane, atol=1e-6)
    # what was measured is not touched
    for name, row in zip(pair, rows):
        assert np.array_equal(made.signal[LIMB.index(name)], row.astype(np.float32))


def test_one_limb_lead_gives_no_other() -> None:
    one = make(signal=NOISE[:2], leads=["II", "V1"])
    assert one.completed() is one
    assert make().completed().leads == LEADS


def test_a_lead_without_variation_is_kept_and_flagged() -> None:
    signal = NOISE.copy()
    signal[4], signal[9] = 0, -0.3
    assert make(signal=signal).flat() == ("aVL", "V4")
    assert make().flat() == ()


def test_units_of_time_and_number() -> None:
    recording = make(signal=NOISE.astype(np.float64)[:, ::2], fs=250)
    assert recording.signal.dtype == np.float32
    assert recording.signal.flags["C_CONTIGUOUS"]
    assert recording.seconds == pytest.approx(0.1)
