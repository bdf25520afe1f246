"""Files that can be read and say something else: one value of a JSON file edited, texts that are no
JSON, tables with impossible values under hashes that fit.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ecgbench.core.files import as_json
from ecgbench.core.folders import DONE
from ecgbench.core.seeds import rng
from tests.soak.families.results import AFTER, follow, kinds
from tests.soak.place import Place
from tests.soak.row import Row

LEAVES = 6
"""Values of a kind of file that are edited; all of those that decide."""
DECIDING = ("plan.toml", "meta.json")
OTHER_WORDS = {"random": "released", "released": "random", "I": "II", "12": "11", "cpu": "cuda"}
MALFORMED: dict[str, bytes] = {
    "half of a document": b'{"a": ',
    "a list": b"[]",
    "a number": b"7",
    "null": b"null",
    "an empty object": b"{}",
    "NaN": b'{"hash": NaN}',
    "1e999": b'{"format": 1e999}',
    "100,000 brackets": b"[" * 100_000,
    "no UTF-8": b'{"a": "\xff\xfe"}',
    "a NUL": b'{"a": "\0"}',
    "a surrogate": b'{"format": 2, "plan": "\\ud800"}',
    "a number of 5,000 digits": b'{"format": ' + b"9" * 5000 + b"}",
    "control characters": b'{"\\u001b[31m": "\\r"}',
}
Edit = Callable[[pd.DataFrame], pd.DataFrame]


def _cell(column: str, value: object) -> Edit:
    """The first row of a column that begins so has another value."""

    def edit(table: pd.DataFrame) -> pd.DataFrame:
        name = next(n for n in table.columns if str(n).startswith(column))
        changed = table.astype({name: str if isinstance(value, str) else float})
        changed.loc[0, name] = value
        return changed

    return edit


PREDICTIONS: dict[str, Edit] = {
    **{
        f"a probability of {v}": _cell("probability:", v)
        for v in (-0.1, 1.5, np.nan, np.inf, -np.inf)
    },
    **{f"a label of {v}": _cell("target:", v) for v in (2, -3, 0.5, np.nan)},
    "a probability that is a word": _cell("probability:", "high"),
    "no rows": lambda t: t.iloc[:0],
    "a row less": lambda t: t.iloc[1:].reset_index(drop=True),
    "a row twice": lambda t: pd.concat([t, t.iloc[:1]], ignore_index=True),
    "a record unknown": _cell("record", "nobody"),
    "a patient unknown": _cell("patient", "nobody"),
    "a record that is no word": lambda t: t.assign(record=range(len(t))),
    "a column less": lambda t: t.iloc[:, :-1],
    "a column more": lambda t: t.assign(extra=1),
    "a column twice": lambda t: t.rename(columns={t.columns[-1]: t.columns[-2] + " "}),
    "columns renamed": lambda t: t.rename(columns=lambda n: f"{n}x"),
    "records unsorted": lambda t: t.iloc[::-1].reset_index(drop=True),
}
TABLES: dict[str, Edit] = {
    name: PREDICTIONS[name]
    for name in ("no rows", "a column less", "columns renamed", "a row less", "a row twice")
}


def rows(bases: Mapping[str, Place]) -> Iterator[Row]:
    """Of each kind of JSON file and of each kind of table."""
    place = bases["study"]
    found = {**kinds(place.out), **kinds(place.prepared)}
    for kind, files in found.items():
        file = files[int(rng("soak", kind).integers(len(files)))].relative_to(place.folder)
        if kind.endswith((".json", DONE, ".jsonl")):
            yield from _malformed(kind, file)
        if kind.endswith(".json") and not kind.startswith("derived"):
            yield from _edited(kind, file, place)
        if kind.endswith(".parquet"):
            yield from _forged(kind, file)
    yield from _malformed("reasons/*/*/*/*.json", _reason(place))


def _malformed(kind: str, file: Path) -> Iterator[Row]:
    for how, content in MALFORMED.items():
        for then in AFTER if "plan" in kind or "DONE" in kind else AFTER[1:]:
            act = partial(_write, file, content, then)
            yield Row("edits", f"{kind} is {how}, then {then}", "study", act)


def _write(file: Path, content: bytes, then: str, place: Place) -> None:
    (place.folder / file).parent.mkdir(parents=True, exist_ok=True)
    (place.folder / file).write_bytes(content)
    place.harmed.append(place.folder / file)
    follow(then, place)


def _reason(place: Place) -> Path:
    """Where the reason of a cell would stand that has none."""
    cell = sorted((place.out / "cells").glob("*/*/*/*"))[0].relative_to(place.out / "cells")
    return Path("run", "reasons", *cell.parts[:3], f"{cell.name[:32]}.json")


def _edited(kind: str, file: Path, place: Place) -> Iterator[Row]:
    try:
        document = json.loads((place.folder / file).read_text())
    except ValueError:  # its own hash stands before it
        return
    leaves = list(_leaves(document))
    if kind not in DECIDING:
        drawn = rng("soak", "leaves", kind).permutation(len(leaves))[:LEAVES]
        leaves = [leaves[i] for i in sorted(drawn)]
    for path, value in leaves:
        for how, other in _others(value):
            where = ".".join(map(str, path))
            for then in AFTER if kind in DECIDING else [AFTER[len(where) % 2]]:
                act = partial(_change, file, path, other, then)
                yield Row("edits", f"{kind}: {where} is {how}, then {then}", "study", act)


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Paths of values that are no objects or lists; of a long list the first alone."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, (*path, name))
    elif isinstance(value, list) and value:
        yield from _leaves(value[0], (*path, 0))
        yield path, value
    elif path:
        yield path, value


def _others(value: Any) -> Iterator[tuple[str, Any]]:
    """What a value is changed to, and words for it."""
    if isinstance(value, bool):
        yield "the opposite", not value
    elif isinstance(value, int | float):
        yield "one more", value + 1
        yield "a word", "x"
    elif isinstance(value, str):
        other = OTHER_WORDS.get(value, value + "x")
        yield f"another word ({other[:20]})", other
        yield "a number", 7
    elif isinstance(value, list):
        yield "a list without its last", value[:-1]
    else:
        yield "a word", "x"


def _change(file: Path, path: tuple[Any, ...], other: Any, then: str, place: Place) -> None:
    target = place.folder / file
    document = json.loads(target.read_text())
    inner = document
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = other
    target.write_text(as_json(document))
    place.harmed.append(target)
    follow(then, place)


def _forged(kind: str, file: Path) -> Iterator[Row]:
    in_detail = kind.endswith(("predictions.parquet", "validation.parquet"))
    for how, edit in (PREDICTIONS if in_detail else TABLES).items():
        for then in AFTER if kind.startswith(("cells", "fits")) else AFTER[1:]:
            name = f"{kind} has {how} under a hash that fits, then {then}"
            yield Row("edits", name, "study", partial(_reseal, file, edit, then))


def _reseal(file: Path, edit: Edit, then: str, place: Place) -> None:
    target = place.folder / file
    edit(pd.read_parquet(target)).to_parquet(target, index=False)
    done = target.with_name(DONE)
    if done.exists():
        hashes = json.loads(done.read_text())
        hashes[target.name] = hashlib.sha256(target.read_bytes()).hexdigest()
        done.write_text(as_json(hashes))
    place.harmed.append(target)
    follow(then, place)
