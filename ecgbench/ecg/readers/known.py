"""Exports of devices and programs whose lines before the numbers are no plain head: how each is
known, and the plain head that says the same. Apple Health, Samsung Health, PhysioNet's
rdsamp and Bard state everything in plain lines and need no row here; nor does Movesense, of whose
head no public file was found: `timestamp,sample` is a guess.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ecgbench.ecg.readers.notation import per_mv

Lines = list[str]


@dataclass(frozen=True, kw_only=True)
class Export:
    """One kind of export."""

    name: str = "a plain table"
    marks: tuple[str, ...] = ()
    """Texts in small letters that all stand before its numbers."""
    plain: Callable[[Lines], Lines] = list
    """Its lines before the numbers -> a plain head, names and units of the columns at its end."""
    counted: bool = False
    """Whether a line of numbers of samples stands before the samples."""
    comment: str | None = None
    """Sign before a remark at the end of a line of samples."""
    leads: tuple[tuple[str, str], ...] = ()
    """End of a column's name, in small letters -> the lead in it."""
    ignored: tuple[str, ...] = ()
    """Names of columns, in small letters, that are neither samples nor their time."""
    bits: Callable[[Lines], dict[str, int]] = lambda _: {}
    """Its lines before the numbers -> name of a column -> bits of its converter, of samples that
    are its steps, of which the middle one is 0 mV.
    """

    def lead(self, name: str) -> str:
        """The lead in a column of this name, else the name."""
        return next((lead for end, lead in self.leads if name.lower().endswith(end)), name)


def _labchart(lines: Lines) -> Lines:
    """ChannelTitle= and UnitName= stand in the column of time."""
    rows = {line.split("=")[0]: line.partition("=")[2] for line in lines if "=" in line}
    names, units = rows.pop("ChannelTitle"), rows.pop("UnitName", "")
    rest = [f"{key}={value}" for key, value in rows.items()]
    voltages = any(per_mv(unit) for unit in units.split("\t"))  # * where there is none
    return [*rest, f"time{names}"] + [f"s{units}"] * voltages


def _acqknowledge(lines: Lines) -> Lines:
    """After `2 channels` a line with the name and a line with the unit of each."""
    k = next(i for i, line in enumerate(lines) if line.endswith(" channels"))
    pairs, sign = lines[k + 1 : -1], next((one for one in "\t,;" if one in lines[-1]), "\t")
    header = lines[-1].split(sign)
    time = [] if header[0].lower().startswith("ch") else header[:1]
    units = [*[""] * len(time), *pairs[1::2]]
    return [*lines[: k + 1], sign.join([*time, *pairs[::2]]), sign.join(units)]


def _devices(lines: Lines) -> list[dict[str, Any]]:
    """The dictionary of devices, in JSON, of OpenSignals."""
    text = next(line for line in lines if "{" in line)
    return [*json.loads(text[text.index("{") :]).values()]


def _opensignals(lines: Lines) -> Lines:
    devices = _devices(lines)
    rates = [f"Sampling rate: {device['sampling rate']} Hz" for device in devices]
    return [*rates, "\t".join(name for device in devices for name in device["column"])]


def _bits(lines: Lines) -> dict[str, int]:
    """Of the last columns of each device, whose step 2**(bits - 1) is 0 mV by the sensor's data
    sheet: (step / 2**bits - 1/2) x voltage / gain.
    """
    found = dict[str, int]()
    for device in _devices(lines):
        bits = device.get("resolution", [])
        found |= dict(zip(device["column"][len(device["column"]) - len(bits) :], bits))
    return found


KNOWN = (
    Export(name="LabChart", marks=("interval=", "channeltitle="), plain=_labchart, comment="#"),
    Export(
        name="BIOPAC AcqKnowledge",
        marks=("sample", " channels", "ch1"),
        plain=_acqknowledge,
        counted=True,
    ),
    Export(
        name="OpenSignals",
        marks=("opensignals text file",),
        plain=_opensignals,
        bits=_bits,
        ignored=("di",),  # a digital input, no lead I
    ),
    Export(
        name="Shimmer Consensys",
        marks=("_cal", "timestamp"),
        leads=tuple(
            (f"{electrodes}_{bits}bit_cal", lead)
            for electrodes, lead in (("la-ra", "I"), ("ll-ra", "II"), ("ll-la", "III"))
            for bits in (16, 24)
        ),
    ),
    # the phone's clock says when a packet of many samples came
    Export(
        name="Polar Sensor Logger",
        marks=("phone timestamp", "sensor timestamp [ns]"),
        ignored=("phone timestamp", "timestamp [ms]"),
    ),
)


def export_of(lines: Sequence[str]) -> Export:
    """The kind of a table, by the lines before its numbers."""
    text = "\n".join(lines).lower()
    found = (one for one in KNOWN if all(mark in text for mark in one.marks))
    return next(found, Export())
