"""From the signals of a file to a recording: which of them are leads, which leads were not
measured, and where samples are missing.
"""

from collections.abc import Sequence

import numpy as np

from ecgbench.ecg.readers.notation import signed
from ecgbench.ecg.recording import Recording
from ecgbench.ecg.repair import longest
from ecgbench.errors import BadRecord

Notes = list[tuple[str, str]]
LONG = 5e6
"""Samples of all leads of which no copy as float64 is held."""
MARKS = (-(2.0**15), -(2.0**23), -(2.0**31))
"""The lowest numbers of 16, 24 and 32 bits: no voltage where no sample is lower."""
LOOKED_AT = 5.0
"""Seconds at either end that may be no ECG."""
FEWEST, OF_A_PULSE = 2, 3
"""Leads that must agree on that; on a pulse."""
ALIKE = 0.03
"""mV between leads that show a calibration pulse, or nothing; in an ECG aVR goes the other way."""
PULSE, SHORTEST_PULSE = 0.5, 0.02
"""mV and s of what counts as a calibration pulse."""
STILL = 1.0
"""Seconds for which all leads hold one value each, at an end."""
HELD, SHARE = 2.0, 0.2
"""Seconds for which a lead holds one value, beyond which it is named; and the share of a recording
beyond which no lead is derived from it.
"""
OFFSET, ELECTRODE = 10.0, 500.0
"""mV: a lead whose middle is farther from 0 has the voltage of its electrode in it; none has more
than the second.
"""
LOOKED_THROUGH = 2**17
"""Samples of a lead that are enough to find its middle."""
LIKELY = tuple(
    sign * value
    for value in (999.0, 9999.0, 99999.0, 999999.0, 2.0**15 - 1, 2.0**15, 2.0**23 - 1, 2.0**31 - 1)
    for sign in (1, -1)
)
"""Numbers that stand for "no sample" where no other sample comes near them."""


def leads_of(names: Sequence[str], record: str, notes: Notes) -> list[int]:
    """Which signals are leads; the others are noted. BadRecord where no signal is a lead."""
    rows = [i for i, name in enumerate(names) if signed(name)]
    for name in names:
        if signed(name) is None:
            notes.append(("ignored signal", name or "a column without a name"))
    if not rows:
        raise BadRecord(
            f"{record}: none of its signals is a standard lead: "
            f"{', '.join(map(repr, names)) or 'there are none'}; if one is: --signals NAME=I"
        )
    return rows


def marked(values: np.ndarray, in_place: bool = False) -> np.ndarray:
    """(signal, time) with NaN where a number stands for "no sample", in the unit of the file.

    in_place: of floats, which may be too many for a copy; else the result is a copy in float64.
    """
    values = values if in_place else np.array(values, np.float64)
    for row in values:
        if (low := row.min(initial=np.inf, where=~np.isnan(row))) in MARKS:
            row[row == low] = np.nan
        odd = np.isin(row, LIKELY)
        if odd.any():
            rest = np.abs(row[~odd & np.isfinite(row)])
            odd &= np.abs(row) > 2 * (rest.max() if len(rest) else 0.0)
            row[odd] = np.nan
    return values


def _without_ends(values: np.ndarray, fs: float, notes: Notes) -> slice:
    """The samples between ends that are no ECG: all leads at one voltage at once, with a
    calibration pulse in it; or all leads holding one value each.
    """
    first, last = (_end(values[:, way], fs) for way in (slice(None), slice(None, None, -1)))
    length = values.shape[1]
    if first + last >= length:
        return slice(None)
    for where, samples in (("start", first), ("end", last)):
        if samples:
            what = f"{samples / fs:.2f} s at its {where} that are no ECG (all leads alike)"
            notes.append(("cut", what))
    return slice(first, length - last)


def _end(values: np.ndarray, fs: float) -> int:
    """How many samples at the start of (lead, time) are no ECG."""
    near = values[:, : round(LOOKED_AT * fs)]
    if len(near) < FEWEST or near.shape[1] < 2 or np.isnan(near).any():
        return 0
    low, high = near.min(axis=0), near.max(axis=0)
    alike = high - low <= ALIKE
    joined = near.shape[1] if alike.all() else int(np.argmin(alike))
    high_up = np.minimum(np.abs(low), np.abs(high))[:joined] >= PULSE
    pulse = np.count_nonzero(high_up) if not high_up.all() else 0  # all: an offset of every lead
    # leads that are alike for longer are copies of one another
    if pulse >= SHORTEST_PULSE * fs and joined < near.shape[1] and len(near) >= OF_A_PULSE:
        return joined
    moves = (np.diff(near, axis=1) != 0).any(axis=0)
    still = near.shape[1] if not moves.any() else 1 + int(np.argmax(moves))
    return still if still >= STILL * fs and still < values.shape[1] else 0


def _of_an_electrode(row: np.ndarray, name: str, notes: Notes) -> float:
    """mV of an electrode in a lead, 0 where its middle is near 0."""
    some = row[:: max(1, len(row) // LOOKED_THROUGH)]
    low, middle, high = np.quantile(some, (0.01, 0.5, 0.99))
    if not (OFFSET < abs(middle) <= ELECTRODE and low * high > 0):
        return 0.0
    notes.append(("offset", f"{name} lies at {middle:.3g} mV"))
    return float(middle)


def recording(
    values: np.ndarray, names: Sequence[str], fs: float, whose: tuple[str, str], notes: Notes
) -> Recording:
    """The recording of leads in mV, those that were not measured left out.

    values: (lead, time) mV, NaN where a sample is missing. names: "-aVR" where a lead is inverted.
    whose: record and patient. BadRecord where a lead lacks some of its samples, or all lack all.
    """
    record, patient = whose
    values = values[:, _without_ends(values, fs, notes)]
    measured = []
    held = [bool((row == row[:1]).all()) for row in values]
    for i, name in enumerate(names):
        if np.isnan(values[i]).all():
            notes.append(("not measured", f"{name} has no samples"))
        elif held[i]:
            notes.append(("not measured", f"{name} is {values[i][0]:.4g} mV throughout"))
        else:
            measured.append(i)
            if (
                not held[i]
                and (seconds := (1 + longest(values[i][1:] == values[i][:-1])) / fs) > HELD
            ):
                kind = "held" if seconds > SHARE * values.shape[1] / fs else "warning"
                notes.append((kind, f"{name} holds one value for {seconds:.1f} s"))
        if name.startswith("-"):
            notes.append(("inverted", name))
    if not measured:
        if any(held) and values.size:
            raise BadRecord(f"{record}: each lead holds one value throughout: not measured")
        raise BadRecord(f"{record}: no lead has samples")
    kept = values if len(measured) == len(values) else values[measured]
    if np.isnan(kept.sum(dtype=np.float64)) and (missing := np.isnan(kept)).any():
        row, sample = divmod(int(missing.argmax()), values.shape[1])
        raise BadRecord(
            f"{record}: {int(missing.sum())} samples are missing (NaN, empty, or marked as missing "
            f"in the file); the first is sample {sample + 1} of lead {names[measured[row]]}"
        )
    signal = kept.astype(np.float32, copy=False)
    for row, i in zip(signal, measured):
        if middle := _of_an_electrode(values[i], names[i], notes):
            row[:] = values[i] - middle
        row *= -1 if names[i].startswith("-") else 1
        row += 0.0  # never -0.0
    return Recording(
        signal=signal,
        unit="mV",
        leads=tuple(names[i].removeprefix("-") for i in measured),
        fs=fs,
        record=record,
        patient=patient,
        notes=tuple(notes),
    )
