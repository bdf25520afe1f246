"""The nine electrodes of a standard recording, and the twelve leads between them.

    I = LA - RA    II = LL - RA    III = LL - LA    Vn = Cn - (RA + LA + LL) / 3

A recording holds differences of potentials, so a constant that all electrodes share is not known.
It is chosen so that RA + LA + LL = 0 (Wilson's central terminal), where V1 to V6 are the potentials
of the chest electrodes.
"""

from collections.abc import Callable

import numpy as np

from ecgbench.core.seeds import rng
from ecgbench.ecg.leads import CHEST, LEADS, LIMB_FROM_I_II

ELECTRODES = ("RA", "LA", "LL", *CHEST)
"""The order of potentials."""
CLOSE = 1e-6
"""mV: what a lead may move by where it is determined; rounding is far below."""


def _from_electrodes() -> np.ndarray:
    made = np.zeros((len(LEADS), len(ELECTRODES)))
    one, two = [-1.0, 1.0, 0.0], [-1.0, 0.0, 1.0]
    made[:6, :3] = LIMB_FROM_I_II @ np.array([one, two])
    made[6:, :3], made[6:, 3:] = -1 / 3, np.eye(6)
    return made


FROM_ELECTRODES = _from_electrodes()
"""(12, 9): each lead from the potentials of the electrodes."""

ROUNDING = 1e-12
"""mV."""

Change = Callable[[np.ndarray], np.ndarray]
"""Potentials (9, time) mV -> the same after something happened at the electrodes; NaN in the row of
an electrode that is off."""


class NotDetermined(Exception):
    """What happens at the electrodes would show in leads that were not measured."""


def potentials(signal: np.ndarray) -> np.ndarray:
    """(9, time) float64 of (12, time) mV, NaN in the rows of leads that are not there: those of
    smallest size that give the leads. Of leads that depend on one another, as the six limb leads
    do, the first in clinical order count.
    """
    there = ~np.isnan(signal).any(axis=1)
    used: list[int] = []
    for row in np.flatnonzero(there):
        if np.linalg.matrix_rank(FROM_ELECTRODES[[*used, int(row)]]) > len(used):
            used.append(int(row))
    return np.asarray(np.linalg.pinv(FROM_ELECTRODES[used]) @ signal[used].astype(np.float64))


def changed(signal: np.ndarray, change: Change) -> np.ndarray:
    """(12, time) mV after `change` at the electrodes; leads in which it does not show keep their
    bits, and leads that need an electrode that is off hold 0 mV.

    NotDetermined where a lead that is there would rest on what was not measured.
    """
    there = ~np.isnan(signal).any(axis=1)
    before = potentials(signal)
    made = _leads(signal, before, change(before.copy()))
    # what was not measured may be anything: a second guess must give the same
    _, s, v = np.linalg.svd(FROM_ELECTRODES[there])
    hidden = v[np.count_nonzero(s > 1e-9) :]
    if len(hidden) > 1:  # one is the constant that all electrodes share
        guess = rng("electrodes", "hidden").standard_normal((len(hidden), signal.shape[1]))
        other = before + hidden.T @ guess
        again = _leads(signal, other, change(other.copy()))
        off = np.abs(made - again)[there].max(axis=1) > CLOSE
        if off.any():
            names = [name for name, moved in zip(np.array(LEADS)[there], off) if moved]
            raise NotDetermined(", ".join(names))
    return made


def _leads(signal: np.ndarray, before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """The leads of the potentials after a change, where it shows."""
    lost = np.isnan(after).any(axis=1)
    after = np.where(lost[:, None], before, after)
    # a sum of what cancels out is no more than rounding
    moved = (np.abs(FROM_ELECTRODES @ (after - before)) > ROUNDING).any(axis=1)
    made = signal.astype(np.float64)
    there = ~np.isnan(signal).any(axis=1)
    made[moved & there] = (FROM_ELECTRODES @ after)[moved & there]
    made[(FROM_ELECTRODES[:, lost] != 0).any(axis=1) & there] = 0.0
    return made
