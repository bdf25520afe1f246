"""Files of JSON that hold something else: half of a document, brackets, control characters."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from ecgbench.core.folders import DONE
from ecgbench.core.seeds import rng
from tests.soak.families.results import AFTER, follow, kinds
from tests.soak.place import Place
from tests.soak.row import Row

MALFORMED: dict[str, bytes] = {
    "half of a document": b'{"a": ',
    "a list": b"[]",
    "null": b"null",
    "an empty object": b"{}",
    "NaN": b'{"hash": NaN}',
    "100,000 brackets": b"[" * 100_000,
    "no UTF-8": b'{"a": "\xff\xfe"}',
    "control characters": b'{"\\u001b[31m": "\\r"}',
}


def rows(bases: Mapping[str, Place]) -> Iterator[Row]:
    """Of each kind of JSON file, and of the reason of a cell that has none."""
    place = bases["study"]
    found = {**kinds(place.out), **kinds(place.prepared)}
    files = {
        kind: those[int(rng("soak", kind).integers(len(those)))].relative_to(place.folder)
        for kind, those in found.items()
        if kind.endswith((".json", DONE, ".jsonl"))
    }
    cell = sorted((place.out / "cells").glob("*/*/*/*"))[0].relative_to(place.out / "cells")
    reason = Path("run", "reasons", *cell.parts[:3], f"{cell.name[:32]}.json")
    for kind, file in {**files, "reasons/*/*/*/*.json": reason}.items():
        for how, content in MALFORMED.items():
            for then in AFTER if "DONE" in kind else AFTER[1:]:
                act = partial(_write, file, content, then)
                yield Row("malformed", f"{kind} is {how}, then {then}", "study", act)


def _write(file: Path, content: bytes, then: str, place: Place) -> None:
    (place.folder / file).parent.mkdir(parents=True, exist_ok=True)
    (place.folder / file).write_bytes(content)
    place.harmed.append(place.folder / file)
    follow(then, place)
