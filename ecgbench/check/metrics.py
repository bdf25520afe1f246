"""Properties of every metric: its range, its direction, and values that do not depend on the order
of the records.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ecgbench import datasets, metrics
from ecgbench.check._properties import Broken, demand, tried
from ecgbench.core.seeds import rng
from ecgbench.errors import BadSetting
from ecgbench.study.scores import demand_given, demand_labels

RECORDS, LABELS = 200, 4
CLOSE = 1e-9
"""What the order of a sum may change."""


def check(name: str) -> Iterator[dict[str, Any]]:
    """Try every property on the metric called `name`: rows of name, ok, detail."""
    labels = _readable(name) if metrics.card(name).together else [""] * LABELS
    return tried(properties(), Tried(metrics.get(name), labels))


def _readable(name: str) -> Sequence[str]:
    """What a metric that reads all labels together is told of those of the first task that it can
    read; of any task where it can read none.
    """
    known: list[str] = []
    for dataset, _, task in datasets.tasks().values():
        if len(task.labels) < LABELS:
            continue
        codes = datasets.codes(dataset)
        known = [codes.get(label, label) for label in task.labels]
        with suppress(BadSetting):
            demand_labels(name, task, codes)
            break
    return known


@dataclass(frozen=True)
class Tried:
    """A metric, as it is called with predictions alone."""

    module: Any
    labels: Sequence[str]
    """Of the predictions that it is tried on."""

    @property
    def first(self) -> int:
        """Where the values of labels begin."""
        return int(self.module.CARD.together)

    def __getattr__(self, name: str) -> Any:
        own = getattr(self.module, name)
        return partial(own, labels=self.labels) if self.first and callable(own) else own

    def predictions(self, skill: float) -> tuple[np.ndarray, np.ndarray]:
        """Targets (record, label) int8 and probabilities with a few ties; the noise is the same at
        every skill.
        """
        drawn, shares = rng("conformance", "metrics"), [0.1, 0.3, 0.5, 0.7]
        target = drawn.random((RECORDS, len(self.labels))) < np.resize(shares, len(self.labels))
        logit = skill * (2 * target - 1) + drawn.standard_normal(target.shape)
        return target.astype(np.int8), (1 / (1 + np.exp(-logit))).round(3)


def properties() -> Iterator[tuple[str, Callable[[Tried], str]]]:
    """The properties of a metric, by name."""
    yield "one float64 per label, within its range", in_range
    yield "NaN where a label is in all records or in none, and only there", undefined
    yield "the order of the records does not matter", unordered
    yield "labels do not depend on one another", independent
    yield "better predictions have the better value", directed
    yield "influence values sum to 0 and say where a weight moves the value", influences
    yield "wins are counts that give the value", won
    yield "replicates at equal weights are the value", replicated


def in_range(metric: Tried) -> str:
    """Also of predictions that are all alike, and of perfect and of worst ones."""
    target, score = metric.predictions(1.0)
    low, high = metric.CARD.ends
    for predicted in (score, np.full_like(score, 0.5), target.astype(float), 1.0 - target):
        values = metric.value(target, predicted)
        kind, form = type(values).__name__, getattr(values, "shape", "")
        demand(kind == "ndarray", f"it gives {kind}, not an array")
        right = values.dtype == np.float64 and form == (metric.first + len(metric.labels),)
        demand(right, f"it gives {values.dtype} {form}")
        values = values[:1] if metric.first else values
        every = np.isfinite(values).all()
        demand(every, f"it gives {values} where every label has both values")
        within = ((values >= low) & (values <= high)).all()
        demand(within, f"{values} is not within {low:g} to {high:g}")
    return f"of {RECORDS} records and {len(metric.labels)} labels"


def undefined(metric: Tried) -> str:
    """A label that has one class only gets no number."""
    target, score = metric.predictions(1.0)
    target[:, 1], target[:, 2] = 0, 1
    values = metric.value(target, score)[metric.first :]
    lacking = np.isnan(values[:LABELS]).tolist()
    right = all(lacking[1:3]) and (metric.first or not (lacking[0] or lacking[3]))
    demand(right, f"it gives {values} for labels: both values, none, all, both")
    return "nan"


def unordered(metric: Tried) -> str:
    """Records in another order give the same values and, each, the same influence."""
    target, score = metric.predictions(1.0)
    order = rng("conformance", "order").permutation(RECORDS)
    shuffled, other = (target[order], score[order]), "another order of the records gives other"
    influence = metric.influence(target, score)
    if influence is not None:
        _same(influence[order], metric.influence(*shuffled), f"{other} influence values")
    return _same(metric.value(target, score), metric.value(*shuffled), f"{other} values")


def independent(metric: Tried) -> str:
    """A label has the value that it would have alone."""
    if metric.first:
        return "it reads all labels of a record together"
    target, score = metric.predictions(1.0)
    alone = np.concatenate(
        [metric.value(target[:, [k]], score[:, [k]]) for k in range(len(target.T))]
    )
    return _same(metric.value(target, score), alone, "a label alone has another value")


def directed(metric: Tried) -> str:
    """Skill helps, in the macro, in the direction of the card; more of it than enough
    may change nothing.
    """
    every = [metric.value(*metric.predictions(skill)) for skill in (0.5, 2.0, 8.0)]
    means = [float(one[0] if metric.first else one.mean()) for one in every]
    ordered = metric.CARD.sign * np.diff(means)
    values = f"of little, more and much skill: {', '.join(f'{m:.3f}' for m in means)}"
    right = (ordered >= 0).all() and ordered.any()
    demand(right, f"{values}; {metric.CARD.direction} is better")
    return values


def influences(metric: Tried) -> str:
    """They are the slope of the value in each record's weight; a record that is there twice weighs
    2.
    """
    target, score = metric.predictions(1.0)
    influence = metric.influence(target, score)
    if influence is None:
        return "it has none: intervals draw patients with replacement"
    right = influence.shape == (RECORDS, metric.first + len(metric.labels))
    demand(right, f"influence {influence.shape} for predictions {target.shape}")
    total, scale = np.abs(influence.sum(axis=0)), np.abs(influence).sum(axis=0)
    demand((total <= 1e-6 * scale).all(), f"they sum to {influence.sum(axis=0)}")
    twice = rng("conformance", "twice").integers(RECORDS, size=RECORDS // 10)
    more = np.concatenate([np.arange(RECORDS), twice])
    moved = metric.value(target[more], score[more]) - metric.value(target, score)
    expected = influence[twice].sum(axis=0) / len(more)
    near = not (np.abs(moved - expected) > 0.25 * np.abs(expected) + 2e-3).any()
    demand(near, f"{len(twice)} records twice move it by {moved}, not by {expected}")
    return f"{len(twice)} records twice move it as they say"


def won(metric: Tried) -> str:
    """Where it has wins: whole numbers whose placements have the value as their mean, over the
    positives and over the negatives.
    """
    if metric.first or not hasattr(metric, "wins"):
        return "it has none"
    target, score = metric.predictions(1.0)
    wins, values = np.asarray(metric.wins(target, score)), metric.value(target, score)
    demand(wins.shape == target.shape, f"wins {wins.shape} for predictions {target.shape}")
    try:
        demand_given("it", target, wins.astype(float), values)
    except BadSetting as error:
        raise Broken(str(error).split(";")[0]) from error
    return f"of {RECORDS} records and {len(metric.labels)} labels"


def replicated(metric: Tried) -> str:
    """Where it computes replicates itself: whole weights are repeated records."""
    if not hasattr(metric, "replicates"):
        return "it has none of its own"
    target, score = metric.predictions(1.0)
    counts = rng("conformance", "counts").integers(0, 3, (3, RECORDS))
    counts[0] = 1
    given = metric.replicates(target, score, counts)
    repeated = [(target.repeat(n, axis=0), score.repeat(n, axis=0)) for n in counts]
    values = np.stack([metric.value(*records) for records in repeated])
    return _same(values, given, "weights are not repeated records")


def _same(one: np.ndarray, other: np.ndarray, complaint: str) -> str:
    near = np.allclose(one, other, rtol=0, atol=CLOSE, equal_nan=True)
    demand(near, f"{complaint}, by up to {np.nanmax(np.abs(one - other)):.1e}")
    return f"to {CLOSE:g}"
