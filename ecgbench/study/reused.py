"""What a job finds in the store is compared with what was recorded before it is used again; what is
not that is set aside, named in a line, and computed again.
"""

from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from ecgbench.core.cells import Cell
from ecgbench.errors import Damaged
from ecgbench.results.aside import set_aside
from ecgbench.results.pooled import is_damaged
from ecgbench.results.result import Result
from ecgbench.results.verify import Verifier
from ecgbench.study.folders import finished
from ecgbench.study.store import Store


class Reused:
    """Cells, fits and features of one run."""

    def __init__(self, store: Store, note: Callable[[str], None]) -> None:
        """`note` takes a line for each that is set aside."""
        self.store, self.note = store, note
        self._features: dict[str, bool] = {}
        """Path in the run -> whether the file was damaged; cells of several tasks share it."""

    @cached_property
    def verifier(self) -> Verifier:
        """Made when it is first asked, for the facts of the job are stored by then."""
        return Verifier.of(self.store)

    def fit(self, folder: Path) -> bool:
        """Whether a fit is there, with all of it as it was written."""
        if not finished(folder):
            return False
        try:
            self.verifier.demand_fit(folder)
        except Damaged as error:
            self._aside(folder, error)
            return False
        return True

    def cell(self, cell: Cell) -> bool:
        """Whether a cell is there, with all of it and its features as they were written. Features
        that are not there are none to compare: they may be removed to free disk.
        """
        if (folder := self.store.folder(cell)) is None:
            return False
        result = Result(cell=cell, run=self.store.path, folder=folder)
        try:
            self.verifier.demand_whole(result)
        except Damaged as error:
            self._aside(folder, error)
            return False
        return not self._lost_features(result)

    def _lost_features(self, result: Result) -> bool:
        reference = result.document["features"]
        if not reference:
            return False
        path = reference["path"]
        if path not in self._features:
            self._features[path] = is_damaged(self.store.path, reference)
            if self._features[path]:
                file = self.store.path / path
                self._aside(file, Damaged(f"{file} is not what the run wrote"))
        return self._features[path]

    def _aside(self, path: Path, error: Damaged) -> None:
        why = str(error).split(";")[0]
        if aside := set_aside(self.store.path, path, why):
            self.note(f"damaged: {why}; moved to {self.store.path / aside.now}, computed again")
