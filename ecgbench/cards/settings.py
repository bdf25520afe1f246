"""Settings as they are typed (KEY=VALUE of `--set`, options, TOML, arguments in Python), each read
into the type of its field.
"""

import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from ecgbench.errors import BadSetting, UnknownName

Words = str | int | float | Path | Sequence[Any] | Mapping[str, Any]
"""A value as typed: text as on the command line; a number; a list; name -> value, where it has
names.
"""
_SWITCH = {"on": True, "yes": True, "true": True, "off": False, "no": False, "false": False}
_WANTED = {bool: "on or off", int: "a whole number", float: "a number"}


def read(hint: Any, value: Any, where: str) -> Any:
    """A value in the type `hint`; BadSetting with what it must be, after `where` it stands:
    "--seeds ".
    """
    try:
        return _read(hint, value)
    except (ValueError, TypeError, KeyError):
        raise BadSetting(f"{where}{value}: {_wanted(hint)}") from None


def assigned(
    sets: Sequence[str] | Mapping[str, Any], hints: Mapping[str, Any], listed: str = "See --help."
) -> dict[str, Any]:
    """Key -> value of `--set`, given as KEY=VALUE each or as a mapping.

    hints: key -> type of its value. listed: how a user lists them. UnknownName with the nearest
    key, BadSetting.
    """
    found = {}
    for key, equals, value in _pairs(sets):
        if not equals:
            example = f"{key if key in hints else next(iter(hints))}=VALUE"
            raise BadSetting(f"--set {key}: KEY=VALUE, for example --set {example}. {listed}")
        if key not in hints:
            raise UnknownName("setting", key, hints, listed)
        found[key] = read(hints[key], value, f"--set {key}=")
    return found


def _pairs(sets: Sequence[str] | Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    if isinstance(sets, Mapping):
        return [(str(key), "=", value) for key, value in sets.items()]
    parted = [word.partition("=") for word in sets]
    return [(key.strip(), equals, value.strip()) for key, equals, value in parted]


def items(value: Words) -> list[Any]:
    """The items of a list, or of text with commas between them."""
    if isinstance(value, str):
        return [word.strip() for word in value.split(",")]
    if isinstance(value, Mapping):
        return [f"{name}={word}" for name, word in value.items()]
    return list(value) if isinstance(value, Sequence) else [value]


def _read(hint: Any, value: Any) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return None if value in ("", "none") else _read(inner[0], value)
    if origin is tuple and int in get_args(inner[0]):
        from ecgbench.ecg.draw import parse_leads  # numpy, which `ecgbench --help` does without

        return parse_leads(",".join(map(str, items(value))))
    if origin is tuple:
        return tuple(_read(inner[0], item) for item in items(value))
    if origin is Literal:
        (found,) = [word for word in inner if word == value]
        return found
    if hint is bool:
        return value if isinstance(value, bool) else _SWITCH[str(value).lower()]
    if isinstance(value, Mapping):
        value = ",".join(items(value))
    if isinstance(value, bool) or (hint is int and isinstance(value, float)):
        raise ValueError
    if parse := getattr(hint, "parse", None):
        return parse(",".join(map(str, items(value))))
    return Path(value).expanduser() if hint is Path else hint(value)


def _wanted(hint: Any) -> str:
    """What a value must be, in words."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return f"{_wanted(inner[0])}, or none"
    if origin is Literal:
        return f"one of {', '.join(map(str, inner))}"
    if origin is tuple:
        of = {int: "whole numbers", float: "numbers"}.get(inner[0], "a list")
        return f"{of}, with commas between"
    return _WANTED.get(hint, "a word")
