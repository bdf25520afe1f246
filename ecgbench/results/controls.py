"""What the controls of a run show: each beside the model it controls, with what was expected.

Always by macro AUROC, whatever the run leads with: of it alone is known what chance gives.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import numpy as np

from ecgbench.results.compare import LEAST_PATIENTS, UNTESTED, weak
from ecgbench.results.evidence import Evidence
from ecgbench.results.score import Scored, counted
from ecgbench.results.study import Study, read
from ecgbench.stats.paired import Difference, holm
from ecgbench.stats.uniform import mean_interval, off, uniform_p
from ecgbench.study import controls
from ecgbench.study.controls import Control
from ecgbench.study.stored import Result

METRIC = "auroc"
CHANCE = 0.5
LEVEL = 0.05
"""Of p after Holm over all permuted numbers of a run."""
NAN = float("nan")
MARGIN = 0.01
"""A difference whose whole interval is smaller is none."""
Verdict = Literal[
    "as expected", "no difference", "undecided", "NOT as expected", "not tested", "no number"
]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


class Place(NamedTuple):
    """A row of the run."""

    task: str
    leads: str
    """As typed."""
    model: str
    policy: str


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A control beside a row of the run. Fractions; NaN where a number is not known."""

    control: Control
    place: Place
    """Of the model that it controls."""
    value: float = NAN
    """Macro AUROC of the control; of several permutations their mean."""
    low: float = NAN
    high: float = NAN
    model: float = NAN
    """Macro AUROC of the model in the same draw of leads, the same fit, the same folds."""
    model_low: float = NAN
    model_high: float = NAN
    difference: float = NAN
    """Model less control, paired."""
    difference_low: float = NAN
    difference_high: float = NAN
    repeats: int = 0
    """Permutations that have a number."""
    p_chance: float = NAN
    """Whether the mean of the permutations is chance."""
    p_uniform: float = NAN
    """Whether p of each permutation against chance is uniform over them."""
    p_pairs: float = NAN
    """The same of p of the difference between the model and the first one of the run."""
    p_holm: float = NAN
    """The least of the three, after Holm over those of all rows."""
    verdict: Verdict = "no number"
    note: str = ""
    """Why there is no number, or no verdict."""


class Named(NamedTuple):
    """A control and the studies of its repeats."""

    control: Control
    studies: list[Study]


def controlled(study: Study) -> list[Named]:
    """The controls that lie below a run, in their order; nothing where it has none."""
    home, found = study.path / controls.FOLDER, []
    for name, control in controls.CONTROLS.items():
        plans = [*home.glob(f"{name}/plan.toml"), *home.glob(f"{name}@*/plan.toml")]
        folders = sorted(
            (plan.parent for plan in plans), key=lambda f: controls.permutation(f.name) or 0
        )
        if folders:
            found.append(Named(control, [read(f, (METRIC,)) for f in folders]))
    return found


def checked(study: Study, found: Sequence[Named]) -> list[Checked]:
    """All controls beside all rows of the run, those of a control together."""
    own = study if study.metric == METRIC else read(study.path, (METRIC,))
    rows: list[Checked] = []
    for control, studies in found:
        for place in places(own):
            if control.kind == "chance":
                rows.append(_chance(own, control, studies, place))
            else:
                rows.append(_paired(own, control, studies[0], place))
    return _corrected(rows)


def places(study: Study) -> list[Place]:
    """The rows of a run, in the order of its table."""
    rows = study.main[study.main["metric"] == study.metric]
    return [Place(*one) for one in zip(*(rows[name] for name in Place._fields))]


def _cells(study: Study, place: Place, like: Sequence[Result] | None = None) -> list[Result]:
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


def _scored(study: Study, results: Sequence[Result]) -> list[Scored]:
    assert study.scorer is not None
    return counted([study.scorer(r, METRIC) for r in results])


def _evidence(study: Study, *rows: Sequence[Scored]) -> Evidence:
    assert study.scorer is not None
    return study.scorer.evidence(rows)


def _why(study: Study, place: Place) -> str:
    """Why a row has no number."""
    rows = study.cells[[*Place._fields, "status", "reason"]].itertuples(index=False)
    reasons = [f"{status}: {why}" for *own, status, why in rows if tuple(own) == place and why]
    return reasons[0] if reasons else "not computed; run the same command with --controls again"


def _chance(own: Study, control: Control, studies: Sequence[Study], place: Place) -> Checked:
    """A row under permuted labels."""
    first = next(p for p in places(own) if (p.task, p.leads) == (place.task, place.leads))
    values, p, pairs, bounds = [], [], [], (NAN, NAN)
    for one in studies:
        scored = _scored(one, _cells(one, place))
        if not scored or not np.isfinite([c.value for c in scored]).all():
            continue
        rivals = [] if first == place else _scored(one, _cells(one, first))
        found = _evidence(one, *filter(None, (scored, rivals)))
        sure = found.rows[0]
        values.append(sure.value)
        p.append(off(sure.value, CHANCE, sure.se, sure.df))
        bounds = sure.low, sure.high
        pairs += [found.difference(0, 1).p] if rivals else []
    blank = Checked(control=control, place=place, repeats=len(values))
    if not values:
        return replace(blank, note=_why(studies[0], place))
    mean, low, high, se = mean_interval(values)
    several = len(values) > 1
    return replace(
        blank,
        value=mean,
        low=low if several else bounds[0],
        high=high if several else bounds[1],
        p_chance=off(mean, CHANCE, se, len(values) - 1) if several else p[0],
        p_uniform=uniform_p(p),
        p_pairs=uniform_p(pairs),
    )


def _paired(own: Study, control: Control, theirs: Study, place: Place) -> Checked:
    """A row less its control, over the same patients."""
    there = place
    if control.kind == "shortcut":
        there = place._replace(model=control.name, policy="native")
    blank = Checked(control=control, place=place)
    if not (results := _cells(theirs, there)):
        return replace(blank, note=_why(theirs, there))
    scored = _scored(theirs, results)
    alone = _evidence(theirs, scored).rows[0]
    made = replace(blank, value=alone.value, low=alone.low, high=alone.high)
    if not (mine := _cells(own, place, results)):
        return replace(made, note=f"the model: {_why(own, place)}")
    rows = [_scored(own, mine), scored]
    if not all(np.isfinite(c.value) for row in rows for c in row):
        return replace(made, note="no label has both values")
    found = _evidence(own, *rows)
    apart, sure = found.difference(0, 1), found.rows[0]
    patients = sum({c.cell.fit.fold: c.n_patients for c in rows[0]}.values())
    why = f"{UNTESTED}{patients} test patients, fewer than {LEAST_PATIENTS}"
    if patients >= LEAST_PATIENTS:
        why = weak(apart.df, apart.share, f"the label {apart.share_label}")
    if not why and not np.isfinite(apart.low):
        why = f"{UNTESTED}no interval"
    return replace(
        made,
        model=sure.value,
        model_low=sure.low,
        model_high=sure.high,
        difference=apart.difference,
        difference_low=apart.low,
        difference_high=apart.high,
        verdict="not tested" if why else _verdict(apart),
        note=why,
    )


def _verdict(apart: Difference) -> Verdict:
    if max(abs(apart.low), abs(apart.high)) < MARGIN:
        return "no difference"
    if apart.low > 0:
        return "as expected"
    return "NOT as expected" if apart.high < 0 else "undecided"


def _corrected(rows: Sequence[Checked]) -> list[Checked]:
    """With verdicts on chance: each p is one of many."""
    tested = [(r.p_chance, r.p_uniform, r.p_pairs) for r in rows if r.control.kind == "chance"]
    adjusted = iter(holm(np.array(tested).ravel()).reshape(-1, 3)) if tested else iter(())
    made = []
    for row in rows:
        if row.control.kind == "chance":
            own = next(adjusted)
            if np.isfinite(own).any():
                least = float(np.nanmin(own))
                verdict: Verdict = "NOT as expected" if least < LEVEL else "as expected"
                row = replace(row, p_holm=least, verdict=verdict)
            elif row.repeats:
                row = replace(row, verdict="not tested", note=f"{UNTESTED}no interval")
        made.append(row)
    return made
