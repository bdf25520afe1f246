"""Ridge: a missing lead is the ridge regression on the measured ones, sample by sample, fitted on
the training split.

The mean and the covariance of the twelve leads hold the regression of every lead on each of the
4095 subsets, so the recordings are read once and a subset costs one small system of equations
(Hoerl and Kennard 1970, doi:10.1080/00401706.1970.10488634).
"""

from collections.abc import Iterable

import numpy as np

from ecgbench.errors import BadSetting
from ecgbench.policies.hide import State

PENALTY = 1e-5
"""Ridge penalty, as a share of the average variance of the twelve leads.

The six limb leads span a plane, so the covariance of three of them is singular but for rounding: on
PTB-XL (steps of 1 uV) the four redundant directions have variances of 1e-8 to 1e-7 mV^2 and the
smallest real one 1e-2. The penalty lies between (6e-7 mV^2, as if each sample were known to 0.8
uV): it closes the redundant directions and changes nothing else; the held-out error is the same
from 1e-8 to 1e-3. It refers to all twelve leads, not to the measured ones: a lead that is flat
throughout training must not take the penalty down with it.
"""


def fit(signals: Iterable[np.ndarray], leads: tuple[str, ...]) -> State:
    """signals: (12, time) mV of every training record, rows in the order of `leads`; read once, one
    at a time.

    -> {"samples": (1,) how many, "mean": (12,) mV, "covariance": (12, 12) mV^2 divided by samples},
    each sample of time counting alike. Records are merged by their own means (Chan, Golub and
    LeVeque 1983, doi:10.1080/00031305.1983.10483115), so an offset costs no digits. BadSetting
    where there is no sample.
    """
    samples, mean, scatter = 0, np.zeros(len(leads)), np.zeros((len(leads), len(leads)))
    for signal in signals:
        here = signal.shape[1]
        if not here:
            continue
        exact = np.asarray(signal, np.float64)
        own = exact.mean(axis=1)
        centred, shift, samples = exact - own[:, None], own - mean, samples + here
        # einsum, not a matrix product: its sums do not depend on the number of threads, and the
        # state is part of a key
        scatter += np.einsum("it,jt->ij", centred, centred) + np.outer(shift, shift) * (
            here * (samples - here) / samples
        )
        mean += shift * (here / samples)
    if not samples:
        raise BadSetting("policy 'ridge' has no training record to learn from; raise --limit")
    return {"samples": np.array([samples]), "mean": mean, "covariance": scatter / samples}


def fill(signal: np.ndarray, measured: np.ndarray, state: State | None = None) -> np.ndarray:
    """signal (12, time) mV with NaN in hidden rows, measured (12,) bool -> (12, time) mV; computed
    in float64.
    """
    assert state is not None, "ridge is fitted on the training split first"
    mean, filled = state["mean"], signal.copy()
    centred = signal[measured] - mean[measured, None]
    filled[~measured] = weights(state["covariance"], measured) @ centred + mean[~measured, None]
    return filled


def weights(covariance: np.ndarray, measured: np.ndarray) -> np.ndarray:
    """(12, 12) mV^2, (12,) bool -> (missing, measured): each missing lead as a combination of the
    measured ones about their means.

    Solved anew for every record: it takes less time than the samples do, and a cache could mix up
    two states.
    """
    # nothing varies: any penalty gives weights of 0
    penalty = PENALTY * np.trace(covariance) / len(covariance) or 1.0
    block = covariance[np.ix_(measured, measured)] + penalty * np.eye(int(measured.sum()))
    return np.asarray(np.linalg.solve(block, covariance[np.ix_(measured, ~measured)]).T)
