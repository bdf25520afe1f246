"""The lines before the numbers of a text table. A statement is understood where its unit says what
it is, and its name is made of a few English words:

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


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_ALONE = _set("fs sf sfreq srate sps samplerate samplingrate fsamp")
_SAMPLING = _set("sample samples sampling sampled")
_INTERVAL = _set("interval period dt ts delta increment xincrement")
_RATE = _set("rate frequency freq hz second")
_SURE = _ALONE | _SAMPLING | _INTERVAL
_WITH = _RATE | _set(
    "time data ecg ekg signal at of the per in acquisition adc t y amplitude s ms us"
)
_OTHER = _set(
    "points number filter mains notch line pass highpass lowpass low high cut cutoff band "
    "bandwidth heart pulse respiration resp ppg spo qrs pr rr qt hrv pacing pace stimulus acc "
    "lp hp original max maximum min minimum bit bits baud paper speed update display monitor "
    "power battery temperature pressure weight height calibration threshold"
)
"""Words of a line on something else: a filter, a heart, another signal."""
_UNIT = _set("unit units voltage scale values axis dimension yunit yunits")
_STEPS = _set("resolution lsb step stepsize quantization quantisation")
_SIZED = _STEPS | {"unit", "units"}
_ZERO = _set("zero baseline offset adczero zerolevel")
_OF_ZERO = _ZERO | _set(
    "adc digital dc level value of the converter signal ecg ekg in count counts lsb adu bit bits"
)
_LEAD = _set("lead leads channel channels signal signals label labels electrode")
_NAMES = _LEAD | _set("name names ecg ekg")
_STEP = r"(?:lsb|adu|adc(?: ?units?| ?counts?)?|counts?|bits?|steps?|units?|digits?|du|nu|1)"
STEPS = re.compile(rf"{_STEP}|raw|a\.?u\.?|arb.*|adc.*|no_units", re.IGNORECASE)
"""Units that are steps of a converter."""
_NUMBER = r"[-+]?\d(?:[\d.,' ]*\d)?(?:e[-+]?\d+)?"
_ONE_NUMBER = re.compile(rf"(?P<name>\D*?)\s*(?P<number>{_NUMBER})\s*(?P<unit>\D*)")
_EQUAL = re.compile(rf"({_NUMBER}) ?({_STEP}|[mun]?v)\s*[=,:]\s*({_NUMBER}) ?({_STEP}|[mun]?v)")
"""`200 LSB = 1 mV`."""
_VOLT = re.compile(r"([mun]?v)")
_PER_MV = re.compile(rf"{_STEP}?/([mun]?v)")
_A_STEP = re.compile(rf"([mun]?v)/{_STEP}")
_SIGNS = " \t,;:=\"'()[]#%"
_OF_RATE = re.compile(
    r"hz\b|rate\b|\bsampling\b|fr.{1,2}qu|fre[ck]|abtast|chantillon|muestreo|campionam|amostrag"
)
_OF_GAIN = re.compile(
    r"gain|scal(?!e unit)|sensitiv|amplif|multipl|factor|lsb|resol|verst|aufl|gewinn|wert"
)
_OF_UNIT = re.compile(r"(?<![a-z])[mun]?v\b|\bunit|einheit|unit[eéàá]|unidad")
_CHANGE = re.compile(
    r"decimat|(down|sub)-?sampl|every \w+ sample|\bskip|\bstride\b|\bthin|export step|polarit|"
    r"^(signal )?sign$|\binver(t(ed)?|sion)\b|upside|\brevers|\bnegat"
)
_NOTHING = re.compile(r"|0|\+?1(\.0*)?|1x|n|no|none|off|false|disabled|not .*|normal|positive|.*hz")


@dataclass
class Head:
    """The content of these lines."""

    rates: list[tuple[str, float]] = field(default_factory=list)
    """(where it stands, Hz) of what can only be the rate of the samples."""
    units: list[tuple[str, float]] = field(default_factory=list)
    """(where it stands, how many of the file's units make 1 mV) of lines on the unit."""
    gains: list[tuple[str, float]] = field(default_factory=list)
    """The same, of lines on the gain or the size of a step."""
    leads: list[str] = field(default_factory=list)
    """Names of leads that stand alone on a line."""
    numbered: dict[int, str] = field(default_factory=dict)
    """The same, of numbered channels."""
    raw: str = ""
    """A line that says that the samples are steps of a converter, or ""."""
    changes: list[str] = field(default_factory=list)
    """Lines by which samples may be fewer than the rate says, upside down, or not about 0 mV."""
    unclear: list[str] = field(default_factory=list)
    """Lines that may speak of a rate, a unit or a gain."""
    others: list[str] = field(default_factory=list)

    def about(self, kind: str) -> str:
        """The first line that may speak of the "rate", the "unit" or the "gain", or ""."""
        words = {"rate": [_OF_RATE], "gain": [_OF_GAIN], "unit": [_OF_UNIT, _OF_GAIN]}[kind]
        found = (x for word in words for x in self.unclear if word.search(_normal(x)))
        return shortened(self.raw or next(found, "") if kind == "unit" else next(found, ""), 60)

    def demand_agreement(self, options: ReadOptions, record: str) -> None:
        """BadRecord where lines that are not understood say another rate or unit than `options`,
        and none says the same, and where a line may change what the samples mean.
        """
        if self.changes:
            raise BadRecord(
                f"{record}: by its line {shortened(self.changes[0], 60)!r} samples may be fewer, "
                f"upside down or lie around another value than 0 mV; correct them, or the rate, "
                f"and take the line out"
            )
        rates = {x: hz for x in self.unclear if (hz := _hertz_of(x)) >= 2 * LOWEST}
        units = {x: scale for x in self.unclear for scale in _units_of(x)}
        for found, known, typed, said in (
            (rates, self.rates, options.fs, f"--fs {options.fs}"),
            (units, self.units or self.gains, per_mv(options.unit or ""), f"--unit {options.unit}"),
        ):
            agree = [abs(n - typed) <= AGREE * typed for n in found.values() if typed]
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
        """The step of 0 mV of each lead of samples (lead, time) that are steps: the middle one of
        so many bits; else, where all are above 0 as those of a converter without a sign are, the
        middle sample. BadRecord where samples do not lie about it.
        """
        if not (steps and any(bits)):
            above = steps and np.nanmin(values) > 0
            some = values[:, :: 1 + values.shape[1] // 2**17]
            return [float(np.nanmedian(some)) if above else 0.0] * len(values)
        zeros = [2.0 ** (n - 1) if n else 0.0 for n in bits]
        if not all(np.nanmin(row) <= zero <= np.nanmax(row) for row, zero in zip(values, zeros)):
            raise BadRecord(
                f"{record}: its samples are not steps of {self.raw}, of which the middle one is "
                f"0 mV; give their unit in place of the size of a step: --unit mV"
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
        if stated and (odd := self.about("gain")) and not (self.gains or options.unit):
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
        text = line.strip().strip("\ufeff")
        parts, cells = [text], re.split(r"[,;\t]", text)
        keys = [cell for cell in cells[::2] if cell.strip()]
        if len(re.findall(r"=|:(?!\d\d)", text)) > 1:
            parts = re.split(r"(?:;|,(?!\d))\s*", text)  # fs=500, unit=uV
        named = all(re.match(r"\W*[^\W\d]", key) and not signed(key) for key in keys)
        if len(cells) > 3 and not len(cells) % 2 and named:
            parts = [",".join(pair) for pair in zip(cells[::2], cells[1::2])]  # Lead,I,Unit,uV
        for part in parts:
            _take(part.strip(), head)
    head.leads += [head.numbered[number] for number in sorted(head.numbered)]
    return head


def _take(line: str, head: Head) -> None:
    text, where = _normal(line), f"the line {shortened(line, 40)!r}"
    name, number, unit = _measured(text)
    words = {*re.findall(r"[^\W\d_]+", name)}
    if _leads(line, head):
        return
    if gain := _gain(text, words, _float(number), unit):
        head.gains.append((where, gain))
    elif _changed(text) or (words & _ZERO and words <= _OF_ZERO and _is_level(text, unit)):
        head.changes.append(line)
    elif words & _OTHER or "mm/" in text:  # of paper
        head.others.append(line)
    elif hz := _rate(words, number, unit):
        head.rates.append((where, hz))
    elif words & _UNIT and words <= (_UNIT | _WITH) - {"per"} and not number and per_mv(unit):
        head.units.append((where, per_mv(unit) or 0.0))
    elif words & {"unit", "units"} and words <= _UNIT | _WITH and STEPS.fullmatch(unit):
        head.raw = head.raw or line
    elif any(kind.search(text) for kind in (_OF_RATE, _OF_GAIN, _OF_UNIT)):
        head.unclear.append(line)
    elif line.strip("#%/-=*_,;\t \"'"):
        head.others.append(line)


def _normal(text: str) -> str:
    """In small letters, with short names of units and / for per."""
    found = re.sub(
        r"\s*(\bper\b|/)\s*", "/", plain(re.sub(r"(?<=[a-z])(?=[A-Z][a-z]{2})", " ", text))
    )
    for prefix in ("milli", "micro", "nano", ""):
        short = "u" if prefix == "micro" else prefix[:1]
        found = re.sub(rf"\b{prefix}volts?\b", f"{short}v", found)
    return re.sub(r"\bhertz\b", "hz", found.replace("(1/", "(/"))


def _measured(text: str) -> tuple[str, str, str]:
    """Name, number and unit of a normal line, "" where it has none; a unit may stand in the name.
    A line with several numbers has a name alone.
    """
    text = re.sub(r"^((?:ch|channel|lead)[ #]*)\d+(?=\s*[:=,;\t])", r"\1", text)
    found = _ONE_NUMBER.fullmatch(text)
    if not found and re.search(r"\d", text):
        return re.split(r"\d", text)[0], "", ""
    name, number, unit = found.groups() if found else (text, "", "")
    if not (unit := unit.strip(_SIGNS)):
        of_name = re.fullmatch(r"(.*?)([^\s_()\[\]:=,;]+)", name.strip(_SIGNS))
        word = of_name[2] if of_name else ""
        if of_name and (
            not number or hertz("1", word) or hertz("1", word, True) or _of_volts(word)
        ):
            name, unit = of_name.groups()
    return name, number, unit


def _of_volts(unit: str) -> bool:
    return any(kind.fullmatch(unit) for kind in (_VOLT, _PER_MV, _A_STEP))


def _is_level(text: str, unit: str) -> bool:
    """Whether a line on a zero states another one than 0, in steps or volts."""
    of = not unit or STEPS.fullmatch(unit) or _VOLT.fullmatch(unit)
    return bool(of and re.search("[1-9]", text))


def _float(number: str) -> float | None:
    """The one value that a number can have."""
    read = numbers(number.lstrip("+-"))
    return read[0] * (-1) ** number.startswith("-") if len(read) == 1 else None


def _leads(line: str, head: Head) -> bool:
    """Whether a line names leads, which are kept."""
    name, *rest = re.split(r"\s*[:=,;\t]\s*", line.strip(_SIGNS), maxsplit=1)
    value, words = "".join(rest).strip("\"'"), {*re.findall(r"[^\W\d_]+", plain(name))}
    alone = value and (signed(value) or not re.search(r"\d", name + value[0]))
    if not (words & _LEAD and words <= _NAMES and alone):
        return False
    if number := re.search(r"\d+", name):
        head.numbered[int(number[0])] = value
    else:
        by_blanks = all(map(signed, value.split()))
        head.leads += value.split() if by_blanks else re.split(r"\s*[,;|\t]\s*", value)
    return True


def _changed(text: str) -> bool:
    """Whether a line says that samples were left out (Decimation: 2) or turned (Polarity:
    inverted).
    """
    name, *rest = re.split(r"\s*[:=,;\t]\s*", text, maxsplit=1)
    if not rest:
        return bool(_CHANGE.search(text)) and len(text.split()) <= 4
    off = _NOTHING.fullmatch(rest[0]) and not ("invert" in name and rest[0] == "1")
    return bool(_CHANGE.search(name)) and not off


def _rate(words: set[str], number: str, unit: str) -> float | None:
    """Hz of a line on the rate or the interval of the samples; None for another."""
    if not (words & _SURE or "sample" in unit) or words - _SURE - _WITH:
        return None
    interval = hertz(number, re.sub(r"/sample$", "", unit), interval=True)
    if words & _INTERVAL and not unit and (bare := _float(number)) and 0 < bare < 0.01:
        interval = 1 / bare  # no unit: seconds
    if interval is not None:
        return interval if interval >= LOWEST else None  # longer ones are of something else
    if words & _INTERVAL or not (words & (_ALONE | _RATE) or unit):
        return None
    return hertz(number, unit)


def _gain(text: str, words: set[str], number: float | None, unit: str) -> float | None:
    """How many steps make 1 mV by a line with a unit such as LSB/mV or uV/LSB, on the size of a
    step, or such as 200 LSB = 1 mV; None for another line.
    """
    if found := _EQUAL.fullmatch(text.strip(_SIGNS)):
        one, of, other, size = found.groups()
        steps, volts, kinds = (
            (other, one, (size, of)) if _VOLT.fullmatch(of) else (one, other, (of, size))
        )
        several_bits = kinds[0].startswith("bit") and steps != "1"  # a resolution
        if several_bits or _VOLT.fullmatch(kinds[0]) or not _VOLT.fullmatch(kinds[1]):
            return None
        number, unit = (_float(volts) or 0.0) / (_float(steps) or np.inf), f"{kinds[1]}/lsb"
    if not number or number < 0:
        return None
    if a_millivolt := _PER_MV.fullmatch(unit):
        return number * (per_mv(a_millivolt[1]) or 0.0)
    a_step = _A_STEP.fullmatch(unit) or (_VOLT.fullmatch(unit) if words & _SIZED else None)
    return (per_mv(a_step[1]) or 0.0) / number if a_step else None


def _hertz_of(line: str) -> float:
    """Hz of a line on a rate that is not understood; 0 where it has none."""
    text = _normal(line)
    _, number, unit = _measured(text)
    found = re.findall(r"(\d[\d.,']*)\s*(k?hz)\b", text) or [(number, "")] * (not unit)
    return max((hertz(*one) or 0.0 for one in found), default=0.0) if _OF_RATE.search(text) else 0.0


def _units_of(line: str) -> list[float]:
    """How many make 1 mV, of the units that a line names; 5 mV is a quantity, mm/mV a gain."""
    words = re.findall(r"(?<!\d )(?<![\w/])[mun]?v\b", _normal(line))
    return [scale for word in words if (scale := per_mv(word))]
