"""Keys of stored results, and groups of items."""

import hashlib
import json
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


K = TypeVar("K", bound=Hashable)


def grouped(items: Iterable[T], by: Callable[[T], K]) -> dict[K, list[T]]:
    """Items by `by(item)`; groups and items keep their order.

    >>> grouped(["a1", "b1", "a2"], lambda name: name[0])
    {'a': ['a1', 'a2'], 'b': ['b1']}
    """
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(by(item), []).append(item)
    return groups


def key(facts: dict[str, Any]) -> str:
    """sha256 of the canonical JSON of everything that can change the number.

    >>> key({"a": 1, "b": [2]}) == key({"b": [2], "a": 1})
    True
    """
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
