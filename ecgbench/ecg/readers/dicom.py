"""What a DICOM waveform says that `ecgdatakit` leaves aside: which group is the rhythm, whether a
padding value means missing samples, and whether channels were sampled later than others.

Source: DICOM PS3.3 C.10.9.1 (Waveform Module).
"""

from pathlib import Path
from typing import Any

import numpy as np

from ecgbench.ecg.readers.cleaned import Notes

SHORTEST = 2.0
"""Seconds from which a group is a rhythm, below which it is a median beat, whatever its label."""
LONG = 5.0
"""Seconds from which a group goes before shorter ones, such as medians without a label."""
DERIVED = ("MEDIAN", "REPRESENTATIVE", "AVERAGE")
"""Words of a label by which `ecgdatakit` knows a group that was computed from the rhythm."""


def prepared(path: Path, folder: Path, notes: Notes) -> Path:
    """A file in `folder` with the rhythm of another one alone, in the way that `ecgdatakit`
    understands. ValueError where leads of one time stand in several, or were not sampled together.
    """
    import pydicom

    dataset = pydicom.dcmread(path)
    groups = [g for g in dataset.get("WaveformSequence") or [] if g.get("WaveformData")]
    if not groups:
        raise ValueError("it holds no waveform")
    # twelve leads of 10 s rather than a strip of one
    groups.sort(
        key=lambda g: (
            _derived(g) or _seconds(g) < SHORTEST,
            _seconds(g) < LONG,
            -_seconds(g) * g.NumberOfWaveformChannels,
        )
    )
    rhythm, *others = groups
    stated = rhythm.NumberOfWaveformSamples * rhythm.NumberOfWaveformChannels
    if len(rhythm.WaveformData) > stated * rhythm.WaveformBitsAllocated // 8 + 1:
        raise ValueError("it holds more samples than it states")
    at = str(rhythm.get("MultiplexGroupTimeOffset"))
    for group in others:
        alike = group.NumberOfWaveformSamples == rhythm.NumberOfWaveformSamples
        if alike and at != "None" and str(group.get("MultiplexGroupTimeOffset")) == at:
            raise ValueError("leads of one time stand in several groups; export them as one")
        if not _derived(group):
            notes.append(("warning", f"a group of {_seconds(group):.2f} s is left out"))
    for channel in rhythm.get("ChannelDefinitionSequence") or []:
        if channel.get("ChannelSampleSkew") or channel.get("ChannelTimeSkew"):
            raise ValueError("a channel was sampled later than others, which is not undone")
    rhythm.MultiplexGroupLabel = "RHYTHM" if _seconds(rhythm) >= SHORTEST else "MEDIAN"
    if "WaveformPaddingValue" in rhythm and not _marks_missing(rhythm):
        del rhythm.WaveformPaddingValue
    dataset.WaveformSequence = [rhythm]
    dataset.save_as(folder / "prepared.dcm")
    return folder / "prepared.dcm"


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
    padded = codes[: len(codes) // channels * channels].reshape(-1, channels) == padding
    rest = codes[: padded.size][~padded.ravel()]
    if not len(rest) or not rest.min() <= padding[0] <= rest.max():
        return True
    everywhere = padded.all(axis=1)
    return bool(everywhere.any() and (padded.any(axis=1) == everywhere).all())
