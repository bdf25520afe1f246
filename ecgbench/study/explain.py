"""Explains the number of a cell: its facts, and what two cells differ in."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ecgbench.errors import BadSetting, MissingData
from ecgbench.study.store import Store, flat, noted
from ecgbench.study.stored import Result

SHORTEST = 4
"""Least number of characters that may abbreviate a key."""
_ABOUT = ("key", "fit", "weights_name", "weights_sha256", "n_records", "excluded", "windows")


def result_of(store: Store, text: str) -> Result:
    """The finished cell that `text` names: its folder, the beginning of its key, its identity or
    its label. BadSetting where it names none or several; MissingData, with the reason, where the
    cell has no number.
    """
    plan, found = store.existing_plan(), []
    begins = Path(text).name.lower()
    for cell in plan.cells:
        folder, named = store.folder(cell), text in (cell.identity, cell.label)
        if named and folder is None:
            raise MissingData("{} has no number, it is {}: {}".format(text, *store.state(cell)))
        if folder is None:
            continue
        names = (folder.name, str(noted(folder).get("key"))) if len(begins) >= SHORTEST else ()
        if named or any(name.startswith(begins) for name in names):
            found.append(Result(cell=cell, run=store.path, folder=folder))
    if len(found) == 1:
        return found[0]
    some = "; ".join(result.cell.identity for result in found[:5])
    raise BadSetting(
        f"{text!r} names {len(found)} cells, such as {some}; name one"
        if found
        else f"{text!r} is no cell of {store.path}: name a folder, the beginning of a key, or an "
        f"identity"
    )


def _facts(result: Result) -> dict[str, Any]:
    """Everything that was hashed for a cell and for its fit, flat: "contract.fs", "fit:
    training.lr".
    """
    own = dict(result.document["key_facts"])
    fit = {"key": own.pop("fit")}
    fit = flat(result.fitted.get("key_facts", fit))
    return {**flat(own), **{f"fit: {name}": value for name, value in fit.items()}}


def _scores(result: Result) -> dict[str, float]:
    """Metric and label -> value."""
    columns = result.scored()
    rows = zip(*(columns[name] for name in ("metric", "label", "value")))
    return {f"{metric} {label}": float(value) for metric, label, value in rows}


def description(result: Result) -> Iterator[str]:
    """Lines about one cell: identity, scores, origin, and every hashed fact; Damaged."""
    document = result.document
    features, code = document["features"], document["code"]
    commit = f", commit {code['commit']}" if code.get("commit") else ""
    yield document["identity"]
    yield from (f"  {name}: {document[name]}" for name in (*_ABOUT, "seconds"))
    yield f"  features: {features['path'] if features else 'none were kept'}"
    yield f"  code: {code['version']}{commit}"
    yield f"scores ({result.folder.relative_to(result.run)}/scores.parquet)"
    yield from (f"  {label}: {value:.6g}" for label, value in _scores(result).items())
    yield "facts that its key and the key of its fit are made of"
    yield from (f"  {name}: {_short(value)}" for name, value in _facts(result).items())


def difference(a: Result, b: Result) -> Iterator[str]:
    """Lines about two cells: hashed facts that differ, then both scores; Damaged."""
    yield f"a: {a.cell.identity}"
    yield f"b: {b.cell.identity}"
    ours, theirs = _facts(a), _facts(b)
    names = [n for n in {**ours, **theirs} if ours.get(n) != theirs.get(n)]
    yield "facts that differ" if names else "the keys are made of the same facts"
    yield from (f"  {n}: {_short(ours.get(n))} | {_short(theirs.get(n))}" for n in names)
    yield "scores: a | b | a - b"
    first, second = _scores(a), _scores(b)
    for label in [n for n in first if n in second]:
        x, y = first[label], second[label]
        yield f"  {label}: {x:.6g} | {y:.6g} | {x - y:+.6g}"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 160 else f"{text[:157]}..."
