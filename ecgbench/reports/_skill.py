"""How much of its skill above chance a column keeps with fewer leads, with a 95 % interval."""

from dataclasses import dataclass
from math import isfinite

from ecgbench.core.cards import MetricCard
from ecgbench.errors import MissingData
from ecgbench.reports._facts import FULL, Head
from ecgbench.reports._section import Score
from ecgbench.results.joint import Entry, joint
from ecgbench.results.study import Study

_LEAST = 0.2
"""Of the way from chance to a perfect score (macro AUROC 0.6): a share of less says little."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A share of the skill above chance at 12 leads, and its interval."""

    value: float
    low: float
    high: float


def skilled(score: Score | None, metric: MetricCard) -> bool:
    """Whether a score at 12 leads is surely far enough from chance for a share of it to be said:
    its interval ends beyond a fifth of the way from chance to a perfect score.
    """
    if score is None or metric.chance is None:
        return False
    highest = metric.direction == "higher"
    bound = score.low if highest else score.high
    perfect = metric.range[1] if highest else metric.range[0]
    if bound is None:
        return False
    return (bound - metric.chance) / (perfect - metric.chance) > _LEAST


def kept(study: Study, head: Head, task: str, leads: str) -> Kept | None:
    """Of one column and task, by the first metric of a study; None where its predictions are not
    at hand, or where its interval has no ends.
    """
    chance = study.metrics[study.metric].chance
    if chance is None:
        return None
    fewer, full = (Entry(*head.names, each) for each in (leads, FULL))
    try:
        share = joint(study, [fewer, full], [task]).share(fewer, full, chance)
    except MissingData:
        return None
    if not all(map(isfinite, (share.value, share.low, share.high))):
        return None
    return Kept(value=share.value, low=share.low, high=share.high)
