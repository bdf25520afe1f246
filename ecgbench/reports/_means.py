"""How models stand over all tasks of a run at one lead setting: means over datasets, every
difference of two, and which models may be the best.

Only columns that have a score in every task that any trained column has: a mean over other tasks
is another quantity.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations

import numpy as np

from ecgbench.core.text import enumerated
from ecgbench.reports._facts import Head, columns, setting_words
from ecgbench.results import precompute
from ecgbench.results.joint import Entry, Joint, joint, why_missing
from ecgbench.results.non_inferiority import untested
from ecgbench.results.study import Run
from ecgbench.stats.best import upper_bounds
from ecgbench.stats.components import ROUNDING, Estimate, Interval
from ecgbench.stats.paired import holm


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two trained columns: the better less the other."""

    better: Head
    other: Head
    estimate: Estimate
    p: float | None
    p_holm: float | None
    """Over all pairs of trained columns of the setting."""
    note: str
    """Why it is not tested."""

    @property
    def bounds(self) -> Interval:
        """95 % interval of the difference."""
        return self.estimate.as_difference()


@dataclass(frozen=True, kw_only=True, eq=False)
class Means:
    """One lead setting."""

    leads: str
    heads: tuple[Head, ...]
    """Trained, the best mean first."""
    untrained: tuple[Head, ...]
    tasks: tuple[str, ...]
    lost: Mapping[Head, str]
    """Columns that lack a score -> where and why."""
    joint: Joint
    """Of `heads` and `untrained`, in the order of the run."""
    values: Mapping[Head, float]
    """Means over datasets."""
    by_task: Mapping[Head, float]
    """Means over tasks, as the paper takes them."""
    sign: int
    """1 where higher is better."""
    range: tuple[float, float]
    """Of the metric."""

    def less(self, pairs: Sequence[tuple[Head, Head]]) -> np.ndarray:
        """(pair, entry) weights of the first less the second, turned so that more is better."""
        entries = [[Entry(*head.names, self.leads) for head in pair] for pair in pairs]
        return np.array([self.sign * self.joint.less(*pair) for pair in entries])

    @cached_property
    def intervals(self) -> dict[Head, Interval]:
        """95 % intervals of the means; NaN where their variance is not known."""
        found = self.joint.contrasts(np.eye(len(self.values)))
        share = self.range == (0.0, 1.0)
        return {h: e.as_share() if share else e.as_difference() for h, e in zip(self.values, found)}

    @cached_property
    def pairs(self) -> list[Pair]:
        """All pairs of trained columns."""
        order = list(combinations(self.heads, 2))
        if not order:
            return []
        found = self.joint.contrasts(self.less(order))
        why = [untested(self.joint, e) for e in found]
        p = [1.0 if note or np.isnan(e.p) else e.p for note, e in zip(why, found)]
        return [
            Pair(
                better=a,
                other=b,
                estimate=e,
                p=None if note else one,
                p_holm=None if note else float(adjusted),
                note=note,
            )
            for (a, b), e, note, one, adjusted in zip(order, found, why, p, holm(p))
        ]

    def pair(self, a: Head, b: Head) -> Pair:
        """In whichever order they stand."""
        return next(p for p in self.pairs if {p.better, p.other} == {a, b})

    @cached_property
    def beyond_the_best(self) -> dict[Head, float]:
        """Upper bound of each trained mean less the best other's, all at once; see stats.best."""
        n = len(self.heads)
        if n < 2:
            return {}
        order = list(combinations(range(n), 2))
        drawn = self.joint.studentised(
            self.sign * self.less([(self.heads[a], self.heads[b]) for a, b in order])
        )
        errors, se = np.zeros((len(drawn), n, n)), np.zeros((n, n))
        for (a, b), column, pair in zip(order, drawn.T, self.pairs):
            errors[:, a, b], errors[:, b, a] = column, -column
            se[a, b] = se[b, a] = pair.estimate.se
        values = self.sign * np.array([self.values[head] for head in self.heads])
        return dict(zip(self.heads, upper_bounds(values, se, self.sign * errors).tolist()))

    def may_be_best(self, head: Head) -> bool:
        """Whether it is not known of a trained model that another is better."""
        return self.beyond_the_best[head] > -ROUNDING

    @property
    def tested(self) -> bool:
        """Whether any pair is."""
        return any(pair.p is not None for pair in self.pairs)


def settings(study: Run) -> list[str]:
    """Lead settings as typed, in the order of the run."""
    return list(dict.fromkeys(study.main["leads"]))


def foremost(study: Run, most: int) -> list[str]:
    """Lead settings that are shown where there is no room for all: numbers first, from the fewest,
    then named ones.
    """
    ordered = study.main.sort_values(["named", "n_leads", "leads"])["leads"]
    return list(dict.fromkeys(ordered))[:most]


def shown_alone(shown: Sequence[str], file: str) -> str:
    """The sentence that says which are shown, and where the others are."""
    words = enumerated([setting_words(leads) for leads in shown])
    return f"Shown: {words}. The other lead settings are in {file}."


def at_setting(study: Run, leads: str) -> Means | None:
    """Of the first metric and all tasks that are not synthetic. None where no trained column is
    complete.
    """
    if study.scorer is None:
        return None
    heads = columns(study)
    trained = [h for h in heads if not h.untrained]
    of = [
        t
        for t in study.real_tasks
        if any(np.isfinite(study.value(t, *h.names, leads)) for h in trained)
    ]
    lost: dict[Head, str] = {}
    for head in heads:
        missing = why_missing(study, [Entry(*head.names, leads)], of)
        if missing:
            task, why = next(iter(missing.items()))
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            lost[head] = f"no score in {task}{more} ({why})"
    lost |= uneven(study, [h for h in trained if h not in lost], leads, of)
    complete = [h for h in heads if h not in lost]
    if not of or all(h.untrained for h in complete):
        return None
    sign = study.sign
    whole = joint(
        study, [Entry(*h.names, leads) for h in complete], of, paired=study.options.paired
    )
    value = dict(zip(complete, map(float, whole.values)))
    ordered = sorted(complete, key=lambda h: -sign * value[h])
    return Means(
        leads=leads,
        heads=tuple(h for h in ordered if not h.untrained),
        untrained=tuple(h for h in ordered if h.untrained),
        tasks=tuple(of),
        lost=lost,
        joint=whole,
        by_task=dict(zip(complete, map(float, whole.by("task").values))),
        values=value,
        sign=sign,
        range=study.metrics[study.metric].ends,
    )


def at_settings(study: Run, wanted: Sequence[str]) -> list[Means | None]:
    """`at_setting` of these, with all that is said of them."""
    pieces = [partial(_computed, study, leads) for leads in wanted]
    called = "means over datasets", "lead settings"
    return precompute.each(study.scorer, study.stage, called, pieces)


def _computed(study: Run, leads: str) -> Means | None:
    made = at_setting(study, leads)
    # these stay with it
    _ = made and (made.intervals, made.pairs, made.beyond_the_best)
    return made


def uneven(study: Run, heads: Sequence[Head], leads: str, of: Sequence[str]) -> dict[Head, str]:
    """Columns that average fewer draws, fits or labels in some tasks than others do -> that."""
    score = study.scorer
    assert score is not None
    drawn = {
        head: {
            (task, str(r.cell.setting), r.cell.fit.seed, r.cell.fit.fold, label)
            for task in of
            for r in study.finished.get((task, *head.names, leads), [])
            for label in score(r, study.metric).known
        }
        for head in heads
    }
    every = set().union(*drawn.values())
    why = "averages fewer lead draws, fits, folds or labels than others"
    return {head: why for head, own in drawn.items() if own != every}
