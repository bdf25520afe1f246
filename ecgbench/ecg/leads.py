"""Leads, sets of leads, and the algebra of the limb leads.

The limb leads are projections of one plane (Einthoven 1912, Goldberger 1942), so any two determine
all six:

    III = II - I      aVR = -(I + II)/2      aVL = I - II/2      aVF = II - I/2
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ecgbench.errors import BadSetting, UnknownName

LIMB = ("I", "II", "III", "aVR", "aVL", "aVF")
CHEST = ("V1", "V2", "V3", "V4", "V5", "V6")
LEADS = (*LIMB, *CHEST)
"""The twelve standard leads in clinical order; every 12-row array of ecgbench has this order."""
MIMIC_LEADS = (*LEADS[:4], "aVF", "aVL", *CHEST)
"""Their order in the files of MIMIC-IV-ECG: aVF before aVL."""

LIMB_FROM_I_II = np.array([[1, 0], [0, 1], [-1, 1], [-0.5, -0.5], [1, -0.5], [-0.5, 1]])
"""(6, 2): each limb lead as a combination of I and II."""

ANGLE = {"I": 0.0, "II": 60.0, "III": 120.0, "aVR": -150.0, "aVL": -30.0, "aVF": 90.0}
"""Direction of each limb lead in the frontal plane, degrees, clockwise from the left arm (hexaxial
system).
"""

LOOSE = {name.lower(): name for name in LEADS}
"""Name in small letters -> standard spelling."""


@lru_cache(maxsize=256)  # a dozen times for each record that is read
def canonical(name: str) -> str:
    """The standard spelling of a lead's name.

    >>> canonical("AVR"), canonical("v2"), canonical(" ii ")
    ('aVR', 'V2', 'II')
    """
    try:
        return LOOSE[name.strip().lower()]
    except KeyError:
        raise UnknownName("lead", name, LEADS) from None


@dataclass(frozen=True, order=True)
class LeadSubset:
    """A non-empty set of leads, always in clinical order.

    >>> print(LeadSubset.of("V2", "ii"))
    II+V2
    >>> LeadSubset.of("V2", "II") == LeadSubset.parse("II+V2")
    True
    >>> print(LeadSubset.from_bits(LeadSubset.of("I", "V6").bits))
    I+V6
    """

    leads: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.leads:
            raise BadSetting(
                "a set of leads cannot be empty; name at least one of " + ", ".join(LEADS)
            )
        if list(self.leads) != [n for n in LEADS if n in self.leads]:
            raise BadSetting(
                f"leads {self.leads} are not unique and in clinical order; use LeadSubset.of(...)"
            )

    @classmethod
    def of(cls, *names: str) -> "LeadSubset":
        """A subset from names in any order and spelling; a lead named twice is an error."""
        chosen = [canonical(n) for n in names]
        doubled = {n for n in chosen if chosen.count(n) > 1}
        if doubled:
            raise BadSetting(
                f"lead {', '.join(sorted(doubled))} is named twice in {'+'.join(names)}"
            )
        return cls(tuple(n for n in LEADS if n in chosen))

    @classmethod
    def parse(cls, text: str) -> "LeadSubset":
        """`I+V2` -> LeadSubset(I, V2)."""
        return cls.of(*text.split("+"))

    @classmethod
    def from_bits(cls, bits: int) -> "LeadSubset":
        """The subset whose bit mask is `bits` (bit i is LEADS[i]), 1 to 4095."""
        if not 0 < bits < 1 << len(LEADS):
            raise BadSetting(
                f"{bits} is no bit mask of the twelve leads; it is 1 to {(1 << len(LEADS)) - 1}"
            )
        return cls(tuple(n for i, n in enumerate(LEADS) if bits >> i & 1))

    @property
    def bits(self) -> int:
        """Bit mask: bit i is set when LEADS[i] is in the set."""
        return sum(1 << LEADS.index(n) for n in self.leads)

    @property
    def mask(self) -> np.ndarray:
        """(12,) bool, True where the lead is in the set."""
        return np.isin(LEADS, self.leads)

    def __str__(self) -> str:
        return "+".join(self.leads)

    def __iter__(self) -> Iterator[str]:
        return iter(self.leads)

    def __len__(self) -> int:
        return len(self.leads)

    def __contains__(self, lead: str) -> bool:
        return lead in self.leads


ALL = LeadSubset(LEADS)


def bits_to_mask(bits: np.ndarray) -> np.ndarray:
    """(n,) integer masks -> (n, 12) bool."""
    return (np.asarray(bits)[..., None] >> np.arange(len(LEADS)) & 1).astype(bool)


def derivable(subset: LeadSubset) -> tuple[str, ...]:
    """The leads that `subset` determines exactly: itself, and all limb leads once it holds two of
    them.

    >>> derivable(LeadSubset.of("I", "aVF"))
    ('I', 'II', 'III', 'aVR', 'aVL', 'aVF')
    >>> derivable(LeadSubset.of("II", "V2"))
    ('II', 'V2')
    """
    limb = [n for n in subset if n in LIMB]
    known = {*subset, *(LIMB if len(limb) >= 2 else ())}
    return tuple(n for n in LEADS if n in known)


def derive_limb(signal: np.ndarray, measured: np.ndarray) -> np.ndarray:
    """The six limb leads from two or more measured ones, by least squares on the plane they share.

    signal (12, time), rows in clinical order; measured (12,) bool. Returns (6, time). Two leads
    give the exact solution; more than two that disagree are averaged in the least-squares sense.
    Fewer than two: BadSetting.

    >>> x = np.zeros((12, 1)); x[0], x[5] = 0.4, 0.8          # I and aVF, mV
    >>> m = LeadSubset.of("I", "aVF").mask
    >>> derive_limb(x, m)[:, 0].round(6).tolist()             # II = aVF + I/2, III = II - I, ...
    [0.4, 1.0, 0.6, -0.7, -0.1, 0.8]
    """
    rows = np.flatnonzero(measured[:6])
    if len(rows) < 2:
        raise BadSetting("the limb leads follow from two of them; fewer were measured")
    plane = np.linalg.pinv(LIMB_FROM_I_II[rows]) @ signal[rows]
    return np.asarray(LIMB_FROM_I_II @ plane)


def rows_of(names: Iterable[str]) -> list[int]:
    """Row indices of leads in a 12-row array: ('I', 'V1') -> [0, 6]."""
    return [LEADS.index(canonical(n)) for n in names]
