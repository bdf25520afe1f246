"""The main table and what its rows say: what a page opens with, who is best and whether that could
be chance, scores by task and lead setting, comparisons, and cells without a number.

main_table.csv is long (one row per metric x task x model x setting x policy, fractions at full
precision), and every number of the other files, of the page and of the figure is 100 x one of its
values. Markdown and LaTeX have the form of the paper that introduced LAEF: three ranks per row, an
asterisk for what is not significantly worse than the best, a dagger for tasks that are evaluated
only. Untrained encoders and synthetic data allow no verdict and are left out of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ecgbench.core.text import enumerated
from ecgbench.reports import (
    Cell,
    Column,
    Numbers,
    ReportCard,
    Row,
    Section,
    Table,
    Text,
    p_value,
    points,
    signed,
    signed_bracket,
)
from ecgbench.reports._facts import (
    DAGGER,
    Head,
    difference_column,
    gaps,
    heads_of,
    leads_of,
    model_column,
    numbers,
    setting_words,
    task_column,
    titles_of,
    untrained_marks,
)
from ecgbench.reports._grid import Block, Grid, grids, part
from ecgbench.reports._means import for_page
from ecgbench.reports._opening import opening
from ecgbench.reports._section import records
from ecgbench.reports._text import millions
from ecgbench.results.notes import PENDING
from ecgbench.results.study import Study

CARD = ReportCard(
    title="Main table",
    summary="scores by task and lead setting, who is best, and whether that could be chance",
    reads="run",
    order=0,
)
ASTERISK = (
    "not significantly worse than the best of the row: the 95 % interval of the paired "
    "difference contains 0"
)
FEW = 2
"""Random leads up to which a place counts for Table 1."""
NAMED = ("I", "II")
"""The leads of watches and hand-held recorders."""
LEVEL = 0.05
"""Of p after Holm: a verdict is one of many."""
CLEAR, CHANCE, UNTESTED, EQUAL = "clear", "could be chance", "not tested", "equal"
_SIGNS = {
    CLEAR: (
        "✓",
        "the best differs from the second by more than chance explains (p after Holm below 0.05)",
    ),
    CHANCE: ("≈", "the difference between the best and the second could be chance"),
    UNTESTED: ("·", "not tested; Comparisons says why"),
    EQUAL: ("=", "the best and the second have the same score"),
}
_VERDICT = (
    *("task", "leads", "metric", "best_model", "best_policy", "value", "second_model"),
    *("second_policy", "difference", "low", "high", "p_holm", "verdict", "rivals", "beaten"),
)
_HOW_COMPARED = (
    "Both sides of a difference have the same patients. The best was chosen on the same data, so p "
    "is post selection; Holm corrects over all pairs of trained columns of one task and one lead "
    "setting, any of which could have held the best, and over those of the whole table. df: "
    "degrees of freedom. An untrained column is in no family."
)


def sections(study: Study) -> list[Section]:
    """What stands at the top of the page, the table of each metric, and what is left of it for
    few leads; comparisons; what has no number.
    """
    first = grids(study)[study.metric]
    shown, its_numbers = opening(study.of(study.metric), first, gaps(study))
    kept = Table(name="opening", columns=(), rows=(), numbers=its_numbers, formats=("csv",))
    top = Section(name="findings", parts=[shown, *([kept] if its_numbers.rows else [])])
    return [
        top,
        *_who_is_best(study, first),
        _main(study),
        *_table_1(first),
        *_named_leads(study, first),
        _comparisons(study),
        _without_a_number(study),
    ]


def _main(study: Study) -> Section:
    """The table of each metric; the first is written as CSV and has the notes."""
    provenance = study.provenance
    weights = dict.fromkeys([*study.main["weights"], *study.cells["weights"]])
    setting = (
        f"Protocol {provenance.protocol}, contract {provenance.contract}; weights: "
        f"{enumerated(list(weights))}."
    )
    kept = numbers(study.main, "one row per metric, task, model and lead setting")
    tables = [
        _table("main_table", grid, [*study.notes, setting], numbers=kept)
        if name == study.metric
        else _table(f"main_table_{name}", grid)
        for name, grid in grids(study).items()
    ]
    title = f"Macro {enumerated([card.title for card in study.metrics.values()])} × 100"
    below = Text("Under each model: parameters, and the policy for missing leads.", "fine")
    return Section(name="main_table", title=title, short=CARD.title, parts=[*tables, below])


def _table(
    name: str, grid: Grid, notes: Sequence[str] = (), numbers: Numbers | None = None
) -> Table:
    """Tasks and lead settings, and a column of scores for each model under each policy."""
    used = [score for block in grid.tasks for line in block.lines.values() for score in line]
    marks = {"*": ASTERISK} if any(score and score.star for score in used) else {}
    marks |= {"†": DAGGER} if any(block.evaluation_only for block in grid.tasks) else {}
    return Table(
        name=name,
        caption=f"Macro {grid.metric.title} × 100 by task and measured leads.",
        columns=[
            Column("task", "Task", "group"),
            Column("leads", "Leads", on_page=setting_words),
            *(
                Column(str(at), h.label, "score", note=millions(h.parameters), mark=h.mark)
                for at, h in enumerate(grid.columns)
            ),
        ],
        rows=[
            {"task": Cell(block.title, "†" if block.evaluation_only else ""), "leads": leads}
            | {str(at): score for at, score in enumerate(scores) if score}
            for block in grid.tasks
            for leads, scores in block.lines.items()
        ],
        marks=marks | untrained_marks(grid.columns),
        footnotes=grid.footnotes,
        notes=notes,
        numbers=numbers,
        formats=("csv", "md", "tex", "html") if numbers else ("md", "tex", "html"),
    )


def _table_1(whole: Grid) -> list[Section]:
    """The columns that reach one of the first three places with few random leads, with their places
    among all: a table for the text of a paper. Nothing where that leaves out no column.
    """
    kept = [
        at
        for at in range(len(whole.columns))
        if any(
            (score := scores[at]) and score.rank
            for block in whole.tasks
            for typed, scores in block.lines.items()
            if leads_of(typed)[0] <= FEW and not leads_of(typed)[1]
        )
    ]
    left_out = [h.label for at, h in enumerate(whole.columns) if at not in kept]
    if not kept or not left_out:
        return []
    note = (
        f"Columns with one of the first three places at up to {FEW} random leads in any task. "
        f"Places are among all columns; left out: {enumerated(left_out)}."
    )
    table = _table("table1", part(whole, kept, lambda typed: not leads_of(typed)[1]), [note])
    return [Section(name="table1", title="Few leads, best models", short="Table 1", parts=[table])]


def _named_leads(study: Study, whole: Grid) -> list[Section]:
    """The rows of lead I and of lead II, of the tasks that have both."""
    there = [block for block in whole.tasks if set(NAMED) <= set(block.lines)]
    if not there:
        return []
    every = range(len(whole.columns))
    fixed = part(replace(whole, tasks=there), every, lambda typed: typed in NAMED)
    windows = {m.title: f"{m.title} {m.windows:.3g}" for m in study.models if m.windows}
    note = (
        "Their means over tasks stand in the section on all tasks. Windows of a record whose "
        f"scores are averaged: {enumerated(list(windows.values()))}. Where a lead is drawn for "
        "each window (scoring.draw=window), more windows see more leads."
    )
    table = _table("leads_i_ii", fixed, [note])
    title = "Leads I and II alone"
    return [Section(name="leads_i_ii", title=title, short="Leads I and II", parts=[table])]


def verdicts(study: Study, grid: Grid) -> list[dict[str, Any]]:
    """Rows of verdicts.csv, in the order of the table: of trained columns on real recordings, where
    two or more have a score.
    """
    names = ("task", "leads", "best_model", "best_policy", "model", "policy")
    compared = study.of(study.metric).comparisons
    tests = {tuple(row[n] for n in names): row for row in records(compared)}
    return [
        _verdict(block, leads, order, tests) | {"metric": grid.metric.title}
        for block in grid.tasks
        if not block.synthetic
        for leads in block.lines
        if len(order := _ordered(grid, block, leads)) > 1
    ]


def _ordered(grid: Grid, block: Block, leads: str) -> list[tuple[Head, float]]:
    """Trained columns and their scores, the best first."""
    scores = [
        (head, score.value)
        for head, score in zip(grid.columns, block.lines[leads])
        if score and score.value is not None and not head.untrained
    ]
    return sorted(scores, key=lambda pair: pair[1], reverse=grid.metric.direction == "higher")


def _verdict(
    block: Block,
    leads: str,
    order: Sequence[tuple[Head, float]],
    tests: Mapping[tuple[str, ...], Row],
) -> dict[str, Any]:
    (best, top), (second, following) = order[:2]
    found = [tests.get((block.task, leads, *best.names, *head.names)) for head, _ in order[1:]]
    clear = _beyond_chance(found[0])
    word = UNTESTED if clear is None else CLEAR if clear else CHANCE
    test = found[0] or {"difference": top - following}
    return {
        "task": block.task,
        "leads": leads,
        "best_model": best.model,
        "best_policy": best.policy,
        "value": top,
        "second_model": second.model,
        "second_policy": second.policy,
        **{name: test.get(name) for name in ("difference", "low", "high", "p_holm")},
        "verdict": EQUAL if top == following else word,
        "rivals": len(order) - 1,
        "beaten": sum(bool(_beyond_chance(each)) for each in found),
    }


def _beyond_chance(test: Row | None) -> bool | None:
    """Whether a difference is larger than chance explains, by p after Holm; None where it was not
    tested. The asterisk of the main table follows the paper's rule, each interval by itself.
    """
    if test is None or test["not_significantly_worse"] is None:
        return None
    if test["p_holm"] is None:
        return not test["not_significantly_worse"]
    return bool(test["p_holm"] < LEVEL)


def _who_is_best(study: Study, grid: Grid) -> list[Section]:
    """A row per task, a column per lead setting; nothing where nothing is compared."""
    rows, heads, titles = verdicts(study, grid), heads_of(study), titles_of(study)
    if not rows:
        return []
    there = {row["leads"] for row in rows}
    asked = dict.fromkeys(leads for block in grid.tasks for leads in block.lines)
    used = {row["verdict"] for row in rows}
    table = Table(
        name="verdicts",
        caption=f"The best of each task and lead setting by macro {grid.metric.title}.",
        columns=[
            Column("task", "Task"),
            *(Column(leads, setting_words(leads)) for leads in asked if leads in there),
        ],
        rows=[
            {"task": titles[task]}
            | {row["leads"]: _spelled(row, heads) for row in rows if row["task"] == task}
            for task in dict.fromkeys(row["task"] for row in rows)
        ],
        marks=dict(sign for word, sign in _SIGNS.items() if word in used),
        notes=[
            "Below each: its score, the points by which it is better than the second with their "
            "95 % interval, and how many of the others are lower by more than chance explains."
        ],
        numbers=Numbers(
            columns=_VERDICT,
            rows=rows,
            summary="one row per task and lead setting in which models are compared",
        ),
        formats=("csv", "md", "html"),
        most_columns=8,
    )
    title = "Who is best, and could that be chance?"
    return [Section(name="verdicts", title=title, short="Verdicts", parts=[table])]


def _spelled(row: Row, heads: Mapping[tuple[str, str], Head]) -> Cell:
    best = heads[row["best_model"], row["best_policy"]].label
    second = heads[row["second_model"], row["second_policy"]].label
    word = row["verdict"]
    if word == EQUAL:
        return Cell(f"{best} ", _SIGNS[EQUAL][0], f"equal to {second}")
    interval = signed_bracket(row["low"], row["high"])
    gap = " ".join(filter(None, (signed(row["difference"]), interval, f"to {second}")))
    others = f"; {row['beaten']} of {row['rivals']} lower" if row["rivals"] > 1 else ""
    return Cell(f"{best} ", _SIGNS[word][0], f"{word}; {points(row['value'])}, {gap}{others}")


def _comparisons(study: Study) -> Section:
    """Each column against the best trained one of its task and lead setting; comparisons.csv holds
    those of all metrics.
    """
    tables = [_compared(study, name) for name in study.metrics]
    title = "Paired comparisons with the best"
    return Section(name="comparisons", title=title, short="Comparisons", parts=tables)


def _compared(study: Study, metric: str) -> Table:
    titles, first = list(titles_of(study)), metric == study.metric
    rows = study.of(metric).comparisons
    rows = rows.sort_values("task", key=lambda task: task.map(titles.index), kind="stable")
    shown, notes = for_page(study, rows, "comparisons.csv")
    excludes = {True: "no", False: "yes"}
    return Table(
        name="comparisons" if first else f"comparisons_{metric}",
        caption=f"By macro {study.metrics[metric].title}." if len(study.metrics) > 1 else "",
        rows=shown,
        columns=[
            task_column(study),
            Column("leads", "Leads"),
            model_column(study),
            model_column(study, "Best", ("best_model", "best_policy")),
            difference_column("Best − model", note="points, 95 % interval"),
            Column("p", "p", "number", p_value),
            Column("p_holm", "p", "number", p_value, note="Holm, setting"),
            Column("p_holm_all", "p", "number", p_value, note="Holm, table"),
            Column("df", "df", "number", "{:.0f}".format),
            Column("n_records", "Records", "number", "{:,}".format, note="in both"),
            Column("n_patients", "Patients", "number", "{:,}".format, note="in both"),
            Column("not_significantly_worse", "Interval excludes 0", spell=excludes.__getitem__),
            Column("note", "Note"),
        ],
        notes=[*notes, _HOW_COMPARED],
        numbers=study.comparisons if first else None,
        summary="one row per comparison with the best of a metric, task and lead setting",
        formats=("csv", "html") if first else ("html",),
    )


def _without_a_number(study: Study) -> Section:
    """The cells that failed, were skipped or are not computed yet, those of one reason together;
    cells.csv has a row for each cell.
    """
    heads, titles, lost = heads_of(study), titles_of(study), gaps(study)
    summary = "one row per cell and metric: every lead draw, its key and its place in the run"
    table = Table(
        name="cells",
        columns=[
            Column("task", "Task"),
            Column("model", "Model"),
            Column("leads", "Leads"),
            Column("status", "Status"),
            Column("reason", "Reason"),
        ],
        rows=[
            {
                "task": titles[gap.task],
                "model": heads[gap.model, gap.policy].cell,
                "leads": _settings(gap.leads),
                "status": gap.word,
                "reason": gap.reason.removeprefix(f"{PENDING}; "),
            }
            for gap in lost
        ],
        marks=untrained_marks(heads[gap.model, gap.policy] for gap in lost),
        numbers=numbers(study.cells, summary),
        formats=("csv", "html") if lost else ("csv",),
    )
    return Section(name="cells", title="Without a number", parts=[table])


def _settings(leads: Mapping[str, tuple[int, int]]) -> str:
    """The settings of a gap; how many draws where not all are concerned.

    >>> _settings({"1": (5, 5), "2": (3, 5), "I": (1, 1)})
    '1, 2 (3 of 5 draws), I'
    """
    return ", ".join(
        typed if lost == asked else f"{typed} ({lost} of {asked} draws)"
        for typed, (lost, asked) in leads.items()
    )
