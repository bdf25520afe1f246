"""What the lines before the numbers of a text say: rate, unit, gain, leads; and which of them
are not understood.

    Sampling Rate (Hz),125      the unit may be of the name; an interval is a rate, too
    Resolution: 4.88 uV         a step of the file
    Frequency,50 Hz             of the samples, of the mains, or of a filter: asked about
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ecgbench.ecg.readers.said import AGREE, Said, hertz, numbers, per_mv
from ecgbench.errors import BadRecord, BadSetting
from ecgbench.text import shortened

_PAIR = re.compile(r"[#%/\s\"']*([^,;:=\t]+?)[\s\"']*[,;:=\t]\s*(.*?)[\s,;]*")
_SPOKEN = re.compile(r"[#%/\s]*(\D+?)\s+(\d\S*(\s*[a-zµμ/]+)?)\s*", re.IGNORECASE)
_BRACKET = re.compile(r"(.*?)[\s_]*[(\[]([^)\]]+)[)\]]\s*")
_TRAILING = re.compile(r"(.*?)[\s_]+(k?hz|ms|us|s|sec|[mun]?v)", re.IGNORECASE)
_OTHER = re.compile(
    r"filter|mains|notch|line|cut|pass|heart|pulse|herz|resp|baud|bit|paper|speed|beat|qrs|hrv|"
    r"band|corner|stim|pac(e|ing)|power|update|time ?unit|unit ?(id|n|no|nr|name|number|serial)\b"
)
_RATE = re.compile(
    r"rate|freq|samples? ?/ ?s|frec|fréq|hertz|\bhz\b|\bfs\b|sps\b|\btakt|\btaux|tasso|per ?sec"
)
_SAMPLING = re.compile(r"sampl|abtast|chantil|muestr|campion|bemonster|acqui|digiti|record|\badc\b")
_SURE = re.compile(r"fs|sf|sfreq|srate|sps|fsamp|hz")
_INTERVAL = re.compile(r"interv|period|\bdt\b|delta ?t|abstand|(per|between) samples?|sample time")
_UNIT = re.compile(r"\bunits?\b|einheit|\bunit[eéàá]|\bunidad|voltage|amplitude")
_GAIN = re.compile(r"gain|resol|aufl[oö]s|lsb|\blsb|counts?\b|scal(e|ing)|conversion|adu\b|step")
_LEAD = re.compile(r"(ecg |ekg )?(leads?|channels?|ableitung(en)?)")
_STEPS = re.compile(
    r"(?P<n>[\d.,]+)\s*(?:(?:lsb|counts?|adu|units?|adc ?(?:units?|counts?)|bits?|steps?|du|nu)?"
    r"\s*(?:/|per )\s*(?P<per>[a-zµμ]+)|(?P<unit>[a-zµμ]*v(?:olts?)?)\s*"
    r"(?:(?:/|per )\s*(?:lsb|counts?|adu|units?|adc ?(?:units?|counts?)|bits?|steps?|du|nu))?)",
    re.IGNORECASE,
)


@dataclass
class Head:
    """What a head says."""

    rates: list[tuple[str, float]] = field(default_factory=list)
    """(line, Hz) of what can only be the rate of the samples."""
    perhaps: list[tuple[str, float | None]] = field(default_factory=list)
    """(line, Hz) of what may be the rate, or that of a filter or a heart."""
    unit: float | None = None
    """How many of the file's units make 1 mV, as a line on units says."""
    gain: float | None = None
    """The same, as a line on the gain or the resolution says."""
    leads: list[str] = field(default_factory=list)
    """Names of leads that stand alone on a line."""
    others: list[str] = field(default_factory=list)
    """Lines that are not understood."""
    odd: list[str] = field(default_factory=list)
    """Lines that look like a rate, a unit or a gain, and are not understood."""

    def demand_understood(self, file: Path, said: Said, record: str) -> None:
        """BadSetting for a line that looks like a rate, a unit or a gain and is not understood;
        BadRecord where a line that may be the rate differs from what was said.
        """
        if self.odd:
            raise BadSetting(
                f"{file.name} does not say its rate, unit or gain in words that are understood: "
                f"the line {shortened(self.odd[0], 80)!r}; correct it in the file"
            )
        for line, value in [] if self.rates else self.perhaps:
            if said.fs is None:
                raise BadSetting(
                    f"{file.name} does not say its rate; the line {line!r} may be that of the "
                    f"samples, or of something else; say it for all files that do not: --fs 500"
                )
            if value is None or abs(value - said.fs) > AGREE * said.fs:
                raise BadRecord(
                    f"{record}: the line {line!r} may be the rate, and --fs says {said.fs:g} Hz; "
                    f"correct the file, or call the line what it is (Mains frequency, Heart rate)"
                )

    def scale(self, whole: bool, record: str) -> float | None:
        """How many of the file's units make 1 mV; None where no line says it. whole: whether all
        samples are whole numbers, as the steps of a converter are. BadRecord where unit and gain
        are both there and the samples may be of either.
        """
        if self.unit is None or self.gain is None:
            if self.gain is not None and not whole:
                raise BadRecord(
                    f"{record}: its head says that 1 mV is {self.gain:g} steps, and its samples "
                    f"are no steps (they have decimals); say the unit in its head: Unit,mV"
                )
            return self.unit or self.gain
        if whole and abs(self.unit - self.gain) > AGREE * self.gain:
            raise BadRecord(
                f"{record}: 1 mV is {self.unit:g} by the unit in its head and {self.gain:g} by the "
                f"gain; keep the line that its samples are in"
            )
        return self.unit


def understood(lines: Sequence[str]) -> Head:
    """What the lines before the numbers, without those that name columns, say."""
    head = Head()
    for line in lines:
        text = line.strip().strip("\ufeff")
        found = _PAIR.fullmatch(text)
        parts = [text]
        if found and re.search(r"[=:]", found[2]) and not re.search(r"\d:\d\d", found[2]):
            parts = re.split(r"[,;]\s*", text)
        for part in parts:
            _take(part.strip(), head)
    return head


def _take(line: str, head: Head) -> None:
    found = _PAIR.fullmatch(line) or _SPOKEN.fullmatch(line)
    if not found or not found[2].strip('" '):
        if _looks_like_rate(line.lower()) or re.search(r"\d\s*k?hz\b", line.lower()):
            head.odd.append(line) if not _OTHER.search(line.lower()) else head.others.append(line)
        elif line.strip("#%/-=*_,;\t \"'"):
            head.others.append(line)
        return
    name, value = found[1].strip(), found[2].strip('" ')
    unit = ""
    if (within := _BRACKET.fullmatch(name)) or (within := _TRAILING.fullmatch(name)):
        name, unit = within[1], within[2]
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("_", " ").replace("-", " ").lower()
    if _OTHER.search(words):
        head.others.append(line)
    elif _LEAD.fullmatch(words) and not numbers(value):
        head.leads.append(value)
    elif _INTERVAL.search(words) and (_SAMPLING.search(words) or "dt" in words.split()):
        _keep(line, hertz(value, unit, interval=True), head.rates, head)
    elif _looks_like_rate(words) or _sampled(words, value):
        plain = words.replace(" ", "")
        sure = _SAMPLING.search(words) or _SURE.fullmatch(plain) or _sampled(words, value)
        rate = hertz(value, unit)
        if sure:
            _keep(line, rate, head.rates, head)
        else:
            head.perhaps.append((line, rate))
    elif _GAIN.search(words) or (_STEPS.fullmatch(value) and "/" in value):
        _keep_gain(line, words, value, unit, head)
    elif _UNIT.search(words) and (not numbers(value) or per_mv(value)):
        scale = per_mv(value) or (per_mv(unit) if unit else None)
        if scale is None and re.search(r"\bunits?\b|einheit|\bunit", words):
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
    """Whether a line is like "Sampled at 500 Hz"."""
    return bool(re.search(r"sampl|abtast", words) and re.search(r"\d\s*k?hz\b", value.lower()))


def _keep(line: str, rate: float | None, rates: list[tuple[str, float]], head: Head) -> None:
    if rate is None:
        head.odd.append(line)
    else:
        rates.append((f"the line {shortened(line, 40)!r}", rate))


def _keep_gain(line: str, words: str, value: str, unit: str, head: Head) -> None:
    """The gain of a line: 200 LSB/mV, 4.88 uV, counts per mV,200. A resolution in bits, a paper's
    10 mm/mV and a factor without a unit are no voltage of a step: the last is odd.
    """
    if re.search(
        r"\d\s*-?bits?$|mm\s*/|^\d+\s*x\s*\d+|dpi|pixel", f"{value} {unit}".strip().lower()
    ):
        head.others.append(line)
        return
    if not (read := numbers(re.split(r"[^\d.,]", value)[0])):
        (head.odd if re.search(r"gain|lsb|resol", words) else head.others).append(line)
        return
    per = re.search(r"(?:/|per )\s*([mun]?v)(?:olts?)?\b", f"{words} {unit}".lower())
    found = _STEPS.fullmatch(value if re.search("[a-zµμ]", value.lower()) else f"{value} {unit}")
    scale = None
    if per and re.fullmatch(r"[\d.,]+", value):
        scale = read[0] * (per_mv(per[1]) or 0) or None
    elif found and found["per"]:
        scale = read[0] * (per_mv(found["per"]) or 0) or None
    elif found and found["unit"]:
        scale = per_mv(f"{read[0]}{found['unit']}")
    if scale is None or len(read) > 1 or (head.gain and abs(head.gain - scale) > AGREE * scale):
        head.odd.append(line)
    else:
        head.gain = scale
