"""Paired comparisons: each model against the best trained one of its task and lead setting, with p
corrected for all pairs.
"""

from ecgbench.reports import (
    Cell,
    Column,
    Format,
    ReportCard,
    Row,
    Section,
    Table,
    p_value,
    signed,
    signed_bracket,
)
from ecgbench.reports._facts import (
    Compared,
    comparisons,
    heads_of,
    numbers,
    titles_of,
    untrained_marks,
)
from ecgbench.reports._standing import for_page
from ecgbench.results.study import Study

CARD = ReportCard(
    title="Comparisons",
    summary="each model against the best of its task and lead setting, with p",
    reads="run",
    order=40,
)
_COLUMNS = (
    Column("task", "Task", "group"),
    Column("leads", "Leads"),
    Column("model", "Model"),
    Column("best", "Best"),
    Column("difference", "Best − model", "number", note="points, 95 % interval"),
    Column("p", "p", "number", p_value),
    Column("p_holm", "p", "number", p_value, note="Holm, setting"),
    Column("p_holm_all", "p", "number", p_value, note="Holm, table"),
    Column("df", "df", "number", "{:.0f}".format),
    Column("n_records", "Records", "number", "{:,}".format, note="in both"),
    Column("n_patients", "Patients", "number", "{:,}".format, note="in both"),
    Column("worse", "Interval excludes 0"),
    Column("note", "Note"),
)
_NOTE = (
    "Both sides of a difference have the same patients. Not significantly worse: the 95 % interval "
    "of the paired difference contains 0. The best was chosen on the same data, so p is post "
    "selection; Holm corrects over all pairs of trained columns of one task and one lead setting, "
    "any of which could have held the best, and over those of the whole table. df: degrees of "
    "freedom. An untrained column is in no family."
)

_SUMMARY = "one row per comparison with the best of a metric, task and lead setting"


def sections(study: Study) -> list[Section]:
    """One table per metric; comparisons.csv holds them all."""
    title = "Paired comparisons with the best"
    tables = [_table(name, study) for name in study.metrics]
    return [Section(name="comparisons", title=title, short=CARD.title, parts=tables)]


def _table(metric: str, study: Study) -> Table:
    """The comparisons by one metric; the table of the first is written as CSV."""
    first = metric == study.metric
    heads, titles = heads_of(study), titles_of(study)
    compared = comparisons(study.of(metric))
    rows: list[Row] = [
        {
            "task": titles[row.task],
            "model": heads[row.model, row.policy].cell,
            "best": heads[row.best_model, row.best_policy].cell,
            **_spelled(row),
        }
        for task in titles
        for row in compared
        if row.task == task
    ]
    rows, said = for_page(study, rows, "comparisons.csv")
    formats: dict[Format, bool] = {"csv": first, "html": bool(rows)}
    return Table(
        name="comparisons" if first else f"comparisons_{metric}",
        caption=f"By macro {study.metrics[metric].title}." if len(study.metrics) > 1 else "",
        columns=_COLUMNS,
        rows=rows,
        notes=[*said, _NOTE],
        marks=untrained_marks(heads[row.model, row.policy] for row in compared),
        numbers=numbers(study.comparisons, _SUMMARY) if first else None,
        formats=[kind for kind, shown in formats.items() if shown],
    )


def _spelled(row: Compared) -> dict[str, object]:
    # an interval stays where nothing is tested
    interval = signed_bracket(row.low, row.high)
    verdict = "not tested" if row.worse is None else "yes" if row.worse else "no"
    difference = Cell(signed(row.difference), small=interval)
    shown = ("p", "p_holm", "p_holm_all", "df", "n_records", "n_patients", "note")
    numbers = {name: getattr(row, name) for name in shown}
    return {"leads": row.leads, "difference": difference, "worse": verdict} | numbers
