"""What every card is made of: fields of checked types, and a card as plain JSON types."""

import json
import re
from dataclasses import asdict
from numbers import Integral, Real
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from ecgbench.core.text import shortened
from ecgbench.errors import BadSetting


class CheckedFields:
    """Base of all cards: BadSetting where a field does not have its annotated type."""

    def __post_init__(self) -> None:
        for name, kind in get_type_hints(type(self)).items():
            value = getattr(self, name)
            if not _is(value, kind):
                wanted = getattr(kind, "__name__", "") if isinstance(kind, type) else str(kind)
                missed = f"no {re.sub(r'[a-z_]+[.]', '', wanted)}"
                if get_origin(kind) is Literal:
                    missed = f"none of {', '.join(map(repr, get_args(kind)))}"
                raise BadSetting(
                    f"{type(self).__name__}: {name} is {shortened(repr(value), 60)}, which is "
                    f"{missed}"
                )


def _is(value: Any, kind: Any) -> bool:
    """Whether a value is of the type of a field. A list may stand for a tuple."""
    of, within = get_origin(kind), get_args(kind)
    if of is Literal:
        return value in within
    if of in (Union, UnionType):
        return any(_is(value, one) for one in within)
    if of is tuple:
        if not isinstance(value, tuple | list):
            return False
        each = within[:1] * len(value) if within[-1] is ... else within
        return len(each) == len(value) and all(map(_is, value, each))
    if of is not None:
        return isinstance(value, of)
    if kind in (int, float):
        number = Real if kind is float else Integral
        return isinstance(value, number) and not isinstance(value, bool)
    return isinstance(value, kind)


def facts(card: object) -> dict[str, Any]:
    """A card as plain JSON types, for keys, provenance and lists."""
    plain: dict[str, Any] = json.loads(json.dumps(asdict(card)))  # type: ignore[call-overload]
    return plain
