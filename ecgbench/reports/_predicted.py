"""What reports of probabilities share: the rows of the main table with what their cells predicted,
label by label.

A row averages over lead draws and fits. Records of all folds are put together: each is predicted by
the fit that was trained without it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ecgbench.cells import grouped
from ecgbench.reports._facts import FULL, Head, columns, leads_of
from ecgbench.reports._figure import LONGEST
from ecgbench.reports._grid import reasons
from ecgbench.reports._section import Format
from ecgbench.results.result import Result
from ecgbench.results.score import arrays
from ecgbench.results.study import Study
from ecgbench.stats.clustered import Patients
from ecgbench.stats.known import UNKNOWN
from ecgbench.text import enumerated, shortened

LEAST = 20
"""Patients with a label, and patients without it, below which nothing is said of it."""
MEAN = "mean of labels"
"""What stands in the column of labels of a CSV file where a row is a mean over them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Label:
    """What one cell, or the folds of one, predict of one label, of the records it is known of."""

    name: str
    target: np.ndarray
    """(record,) bool."""
    probability: np.ndarray
    patients: Patients
    fold: np.ndarray
    """(record,) place of the fold, among those of its repeat, that a record comes from."""

    @property
    def counts(self) -> dict[str, int]:
        """How much there is."""
        positives = int(self.target.sum())
        every = np.ones(len(self.target), bool)
        return {
            "patients": self.patients.number(every),
            "positives": positives,
            "negatives": len(self.target) - positives,
        }

    @property
    def prevalence(self) -> float:
        """Share of the records with it."""
        return float(self.target.mean())

    @cached_property
    def lacking(self) -> str:
        """Why nothing is said of it; "" where enough is there."""
        with_it, without = (self.patients.number(own) for own in (self.target, ~self.target))
        if min(with_it, without) >= LEAST:
            return ""
        return f"{with_it} patients with it and {without} without; {LEAST} of each are needed"


@dataclass(frozen=True, kw_only=True)
class Line:
    """A row of the main table."""

    task: str
    head: Head
    leads: str
    weights: str
    status: str
    reason: str
    repeats: Sequence[Sequence[Result]]
    """Of each lead draw of each fit its folds; nothing where the row has no score."""

    @property
    def facts(self) -> dict[str, Any]:
        """What a row of a CSV file begins with."""
        named = {"task": self.task, "model": self.head.model, "policy": self.head.policy}
        named |= {"weights": self.weights, "leads": self.leads}
        return named | {"status": self.status, "reason": self.reason}

    def labels(self) -> Iterator[list[Label]]:
        """Each label, in all repeats."""
        tables = [[r.predictions() for r in folds] for folds in self.repeats]
        patients = [[t["patient"].to_numpy(str) for t in of] for of in tables]
        names = np.unique(np.concatenate([p for of in patients for p in of]))
        made = [_labels(of, names) for of in tables]
        yield from map(list, zip(*made, strict=True))


def _labels(tables: Sequence[pd.DataFrame], names: np.ndarray) -> Iterator[Label]:
    """Of the folds of one repeat; `names`: the patients of the row, in alphabetical order."""
    made = [arrays(table) for table in tables]
    target, probability = (np.concatenate([m[k] for m in made]) for k in (1, 2))
    whose = np.concatenate([table["patient"].to_numpy(str) for table in tables])
    fold = np.repeat(np.arange(len(tables)), list(map(len, tables)))
    patients = Patients(of_record=np.searchsorted(names, whose), count=len(names))
    for k, name in enumerate(made[0][0]):
        known = target[:, k] != UNKNOWN
        yield Label(
            name=name,
            target=target[known, k] == 1,
            probability=probability[known, k],
            patients=patients.only(known),
            fold=fold[known],
        )


FACTS = ("task", "model", "policy", "weights", "leads", "label")
"""Columns that a row of a CSV file begins with."""


def lines(study: Study) -> list[Line]:
    """The rows of a study's first metric, in its order."""
    heads = {head.names: head for head in columns(study)}
    why, made = reasons(study), []
    main = study.main[study.main["metric"] == study.metric]
    for row in main.to_dict("records"):
        names = row["task"], row["model"], row["leads"], row["policy"]
        cells = study.finished.get((row["task"], row["model"], row["policy"], row["leads"]), [])
        repeats = grouped(cells, lambda r: (str(r.cell.setting), r.cell.fit.seed)).values()
        whole = row["status"] == "ok"
        made.append(
            Line(
                task=row["task"],
                head=heads[row["model"], row["policy"]],
                leads=row["leads"],
                weights=row["weights"],
                status=row["status"],
                reason="" if whole else why.get(names, row["status"]),
                repeats=list(repeats) if whole else [],
            )
        )
    return made


def in_all(found: Iterable[Mapping[str, object]]) -> list[str]:
    """Labels that have a number in all of these rows, so that means over them compare."""
    rows = list(found)
    return [name for name in (rows[0] if rows else ()) if all(name in row for row in rows)]


def shown(own: Sequence[Line], any_label: bool) -> list[Line]:
    """Rows of a task for the page: those at a number of leads; named leads stand in the CSV file,
    unless there is nothing else. None where no label has a number, which the notes say.
    """
    if not any_label:
        return []
    drawn = [line for line in own if line.leads.isdigit()]
    return drawn if any(line.leads != FULL for line in drawn) else list(own)


def ends(own: Iterable[Line]) -> list[str]:
    """Lead settings of a figure: all leads and the fewest, as typed."""
    typed = sorted(
        dict.fromkeys(line.leads for line in own if line.repeats),
        key=lambda leads: (not leads.isdigit(), leads_of(leads)[0]),
    )
    drawn = [leads for leads in typed if leads.isdigit()] or typed
    return list(dict.fromkeys([*drawn[-1:], *drawn[:1]]))


LEFT_OUT = "left out"
"""Status of a label without a number in a row that has one."""


def nothing(reason: str) -> dict[str, str]:
    """Status and reason of a label, or a mean over labels, that has no number."""
    return {"status": LEFT_OUT, "reason": reason}


def none_known() -> str:
    """Why a mean over labels has no number."""
    return f"no label has {LEAST} patients with it and {LEAST} without"


def too_rare(title: str, names: Sequence[str]) -> str:
    """Labels that are left out, in a sentence."""
    return (
        f"{title}: left out {listed(names)}: fewer than {LEAST} patients with the label or without "
        f"it."
    )


def listed(names: Sequence[str], most: int = 12) -> str:
    """Names, the first of many."""
    more = len(names) - most
    return enumerated(names) if more <= 0 else f"{', '.join(names[:most])} and {more} more"


def gone(own: Iterable[Line]) -> str:
    """Rows that a figure leaves out, in a sentence; "" where there is none."""
    lost = [
        f"{line.head.label} at {line.leads} ({line.status})" for line in own if not line.repeats
    ]
    return f" Left out: {listed(lost, 6)}." if lost else ""


def legend(head: Head) -> str:
    """What a column is called beside its line in a figure."""
    return shortened(head.label, LONGEST) + (" (random weights)" if head.untrained else "")


def formats(rows: Sequence[object]) -> Sequence[Format]:
    """Where a table is shown: where it has no rows, its numbers alone are written."""
    return ("csv", "md", "tex", "html") if rows else ("csv",)


def number(value: float | None) -> float | None:
    """NaN as None."""
    return None if value is None or np.isnan(value) else float(value)
