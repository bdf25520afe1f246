"""Whether a recording is what it says of itself: leads under their names, millivolts, the rate.

Each check is a pure function of one recording, whatever the order of its leads; it tells what it
saw, with the numbers, and repairs nothing.
"""

from dataclasses import replace

from ecgbench.ecg.checks import beats, copies, limb, scale
from ecgbench.ecg.checks.finding import Finding
from ecgbench.ecg.recording import Recording

KINDS = {
    "identities": "limb leads that do not follow from one another",
    "arms": "arm electrodes that were likely exchanged",
    "copies": "a lead that is a copy of another",
    "scale": "samples that are no millivolts",
    "rate": "a rhythm that does not fit the stated rate",
}
"""Kinds of findings, and what they are."""


def findings(
    recording: Recording, within: float | None, clip: float | None = None
) -> list[Finding]:
    """All that does not fit, in the order of KINDS.

    within: how far the identities of the limb leads may be missed, mV; None: not asked, as where
    the unit is not mV. clip: magnitude to which samples were limited, mV. What is found after the
    unit is found wrong, or leads exchanged, is of the recording with that undone.
    """
    found = list(scale.check(recording))
    sound = _undone(recording, found)
    if within is not None and recording.unit == "mV":
        found += limb.check(sound, within, clip)
        sound = _undone(recording, found)
    found += [*beats.check_arms(sound), *copies.check(recording), *beats.check_rate(sound)]
    return sorted(found, key=lambda f: list(KINDS).index(f.kind))


def _undone(recording: Recording, found: list[Finding]) -> Recording:
    for finding in found:
        if finding.change is not None:
            recording = finding.change(recording)
        if finding.divisor != 1.0:
            recording = replace(recording, signal=recording.signal / finding.divisor)
    return recording
