"""What fewer leads cost: each model against itself at twelve leads, and against the best model
there, with verdicts by margin.

A difference is of the same patients, of macro AUROC or the metric that tables lead with. "yes"
where the whole 95 % interval lies above minus the margin, "no" where it lies below, "undecided"
otherwise. Two guards: no verdict where the model's own skill at twelve leads is not clearly above
chance, since what is at chance never gets worse; and no "yes" where a single label has clearly
lost much, since a mean over labels can hide it.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ecgbench.results import precompute
from ecgbench.results.compare import UNTESTED, few, weak
from ecgbench.results.joint import Entry, Joint, joint, why_missing
from ecgbench.results.study import FULL, Run, once
from ecgbench.stats.components import Estimate
from ecgbench.stats.detectable import detectable
from ecgbench.study.scores import ranks_records

MARGINS_ABOVE_CHANCE = 5
"""How many margins the lower bound at twelve leads must lie above chance for a verdict."""
LOST = 0.05
"""A label that surely lost more than this cancels a "yes", ..."""
LEAST_POSITIVES = 20
"""... where it has so many positives."""
OWN, BEST = "its own 12 leads", "the best at 12 leads"
Values = dict[str, Any]


class _Model(NamedTuple):
    """A column in a task."""

    task: str
    own: Entry
    """At twelve leads."""
    best: Entry
    """The best column at twelve leads."""
    fewer: Sequence[Entry]
    """At its other settings that have a score."""
    joint: Joint
    """Of all of them."""


def lost_label(joint: Joint, weights: np.ndarray) -> str:
    """The label with the largest sure loss beyond LOST under a contrast (entry,); "" where none,
    and where a metric does not rank records.
    """
    worst, name = -LOST, ""
    for group in joint.groups if ranks_records(joint.metric) else ():
        placed = group.placed
        positives = np.bincount(placed.label_of, placed.positives)
        for label, found in enumerate(placed.by_label(weights)):
            high = found.as_difference().high
            if positives[label] >= LEAST_POSITIVES and high < worst:
                worst, name = high, group.label_names[label]
    return name


def no_verdict(above: float, margin: float) -> bool:
    """Whether what lies so far above chance (its lower bound) is too near to it to be kept."""
    return not above > MARGINS_ABOVE_CHANCE * margin


def untested(together: Joint, e: Estimate) -> str:
    """Why a difference is not tested; "" where it is."""
    # of several datasets one may well carry most: it is the largest part of the question
    label = together.named(e) if len(together.groups) == 1 else ""
    weakness = weak(e.df, e.share if label else np.nan, f"the label {label}")
    return few(together.least_patients) or weakness


def estimated(e: Estimate | None, name: str = "difference", before: str = "") -> Values:
    """Columns of a CSV file: `name`, its 95 % interval, standard error, degrees of freedom and p,
    these with `before` in their names; None where there is no number.
    """
    names = (name, *(before + end for end in ("low", "high", "se", "df", "p")))
    values = (e.value, *e.as_difference(), e.se, e.df, e.p) if e else [np.nan] * len(names)
    return {n: float(value) if np.isfinite(value) else None for n, value in zip(names, values)}


@once
def compared(study: Run) -> pd.DataFrame:
    """Rows of non_inferiority.csv: each setting of each trained column on real recordings against
    its own twelve leads, then against the best there. Empty of a run without twelve leads, or
    without fewer.
    """
    pieces = [partial(_rows, study, model) for model in _models(study)]
    found = precompute.each(study.scorer, study.stage, ("fewer leads", "models of a task"), pieces)
    return pd.DataFrame([row for own in found for row in own], dtype=object)


def _models(study: Run) -> Iterator[_Model]:
    if study.scorer is None:
        return
    settings = list(dict.fromkeys(study.main["leads"]))
    trained = [names for names in study.columns if names not in study.untrained]
    for task in study.real_tasks:
        scores = {names: study.value(task, *names, FULL) for names in trained}
        there = [names for names in trained if np.isfinite(scores[names])]
        if not there:
            continue
        top = max(there, key=lambda names: study.sign * scores[names])
        best = Entry(*top, FULL)
        for names in there:
            own = Entry(*names, FULL)
            every = [e for leads in settings if (e := Entry(*names, leads)) != own]
            if fewer := [e for e in every if not why_missing(study, [e], [task])]:
                # of two that know other labels, neither is the best
                other = own if why_missing(study, [own, best], [task]) else best
                entries = list(dict.fromkeys([*fewer, own, other]))
                yield _Model(task, own, other, fewer, joint(study, entries, [task]))


def _rows(study: Run, model: _Model) -> list[Values]:
    """Each setting against its own twelve leads and against the best there."""
    together, entries = model.joint, model.joint.entries
    chance = study.metrics[study.metric].chance
    full = together.contrast(np.eye(len(entries))[entries.index(model.own)])
    low_full = np.nan if chance is None else full.as_share().low
    made: list[Values] = []
    for against, entry in ((OWN, model.own), (BEST, model.best)):
        if against == BEST and entry == model.own:
            continue
        weights = np.array([together.less(fewer, entry) for fewer in model.fewer])
        found = together.contrasts(study.sign * weights)
        lows, lost = [np.nan] * len(found), [""] * len(found)
        if study.sign > 0:
            drawn = together.studentised(weights)
            critical = float(np.quantile(drawn.max(axis=1), 0.975))
            # they hold for all settings at once with 97.5 %
            lows = [e.value - max(critical, e.t) * e.se for e in found]
            lost = [lost_label(together, row) for row in weights]
        for fewer, e, low, label in zip(model.fewer, found, lows, lost):
            alike = "" if e.variance > 0 else f"{UNTESTED}all records are ranked alike: no variance"
            why = few(together.least_patients) or alike or untested(together, e)
            row = {
                "task": model.task,
                **fewer._asdict(),
                "against": against,
                "against_model": entry.model,
                "against_policy": entry.policy,
                **estimated(e),
                "low_all_settings": low,
                "low_full": low_full,
                "detectable": detectable(e),
                "lost_label": label,
                "note": why,
            }
            del row["p"]  # of no difference, which is not the question
            for margin in study.options.margins:
                above = low_full - (chance or 0.0)
                row[f"margin_{margin:g}"] = within(row, margin, above)
            made.append(row)
    return made


def within(row: Values, margin: float, above: float) -> str:
    """Whether a difference (low, high, lost_label, note: why it is not tested) is within a margin.
    `above`: how far the lower bound at twelve leads lies above chance.
    """
    if row["note"] or row["low"] is None:
        return "not tested"
    if no_verdict(above, margin):
        return "no verdict"
    if row["low"] > -margin:
        return "cancelled" if row["lost_label"] else "yes"
    return "no" if row["high"] < -margin else "undecided"
