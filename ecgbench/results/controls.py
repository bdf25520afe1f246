"""What the controls of a run show: each beside the model it controls, with what was expected.

Always by macro AUROC, whatever the run leads with: of it alone is known what chance gives.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np

from ecgbench.results.compare import LEAST_PATIENTS, UNTESTED, weak
from ecgbench.results.score import Scored, counted
from ecgbench.results.study import Study, read
from ecgbench.stats.paired import holm
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
        folders = [f for f in (*home.glob(name), *home.glob(f"{name}@*")) if _is_run(f)]
        folders.sort(key=lambda f: controls.permutation(f.name) or 0)
        if folders:
            found.append(Named(control, [read(f, (METRIC,)) for f in folders]))
    return found


def _is_run(folder: Path) -> bool:
    return (folder / "plan.toml").is_file()


def checked(study: Study, found: Sequence[Named]) -> list[Checked]:
    """All controls beside all rows of the run, those of a control together."""
    own = study if study.metric == METRIC else read(study.path, (METRIC,))
    rows: list[Checked] = []
    for control, studies in found:
        how: Callable[[Study, Control, Sequence[Study]], Iterator[Checked]]
        how = _chance if control.kind == "chance" else _paired
        rows += how(own, control, studies)
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
    return [
        r
        for r in own
        if (str(r.cell.setting), r.cell.fit.fold) in same and r.cell.fit.seed == first
    ]


def _scored(study: Study, results: Sequence[Result]) -> list[Scored]:
    assert study.scorer is not None
    return counted([study.scorer(r, METRIC) for r in results])


def _why(study: Study, place: Place) -> str:
    """Why a row has no number."""
    cells = study.cells
    mine = np.ones(len(cells), bool)
    for name, value in place._asdict().items():
        mine &= (cells[name] == value).to_numpy()
    reasons = [f"{s}: {why}" for s, why in cells.loc[mine, ["status", "reason"]].to_numpy() if why]
    return reasons[0] if reasons else "not computed; run the same command with --controls again"


def _chance(own: Study, control: Control, studies: Sequence[Study]) -> Iterator[Checked]:
    """Every row under permuted labels."""
    first: dict[tuple[str, str], Place] = {}
    for place in places(own):
        other = first.setdefault((place.task, place.leads), place)
        values, p, pairs, bounds = [], [], [], (NAN, NAN)
        for one in studies:
            scored = _scored(one, _cells(one, place))
            if not scored or not np.isfinite([c.value for c in scored]).all():
                continue
            rivals = [] if other == place else _scored(one, _cells(one, other))
            assert one.scorer is not None
            found = one.scorer.evidence([scored, rivals] if rivals else [scored])
            sure = found.row(0)
            values.append(sure.value)
            p.append(off(sure.value, CHANCE, sure.se, sure.df))
            bounds = sure.low, sure.high
            if rivals:
                pairs.append(found.difference(0, 1).p)
        blank = Checked(control=control, place=place, repeats=len(values))
        if not values:
            yield replace(blank, note=_why(studies[0], place))
            continue
        mean, low, high, se = mean_interval(values)
        several = len(values) > 1
        yield replace(
            blank,
            value=mean,
            low=low if several else bounds[0],
            high=high if several else bounds[1],
            p_chance=off(mean, CHANCE, se, len(values) - 1) if several else p[0],
            p_uniform=uniform_p(p),
            p_pairs=uniform_p(pairs),
        )


def _paired(own: Study, control: Control, studies: Sequence[Study]) -> Iterator[Checked]:
    """Every row less its control, over the same patients."""
    (theirs,) = studies
    for place in places(own):
        there = place
        if control.kind == "shortcut":
            there = place._replace(model=control.name, policy="native")
        blank = Checked(control=control, place=place)
        results = _cells(theirs, there)
        if not results:
            yield replace(blank, note=_why(theirs, there))
            continue
        mine = _cells(own, place, results)
        if not mine:
            yield replace(_alone(blank, theirs, results), note=f"the model: {_why(own, place)}")
            continue
        yield _compared(blank, (own, mine), (theirs, results))


def _alone(blank: Checked, study: Study, results: Sequence[Result]) -> Checked:
    assert study.scorer is not None
    sure = study.scorer.evidence([_scored(study, results)]).row(0)
    return replace(blank, value=sure.value, low=sure.low, high=sure.high)


def _compared(
    blank: Checked, model: tuple[Study, Sequence[Result]], control: tuple[Study, Sequence[Result]]
) -> Checked:
    rows = [_scored(*model), _scored(*control)]
    alone = _alone(blank, *control)
    assert model[0].scorer is not None
    if not all(np.isfinite(c.value) for row in rows for c in row):
        return replace(alone, note="no label has both values")
    found = model[0].scorer.evidence(rows)
    apart, sure = found.difference(0, 1), found.row(0)
    made = replace(
        alone,
        model=sure.value,
        model_low=sure.low,
        model_high=sure.high,
        difference=apart.difference,
        difference_low=apart.low,
        difference_high=apart.high,
    )
    patients = sum({c.cell.fit.fold: c.n_patients for c in rows[0]}.values())
    why = f"{UNTESTED}{patients} test patients, fewer than {LEAST_PATIENTS}"
    if patients >= LEAST_PATIENTS:
        why = weak(apart.df, apart.share, f"the label {apart.share_label}")
    if why or not np.isfinite(apart.low):
        return replace(made, verdict="not tested", note=why or f"{UNTESTED}no interval")
    verdict: Verdict = "undecided"
    if max(abs(apart.low), abs(apart.high)) < MARGIN:
        verdict = "no difference"
    elif apart.low > 0 or apart.high < 0:
        verdict = "as expected" if apart.low > 0 else "NOT as expected"
    return replace(made, verdict=verdict)


def _corrected(rows: Sequence[Checked]) -> list[Checked]:
    """With verdicts on chance: each p is one of many."""
    tested = [(r.p_chance, r.p_uniform, r.p_pairs) for r in rows if r.control.kind == "chance"]
    adjusted = iter(holm(np.array(tested).ravel()).reshape(-1, 3)) if tested else iter(())
    made = []
    for row in rows:
        if row.control.kind == "chance":
            own = next(adjusted)
            known = own[np.isfinite(own)]
            if len(known):
                least = float(known.min())
                verdict: Verdict = "NOT as expected" if least < LEVEL else "as expected"
                row = replace(row, p_holm=least, verdict=verdict)
            elif row.repeats:
                row = replace(row, verdict="not tested", note=f"{UNTESTED}no interval")
        made.append(row)
    return made
