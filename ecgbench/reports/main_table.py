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
from ecgbench.reports._best import best_of, beyond_chance, compete
from ecgbench.reports._scores import ranked
from ecgbench.reports._text import millions, sure
from ecgbench.results.study import Run

CARD = r.ReportCard(
    title="Main table",
    summary="scores by task and lead setting, who is best, and whether that could be chance",
    reads="run",
    order=10,
)
ASTERISK = (
    "not significantly worse than the best of the row: the 95 % interval of the paired "
    "difference contains 0"
)
_HOW_COMPARED = (
    "Both sides of a difference have the same patients. The best was chosen on the same data, so p "
    "is post selection; Holm corrects over all pairs of trained columns of one task and one lead "
    "setting. df: degrees of freedom. An untrained column is in no pair."
)


def rows(study: Run) -> pd.DataFrame:
    """Of each metric, task, model and lead setting."""
    return study.main


def sections(study: Run, rows: pd.DataFrame) -> list[r.Section]:
    """What stands at the top of the page, the table of each metric, and what is left of it for
    few leads; comparisons; what has no number.
    """
    return [
        _main(study),
        *_who_is_best(study),
        _comparisons(study),
        _without_a_number(study),
    ]


def _main(study: Run) -> r.Section:
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
            notes = [*map(str, study.notes), setting]
            parts.append(_table(study, "main_table", rows, notes, ("csv", "md", "tex", "html")))
        else:
            parts.append(_table(study, f"main_table_{name}", rows, (), ("md", "tex", "html")))
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
    study: Run,
    name: str,
    rows: pd.DataFrame,
    notes: Sequence[str] = (),
    formats: Sequence[r.Format] = ("md", "tex"),
) -> r.Table:
    """Tasks and lead settings, and a column of scores for each model under each policy.

    rows: of `ranked`. Its CSV file is that of the whole run.
    """
    title = study.metrics[rows["metric"].iloc[0]].title if len(rows) else ""
    heads = facts.columns(study)
    tasks = {task.task: r.TableCell(task.title, task.mark) for task in facts.tasks(study)}
    of_head: Any = rows.set_index(["task", "leads", "head"])[["score", "std"]].unstack(sort=False)
    wide, std = of_head["score"].fillna(""), of_head["std"].dropna(axis=1, how="all")
    wide[[f"{at} std" for at in std]] = std.astype(object).where(std.notna(), "")
    places = sorted(set(rows["head"]))
    return r.Table(
        name=name,
        caption=f"Macro {title} × 100 by task and measured leads.",
        rows=wide.rename(columns=str).reset_index(),
        columns=[
            r.Column("task", kind="group", cell=lambda row: tasks[row["task"]]),
            facts.LEADS,
            *(column for at in places for column in _columns(heads[at], at, at in std)),
        ],
        marks={"*": ASTERISK} if any(score.star for score in rows["score"]) else {},
        notes=notes,
        numbers=study.main,
        summary="one row per metric, task, model and lead setting",
        formats=formats,
    )


def _columns(head: facts.Head, at: int, drawn: bool) -> list[r.Column]:
    """Its scores, and where any is a mean over several lead draws their spread."""
    note = millions(head.parameters)
    scores = r.Column(str(at), head.label, "score", note=note, mark=head.mark)
    spread = r.Column(f"{at} std", "Std", "number", r.points, "draws", of=head.label)
    return [scores, spread] if drawn else [scores]


def _who_is_best(study: Run) -> list[r.Section]:
    """How each column stands to the best, by task and lead setting; nothing where nothing is
    compared.
    """
    found = best_of(study)
    if found.empty:
        return []
    title = "Who is best, and could that be chance?"
    return [r.Section(name="best", title=title, short="Who is best", parts=[_grid(study, found)])]


def _grid(study: Run, found: pd.DataFrame) -> r.Table:
    """A mark for each column."""
    cells: dict[tuple[str, str, int], r.TableCell] = {}
    orders, tests = compete(study)
    for best, *others in orders:
        named = best["task"], best["leads"]
        cells[*named, best["head"]] = r.TableCell("★", small=f"the best: {_scored(best)}")
        for row in others:
            which = (*named, best["model"], best["policy"], row["model"], row["policy"])
            test = tests.get(which)
            small = _scored(row)
            if test is not None:
                gap = (
                    f"{r.signed(test['difference'])} {r.signed_bracket(test['low'], test['high'])}"
                )
                small += f"; best less this: {gap}, p after Holm {r.p_value(test['p_holm'])}"
            mark = {True: "✗", False: "≈", None: "·"}[beyond_chance(test)]
            mark = "★" if row["value"] == best["value"] else mark
            cells[*named, row["head"]] = r.TableCell(mark, small=small)
    return facts.grid(
        study,
        cells,
        name="best",
        caption=f"By macro {study.metrics[study.metric].title}; press a mark for its numbers.",
        marks={
            "★": "the best of the row, or equal to it",
            "≈": "its difference to the best could be chance",
            "✗": "worse by more than chance explains (p after Holm below 0.05)",
            "·": "not tested; comparisons.csv says why",
        },
        numbers=found,
        summary="one row per task and lead setting in which models are compared",
        formats=("csv", "md", "html"),
    )


def _scored(row: Mapping[str, Any]) -> str:
    return sure(row["value"], row["low"], row["high"])


def _comparisons(study: Run) -> r.Section:
    """Each column against the best trained one of its task and lead setting; comparisons.csv holds
    those of all metrics.
    """
    tables = [_compared(study, name) for name in study.metrics]
    title = "Paired comparisons with the best"
    return r.Section(name="comparisons", page=False, title=title, short="Comparisons", parts=tables)


def _compared(study: Run, metric: str) -> r.Table:
    titles, first = list(facts.titles_of(study)), metric == study.metric
    rows = study.of(metric).comparisons
    rows = rows.sort_values("task", key=lambda task: task.map(titles.index), kind="stable")
    excludes = {True: "no", False: "yes"}
    return r.Table(
        name="comparisons" if first else f"comparisons_{metric}",
        caption=f"By macro {study.metrics[metric].title}." if len(study.metrics) > 1 else "",
        rows=rows,
        columns=[
            facts.task_column(study),
            facts.LEADS,
            facts.model_column(study),
            facts.model_column(study, ("best_model", "best_policy")),
            r.difference_column(note="points, 95 % interval"),
            r.Column("p", kind="number", spell=r.p_value),
            r.Column("p_holm", kind="number", spell=r.p_value, note="Holm"),
            r.Column("df", kind="number", spell="{:.0f}".format),
            r.Column("n_records", kind="number", spell="{:,}".format, note="in both"),
            r.Column("n_patients", kind="number", spell="{:,}".format, note="in both"),
            r.Column("not_significantly_worse", "Interval excludes 0", spell=excludes.__getitem__),
            r.Column("note"),
        ],
        notes=[_HOW_COMPARED],
        numbers=study.comparisons if first else None,
        summary="one row per comparison with the best of a metric, task and lead setting",
        formats=("csv", "md", "tex") if first else ("md", "tex"),
    )


def _without_a_number(study: Run) -> r.Section:
    """The cells that failed, were skipped or are not computed yet, those of one reason together;
    cells.csv has a row for each cell.
    """
    heads, titles = facts.heads_of(study), facts.titles_of(study)
    table = r.Table(
        name="cells",
        columns=[
            r.Column("task"),
            r.Column("model"),
            r.Column("leads"),
            r.Column("status"),
            r.Column("reason"),
        ],
        rows=[
            {
                "task": titles[gap.task],
                "model": heads[gap.model, gap.policy].cell,
                "leads": _settings(gap.leads),
                "status": gap.word,
                "reason": gap.reason,
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
