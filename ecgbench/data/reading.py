"""What becomes of one record: read, checked, and made ready to be stored, or lost with a reason."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ecgbench.core.cards import DatasetCard
from ecgbench.core.text import line, shortened
from ecgbench.data.checked import Checked, checked
from ecgbench.data.encoded import encode, sha256
from ecgbench.data.source import read
from ecgbench.data.store import Prepared
from ecgbench.datasets import get
from ecgbench.ecg.leads import LeadSubset
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord

LONGEST = 100
"""Characters of a reason that a reader's library gives."""

FACTS: dict[str, Callable[[Any], Any]] = {
    "samples": int,
    "fs": float,
    "available": int,
    **dict.fromkeys(("flat", "sha256", "found", "fixed"), str),
}
"""Columns that preparing adds to the index of a dataset, in their order."""


@dataclass(frozen=True, eq=False)
class Kept:
    """A recording that can be trusted, as it will be stored."""

    facts: dict[str, Any]
    """`record`, and the columns that preparing adds to the index: str, int, float or bool."""
    unit: str
    gain: np.ndarray
    """(12,) float32, 0 for leads that it does not have."""
    steps: bytes
    """(lead, time) int16, little endian; b"" where they lie in their place already."""
    told: tuple[tuple[str, str], ...] = ()
    """(kind, sentence) of what was found, and of what was repaired."""


@dataclass(frozen=True)
class Lost:
    """A record that is left out."""

    record: str
    reason: str
    kind: str
    """damaged, or "excluded" by a rule of the card."""


Outcome = Kept | Lost


def look(name: str, root: Path | None, row: dict[str, Any], fix: bool) -> Outcome:
    """What becomes of the record of a row of the index of dataset `name`, faults that `checked` is
    sure of put right if `fix`. BadSetting where its plug-in fails.
    """
    record = row["record"]
    try:
        if row.get("damaged"):
            raise BadRecord(str(row["damaged"]))
        recording = read(name, root, row)
        card = get(name).CARD
        if why := _excluded(recording, card):
            return Lost(record, why, "excluded")
        return _kept(record, checked(recording, card, fix))
    except OSError as error:
        # HDF5's have only words
        why = error.strerror or shortened(str(error), LONGEST) or type(error).__name__
        return Lost(record, f"cannot be read ({why})", "damaged")
    except BadRecord as error:
        # it may quote the file
        return Lost(record, line(str(error).removeprefix(f"{record}: ")), "damaged")


def copied(record: str, copy: Prepared) -> Kept:
    """The same of a record that another copy holds; DamagedCopy as of `sound`."""
    own = copy.index.iloc[copy.row(record)]
    facts = {"record": record, **{name: kind(own[name]) for name, kind in FACTS.items()}}
    steps, gain = copy.sound(record)
    return Kept(facts, copy.unit, gain, steps.tobytes(), tuple(copy.told.get(record, ())))


def described(outcome: Outcome) -> dict[str, Any]:
    """Plain JSON of all but the samples, of which it has the number of bytes."""
    if isinstance(outcome, Lost):
        return {**vars(outcome)}
    return {**vars(outcome), "gain": outcome.gain.tolist(), "steps": len(outcome.steps)}


def outcome_of(told: dict[str, Any], steps: bytes) -> Outcome:
    """What `described` says, with its samples."""
    if "facts" not in told:
        return Lost(**told)
    sentences = tuple((kind, sentence) for kind, sentence in told["told"])
    return Kept(told["facts"], told["unit"], np.array(told["gain"], "<f4"), steps, sentences)


def _kept(record: str, checked: Checked) -> Kept:
    recording = checked.recording
    steps, gain = encode(recording)
    found, fixed = checked.kinds
    facts = {
        "samples": steps.shape[1],
        "fs": recording.fs,
        "available": LeadSubset(recording.leads).bits,
        "flat": "+".join(recording.flat()),
        "sha256": sha256(steps, gain, recording.fs),
        "found": found,
        "fixed": fixed,
    }
    own = {"record": record, **{name: kind(facts[name]) for name, kind in FACTS.items()}}
    return Kept(own, recording.unit, gain, steps.tobytes(), tuple(checked.told))


def _excluded(recording: Recording, card: DatasetCard) -> str:
    """Why a rule of the card leaves a sound recording out; "" where none does."""
    # half a sample: a duration is a quotient
    if recording.seconds < card.min_seconds - 0.5 / recording.fs:
        return f"shorter than {card.min_seconds:g} s"
    return ""
