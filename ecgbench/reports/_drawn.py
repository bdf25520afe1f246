"""Pictures that were drawn before are read, not drawn again: drawing is most of the time of a
report whose numbers are kept.

A picture is known by all that it is drawn from: the function, the numbers it is given, the caption,
the size, and the code of this package and of matplotlib. A figure whose function holds anything
else is drawn every time.
"""

import hashlib
import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from types import FunctionType
from typing import Any

from ecgbench.core.files import put
from ecgbench.errors import WriteError
from ecgbench.reports._figure import pictures
from ecgbench.reports._section import Figure


def drawn(figure: Figure, kept: Path | None) -> dict[str, bytes]:
    """PNG, SVG and PDF of a figure; `kept`: folder of pictures that were drawn before, or None."""
    name = _key(figure) if kept else None
    if kept is None or name is None:
        return pictures(figure)
    file = kept / name
    if (known := _read(file)) is not None:
        return known
    made = pictures(figure)
    content = b"".join(made.values())
    sizes = {kind: len(picture) for kind, picture in made.items()}
    head = json.dumps({"sha256": _seal(name, sizes, content), "sizes": sizes})
    with suppress(WriteError):  # a run folder that is only read is no error
        put(file, head.encode() + b"\n" + content)
    return made


def draw(figure: Figure, kept: Path) -> None:
    """Draw one that was not drawn before, where it can be kept."""
    name = _key(figure)
    if name is not None and not (kept / name).is_file():
        drawn(figure, kept)


def _read(file: Path) -> dict[str, bytes] | None:
    """None where it was not kept, or is not what was written."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        head, content = file.read_bytes().split(b"\n", 1)
        said = json.loads(head)
        if said["sha256"] != _seal(file.name, said["sizes"], content):
            return None
        made, at = {}, 0
        for kind, size in said["sizes"].items():
            made[kind] = content[at : at + size]
            at += size
        return made
    return None


def _seal(name: str, sizes: Mapping[str, int], content: bytes) -> str:
    """A hash of a file's name and of all that it holds, so that a copy under another name is not
    believed.
    """
    return hashlib.sha256(json.dumps([name, sizes]).encode() + b"\n" + content).hexdigest()


def _key(figure: Figure) -> str | None:
    """None where it cannot be told what it is drawn from."""
    digest = hashlib.sha256()
    try:
        for text in _spelled([_code(), figure.draw, figure.caption, figure.size]):
            digest.update(text.encode())
            digest.update(b"\0")
    except TypeError:
        return None
    return digest.hexdigest()


@cache
def _code() -> str:
    """Of everything that may draw."""
    package = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256("".join(map(version, ("matplotlib", "numpy"))).encode())
    for file in sorted(package.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _spelled(value: Any) -> Iterator[str]:
    """Everything that a value says, in order; TypeError where that cannot be told."""
    if value is None or isinstance(value, bool | int | float | str):
        yield f"{type(value).__name__} {value!r}"
    elif isinstance(value, partial):
        yield from _spelled([value.func, list(value.args), value.keywords])
    elif isinstance(value, FunctionType):
        yield from _function(value)
    elif is_dataclass(value) and not isinstance(value, type):
        yield type(value).__qualname__
        yield from _spelled({field.name: getattr(value, field.name) for field in fields(value)})
    elif isinstance(value, Mapping):
        yield f"mapping {len(value)}"
        for key, one in value.items():
            yield from _spelled(key)
            yield from _spelled(one)
    elif isinstance(value, Sequence):
        yield f"sequence {len(value)}"
        for one in value:
            yield from _spelled(one)
    else:
        yield from _array(value)


def _function(value: FunctionType) -> Iterator[str]:
    if inspect.getclosurevars(value).nonlocals:
        raise TypeError(f"{value} holds more than is seen")
    yield f"{value.__module__}.{value.__qualname__}"
    yield from _spelled([value.__defaults__, value.__kwdefaults__])
    with suppress(OSError):  # of a plug-in; the package's own are in `_code`
        yield inspect.getsource(inspect.getmodule(value) or value)


def _array(value: Any) -> Iterator[str]:
    """Of numpy and pandas."""
    import numpy as np
    import pandas as pd

    if isinstance(value, np.generic):
        yield f"{value.dtype} {value.item()!r}"
    elif isinstance(value, np.ndarray) and value.dtype != object:
        yield f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    elif isinstance(value, pd.DataFrame):
        yield str(value.dtypes.to_dict())
        yield value.to_csv()
    else:
        raise TypeError(f"{type(value).__name__} cannot be spelled")
