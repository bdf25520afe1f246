"""What labelled patients are worth: a run beside heads that saw the labels of fewer training
patients (`ecgbench run --labels-used 25,100,all`), and how many patients with twelve leads do what
all patients do with fewer leads.

Always by macro AUROC. Draws of patients are to an interval what repeated fits are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from ecgbench.core.keys import grouped
from ecgbench.results.controls import Place, cells_of, places
from ecgbench.results.paired import Values, paired, with_leads
from ecgbench.results.score import Scored, counted
from ecgbench.results.study import AUROC, FULL, Run, by_auroc, once, read
from ecgbench.study import controls
from ecgbench.study.scores import MACRO
from ecgbench.study.stored import Result

COLUMNS = [
    *("task", "label", "leads", "n_leads", "named", "model", "policy"),
    *("labelled", "draws", "value", "low", "high", "difference", "difference_low"),
    *("difference_high", "n_records", "n_patients", "status", "reason"),
]
EXCHANGE = [
    *("task", "leads", "n_leads", "named", "model", "policy"),
    *("labelled", "equal", "equal_low", "equal_high"),
]
LESS = np.array([1.0, -1.0])


class Few(NamedTuple):
    """The heads of one number of labelled patients."""

    labelled: int
    runs: dict[int, Run]
    """Draw of the patients -> its run."""


@once
def used(study: Run) -> list[Few]:
    """Below a run, from few patients to many."""
    found: dict[int, dict[int, Run]] = {}
    for plan in (study.path / controls.CURVE).glob("*@*/plan.toml"):
        number, draw = map(int, plan.parent.name.split("@"))
        found.setdefault(number, {})[draw] = read(plan.parent, (AUROC,))
    return [Few(number, dict(sorted(found[number].items()))) for number in sorted(found)]


@once
def labels_used(study: Run) -> pd.DataFrame:
    """COLUMNS, fractions: of each row of a run and number of labelled patients the macro, then
    every label; last, of all patients. Empty where a run has no such heads.
    """
    own, every = by_auroc(study), used(study)
    rows = [
        {**place._asdict(), "status": "ok", "reason": "", **row}
        for place in places(own)
        for row in _of_place(own, every, place)
    ]
    return with_leads(own, pd.DataFrame(rows, columns=COLUMNS))


def _of_place(own: Run, every: Sequence[Few], place: Place) -> Iterator[Values]:
    whole: list[Values] = []
    for few in every:
        mine, theirs = _sides(own, few, place, place)
        if not mine:
            reason = f"not every draw of {few.labelled} patients was computed"
            missing = {"label": MACRO, "status": "no number", "reason": reason}
            yield {"labelled": few.labelled, **missing}
            continue
        found = _compared(own, theirs, mine).values()
        for row in found:
            ends = {"low": row["value_low"], "high": row["value_high"]}
            yield {"labelled": few.labelled, "draws": len(few.runs), **row, **ends}
        same = {"labelled": patients(own, place), "draws": 1, "reason": ""}
        whole = [
            {name: row[name] for name in ("label", "n_records", "n_patients")}
            | {"value": row["all"], "low": row["all_low"], "high": row["all_high"], **same}
            for row in found
        ]
    yield from whole


def _sides(own: Run, few: Few, place: Place, other: Place) -> tuple[list[Scored], list[Scored]]:
    """Cells of a run at `place`, as often as there are draws, and those of the draws at `other`,
    with the draw as their fit; nothing where one is missing.
    """
    mine: list[Scored] = []
    theirs: list[Scored] = []
    for draw, run in few.runs.items():
        found = cells_of(run, other)
        whole = cells_of(own, place, found if place == other else None)
        first = min((r.cell.fit.seed for r in whole), default=0)
        whole = [r for r in whole if r.cell.fit.seed == first]
        same = {r.cell.fit.fold for r in whole} == {r.cell.fit.fold for r in found}
        if not found or not same:
            return [], []
        theirs += _as_fit(run, found, draw)
        mine += _as_fit(own, whole, draw)
    return mine, theirs


def _as_fit(study: Run, results: Sequence[Result], draw: int) -> list[Scored]:
    assert study.scorer is not None
    scored = counted([study.scorer(result, AUROC) for result in results])
    fits = [replace(one.cell.fit, seed=draw) for one in scored]
    return [
        replace(one, cell=replace(one.cell, fit=fit)) for one, fit in zip(scored, fits, strict=True)
    ]


def _compared(own: Run, theirs: list[Scored], mine: list[Scored]) -> dict[str, Values]:
    assert own.scorer is not None
    rows = [theirs, mine]
    return paired(rows, own.scorer.scoring.absent, ("value", "all"), {"difference": LESS})


def patients(own: Run, place: Place) -> int:
    """Labelled patients of a fit of a run; of several folds their mean."""
    by_fold = grouped(cells_of(own, place), lambda r: r.cell.fit.fold).values()
    return round(np.mean([r[0].validation()["patient"].nunique() for r in by_fold]))


def exchange(study: Run) -> pd.DataFrame:
    """EXCHANGE: of each row at fewer than twelve leads, how many labelled patients with twelve
    leads give its score with all patients: 0 where the fewest are too many, infinite where all are
    too few. Bounds are where the ends of the interval of the difference cross 0.
    """
    own, every = by_auroc(study), used(study)
    rows = []
    for place in places(own):
        full = place._replace(leads=FULL)
        if place.leads == FULL or not every or not cells_of(own, full):
            continue
        sides = [_sides(own, few, place, full) for few in every]
        if not all(mine for mine, _ in sides):
            continue
        whole = Few(patients(own, full), {0: own})
        sides.append(_sides(own, whole, place, full))
        at = [few.labelled for few in (*every, whole)]
        found = [_compared(own, theirs, mine)[MACRO] for mine, theirs in sides]
        row = {**place._asdict(), "labelled": at[-1]}
        for name, end in (("equal", ""), ("equal_low", "_high"), ("equal_high", "_low")):
            row[name] = crossing(at, [one[f"difference{end}"] for one in found])
        rows.append(row)
    return with_leads(own, pd.DataFrame(rows, columns=EXCHANGE))


def crossing(at: Sequence[float], values: Sequence[float]) -> float:
    """Where values first reach 0, on straight lines over the logarithm of `at`; 0 where the first
    one has, infinity where none does; NaN where
    one is not known.

    >>> crossing([10, 1000], [-1, 1]), crossing([10, 20], [1, 2]), crossing([10, 20], [-2, -1])
    (100.0, 0.0, inf)
    """
    if np.isnan(values).any():
        return float("nan")
    if values[0] >= 0:
        return 0.0
    for k in range(1, len(at)):
        if values[k] >= 0:
            share = -values[k - 1] / (values[k] - values[k - 1])
            return round(float(at[k - 1] * (at[k] / at[k - 1]) ** share), 6)
    return float("inf")
