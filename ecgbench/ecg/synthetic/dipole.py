"""A beating dipole and the body around it: from a heart's waves to twelve leads in millivolts.

The heart is one current dipole (x to the left, y to the feet, z to the back). Its course in a beat
is a sum of bell-shaped waves, the eight independent leads are its projections on a published lead
field, noise enters at the nine electrodes, and the limb leads follow from I and II, so Einthoven's
and Goldberger's identities hold in the noise too.
"""

from dataclasses import dataclass

import numpy as np

from ecgbench.ecg.electrodes import FROM_ELECTRODES
from ecgbench.ecg.leads import LIMB_FROM_I_II

FS = 500.0
"""Rate, Hz."""
SECONDS = 10.0
SAMPLES = round(FS * SECONDS)

FIELD = np.array(
    [
        [0.632, -0.235, 0.059],
        [0.235, 1.066, -0.132],
        [-0.515, 0.157, -0.917],
        [0.044, 0.164, -1.387],
        [0.882, 0.098, -1.277],
        [1.213, 0.127, -0.601],
        [1.125, 0.127, -0.086],
        [0.831, 0.076, 0.230],
    ]
)
"""(8, 3): I, II, V1-V6 from the Frank leads X, Y, Z. Dower, Machado & Osborne, Clin Cardiol
1980;3:87-95; the inverse is Edenbrandt & Pahlm, J Electrocardiol 1988;21:361-367.
"""

INDEPENDENT = [0, 1, *range(6, 12)]
"""Rows of I, II and V1 to V6 among twelve leads."""

ATRIAL_GAIN = np.array([0.8, 1.0, 1.5, 0.8, 0.5, 0.4, 0.4, 0.4])
"""(8,): the right atrium lies beneath V1, nearer than a dipole at the centre of the ventricles
knows; ours.
"""

FIBRILLATION_AXIS = np.array([[-0.35, 0.45, -0.65], [0.35, 0.35, 0.1]])
"""(2, 3): main and second direction of fibrillatory waves; ours, V1 before II before V6."""


@dataclass(frozen=True)
class Wave:
    """One bell of the dipole's course, exp(-|d/width|^power / 2) with d the time from its peak."""

    at: float
    """Peak, s after the onset of QRS; of a wave that stretches, in a beat of RR = 1 s."""
    rise: float
    """Width before the peak, s."""
    fall: float
    """Width after the peak, s."""
    vector: tuple[float, float, float]
    """Dipole at the peak: left, down, back; mV in Frank's leads."""
    power: float = 2.0
    """2 is a Gaussian; larger is flatter on top (ST segment)."""
    stretch: float = 0.0
    """Times grow as RR^stretch: 0 for P and QRS, about 0.4 for ST and T (QT follows the rate)."""


@dataclass(frozen=True, kw_only=True)
class Heart:
    """A patient's heart: the waves of one beat and how beats follow one another."""

    waves: tuple[Wave, ...]
    rate: float
    """Mean rate, beats per minute."""
    breath: float
    """Respiratory sinus arrhythmia: amplitude as a fraction of RR."""
    premature: float
    """Probability that a beat is an early atrial one, followed by a pause."""
    irregularity: float = 0.0
    """Standard deviation of log RR in atrial fibrillation; 0 in sinus rhythm."""
    fibrillation: float = 0.0
    """Amplitude of the fibrillatory waves, mV; 0 in sinus rhythm."""


@dataclass(frozen=True)
class Breathing:
    """The respiration that moves the baseline, the rate and the electrical axis together."""

    rate: float
    """Hz."""
    phase: float
    """Radians."""

    def at(self, t: np.ndarray) -> np.ndarray:
        """Excursion in [-1, 1] at times t (s)."""
        return np.asarray(np.sin(2 * np.pi * self.rate * t + self.phase))


def simulate(heart: Heart, generator: np.random.Generator) -> np.ndarray:
    """Ten seconds of `heart`: (12, 5000) float32, mV, clinical order, in whole microvolts (I and II
    even, so all six are).
    """
    breathing = Breathing(generator.uniform(0.18, 0.36), generator.uniform(0, 2 * np.pi))
    onsets, rr = beats(heart, breathing, generator)
    # electrodes are never put on the same spot twice: each record sees the heart through a slightly
    # different field
    field = FIELD * generator.lognormal(0, 0.10, (8, 1)) + generator.normal(0, 0.07, (8, 3))
    signal = field @ _ventricles(heart, onsets, rr, breathing, generator)
    if heart.fibrillation:
        signal += (field * ATRIAL_GAIN[:, None]) @ _fibrillation(heart.fibrillation, generator)
    signal += FROM_ELECTRODES[INDEPENDENT] @ noise(breathing, generator)
    return _twelve(signal)


def beats(
    heart: Heart, breathing: Breathing, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Onsets of QRS (s; from before 0 to after 10) and the RR interval (s) that precedes each."""
    mean = 60 / heart.rate * generator.lognormal(0, 0.05)  # the same patient, another day
    t = -mean * generator.uniform(0.2, 1.2)
    onsets, intervals, early = [t], [mean], False
    while t < SECONDS + 0.6:
        if heart.irregularity:
            rr = max(0.33, mean * generator.lognormal(0, heart.irregularity))
        else:
            rr = mean * (
                1 + heart.breath * float(breathing.at(np.asarray(t))) + generator.normal(0, 0.012)
            )
            pause, early = early, generator.random() < heart.premature
            rr *= 1.15 if pause else generator.uniform(0.66, 0.8) if early else 1.0
        t += rr
        onsets.append(t)
        intervals.append(rr)
    return np.array(onsets), np.array(intervals)


def _ventricles(
    heart: Heart,
    onsets: np.ndarray,
    rr: np.ndarray,
    breathing: Breathing,
    generator: np.random.Generator,
) -> np.ndarray:
    """(3, time) mV: the dipole of all beats; breathing tilts and scales it, and every beat differs
    a little.
    """
    at, rise, fall, power, stretch = np.array(
        [(w.at, w.rise, w.fall, w.power, w.stretch) for w in heart.waves]
    ).T[:, :, None]
    vectors = np.array([w.vector for w in heart.waves]).T
    tilt = generator.uniform(0.01, 0.08)
    dipole = np.zeros((3, SAMPLES))
    for onset, before in zip(onsets, rr, strict=True):
        first, last = max(0, int((onset - 0.5) * FS)), min(SAMPLES, int((onset + 0.9) * FS))
        if first >= last:
            continue
        slower = min(before, 1.4) ** stretch
        distance = np.arange(first, last) / FS - onset - at * slower
        shape = np.exp(
            -0.5 * np.abs(distance / (slower * np.where(distance < 0, rise, fall))) ** power
        )
        lean = float(breathing.at(onset))
        size = 1 + tilt * lean + generator.normal(0, 0.015)
        dipole[:, first:last] += size * _turn(2, tilt * lean) @ vectors @ shape
    return dipole


def _turn(axis: int, angle: float) -> np.ndarray:
    """(3, 3): rotation by `angle` radians about x (0), y (1) or z (2)."""
    i, j = (axis + 1) % 3, (axis + 2) % 3
    turn = np.eye(3)
    turn[i, i] = turn[j, j] = np.cos(angle)
    turn[j, i], turn[i, j] = np.sin(angle), -np.sin(angle)
    return turn


def rotation(x: float, y: float, z: float) -> np.ndarray:
    """(3, 3): rotation by angles (degrees) about the left, foot and back axes in turn; z > 0 turns
    the frontal axis clockwise.

    >>> rotation(0, 0, 90).round(6) @ [1, 0, 0]                # from the left arm to the feet
    array([0., 1., 0.])
    """
    ax, ay, az = np.radians([x, y, z])
    return np.asarray(_turn(2, az) @ _turn(1, ay) @ _turn(0, ax))


def _fibrillation(amplitude: float, generator: np.random.Generator) -> np.ndarray:
    """(3, time) mV: waves of 5-8 Hz whose frequency, size and direction wander."""
    t = np.arange(SAMPLES) / FS
    frequency, drift = generator.uniform(5, 8), generator.uniform(0.2, 0.9, 3)
    turns = generator.uniform(0, 2 * np.pi, 5)
    phase = (
        2 * np.pi * frequency * t
        + 1.6 * np.sin(2 * np.pi * drift[0] * t + turns[0])
        + np.sin(2 * np.pi * 2.3 * drift[1] * t + turns[1])
    )
    size = 1 + 0.45 * np.sin(2 * np.pi * drift[2] * t + turns[2])
    main = np.sin(phase) + 0.35 * np.sin(2 * phase + turns[3])
    second = 0.6 * np.sin(0.93 * phase + turns[4])
    return np.asarray(amplitude * size * (FIBRILLATION_AXIS.T @ np.stack([main, second])))


def noise(breathing: Breathing, generator: np.random.Generator) -> np.ndarray:
    """(9, time) mV at the electrodes RA, LA, LL, C1-C6: baseline wander, mains (50 Hz) and muscle,
    each at its own level.
    """
    t, each = np.arange(SAMPLES) / FS, (9, 1)

    def tone(frequency: float) -> np.ndarray:
        """A sine of `frequency` (Hz) and random phase."""
        return np.asarray(np.sin(2 * np.pi * frequency * t + generator.uniform(0, 2 * np.pi)))

    def level(median: float, spread: float, shape: tuple[int, ...] = each) -> np.ndarray:
        """Log-normal levels around `median`, cut at two standard deviations: no recording is lost
        in its noise.
        """
        steps = np.clip(generator.standard_normal(shape), -2, 2)
        return np.asarray(median * np.exp(spread * steps))

    wander = level(0.035, 0.6, ()) * level(1, 0.4)
    wander = wander * breathing.at(t + generator.normal(0, 0.3, each))
    for frequency in generator.uniform(0.03, 0.5, 3):
        wander += 0.04 * np.clip(generator.standard_normal(each), -2, 2) * tone(frequency)
    hum = level(0.003, 0.8, ()) * level(1, 0.6) * tone(50)
    white = generator.standard_normal((9, SAMPLES + 2))
    colour = 0.7 * (white[:, 2:] - white[:, :-2])  # no power at 0 Hz, most at 125 Hz
    burst = 1 + 0.6 * tone(generator.uniform(0.05, 0.3))
    muscle = level(0.011, 0.7, ()) * level(1, 0.45) * burst * colour
    return np.asarray(wander + hum + muscle)


def _twelve(signal: np.ndarray) -> np.ndarray:
    """(8, time) mV -> (12, time) float32 mV in whole microvolts; I and II in steps of 2 so that
    their halves are whole.
    """
    limb = LIMB_FROM_I_II @ (2 * np.round(signal[:2] * 500))
    return (np.concatenate([limb, np.round(signal[2:] * 1000)]) / 1000).astype(np.float32)
