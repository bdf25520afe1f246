"""Tables of lead importance, and the rows of its CSV files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ecgbench.core.text import counted
from ecgbench.ecg.leads import LEADS
from ecgbench.reports._facts import Head, untrained_marks
from ecgbench.reports._section import Cell, Column, Group, Numbers, Row, Table
from ecgbench.reports._text import bracket, points, signed, signed_bracket
from ecgbench.results.lead_importance import FEWEST_POSITIVES, Condition, Importance, Pair, Profile
from ecgbench.results.lead_importance import Group as Average

GREY = 0.5
"""Reliability below which a profile is shown grey."""
_PAIRS = 5
"""Pairs of leads of a category that the page shows; the CSV has all."""
_SIGN = {"°": f"reliability below {GREY}: other patients would give another order of leads"}
_BOUNDS = ("difference", "low", "high")
_LONG = ("task", "model", "policy", "category", "name", "lead", "auroc", *_BOUNDS, "shrunk", "z")
_OF_ALL = ("reliability", "range", "expected", "bound", "grey")


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A column of a task."""

    title: str
    head: Head
    found: Importance
    suffix: str
    """Of the names of its files."""

    @property
    def whose(self) -> dict[str, str]:
        return {"task": self.found.task, "model": self.found.model, "policy": self.found.policy}

    @property
    def averages(self) -> list[Average]:
        """The macro, and categories in which a condition counts."""
        return [self.found.macro, *(g for g in self.found.categories if g.conditions)]


def grey(profile: Profile) -> bool:
    """Whether nothing should be read into it."""
    return not profile.reliability >= GREY


def _name(profile: Profile) -> Cell:
    empty = isinstance(profile, Average) and not profile.conditions
    return Cell(profile.name, next(iter(_SIGN)) if grey(profile) and not empty else "")


def tables(one: Shown) -> Iterator[Table]:
    averages, marks = one.averages, untrained_marks([one.head])
    if any(map(grey, averages)):
        marks = marks | _SIGN
    yield Table(
        name=f"lead_importance{one.suffix}",
        caption=f"{one.title}: AUROC of each lead alone less the mean over the twelve, in points, "
        f"times its reliability; below it the mean z over the twelve leads, as the paper has it.",
        columns=[
            Column("name", "Conditions"),
            *(Column(lead, lead, "number") for lead in LEADS),
        ],
        rows=[
            {"name": _name(g), **{lead: _number(g, at) for at, lead in enumerate(LEADS)}}
            for g in averages
        ],
        marks=marks,
        numbers=long(one, [*averages, *(g for g in one.found.categories if not g.conditions)]),
    )
    yield _ranges(one, marks)
    if pairs := [(g, p) for g in averages for p in _apart(g)[:_PAIRS]]:
        yield _pairs(one, pairs)


def _number(g: Average, at: int) -> Cell:
    z = "" if np.isnan(g.z[at]) else f"z {g.z[at]:+.1f}".replace("-", "−")
    shrunk = g.shrunk[at]
    return Cell("--" if np.isnan(shrunk) else signed(shrunk), small=z)


def _ranges(one: Shown, marks: dict[str, str]) -> Table:
    """How wide each profile is."""
    rows: list[Row] = []
    for g in [one.found.macro, *one.found.categories]:
        row: dict[str, Any] = {"name": _name(g), "conditions": _counts(g)}
        if g.conditions:
            low, high = g.bounds
            row |= {
                "range": Cell(points(g.range), small=bracket(low, high)),
                "expected": Cell(points(g.expected), small=f"95 %: {points(g.bound)}"),
                "reliability": None if np.isnan(g.reliability) else f"{g.reliability:.2f}",
                "widest": _spelled(max(g.pairs, key=lambda p: abs(p.difference))),
            }
        else:
            row |= dict.fromkeys(("range", "expected", "reliability", "widest"))
        rows.append(row)
    return Table(
        name=f"lead_importance_ranges{one.suffix}",
        caption="How far the twelve leads are apart, in points of AUROC.",
        columns=[
            Column("name", "Conditions"),
            Column("conditions", "Counted"),
            Column("range", "Range", "number", note="at least 95 %"),
            Column("expected", "Exchangeable leads", "number", note="mean"),
            Column("reliability", "Reliability", "number"),
            Column("widest", "Widest difference", note="for all pairs at once"),
        ],
        rows=rows,
        marks=marks,
        numbers=Numbers(
            columns=(
                *("task", "model", "policy", "name", "conditions", "few", "within"),
                *("range", "low", "high", "expected", "bound", "reliability"),
            ),
            rows=[
                {
                    **one.whose,
                    **{name: getattr(g, name) for name in ("name", "conditions", "few", "within")},
                    **(
                        {"range": g.range, "low": g.bounds[0], "high": g.bounds[1]}
                        if g.pairs
                        else {}
                    ),
                    **{n: _plain(getattr(g, n)) for n in ("expected", "bound", "reliability")},
                }
                for g in [one.found.macro, *one.found.categories]
            ],
            summary="the macro mean or a category: how far leads are apart",
        ),
    )


def _counts(g: Average) -> Cell:
    whole = g.conditions + g.few + g.within
    left = [f"{g.few} with < {FEWEST_POSITIVES} positives"] if g.few else []
    left += [f"{g.within} not beyond exchangeable leads"] if g.within else []
    return Cell(f"{g.conditions} of {whole}", small="; ".join(left))


def _apart(g: Average) -> list[Pair]:
    """Pairs whose difference is not 0, the widest first."""
    found = [p for p in g.pairs if p.low > 0 or p.high < 0]
    return sorted(found, key=lambda p: -abs(p.difference))


def _spelled(p: Pair) -> Cell:
    first, second, value, low, high = p.first, p.second, p.difference, p.low, p.high
    if value < 0:
        first, second, value, low, high = second, first, -value, -high, -low
    return Cell(f"{first} − {second}: {signed(value)}", small=signed_bracket(low, high))


def _pairs(one: Shown, pairs: Sequence[tuple[Average, Pair]]) -> Table:
    """Those that differ; the CSV holds all."""
    return Table(
        name=f"lead_importance_pairs{one.suffix}",
        caption=f"Pairs of leads that differ, at most {_PAIRS} of each; the intervals hold for all "
        f"66 pairs at once.",
        columns=[
            Column("name", "Conditions", "group"),
            Column("difference", "Difference", note="points, 95 %"),
            Column("differ", "Pairs that differ", "number"),
        ],
        rows=[
            {
                "name": g.name,
                "difference": _spelled(p),
                "differ": f"{len(_apart(g))} of {len(g.pairs)}",
            }
            for g, p in pairs
        ],
        numbers=Numbers(
            columns=("task", "model", "policy", "name", "first", "second", *_BOUNDS),
            rows=[{**one.whose, "name": g.name, **vars(p)} for g in one.averages for p in g.pairs],
            summary="a lead less another, for the macro mean and each category",
        ),
        formats=("csv", "html"),
    )


def long(one: Shown, profiles: Sequence[Profile]) -> Numbers:
    """A row for each profile and lead."""
    rows: list[Row] = []
    of_condition = ("positives", "left_out")
    for g in profiles:
        whole = {
            **{name: _plain(getattr(g, name)) for name in _OF_ALL if name != "grey"},
            "grey": grey(g),
            "category": g.category if isinstance(g, Condition) else "",
        }
        if isinstance(g, Condition):
            whole |= {name: getattr(g, name) for name in of_condition}
        for at, lead in enumerate(LEADS):
            own: dict[str, float] = {
                "auroc": g.aurocs[at],
                "difference": g.difference[at],
                "low": g.low[at],
                "high": g.high[at],
                "shrunk": g.shrunk[at],
                "z": g.z[at],
            }
            numbers = {name: _plain(value) for name, value in own.items()}
            rows.append({**one.whose, "name": g.name, "lead": lead, **numbers, **whole})
    more = of_condition if any(isinstance(g, Condition) for g in profiles) else ()
    return Numbers(
        columns=(*_LONG, *_OF_ALL, *more),
        rows=rows,
        summary="one row per condition, category or the macro mean, and lead; fractions",
    )


def _plain(value: float) -> float | None:
    return None if np.isnan(value) else value


def conditions(one: Shown) -> Group:
    """What counts and what not, folded away."""
    conditions = one.found.conditions
    table = Table(
        name=f"lead_importance_conditions{one.suffix}",
        columns=[
            Column("category", "Category", "group"),
            Column("name", "Condition"),
            Column("positives", "Positives", "number", "{:,}".format),
            Column("range", "Range", "number", points, note="points"),
            Column("bound", "Exchangeable leads", "number", points, note="95 % up to"),
            Column("reliability", "Reliability", "number", "{:.2f}".format),
            Column("left_out", "Left out of its category"),
        ],
        rows=[
            {
                **{n: getattr(c, n) for n in ("category", "name", "positives", "left_out")},
                **{n: _plain(getattr(c, n)) for n in ("range", "bound", "reliability")},
            }
            for category in one.found.categories
            for c in conditions
            if c.category == category.name
        ],
        numbers=long(one, conditions),
        formats=("csv", "html"),
    )
    return Group(counted(len(conditions), "condition"), [table], folded=True)
