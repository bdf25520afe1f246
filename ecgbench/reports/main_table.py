"""The main table and what its rows say: what a page opens with, who is best and whether that could
be chance, scores by task and lead setting, comparisons, and cells without a number.

main_table.csv is long (one row per metric x task x model x setting x policy, fractions at full
precision), and every number of the other files, of the page and of the figure is 100 x one of its
values. Markdown and LaTeX have the form of the paper that introduced LAEF: three ranks per row, an
asterisk for what is not significantly worse than the best, a dagger for tasks that are evaluated
only. Untrained encoders and synthetic data allow no verdict and are left out of them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ecgbench import reports as r
from ecgbench.core.text import enumerated
from ecgbench.reports import _facts as facts
from ecgbench.reports._means import for_page
from ecgbench.reports._opening import opening
from ecgbench.reports._scores import ranked
from ecgbench.reports._text import millions, sure
from ecgbench.results.notes import PENDING
from ecgbench.results.study import Study

CARD = r.ReportCard(
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
_VERDICT = [
    *("task", "leads", "metric", "best_model", "best_policy", "value", "second_model"),
    *("second_policy", "difference", "low", "high", "p_holm", "verdict", "rivals", "beaten"),
]
_HOW_COMPARED = (
    "Both sides of a difference have the same patients. The best was chosen on the same data, so p "
    "is post selection; Holm corrects over all pairs of trained columns of one task and one lead "
    "setting. df: degrees of freedom. An untrained column is in no pair."
)


def sections(study: Study) -> list[r.Section]:
    """What stands at the top of the page, the table of each metric, and what is left of it for
    few leads; comparisons; what has no number.
    """
    opened = opening(study.of(study.metric), ranked(study)[study.metric])
    return [
        r.Section(name="findings", parts=opened),
        *_who_is_best(study),
        _main(study),
        *_table_1(study),
        *_named_leads(study),
        _comparisons(study),
        _without_a_number(study),
    ]


def _main(study: Study) -> r.Section:
    """The table of each metric; the first is written as CSV and has the notes."""
    weights = enumerated(list(dict.fromkeys([*study.main["weights"], *study.cells["weights"]])))
    known = study.provenance
    setting = f"Protocol {known.protocol}, contract {known.contract}; weights: {weights}."
    parts: list[r.Part] = []
    for name, rows in ranked(study).items():
        metric = study.metrics[name]
        better = "; lower is better" if metric.direction == "lower" else ""
        if len(study.metrics) > 1:
            parts.append(r.Text(f"Macro {metric.title} × 100{better}"))
        if name == study.metric:
            notes = [*study.notes, setting]
            parts.append(_table(study, "main_table", rows, notes, whole=True))
        else:
            parts.append(_table(study, f"main_table_{name}", rows))
    parts.append(
        r.Text(
            "Under each model: parameters. The policy for missing leads is behind its name where "
            "it has several, else in main_table.csv.",
            "fine",
        )
    )
    title = f"Macro {enumerated([card.title for card in study.metrics.values()])} × 100"
    return r.Section(name="main_table", title=title, short=CARD.title, parts=parts)


def _table(
    study: Study, name: str, rows: pd.DataFrame, notes: Sequence[str] = (), whole: bool = False
) -> r.Table:
    """Tasks and lead settings, and a column of scores for each model under each policy.

    rows: of `ranked`. whole: whether its CSV file is that of the whole run.
    """
    title = study.metrics[rows["metric"].iloc[0]].title if len(rows) else ""
    heads = facts.columns(study)
    tasks = {task.task: r.Cell(task.title, task.mark) for task in facts.tasks(study)}
    of_head: Any = rows.set_index(["task", "leads", "head"])[["score", "std"]].unstack(sort=False)
    wide, std = of_head["score"].fillna(""), of_head["std"].dropna(axis=1, how="all")
    wide[[f"{at} std" for at in std]] = std.astype(object).where(std.notna(), "")
    places = sorted(set(rows["head"]))
    return r.Table(
        name=name,
        caption=f"Macro {title} × 100 by task and measured leads.",
        rows=wide.rename(columns=str).reset_index(),
        columns=[
            r.Column("task", "Task", "group", cell=lambda row: tasks[row["task"]]),
            facts.LEADS,
            *(column for at in places for column in _columns(heads[at], at, at in std)),
        ],
        marks={"*": ASTERISK} if any(score.star for score in rows["score"]) else {},
        notes=notes,
        numbers=study.main if whole else None,
        summary="one row per metric, task, model and lead setting",
        formats=("csv", "md", "tex", "html") if whole else ("md", "tex", "html"),
    )


def _columns(head: facts.Head, at: int, drawn: bool) -> list[r.Column]:
    """Its scores, and where any is a mean over several lead draws their spread."""
    note = millions(head.parameters)
    scores = r.Column(str(at), head.label, "score", note=note, mark=head.mark)
    spread = r.Column(f"{at} std", "Std", "number", r.points, "draws", of=head.label)
    return [scores, spread] if drawn else [scores]


def _table_1(study: Study) -> list[r.Section]:
    """The columns that reach one of the first three places with few random leads, with their places
    among all: a table for the text of a paper. Nothing where that leaves out no column.
    """
    rows = ranked(study)[study.metric]
    rows = rows[~rows["leads"].map(lambda typed: facts.leads_of(typed)[1]).astype(bool)]
    few = rows["leads"].map(lambda typed: facts.leads_of(typed)[0]) <= FEW
    kept = set(rows.loc[few & (rows["rank"] > 0), "head"])
    left_out = [h.label for at, h in enumerate(facts.columns(study)) if at not in kept]
    if not kept or not left_out:
        return []
    note = (
        f"Columns with one of the first three places at up to {FEW} random leads in any task. "
        f"Places are among all columns; left out: {enumerated(left_out)}."
    )
    table = _table(study, "table1", rows[rows["head"].isin(kept)], [note])
    title = "Few leads, best models"
    return [r.Section(name="table1", title=title, short="Table 1", parts=[table])]


def _named_leads(study: Study) -> list[r.Section]:
    """The rows of lead I and of lead II, of the tasks that have both."""
    rows = ranked(study)[study.metric]
    rows = rows[rows["leads"].isin(NAMED)]
    rows = rows[rows.groupby("task")["leads"].transform("nunique") == len(NAMED)]
    if rows.empty:
        return []
    windows = {m.title: f"{m.title} {m.windows:.3g}" for m in study.models if m.windows}
    note = f"Windows of a record whose scores are averaged: {enumerated(list(windows.values()))}."
    table = _table(study, "leads_i_ii", rows, [note])
    title = "Leads I and II alone"
    return [r.Section(name="leads_i_ii", title=title, short="Leads I and II", parts=[table])]


Order = Sequence[Mapping[str, Any]]
"""The scores of a task and a setting, the best first."""
Tests = Mapping[tuple[str, ...], Mapping[str, Any]]
"""Comparisons with the best, by task, leads and the names of both."""


def _compete(study: Study) -> tuple[list[Order], Tests]:
    """Of trained columns on real recordings, where two or more have a score."""
    rows = ranked(study)[study.metric]
    rows = rows[rows["value"].notna() & ~rows["untrained"] & ~rows["synthetic"]]
    names = ("task", "leads", "best_model", "best_policy", "model", "policy")
    compared = r.records(study.of(study.metric).comparisons)
    tests: Tests = {tuple(row[n] for n in names): row for row in compared}
    lower = study.metrics[study.metric].direction == "lower"
    rows = rows.sort_values("value", ascending=lower, kind="stable")
    orders: list[Order] = [
        r.records(mine) for _, mine in rows.groupby(["place", "setting"]) if len(mine) > 1
    ]
    return orders, tests


def verdicts(study: Study) -> pd.DataFrame:
    """Rows of verdicts.csv, in the order of the table."""
    orders, tests = _compete(study)
    title = study.metrics[study.metric].title
    made = [_verdict(order, tests) | {"metric": title} for order in orders]
    return pd.DataFrame(made, columns=_VERDICT)


def _verdict(order: Order, tests: Tests) -> dict[str, Any]:
    best, second = order[:2]
    names = [(row["model"], row["policy"]) for row in order]
    found = [tests.get((best["task"], best["leads"], *names[0], *other)) for other in names[1:]]
    clear = _beyond_chance(found[0])
    word = UNTESTED if clear is None else CLEAR if clear else CHANCE
    test = found[0] or {"difference": best["value"] - second["value"]}
    return {
        **{name: best[name] for name in ("task", "leads", "value")},
        **{f"best_{name}": best[name] for name in facts.MODEL},
        **{f"second_{name}": second[name] for name in facts.MODEL},
        **{name: test.get(name) for name in ("difference", "low", "high", "p_holm")},
        "verdict": EQUAL if best["value"] == second["value"] else word,
        "rivals": len(order) - 1,
        "beaten": sum(bool(_beyond_chance(each)) for each in found),
    }


def _beyond_chance(test: Mapping[str, Any] | None) -> bool | None:
    """Whether a difference is larger than chance explains, by p after Holm; None where it was not
    tested. The asterisk of the main table follows the paper's rule, each interval by itself.
    """
    if test is None or test["not_significantly_worse"] is None:
        return None
    if test["p_holm"] is None:
        return not test["not_significantly_worse"]
    return bool(test["p_holm"] < LEVEL)


def _who_is_best(study: Study) -> list[r.Section]:
    """A row per task, a column per lead setting; nothing where nothing is compared."""
    found, heads = verdicts(study), facts.heads_of(study)
    if found.empty:
        return []
    title = "Who is best, and could that be chance?"
    if found["leads"].nunique() > facts.MANY:
        parts = [_grid(study, found)]
        return [r.Section(name="verdicts", title=title, short="Verdicts", parts=parts)]
    cells: Any = [_spelled(row, heads) for row in r.records(found)]
    wide = (
        found.assign(cell=cells).set_index(["task", "leads"])["cell"].unstack(sort=False).fillna("")
    )
    settings = [leads for leads in dict.fromkeys(study.main["leads"]) if leads in wide]
    titles = facts.titles_of(study)
    table = r.Table(
        name="verdicts",
        caption=f"The best of each task and lead setting by macro "
        f"{study.metrics[study.metric].title}.",
        rows=wide.reset_index(),
        columns=[
            r.Column("task", "Task", cell=lambda row: titles[row["task"]]),
            *(r.Column(leads, facts.setting_words(leads)) for leads in settings),
        ],
        marks=dict(sign for word, sign in _SIGNS.items() if word in set(found["verdict"])),
        notes=[
            "Below each: its score, its difference to the second in points with the 95 % "
            "interval, and how many of the others are worse by more than chance explains."
        ],
        numbers=found,
        summary="one row per task and lead setting in which models are compared",
        formats=("csv", "md", "html"),
    )
    return [r.Section(name="verdicts", title=title, short="Verdicts", parts=[table])]


def _grid(study: Study, found: pd.DataFrame) -> r.Table:
    """Verdicts of many lead settings: how each column stands to the best."""
    cells: dict[tuple[str, str, int], r.Cell] = {}
    orders, tests = _compete(study)
    for best, *others in orders:
        named = best["task"], best["leads"]
        cells[*named, best["head"]] = r.Cell("★", small=f"the best: {_scored(best)}")
        for row in others:
            which = (*named, best["model"], best["policy"], row["model"], row["policy"])
            test = tests.get(which)
            small = _scored(row)
            if test is not None:
                gap = (
                    f"{r.signed(test['difference'])} {r.signed_bracket(test['low'], test['high'])}"
                )
                small += f"; best less this: {gap}, p after Holm {r.p_value(test['p_holm'])}"
            mark = {True: "✗", False: "≈", None: "·"}[_beyond_chance(test)]
            cells[*named, row["head"]] = r.Cell(mark, small=small)
    return facts.grid(
        study,
        cells,
        name="verdicts",
        caption=f"By macro {study.metrics[study.metric].title}; press a mark for its numbers.",
        marks={
            "★": "the best of the row",
            "≈": "its difference to the best could be chance",
            "✗": "worse by more than chance explains (p after Holm below 0.05)",
            "·": "not tested; Comparisons says why",
        },
        numbers=found,
        summary="one row per task and lead setting in which models are compared",
        formats=("csv", "md", "html"),
    )


def _scored(row: Mapping[str, Any]) -> str:
    return sure(row["value"], row["low"], row["high"])


def _spelled(row: Mapping[str, Any], heads: Mapping[tuple[str, str], facts.Head]) -> r.Cell:
    best = heads[row["best_model"], row["best_policy"]].label
    second = heads[row["second_model"], row["second_policy"]].label
    sign, _ = _SIGNS[row["verdict"]]
    if row["verdict"] == EQUAL:
        return r.Cell(f"{best} ", sign, f"{r.points(row['value'])}, equal to {second}")
    difference = facts.difference_cell(row)
    gap = f"{difference.text} {difference.small}".strip()
    others = f"; {row['beaten']} of {row['rivals']} worse" if row["rivals"] > 1 else ""
    return r.Cell(f"{best} ", sign, f"{r.points(row['value'])}, {gap} to {second}{others}")


def _comparisons(study: Study) -> r.Section:
    """Each column against the best trained one of its task and lead setting; comparisons.csv holds
    those of all metrics.
    """
    tables = [_compared(study, name) for name in study.metrics]
    title = "Paired comparisons with the best"
    return r.Section(name="comparisons", title=title, short="Comparisons", parts=tables)


def _compared(study: Study, metric: str) -> r.Table:
    titles, first = list(facts.titles_of(study)), metric == study.metric
    rows = study.of(metric).comparisons
    rows = rows.sort_values("task", key=lambda task: task.map(titles.index), kind="stable")
    shown, notes = for_page(study, rows, "comparisons.csv")
    excludes = {True: "no", False: "yes"}
    return r.Table(
        name="comparisons" if first else f"comparisons_{metric}",
        caption=f"By macro {study.metrics[metric].title}." if len(study.metrics) > 1 else "",
        rows=shown,
        columns=[
            facts.task_column(study),
            r.Column("leads", "Leads"),
            facts.model_column(study),
            facts.model_column(study, "Best", ("best_model", "best_policy")),
            facts.difference_column("Best − model", note="points, 95 % interval"),
            r.Column("p", "p", "number", r.p_value),
            r.Column("p_holm", "p", "number", r.p_value, note="Holm"),
            r.Column("df", "df", "number", "{:.0f}".format),
            r.Column("n_records", "Records", "number", "{:,}".format, note="in both"),
            r.Column("n_patients", "Patients", "number", "{:,}".format, note="in both"),
            r.Column("not_significantly_worse", "Interval excludes 0", spell=excludes.__getitem__),
            r.Column("note", "Note"),
        ],
        notes=[*notes, _HOW_COMPARED],
        numbers=study.comparisons if first else None,
        summary="one row per comparison with the best of a metric, task and lead setting",
        formats=("csv", "html") if first else ("html",),
    )


def _without_a_number(study: Study) -> r.Section:
    """The cells that failed, were skipped or are not computed yet, those of one reason together;
    cells.csv has a row for each cell.
    """
    heads, titles = facts.heads_of(study), facts.titles_of(study)
    table = r.Table(
        name="cells",
        columns=[
            r.Column("task", "Task"),
            r.Column("model", "Model"),
            r.Column("leads", "Leads"),
            r.Column("status", "Status"),
            r.Column("reason", "Reason"),
        ],
        rows=[
            {
                "task": titles[gap.task],
                "model": heads[gap.model, gap.policy].cell,
                "leads": _settings(gap.leads),
                "status": gap.word,
                "reason": gap.reason.removeprefix(f"{PENDING}; "),
            }
            for gap in facts.gaps(study)
        ],
        numbers=study.cells,
        summary="one row per cell and metric: every lead draw, its key and its place in the run",
        formats=("csv", "html"),
    )
    return r.Section(name="cells", title="Without a number", parts=[table])


def _settings(leads: Mapping[str, tuple[int, int]]) -> str:
    """The settings of a gap; how many draws where not all are concerned.

    >>> _settings({"1": (5, 5), "2": (3, 5), "I": (1, 1)})
    '1, 2 (3 of 5 draws), I'
    """
    return ", ".join(
        typed if lost == every else f"{typed} ({lost} of {every} draws)"
        for typed, (lost, every) in leads.items()
    )
