"""Checks that a recording agrees with its own description: names of leads, unit, sampling rate.

Each check is a pure function of one recording and does not depend on the order of its leads. It
reports what it found, with the numbers, and changes nothing.
"""

from dataclasses import replace

from ecgbench.ecg.checks import beats, limb, scale
from ecgbench.ecg.checks.finding import Finding
from ecgbench.ecg.leads import LEADS, LIMB
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
    """All inconsistencies, in the order of KINDS.

    within: tolerance of the identities of the limb leads, mV; None, or another unit than mV: not
    checked. clip: magnitude to which samples were limited, mV. A wrong unit and exchanged leads are
    undone before the later checks.
    """
    found = list(scale.check(recording))
    sound = _undone(recording, found)
    if within is not None and recording.unit == "mV":
        found += limb.check(sound, within, clip)
        sound = _undone(recording, found)
    found += [*beats.check_arms(sound), *check_copies(recording), *beats.check_rate(sound)]
    return sorted(found, key=lambda f: list(KINDS).index(f.kind))


def _undone(recording: Recording, found: list[Finding]) -> Recording:
    for finding in found:
        if finding.change is not None:
            recording = finding.change(recording)
        if finding.divisor != 1.0:
            recording = replace(recording, signal=recording.signal / finding.divisor)
    return recording


def check_copies(recording: Recording) -> list[Finding]:
    """Leads that are another one, or its negative, to the last bit.

    Leads without variation do not count; nor do two limb leads where a third does not vary, from
    which it follows (I = 0 makes II, III and aVF one).
    """
    flat = {*recording.flat()}
    signal = {n: x for n, x in zip(recording.leads, recording.signal) if n not in flat}
    names = [n for n in LEADS if n in signal]
    own = {n: (x + 0.0).tobytes() for n, x in signal.items()}  # -0.0 is 0.0
    mirrored = {n: (0.0 - x).tobytes() for n, x in signal.items()}
    copies = []
    for what, wanted in (("equals", own), ("is the negative of", mirrored)):
        for one, other in ((one, other) for i, other in enumerate(names) for one in names[:i]):
            if {one, other} <= {*LIMB} and flat & {*LIMB}:
                continue
            if own[other] == wanted[one]:
                copies.append(f"{other} {what} {one}")
    if not copies:
        return []
    return [Finding("copies", f"{', '.join(copies)} in all {recording.signal.shape[1]:,} samples")]
