"""Recordings that lack one thing on purpose, for controls: the shapes of the waves, or which lead
is which.
"""

from collections.abc import Callable

import numpy as np

from ecgbench.core.seeds import rng

Change = Callable[[str, np.ndarray], np.ndarray]
"""(record, signal (12, time), NaN in leads that it does not have) -> the same of other samples."""


def without_shapes(record: str, signal: np.ndarray) -> np.ndarray:
    """The recording with its Fourier phases turned at random, by the same angles in all leads.

    How strong each frequency is in each lead stays, and how any two leads go together at each
    frequency; so do the identities of the limb leads, the electrical axis and the voltages over
    the whole recording. When anything happens, and the shape of every wave, are lost. Mean and, of
    an even number of samples, the highest frequency keep their phase.

    Source: Theiler et al. 1992, Physica D 58:77-94; the same angles for all signals: Prichard and
    Theiler 1994, Phys. Rev. Lett. 73:951.
    """
    time = signal.shape[1]
    turned = rng("controls", "phases", record).uniform(0, 2 * np.pi, (time - 1) // 2)
    factor = np.ones(time // 2 + 1, np.complex128)
    factor[1 : 1 + len(turned)] = np.exp(1j * turned)
    there = ~np.isnan(signal).any(axis=1)
    changed = signal.copy()
    spectrum = np.fft.rfft(signal[there].astype(np.float64), axis=1) * factor
    changed[there] = np.fft.irfft(spectrum, time, axis=1)
    return changed


def without_names(record: str, signal: np.ndarray) -> np.ndarray:
    """The recording with every lead under the name of another one: one round through the leads that
    it has, drawn for the record (Sattolo 1986, doi:10.1016/0020-0190(86)90073-6). A recording of
    one lead stays as it is.
    """
    there = np.flatnonzero(~np.isnan(signal).any(axis=1))
    order = rng("controls", "leads", record).permutation(there)
    changed = signal.copy()
    changed[order] = signal[np.roll(order, 1)]
    return changed


CHANGES: dict[str, Change] = {"phases": without_shapes, "leads": without_names}
"""By the name of their control."""
