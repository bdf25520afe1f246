"""What recordings from anywhere call things: names of leads, units, and what a person says of files
that do not say it themselves.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ecgbench.ecg.leads import CHEST, LEADS
from ecgbench.errors import BadSetting

_MILLIVOLTS = {"v": 1e3, "mv": 1.0, "uv": 1e-3, "nv": 1e-6}
_UNIT = re.compile(r"(?P<steps>\d+(\.\d*)?([eE][-+]?\d+)?)?\s*(?P<unit>[a-z]+)")
_RATE = re.compile(
    r"(?P<number>\d+([.,]\d+)?)\s*((?P<kilo>k)?(hz|hertz|sps|samples/s|1/s))?",
    re.IGNORECASE,
)

_BEFORE = ("ECG", "EKG", "LEAD", "ECG LEAD", "EKG LEAD", "ABLEITUNG")
_OWN = {name.upper(): name for name in LEADS} | {
    f"{letter}{name}": name for letter in "DL" for name in ("I", "II", "III")
}
_CHEST = {f"C{number}": name for number, name in enumerate(CHEST, 1)}
"""After "ECG" only: by itself C3 is an electrode of an EEG."""

SPELLINGS = _OWN | {
    f"{word}{gap}{own}": lead
    for word in _BEFORE
    for own, lead in {**_OWN, **_CHEST}.items()
    for gap in ("", " ", "_", "-", ":", ": ")
}
"""A signal's name in capitals -> the standard lead that it means: `LEAD I`, `ECG AVR`, `DII`."""


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a person says of files that do not say it; what a file says itself goes first."""

    fs: float | None = None
    """Sampling rate, Hz."""
    unit: str | None = None
    """V, mV, uV or nV, also a number of them: "4.88uV" where a step of the file is 4.88 uV."""
    signals: tuple[str, ...] = ()
    """Names of the signals in the order of the file, or `NAME=LEAD` for names of its own:
    ("ch1=I", "ch2=II").
    """

    def __post_init__(self) -> None:
        if self.fs is not None and not 0 < self.fs < float("inf"):
            raise BadSetting(f"--fs {self.fs:g}: a rate is above 0, for example --fs 500")
        if self.unit is not None and per_mv(self.unit) is None:
            raise BadSetting(
                f"--unit {self.unit} is no unit of voltage; give V, mV, uV or nV, or a number of "
                f"them for each step of the file: --unit 4.88uV"
            )
        if len({"=" in text for text in self.signals}) > 1:
            raise BadSetting(
                f"--signals {','.join(self.signals)}: either all names in the order of the file "
                f"(I,II,V1), or all as NAME=LEAD (ch1=I,ch2=II)"
            )

    def rate(self, stated: float | None, file: Path) -> float:
        """Hz: what the file states, else what was said; BadSetting that asks for it."""
        rate = stated if stated is not None else self.fs
        if rate is None:
            raise BadSetting(
                f"{file.name} does not say its rate; say it for all files that do not: --fs 500 "
                f"(samples per second)"
            )
        return rate

    def scale(self, stated: float | None, file: Path) -> float:
        """How many of a file's units make 1 mV: what the file states, else what was said;
        BadSetting that asks for it.
        """
        scale = stated if stated is not None else per_mv(self.unit or "")
        if scale is None:
            raise BadSetting(
                f"{file.name} does not say its unit; say it for all files that do not: --unit mV "
                f"(or V, uV, nV; 4.88uV where a step of the file is that much)"
            )
        return scale

    def names(self, stated: Sequence[str] | None, count: int, file: Path) -> tuple[str, ...]:
        """Of `count` signals, in the order of the file: standard spelling where a name means a
        lead, else as it is; BadSetting that asks for them where nobody names them.
        """
        given = dict(text.split("=", 1) for text in self.signals if "=" in text)
        own = [given.get(name.strip(), name) for name in stated or ()]
        placed = () if given else self.signals
        if not any(map(lead, own)) and len(placed) == count:
            own = list(placed)
        if not own:
            what = "the name of its signal" if count == 1 else f"the names of its {count} signals"
            example = "--signals I" if count == 1 else "--signals I,II,V1"
            raise BadSetting(
                f"{file.name} does not say {what}; say it for all files that do not, in the order "
                f"of the file: {example}"
            )
        return tuple(lead(name) or name for name in own)


def lead(name: str) -> str | None:
    """The standard lead that a signal's name means, None where it means none.

    >>> lead("Lead I"), lead("EKG avr"), lead("DII"), lead("C3"), lead("ECG")
    ('I', 'aVR', 'II', None, None)
    """
    return SPELLINGS.get(" ".join(name.upper().split()))


def per_mv(unit: str) -> float | None:
    """How many of a unit make 1 mV; None for what is no unit of voltage.

    >>> per_mv("mV"), per_mv("µV"), per_mv("microvolts"), per_mv("4.88 uV"), per_mv("mmHg")
    (1.0, 1000.0, 1000.0, 204.91803278688525, None)
    """
    plain = unit.strip().lower().replace("µ", "u").replace("μ", "u")
    found = _UNIT.fullmatch(re.sub(r"(milli|micro|nano|)volts?$", _short, plain))
    size = _MILLIVOLTS.get(found["unit"]) if found else None
    steps = float(found["steps"] or 1) if found else 0.0
    return 1 / (steps * size) if size and steps else None


def hertz(text: str) -> float | None:
    """A rate as files write it, None for what is none.

    >>> hertz("512"), hertz("512,5 hertz"), hertz("0.5 kHz"), hertz("40 mm/s")
    (512.0, 512.5, 500.0, None)
    """
    found = _RATE.fullmatch(text.strip())
    if not found:
        return None
    return float(found["number"].replace(",", ".")) * (1000 if found["kilo"] else 1) or None


def _short(found: "re.Match[str]") -> str:
    return {"milli": "mv", "micro": "uv", "nano": "nv", "": "v"}[found[1]]
