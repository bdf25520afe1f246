"""A run written by hand whose fits have predictions for validation records, as reports of
thresholds need them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd
from scipy.special import expit, logit

from ecgbench.results.study import Study, read
from ecgbench.study.scores import Predicted
from ecgbench.study.stored import Result
from tests.results.made_run import Data, Made, write

LABELS = 3
MADE = Made(
    data={"first": Data(tasks={"a": LABELS}, records=300, per_patient=2)},
    skill=lambda model, leads: {"good": 2.0, "weak": 1.0}[model] * (0.6 if leads == "1" else 1.0),
)
Changed = Callable[[Result, pd.DataFrame], pd.DataFrame]


def make(path: Path, made: Made = MADE, validated: int = 200) -> Study:
    """Write it, with this many validation records, and read it."""
    write(path, replace(made, validated=validated))
    return read(path)


@dataclass(frozen=True, kw_only=True, eq=False)
class Seen(Result):
    """A result whose tables are changed when they are read."""

    tested: Changed
    validated: Changed

    def predictions(self) -> pd.DataFrame:
        """Of the test records."""
        return self.tested(self, super().predictions())

    def predicted(self) -> Predicted:
        """The same as arrays."""
        return Predicted.of(self.predictions())

    def validation(self) -> pd.DataFrame:
        """Of the validation records."""
        return self.validated(self, super().validation())


def same(result: Result, table: pd.DataFrame) -> pd.DataFrame:
    """Nothing is changed."""
    return table


def seen(study: Study, tested: Changed = same, validated: Changed = same) -> Study:
    """The study with tables that are changed when they are read."""
    made = [
        Seen(cell=r.cell, run=r.run, folder=r.folder, tested=tested, validated=validated)
        for r in study.results
    ]
    return replace(study, results=made, scorer=None)


def in_folds(study: Study, count: int, shift: float) -> Study:
    """The same predictions as of a cross-validation whose fits score higher by `shift` from fold to
    fold, in the test records and in the validation records.
    """
    made = []
    for r in study.results:
        for k in range(count):
            fit = replace(r.cell.fit, fold=f"{k + 1}/{count}")

            def tested(_: Result, table: pd.DataFrame, k: int = k) -> pd.DataFrame:
                whose = pd.factorize(table["patient"])[0]
                return shifted(table[whose % count == k].reset_index(drop=True), k * shift)

            def validated(_: Result, table: pd.DataFrame, k: int = k) -> pd.DataFrame:
                return shifted(table, k * shift)

            fold = Seen(
                cell=replace(r.cell, fit=fit),
                run=r.run,
                folder=r.folder,
                tested=tested,
                validated=validated,
            )
            # each fold has a fit of its own; its files are those of the one that was written
            object.__setattr__(fold, "document", r.document | {"fit": _another(r, k)})
            made.append(fold)
    return replace(study, results=made, scorer=None)


def _another(result: Result, k: int) -> str:
    """The folder of its fit, spelled differently for each fold."""
    return result.document["fit"] + "/." * k


def shifted(table: pd.DataFrame, by: float) -> pd.DataFrame:
    """Predictions with higher log odds."""
    names = [c for c in table if c.startswith("probability:")]
    return table.assign(**{c: expit(logit(table[c]) + by) for c in names})


def rows(section_parts: Sequence[object], name: str) -> pd.DataFrame:
    """The CSV of a table or figure."""
    (part,) = [p for p in section_parts if getattr(p, "name", "") == name]
    frame: pd.DataFrame = part.numbers  # type: ignore[attr-defined]
    return frame
