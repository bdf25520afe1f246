"""The lines before the numbers of a text table: rate, unit, gain and leads, and lines that are not
understood.

    Sampling Rate (Hz),125      the unit may be of the name; an interval is a rate, too
    Resolution: 4.88 uV         a step of the file
    Frequency,50 Hz             of the samples, of the mains, or of a filter: refused without --fs
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ecgbench.core.text import shortened
from ecgbench.ecg.readers.notation import AGREE, LOWEST, ReadOptions, hertz, numbers, per_mv, signed
from ecgbench.errors import BadRecord, BadSetting

_PAIR = re.compile(r"[#%/\s\"']*([^,;:=\t]+?)[\s\"']*[,;:=\t]\s*(.*?)[\s,;]*")
_SPOKEN = re.compile(r"[#%/\s]*(\D+?)\s+(\d\S*(\s*[a-zµμ/]+)?)\s*", re.IGNORECASE)
_BRACKET = re.compile(r"(.*?)[\s_]*[(\[]([^)\]]+)[)\]]\s*")
_TRAILING = re.compile(r"(.*?)[\s_]+(k?hz|ms|us|s|sec|[mun]?v)", re.IGNORECASE)
_OTHER = re.compile(
    r"filter|mains|notch|line|cut|pass|heart|pulse|herz|resp|baud|bit|paper|speed|beat|qrs|hrv|"
    r"band|corner|stim|pac(e|ing)|power|update|time ?unit|unit ?(id|n|no|nr|name|number|serial)\b|"
    r"\borig|\bmax|ppg|\bacc|spo2|weight|height|temp|press|\bcare\b|\bward\b|pain|treadmill|"
    r"(full|vertical|display|time).scale"
)
_RATE = re.compile(
    r"\brate\b|(sampl\w*|tast|data|adc)rate\b|freq(?!uent(ly)?\b)|samples? ?/ ?s|frec|fréq|hertz|"
    r"\bhz\b|\bfs\b|sps\b|\btakt|\btaux|tasso|per ?sec|\btaxa\b|frekv"
)
_SAMPLING = re.compile(
    r"sampl|abtast|chantil|muestr|campion|bemonster|acqui|digiti|record|\badc\b|amostr"
)
_SURE = re.compile(r"fs|sf|sfreq|srate|sps|fsamp|hz")
_INTERVAL = re.compile(
    r"interv|period|\bdt\b|\bts\b|delta ?t|abstand|(per|between) samples?|sampl\w* time|increment"
)
_STEP = re.compile(r"interval|dt|ts|delta ?t(ime)?|(x|t|time)? ?increment")
"""Names of an interval that need no word on samples."""
_UNIT = re.compile(
    r"units?\b|einheit|\bunit[eéàá]|\bunidad|voltage|amplitude|axis|dim(ens|$)|scale|values|data"
)
_GAIN = re.compile(
    r"gain|resol|aufl[oö]s|lsb|counts? ?(per|/)|scal(e|ing)|conversion|adu\b|step ?size|sensitiv|"
    r"multipl|quanti[sz]|amplification|verst.{1,2}rk|factor|per [mun]?v\b"
)
_WEIGHT = re.compile(
    r"(bit|lsb) ?(weight|wert)|\b[mun]?v(olts?)? ?(/|per) ?(bit|lsb|count|step|adu|unit)"
)
_OF_A_STEP = re.compile(r"resol|aufl|lsb|step|quanti|bit|conver|factor|adu")
"""Words before a voltage that is one of a step."""
_LEAD = re.compile(
    r"(ecg |ekg )?(leads?|channels?|ableitung(en)?|signals?|derivations?|electrodes?)( names?)?"
)
_STEPWORD = r"(?:lsb|counts?|adu|units?|adc ?(?:units?|counts?)|bits?|steps?|digits?|du|nu)"
_STEPS = re.compile(
    rf"(?P<n>[\d.,]+)\s*(?:{_STEPWORD}?\s*(?:/|per )\s*(?P<per>[a-zµμ]+)|"
    rf"(?P<unit>[a-zµμ]*v(?:olts?)?)\s*(?P<step>(?:/|per )\s*{_STEPWORD})?)",
    re.IGNORECASE,
)


@dataclass
class Head:
    """The content of these lines."""

    rates: list[tuple[str, float]] = field(default_factory=list)
    """(line, Hz) of what can only be the rate of the samples."""
    perhaps: list[tuple[str, float | None]] = field(default_factory=list)
    """(line, Hz) of what may be the rate, or that of a filter or a heart."""
    unit: float | None = None
    """How many of the file's units make 1 mV, from a line on units."""
    gain: float | None = None
    """The same, from a line on the gain or the resolution."""
    leads: list[str] = field(default_factory=list)
    """Names of leads that stand alone on a line."""
    others: list[str] = field(default_factory=list)
    """Lines that are not understood."""
    odd: list[str] = field(default_factory=list)
    """Lines that look like a rate, a unit or a gain, and are not understood."""

    def demand_understood(self, file: Path, options: ReadOptions, record: str) -> None:
        """BadSetting for a line that looks like a rate, a unit or a gain and is not understood;
        BadRecord where a line that may be the rate differs from --fs.
        """
        if self.odd:
            raise BadSetting(
                f"{file.name} does not state its rate, unit or gain in words that are understood: "
                f"the line {shortened(self.odd[0], 80)!r}; correct it in the file"
            )
        for line, value in [] if self.rates else self.perhaps:
            if options.fs is None:
                raise BadSetting(
                    f"{file.name} does not state its rate; the line {line!r} may be that of the "
                    f"samples, or of something else; state it for all files that do not: --fs 500"
                )
            if value is None or abs(value - options.fs) > AGREE * options.fs:
                raise BadRecord(
                    f"{record}: the line {line!r} may be the rate, and --fs says {options.fs:g} "
                    f"Hz; correct the file, or call the line what it is (Mains frequency, Heart "
                    f"rate)"
                )

    def scale(self, whole: bool, record: str, column: float | None) -> float | None:
        """How many of the file's units make 1 mV; None where no line says it. whole: whether all
        samples are whole numbers, as the steps of a converter are; column: what the name of a
        column says. BadRecord where unit and gain are both there and the samples may be of either.
        """
        unit = column or self.unit
        if unit is None or self.gain is None:
            if self.gain is not None and not whole:
                raise BadRecord(
                    f"{record}: its head says that 1 mV is {self.gain:g} steps, and its samples "
                    f"are no steps (they have decimals); say the unit in its head: Unit,mV"
                )
            return unit or self.gain
        if whole and abs(unit - self.gain) > AGREE * self.gain:
            raise BadRecord(
                f"{record}: 1 mV is {unit:g} by the unit in its head and {self.gain:g} by the "
                f"gain; keep the line that its samples are in"
            )
        return unit


def understood(lines: Sequence[str]) -> Head:
    """The content of the lines before the numbers, without those that name columns."""
    head = Head()
    for line in lines:
        text = line.strip().strip("\ufeff")
        found = _PAIR.fullmatch(text)
        parts = [text]
        if found and re.search(r"[=:]", found[2]) and not re.search(r"\d:\d\d", found[2]):
            parts = re.split(r"[,;]\s*", text)
        elif re.fullmatch(r"[^,;\t]+([,;\t][^,;\t]+){3,}", text):  # Lead,I,Unit,uV
            cells = re.split(r"[,;\t]", text)
            if not len(cells) % 2 and not any(map(signed, cells[::2])) and "=" not in text:
                parts = [",".join(pair) for pair in zip(cells[::2], cells[1::2])]
        for part in parts:
            _take(part.strip(), head)
    return head


def _take(line: str, head: Head) -> None:
    found = _PAIR.fullmatch(line) or _SPOKEN.fullmatch(line)
    if not found or not found[2].strip('" ') or not re.search(r"\w", found[1]):
        if _looks_like_rate(line.lower()) or re.search(r"\d\s*k?hz\b", line.lower()):
            head.odd.append(line) if not _OTHER.search(line.lower()) else head.others.append(line)
        elif line.strip("#%/-=*_,;\t \"'"):
            head.others.append(line)
        return
    name, value = found[1].strip(), found[2].strip('" ')
    unit = ""
    if (within := _BRACKET.fullmatch(name)) or (within := _TRAILING.fullmatch(name)):
        name, unit = within[1], within[2]
    words = re.sub(r"(?<=[a-z])(?=[A-Z][A-Za-z])", " ", name).replace("_", " ").replace("-", " ")
    words = _plain(words)
    bare = per_mv(value) and not re.search(r"\d", value)
    if step := _equation(line):
        _keep_gain(line, "lsb", step, "", head)
    elif _WEIGHT.search(words):
        _keep_gain(line, words, value, unit, head)
    elif _OTHER.search(words):
        head.others.append(line)
    elif _LEAD.fullmatch(words) and not re.match(r"\d", value):
        head.leads += _leads(value)
    elif _STEP.fullmatch(words) or (_INTERVAL.search(words) and _SAMPLING.search(words)):
        _keep_interval(line, words, value, unit, head)
    elif _looks_like_rate(words) or _sampled(words, value):
        plain = words.replace(" ", "")
        sure = _SAMPLING.search(words) or _SURE.fullmatch(plain) or _sampled(words, value)
        rate = hertz(value, unit)
        if sure:
            _keep(line, rate, head.rates, head)
        else:
            head.perhaps.append((line, rate))
    elif not bare and (
        _GAIN.search(f"{words} {unit}".lower()) or (_STEPS.fullmatch(value) and "/" in value)
    ):
        _keep_gain(line, words, value, unit, head)
    elif _UNIT.search(words) and (
        not re.search(r"\d", value) or (re.search(r"unit|einheit", words) and not numbers(value))
    ):
        scale = per_mv(value) or (None if re.search(r"\d", value) else per_mv(unit))
        if scale is None and re.search(r"\bunit|einheit", words):
            head.odd.append(line)
        elif scale is None:
            head.others.append(line)
        elif head.unit is not None and abs(head.unit - scale) > AGREE * scale:
            head.odd.append(line)
        else:
            head.unit = scale
    else:
        head.others.append(line)


def _looks_like_rate(words: str) -> bool:
    return bool(_RATE.search(words)) or words.replace(" ", "") in ("fs", "sf", "sfreq", "srate")


def _sampled(words: str, value: str) -> bool:
    """Whether a line is like "Sampled at 500 Hz" or "ECG: 500 Hz"."""
    named = _SAMPLING.search(words) or re.fullmatch(r"ecg|ekg|data|signals?|leads?", words)
    return bool(named and re.search(r"\d\s*k?hz\b", value.lower()))


def _leads(value: str) -> list[str]:
    """Names of leads in a line: Lead I; I, II; I II."""
    words = [word.strip() for word in re.split(r"[,;|\t]", value)]
    by_blanks = value.split()
    return by_blanks if len(words) == 1 and all(map(signed, by_blanks)) else words


def _keep_interval(line: str, words: str, value: str, unit: str, head: Head) -> None:
    """The rate of an interval between samples; below 0.01 without a unit it is one of seconds."""
    rate = hertz(value, unit, interval=True)
    if rate is None and not unit and (bare := numbers(value)) and bare[-1] < 0.01:
        rate = hertz(f"{bare[-1]} s", interval=True)
    if words != "interval" and " time" not in words:
        _keep(line, rate, head.rates, head)
    elif rate and rate >= LOWEST:
        head.perhaps.append((line, rate))
    else:  # another interval, or a date
        head.others.append(line)


def _keep(line: str, rate: float | None, rates: list[tuple[str, float]], head: Head) -> None:
    if rate is None:
        head.odd.append(line)
    else:
        rates.append((f"the line {shortened(line, 40)!r}", rate))


def _equation(line: str) -> str | None:
    """The step of 200 LSB = 1 mV, in either order, as 0.005 mv/lsb."""
    sides = re.split(r"\s*[=:]\s*", _plain(line).strip("#%/ "))
    for steps, volts in (sides, sides[::-1]) if len(sides) == 2 else ():
        count = re.fullmatch(rf"(\d*)\s*{_STEPWORD}", steps)
        size = re.fullmatch(r"([\d.,]+)\s*([mun]?v)(olts?)?", volts)
        if count and size and len(read := numbers(size[1])) == 1:
            return f"{read[0] / (int(count[1] or 1) or 1):.12f} {size[2]}/lsb"
    return None


def _plain(text: str) -> str:
    return text.lower().replace("µ", "u").replace("μ", "u")


def _keep_gain(line: str, words: str, value: str, unit: str, head: Head) -> None:
    """The gain of a line: 200 LSB/mV, 4.88 uV, counts per mV,200. A resolution in bits, a paper's
    10 mm/mV and a factor without a unit are no voltage of a step: the last is odd.
    """
    sure = re.search(r"gain|lsb|resol", words)
    paper = r"\d\s*-?bits?$|(?<![a-z])[mc]m\b|^\d+\s*x\s*\d+|dpi|pixel"
    if re.search(paper, f"{value} {unit}".strip().lower()) or not (sure or re.search(r"\d", value)):
        head.others.append(line)
        return
    volts = re.search(
        r"(/|per )?\s*(?<![a-z])([mun]?v)(?:olts?)?\b(\s*(?:/|per))?", _plain(f"{words} {unit}")
    )
    if volts and re.fullmatch(r"[\d.,]+", value):
        value += f" /{volts[2]}" if volts[1] else f" {volts[2]}{'/lsb' if volts[3] else ''}"
    found, read = _STEPS.fullmatch(value), numbers(re.split(r"[^\d.,]", value)[0])
    size = read[0] if len(read) == 1 and not re.match(r"\d", words) else 0.0  # no 200 LSB, 1 mV
    scale = None
    if found and found["per"]:
        scale = size * (per_mv(found["per"]) or 0)
    elif found and (found["step"] or _OF_A_STEP.search(words)):
        scale = per_mv(f"{size}{found['unit']}")
    if scale and not (head.gain and abs(head.gain - scale) > AGREE * scale):
        head.gain = scale
    elif (
        sure
        or found
        or re.search(r"sensitiv|amplification|verst|scal|multipl|wert|weight|/|per", words)
    ):
        head.odd.append(line)
    else:
        head.others.append(line)
