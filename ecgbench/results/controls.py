"""What the controls of a run show: each beside the model it controls, with what was expected.

Always by macro AUROC, whatever the run leads with: of it alone is known what chance gives.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ecgbench.results.compare import UNTESTED, few, weak
from ecgbench.results.evidence import Evidence
from ecgbench.results.score import Scored, counted
from ecgbench.results.study import AUROC, Run, by_auroc, once, read
from ecgbench.stats.paired import Difference, holm
from ecgbench.stats.uniform import mean_interval, off, uniform_p
from ecgbench.study import controls
from ecgbench.study.controls import Control
from ecgbench.study.stored import Result

CHANCE = 0.5
LEVEL = 0.05
"""Of p after Holm over all permuted numbers of a run."""
MARGIN = 0.01
"""A difference whose whole interval is smaller is none."""
EXPECTED, UNEXPECTED, NOT_TESTED = "as expected", "NOT as expected", "not tested"
CHANCES = ["p_chance", "p_uniform", "p_pairs"]
COLUMNS = [
    *("control", "task", "leads", "model", "policy", "value", "low", "high"),
    *("model_value", "model_low", "model_high"),
    *("difference", "difference_low", "difference_high", "repeats", *CHANCES, "p_holm"),
    *("verdict", "note"),
]
"""Of `checked`; docs/reference/columns.md says what each is."""
Values = dict[str, Any]


class Place(NamedTuple):
    """A row of the run."""

    task: str
    leads: str
    """As typed."""
    model: str
    policy: str


def controlled(study: Run) -> dict[str, list[Run]]:
    """Name of each control that lies below a run -> the studies of its repeats."""
    home, found = study.path / controls.FOLDER, {}
    for name in controls.CONTROLS:
        plans = [*home.glob(f"{name}/plan.toml"), *home.glob(f"{name}@*/plan.toml")]
        folders = sorted(
            (plan.parent for plan in plans), key=lambda f: controls.permutation(f.name) or 0
        )
        if folders:
            found[name] = [read(folder, (AUROC,)) for folder in folders]
    return found


@once
def checked(study: Run) -> pd.DataFrame:
    """COLUMNS: all controls of a run beside all of its rows, those of a control together. Scores
    are fractions. Empty where a run has none.
    """
    found, rows = controlled(study), []
    if not found:
        return pd.DataFrame(columns=COLUMNS)
    own = by_auroc(study)
    for name, studies in found.items():
        control = controls.CONTROLS[name]
        for place in places(own):
            if control.kind == "chance":
                row = _chance(own, studies, place)
            else:
                row = _paired(own, control, studies[0], place)
            same = {"control": name, **place._asdict()}
            rows.append({**same, "verdict": "no number", "note": "", **row})
    return _corrected(pd.DataFrame(rows, columns=COLUMNS))


def places(study: Run) -> list[Place]:
    """The rows of a run, in the order of its table."""
    rows = study.main[study.main["metric"] == study.metric]
    return [Place(*one) for one in zip(*(rows[name] for name in Place._fields))]


def cells_of(study: Run, place: Place, like: Sequence[Result] | None = None) -> list[Result]:
    """The finished cells of a row; `like`: those at the same draws of leads and folds as these, of
    the first fit.
    """
    own = study.finished.get((place.task, place.model, place.policy, place.leads), [])
    if like is None:
        return own
    same = {(str(r.cell.setting), r.cell.fit.fold) for r in like}
    first = min((r.cell.fit.seed for r in own), default=0)
    wanted = [r for r in own if r.cell.fit.seed == first]
    return [r for r in wanted if (str(r.cell.setting), r.cell.fit.fold) in same]


def _scored(study: Run, results: Sequence[Result]) -> list[Scored]:
    assert study.scorer is not None
    return counted([study.scorer(r, AUROC) for r in results])


def _evidence(study: Run, *rows: Sequence[Scored]) -> Evidence:
    assert study.scorer is not None
    return study.scorer.evidence(rows)


def why_missing(study: Run, place: Place) -> str:
    """Why a row has no number."""
    rows = study.cells[[*Place._fields, "status", "reason"]].itertuples(index=False)
    reasons = [f"{status}: {why}" for *own, status, why in rows if tuple(own) == place and why]
    return reasons[0] if reasons else "not computed; run the same command with --controls again"


def _chance(own: Run, studies: Sequence[Run], place: Place) -> Values:
    """A row under permuted labels."""
    first = next(p for p in places(own) if (p.task, p.leads) == (place.task, place.leads))
    values, p, pairs, bounds = [], [], [], (np.nan, np.nan)
    for one in studies:
        scored = _scored(one, cells_of(one, place))
        if not scored or not np.isfinite([c.value for c in scored]).all():
            continue
        rivals = [] if first == place else _scored(one, cells_of(one, first))
        found = _evidence(one, *filter(None, (scored, rivals)))
        sure = found.rows[0]
        values.append(sure.value)
        p.append(off(sure.value, CHANCE, sure.se, sure.df))
        bounds = sure.low, sure.high
        pairs += [found.difference(0, 1).p] if rivals else []
    if not values:
        return {"note": why_missing(studies[0], place)}
    mean, low, high, se = mean_interval(values)
    several = len(values) > 1
    if not several:
        low, high = bounds
    return {
        "value": mean,
        "low": low,
        "high": high,
        "repeats": len(values),
        "p_chance": off(mean, CHANCE, se, len(values) - 1) if several else p[0],
        "p_uniform": uniform_p(p),
        "p_pairs": uniform_p(pairs),
    }


def _paired(own: Run, control: Control, theirs: Run, place: Place) -> Values:
    """A row less its control, over the same patients."""
    there = place
    if control.kind == "shortcut":
        there = place._replace(model=control.name, policy="native")
    if not (results := cells_of(theirs, there)):
        return {"note": why_missing(theirs, there)}
    scored = _scored(theirs, results)
    alone = _evidence(theirs, scored).rows[0]
    made: Values = {"value": alone.value, "low": alone.low, "high": alone.high}
    if not (mine := cells_of(own, place, results)):
        return made | {"note": f"the model: {why_missing(own, place)}"}
    rows = [_scored(own, mine), scored]
    if not all(np.isfinite(c.value) for row in rows for c in row):
        return made | {"note": "no label has both values"}
    found = _evidence(own, *rows)
    between, sure = found.difference(0, 1), found.rows[0]
    patients = sum({c.cell.fit.fold: c.n_patients for c in rows[0]}.values())
    why = few(patients) or weak(between.df, between.share, f"the label {between.share_label}")
    if not why and not np.isfinite(between.low):
        why = f"{UNTESTED}no interval"
    return made | {
        "model_value": sure.value,
        "model_low": sure.low,
        "model_high": sure.high,
        "difference": between.difference,
        "difference_low": between.low,
        "difference_high": between.high,
        "verdict": NOT_TESTED if why else _verdict(between),
        "note": why,
    }


def _verdict(between: Difference) -> str:
    if max(abs(between.low), abs(between.high)) < MARGIN:
        return "no difference"
    if between.low > 0:
        return EXPECTED
    return UNEXPECTED if between.high < 0 else "undecided"


def _corrected(rows: pd.DataFrame) -> pd.DataFrame:
    """With verdicts on chance: each p is one of many."""
    p = rows[CHANCES].astype(float)
    tested = p.notna().any(axis=1)
    adjusted = holm(p.to_numpy().ravel()).reshape(p.shape)
    least = pd.DataFrame(adjusted, index=rows.index).min(axis=1)
    verdict = rows["verdict"].mask(tested, EXPECTED).mask(least < LEVEL, UNEXPECTED)
    without = rows["repeats"].notna() & ~tested
    return rows.assign(
        p_holm=least,
        verdict=verdict.mask(without, NOT_TESTED),
        note=rows["note"].mask(without, f"{UNTESTED}no interval"),
    )
