"""Properties of every policy for missing leads."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ecgbench import policies
from ecgbench.check._properties import demand, identical, tried
from ecgbench.core.seeds import rng
from ecgbench.datasets import demo
from ecgbench.ecg.leads import ALL, LEADS, LeadSubset
from ecgbench.policies.hide import Policy

SUBSETS = tuple(LeadSubset.parse(text) for text in ("I", "V4", "II+aVF", "I+III+V1+V2+V6"))


def check(name: str) -> Iterator[dict[str, Any]]:
    """Try every property on the policy called `name`: rows of name, ok, detail."""
    name = policies.resolve(name)
    return tried(properties(), name)


def properties() -> Iterator[tuple[str, Callable[[str], str]]]:
    """The properties of a policy, by name."""
    yield "fills every hidden lead and leaves measured ones alone", fills
    yield "does not see hidden leads", blind
    yield "the same twice", deterministic
    yield "all leads measured: nothing to do", identity
    yield "learns from the training split only", learns


def fills(name: str) -> str:
    """No NaN is left, measured rows are bit-identical."""
    policy, x = _policy(name), _signal(1)
    for subset in SUBSETS:
        filled = _fill(policy, x, subset)
        unfilled = int((~np.isfinite(filled)).any(axis=1).sum())
        demand(not unfilled, f"at {subset} {unfilled} leads are not filled")
        measured = subset.mask
        identical(filled[measured], x[measured], f"at {subset} a measured lead was altered")
    return f"at {', '.join(map(str, SUBSETS))}"


def blind(name: str) -> str:
    """Two records with the same measured leads are filled in the same way."""
    policy, x = _policy(name), _signal(1)
    noise = rng("conformance", name).normal(size=x.shape).astype(np.float32)
    for subset in SUBSETS:
        other = np.where(subset.mask[:, None], x, noise)
        one, two = (_fill(policy, signal, subset) for signal in (x, other))
        identical(one, two, f"at {subset} a hidden lead shows through")
    return "bit-identical"


def deterministic(name: str) -> str:
    """The same input is filled twice in the same way."""
    policy, x = _policy(name), _signal(1)
    one, two = (_fill(policy, x, SUBSETS[3]) for _ in range(2))
    return identical(one, two, "two fills differ")


def identity(name: str) -> str:
    """With all twelve leads measured the record passes unchanged."""
    x = _signal(1)
    return identical(_fill(_policy(name), x, ALL), x, "a complete record was altered")


def learns(name: str) -> str:
    """A policy with `fit` gives finite arrays, and others for other training records; one without
    keeps no state.
    """
    module = policies.get(name)
    if not hasattr(module, "fit"):
        return "it does not learn"
    first, again, second = (module.fit([_signal(i), _signal(i + 1)], LEADS) for i in (2, 2, 4))
    for part in first:
        identical(first[part], again[part], f"the same training records give another {part}")
    demand(all(np.isfinite(v).all() for v in first.values()), "its state is not finite")
    others = any(not np.array_equal(first[k], second[k]) for k in first)
    demand(others, "other training records make no difference")
    return f"state: {', '.join(f'{k} {np.shape(v)}' for k, v in first.items())}"


def _policy(name: str) -> Policy:
    return Policy.of(name, lambda: map(_signal, (2, 3)))


def _fill(policy: Policy, x: np.ndarray, subset: LeadSubset) -> np.ndarray:
    assert policy.fill is not None
    hidden = np.where(subset.mask[:, None], x, np.float32(np.nan))
    return policy.fill(hidden, subset.mask, policy.state)


def _signal(number: int) -> np.ndarray:
    return demo.recording(number).signal[:, :1000]
