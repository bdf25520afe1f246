"""Compares a run with the hashes that were recorded when it was written: the files that a report
uses when it opens the run, those that a run reuses, and everything for `--verify`.

Each file is read and hashed; sizes and times are never trusted. A fit that cells share is read
once.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ecgbench.cards.cell import Cell
from ecgbench.core.files import quarantine, sha256_of
from ecgbench.core.folders import damaged, demand_intact, finished
from ecgbench.core.keys import key
from ecgbench.errors import BadSetting, Damaged
from ecgbench.study import frozen, invocation, people
from ecgbench.study.store import Store
from ecgbench.study.stored import CELL, FIT, Result, document_of, pooled_damaged


@dataclass(frozen=True, kw_only=True, eq=False)
class Verifier:
    """Checks cells and fits of one run."""

    store: Store
    models: dict[str, dict[str, Any]]
    """sha256 -> facts of intact files."""
    datasets: dict[str, dict[str, Any]]
    study: str
    """Of the settings that all cells of the run have in common."""
    _fits: dict[tuple[Path, bool], Damaged | None] = field(default_factory=dict, init=False)

    @classmethod
    def of(cls, store: Store) -> "Verifier":
        """Of a run, with its facts."""
        plan = store.plan()
        study = key(plan.shared()) if plan else ""
        models, data = store.facts("models"), store.facts("datasets")
        return cls(store=store, models=models, datasets=data, study=study)

    def demand_files(self, result: Result) -> None:
        """Damaged where a file of a cell, besides cell.json, has a wrong hash."""
        demand_intact(result.folder, lambda name: name == CELL, result.hashes)

    def demand_documents(self, result: Result) -> None:
        """Damaged where cell.json does not belong to the cell or to the run, its facts are gone, or
        a file of its fit, besides the weights, has a wrong hash. A missing fit is not damage.
        """
        if result.document.get("study") != self.study:
            raise damaged(result.folder, result.folder, "is of a run with other settings")
        for kind, read in (("model", self.models), ("dataset", self.datasets)):
            sha256 = str(result.document.get(kind))
            if sha256 not in read:
                file = self.store.path / f"{kind}s" / f"{sha256}.json"
                raise damaged(file, result.folder, "is gone" if not file.exists() else "")
        if finished(result.fit_folder):
            self.demand_fit(result.fit_folder, weights=False)

    def demand_fit(self, folder: Path, weights: bool = True) -> None:
        """Damaged where a finished fit is not intact. weights: whether they are compared."""
        known = folder, weights
        if known not in self._fits:
            self._fits[known] = fault(_demand_fit, folder, weights)
        if error := self._fits[known]:
            raise Damaged(*error.args)


class Intact:
    """Compares what is stored with its hashes before it is used again; a damaged folder is
    quarantined.
    """

    def __init__(self, store: Store) -> None:
        self.store, self._verifier = store, Verifier.of(store)

    def cell(self, cell: Cell) -> bool:
        """Whether a cell is there, with all of it and its features as they were written. Features
        that are not there are none to compare: they may be removed to free disk.
        """
        if (folder := self.store.folder(cell)) is None:
            return False
        result = Result(cell=cell, run=self.store.path, folder=folder)
        whole = self._is_whole(folder, self._verifier.demand_files, result)
        if not (whole and self._is_whole(folder, self._verifier.demand_documents, result)):
            return False
        if pooled_damaged(self.store.path, reference := result.document["features"]):
            quarantine(self.store.path / reference["path"])
            return False
        return True

    def fit(self, folder: Path) -> bool:
        """Whether a finished fit is as it was written."""
        return self._is_whole(folder, self._verifier.demand_fit, folder)

    def cell_and_fit(self, cell: Cell) -> bool:
        """Whether a cell is there, and its fit, both as they were written."""
        if not self.cell(cell) or (folder := self.store.folder(cell)) is None:
            return False
        fitted = Result(cell=cell, run=self.store.path, folder=folder).fit_folder
        return finished(fitted) and self.fit(fitted)

    def _is_whole(self, folder: Path, demand: Callable[..., object], of: Any) -> bool:
        if error := fault(demand, of):
            quarantine(folder, f"is damaged ({str(error).split(';')[0]})")
        return error is None


def _demand_fit(folder: Path, weights: bool) -> None:
    demand_intact(folder, lambda name: not weights and name.endswith(".safetensors"))
    document_of(folder, FIT)


def faults(store: Store) -> Iterator[str]:
    """Every damage in a run, one sentence each."""
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
        yield from map(str, frozen.warnings(store.path))


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
    """The message of Damaged that `demand` raises; None where it raises none."""
    try:
        demand(*of)
    except Damaged as error:
        return error
    return None
