"""The room of perturbations: what a device does to the signal besides measuring fewer leads.

A perturbation is a `CARD` and `apply(signal, fs, level, random)`. What comes in and what is given
back follow from `CARD.acts_on`:

    noise       potentials (9, time) mV -> noise (9, time) of any size, NOT added: it is made as
                large as the level, a signal-to-noise ratio in dB, says, and added to the electrodes
    electrodes  potentials (9, time) mV -> potentials; a row of NaN is an electrode that is off
    leads       (12, time) mV, NaN in the rows of leads that were not measured -> the same
    time        the same -> (12, other time), whose length follows from that of the recording

fs: Hz. level: a float, or the text that stands behind the name. random: a numpy generator, named by
perturbation, seed and record, so that every model and lead setting meets the same noise.

It acts on a test recording in mV at its own rate, before filters and before leads are hidden. What
happens at the electrodes reaches the leads through `ecg.electrodes`, so that the laws of the limb
leads hold in what comes out.

Source of the list: the devices that are spoken of in docs/explanation/perturbations.md.
"""

from dataclasses import dataclass, replace

import numpy as np

from ecgbench import contracts
from ecgbench.core.registry import Room, numbers
from ecgbench.core.seeds import rng
from ecgbench.ecg import electrodes
from ecgbench.ecg.beats import qrs_height
from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord, BadSetting

ROOM = Room("ecgbench.perturbations", "perturbation", contracts.Perturbation)
names, get, resolve, card = ROOM.names, ROOM.get, ROOM.resolve, ROOM.card

NONE = "none"
"""The recordings as they are, in `--perturb`."""
EXCHANGE = "exchange"
PERTURBED = "perturb "
"""Before the name of a perturbation, where it stands as the control of a plan."""
VERSION = 1
"""Raised by hand when what is built in gives other samples."""


@dataclass(frozen=True)
class Perturbation:
    """A perturbation with its level."""

    name: str
    """In the room."""
    level: str
    """As typed, numbers in their shortest form."""

    def __str__(self) -> str:
        if self.name == EXCHANGE:
            return self.level
        return f"{self.name}{':' if self.level[:1].isalpha() else '@'}{self.level}"

    @property
    def title(self) -> str:
        """For tables."""
        return str(get(self.name).CARD.title.format(self.level))

    @property
    def value(self) -> float | str:
        """The level as `apply` receives it."""
        return self.level if get(self.name).CARD.range is None else float(self.level)

    def samples(self, samples: int, fs: float) -> int:
        """How many samples are left of a recording."""
        if get(self.name).CARD.acts_on != "time":
            return samples
        return self._applied(np.zeros((len(LEADS), samples)), fs, "length").shape[1]

    def __call__(self, recording: Recording, seed: int = 0) -> Recording:
        """The recording afterwards. BadRecord where it cannot be determined from the leads that the
        recording has; BadSetting where a perturbation from outside gives anything else than it
        must.
        """
        if recording.unit != "mV":
            raise BadRecord(f"{recording.record}: {self} needs mV, and it is {recording.unit}")
        words = recording.record, seed
        acts_on, fs = get(self.name).CARD.acts_on, recording.fs
        whole = recording.clinical()
        rows = whole.rows.astype(np.float64)
        there = np.array(~np.isnan(rows).any(axis=1))
        if acts_on in ("leads", "time"):
            return replace(whole, signal=self._applied(rows, fs, *words)[there])

        def change(before: np.ndarray) -> np.ndarray:
            after = self._applied(before, fs, *words)
            if acts_on == "electrodes":
                return after
            return before + after * _gain(whole, after, there, float(self.level))

        try:
            after = electrodes.changed(rows, change)
        except electrodes.NotDetermined as lead:
            raise BadRecord(
                f"{recording.record}: after {self}, lead {lead} rests on leads that were not "
                f"measured"
            ) from None
        return replace(whole, signal=after[there])

    def _applied(self, signal: np.ndarray, fs: float, *words: str | int) -> np.ndarray:
        module, seed = get(self.name), ("perturb", str(self), *words)
        with ROOM.calling(self.name):
            made = numbers(module.apply(signal.copy(), fs, self.value, rng(*seed)))
            # all models must meet the same signal
            once = ROOM.built_in(self.name)
            again = made if once else module.apply(signal.copy(), fs, self.value, rng(*seed))
        if not np.array_equal(made, again, equal_nan=True):
            raise BadSetting(
                f"perturbation {self}: its apply() gives other samples when it is called again; it "
                f"must take every random number from `random`, and remember nothing"
            )
        kind, lost = module.CARD.acts_on, ~np.isfinite(made)
        shaped = made.ndim == 2 and made.shape[0] == len(signal) and made.size > 0
        if shaped and kind != "time":
            shaped = made.shape == signal.shape
        if shaped and kind == "electrodes":  # a whole row: the electrode is off
            lost &= ~np.isnan(made).all(axis=1, keepdims=True)
        elif shaped:
            lost = lost[~np.isnan(signal).any(axis=1)]
        if not shaped or lost.any():
            what = "samples that are not finite" if shaped else f"shape {made.shape}"
            raise BadSetting(
                f"perturbation {self}: its apply() gives {what} for {signal.shape}; see what "
                f"CARD.acts_on={kind!r} asks for"
            )
        return made


def _gain(recording: Recording, noise: np.ndarray, there: np.ndarray, decibels: float) -> float:
    """What noise (9, time) is taken times for this ratio: S is the mean over the leads of a
    recording of (QRS peak to peak)^2 / 8, N the mean variance of what is added to them (the
    definition of nst, Moody, Muldrow and Mark 1984).
    """
    if np.isinf(decibels):
        return 0.0
    heights = qrs_height(recording.signal, recording.fs)
    if not np.isfinite(heights).all():  # no beat stands out
        low, high = np.quantile(recording.signal, [0.01, 0.99], axis=1)
        heights = high - low
    size = (electrodes.FROM_ELECTRODES @ noise)[there].var(axis=1).mean()
    if not size > 0:
        return 0.0
    return float(np.sqrt((heights**2 / 8).mean() / size / 10 ** (decibels / 10)))


def identity(name: str) -> str:
    """What changes when a perturbation gives other samples: for keys."""
    return ROOM.source_hash(name) or f"built in, {VERSION}"


def parse(text: str) -> tuple[Perturbation, ...]:
    """What `--perturb` means, in the order typed; `none` is left out, as it is always there.

    >>> [str(one) for one in parse("none,em@6,la/ra,off:V3")]
    ['em@6', 'RA/LA', 'off:V3']
    """
    words = [word.strip() for word in text.split(",")]
    return tuple(dict.fromkeys(one(word) for word in words if word.lower() != NONE))


def one(text: str) -> Perturbation:
    """A perturbation as typed; BadSetting with an example where it is none."""
    path, at, level = text.rpartition(".py@")
    if at:
        name = resolve(f"{path}.py")
    elif "/" in text and not text.endswith(".py"):
        name, level = EXCHANGE, text
    else:
        name, _, level = text.partition("@" if "@" in text else ":")
        name = resolve(name)
    known = get(name).CARD
    spelled = _number(level, known.range) if known.range else _listed(level, known.levels)
    if spelled is None:
        example = Perturbation(name, known.levels[0])
        wanted = (
            f"a number from {known.range[0]:g} to {known.range[1]:g}, {known.level}"
            if known.range
            else f"one of {', '.join(known.levels)}"
        )
        raise BadSetting(
            f"--perturb {text}: {name} takes {wanted}; for example --perturb {example}"
        )
    return Perturbation(name, spelled)


def _number(text: str, within: tuple[float, float]) -> str | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return f"{number:g}" if within[0] <= number <= within[1] else None


def _listed(text: str, levels: tuple[str, ...]) -> str | None:
    """As a level is spelled, in any case; an exchange in either order."""
    alike = {"/".join(sorted(level.lower().split("/"))): level for level in levels}
    return alike.get("/".join(sorted(text.lower().split("/"))))
