"""Whether a recording's samples are in millivolts. A wrong scale is reported, never corrected: one
recording cannot show whether 1,000 or 200 steps make a millivolt, as both gains are usual. A
recording with impossible voltages is refused.
"""

import numpy as np

from ecgbench.ecg.checks.finding import Finding
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord

LARGEST = 50.0
"""mV that no sample of an ECG reaches. The largest of 2,385 genuine recordings of PTB-XL,
Brugada-HUCA, the Challenge, Chapman and PTB is 27.3 mV; 16 bits hold 32.8 at 1,000 steps a mV.
"""
PLAUSIBLE = (0.005, 50.0)
"""mV: what a lead spans in a second, the median of seconds and of leads that vary. In 2,397 genuine
recordings of PTB-XL, Brugada-HUCA, the Challenge, Chapman, CODE-15 and PTB it is 0.27 to 4.5.
"""
USUAL = (0.1, 10.0)
"""mV: where it is after the right factor."""
UNITS = {1e3: "uV", 1e6: "nV", 1e-3: "V"}
"""How many of the file's numbers make 1 mV -> the unit that they would be."""


def demand_possible(recording: Recording) -> None:
    """BadRecord, with the lead and the unit, where a sample in mV is LARGEST or beyond; nothing
    where the unit is not mV.
    """
    if recording.unit != "mV":
        return
    lowest, highest = recording.extremes
    most = np.maximum(-lowest, highest)
    if most.max() >= LARGEST:
        lead = recording.leads[int(most.argmax())]
        raise BadRecord(
            f"{recording.record}: lead {lead} reaches {most.max():.4g} mV, where an ECG stays "
            f"below {LARGEST:g} mV; its unit or its gain is not the stated one"
        )


def check(recording: Recording) -> list[Finding]:
    """Whether the samples are too large or too small for mV, and which unit would explain them, by
    what a lead spans in a second: the median of whole seconds, and of the leads that vary.
    """
    (low, high), signal = PLAUSIBLE, recording.signal
    second = min(max(1, round(recording.fs)), signal.shape[1])
    count = signal.shape[1] // second
    spans = np.ptp(signal[:, : count * second].reshape(len(signal), count, -1), axis=2)
    of_leads = np.median(spans, axis=1)
    spanned = float(np.median(of_leads[of_leads > 0])) if (of_leads > 0).any() else 0.0
    if recording.unit != "mV" or not spanned or low <= spanned <= high:
        return []
    sentence = (
        f"a lead spans {spanned:.3g} mV in a second (median), where {low:g} to {high:g} can be"
    )
    for divisor, unit in UNITS.items():
        if USUAL[0] <= spanned / divisor <= USUAL[1]:
            sentence += f"; read as {unit} it would span {spanned / divisor:.3g} mV"
            return [Finding("scale", sentence, divisor=divisor)]
    return [Finding("scale", sentence)]
