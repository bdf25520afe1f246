"""Properties of every perturbation, on synthetic recordings with all leads and with few."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ecgbench import perturbations
from ecgbench.check._properties import demand, identical, tried
from ecgbench.datasets import demo
from ecgbench.ecg.beats import qrs_height
from ecgbench.ecg.leads import LEADS, LIMB_FROM_I_II
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord
from ecgbench.perturbations import Perturbation

RECORD = 3
CLOSE = 1e-5
"""mV, of float32."""
WITHIN = 0.1
"""dB."""


def check(name: str) -> list[dict[str, Any]]:
    """Try every property on the perturbation called `name`, at each level of its card: rows of
    name, ok, detail.
    """
    name = perturbations.resolve(name)
    card = perturbations.card(name)
    rows: list[dict[str, Any]] = []
    for level in card.levels:
        one = Perturbation(name, level)
        rows += tried([(f"{what} ({one})", partial(how, one)) for what, how in properties(card)])
    return rows


def properties(card: Any) -> Iterator[tuple[str, Callable[[Perturbation], str]]]:
    """The properties of a perturbation, by name."""
    yield "the same recording gives the same", repeatable
    yield "the length is the one that its zeros have", of_stated_length
    yield "leads that were not measured decide nothing", blind
    if card.acts_on in ("noise", "electrodes"):
        yield "III, aVR, aVL and aVF follow from I and II", lawful
    if card.acts_on == "noise":
        yield "the signal-to-noise ratio is the stated one", as_loud_as_stated
        yield "without noise not a bit changes", silent


def repeatable(one: Perturbation) -> str:
    """Twice, and after another recording."""
    recording = demo.recording(RECORD)
    first = one(recording).signal
    one(demo.recording(RECORD + 1))
    return identical(first, one(recording).signal, "two calls differ")


def of_stated_length(one: Perturbation) -> str:
    """What plans a run knows the length and not the samples."""
    recording = demo.recording(RECORD)
    stated = one.samples(recording.signal.shape[1], recording.fs)
    there = one(recording).signal.shape[1]
    demand(stated == there, f"{there} samples of a recording, {stated} of as many zeros")
    return f"{there} samples"


def blind(one: Perturbation) -> str:
    """A recording of lead I, and of I and II, gives the same whatever other leads there were, or
    says that it cannot be done.
    """
    said = []
    for leads in (("I",), ("I", "II"), ("V1",)):
        part = _only(demo.recording(RECORD), leads)
        try:
            made = one(part)
        except BadRecord:
            said.append(f"{'+'.join(leads)}: not determined")
            continue
        demand(made.leads == leads, f"{'+'.join(leads)} becomes {'+'.join(made.leads)}")
        if perturbations.card(one.name).acts_on == "leads":  # electrodes belong to several leads
            whole = one(demo.recording(RECORD)).signal[[LEADS.index(lead) for lead in leads]]
            off = float(np.abs(whole - made.signal).max())
            demand(off <= CLOSE, f"other leads move {'+'.join(leads)} by {off:.2g} mV")
        said.append(f"{'+'.join(leads)}: done")
    return ", ".join(said)


def lawful(one: Perturbation) -> str:
    """Einthoven's and Goldberger's sums."""
    made = one(demo.recording(RECORD))
    if made.flat():
        return f"flat: {'+'.join(made.flat())}"
    limb = made.signal[:6].astype(np.float64)
    worst = float(np.abs(LIMB_FROM_I_II @ limb[:2] - limb).max())
    demand(worst <= CLOSE, f"they are off by {worst:.2g} mV")
    return f"within {worst:.0e} mV"


def as_loud_as_stated(one: Perturbation) -> str:
    """S is the mean over the leads of (QRS peak to peak)^2 / 8, N the mean variance."""
    recording = demo.recording(RECORD)
    added = one(recording).signal.astype(np.float64) - recording.signal
    heights = qrs_height(recording.signal, recording.fs)
    found = 10 * np.log10((heights**2 / 8).mean() / added.var(axis=1).mean())
    demand(abs(found - float(one.level)) <= WITHIN, f"it is {found:.2f} dB")
    return f"{found:.2f} dB"


def silent(one: Perturbation) -> str:
    """An infinite ratio."""
    recording = demo.recording(RECORD)
    made = replace(one, level="inf")(recording)
    return identical(made.signal, recording.signal, "an infinite ratio changes samples")


def _only(recording: Recording, leads: tuple[str, ...]) -> Recording:
    rows = [LEADS.index(lead) for lead in leads]
    return replace(recording, signal=recording.signal[rows], leads=leads)
