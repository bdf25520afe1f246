"""Findings: what the rows of the main table say. A sentence and three numbers to open with, and who
is best in each task and lead setting, with the difference and whether it could be chance.

Untrained encoders and synthetic data allow no such verdict: they are left out of it. A run of
nothing else is called what it is, with its numbers beside.
"""

from collections.abc import Sequence

from ecgbench.reports import Cell, Column, Numbers, ReportCard, Section, Table
from ecgbench.reports._facts import comparisons, gaps, setting_words
from ecgbench.reports._grid import Grid, grid
from ecgbench.reports._opening import opening
from ecgbench.reports._text import points, signed
from ecgbench.reports._verdicts import CHANCE, CLEAR, EQUAL, UNTESTED, Verdict, verdicts
from ecgbench.results.study import Study

CARD = ReportCard(
    title="Findings",
    summary="what the rows say: what skill is kept, who is best, whether that could be chance",
    reads="run",
    order=0,
)
_HELD = (
    *("task", "leads", "metric", "best_model", "best_policy", "value", "second_model"),
    *("second_policy", "difference", "low", "high", "p_holm", "verdict", "rivals", "beaten"),
)
_SIGNS = {CLEAR: "✓", CHANCE: "≈", UNTESTED: "·", EQUAL: "="}
_MEANINGS = {
    CLEAR: "the best stands further from the second than chance explains (p after Holm below 0.05)",
    CHANCE: "the difference between the best and the second could be chance",
    UNTESTED: "not tested; Comparisons says why",
    EQUAL: "the best and the second have the same score",
}


def sections(study: Study) -> list[Section]:
    """What stands at the top of the page, and the matrix of verdicts where something is
    compared.
    """
    first = study.of(study.metric)
    table = grid(first)
    shown, numbers = opening(first, table, gaps(first))
    kept = Table(name="opening", columns=(), rows=(), numbers=numbers, formats=("csv",))
    top = Section(name="findings", parts=[shown, *([kept] if numbers.rows else [])])
    found = verdicts(table, comparisons(first))
    return [top, *([_matrix(table, found)] if found else [])]


def _matrix(table: Grid, found: Sequence[Verdict]) -> Section:
    """A row per task, a column per lead setting."""
    settings = [
        leads
        for leads in dict.fromkeys(leads for block in table.tasks for leads in block.lines)
        if any(verdict.leads == leads for verdict in found)
    ]
    titles = {block.task: block.title for block in table.tasks}
    rows = [
        {"task": titles[task]} | {each.leads: _cell(each) for each in found if each.task == task}
        for task in dict.fromkeys(verdict.task for verdict in found)
    ]
    used = {_SIGNS[verdict.word]: _MEANINGS[verdict.word] for verdict in found}
    matrix = Table(
        name="verdicts",
        caption=f"The best of each task and lead setting by macro {table.metric.title}.",
        columns=[Column("task", "Task")]
        + [Column(leads, setting_words(leads)) for leads in settings],
        rows=rows,
        marks={sign: used[sign] for sign in _SIGNS.values() if sign in used},
        notes=[
            "Below each: by how many points it stands above the second, the 95 % interval of that "
            "difference, and how many of the others are lower by more than chance explains. Of "
            "trained models on real recordings; settings with one such model have nothing to "
            "compare."
        ],
        numbers=Numbers(
            columns=_HELD,
            rows=[_row(table, verdict) for verdict in found],
            summary="one row per task and lead setting in which models are compared",
        ),
        formats=("csv", "md", "html"),
        most_columns=8,
    )
    title = "Who is best, and could that be chance?"
    return Section(name="verdicts", title=title, short="Verdicts", parts=[matrix])


def _cell(verdict: Verdict) -> Cell:
    second = verdict.second.label
    if verdict.word == EQUAL:
        return Cell(f"{verdict.best.label} ", _SIGNS[EQUAL], f"equal to {second}")
    known = verdict.low is not None and verdict.high is not None
    interval = f" [{signed(verdict.low)}, {signed(verdict.high)}]" if known else ""
    others = f"; {verdict.beaten} of {verdict.rivals} lower" if verdict.rivals > 1 else ""
    gap = f"{signed(verdict.difference)}{interval} to {second}"
    small = f"{verdict.word}; {points(verdict.score)}, {gap}{others}"
    return Cell(f"{verdict.best.label} ", _SIGNS[verdict.word], small)


def _row(table: Grid, verdict: Verdict) -> dict[str, object]:
    (model, policy), (second, other) = verdict.best.names, verdict.second.names
    names = ("task", "leads", "difference", "low", "high", "p_holm", "rivals", "beaten")
    return {name: getattr(verdict, name) for name in names} | {
        "metric": table.metric.title,
        "best_model": model,
        "best_policy": policy,
        "value": verdict.score,
        "second_model": second,
        "second_policy": other,
        "verdict": verdict.word,
    }
