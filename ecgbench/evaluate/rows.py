"""Rows of work: which windows of which records under which leads. Equal rows are computed once,
whoever asks.

A row is one integer: position of the record in the prepared index, window, bit mask of the measured
leads.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ecgbench.ecg.draw import Draw, LeadSetting, bits
from ecgbench.ecg.leads import LeadSubset

_WINDOW, _BITS = 12, 12
"""Bits reserved for the window (4096 of them) and for the leads (12)."""
MOST = 1 << _WINDOW
"""Windows of a record, at most."""


class Record(NamedTuple):
    """A record that is used."""

    position: int
    """Among the used records."""
    name: str
    windows: int
    """Evaluation windows."""
    available: int
    """Bit mask of the leads that it has."""


class Needed(NamedTuple):
    """Rows of work that a fit on a frozen encoder needs features of."""

    drawn: Sequence[np.ndarray]
    """At the leads of its training; a batch of one window each where those are drawn at random."""
    complete: np.ndarray
    """All windows of the records that it predicts for, which it was not fitted to."""


def encode(position: int, windows: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """(n,) int64 row codes of one record; ValueError beyond MOST windows."""
    if len(windows) and windows.max() >= MOST:
        raise ValueError(f"window {windows.max()} of a record, where {MOST} have a place")
    return (
        (np.int64(position) << (_WINDOW + _BITS))
        | (windows.astype(np.int64) << _BITS)
        | masks.astype(np.int64)
    )


def decode(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(position, window, bits) of row codes.

    >>> [int(x[0]) for x in decode(encode(7, np.array([3]), np.array([4095])))]
    [7, 3, 4095]
    """
    return rows >> (_WINDOW + _BITS), rows >> _BITS & (1 << _WINDOW) - 1, rows & (1 << _BITS) - 1


def measured(
    setting: LeadSetting, records: Iterable[tuple[int, str, int, int]], how: Draw
) -> np.ndarray:
    """Rows of a lead setting: all windows of each record, in order."""
    parts = [encode(p, np.arange(w), bits(setting, r, w, how, has)) for p, r, w, has in records]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def complete(records: Iterable[tuple[int, str, int, int]]) -> np.ndarray:
    """Rows of all leads that the records have, as training sees them."""
    parts = [encode(p, np.arange(w), np.full(w, has)) for p, _, w, has in records]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def described(rows: np.ndarray) -> tuple[list[int], list[str]]:
    """Position of each record, in order of its rows, and the leads measured in it in words.

    >>> one = encode(7, np.arange(2), np.array([2, 2]))
    >>> two = encode(9, np.arange(2), np.array([1, 64]))
    >>> described(np.concatenate([one, two]))
    ([7, 9], ['II', 'I|V1'])
    """
    seen: dict[int, list[int]] = {}
    for position, _, mask in zip(*(part.tolist() for part in decode(rows))):
        seen.setdefault(position, []).append(mask)
    spelled = {m: str(LeadSubset.from_bits(m)) for masks in seen.values() for m in masks}
    return list(seen), [
        "|".join(spelled[m] for m in (masks if len(set(masks)) > 1 else masks[:1]))
        for masks in seen.values()
    ]


def records_of_windows(records: Sequence[Record]) -> np.ndarray:
    """(window,) which record each window belongs to."""
    return np.repeat(np.arange(len(records)), windows_of(records))


def positions(records: Iterable[Record]) -> list[int]:
    """Of records, among the used ones."""
    return [r.position for r in records]


def windows_of(records: Iterable[Record]) -> list[int]:
    """Evaluation windows of each record."""
    return [r.windows for r in records]
