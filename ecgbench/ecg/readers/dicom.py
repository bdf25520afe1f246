"""What a DICOM waveform says that `ecgdatakit` leaves aside: which group is the rhythm, whether a
padding value means missing samples, and how much later each channel was sampled.

Source: DICOM PS3.3 C.10.9.1 (Waveform Module).
"""

from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np

from ecgbench.ecg.readers.cleaned import Notes

SHORTEST = 2.0
"""Seconds from which a group is a rhythm, below which it is a median beat, whatever its label."""
ALIKE_IN = (
    *("MultiplexGroupTimeOffset", "SamplingFrequency", "NumberOfWaveformSamples"),
    *("WaveformBitsAllocated", "WaveformSampleInterpretation", "WaveformPaddingValue"),
)
"""Fields in which groups agree that are one recording."""
LONG = 5.0
"""Seconds from which a group goes before shorter ones, such as medians without a label."""
DERIVED = ("MEDIAN", "REPRESENTATIVE", "AVERAGE")
"""Words of a label by which `ecgdatakit` knows a group that was computed from the rhythm."""


def prepared(path: Path, folder: Path, notes: Notes) -> tuple[Path, list[float]]:
    """A file that says the same in the way that `ecgdatakit` understands, written into `folder`
    where it must be another one, and by how many samples each channel of the rhythm was sampled
    later than the group says.
    """
    import pydicom

    dataset = pydicom.dcmread(path)
    stored = [g for g in dataset.get("WaveformSequence") or [] if g.get("WaveformData")]
    groups = _joined(stored)
    least = LONG if any(_seconds(g) >= LONG for g in groups) else SHORTEST
    rhythm = [g for g in groups if _seconds(g) >= least]
    # twelve leads of 10 s rather than a strip of one
    rhythm.sort(key=lambda g: (_derived(g), -_seconds(g) * g.NumberOfWaveformChannels))
    for group in groups:
        if group not in rhythm[:1] and not _derived(group):
            notes.append(("warning", f"a group of {_seconds(group):.2f} s is left out"))
    if changed := rhythm not in ([], stored):
        dataset.WaveformSequence = rhythm
    for group in rhythm or groups:
        if _derived(group) == bool(rhythm):
            group.MultiplexGroupLabel, changed = "RHYTHM" if rhythm else "MEDIAN", True
    for group in groups:
        if "WaveformPaddingValue" in group and not _marks_missing(group):
            del group.WaveformPaddingValue
            changed = True
    if changed:
        path = folder / "prepared.dcm"
        dataset.save_as(path)
    return path, _skews(rhythm[0]) if rhythm else []


def _joined(groups: list[Any]) -> list[Any]:
    """The groups, those of other leads at the same time as one: limb and chest leads, or three
    leads each.
    """
    made: list[Any] = []
    for group in groups:
        k = next((k for k, one in enumerate(made) if _belong_together(one, group)), None)
        if k is None:
            made.append(group)
        else:
            made[k] = _as_one(made[k], group)
    return made


def _belong_together(one: Any, other: Any) -> bool:
    """Whether two groups hold other leads of the same time, which both must state."""
    alike = all(str(one.get(field)) == str(other.get(field)) for field in ALIKE_IN)
    timed = other.get("MultiplexGroupTimeOffset") not in (None, "")
    sources = [_source(c) for g in (one, other) for c in g.ChannelDefinitionSequence]
    return alike and timed and _derived(one) == _derived(other) and len({*sources}) == len(sources)


def _as_one(one: Any, other: Any) -> Any:
    """A group with the channels of two."""
    made, size = deepcopy(one), int(one.WaveformBitsAllocated) // 8
    samples, rows = one.NumberOfWaveformSamples, []
    for group in (one, other):
        codes = np.frombuffer(bytes(group.WaveformData), f"V{size}")
        count = group.NumberOfWaveformChannels
        rows.append(codes[: samples * count].reshape(samples, count))
    channels = [*one.ChannelDefinitionSequence, *other.ChannelDefinitionSequence]
    made.ChannelDefinitionSequence, made.NumberOfWaveformChannels = channels, len(channels)
    made.WaveformData = np.hstack(rows).tobytes()
    return made


def _source(channel: Any) -> str:
    """What a channel is of, by its code; else its label."""
    for code in channel.get("ChannelSourceSequence") or []:
        return f"{code.get('CodingSchemeDesignator')} {code.get('CodeValue')}"
    return str(channel.get("ChannelLabel"))


def aligned(values: np.ndarray, skews: Sequence[float], notes: Notes) -> np.ndarray:
    """(lead, time) on one grid of time, of channels whose sample k was taken at k + skew."""
    if not any(skews):
        return values
    from scipy.interpolate import CubicSpline

    length = values.shape[1]
    first = int(np.ceil(max(skews) - 1e-6))
    last = int(np.floor(length - 1 + min(skews) + 1e-6))
    at, made = np.arange(first, last + 1), []
    for row, skew in zip(values, skews):
        whole = abs(skew - round(skew)) < 1e-6
        made.append(
            row[at - round(skew)] if whole else CubicSpline(np.arange(length), row)(at - skew)
        )
    listed = ", ".join(f"{skew:g}" for skew in skews)
    notes.append(("read as", f"skews of its channels are undone: {listed} samples"))
    return np.array(made)


def _seconds(group: Any) -> float:
    rate = float(group.get("SamplingFrequency") or 0)
    return int(group.get("NumberOfWaveformSamples") or 0) / rate if rate > 0 else 0.0


def _derived(group: Any) -> bool:
    label = str(group.get("MultiplexGroupLabel") or "").upper()
    return any(word in label for word in DERIVED)


def _marks_missing(group: Any) -> bool:
    """Whether samples of the padding value are missing: no other sample lies beyond it, or it
    stands in all channels at once and nowhere else. A value in the middle is a voltage too.
    """
    bits = int(group.get("WaveformBitsAllocated") or 0)
    kind = str(group.get("WaveformSampleInterpretation") or "SS")
    if bits not in (8, 16, 32) or kind in ("MB", "AB"):
        return True
    dtype = np.dtype(f"<{'u' if kind.startswith('U') else 'i'}{bits // 8}")
    padding = np.frombuffer(bytes(group["WaveformPaddingValue"].value)[: dtype.itemsize], dtype)
    channels = int(group.NumberOfWaveformChannels)
    codes = np.frombuffer(bytes(group.WaveformData), dtype)
    codes = codes[: len(codes) // channels * channels].reshape(-1, channels)
    padded = codes == padding
    rest = codes[~padded]
    if not len(rest) or not rest.min() <= padding[0] <= rest.max():
        return True
    everywhere = padded.all(axis=1)
    return bool(everywhere.any() and (padded.any(axis=1) == everywhere).all())


def _skews(group: Any) -> list[float]:
    """Samples, of each channel: Channel Sample Skew, else Channel Time Skew (s)."""
    fs, made = float(group.SamplingFrequency), []
    for channel in group.get("ChannelDefinitionSequence") or []:
        samples, seconds = channel.get("ChannelSampleSkew"), channel.get("ChannelTimeSkew")
        stated = float(samples) if samples not in (None, "") else float(seconds or 0) * fs
        made.append(stated)
    return made
