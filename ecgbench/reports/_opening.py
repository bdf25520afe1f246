"""What the page of a run opens with: a sentence, three numbers and the lead curve of one task.

The sentence is of the trained column that scores highest with the fewest leads, in the first task
of real recordings. A share of the skill above chance is said only with its interval, and only where
the score at 12 leads is surely beyond chance.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite

from ecgbench.core.text import counted, enumerated
from ecgbench.errors import MissingData
from ecgbench.reports import bracket, points
from ecgbench.reports._facts import FULL, Gap, Head, leads_of, setting_words
from ecgbench.reports._grid import Block, Grid
from ecgbench.reports._section import Figure, Numbers, Opening, Row, Score, Tile
from ecgbench.reports._text import sure
from ecgbench.reports.lead_curve import UNDEFINED, draw, of_task
from ecgbench.results.joint import Entry, Share, joint
from ecgbench.results.notes import PENDING
from ecgbench.results.study import Study

COLUMNS = ("what", "task", "model", "policy", "leads", "value", "low", "high")
LEAST = 0.2
"""Of the way from chance to a perfect score (macro AUROC 0.6): a share of less says little."""


@dataclass(frozen=True, kw_only=True)
class _Case:
    """The column and the task that a page opens with."""

    block: Block
    head: Head
    scores: dict[str, Score]
    """Of 12 leads and of the fewest, in this order; as typed."""
    fewest: str
    """Its setting of the fewest leads; 12 where there is no other."""
    rivals: int
    """Columns like it that have a score there too."""
    share: Share | None
    """Of its skill above chance, with the fewest leads."""


def opening(study: Study, grid: Grid, lost: Sequence[Gap]) -> tuple[Opening, Numbers]:
    """Of a study of one metric, and the numbers it shows."""
    case = _case(study, grid)
    if case is None:
        return Opening(sentence=_nothing(study, lost)), Numbers(columns=COLUMNS, rows=[])
    curve, several = of_task(study, case.block.task), len(grid.tasks) > 1
    figure = Figure(
        name="opening_curve" if several else "lead_curve",
        draw=partial(draw, curve),
        size=(5.6, 3.8) if several else curve.shape[2],
        caption="Bars: 95 % intervals over patients." if several else "",
    )
    shown = Opening(
        sentence=_harness(grid) or _sentence(grid, case),
        about=_about(study, grid, case),
        tiles=list(_tiles(study, grid, case)),
        figure=figure,
        more="lead_curve" if several else "",
    )
    summary = "the numbers that the page opens with"
    return shown, Numbers(columns=COLUMNS, rows=list(_rows(grid, case)), summary=summary)


def _case(study: Study, grid: Grid) -> _Case | None:
    """Real recordings before synthetic ones, trained columns before untrained ones; of settings
    those of the fewest leads, random ones before named ones.
    """
    found = [
        (block, head, scores)
        for block in grid.tasks
        for at, head in enumerate(grid.columns)
        if (scores := _scores(block, at))
    ]
    if not found:
        return None
    block, _, _ = min(found, key=lambda each: each[0].synthetic or each[1].untrained)
    mine = [(head, scores) for of, head, scores in found if of is block]
    mine = [one for one in mine if not one[0].untrained] or mine
    asked = [leads for leads in block.lines if any(leads in scores for _, scores in mine)]
    fewest = min(asked, key=lambda leads: leads_of(leads)[::-1])
    there = [(head, scores) for head, scores in mine if fewest in scores]
    sign = 1 if grid.metric.direction == "higher" else -1
    head, scores = max(there, key=lambda one: sign * (one[1][fewest].value or 0.0))
    share = None
    if fewest != FULL and _skilled(scores.get(FULL), grid):
        share = _kept(study, head, block.task, fewest)
    return _Case(
        block=block,
        head=head,
        scores={leads: scores[leads] for leads in (FULL, fewest) if leads in scores},
        fewest=fewest,
        rivals=len(there) - 1,
        share=share,
    )


def _scores(block: Block, at: int) -> dict[str, Score]:
    """Lead setting as typed -> the score of a column, where it has one."""
    scores = {leads: line[at] for leads, line in block.lines.items()}
    return {leads: s for leads, s in scores.items() if s and s.value is not None}


def _skilled(score: Score | None, grid: Grid) -> bool:
    """Whether a score at 12 leads is surely far enough from chance for a share of it to be said."""
    metric = grid.metric
    if score is None or metric.chance is None:
        return False
    higher = metric.direction == "higher"
    bound, perfect = (score.low, metric.range[1]) if higher else (score.high, metric.range[0])
    return bound is not None and (bound - metric.chance) / (perfect - metric.chance) > LEAST


def _kept(study: Study, head: Head, task: str, leads: str) -> Share | None:
    """None where its predictions are not at hand, or where its interval has no ends."""
    fewer, full = (Entry(*head.names, each) for each in (leads, FULL))
    chance = study.metrics[study.metric].chance
    assert chance is not None
    try:
        share = joint(study, [fewer, full], [task]).share(fewer, full, chance)
    except MissingData:
        return None
    return share if all(map(isfinite, (share.value, share.low, share.high))) else None


def _nothing(study: Study, lost: Sequence[Gap]) -> str:
    """Why no cell has a number of the study's metric."""
    counts: Counter[str] = Counter()
    for gap in lost:
        counts[gap.word] += sum(count for count, _ in gap.leads.values())
    if set(counts) == {PENDING}:
        return f"Nothing is computed yet: {counted(counts[PENDING], 'cell')} to go."
    parts = [f"{count:,} {word}" for word, count in counts.items()]
    if scored := int((study.cells["status"] == "ok").sum()):
        title = study.metrics[study.metric].title
        parts.append(f"{scored:,} scored without {title}, since {UNDEFINED}")
    return f"No cell of this run has a number: {enumerated(parts) or 'none was asked for'}."


def _harness(grid: Grid) -> str:
    """Why nothing may be read from the numbers of this run; "" where something may."""
    scored = [
        head
        for at, head in enumerate(grid.columns)
        if any(_scores(block, at) for block in grid.tasks)
    ]
    real = any(not block.synthetic for block in grid.tasks)
    untrained = all(head.untrained for head in scored)
    if real and not untrained:
        return ""
    which = "" if all(head.untrained for head in grid.columns) else " that has a number"
    why = [f"every encoder{which} is untrained"] if untrained else []
    why += [] if real else ["all data are synthetic"]
    what = "a published model" if real else "a model or a patient"
    return (
        f"This run shows the harness at work: {enumerated(why)}, so no number here says "
        f"anything about {what}."
    )


def _sentence(grid: Grid, case: _Case) -> str:
    """One that needs no statistics to be read."""
    where, who = setting_words(case.fewest), case.head.label
    on = f" on {case.block.title}" if len(grid.tasks) > 1 else ""
    if case.share:
        share = " ".join(_percent(case.share))
        return f"With {where}, {who} keeps {share} of its skill above chance{on}."
    score, full = (
        sure(s.value, s.low, s.high) if (s := case.scores.get(leads)) else ""
        for leads in (case.fewest, FULL)
    )
    said = f"With {where}, {who} has macro {grid.metric.title} {score}{on}"
    rest = f"; with {setting_words(FULL)}, {full}" if full and case.fewest != FULL else ""
    return f"{said}{rest}."


def _percent(share: Share) -> tuple[str, str]:
    """`53 %` and `[49, 58]`."""
    return f"{points(share.value, 0)} %", f"[{points(share.low, 0)}, {points(share.high, 0)}]"


def _about(study: Study, grid: Grid, case: _Case) -> str:
    title, said = grid.metric.title, []
    if case.share:
        said.append(
            f"Skill above chance: how far macro {title} lies from {grid.metric.chance:g}, the "
            f"value of guessing; all of it is what {setting_words(FULL)} give."
        )
    said.append(f"In brackets: 95 % intervals over {_patients(study, case)}.")
    if case.rivals:
        kind = "untrained" if case.head.untrained else "trained"
        best = "highest" if grid.metric.direction == "higher" else "lowest"
        said.append(
            f"{case.head.label} has the {best} score of {case.rivals + 1} {kind} columns at "
            f"{setting_words(case.fewest)}."
        )
    return " ".join(said)


def _patients(study: Study, case: _Case) -> str:
    main = study.main
    mine = main[(main["task"] == case.block.task) & (main["leads"] == case.fewest)]
    most = mine["n_patients"].max()
    return "patients" if most != most else counted(int(most), "test patient")


def _tiles(study: Study, grid: Grid, case: _Case) -> Iterator[Tile]:
    """Three numbers of one column: with 12 leads, with the fewest, and what is kept; where that
    cannot be said, how many patients were tested.
    """
    doubt = ["synthetic"] if case.block.synthetic else []
    doubt += ["random weights"] if case.head.untrained else []
    mark, who = f" ({enumerated(doubt)})" if doubt else "", case.head.label
    for leads, score in case.scores.items():
        yield Tile(
            value=points(score.value),
            interval=bracket(score.low, score.high) or "no interval",
            words=f"macro {grid.metric.title} × 100 of {who}, {setting_words(leads)}{mark}",
        )
    if case.share:
        value, interval = _percent(case.share)
        words = f"of its skill above chance kept by {who}, {setting_words(case.fewest)}{mark}"
        yield Tile(value=value, interval=interval, words=words)
    else:
        number, _, words = _patients(study, case).partition(" ")
        if words:
            yield Tile(value=number, interval="", words=words)


def _rows(grid: Grid, case: _Case) -> Iterator[Row]:
    """The numbers of the tiles, unrounded."""
    of = {"task": case.block.task, "model": case.head.model, "policy": case.head.policy}
    shown: list[tuple[str, str, Score | Share]] = [
        (grid.metric.title, leads, score) for leads, score in case.scores.items()
    ]
    shown += [("skill kept", case.fewest, case.share)] if case.share else []
    for what, leads, each in shown:
        ends = {name: getattr(each, name) for name in ("value", "low", "high")}
        yield of | {"what": what, "leads": leads} | ends
