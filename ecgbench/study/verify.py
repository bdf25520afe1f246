"""Compares what a run holds with what was recorded when it was written: what a report rests on when
it opens the run, what a run reuses before it does so, and everything for `--verify`.

Each file is read and hashed; sizes and times are believed nowhere. A fit that cells share is read
once.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ecgbench.core.cells import Cell
from ecgbench.core.files import sha256_of
from ecgbench.core.folders import damaged, demand_intact, finished
from ecgbench.errors import BadSetting, Damaged
from ecgbench.study import frozen, invocation, people
from ecgbench.study.store import Store
from ecgbench.study.stored import CELL, FIT, Result, document_of, pooled_damaged


@dataclass(frozen=True, kw_only=True, eq=False)
class Verifier:
    """Of the cells and fits of one run, as they are now."""

    store: Store
    models: dict[str, dict[str, Any]]
    """sha256 -> facts, of files that hold them."""
    datasets: dict[str, dict[str, Any]]
    _fits: dict[tuple[Path, bool], Damaged | None] = field(default_factory=dict, init=False)

    @classmethod
    def of(cls, store: Store) -> "Verifier":
        """Of a run, with its facts as they lie there."""
        return cls(store=store, models=store.facts("models"), datasets=store.facts("datasets"))

    def demand_files(self, result: Result) -> None:
        """Damaged where a file of a cell, but cell.json, is not what its hash says."""
        demand_intact(result.folder, lambda name: name == CELL, result.hashes)

    def demand_documents(self, result: Result) -> None:
        """Damaged where cell.json is not that of the cell, the facts that it names are gone, or a
        file of its fit, but its weights, is not what its hash says. A fit that is gone is none.
        """
        for kind, read in (("model", self.models), ("dataset", self.datasets)):
            sha256 = str(result.document.get(kind))
            if sha256 not in read:
                file = self.store.path / f"{kind}s" / f"{sha256}.json"
                raise damaged(file, result.folder, "is gone" if not file.exists() else "")
        if finished(result.fit_folder):
            self.demand_fit(result.fit_folder, weights=False)

    def demand_fit(self, folder: Path, weights: bool = True) -> None:
        """Damaged where a finished fit is not what it says. weights: whether they are compared."""
        known = folder, weights
        if known not in self._fits:
            self._fits[known] = fault(_demand_fit, folder, weights)
        if error := self._fits[known]:
            raise Damaged(*error.args)


def _demand_fit(folder: Path, weights: bool) -> None:
    demand_intact(folder, lambda name: not weights and name.endswith(".safetensors"))
    document_of(folder, FIT)


def faults(store: Store) -> Iterator[str]:
    """Everything in a run that is not what was written, one sentence each."""
    try:
        plan = store.existing_plan()
    except BadSetting as error:
        yield str(error)
        return
    verifier = Verifier.of(store)
    # cells share fits, and a fit is named once
    yield from dict.fromkeys(fault for cell in plan.cells for fault in _of_cell(verifier, cell))
    for kind, known in (("models", verifier.models), ("datasets", verifier.datasets)):
        yield from (str(damaged(file)) for file in store.files_of(kind) if file.stem not in known)
    if wrong := fault(invocation.stored, store):
        yield str(wrong)
    for file in sorted((store.path / "policies").glob("[!.]*.safetensors")):
        if sha256_of(file) != file.stem:
            yield str(damaged(file))
    yield from people.faults(store.path)
    with suppress(BadSetting):
        yield from frozen.warnings(store.path)


def _of_cell(verifier: Verifier, cell: Cell) -> Iterator[str]:
    """The first fault of a cell, of its fit, or of its features."""
    if folder := verifier.store.folder(cell):
        result = Result(cell=cell, run=verifier.store.path, folder=folder)
        if error := fault(_demand_all, verifier, result):
            yield str(error)
        return
    status, reason = verifier.store.state(cell)
    if status == "damaged":
        yield reason


def _demand_all(verifier: Verifier, result: Result) -> None:
    verifier.demand_files(result)
    verifier.demand_documents(result)
    if finished(result.fit_folder):
        verifier.demand_fit(result.fit_folder)
    if pooled_damaged(result.run, reference := result.document["features"]):
        raise damaged(result.run / reference["path"], result.folder)


def fault(demand: Callable[..., object], *of: Any) -> Damaged | None:
    """What is wrong with something that is demanded to be whole; None where nothing is."""
    try:
        demand(*of)
    except Damaged as error:
        return error
    return None
