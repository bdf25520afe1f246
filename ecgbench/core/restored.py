"""Global state that code from outside may change: as it was, once that code has run.

A plug-in that sets torch's default type, or numpy's seed, would otherwise change every model that
is built after it in the same process.
"""

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ecgbench.core.seeds import seed_of

_SWITCHES = (
    ("get_default_dtype", "set_default_dtype"),
    ("get_default_device", "set_default_device"),
    ("is_grad_enabled", "set_grad_enabled"),
    ("is_anomaly_enabled", "autograd.set_detect_anomaly"),
    ("get_deterministic_debug_mode", "set_deterministic_debug_mode"),
    ("get_float32_matmul_precision", "set_float32_matmul_precision"),
    ("get_num_threads", "set_num_threads"),
)
"""Functions of torch that read and set a switch."""
_FLAGS = (
    ("backends.cudnn", ("enabled", "benchmark", "deterministic", "allow_tf32")),
    ("backends.cuda.matmul", ("allow_tf32",)),
    ("backends.mkldnn", ("enabled",)),
)
"""Attributes of torch that are switches."""


@contextmanager
def restored(*words: str | int) -> Iterator[None]:
    """Inside, `random` and numpy draw from a seed named by `words`; afterwards they, and torch's
    switches, are as before.
    """
    switches = _switches()
    generators = random.getstate(), np.random.get_state(), np.geterr()
    random.seed(seed_of(*words))
    np.random.seed(seed_of(*words) % 2**32)
    try:
        yield
    finally:
        random.setstate(generators[0])
        np.random.set_state(generators[1])
        np.seterr(**generators[2])
        for name, (value, put) in _switches().items():
            before = switches[name][0] if switches else _usual(name, value)
            if before != value:
                put(before)


def _usual(name: str, now: Any) -> Any:
    """The value of a switch of torch where nobody has touched it; as it is `now`, if that is not
    known.
    """
    torch: Any = sys.modules["torch"]
    known = {
        "get_default_dtype": torch.float32,
        "get_default_device": torch.device("cpu"),
        "is_grad_enabled": True,
        "is_anomaly_enabled": False,
        "get_deterministic_debug_mode": 0,
        "get_float32_matmul_precision": "highest",
    }
    return known.get(name, now)


def _switches() -> dict[str, tuple[Any, Callable[[Any], Any]]]:
    """Switch -> its value, and what sets it; nothing where torch is not imported."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "get_num_threads"):
        return {}
    found: dict[str, tuple[Any, Callable[[Any], Any]]] = {}
    for read, put in _SWITCHES:
        found[read] = _found(torch, read)(), _found(torch, put)
    for place, names in _FLAGS:
        of = _found(torch, place)
        for name in names:
            found[f"{place}.{name}"] = getattr(of, name), _setter(of, name)
    # a device that is set costs time at each call, so none is what it was
    device, choose = found["get_default_device"]
    found["get_default_device"] = device, lambda d: choose(None if d.type == "cpu" else d)
    return found


def _found(start: Any, path: str) -> Any:
    for name in path.split("."):
        start = getattr(start, name)
    return start


def _setter(of: Any, name: str) -> Callable[[Any], Any]:
    return lambda value: setattr(of, name, value)
