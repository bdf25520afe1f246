"""What preparation makes of a recording that was read: it is checked against what it says of itself
(`ecg.checks`), and with `--fix` what is wrong beyond doubt is put right.

Without it nothing is changed here. Only what a check singles out is put right: one exchange or
inversion of limb leads by which their identities hold. What is only likely (exchanged electrodes,
another unit, another rate) never is.
"""

from dataclasses import dataclass

import pandas as pd

from ecgbench.core.cards import DatasetCard
from ecgbench.ecg.checks import KINDS, findings
from ecgbench.ecg.checks.scale import demand_possible
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord

FOUND = ["record", "kind", "sentence"]
"""Columns of the table of findings."""
REPAIRED = "repaired: "
"""How the sentence begins of what is no longer so."""
FIXED = {
    "identities": "limb leads put right",
    "gaps": "missing samples filled in",
    "clip": "samples limited",
}
"""Kinds of repairs, and what was done: by `--fix`, and by the reader as the card declares."""


@dataclass(frozen=True)
class Checked:
    """A recording as it is to be stored, and what is to be told of it."""

    recording: Recording
    found: tuple[tuple[str, str], ...]
    """(kind, sentence) of what does not fit and stays."""
    fixed: tuple[tuple[str, str], ...]
    """(kind, sentence) of what was repaired."""

    @property
    def kinds(self) -> tuple[str, str]:
        """What was found, and what was repaired, for the index: "identities+rate" or ""."""
        return "+".join(k for k, _ in self.found), "+".join(k for k, _ in self.fixed)

    @property
    def told(self) -> list[tuple[str, str]]:
        """(kind, sentence) of both, for the table of findings."""
        return [*self.found, *((kind, REPAIRED + said) for kind, said in self.fixed)]


def checked(recording: Recording, card: DatasetCard, fix: bool) -> Checked:
    """A recording checked once, and put right where `fix` asks for it and only one change would do.

    BadRecord where a voltage is none of an ECG, and where the card quarantines what misses the
    identities of the limb leads.
    """
    demand_possible(recording)
    limb, repair = card.limb, card.repair
    found = findings(recording, limb.within, repair.clip_mv if repair else None)
    left, fixed = [], [*recording.repaired]
    for f in found:
        if fix and f.change is not None:
            recording = f.change(recording)
            fixed.append((f.kind, f.sentence))
        elif f.kind == "identities" and limb.beyond == "quarantined":
            raise BadRecord(f"{recording.record}: {f.sentence}")
        else:
            left.append((f.kind, f.sentence))
    return Checked(recording, tuple(left), tuple(fixed))


def by_kind(kinds: pd.Series) -> dict[str, int]:
    """What the kinds of a column of the index (`found`, `fixed`) are, in words -> how many records
    have them; the usual order.

    >>> by_kind(pd.Series(["rate+scale", "", "rate"]))
    {'samples that are no millivolts': 1, 'a rhythm that does not fit the stated rate': 2}
    """
    counts = kinds[kinds != ""].str.split("+").explode().value_counts()
    words = FIXED if kinds.name == "fixed" else KINDS
    return {words[kind]: int(counts[kind]) for kind in words if kind in counts.index}
