"""How a property is stated and tried: a function that returns what it saw, or raises Broken."""

from collections.abc import Callable, Iterable
from typing import Any


class Broken(AssertionError):
    """A plug-in does not keep a promise."""


def tried(properties: Iterable[tuple[str, Callable[[], str]]]) -> list[dict[str, Any]]:
    """Try each (name, function): rows of name, ok, detail. Whatever a plug-in raises is a broken
    promise.
    """
    rows = []
    for name, attempt in properties:
        try:
            ok, detail = True, attempt()
        except Exception as error:  # a plug-in's code may raise anything
            ok, detail = (
                False,
                str(error) if isinstance(error, Broken) else f"{type(error).__name__}: {error}",
            )
        rows.append({"name": name, "ok": ok, "detail": detail})
    return rows


def demand(condition: bool, complaint: str) -> None:
    """Raise Broken unless the condition holds."""
    if not condition:
        raise Broken(complaint)
