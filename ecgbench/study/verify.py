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
from ecgbench.study.stored import CELL, Result, fit_document, pooled_damaged


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
        self._demand_known(result)
        if finished(result.fit_folder):
            self.demand_fit(result.fit_folder, weights=False)

    def demand_whole(self, result: Result) -> None:
        """The same of a cell alone, and that its values can be."""
        self._demand_known(result)
        demand_intact(result.folder, hashes=result.hashes)
        result.predictions()
        result.scores()

    def demand_fit(self, folder: Path, weights: bool = True) -> None:
        """Damaged where a finished fit is not what it says. weights: whether they are compared."""
        known = folder, weights
        if known not in self._fits:
            self._fits[known] = fault(_demand_fit, folder, weights)
        if error := self._fits[known]:
            raise Damaged(*error.args)

    def _demand_known(self, result: Result) -> None:
        """Damaged where cell.json is not that of the cell, or the facts that it names are gone."""
        for kind, read in (("model", self.models), ("dataset", self.datasets)):
            sha256 = str(result.document.get(kind))
            if sha256 not in read:
                file = self.store.path / f"{kind}s" / f"{sha256}.json"
                raise damaged(file, result.folder, "is gone" if not file.exists() else "")


def _demand_fit(folder: Path, weights: bool) -> None:
    demand_intact(folder, lambda name: not weights and name.endswith(".safetensors"))
    fit_document(folder)


def faults(store: Store) -> Iterator[str]:
    """Everything in a run that is not what was written, one sentence each."""
    try:
        plan = store.existing_plan()
    except BadSetting as error:
        yield str(error)
        return
    verifier = Verifier.of(store)
    # cells share fits, and a fit is named once
    yield from dict.fromkeys(
        fault for cell in plan.cells for fault in _faults_of_cell(verifier, cell)
    )
    for kind, known in (("models", verifier.models), ("datasets", verifier.datasets)):
        yield from (str(damaged(file)) for file in store.files_of(kind) if file.stem not in known)
    yield from _sentences(invocation.stored, store)
    yield from _sentences(_demand_named, store.path)
    yield from people.faults(store.path)
    with suppress(BadSetting):
        yield from frozen.warnings(store.path)


def _faults_of_cell(verifier: Verifier, cell: Cell) -> Iterator[str]:
    if folder := verifier.store.folder(cell):
        result = Result(cell=cell, run=verifier.store.path, folder=folder)
        own = list(_sentences(verifier.demand_whole, result))
        yield from own or _sentences(_demand_rest, verifier, result)
        return
    status, reason = verifier.store.state(cell)
    if status == "damaged":
        yield reason
    elif (lost := verifier.store.told_finished(cell)) is not None:
        yield (
            f"{lost} is gone, and {verifier.store.index.file.name} says that it is finished; the "
            f"same `ecgbench run` command computes it again"
        )


def _sentences(demand: Callable[..., object], *of: Any) -> Iterator[str]:
    if error := fault(demand, *of):
        yield str(error)


def fault(demand: Callable[..., object], *of: Any) -> Damaged | None:
    """What is wrong with something that is demanded to be whole; None where nothing is."""
    try:
        demand(*of)
    except Damaged as error:
        return error
    return None


def _demand_rest(verifier: Verifier, result: Result) -> None:
    """The fit of a cell with all its files, and its features."""
    if finished(result.fit_folder):
        verifier.demand_fit(result.fit_folder)
        result.validation()
    if pooled_damaged(result.run, reference := result.document["features"]):
        raise damaged(result.run / reference["path"], result.folder)


def _demand_named(run: Path) -> None:
    """What is named by its own hash."""
    for file in sorted((run / "policies").glob("[!.]*.safetensors")):
        if sha256_of(file) != file.stem:
            raise damaged(file)
