"""The folder of a pre-training: one recipe, one corpus, one process at a time."""

import json
from contextlib import AbstractContextManager
from hashlib import sha256
from pathlib import Path
from typing import Any

from ecgbench.core import files
from ecgbench.core.files import as_json, facts_of, put, sweep
from ecgbench.errors import BadSetting, BadWeights

RECIPE = "recipe.json"


def demand(out: Path, identity: dict[str, Any]) -> None:
    """BadSetting where `out` holds a pre-training that differs from `identity` in more than its
    number of steps, or one that an earlier version carried there with rounded moments.
    """
    if rounded := next(out.glob("stage?/carried.json"), None):
        raise BadSetting(
            f"{rounded}: this pre-training was taken from machine to machine with --carry, which "
            f"is no longer there; choose another --out"
        )
    path = out / RECIPE
    if path.is_file() and (differing := _differing(read(path), identity)):
        raise BadSetting(
            f"{path} is of another pre-training: it differs in {', '.join(differing)}; choose "
            f"another --out"
        )


def claim(out: Path, identity: dict[str, Any]) -> None:
    """Write down whose folder it is, and remove what dead writers left in it."""
    sweep(out)
    if not (out / RECIPE).is_file():
        put(out / RECIPE, as_json(identity))


def alone(out: Path) -> AbstractContextManager[None]:
    """One pre-training at a time in a folder; BadSetting where another is at work."""
    return files.locked(
        out,
        otherwise=f"another pre-training is at work in {out}; wait for it, or choose another --out",
    )


def read(path: Path) -> Any:
    """A JSON file of the folder; BadWeights where it is damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return facts_of(content) if isinstance(content, dict) else content
    except (OSError, ValueError) as error:
        raise BadWeights(
            f"{path} cannot be read; remove its folder and run the same command again, or choose "
            f"another --out"
        ) from error


def demand_unchanged(file: Path, digest: str | None, remove: Path) -> None:
    """BadWeights where a file is not the one whose sha256 was recorded; an earlier version recorded
    none. remove: what must go, so that the file is made again.
    """
    found = sha256(file.read_bytes()).hexdigest() if file.is_file() else ""
    if digest not in (None, found):
        raise BadWeights(
            f"{file} is not what was written there; remove {remove} and run the same command "
            f"again, which makes both anew"
        )


def unless_equal(path: Path, report: dict[str, Any]) -> dict[str, Any]:
    """The report of a finished pre-training, or what stands in `path` where that differs in code
    and machine only: nothing was made.
    """
    plain: dict[str, Any] = json.loads(as_json(report))
    before = read(path) if path.is_file() else {}
    return before if before | {"made_with": 0} == plain | {"made_with": 0} else plain


def _differing(first: dict[str, Any], second: dict[str, Any]) -> list[str]:
    """Names of what differs; more steps are none, for a stage can be prolonged, and recordings per
    pass its checkpoint compares.
    """
    names = []
    for k in sorted({*first, *second}):
        a, b = first.get(k), second.get(k)
        if isinstance(a, dict) and isinstance(b, dict):
            names += [f"{k}.{name}" for name in _differing(a, b)]
        elif k == "stages" and isinstance(a, list) and isinstance(b, list):
            free = {"steps": 0, "micro": 0}
            names += [
                f"stages.{i}.{name}"
                for i, (x, y) in enumerate(zip(a, b), 1)
                for name in _differing({**x, **free}, {**y, **free})
            ]
        elif a != b:
            names.append(k)
    return names
