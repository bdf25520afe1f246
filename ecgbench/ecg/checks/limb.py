"""Whether the six limb leads are projections of one plane, as Einthoven's and Goldberger's
identities demand, and which exchange or inversion of leads would make them so.

Electrodes that are exchanged keep the identities (they turn or mirror the plane); samples that
stand under the name of another lead, or upside down, do not. A single exchange of two leads, a
rotation of three or an inversion of one is therefore singled out by the identities: to turn one
into another takes at least five leads.
"""

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from ecgbench.ecg.checks.finding import Change, Finding
from ecgbench.ecg.leads import LIMB
from ecgbench.ecg.recording import Recording

IDENTITIES = {
    "I + III - II": (1, -1, 1, 0, 0, 0),
    "2 aVR + I + II": (1, 1, 0, 2, 0, 0),
    "2 aVL - I + III": (-1, 0, 1, 0, 2, 0),
    "2 aVF - II - III": (0, -1, -1, 0, 0, 2),
}
"""Sums that are 0, with the factor of each limb lead in clinical order."""
CLEAR = 4.0
"""How many times further from the identities (root mean square) every other explanation must be."""
_SUMS = np.array(list(IDENTITIES.values()), np.float32)


def missed(signal: np.ndarray) -> np.ndarray:
    """(6, time) limb leads in clinical order -> (4,) the largest magnitude of each of IDENTITIES,
    in their unit.
    """
    return np.asarray(np.abs(_SUMS @ signal).max(axis=1, initial=0))


def check(recording: Recording, within: float, clip: float | None = None) -> list[Finding]:
    """Whether an identity is missed by more than `within`, in the unit of the recording, and the
    single change that undoes it.

    clip: samples of this magnitude were limited to it and do not count. Empty where a limb lead was
    not measured.
    """
    if not {*LIMB} <= {*recording.leads}:
        return []
    signal = recording.signal[[recording.leads.index(n) for n in LIMB]]
    if clip is not None:
        signal = signal[:, (np.abs(signal) < clip).all(axis=0)]
    worst = missed(signal)
    if not (worst > within).any():
        return []
    samples = int((np.abs(_SUMS @ signal) > within).any(axis=0).sum())
    by = ", ".join(
        f"|{name}| reaches {miss:.3g} {recording.unit}"
        for name, miss in zip(IDENTITIES, worst)
        if miss > within
    )
    sentence = (
        f"{by} ({samples:,} of {recording.signal.shape[1]:,} samples beyond the {within:g} "
        f"{recording.unit} that are allowed)"
    )
    change = _explained(signal, within)
    if change is not None:
        remaining = missed(_moved(signal, change)).max()
        sentence += f"; with {_named(change)} they agree within {remaining:.2g} {recording.unit}"
    return [Finding("identities", sentence, change)]


def _explained(signal: np.ndarray, within: float) -> Change | None:
    """The one change after which all identities hold; None where there is none, or another that is
    not much worse.
    """
    exact = signal.astype(np.float64)
    gram = exact @ exact.T / max(1, exact.shape[1])
    changes = list(_changes())
    misses = []
    for change in changes:
        matrix = _matrix(change)
        moved = _SUMS @ matrix @ gram @ matrix.T @ _SUMS.T
        misses.append(max(0.0, float(np.trace(moved))) ** 0.5)
    order = np.argsort(misses)
    best, second = changes[order[0]], misses[order[1]]
    if missed(_moved(signal, best)).max() > within or not best.leads:
        return None
    return best if second > CLEAR * misses[order[0]] else None


def _changes() -> Iterator[Change]:
    """None at all, every exchange of two, rotation of three and inversion of one."""
    yield Change()
    for a, b in combinations(LIMB, 2):
        yield Change(((a, b, 1), (b, a, 1)))
    for a, b, c in combinations(LIMB, 3):
        yield Change(((a, b, 1), (b, c, 1), (c, a, 1)))
        yield Change(((a, c, 1), (b, a, 1), (c, b, 1)))
    for a in LIMB:
        yield Change(((a, a, -1),))


def _matrix(change: Change) -> np.ndarray:
    """(6, 6) matrix that applies the change to the limb leads."""
    matrix = np.eye(len(LIMB))
    for lead, source, sign in change.leads:
        matrix[LIMB.index(lead)] = 0
        matrix[LIMB.index(lead), LIMB.index(source)] = sign
    return matrix


def _moved(signal: np.ndarray, change: Change) -> np.ndarray:
    return np.asarray(_matrix(change) @ signal, np.float32)


def _named(change: Change) -> str:
    leads = [lead for lead, _, _ in change.leads]
    if len(leads) == 1:
        return f"{leads[0]} inverted"
    if len(leads) == 2:
        return f"{leads[0]} and {leads[1]} exchanged"
    return ", ".join(f"{source} taken for {lead}" for lead, source, _ in change.leads)
