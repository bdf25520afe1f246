"""What perturbed test recordings cost: each row of a run beside itself on the recordings as they
are, over the same patients, by AUROC and by the decisions at thresholds that validation records as
they are gave. And how well the two halves of a recording agree.

Always by macro AUROC; heads are those of the run.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pandas as pd

from ecgbench import perturbations
from ecgbench.cards.cell import NONE, RANDOM
from ecgbench.core.keys import grouped
from ecgbench.core.seeds import rng
from ecgbench.data import contamination
from ecgbench.errors import EcgbenchError
from ecgbench.results.controls import Place, cells_of, places, why_missing
from ecgbench.results.evidence import ordered
from ecgbench.results.facts import ModelFacts
from ecgbench.results.operating import thresholds
from ecgbench.results.paired import Values, paired, with_leads
from ecgbench.results.score import Scored, counted
from ecgbench.results.study import AUROC, Run, by_auroc, once, read
from ecgbench.stats.agreement import icc, kappa
from ecgbench.stats.bootstrap import percentile_interval
from ecgbench.stats.clustered import Bools, Patients
from ecgbench.stats.known import UNKNOWN
from ecgbench.stats.operating import Measure
from ecgbench.study import controls
from ecgbench.study.scores import MACRO, Predicted
from ecgbench.study.stored import Result

KEPT: Measure = "specificity"
"""What the threshold of a decision keeps at 95 % in the validation records."""
DRAWS = 1000
HALVES = ("half@1", "half@2")
COLUMNS = [
    *("perturbation", "task", "label", "leads", "n_leads", "named", "model", "policy"),
    *("clean", "value", "low", "high", "difference", "difference_low", "difference_high", "p"),
    *("n_records", "n_patients"),
    *("sensitivity_clean", "sensitivity", "specificity_clean", "specificity", "changed"),
    *("met", "status", "reason"),
]
RETEST = [
    *("task", "label", "leads", "n_leads", "named", "model", "policy", "n_records", "n_patients"),
    *("icc", "icc_low", "icc_high", "kappa", "kappa_low", "kappa_high"),
]


@once
def perturbed(study: Run) -> dict[str, Run]:
    """Name of each perturbation that lies below a run -> its study, by name and level."""
    plans = (study.path / controls.PERTURBATIONS).glob("*/plan.toml")
    by_name = {unquote(plan.parent.name): plan.parent for plan in plans}
    return {name: read(by_name[name], (AUROC,)) for name in sorted(by_name, key=_order)}


def _order(name: str) -> tuple[str, float, str]:
    kind, _, level = name.partition("@")
    try:
        return kind, -float(level), name
    except ValueError:
        return kind, 0.0, name


@once
def robustness(study: Run) -> pd.DataFrame:
    """COLUMNS: all perturbations of a run beside its rows; scores are fractions. Empty where a run
    has none.
    """
    own = by_auroc(study)
    models = {model.name: model for model in own.models}
    rows = [
        {
            "perturbation": name,
            **place._asdict(),
            "met": _met(models[place.model], name),
            "status": "ok",
            "reason": "",
            **row,
        }
        for name, theirs in perturbed(study).items()
        for place in _both(own, theirs)
        for row in _of_place(own, theirs, place)
    ]
    return with_leads(own, pd.DataFrame(rows, columns=COLUMNS))


def _met(model: ModelFacts, name: str) -> bool:
    """Whether the noise that a perturbation adds was met in pre-training."""
    if model.weights in (RANDOM, NONE):
        return False
    try:
        corpora = perturbations.card(perturbations.one(name).name).corpora
    except EcgbenchError:  # one of your own that is not here
        return False
    found = {contamination.met(model.corpora, one)[0] for one in corpora}
    return bool(found & {"equal", "contains"})


def _both(own: Run, theirs: Run) -> list[Place]:
    """Rows of a run that were perturbed, in its order."""
    there = {*places(theirs)}
    return [place for place in places(own) if place in there]


def _of_place(own: Run, theirs: Run, place: Place) -> Iterator[Values]:
    """The macro and every label of a row."""
    others = cells_of(theirs, place)
    mine = cells_of(own, place, others) if others else []
    if not others or len(mine) != len(others):
        why = why_missing(own if others else theirs, place)
        yield {"label": MACRO, "status": "no number", "reason": why}
        return
    rows = [_scored(own, mine, others), _scored(theirs, others, mine)]
    if not all(np.isfinite(c.value) for row in rows for c in row):
        yield {"label": MACRO, "status": "no number", "reason": "no label has both values"}
        return
    assert own.scorer is not None
    decided = _decided(own, mine, others)
    less = {"difference": np.array([-1.0, 1.0])}
    for label, row in paired(rows, own.scorer.scoring.absent, ("clean", "value"), less).items():
        ends = {"low": row["value_low"], "high": row["value_high"]}
        yield row | ends | decided.get(label, {})


def _scored(study: Run, results: Sequence[Result], others: Sequence[Result]) -> list[Scored]:
    """On the records that the other side has too: a shorter strip may leave some out."""
    assert study.scorer is not None
    made = []
    for result, other in zip(results, others):
        names, there = result.predicted().records, {*other.predicted().records}
        common = None if there >= {*names} else frozenset(names) & there
        made.append(study.scorer(result, AUROC, common))
    return counted(made)


def _decided(own: Run, mine: Sequence[Result], others: Sequence[Result]) -> dict[str, Values]:
    """Of each label that has a threshold in every fit: sensitivity and specificity before and
    after, and the share of decisions that change; means over lead draws, of the records of all
    folds.
    """
    found: dict[str, list[Values]] = {}
    draws = grouped(zip(mine, others), lambda pair: str(pair[0].cell.setting))
    for pairs in draws.values():
        for label, parts in _flags(own, pairs).items():
            if len(parts) == len(pairs):
                target, before, after = (np.concatenate(one) for one in zip(*parts))
                found.setdefault(label, []).append(_shares(target, before, after))
    whole = {label: each for label, each in found.items() if len(each) == len(draws)}
    return {
        label: {name: float(np.mean([one[name] for one in each])) for name in each[0]}
        for label, each in whole.items()
    }


def _flags(
    own: Run, pairs: Sequence[tuple[Result, Result]]
) -> dict[str, list[tuple[Bools, Bools, Bools]]]:
    """Label -> of each fold (record,) who has it, who is flagged, and who is when perturbed."""
    made: dict[str, list[tuple[Bools, Bools, Bools]]] = {}
    for result, other in pairs:
        one, two = _aligned(result, other)
        for k, label, at in _with_threshold(own, result, one.labels):
            known = one.target[:, k] != UNKNOWN
            before, after = (p.probability[known, k] >= at for p in (one, two))
            made.setdefault(label, []).append((one.target[known, k] == 1, before, after))
    return made


def _aligned(*results: Result) -> list[Predicted]:
    """What they predict of the records that all of them have, in one order."""
    tables = [r.predicted() for r in results]
    there = frozenset.intersection(*(frozenset(t.records) for t in tables))
    return [ordered(AUROC, t.only(there), probabilities=True) for t in tables]


@once
def _known_thresholds(_: Run) -> dict[Path, dict[str, float | str]]:
    """Folder of a cell -> its thresholds; filled as they are asked for."""
    return {}


def _thresholds(own: Run, result: Result) -> dict[str, float | str]:
    """Of each label, read once for all perturbations."""
    known = _known_thresholds(own)
    if result.folder not in known:
        known[result.folder] = thresholds(result)[KEPT]
    return known[result.folder]


def _with_threshold(
    own: Run, result: Result, labels: Sequence[str]
) -> Iterator[tuple[int, str, float]]:
    """Place, name and threshold of each label for which the validation records gave one."""
    known = _thresholds(own, result)
    for k, label in enumerate(labels):
        at = known.get(label, "")
        if not isinstance(at, str):
            yield k, label, at


def _shares(target: Bools, before: Bools, after: Bools) -> Values:
    def mean(of: Bools, among: Bools) -> float:
        return float(of[among].mean()) if among.any() else np.nan

    return {
        "sensitivity_clean": mean(before, target),
        "sensitivity": mean(after, target),
        "specificity_clean": mean(~before, ~target),
        "specificity": mean(~after, ~target),
        "changed": float((before != after).mean()),
    }


# test and retest


def retest(study: Run) -> pd.DataFrame:
    """RETEST: of each row and label, how well the two halves of a recording agree; empty where a
    run does not have both.
    """
    found = perturbed(study)
    if not {*HALVES} <= found.keys():
        return pd.DataFrame(columns=RETEST)
    own = by_auroc(study)
    halves = [found[name] for name in HALVES]
    rows = [
        {**place._asdict(), **row}
        for place in _both(own, halves[0])
        for row in _agreed(own, halves, place)
    ]
    return with_leads(own, pd.DataFrame(rows, columns=RETEST))


def _agreed(own: Run, halves: Sequence[Run], place: Place) -> Iterator[Values]:
    """Each label of a row at its first draw of leads, over the records of all folds."""
    sides = [cells_of(half, place) for half in halves]
    mine = cells_of(own, place, sides[0]) if all(sides) else []
    if not mine or len({len(one) for one in (mine, *sides)}) > 1:
        return
    drawn = str(mine[0].cell.setting)
    folds = [each for each in zip(mine, *sides) if str(each[0].cell.setting) == drawn]
    tables = [_aligned(*both) for _, *both in folds]
    for k, label in enumerate(tables[0][0].labels):
        at = [_thresholds(own, result).get(label, "") for result, *_ in folds]
        first, second = (
            np.concatenate([t[half].probability[:, k] for t in tables]) for half in (0, 1)
        )
        whose = Patients.of(np.concatenate([one.patients for one, _ in tables]))
        weights = _draws(label, whose)
        made = {"n_records": len(whose.of_record), "n_patients": whose.count}
        made |= _interval("icc", icc(first, second), icc(first, second, weights))
        if not any(isinstance(one, str) for one in at):
            one, two = (
                np.concatenate([t[half].probability[:, k] >= a for t, a in zip(tables, at)])
                for half in (0, 1)
            )
            made |= _interval("kappa", kappa(one, two), kappa(one, two, weights))
        yield {"label": label, **made}


def _draws(label: str, patients: Patients) -> np.ndarray:
    """(draw, record) how often each record is there, when patients are drawn with replacement."""
    n = patients.count
    counts = rng("retest", label).multinomial(n, np.full(n, 1 / n), DRAWS)
    return np.asarray(counts[:, patients.of_record], np.float64)


def _interval(name: str, value: np.ndarray, drawn: np.ndarray) -> Values:
    low, high = percentile_interval(drawn) if np.isfinite(drawn).any() else (np.nan, np.nan)
    return {name: float(value[0]), f"{name}_low": low, f"{name}_high": high}
