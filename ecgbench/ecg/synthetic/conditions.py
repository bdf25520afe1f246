"""Hearts of the demo: a normal beat as waves of the dipole, and what each condition changes in it.

Vectors are (left, down, back) in mV. The numbers are ours, chosen so that each condition shows its
textbook leads (Surawicz & Knilans, Chou's Electrocardiography in Clinical Practice) from mild to
marked; no patient stands behind them.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ecgbench.ecg.synthetic.dipole import Heart, Wave, rotation

Beat = dict[str, Wave]
"""Waves by name: right and left (atria), septal, main, basal and crest (QRS), st, t; a condition
changes, adds or removes some.
"""

STRETCH = 0.4
"""ST and T follow RR^0.4, between Bazett's square root and Fridericia's cube root."""


def heart(labels: frozenset[str], generator: np.random.Generator) -> Heart:
    """A patient's heart with the conditions `labels` (label names of the demo task)."""
    beat = _normal(generator)
    for label, change in CHANGES.items():
        if label in labels:
            # more mild forms than marked ones
            change(beat, 0.22 + 0.78 * generator.beta(1.2, 1.7), generator)
    beat = _turned(beat, generator)
    fibrillates = "AFIB" in labels
    delayed = "1AVB" in labels
    interval = generator.uniform(0.206, 0.300) if delayed else generator.uniform(0.125, 0.198)
    waves = _atria(beat, interval, fibrillates)
    return Heart(
        waves=tuple(waves.values()),
        rate=_rate(fibrillates, delayed, generator),
        breath=generator.uniform(0.005, 0.09),
        premature=generator.choice([0.0, 0.0, 0.0, 0.08, 0.15]),
        irregularity=generator.uniform(0.08, 0.24) if fibrillates else 0.0,
        fibrillation=generator.uniform(0.02, 0.09) if fibrillates else 0.0,
    )


def _rate(fibrillates: bool, delayed: bool, generator: np.random.Generator) -> float:
    """Beats per minute; a long PR needs room after the T wave."""
    if fibrillates:
        return float(generator.uniform(58, 125))
    return float(np.clip(generator.normal(66 if delayed else 72, 11), 48, 86 if delayed else 108))


def _atria(beat: Beat, interval: float, fibrillates: bool) -> Beat:
    """The beat with its P wave `interval` (PR, s, from the onset of P) before QRS, or without
    one.
    """
    if fibrillates:
        return {name: wave for name, wave in beat.items() if name not in ("right", "left")}
    return {
        name: replace(wave, at=wave.at - interval) if name in ("right", "left") else wave
        for name, wave in beat.items()
    }


def _normal(generator: np.random.Generator) -> Beat:
    """One normal heart: P times count from the onset of P, the others from the onset of QRS."""
    width = generator.uniform(0.88, 1.2)
    size = generator.lognormal(0, 0.27)
    p, late, first = generator.uniform(0.5, 1.5, 3)
    tall = generator.uniform(0.2, 1.3)
    # early repolarisation: a little ST elevation in V2-V4 of the healthy
    lift = generator.exponential(0.025)
    # the small r' in V1 of some healthy hearts
    crest = generator.choice([0.0, 0.0, 0.0, 0.35]) * generator.random()
    at, q, s = 0.285 * generator.uniform(0.94, 1.06), size * first, size * late
    return {
        "right": Wave(0.035, 0.014, 0.017, _scaled(p, 0.035, 0.07, -0.045)),
        "left": Wave(0.068, 0.018, 0.016, _scaled(p, 0.065, 0.05, 0.03)),
        "septal": Wave(0.016 * width, 0.0055, 0.007 * width, _scaled(q, -0.13, -0.05, -0.22)),
        "main": Wave(0.040 * width, 0.009 * width, 0.011 * width, _scaled(size, 1.15, 0.82, 0.20)),
        "basal": Wave(0.060 * width, 0.011 * width, 0.009 * width, _scaled(s, -0.10, -0.02, 0.60)),
        "crest": Wave(0.080 * width, 0.007, 0.008, _scaled(crest, -0.62, 0.06, -0.52)),
        "st": Wave(0.15, 0.055, 0.06, (0.3 * lift, 0.2 * lift, -lift), 4.0, STRETCH),
        "t": Wave(at, 0.052, 0.033, _scaled(tall, 0.32, 0.22, -0.22), 2.0, STRETCH),
    }


def _scaled(size: float, x: float, y: float, z: float) -> tuple[float, float, float]:
    return (size * x, size * y, size * z)


def _move(
    beat: Beat,
    name: str,
    much: float = 0.0,
    by: tuple[float, float, float] = (0.0, 0.0, 0.0),
    keep: float = 1.0,
    **other: float,
) -> None:
    """Shrink the vector of a wave to `keep`, move it by `much` times `by` mV, and change `other`
    fields.
    """
    x, y, z = (keep * own + much * more for own, more in zip(beat[name].vector, by))
    beat[name] = replace(beat[name], vector=(x, y, z), **other)


def _turned(beat: Beat, generator: np.random.Generator) -> Beat:
    """All waves turned by the patient's axis; T a little further, because no two hearts repolarise
    alike.
    """
    # beyond, a normal axis would turn into a hemiblock's
    angles = np.clip(generator.standard_normal(6), -1.8, 1.8)
    body = rotation(*(angles[:3] * (9, 10, 14)))
    own = rotation(*(angles[3:] * (13, 14, 12)))
    turned = {}
    for name, wave in beat.items():
        x, y, z = body @ (own @ wave.vector if name == "t" else np.array(wave.vector))
        turned[name] = replace(wave, vector=(float(x), float(y), float(z)))
    return turned


def _left_bundle(beat: Beat, severity: float, generator: np.random.Generator) -> None:
    """LBBB: no septal q, a wide notched QRS to the left and back, ST and T against it."""
    width, size, much = 0.88 + 0.24 * severity, generator.lognormal(0, 0.22), 0.65 + 0.35 * severity
    del beat["crest"]
    beat["septal"] = Wave(0.022 * width, 0.009, 0.010, _scaled(size, 0.18, 0.10, 0.02))
    main, notch = _scaled(size, 0.80, 0.42, 0.70 * much), _scaled(size * much, 0.92, 0.16, 0.72)
    beat["main"] = Wave(0.056 * width, 0.014 * width, 0.018 * width, main)
    beat["notch"] = Wave(0.100 * width, 0.018 * width, 0.014 * width, notch)
    beat["basal"] = Wave(0.126 * width, 0.010, 0.010, _scaled(size * much, 0.15, 0.0, 0.30))
    _move(beat, "st", severity, (-0.10, -0.04, -0.13), at=0.19)
    _move(beat, "t", much, (-0.40, -0.12, -0.40), keep=1 - much, at=0.33)


def _right_bundle(beat: Beat, severity: float, generator: np.random.Generator) -> None:
    """RBBB: a normal beginning, then a slow wave to the right and front; T turns away from it."""
    late = generator.uniform(0.75, 1.2) * (0.5 + 0.5 * severity)
    _move(beat, "basal", keep=0.55)
    slow, vector = 0.014 + 0.008 * severity, _scaled(late, -0.62, 0.06, -0.52)
    beat["terminal"] = Wave(0.088 + 0.016 * severity, 0.013, slow, vector)
    beat["st"] = replace(beat["st"], at=0.19)
    _move(beat, "t", late, (0.10, 0.0, 0.34), at=beat["t"].at + 0.03)


def _hypertrophy(beat: Beat, severity: float, generator: np.random.Generator) -> None:
    """LVH: a larger QRS to the left and back; strain: ST down and T over in I, V5 and V6."""
    more = 0.5 + 0.7 * severity
    for name in ("main", "notch"):
        if name in beat:
            _move(beat, name, more, (0.75, 0.10, 0.35))
    _move(beat, "basal", more, (0.0, 0.0, 0.35))
    strain = (0.25 + 0.75 * severity) * generator.uniform(0.7, 1.2)
    _move(beat, "st", strain, (-0.11, -0.04, -0.07))
    _move(beat, "t", strain, (-0.62, -0.20, -0.05), keep=1 - 0.15 * strain)


def _inferior(beat: Beat, severity: float, generator: np.random.Generator) -> None:
    """IMI: first forces upwards (Q in II, III, aVF); acute ST elevation there, or an old T
    inversion.
    """
    acute = generator.random() < 0.4
    _move(beat, "septal", keep=0.8)
    beat["scar"] = Wave(0.022, 0.0085, 0.009, _scaled(severity, 0.05, -0.85, -0.05))
    _move(beat, "main", severity, (0.0, -0.30, 0.0))
    _move(beat, "st", severity, (-0.06, 0.24, 0.04) if acute else (0.0, 0.05, 0.0))
    _move(beat, "t", severity, (-0.08, 0.24, 0.05) if acute else (0.08, -0.50, -0.03))


def _anterior(beat: Beat, severity: float, generator: np.random.Generator) -> None:
    """AMI: the forces to the front are lost (QS in V1-V3, small r in V4); acute ST elevation, or an
    old T inversion.
    """
    acute = generator.random() < 0.4
    _move(beat, "septal", severity, (-0.05, 0.0, 0.45), keep=1 - 0.8 * severity)
    beat["scar"] = Wave(0.030, 0.010, 0.010, _scaled(severity, -0.10, 0.0, 0.55))
    _move(beat, "main", severity, (-0.12, 0.0, 0.30))
    _move(beat, "st", severity, (0.05, 0.0, -0.22) if acute else (0.0, 0.0, -0.08))
    _move(beat, "t", severity, (0.04, 0.0, -0.30) if acute else (-0.12, 0.0, 0.50))


CHANGES: dict[str, Callable[[Beat, float, np.random.Generator], None]] = {
    "LBBB": _left_bundle,
    "RBBB": _right_bundle,
    "LVH": _hypertrophy,
    "IMI": _inferior,
    "AMI": _anterior,
}
"""Changes of the beat in the order in which they are applied: conduction first, then muscle, then
scar.
"""
