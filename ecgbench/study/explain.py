"""Why a cell has the number it has: its facts, and what two cells differ in."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ecgbench.core.folders import finished, read_table
from ecgbench.errors import BadSetting, MissingData
from ecgbench.results import whole
from ecgbench.study.store import Store, cells_of

SHORTEST = 4
"""Characters of a key, at least, that may stand for it."""
_ABOUT = ("key", "fit", "weights_name", "weights_sha256", "n_records", "excluded", "windows")


@dataclass(frozen=True, kw_only=True)
class Explained:
    """A finished cell and its fit."""

    folder: str
    """Inside the run."""
    document: dict[str, Any]
    """cell.json."""
    fit: dict[str, Any]
    """fit.json, or {} where the fit is gone."""
    scores: dict[str, float]
    """Metric and label -> value."""

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Everything that was hashed for the cell and for its fit, flat: "contract.fs", "fit:
        training.lr".
        """
        own = {k: v for k, v in self.document["key_facts"].items() if k != "fit"}
        fit = flat(self.fit.get("key_facts", {"key": self.document["key_facts"]["fit"]}))
        return {**flat(own), **{f"fit: {k}": v for k, v in fit.items()}}


def explained(store: Store, text: str) -> Explained:
    """The cell that `text` names: a folder, the beginning of a key, an identity or a label.

    BadSetting where it names none or several; MissingData where the cell has no number, with the
    reason; Damaged where its files, or those of its fit, are not what the run wrote.
    """
    folder = _folder(store, text)
    document = whole.cell_document(folder)
    fit = store.path / document["fit"]
    table = read_table(folder, whole.SCORES)
    scores = whole.scored(folder, whole.SCORES, table, int(document["n_records"]))
    return Explained(
        folder=folder.relative_to(store.path).as_posix(),
        document=document,
        fit=whole.fit_document(fit) if finished(fit) else {},
        scores={
            f"{metric} {label}": float(value)
            for metric, label, value in zip(*(scores[c] for c in ("metric", "label", "value")))
        },
    )


def _folder(store: Store, text: str) -> Path:
    plan = store.existing_plan()
    for cell in plan.cells:
        if text in (cell.identity, cell.label):
            if folder := store.folder(cell):
                return folder
            raise MissingData("{} has no number, it is {}: {}".format(text, *store.state(cell)))
    places = Path(text).resolve(), (store.path / text).resolve()
    begins = text.lower() if len(text) >= SHORTEST else None
    found = [
        folder
        for folder in cells_of(store.path)
        if folder.resolve() in places or (begins and folder.name.startswith(begins))
    ]
    if len(found) == 1:
        return found[0]
    if found:
        some = "; ".join(str(folder.relative_to(store.path)) for folder in found[:5])
        raise BadSetting(f"{text!r} names {len(found)} cells, such as {some}; name one")
    example = f", for example {plan.cells[0].identity!r}" if plan.cells else ""
    raise BadSetting(
        f"{text!r} is no cell of {store.path}: name a folder, the beginning of a key, or an "
        f"identity{example}"
    )


def flat(facts: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Nested facts with dotted names; lists stay values.

    >>> flat({"contract": {"fs": 100, "leads": ["I"]}, "seed": 0})
    {'contract.fs': 100, 'contract.leads': ['I'], 'seed': 0}
    """
    result: dict[str, Any] = {}
    for name, value in facts.items():
        nested = isinstance(value, Mapping) and value
        result |= flat(value, f"{before}{name}.") if nested else {f"{before}{name}": value}
    return result


def description(cell: Explained) -> Iterator[str]:
    """Lines about one cell: what it is, its scores, where it comes from, and every fact that was
    hashed.
    """
    document = cell.document
    features, code = document["features"], document["code"]
    commit = f", commit {code['commit']}" if code.get("commit") else ""
    yield document["identity"]
    yield from (f"  {name}: {document[name]}" for name in (*_ABOUT, "seconds"))
    yield f"  features: {features['path'] if features else 'none were kept'}"
    yield f"  code: {code['version']}{commit}"
    yield f"scores ({cell.folder}/scores.parquet)"
    yield from (f"  {label}: {value:.6g}" for label, value in cell.scores.items())
    yield "facts that its key and the key of its fit are made of"
    yield from (f"  {name}: {_short(value)}" for name, value in cell.facts.items())


def difference(a: Explained, b: Explained) -> Iterator[str]:
    """Lines about what two cells differ in: hashed facts, then scores."""
    yield f"a: {a.document['identity']}"
    yield f"b: {b.document['identity']}"
    ours, theirs = a.facts, b.facts
    names = [n for n in {**ours, **theirs} if ours.get(n) != theirs.get(n)]
    yield "facts that differ" if names else "the keys are made of the same facts"
    yield from (f"  {n}: {_short(ours.get(n))} | {_short(theirs.get(n))}" for n in names)
    yield "scores: a | b | a - b"
    for label in [n for n in a.scores if n in b.scores]:
        x, y = a.scores[label], b.scores[label]
        yield f"  {label}: {x:.6g} | {y:.6g} | {x - y:+.6g}"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 160 else f"{text[:157]}..."
