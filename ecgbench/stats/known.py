"""Targets with unknown labels: 1, 0, and -1 where the label of a record is unknown."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

UNKNOWN = -1

Chosen = NDArray[np.intp] | slice
"""Places along one axis."""


class KnownPart(NamedTuple):
    """Labels that are known of the same records."""

    labels: Chosen
    records: Chosen

    def of(self, values: NDArray[Any]) -> NDArray[Any]:
        """Its records and labels of (record, label)."""
        rows: NDArray[Any] = values[self.records][:, self.labels]
        return rows

    @property
    def index(self) -> Any:
        """What addresses them in (record, label), to write there."""
        if isinstance(self.records, slice) or isinstance(self.labels, slice):
            return self.records, self.labels
        return np.ix_(self.records, self.labels)


def parts(target: NDArray[Any]) -> list[KnownPart]:
    """The labels of (record, label) by the records they are known of, so that what is computed from
    a part meets 0 and 1 only; without labels that are known of no record.

    Where all is known, one part of slices: a view, and nothing is copied.
    """
    known = target != UNKNOWN
    if known.all():
        return [KnownPart(slice(None), slice(None))]
    alike: dict[bytes, list[int]] = {}
    for label in np.flatnonzero(known.any(axis=0)).tolist():
        alike.setdefault(np.packbits(known[:, label]).tobytes(), []).append(label)
    return [KnownPart(np.array(own), np.flatnonzero(known[:, own[0]])) for own in alike.values()]


def known_of(target: ArrayLike) -> NDArray[np.intp]:
    """(label,) how many records of (record, label) each label is known of."""
    return np.asarray((np.asarray(target) != UNKNOWN).sum(axis=0))


def unknown_of(target: ArrayLike) -> NDArray[np.intp]:
    """(label,) of how many records of (record, label) each label is not known."""
    return np.asarray((np.asarray(target) == UNKNOWN).sum(axis=0))


def positives_of(target: ArrayLike) -> NDArray[np.intp]:
    """(label,) how many records of (record, label) have each label."""
    return np.asarray((np.asarray(target) == 1).sum(axis=0))


def two_valued(target: ArrayLike) -> NDArray[np.bool_]:
    """(label,) whether a record of (record, label) has the label and one is known not to."""
    target = np.asarray(target)
    return np.asarray((target == 1).any(axis=0) & (target == 0).any(axis=0))
