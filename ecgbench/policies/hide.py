"""The one way from a record and its measured leads to what a network receives.

Hidden leads become NaN in physical units before anything else runs; a policy must replace them, a
native network must not read them. Whatever mixes leads (a standardisation over the record) comes
after hiding.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ecgbench.cards.model import InputContract
from ecgbench.core.registry import numbers, plain
from ecgbench.core.restored import restored
from ecgbench.core.seeds import rng
from ecgbench.core.source_hash import unnoted
from ecgbench.ecg.leads import LEADS, rows_of
from ecgbench.ecg.preprocess import decimate, normalise
from ecgbench.errors import BadSetting, PolicyError

State = Mapping[str, np.ndarray]
"""What a policy learned on the training split."""

NATIVE = "native"


@dataclass(frozen=True)
class Policy:
    """A policy ready to use: its name, its function (None: native) and what it learned."""

    name: str
    fill: Callable[[np.ndarray, np.ndarray, State | None], np.ndarray] | None
    state: State | None = None

    @classmethod
    def of(
        cls, name: str, training: Callable[[], Iterable[np.ndarray]], state: State | None = None
    ) -> "Policy":
        """The policy called `name`; one that learns is fitted on `training()`, signals (12, time)
        mV of training records, unless `state` is given already.
        """
        if plain(name) == NATIVE:
            return cls(NATIVE, None)
        from ecgbench import policies  # the room imports this module

        name = policies.resolve(name)
        module, calling = policies.get(name), policies.ROOM.calling(name, OSError)
        if state is None and hasattr(module, "fit"):
            with policies.ROOM.reading(name), restored("fit", name):
                state = calling(module.fit)(_read_by_us(training()), LEADS)
            if not isinstance(state, Mapping):
                message = f"its fit() gives a {type(state).__name__} where a dict of arrays belongs"
                raise BadSetting(f"policy {name!r}: {message}")
        if state is not None:
            state = {part: calling(numbers)(array).copy() for part, array in state.items()}
            for array in state.values():  # what it learned is part of keys
                array.setflags(write=False)

        def fill(signal: np.ndarray, measured: np.ndarray, state: State | None) -> np.ndarray:
            return numbers(module.fill(signal, measured, state))

        return cls(name, calling(fill), state)


def _read_by_us(signals: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """The signals one at a time; files that reading them opens are none of the policy's."""
    each = iter(signals)
    while True:
        with unnoted():
            signal = next(each, None)
        if signal is None:
            return
        yield signal


def adapt(
    view: np.ndarray, measured: np.ndarray, contract: InputContract, policy: Policy
) -> tuple[np.ndarray, np.ndarray]:
    """view (12, time) mV, measured (12,) bool -> signal (lead, time) float32 and measured (lead,)
    for the contract's leads.

    A policy sees all twelve rows; a normalisation only those that the network reads, or the others
    would reach it that way. Under `native` rows that are not measured hold NaN; under any other
    policy every row is filled and counts as measured. Where a contract normalises windows and fills
    afterwards, `cut` does both, and blank rows hold NaN until then. LeakError when a policy leaves
    NaN behind or alters a measured lead.
    """
    rows = rows_of(contract.leads)
    hidden = np.where(measured[:, None], view, np.float32(np.nan))
    if policy.fill is None:
        if not np.isfinite(view[measured]).all():
            raise PolicyError("a measured lead holds NaN or infinity; a recording must be finite")
        return _record_normalised(hidden[rows], contract), measured[rows]
    filled = np.asarray(policy.fill(hidden, measured.copy(), policy.state))
    if filled.shape != view.shape:
        raise PolicyError(
            f"policy {policy.name!r} made {filled.shape} of a signal of shape {view.shape}; it "
            f"must keep all twelve rows"
        )
    if not np.isfinite(filled).all() or not np.array_equal(filled[measured], view[measured]):
        raise PolicyError(
            f"policy {policy.name!r} left a hidden lead unfilled, peeked at one, or altered a "
            f"measured one"
        )
    if contract.clip is not None:  # what a policy made of limited leads may exceed the limit
        filled = filled.clip(-contract.clip, contract.clip)
    blank = np.full(len(rows), contract.fill == "after") & (~measured & ~filled.any(axis=1))[rows]
    received = np.where(blank[:, None], np.float32(np.nan), filled[rows])
    signal = _record_normalised(received, contract)
    if contract.scope == "record":
        signal[blank] = 0
    return signal, np.ones(len(rows), bool)


def sees(contract: InputContract, measured: np.ndarray, policy: Policy) -> bool:
    """Whether a measured sample reaches the network, directly or through the policy; measured
    (12,) bool.
    """
    own = rows_of(contract.leads)
    if policy.fill is None or measured[own].any():
        return bool(measured[own].any())
    filled = []
    for i in range(2):
        noise = rng("blind", i).normal(size=(len(measured), 8)).astype(np.float32)
        noise[~measured] = np.nan
        filled.append(policy.fill(noise, measured, policy.state)[own])
    return not np.array_equal(filled[0], filled[1])


def cut(
    signal: np.ndarray, measured: np.ndarray, contract: InputContract, starts: np.ndarray
) -> np.ndarray:
    """What `adapt` gave -> (window, lead, received) float32, windows beginning at the samples
    `starts`, as the network receives them.
    """
    if (missing := contract.samples - signal.shape[1]) > 0 and contract.short == "edge":
        signal = np.pad(signal, ((0, 0), (0, missing)), mode="edge")
    out = np.stack(
        [_finished(signal[:, s : s + contract.samples], contract) for s in starts.tolist()]
    )
    if contract.fill == "after" and contract.scope == "window":
        out[:, measured & np.isnan(signal).all(axis=1)] = 0  # the blank rows
    if contract.decimate == 1:
        return out
    return np.stack([decimate(window, contract.decimate) for window in out])


def _record_normalised(signal: np.ndarray, contract: InputContract) -> np.ndarray:
    return normalise(signal, contract.normalisation if contract.scope == "record" else "none")


def _finished(window: np.ndarray, contract: InputContract) -> np.ndarray:
    """What a contract does to (lead, samples) of one window; rows that are NaN stay so."""
    if contract.filter is not None and contract.filter.where == "window":
        window = contract.filter(window, contract.fs)
    return normalise(window, contract.normalisation if contract.scope == "window" else "none")
