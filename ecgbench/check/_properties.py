"""How a property is checked: by a function that returns what it found, or raises Broken."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ecgbench.errors import STOPS


class Broken(AssertionError):
    """A plug-in does not have a property."""


def tried(
    properties: Iterable[tuple[str, Callable[..., str]]],
    *subject: object,
    begin: Callable[[str], object] = str,
) -> Iterator[dict[str, Any]]:
    """Try each (name, function) on `subject`: rows of name, ok, detail, each once it is known. A
    property fails where the plug-in raises any error. begin: called with each name before.
    """
    for name, attempt in properties:
        begin(name)
        try:
            ok, detail = True, attempt(*subject)
        except Broken as broken:
            ok, detail = False, str(broken)
        except STOPS:
            raise
        except BaseException as error:  # a plug-in's code may raise anything
            ok, detail = False, f"{type(error).__name__}: {error}"
        yield {"name": name, "ok": ok, "detail": detail}


def demand(condition: object, complaint: str) -> None:
    """Raise Broken unless the condition holds."""
    if not condition:
        raise Broken(complaint)


def identical(one: np.ndarray, other: np.ndarray, complaint: str) -> str:
    """Raise Broken unless two arrays agree in every bit."""
    demand(np.array_equal(one, other), complaint)
    return "bit-identical"
