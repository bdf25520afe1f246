"""How files and people write names of leads, units and rates; and the options --fs, --unit and
--signals, by which a person states what files do not.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ecgbench.ecg.leads import CHEST, LEADS
from ecgbench.errors import BadRecord, BadSetting

_MILLIVOLTS = {"v": 1e3, "mv": 1.0, "uv": 1e-3, "nv": 1e-6}
_UNIT = re.compile(r"(?P<steps>\d+(\.\d*)?([eE][-+]?\d+)?)?\s*(?P<unit>[a-z]+)")
_HERTZ = dict.fromkeys(("hz", "hertz", "sps", "samples/s", "samples/sec", "1/s", "/s"), 1.0)
_HERTZ |= {"samples/second": 1.0, "samplespersecond": 1.0, "persecond": 1.0, "s-1": 1.0}
_HERTZ |= {"khz": 1e3, "kilohertz": 1e3, "ksps": 1e3, "k": 1e3}
_SECONDS = dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0)
_SECONDS |= dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 0.001)
_SECONDS |= dict.fromkeys(("us", "usec", "microsecond", "microseconds"), 1e-06)
LOWEST, HIGHEST = 50.0, 100_000.0
"""Hz between which the rate of an ECG lies; a lower one is used only where a person says it too."""
AGREE = 0.01
"""By how much two statements of one rate or scale may differ, as a share."""

_BEFORE = (
    *("ECG", "EKG", "LEAD", "ECG LEAD", "EKG LEAD", "MDC_ECG_LEAD"),
    *("ABLEITUNG", "DÉRIVATION", "DERIVACIÓN", "DERIVAZIONE"),
)
_PLAIN = {name.upper(): name for name in LEADS} | {
    f"{letter}{name}": name for letter in "DL" for name in ("I", "II", "III")
}
_CHEST = {f"C{number}": name for number, name in enumerate(CHEST, 1)}
"""After "ECG" only: by itself C3 is an electrode of an EEG."""

SPELLINGS = _PLAIN | {
    f"{word}{gap}{name}": lead
    for word in _BEFORE
    for name, lead in {**_PLAIN, **_CHEST}.items()
    for gap in ("", " ", "_", "-", ":", ": ")
}
"""A signal's name in capitals -> the standard lead that it means: `LEAD I`, `ECG AVR`, `DII`."""


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """What a person states of files that do not state it; what a file states goes first."""

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
                f"--unit {self.unit} is not a unit of voltage; give V, mV, uV or nV, or the size "
                f"of a step of the file: --unit 4.88uV"
            )
        if len({"=" in text for text in self.signals}) > 1:
            raise BadSetting(
                f"--signals {','.join(self.signals)}: either all names in the order of the file "
                f"(I,II,V1), or all as NAME=LEAD (ch1=I,ch2=II)"
            )

    def rate(
        self,
        stated: Sequence[tuple[str, float]],
        file: Path,
        record: str,
        *,
        field: bool = False,
        seen: str = "",
    ) -> float:
        """Hz, from (where it stands, Hz) of all that states it, the most exact first; else --fs.
        BadRecord where two differ; BadSetting where nothing states it. field: the format has a
        field for it, so --fs, which is for other files, may differ. seen: a line that may state it.
        """
        every = [*stated, *([("--fs", self.fs)] if self.fs is not None and not field else [])]
        if not every:
            raise BadSetting(
                f"{file.name} does not state its rate{_shown(seen)}; state it for all files that "
                f"do not: --fs 500 (samples per second)"
            )
        first, rate = every[0]
        for other, value in every[1:]:
            if abs(value - rate) > AGREE * rate:
                raise BadRecord(
                    f"{record}: the rate is {rate:g} Hz by {first} and {value:g} Hz by {other}; "
                    f"correct the one that is wrong"
                )
        if not LOWEST <= rate <= HIGHEST and (
            self.fs is None or abs(self.fs - rate) > AGREE * rate
        ):
            what = "low" if rate < LOWEST else "high"
            raise BadSetting(
                f"{file.name}: its rate is {rate:g} Hz by {first}, which is too {what} for an ECG; "
                f"correct the file or take it out; if it is right, confirm it: --fs {rate:g}"
            )
        return rate

    def scale(self, stated: float | None, file: Path, record: str, seen: str = "") -> float:
        """How many of a file's units make 1 mV: what the file states, else --unit. BadRecord
        where the two differ; BadSetting where neither states it. seen: a line that may state it.
        """
        typed = per_mv(self.unit or "")
        if stated is None and typed is None:
            raise BadSetting(
                f"{file.name} does not state its unit{_shown(seen)}; state it for all files that "
                f"do not: --unit mV (or V, uV, nV; 4.88uV where a step of the file is that much)"
            )
        if stated and typed and abs(stated - typed) > AGREE * typed:
            raise BadRecord(
                f"{record}: 1 mV is {stated:g} by the file and {typed:g} by --unit {self.unit}; "
                f"correct the one that is wrong, or state the unit in the other files ('I (mV)')"
            )
        return stated or typed or 1.0

    @property
    def ordered(self) -> tuple[str, ...]:
        """Names in the order of the file; empty where they are NAME=LEAD, or not given."""
        return () if "=" in "".join(self.signals) else self.signals

    @property
    def typed(self) -> dict[str, str]:
        """Name in the file -> lead, where they are NAME=LEAD."""
        return dict(text.split("=", 1) for text in self.signals if "=" in text)

    def without_order(self, stated: Sequence[str]) -> "ReadOptions":
        """For a file whose header names all signals, some of them as leads: a `--signals` in the
        order of the file says what the others are where it agrees on those; else it is meant for
        other files, and is dropped.
        """
        known = [*map(signed, stated)]
        if not self.ordered or not any(known):
            return self
        pairs = [*zip(stated, known, self.ordered)]
        agree = len(known) == len(self.ordered) and all(k in (None, signed(o)) for _, k, o in pairs)
        others = tuple(f"{name.strip()}={o}" for name, k, o in pairs if k is None and agree)
        return replace(self, signals=others)

    def origin(self, stated: Sequence[str] | None, names: Sequence[str]) -> str:
        """Where `names` came from: "the file", "--signals", or both."""
        if [*names] != [signed(name) or name for name in stated or ()]:
            return "--signals"
        agree = [*map(signed, self.ordered)] == [*map(signed, names)]
        return "the file and --signals" if agree else "the file"

    def names(
        self, stated: Sequence[str] | None, count: int, file: Path, record: str
    ) -> tuple[str, ...]:
        """Of `count` signals, in the order of the file: standard spelling where a name means a
        lead ("-aVR" where it is inverted), else as it is. BadRecord where `--signals` names other
        leads; BadSetting where nobody names them.
        """
        names = [self.typed.get(name.strip(), name) for name in stated or ()]
        if generated(names) or not any(map(signed, names)):
            names = [] if generated(names) else names
            if self.ordered and len(self.ordered) != count:
                raise BadSetting(
                    f"{file.name} has {count} signals, and --signals {','.join(self.signals)} "
                    f"names {len(self.ordered)}; name each of them"
                )
            names = list(self.ordered) or names
        elif len(self.ordered) == count and [*map(signed, self.ordered)] != [*map(signed, names)]:
            raise BadRecord(
                f"{record}: its signals are {', '.join(names)} by the file and "
                f"{', '.join(self.ordered)} by --signals; if the file is wrong, give "
                f"--signals {names[0]}={self.ordered[0]},..."
            )
        if not names:
            what = "the name of its signal" if count == 1 else f"the names of its {count} signals"
            example = "--signals I" if count == 1 else "--signals I,II,V1"
            raise BadSetting(
                f"{file.name} does not state {what}; state it for all files that do not, in the "
                f"order of the file: {example}"
            )
        return tuple(signed(name) or name for name in names)


def generated(names: Sequence[str]) -> bool:
    """Whether names are those that a program gives nameless columns: V1 to V7 or more (R), 0, 1, 2.

    >>> generated([f"V{i}" for i in range(1, 13)]), generated(["V1", "V2"]), generated(["0", "1"])
    (True, False, True)
    """
    for prefix, least in (("V", 7), ("", 1), ("X", 1), ("Column", 1), ("Var", 1)):
        for start in (0, 1):
            if [*names] == [f"{prefix}{start + i}" for i in range(len(names))]:
                return len(names) >= least
    return False


def signed(name: str) -> str | None:
    """The standard lead that a name means, "-aVR" where it is inverted, None where it means none.

    >>> signed("-aVR"), signed("Lead I"), signed("aVR inverted"), signed("Resp")
    ('-aVR', 'I', '-aVR', None)
    """
    plain = unicodedata.normalize("NFKC", name).replace("\N{MINUS SIGN}", "-").strip()
    plain = plain.replace("\N{EN DASH}", "-")
    found = re.fullmatch(
        r"(?:-\s*|inv(?:erted)?[\s_.]+)(?P<a>.+)|(?P<b>.+?)[\s_(]+inv(?:erted)?[).]*", plain, re.I
    )
    if found and (inner := lead(found["a"] or found["b"])):
        return f"-{inner}"
    return lead(plain)


def lead(name: str) -> str | None:
    """The standard lead that a signal's name means, None where it means none.

    >>> lead("Lead I"), lead("EKG avr"), lead("DII"), lead("C3"), lead("ECG")
    ('I', 'aVR', 'II', None, None)
    """
    return SPELLINGS.get(" ".join(name.upper().split()))


def per_mv(unit: str) -> float | None:
    """How many of a unit make 1 mV; None for what is not a unit of voltage.

    >>> per_mv("mV"), per_mv("µV"), per_mv("microvolts"), per_mv("4.88 uV"), per_mv("mmHg")
    (1.0, 1000.0, 1000.0, 204.91803278688525, None)
    """
    plain = unit.strip().lower().replace("µ", "u").replace("μ", "u")
    found = _UNIT.fullmatch(re.sub(r"(milli|micro|nano|)vol(?:ts?)?$", _short, plain))
    size = _MILLIVOLTS.get(found["unit"]) if found else None
    steps = float(found["steps"] or 1) if found else 0.0
    return 1 / (steps * size) if size and steps else None


def voltage(unit: str, record: str) -> float:
    """As `per_mv`, of what a header states; BadRecord where that is no voltage."""
    if scale := per_mv(unit):
        return scale
    raise BadRecord(f"{record}: unit {unit!r} is not a unit of voltage (V, mV, uV, nV)")


def hertz(text: str, unit: str = "", interval: bool = False) -> float | None:
    """A rate as files write it, or the one of the interval between two samples; `unit` where the
    text has none. None for what is neither, and for a number that can be read in two ways.

    >>> hertz("512"), hertz("512,5 hertz"), hertz("0.5 kHz"), hertz("4 ms", interval=True)
    (512.0, 512.5, 500.0, 250.0)
    >>> hertz("4 ms"), hertz("40 mm/s"), hertz("4 Hz", interval=True), hertz("4", interval=True)
    (None, None, None, None)
    >>> hertz("1,000 Hz"), hertz("1.000"), hertz("1 000 Hz"), hertz("125", "Hz"), hertz("50,000")
    (1000.0, 1000.0, 1000.0, 125.0, None)
    """
    found = re.fullmatch(r"([\d.,'’_\s]*\d(?:[eE][-+]?\d+)?)\s*([^\d\s].*)?", text.strip())
    words = "".join(((found[2] or unit) if found else "").lower().replace("µ", "u").split())
    words = words.replace("μ", "u").strip("()[].").replace("per", "/").replace("samples/s", "hz")
    words = re.sub(r"^hzec(ond)?s?$", "hz", words)
    rates = []
    for number in numbers(found[1]) if found else ():
        if number and not interval and (not words or words in _HERTZ):
            rates.append(number * _HERTZ.get(words, 1.0))
        elif number and interval and words in _SECONDS:
            rates.append(1 / (number * _SECONDS[words]))
    if len(rates) > 1:
        rates = [rate for rate in rates if LOWEST <= rate <= HIGHEST]
    return rates[0] if len(rates) == 1 else None


def numbers(text: str) -> list[float]:
    """The numbers that a text can mean, with separators of thousands and decimals of any country.

    >>> numbers("1,000"), numbers("1'000.5"), numbers("1.000,5"), numbers("0,5"), numbers("x")
    ([1000.0, 1.0], [1000.5], [1000.5], [0.5], [])
    """
    plain = re.sub(r"(?<=\d)['’_\s](?=\d{3}(?!\d))", "", text.strip())
    if re.fullmatch(r"\d+([.,]\d*)?([eE][-+]?\d+)?", plain):
        whole = re.fullmatch(r"[1-9]\d{0,2}[.,]\d{3}", plain)
        decimal = float(plain.replace(",", "."))
        return [float(re.sub(r"[.,]", "", plain)), decimal] if whole else [decimal]
    for thousands, decimal_sign in (",.", ".,"):
        if re.fullmatch(rf"\d{{1,3}}(\{thousands}\d{{3}})+(\{decimal_sign}\d+)?", plain):
            return [float(plain.replace(thousands, "").replace(decimal_sign, "."))]
    return []


def plain(text: str) -> str:
    """In small letters, with u for micro."""
    return text.lower().replace("µ", "u").replace("μ", "u")


def _shown(line: str) -> str:
    return f" in words that are understood (is it the line {line!r}?)" if line else ""


def _short(found: "re.Match[str]") -> str:
    return {"milli": "mv", "micro": "uv", "nano": "nv", "": "v"}[found[1]]
