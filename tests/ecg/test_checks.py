"""Faults put into recordings, invented and genuine: each is told with its reason, and what is sound
is not talked about.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from ecgbench.data.source import rows
from ecgbench.datasets import demo, ptbxl
from ecgbench.ecg.checks import findings
from ecgbench.ecg.checks.finding import Change
from ecgbench.ecg.leads import LEADS, LIMB
from ecgbench.ecg.recording import Recording

WITHIN = 0.01
BROKEN = {"00162": "identities", "00551": "identities", "00477": "rate"}
"""Genuine records of the 2,000 at hand of which something is told: two that miss the identities,
and a slow heart (31 a minute) with wide QRS complexes.
"""


def told(recording: Recording) -> dict[str, str]:
    return {f.kind: f.sentence for f in findings(recording, WITHIN)}


def swapped(recording: Recording, one: str, other: str) -> Recording:
    return Change(((one, other, 1), (other, one, 1)))(recording)


def inverted(recording: Recording, lead: str) -> Recording:
    return Change(((lead, lead, -1),))(recording)


def arms_exchanged(recording: Recording) -> Recording:
    changed = swapped(swapped(recording, "II", "III"), "aVR", "aVL")
    return inverted(changed, "I")


def scaled(recording: Recording, factor: float) -> Recording:
    signal = recording.signal.astype(np.float64) * factor
    return replace(recording, signal=signal.astype(np.float32))


def copied(recording: Recording, to: str, source: str, sign: int = 1) -> Recording:
    return Change(((to, source, sign),))(recording)


@pytest.fixture(scope="module")
def invented() -> list[Recording]:
    return [demo.recording(n) for n in (2, 13, 20, 27)]


@pytest.fixture(scope="module")
def genuine(real_ptbxl: Path) -> list[Recording]:
    """40 of the 2,000, drawn; without those of which something is told."""
    index = ptbxl.index(real_ptbxl / "ptbxl")
    index = index[~index["record"].isin(BROKEN)]
    drawn = index.sample(40, random_state=0)
    return [ptbxl.read(real_ptbxl / "ptbxl", row).clinical() for row in rows(drawn)]


def changes() -> Iterator[tuple[str, Callable[[Recording], Recording]]]:
    for a, b in combinations(LIMB, 2):
        yield f"with {a} and {b} exchanged", lambda r, a=a, b=b: swapped(r, a, b)
    for a in LIMB:
        yield f"with {a} inverted", lambda r, a=a: inverted(r, a)


@pytest.mark.parametrize("where", ["invented", pytest.param("genuine", marks=pytest.mark.real)])
def test_any_exchange_or_inversion_of_limb_leads_is_singled_out_and_undone(
    where: str, request: pytest.FixtureRequest
) -> None:
    recordings = request.getfixturevalue(where)
    for said, fault in changes():
        for recording in recordings[:5]:
            broken = fault(recording)
            (found, *more) = findings(broken, WITHIN)
            assert (found.kind, more) == ("identities", [])
            assert said in found.sentence, (recording.record, found.sentence)
            assert found.change is not None
            np.testing.assert_array_equal(found.change(broken).signal, recording.signal)


def test_a_rotation_is_undone_and_a_foreign_signal_is_told_without_a_cause(
    invented: list[Recording],
) -> None:
    rotated = Change((("aVR", "aVL", 1), ("aVL", "aVF", 1), ("aVF", "aVR", 1)))(invented[0])
    (found,) = findings(rotated, WITHIN)
    assert "with aVF taken for aVR, aVR taken for aVL, aVL taken for aVF they agree" in (
        found.sentence
    )
    assert found.change is not None
    np.testing.assert_array_equal(found.change(rotated).signal, invented[0].signal)
    foreign = invented[0].signal.copy()
    foreign[5, 2500] += 0.02
    (found,) = findings(replace(invented[0], signal=foreign), WITHIN)
    assert found.change is None
    assert found.sentence == (
        "|2 aVF - II - III| reaches 0.04 mV (1 of 5,000 samples beyond the 0.01 mV that are "
        "allowed)"
    )


def test_the_threshold_is_the_cards_and_limited_samples_do_not_count(
    invented: list[Recording],
) -> None:
    off = invented[0].signal.copy()
    off[3] += 0.1
    off = replace(invented[0], signal=off)
    assert [f.kind for f in findings(off, 0.19)] == ["identities"]
    assert findings(off, 0.21) == findings(off, None) == []
    assert findings(replace(off, unit="standardised"), 0.19) == []
    top = float(np.abs(invented[0].signal).max()) / 2
    limited = replace(invented[0], signal=invented[0].signal.clip(-top, top))
    assert "identities" in told(limited)
    assert findings(limited, WITHIN, clip=top) == []


@pytest.mark.parametrize(("factor", "unit"), [(1e3, "uV"), (1e6, "nV"), (1e-3, "V")])
def test_another_unit_is_named_and_nothing_is_changed(
    factor: float, unit: str, invented: list[Recording]
) -> None:
    for recording in invented:
        steps = np.rint(recording.signal.astype(np.float64) * 1000)
        recording = replace(recording, signal=(steps / 1000).astype(np.float32))
        broken = scaled(recording, factor)
        (found,) = findings(broken, WITHIN)
        assert f"; read as {unit} it would span " in found.sentence
        assert found.change is None
        both = {f.kind: f.sentence for f in findings(swapped(broken, "aVR", "aVF"), WITHIN)}
        assert list(both) == ["identities", "scale"]
        assert "with aVR and aVF exchanged" in both["identities"]


def test_copies_are_told_and_what_follows_from_a_flat_lead_is_not(
    invented: list[Recording],
) -> None:
    recording = invented[0]
    assert told(copied(recording, "V3", "V2")) == {"copies": "V3 equals V2 in all 5,000 samples"}
    assert told(copied(recording, "V6", "V1", -1)) == {
        "copies": "V6 is the negative of V1 in all 5,000 samples"
    }
    assert {*told(copied(recording, "aVL", "I"))} == {"identities", "copies"}
    two, zero = recording.signal[1], np.zeros_like(recording.signal[0])
    limb = [zero, two, two, -two / 2, -two / 2, two]
    assert told(replace(recording, signal=np.stack([*limb, *recording.signal[6:]]))) == {}


def test_a_wrong_rate_is_told_where_the_rhythm_cannot_be(invented: list[Recording]) -> None:
    said = [told(replace(r, fs=r.fs / 2)).get("rate", "") for r in invented]
    assert sum(map(bool, said)) >= 3
    assert any("at the stated 250 Hz the heart beats" in s and "; 500 Hz would" in s for s in said)


def test_exchanged_arm_electrodes_keep_the_identities_and_are_told_as_likely(
    invented: list[Recording],
) -> None:
    said = [told(arms_exchanged(r)) for r in invented]
    assert {kind for each in said for kind in each} == {"arms"}
    assert sum("likely exchanged" in each.get("arms", "") for each in said) >= 3


def test_the_order_of_the_leads_in_the_file_is_of_no_account(invented: list[Recording]) -> None:
    draw = np.random.default_rng(0)
    recording = invented[0]
    faults = (
        recording,
        swapped(recording, "III", "aVF"),
        arms_exchanged(recording),
        scaled(recording, 1000),
        copied(recording, "V3", "V2"),
        replace(recording, fs=250),
    )
    for broken in faults:
        for _ in range(3):
            order = draw.permutation(12)
            mixed = replace(
                broken, signal=broken.signal[order], leads=tuple(LEADS[i] for i in order)
            )
            assert findings(mixed, WITHIN) == findings(broken, WITHIN)


def test_leads_that_were_not_measured_are_not_asked_for(invented: list[Recording]) -> None:
    recording = swapped(invented[0], "aVR", "aVF")
    few = replace(recording, signal=recording.signal[[0, 1, 7, 8]], leads=("I", "II", "V2", "V3"))
    assert told(few) == {}
    assert {*told(copied(few, "V3", "V2"))} == {"copies"}
    for short in (few, invented[0]):
        assert told(replace(short, signal=short.signal[:, :3])) == {}
    assert told(replace(few, signal=0 * few.signal)) == {}


@pytest.mark.real
def test_genuine_recordings_are_silent_and_their_faults_are_told(
    genuine: list[Recording],
) -> None:
    assert [told(r) for r in genuine] == [{}] * len(genuine)
    for kind, fault, least in (
        ("copies", lambda r: copied(r, "V3", "V2"), 1.0),
        ("scale", lambda r: scaled(r, 1000), 1.0),
        ("identities", lambda r: swapped(r, "aVR", "aVF"), 1.0),
        ("arms", arms_exchanged, 0.5),  # measured: 0.69 of 250
        ("rate", lambda r: replace(r, fs=250), 0.6),  # 0.75 of 250
    ):
        said = [told(fault(r)) for r in genuine]
        assert {k for each in said for k in each} == {kind}
        assert sum(map(bool, said)) >= least * len(genuine), kind
