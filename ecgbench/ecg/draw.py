"""Which leads of a recording are measured: `--leads` parsed, and the draw that every model shares.

The sampler never sees the model. Subsets nest: the twelve leads are permuted once per (seed,
record) and the first `count` are taken, so the one lead of seed 3 is among the two leads of seed 3
(ARCHITECTURE, "random leads").
"""

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ecgbench.core.seeds import rng
from ecgbench.ecg.leads import ALL, LEADS, LeadSubset
from ecgbench.errors import BadSetting, UnknownName

Draw = Literal["record", "window"]
"""`record`: one subset per (seed, record), the same in all its windows. `window`: drawn anew in
each window.
"""


@dataclass(frozen=True)
class Count:
    """`k` leads at random, drawn per record with lead-drawing seed `seed`."""

    k: int
    seed: int

    def __post_init__(self) -> None:
        if not 1 <= self.k <= len(LEADS):
            raise BadSetting(f"--leads {self.k}: a count of leads is 1 to 12")

    @property
    def typed(self) -> str:
        """As the user typed it in --leads."""
        return str(self.k)

    def __str__(self) -> str:
        return str(self.k) if self.k == len(LEADS) else f"{self.k}@seed{self.seed}"


@dataclass(frozen=True)
class Fixed:
    """The same named leads in every record."""

    subset: LeadSubset

    @property
    def typed(self) -> str:
        """As the user typed it in --leads, in clinical order."""
        return str(self.subset)

    def __str__(self) -> str:
        return str(self.subset)


LeadSetting = Count | Fixed

SETS = {
    "cinc12": "12",
    "cinc6": "I+II+III+aVR+aVL+aVF",
    "cinc4": "I+II+III+V2",
    "cinc3": "I+II+V2",
    "cinc2": "I+II",
}
"""The lead sets of the PhysioNet/CinC Challenge 2021, as they may be typed."""


def draw(
    count: int, seed: int, record: str, window: int | None = None, available: int = ALL.bits
) -> LeadSubset:
    """The leads of `record` (or of one of its windows) that every model sees: the first `count` in
    drawn order of those that are `available` (bit mask), which must be as many.

    >>> draw(1, 0, "00001").leads[0] in draw(2, 0, "00001")
    True
    >>> draw(12, 0, "00001") == draw(12, 7, "00002")
    True
    """
    words = ("leads", seed, record) if window is None else ("leads", seed, record, window)
    order = [i for i in rng(*words).permutation(len(LEADS)).tolist() if available >> i & 1]
    return LeadSubset(tuple(LEADS[i] for i in sorted(order[:count])))


def can_give(setting: LeadSetting, available: int) -> bool:
    """Whether a record with the leads `available` (bit mask) has the leads of a setting.

    >>> can_give(Count(2, 0), LeadSubset.of("I", "II").bits), can_give(Count(3, 0), 3)
    (True, False)
    """
    if isinstance(setting, Fixed):
        return setting.subset.bits & ~available == 0
    return setting.k <= available.bit_count()


def bits(
    setting: LeadSetting,
    record: str,
    windows: int,
    how: Draw = "record",
    available: int = ALL.bits,
) -> np.ndarray:
    """(windows,) int16: the bit mask of the leads measured in each window of one record, which must
    be able to give the setting (`can_give`).
    """
    if isinstance(setting, Fixed):
        return np.full(windows, setting.subset.bits, np.int16)
    if setting.k == available.bit_count():
        return np.full(windows, available, np.int16)

    def drawn(window: int | None = None) -> int:
        return draw(setting.k, setting.seed, record, window, available).bits

    if how == "record":
        return np.full(windows, drawn(), np.int16)
    return np.array([drawn(w) for w in range(windows)], np.int16)


def parse_leads(text: str) -> tuple[int | LeadSubset, ...]:
    """What `--leads` means: counts, ranges of counts, named leads and `SETS`, in the order typed.

    >>> [str(x) for x in parse_leads("1,2,12,I,V2+I,cinc3")]
    ['1', '2', '12', 'I', 'I+V2', 'I+II+V2']
    >>> parse_leads("1-3,2")
    (1, 2, 3)
    """
    settings: list[int | LeadSubset] = []
    for part in (p.strip() for p in text.split(",")):
        if not part:
            raise BadSetting(
                f"--leads {text}: an entry is empty; for example --leads 1,2,12,I,II,I+V2"
            )
        part = SETS.get(part.lower(), part)
        count = part[0].isdigit() or part[0] == "-"
        if part.lower().startswith("cinc"):
            raise UnknownName("set of leads", part, SETS)
        settings += _counts(part) if count else [LeadSubset.parse(part)]
    return tuple(dict.fromkeys(settings))


def _counts(part: str) -> list[int]:
    found = re.fullmatch(r"([0-9]+)\s*(?:-\s*([0-9]+))?", part)
    if found is None:
        raise BadSetting(f"--leads {part}: counts look like 2 or 1-12, named leads like II or I+V2")
    low, high = int(found[1]), int(found[2] or found[1])
    if not 1 <= low <= high <= len(LEADS):
        raise BadSetting(f"--leads {part}: a count of leads is 1 to 12, a range of them like 2-5")
    return list(range(low, high + 1))


def settings(requested: tuple[int | LeadSubset, ...], seeds: int) -> list[LeadSetting]:
    """Every requested lead setting: counts once per seed 0..seeds-1 (12 once, all seeds agree),
    named sets once.
    """
    if seeds < 1:
        raise BadSetting(
            f"--seeds {seeds}: at least one seed draws the leads; the default is --seeds 5"
        )
    lead_settings: list[LeadSetting] = []
    for item in requested:
        if isinstance(item, LeadSubset):
            lead_settings.append(Fixed(item))
        else:
            lead_settings += [Count(item, s) for s in range(seeds if item < len(LEADS) else 1)]
    return lead_settings


def training_leads(among: tuple[str, ...], *words: str | int, available: int = ALL.bits) -> int:
    """Bit mask of the leads that one training record shows: L uniform on 1 to the number of those
    that are `available` (bit mask), then L of these at random, named by `words`.

    Drawn again as long as none of them is `among` the leads that the network reads.

    >>> words = "train leads", 0, 3, "00001"
    >>> training_leads(LEADS, *words) == training_leads(LEADS, *words)
    True
    """
    generator, there = rng(*words), [n for i, n in enumerate(LEADS) if available >> i & 1]
    if not set(there) & set(among):
        raise BadSetting(f"{words[-1]}: none of its leads is among {', '.join(among)}")
    while True:
        count = int(generator.integers(1, len(there) + 1))
        chosen = [there[i] for i in sorted(generator.permutation(len(there))[:count])]
        if set(chosen) & set(among):
            return LeadSubset(tuple(chosen)).bits
