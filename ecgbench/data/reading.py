"""What becomes of one record: read, checked and made ready to be stored, or lost with a reason.

A recording is checked for consistency (`ecg.checks`). With `--fix`, errors beyond doubt are
corrected: an exchange or inversion of limb leads after which their identities hold. Likely errors
(exchanged electrodes, another unit, another rate) never are.

It is stored with 16 bits a sample: rate and gains, then (lead, time) integers of the leads that it
has. The sha256 of that is the row's own hash, and with labels and splits the digest of a dataset.
"""

import hashlib
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ecgbench.cards.dataset import DatasetCard
from ecgbench.core.text import line, shortened
from ecgbench.data.source import Source, canonical, read
from ecgbench.ecg.checks import KINDS, findings
from ecgbench.ecg.checks.scale import demand_possible
from ecgbench.ecg.leads import LEADS, LeadSubset, rows_of
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord, BadSetting

LONGEST = 100
"""Characters of a reason that a reader's library gives."""
STEPS = np.float32(1000)
"""Steps per mV in which most sources are stored; used whenever it restores the signal exactly."""
REPAIRED = "repaired: "
"""How the sentence begins of what is no longer so."""
FIXED = {
    "identities": "limb leads put right",
    "gaps": "missing samples filled in",
    "clip": "samples limited",
}
"""Kinds of repairs, and what was done: by `--fix`, and by the reader as the card declares."""
FACTS = ("samples", "fs", "available", "flat", "sha256", "found", "fixed")
"""Columns that preparing adds to the index of a dataset: samples per lead, rate (Hz), bit mask of
the leads that it has, leads without variation ("V2+V4" or ""), hash of what is stored, kinds of
findings that stay and of repairs ("identities+rate" or "").
"""
NOTHING = {"samples": 0, "fs": 0.0, "available": 0, "flat": "", "found": "", "fixed": ""}
Sentence = tuple[str, str]
"""Kind of a finding or a repair, and what was found or done."""
Row = tuple[dict[str, Any], bytes]
"""What `core.parts` stores of a record: `name`, FACTS but the hash, `unit`, `sentences` and `notes`
of the reader (JSON), `reason` and `kind` ("damaged", or "excluded" by a rule of the card) where it
is left out; and the recording as it is stored.
"""


def checked(
    recording: Recording, card: DatasetCard, fix: bool
) -> tuple[Recording, list[Sentence], list[Sentence]]:
    """A recording checked once, and corrected where `fix` is set and only one change explains it;
    what does not fit and stays; what was repaired, each sentence behind REPAIRED.

    BadRecord where a voltage is none of an ECG, and where the card quarantines what misses the
    identities of the limb leads.
    """
    demand_possible(recording)
    limb, repair = card.limb, card.repair
    found = findings(recording, limb.within, repair.clip_mv if repair else None)
    remaining, fixed = list[Sentence](), [*recording.repaired]
    for f in found:
        if fix and f.change is not None:
            recording = f.change(recording)
            fixed.append((f.kind, f.sentence))
        elif f.kind == "identities" and limb.beyond == "quarantined":
            raise BadRecord(f"{recording.record}: {f.sentence}")
        else:
            remaining.append((f.kind, f.sentence))
    return recording, remaining, [(kind, REPAIRED + sentence) for kind, sentence in fixed]


def checked_row(source: Source, row: dict[str, Any]) -> Row:
    """What becomes of the record of a row of the index of a dataset. BadSetting where its plug-in
    fails.
    """
    record, kind, notes = row["record"], "damaged", "[]"
    try:
        if row.get("damaged"):
            raise BadRecord(str(row["damaged"]))
        recording, card = read(source, row), source.module.CARD
        why = str(row.get("excluded", ""))
        # half a sample: a duration is a quotient
        if recording.seconds < card.min_seconds - 0.5 / recording.fs:
            why = f"shorter than {card.min_seconds:g} s"
        if not why:
            return _row(record, *checked(recording, card, source.fix))
        kind = "excluded"
    except OSError as error:
        # HDF5's have only words
        sentence = error.strerror or shortened(str(error), LONGEST) or type(error).__name__
        why = f"cannot be read ({sentence})"
    except BadRecord as error:
        # it may quote the file
        why = line(str(error).removeprefix(f"{record}: "))
        if isinstance(error.__cause__, BadSetting):
            notes = json.dumps([("asked", str(error.__cause__))])
    lost = {"unit": "", "sentences": "[]", "notes": notes, "reason": why, "kind": kind}
    return {"name": record, **NOTHING, **lost}, b""


def _row(record: str, recording: Recording, found: list[Sentence], fixed: list[Sentence]) -> Row:
    steps, gain = encode(recording)
    about = {
        "name": record,
        "samples": steps.shape[1],
        "fs": float(recording.fs),
        "available": LeadSubset(recording.leads).bits,
        "flat": "+".join(recording.flat()),
        "found": "+".join(kind for kind, _ in found),
        "fixed": "+".join(kind for kind, _ in fixed),
        "unit": recording.unit,
        "sentences": json.dumps([*found, *fixed]),
        "notes": json.dumps(recording.notes),
        "reason": "",
        "kind": "",
    }
    return about, stored(steps, gain, recording.fs)


def encode(recording: Recording) -> tuple[np.ndarray, np.ndarray]:
    """(lead, time) int16 of a recording in clinical order, and (12,) float32 gain, 0 for a lead
    that it does not have, such that integer / gain restores the signal.

    Exactly, where it is a whole number of thousandths of its unit that fits 16 bits (PTB-XL: steps
    of 1 uV). A lead for which this does not hold is spread over the 16 bits, which is within
    1/65534 of its largest value.
    """
    signal, (lowest, highest) = recording.signal, recording.extremes
    most = np.maximum(-lowest, highest)
    # single precision is enough to find, and to prove, a whole number of so few bits
    whole = signal * STEPS
    np.rint(whole, out=whole)
    fits = (np.rint(most * STEPS) < 2**15) & (whole / STEPS == signal).all(axis=1)
    gain = np.full(len(signal), STEPS, np.float32)
    if not fits.all():
        exact = signal[~fits].astype(np.float64)
        gain[~fits] = (2**15 - 1) / np.abs(exact).max(axis=1)
        whole[~fits] = np.clip(np.rint(exact * gain[~fits, None]), 1 - 2**15, 2**15 - 1)
    every = np.zeros(len(LEADS), np.float32)
    every[rows_of(recording.leads)] = gain
    return whole.astype("<i2"), every


def as_stored(recording: Recording) -> Recording:
    """The recording with the samples that a prepared copy gives back."""
    steps, gain = encode(recording)
    return replace(recording, signal=steps / gain[gain > 0][:, None])


def stored(steps: np.ndarray, gain: np.ndarray, fs: float) -> bytes:
    """A recording as it is stored: rate and gains, then the samples."""
    head = canonical(float(fs)) + gain.astype("<f4").tobytes()
    return b"".join([head, np.ascontiguousarray(steps, "<i2").data])


def decoded(content: bytes, fs: float) -> tuple[np.ndarray, np.ndarray]:
    """(lead, time) int16 of the leads that it has, and (12,) float32 gain, of what is stored."""
    head = len(canonical(float(fs)))
    gain = np.frombuffer(content, "<f4", len(LEADS), head)
    steps = np.frombuffer(content, "<i2", -1, head + gain.nbytes)
    return steps.reshape((gain > 0).sum(), -1), gain


def digest(index: pd.DataFrame) -> str:
    """sha256 over (record, hash of its signal, patient, split, labels) of all records in sorted
    order.
    """
    labels = [c for c in index.columns if ":" in c]
    ordered = index.sort_values("record")
    total = hashlib.sha256(canonical(labels))
    facts = ordered[["record", "sha256", "patient", "split"]].itertuples(index=False)
    for row, hot in zip(facts, ordered[labels].to_numpy(np.int8)):
        total.update(canonical([str(v) for v in row]) + hot.tobytes())
    return total.hexdigest()


def by_kind(kinds: pd.Series) -> dict[str, int]:
    """What the kinds of a column of the index (`found`, `fixed`) are, in words -> how many records
    have them; the usual order.

    >>> by_kind(pd.Series(["rate+scale", "", "rate"]))
    {'samples that are no millivolts': 1, 'a rhythm that does not fit the stated rate': 2}
    """
    counts = kinds[kinds != ""].str.split("+").explode().value_counts()
    words = FIXED if kinds.name == "fixed" else KINDS
    return {words[kind]: int(counts[kind]) for kind in words if kind in counts.index}
