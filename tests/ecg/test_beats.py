"""Heart rate and QRS duration against the truth of the demo, whose beats are drawn."""

from pathlib import Path

import numpy as np
import pytest
from wfdb.processing import xqrs_detect

from ecgbench.datasets import demo
from ecgbench.ecg.beats import beats, measured
from ecgbench.ecg.readers import by_suffix
from ecgbench.ecg.readers.notation import ReadOptions
from ecgbench.ecg.synthetic import dipole

RECORDS = range(1, 61)


@pytest.fixture(scope="module")
def truth() -> list[tuple[np.ndarray, float]]:
    """Signals, and the rate of the beats that were drawn for them."""
    made, onsets = [], []
    with pytest.MonkeyPatch.context() as patch:
        beats = dipole.beats

        def seen(*words: object) -> object:
            found = beats(*words)  # type: ignore[arg-type]
            onsets.append(found[0])
            return found

        patch.setattr(dipole, "beats", seen)
        for number in RECORDS:
            signal = demo.recording(number).signal
            inside = onsets[-1][(onsets[-1] > 0) & (onsets[-1] < dipole.SECONDS)]
            made.append((signal[:, ::2], 60 / float(np.median(np.diff(inside)))))
    return made


@pytest.mark.parametrize("leads", [slice(None), slice(0, 1), slice(6, 7)], ids=["12", "I", "V1"])
def test_the_rate_is_that_of_the_beats(truth: list[tuple[np.ndarray, float]], leads: slice) -> None:
    found = [measured(signal[leads], 250.0).heart_rate for signal, _ in truth]
    apart = np.abs(np.array(found) / [rate for _, rate in truth] - 1)
    assert np.mean(apart < 0.05) > 0.8
    assert np.median(apart) < 0.01


def test_bundle_branch_block_is_wide(truth: list[tuple[np.ndarray, float]]) -> None:
    table = demo.index(None).iloc[[n - 1 for n in RECORDS]]
    wide = table[["demo:LBBB", "demo:RBBB"]].any(axis=1).to_numpy()
    qrs = np.array([measured(signal, 250.0).qrs for signal, _ in truth])
    assert np.median(qrs[wide]) > 0.1 > np.median(qrs[~wide]) > 0.04


def test_a_recording_played_at_another_rate_has_another_one(
    truth: list[tuple[np.ndarray, float]],
) -> None:
    signal = truth[0][0]
    usual, slow = measured(signal, 250.0), measured(signal, 200.0)
    assert slow.heart_rate == pytest.approx(0.8 * usual.heart_rate, rel=0.03)


def test_nothing_is_measured_where_nothing_beats() -> None:
    for signal in (np.zeros((12, 2500)), np.zeros((1, 100))):
        found = measured(signal.astype(np.float32), 250.0)
        assert np.isnan(found.heart_rate)
        assert np.isnan(found.qrs)


@pytest.mark.real
def test_beats_are_those_of_another_detector(real_data: Path) -> None:
    """Of wfdb, in lead II, away from the ends, of genuine recordings of six hospitals."""
    both = {"ours": 0, "theirs": 0, "shared": 0}
    for file in sorted((real_data / "samples" / "challenge-2021").rglob("*.hea")):
        recording = by_suffix.read(file, file.stem, "", ReadOptions())
        lead, fs = recording.signal[recording.leads.index("II")], recording.fs
        inside = range(round(fs), len(lead) - round(fs))
        theirs = [t for t in xqrs_detect(lead.astype(float), fs, verbose=False) if t in inside]
        ours = beats(recording.signal, fs)
        both["theirs"] += len(theirs)
        both["ours"] += sum(t in inside for t in ours)
        both["shared"] += sum(np.abs(ours - t).min(initial=fs) < 0.15 * fs for t in theirs)
    assert both["shared"] > 0.95 * both["theirs"] > 0
    assert both["shared"] > 0.9 * both["ours"]
