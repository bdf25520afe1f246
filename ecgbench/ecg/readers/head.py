"""The lines before the numbers of a text table. A statement is understood where its unit says what
it is, and its name is one of a few English words:

    Sampling Rate (Hz),125      Hz, kHz; also fs=500 and other names of nothing but this rate
    Interval: 4 ms              ms or s a sample
    Unit: uV                    mV, uV, V
    Gain,200 LSB/mV             steps of the converter; Resolution: 4.88 uV
    Leads: I, II

Any other line that may speak of a rate or a unit is shown where one is not known.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from ecgbench.core.text import shortened
from ecgbench.ecg.readers.notation import (
    AGREE,
    LOWEST,
    ReadOptions,
    hertz,
    numbers,
    per_mv,
    plain,
    signed,
)
from ecgbench.errors import BadRecord, BadSetting

_PAIR = re.compile(r"[^\w\-+µμ]*([^:=,;\t]*?)[\s\"']*(?:[:=,;\t]\s*)+[\"']?(.*?)[\s,;\"']*")
_CELL_OF_UNIT = re.compile(r"^([^,;\t]+[,;\t]\s*[\d.]+)\s*[,;\t]\s*([^\W\d][^,;\t]*)[,;\t\s]*$")
"""`Sampling rate,500,Hz`."""
_SPOKEN = re.compile(r"[^\w+-]*(\D*?)\s*(\d.*?)\s*")
_OF_A_COMMA = re.compile(
    r"[^\d:=,;\t]*\s\d+(,\d|(\.\d+)?\s*[,;\t]\s*[mun\u00b5\u03bc]?v\b).*", re.IGNORECASE
)
"""`Resolution 4,88 uV`, `Scale 2.5,uV`: words and a number, and no name before the comma."""
_IN_KEY = re.compile(r"(.*?)[\s_]*[(\[]([^)\]]+)[)\]]|(.*?)[\s_]+(k?hz|ms|us|s|[mun]?v)", re.I)


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_ALONE = _set("fs sf sfreq srate sps samplerate samplingrate fsamp")
_SAMPLING = _set("sample samples sampling sampled")
_INTERVAL = _set("interval period dt ts delta increment xincrement")
_RATE = _set("rate frequency freq hz second")
_SURE = _ALONE | _SAMPLING | _INTERVAL
_WITH = _RATE | _set("time data ecg ekg signal at of the per in acquisition adc t y amplitude")
_OTHER = _set(
    "points number filter mains notch line pass highpass lowpass low high cut cutoff band "
    "bandwidth heart pulse respiration resp ppg spo qrs pr rr qt hrv pacing pace stimulus acc "
    "lp hp original max maximum min minimum bit bits baud paper speed update display monitor "
    "power battery temperature pressure weight height calibration threshold"
)
"""Words of a line on something else: a filter, a heart, another signal."""
_UNIT = _set("unit units voltage scale values axis dimension yunit yunits")
_AS_UNIT = (_UNIT | _WITH) - {"per"}
_STEPS = _set("resolution lsb step stepsize quantization quantisation")
_ZERO = _set("zero baseline offset adczero zerolevel")
_OF_ZERO = _ZERO | _set("adc digital dc level value of the converter signal ecg ekg in")
_LEAD = _set("lead leads channel channels signal signals label labels electrode")
_NAMES = _set("name names ecg ekg")
_STEP = r"(?:lsb|adu|adc(?: ?units?| ?counts?)?|counts?|bits?|steps?|units?|digits?|du|nu|1)"
_VOLT = re.compile(r"[mun]?v")
_PER_MV = re.compile(rf"{_STEP}?/([mun]?v)")
_A_STEP = re.compile(rf"([mun]?v)/{_STEP}")
STEPS = re.compile(rf"{_STEP}|raw|a\.?u\.?|arb.*|adc.*|no_units", re.IGNORECASE)
"""Units that are steps of a converter."""
_OF_RATE = re.compile(
    r"hz\b|hertz|rate\b|\bsampling\b|fr.{1,2}qu|fre[ck]|abtast|chantillon|muestreo|campionam|amostrag"
)
_OF_GAIN = re.compile(
    r"gain|scal(?!e unit)|sensitiv|amplif|multipl|factor|lsb|resol|verst|aufl|gewinn|wert"
)
_FEWER = re.compile(
    r"decimat|down-?sampl|sub-?sampl|every \w+ sample|\bskip|\bstride\b|\bthin|export step"
)
_SIGN = re.compile(r"polarit|\bsign\b")
_TURNED = re.compile(r"invert|upside|revers|negat|-\s*1")
_NOTHING = re.compile(r"|0|\+?1(\.0*)?|1x|n|no|none|off|false|disabled|not .*")
_HZ = re.compile(r"(\d[\d.,']*)\s*(k?hz)\b", re.IGNORECASE)
_OF_FACTOR = re.compile(r"scal(?!e unit)|amplifi(ed|cation)|multipl|factor")
_OF_UNIT = re.compile(r"(?<![a-z])[mun]?v(olts?)?\b|\bunit|einheit|unit[eéàá]|unidad")


@dataclass
class Head:
    """The content of these lines."""

    rates: list[tuple[str, float]] = field(default_factory=list)
    """(where it stands, Hz) of what can only be the rate of the samples."""
    units: list[tuple[str, float]] = field(default_factory=list)
    """(where it stands, how many of the file's units make 1 mV) of lines on the unit."""
    gains: list[tuple[str, float]] = field(default_factory=list)
    """The same, of lines on the gain or the size of a step."""
    zeros: list[tuple[str, float]] = field(default_factory=list)
    """(line, step of 0 mV, NaN where it is in another unit) of lines on it that do not say 0."""
    leads: list[str] = field(default_factory=list)
    """Names of leads that stand alone on a line."""
    numbered: dict[int, str] = field(default_factory=dict)
    """The same, of numbered channels."""
    raw: str = ""
    """A line that says that the samples are steps of a converter, or ""."""
    changes: list[str] = field(default_factory=list)
    """Lines by which samples may be fewer than the rate says, or upside down."""
    unclear: list[str] = field(default_factory=list)
    """Lines that may speak of a rate, a unit or a gain."""
    others: list[str] = field(default_factory=list)

    def about(self, kind: str) -> str:
        """The first line that may speak of the "rate", the "unit", the "gain" of steps, or a
        "factor" of samples with decimals; or "".
        """
        words = {
            "rate": [_OF_RATE],
            "gain": [_OF_GAIN],
            "factor": [_OF_FACTOR],
            "unit": [_OF_UNIT, _OF_GAIN],
        }[kind]
        lines = [line for line in self.unclear if kind != "factor" or not _is_one(line)]
        found = (line for word in words for line in lines if word.search(plain(line)))
        return shortened(self.raw or next(found, "") if kind == "unit" else next(found, ""), 60)

    def demand_agreement(self, options: ReadOptions, record: str) -> None:
        """BadRecord where lines that are not understood say another rate or unit than `options`,
        and none says the same, and where a line may change what the samples mean.
        """
        if self.changes:
            raise BadRecord(
                f"{record}: by its line {shortened(self.changes[0], 60)!r} samples may be fewer or "
                f"upside down; correct the rate, or turn them, and take the line out"
            )
        hz = {line: max(map(_of_hz, _HZ.findall(line)), default=0.0) for line in self.unclear}
        hz |= {x: hertz(re.sub(r"^\D+", "", _split(x)[1])) or 0.0 for x in hz if not hz[x]}
        rates = {x: n for x, n in hz.items() if n >= 2 * LOWEST and _OF_RATE.search(plain(x))}
        units = {line: unit for line in self.unclear for unit in _named_units(line)}
        for found, known, typed, said in (
            (rates, self.rates, options.fs, f"--fs {options.fs}"),
            (units, self.units or self.gains, per_mv(options.unit or ""), f"--unit {options.unit}"),
        ):
            agree = [abs((n or 0.0) - typed) <= AGREE * typed for n in found.values() if typed]
            if typed and not known and agree and not any(agree):
                raise BadRecord(
                    f"{record}: the line {shortened(next(iter(found)), 60)!r} differs from {said}; "
                    f"if it is right, write it in English (Sampling rate: 250 Hz; Unit: mV); if "
                    f"it is on something else, call it what it is (Mains frequency, Display unit)"
                )

    def are_steps(self, units: Sequence[str], options: ReadOptions) -> bool:
        """Whether whole numbers in columns of these units are steps of a converter."""
        odd = any(map(STEPS.fullmatch, units)) or (options.unit or "")[:1].isdigit()
        return bool(self.raw) or (odd and not (self.units or any(map(per_mv, units))))

    def zeros_of(
        self, steps: bool, values: np.ndarray, bits: Sequence[int | None], record: str
    ) -> list[float]:
        """The step of 0 mV of each lead: as a line states it, or the middle one of so many bits;
        else the middle of samples (lead, time) that are steps above 0, as those of a converter
        without a sign are. BadRecord where lines state several, and where the samples are no steps
        or do not lie about it.
        """
        stated = {value for _, value in self.zeros}
        if not stated and not (steps and any(bits)):
            above = steps and np.nanmin(values) > 0
            some = values[:, :: 1 + values.shape[1] // 2**17]
            return [float(np.nanmedian(some)) if above else 0.0] * len(values)
        step, several = stated.pop() if stated else 0.0, bool(stated)
        zeros = [2.0 ** (n - 1) if n else step for n in bits]
        about = (np.nanmin(row) <= zero <= np.nanmax(row) for row, zero in zip(values, zeros))
        if several or not steps or not all(about):
            line = self.zeros[0][0] if self.zeros else self.raw
            raise BadRecord(
                f"{record}: {shortened(line, 40)!r} does not fit its samples; if the step of 0 mV "
                f"is subtracted already, or it is on something else, take it out"
            )
        return zeros

    def scale(
        self, whole: bool, unit: str, alone: bool, options: ReadOptions, record: str
    ) -> tuple[str, float] | None:
        """(Where it stands, how many of the file's units make 1 mV); None where nothing says it.

        whole: whether all samples are whole numbers, as the steps of a converter are; unit: of a
        column; alone: whether it may differ from the head, which speaks of other columns.
        BadRecord where two statements differ; BadSetting where the samples may be steps.
        """
        column = per_mv(unit)
        stated = [("the unit of its column", column)] if column else []
        stated += [] if column and alone else self.units
        if not stated and self.gains and not whole:
            raise BadRecord(
                f"{record}: its samples have decimals, so that they are no steps, of which "
                f"{self.gains[0][0]} speaks; say their unit in its head: Unit,mV"
            )
        odd = self.about("gain" if whole else "factor")
        if stated and odd and not (self.gains or options.unit):
            raise BadSetting(
                f"{record}: by the line {odd!r} its samples may be steps or multiples of the unit "
                f"that it states; if the unit is right, give it too, as --unit mV; else correct it"
            )
        stated += self.gains if whole else []
        for other, scale in stated[1:]:
            if abs(scale - stated[0][1]) > AGREE * scale:
                raise BadRecord(
                    f"{record}: 1 mV is {stated[0][1]:g} by {stated[0][0]} and {scale:g} by "
                    f"{other}; correct the one that is wrong"
                )
        raw = self.raw or unit * bool(STEPS.fullmatch(unit))
        if raw and not stated and not (options.unit or "")[:1].isdigit():
            both = f"{raw!r}, and {options.unit} by --unit" if options.unit else repr(raw)
            raise (BadRecord if options.unit else BadSetting)(
                f"{record}: its samples are steps by {both}; say how much a step is: --unit 4.88uV"
            )
        return stated[0] if stated else None


def understood(lines: Sequence[str]) -> Head:
    """The content of the lines before the numbers, without those that name columns."""
    head = Head()
    for line in lines:
        text = _CELL_OF_UNIT.sub(r"\1 \2", line.strip().strip("\ufeff"))
        several = len(re.findall(r"=|:(?!\d\d)", text)) > 1
        parts = re.split(r"(?:;|,(?!\d))\s*", text) if several else [text]
        cells = re.split(r"[,;\t]", text)
        keys = [cell for cell in cells[::2] if cell.strip()]
        named = all(re.match(r"\W*[^\W\d]", key) and not signed(key) for key in keys)
        if len(cells) > 3 and not len(cells) % 2 and named:
            parts = [",".join(pair) for pair in zip(cells[::2], cells[1::2])]  # Lead,I,Unit,uV
        for part in parts:
            _take(part.strip(), head)
    head.leads += [head.numbered[number] for number in sorted(head.numbered)]
    return head


def _split(line: str) -> tuple[str, str, str]:
    """Name, value and unit (of the name) of a line."""
    ways = [_SPOKEN] if _OF_A_COMMA.fullmatch(line) else [_PAIR, _SPOKEN]
    found = next(filter(None, (way.fullmatch(line) for way in ways)), None)
    name, value = (found[1].strip(), found[2].strip()) if found else ("", "")
    inner = _IN_KEY.fullmatch(name)
    if not inner:
        return name, value, ""
    return (inner[1], value, inner[2]) if inner[2] else (inner[3], value, inner[4])


def _of_hz(found: tuple[str, str]) -> float:
    return hertz(" ".join(found)) or 0.0


def _named_units(line: str) -> list[float]:
    """How many make 1 mV, of the units that a line names; 5 mV is a quantity, mm/mV a gain."""
    words = [word.strip("()[]\"'") for word in re.split(r"[\s,;:=]+", line)]
    alone = (w for before, w in pairwise(["", *words]) if not re.search(r"\d$|^per$", before))
    return [scale for word in alone if (scale := _bare(word))]


def _bare(unit: str) -> float | None:
    return None if re.search(r"\d", unit) else per_mv(unit)


def _take(line: str, head: Head) -> None:
    name, value, unit = _split(line)
    where = f"the line {shortened(line, 40)!r}"
    words = {*re.findall(r"[^\W\d_]+", plain(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)))}
    words |= _OTHER & {*re.findall(r"[a-z]+", unit.lower())}  # rate (original)
    if (
        words & _LEAD
        and words <= _LEAD | _NAMES
        and value
        and (signed(value) or not re.search(r"\d", name + value[0]))
    ):
        if number := re.search(r"\d+", name):
            head.numbered[int(number[0])] = value
            return
        each = value.split()
        by_blanks = all(map(signed, each))
        head.leads += each if by_blanks else [one.strip() for one in re.split(r"[,;|\t]", value)]
    elif words & _ZERO and words <= _OF_ZERO and (found := _zero(value, unit)):
        if found[0]:
            head.zeros.append((line, found[0]))
    elif gain := _gain(name, words, value, unit):
        head.gains.append((where, gain))
    elif _changed(line, value):
        head.changes.append(line)
    elif words & _OTHER or "mm/" in line.lower():  # of paper
        head.others.append(line)
    elif hz := _rate(words, value, unit):
        head.rates.append((where, hz))
    elif words & _UNIT and words <= _AS_UNIT and (scale := _bare(value) or _bare(unit)):
        head.units.append((where, scale))
    elif words & {"unit", "units"} and words <= _UNIT | _WITH and STEPS.fullmatch(value):
        head.raw = head.raw or line
    elif any(kind.search(plain(line)) for kind in (_OF_RATE, _OF_GAIN, _OF_UNIT)):
        head.unclear.append(line)
    elif line.strip("#%/-=*_,;\t \"'"):
        head.others.append(line)


def _is_one(line: str) -> bool:
    return bool(_NOTHING.fullmatch(plain(_split(line)[1])))


def _changed(line: str, value: str) -> bool:
    """Whether a line says that samples were left out (Decimation: 2) or turned (Polarity:
    inverted).
    """
    subject, said = _subject(line), plain(value)
    if _SIGN.search(subject):
        return bool(_TURNED.search(said))
    if _TURNED.search(subject):
        return not _NOTHING.fullmatch(said) or said == "1"
    fewer = _FEWER.search(subject) and not (_is_one(line) or "hz" in said)
    return bool(fewer)


def _subject(line: str) -> str:
    """The name of what a line is on; a line of few words as it is, "" of a longer one."""
    found = _PAIR.fullmatch(line)
    return plain(found[1]) if found else plain(line) * (len(line.split()) <= 4)


def _rate(words: set[str], value: str, unit: str) -> float | None:
    """Hz of a line on the rate or the interval of the samples; None for another."""
    each = re.sub(r"\s*(/|per)\s*sample", "", value, flags=re.IGNORECASE)
    if not (words & _SURE or each != value or "sample" in value) or words - _SURE - _WITH:
        return None
    interval = hertz(each, unit, interval=True)
    if words & _INTERVAL and not unit and (bare := numbers(value)) and 0 < bare[-1] < 0.01:
        interval = 1 / bare[-1]  # no unit: seconds
    if interval is not None:
        return interval if interval >= LOWEST else None  # longer ones are of something else
    if words & _INTERVAL or not (words & (_ALONE | _RATE) or re.search("[a-z]", value)):
        return None
    return hertz(value, unit or "hz" * ("hz" in words))


def _zero(value: str, unit: str) -> tuple[float] | None:
    """The step of 0 mV by the value of a line, NaN where it is no one number of steps; None where
    it is of something else (5 s, off).
    """
    if not (found := re.fullmatch(r"([-+]?\d+(?:\.\d*)?)\s*([^\d,;]*)", value)):
        return (np.nan,) if re.search(r"\d", value) else None
    number, of = float(found[1]), _per(found[2]) or _per(unit)
    if of and not (re.fullmatch(_STEP, of) or _VOLT.fullmatch(of)):
        return None
    return (np.nan if number and (_VOLT.fullmatch(of) or number % 1) else number,)


def _gain(name: str, words: set[str], value: str, unit: str) -> float | None:
    """How many steps make 1 mV by a line with a unit such as LSB/mV or uV/LSB, or on the size of a
    step, or such as 200 LSB = 1 mV; None for another line.
    """
    left, right = _measured(f"{name} {unit}"), _measured(value)
    for steps, volts in ((left, right), (right, left)):
        several_bits = steps[1].startswith("bit") and steps[0] not in (None, 1.0)  # a resolution
        step = _A_STEP.fullmatch(f"mv/{steps[1]}") and not several_bits
        if step and volts[0] and _VOLT.fullmatch(volts[1]):
            return (steps[0] or 1.0) * (per_mv(volts[1]) or 0.0) / volts[0]
    if not right[0]:
        return None
    for kind in (right[1], _per(unit), left[1]):
        if found := _PER_MV.fullmatch(kind):
            return right[0] * (per_mv(found[1]) or 0.0)
        if found := _A_STEP.fullmatch(kind):
            return (per_mv(found[1]) or 0.0) / right[0]
    volt = _VOLT.fullmatch(right[1] or _per(unit))
    return (per_mv(volt[0]) or 0.0) / right[0] if volt and words & _STEPS else None


def _measured(text: str) -> tuple[float | None, str]:
    """The number at the start of a text, None where it has none or several meanings, and its
    unit.
    """
    found = re.fullmatch(r"([\d.,'\s]*\d(?:[eE][-+]?\d+)?)?\s*(.*)", text, re.DOTALL)
    read = numbers(found[1]) if found and found[1] else []
    return (read[0] if len(read) == 1 else None), _per(found[2] if found else text)


def _per(unit: str) -> str:
    """A unit in small letters, with / for per and short names of volts."""
    text = re.sub(r"\s*(\bper\b|/)\s*", "/", plain(unit)).strip()
    for prefix in ("milli", "micro", "nano"):
        text = re.sub(rf"{prefix}volts?\b", f"{'u' if prefix == 'micro' else prefix[0]}v", text)
    return re.sub(r"\bvolts?\b", "v", text)
