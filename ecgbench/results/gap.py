"""Where the loss from twelve leads to fewer comes from, of a run that has heads trained at all
leads and heads trained at the leads that are tested (`ecgbench run --train-leads all,same`):

    head          the same features under the head of all leads less those under their own head
    filling       their own heads: features of filled leads less those of a reader of any leads
    information   their own heads: at fewer leads less at twelve

The three sum to the whole loss. Filling is known of a model that a run has natively and filled;
else it is part of the information. Always by macro AUROC, paired over the same patients.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from ecgbench.policies.hide import NATIVE
from ecgbench.results.controls import Place, cells_of, places, why_missing
from ecgbench.results.paired import Values, paired, with_leads
from ecgbench.results.score import counted
from ecgbench.results.study import AUROC, FULL, Run, by_auroc, once, read
from ecgbench.study import controls
from ecgbench.study.scores import MACRO
from ecgbench.study.stored import Result

SAME = "same"
TERMS = ("total", "information", "head", "filling")
COLUMNS = [
    *("task", "label", "leads", "n_leads", "named", "model", "policy", "full", "value", "own_head"),
    *(f"{term}{end}" for term in TERMS for end in ("", "_low", "_high")),
    *("n_patients", "status", "reason"),
]


class _Side(NamedTuple):
    """Cells of one number, and the study that they are of."""

    study: Run
    cells: Sequence[Result]


@once
def gap(study: Run) -> pd.DataFrame:
    """COLUMNS, fractions: of each row at fewer than twelve leads the macro, then every label. Empty
    where a run has no such heads.
    """
    folder = controls.folder(study.path, f"{controls.HEADS}{SAME}")
    if not (folder / "plan.toml").is_file():
        return pd.DataFrame(columns=COLUMNS)
    own = by_auroc(study)
    other = read(folder, (AUROC,))
    there = {*places(other)}
    rows = [
        {**place._asdict(), "status": "ok", "reason": "", **row}
        for place in places(own)
        if place in there and place.leads != FULL
        for row in _of_place(own, other, place)
    ]
    return with_leads(own, pd.DataFrame(rows, columns=COLUMNS))


def _of_place(own: Run, other: Run, place: Place) -> Iterator[Values]:
    full = _Side(own, cells_of(own, place._replace(leads=FULL)))
    value = _Side(own, cells_of(own, place))
    heads = _Side(other, cells_of(other, place))
    sides = [full, value, heads]
    native = _Side(other, cells_of(other, place._replace(policy=NATIVE)))
    if place.policy != NATIVE and native.cells:
        sides.append(native)
    for side, wanted in zip(sides, (place._replace(leads=FULL), place, place)):
        if not side.cells:
            reason = why_missing(side.study, wanted)
            yield {"label": MACRO, "status": "no number", "reason": reason}
            return
    if len({frozenset(_draw_of(r) for r in side.cells) for side in sides[1:]}) > 1:
        reason = "other draws of leads, fits or folds under one of the heads; run what is missing"
        yield {"label": MACRO, "status": "no number", "reason": reason}
        return
    yield from _terms(sides).values()


def _draw_of(result: Result) -> tuple[str, int, str]:
    cell = result.cell
    return str(cell.setting), cell.fit.seed, cell.fit.fold


def _terms(sides: Sequence[_Side]) -> dict[str, Values]:
    """The macro, then each label. sides: twelve leads; fewer; own heads; own heads natively, where
    these are known.
    """
    first = sides[0].study.scorer
    assert first is not None
    rows = []
    for study, cells in sides:
        assert study.scorer is not None
        rows.append(counted([study.scorer(result, AUROC) for result in cells]))
    one = np.eye(len(rows))
    full, value, heads, reader = one[0], one[1], one[2], one[-1]
    wanted = {"total": value - full, "information": reader - full, "head": value - heads}
    if len(rows) > 3:
        wanted["filling"] = heads - reader
    return paired(rows, first.scoring.absent, ("full", "value", "own_head"), wanted)
