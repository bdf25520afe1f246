"""Filters of one lead, as the authors of the models apply them: each is data, and the function that
the data name.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Filter:
    """A zero-phase band-pass of one lead. scipy does the arithmetic; what is chosen stands here."""

    kind: Literal[
        "firwin-filtfilt",
        "butterworth-sosfiltfilt",
        "butterworth-filtfilt",
        "notch-butterworth-median",
    ]
    """`firwin-filtfilt`: Hamming FIR of int(0.3 fs) taps made odd, forward and backward
    (HuBERT-ECG). `butterworth-sosfiltfilt`: high-pass, then low-pass, each of order 5, forward and
    backward (ST-MEM). `butterworth-filtfilt`: band-pass of order 5 from its transfer function,
    forward and backward, a little off in float64, which CLEF was trained on.
    `notch-butterworth-median`: 50 Hz notch (Q 30), band-pass of order 4, both forward and backward,
    then less the running median of 0.4 s (ECGFounder).
    """
    low: float
    """Lower edge, Hz."""
    high: float
    """Upper edge, Hz."""
    where: Literal["native", "record", "window"] = "native"
    """`native`: the whole record before resampling. `record`: the whole record at the contract's
    rate. `window`: each window, there.
    """

    def __call__(self, signal: np.ndarray, fs: float) -> np.ndarray:
        """(..., time) at `fs` Hz -> the same shape, float64. A row without variation stays exactly
        constant.
        """
        exact = np.asarray(signal, np.float64)
        out = {
            "firwin-filtfilt": self._fir,
            "butterworth-sosfiltfilt": self._butterworth,
            "butterworth-filtfilt": self._transfer,
            "notch-butterworth-median": self._notch,
        }[self.kind](exact, fs)
        still = np.ptp(exact, axis=-1) == 0
        out[still] = exact[still, :1] * self.of_a_constant(fs)
        return out

    def of_a_constant(self, fs: float) -> float:
        """What remains of a constant."""
        return float(self.taps(fs).sum() ** 2) if self.kind == "firwin-filtfilt" else 0.0

    def taps(self, fs: float) -> np.ndarray:
        """(taps,) impulse response of `firwin-filtfilt`, 1 at the centre of the band.

        HuBERT-ECG's preparation (Coppola et al., doi 10.1101/2024.11.14.24317328). With so few taps
        the lower edge is nominal: applied forward and backward, 0.964 of a constant remains.
        """
        from scipy.signal import firwin  # half a second to import; names are checked without it

        taps = int(0.3 * fs)
        odd = taps + 1 - taps % 2
        return np.asarray(firwin(odd, (self.low, self.high), pass_zero=False, fs=fs))

    def _fir(self, x: np.ndarray, fs: float) -> np.ndarray:
        from scipy.signal import filtfilt

        taps = self.taps(fs)
        padlen = min(3 * len(taps), x.shape[-1] - 1)
        return np.asarray(filtfilt(taps, [1.0], x, axis=-1, padtype="odd", padlen=padlen))

    def _butterworth(self, x: np.ndarray, fs: float) -> np.ndarray:
        from scipy.signal import butter, sosfiltfilt

        for kind, edge in (("highpass", self.low), ("lowpass", self.high)):
            sos = butter(5, edge, kind, fs=fs, output="sos")
            x = sosfiltfilt(sos, x, axis=-1, padlen=min(18, x.shape[-1] - 1))
        return np.asarray(x)

    def _transfer(self, x: np.ndarray, fs: float) -> np.ndarray:
        from scipy.signal import butter, filtfilt

        b, a = butter(5, (self.low, self.high), "bandpass", fs=fs)
        return np.asarray(filtfilt(b, a, x, axis=-1, padlen=min(3 * len(a), x.shape[-1] - 1)))

    def _notch(self, x: np.ndarray, fs: float) -> np.ndarray:
        from scipy.ndimage import median_filter
        from scipy.signal import butter, filtfilt, iirnotch

        for b, a in (iirnotch(50, 30, fs), butter(4, (self.low, self.high), "bandpass", fs=fs)):
            x = filtfilt(b, a, x, axis=-1, padlen=min(3 * len(a), x.shape[-1] - 1))
        width = int(0.4 * fs) + 1
        size = (*(1,) * (x.ndim - 1), width + 1 - width % 2)
        return np.asarray(x - median_filter(x, size, mode="constant"))
