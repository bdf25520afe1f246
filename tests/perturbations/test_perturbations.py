"""Perturbations: laws of the leads, sizes that are stated, and what cannot be determined."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ecgbench import perturbations
from ecgbench.check.perturbations import check
from ecgbench.datasets import demo
from ecgbench.ecg.electrodes import FROM_ELECTRODES, potentials
from ecgbench.ecg.leads import CHEST, LEADS
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord, BadSetting, EcgbenchError

ROWS = {name: row for row, name in enumerate(LEADS)}


@pytest.fixture(scope="module")
def recording() -> Recording:
    return demo.recording(3)


def only(recording: Recording, *leads: str) -> Recording:
    rows = [ROWS[lead] for lead in leads]
    return replace(recording, signal=recording.signal[rows], leads=leads)


def every() -> list[str]:
    made = []
    for name in perturbations.names():
        known = perturbations.get(name).CARD
        made += [str(perturbations.Perturbation(name, level)) for level in known.levels]
    return made


def test_leads_follow_from_the_electrodes() -> None:
    """The textbook's sums, with a constant that all electrodes share."""
    random = np.random.default_rng(0)
    ra, la, ll, *chest = 5.0 + random.standard_normal((9, 4))
    centre = (ra + la + ll) / 3
    limb = [la - ra, ll - ra, ll - la, ra - (la + ll) / 2, la - (ra + ll) / 2, ll - (ra + la) / 2]
    expected = np.array([*limb, *(c - centre for c in chest)])
    np.testing.assert_allclose(
        FROM_ELECTRODES @ np.array([ra, la, ll, *chest]), expected, atol=1e-12
    )
    np.testing.assert_allclose(FROM_ELECTRODES @ potentials(expected), expected, atol=1e-12)


@pytest.mark.parametrize("name", every())
def test_every_perturbation_keeps_the_laws_of_the_limb_leads(
    recording: Recording, name: str
) -> None:
    one = perturbations.one(name)
    made, again = one(recording), one(recording)
    assert str(one) == name
    assert np.array_equal(made.signal, again.signal)
    assert made.signal.shape[1] == one.samples(recording.signal.shape[1], recording.fs)
    i, ii, iii, avr, avl, avf = made.signal[:6].astype(np.float64)
    scale = np.abs(made.signal).max()
    if one.name in ("invert", "clip", "quantise", "off"):
        return
    for residue in (ii - i - iii, avr + (i + ii) / 2, avl - i + ii / 2, avf - ii + i / 2):
        assert np.abs(residue).max() <= 1e-6 * max(1.0, scale)


def test_exchanged_arms(recording: Recording) -> None:
    made = perturbations.one("la/ra")(recording).signal.astype(np.float64)
    was = recording.signal.astype(np.float64)
    for lead, sign, other in [("I", -1, "I"), ("II", 1, "III"), ("aVR", 1, "aVL")]:
        assert np.abs(made[ROWS[lead]] - sign * was[ROWS[other]]).max() < 1e-6
    untouched = [ROWS[lead] for lead in ("aVF", *CHEST)]
    assert np.array_equal(made[untouched], was[untouched])


@pytest.mark.parametrize("name", [n for n in every() if "/" in n and "RL" not in n])
def test_an_exchange_twice_is_the_identity(recording: Recording, name: str) -> None:
    one = perturbations.one(name)
    assert np.abs(one(one(recording)).signal - recording.signal).max() < 1e-6


@pytest.mark.parametrize("kind", ["bw", "em", "ma"])
@pytest.mark.parametrize("decibels", [24, 6])
def test_the_ratio_that_is_stated(recording: Recording, kind: str, decibels: int) -> None:
    """Against a search of R peaks of scipy alone."""
    from scipy.signal import find_peaks

    made = perturbations.one(f"{kind}@{decibels}")(recording)
    added = made.signal.astype(np.float64) - recording.signal
    lead = recording.signal[ROWS["II"]]
    steep = np.abs(np.gradient(lead)) * recording.fs
    beats = find_peaks(steep, height=0.4 * steep.max(), distance=round(0.4 * recording.fs))[0]
    reach = round(0.07 * recording.fs)
    heights = [
        np.mean([np.ptp(row[max(0, b - reach) : b + reach]) for b in beats])
        for row in recording.signal
    ]
    ratio = (np.square(heights) / 8).mean() / added.var(axis=1).mean()
    assert 10 * np.log10(ratio) == pytest.approx(decibels, abs=0.6)
    # twice as strong in amplitude is 6.02 dB less, exactly
    louder = perturbations.one(f"{kind}@{decibels - 6}")(recording).signal - recording.signal
    assert 20 * np.log10(louder.std() / added.std()) == pytest.approx(6, abs=0.3)


def test_noise_differs_between_electrodes_and_records_and_not_between_calls(
    recording: Recording,
) -> None:
    em = perturbations.one("em@6")
    added = em(recording).signal - recording.signal
    assert np.abs(np.corrcoef(added[6:]))[np.triu_indices(6, 1)].max() < 0.999
    other = replace(recording, record="another")
    assert np.abs(em(other).signal - em(recording).signal).max() > 0.01
    assert np.array_equal(
        perturbations.Perturbation("em", "inf")(recording).signal, recording.signal
    )


def test_what_was_not_measured_decides_nothing(recording: Recording) -> None:
    """Arms exchanged in lead I alone are -I; with RA/LL lead I would be lead III with another sign,
    which nobody measured.
    """
    one = only(recording, "I")
    assert np.abs(perturbations.one("RA/LA")(one).signal + one.signal).max() < 1e-6
    for name in ("RA/LL", "LA/LL"):
        with pytest.raises(BadRecord, match="lead I rests"):
            perturbations.one(name)(one)
    with pytest.raises(BadRecord, match="V1 rests"):
        perturbations.one("V1/V2")(only(recording, "I", "II", "V1"))
    # noise is measured in what is there alone
    both = only(recording, "I", "II")
    made = perturbations.one("ma@12")(both).signal
    changed = replace(recording, signal=recording.signal.copy())
    changed.signal[6:] *= 7
    assert np.array_equal(perturbations.one("ma@12")(only(changed, "I", "II")).signal, made)


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        ("em@loud", "em@24"),
        ("V1/V9", "RA/LA"),
        ("gain@-1", "gain@0.5"),
        ("emm@6", "em"),
    ],
)
def test_what_cannot_be_meant_is_answered_with_an_example(typed: str, named: str) -> None:
    with pytest.raises(EcgbenchError) as error:
        perturbations.parse(typed)
    assert typed.split("@")[0] in str(error.value)
    assert named in str(error.value)


OWN = """import numpy as np
from ecgbench.cards.rooms import PerturbationCard
CARD = PerturbationCard(title='odd {{}}', acts_on='leads', level='a factor',
    levels={}, range=(0.0, 9.0), summary='odd')
def apply(signal, fs, level, random):
    return {}
"""
ODD = [
    "signal[:, 1:]",
    "signal * float('nan')",
    "np.ma.masked_greater(signal, 0)",
    "signal + np.random.normal(size=signal.shape)",
]


@pytest.mark.parametrize("body", ODD)
def test_one_of_your_own_that_gives_something_else(
    recording: Recording, tmp_path, body: str
) -> None:
    file = tmp_path / f"odd{abs(hash(body)) % 1000}.py"
    file.write_text(OWN.format("('1',)", body))
    with pytest.raises(BadSetting, match="odd"):
        perturbations.one(f"{file}@1")(recording)


def test_leads_that_move_one_another_and_a_card_without_levels_are_found(tmp_path: Path) -> None:
    file = tmp_path / "leak.py"
    file.write_text(OWN.format("('1',)", "signal + np.nan_to_num(signal[6:7])"))
    (name,) = (r["name"] for r in check(str(file)) if not r["ok"])
    assert name.startswith("leads that were not measured decide nothing")
    file = tmp_path / "none.py"
    file.write_text(OWN.format("()", "signal"))
    with pytest.raises(BadSetting, match="levels"):
        check(str(file))


def test_two_halves_are_the_whole(recording: Recording) -> None:
    halves = [perturbations.one(f"half@{n}")(recording).signal for n in (1, 2)]
    assert np.array_equal(np.concatenate(halves, axis=1), recording.signal)
