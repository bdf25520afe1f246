"""Labels used: scores against the number of labelled training patients, a line for each set of
leads, and how many patients with twelve leads do what all patients do with fewer.

A run has it where `ecgbench run --labels-used 25,100,400,all` trained such heads.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd

from ecgbench import reports as r
from ecgbench.core.text import shortened
from ecgbench.reports import _facts as facts
from ecgbench.results.labels_used import exchange, labels_used
from ecgbench.results.study import Run
from ecgbench.study.scores import MACRO

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Sheet

CARD = r.ReportCard(
    title="Labels used",
    summary="scores against the number of labelled patients, and what the missing leads are worth",
    reads="run",
    order=33,
)
PANELS = 4
_NOTE = (
    "Labelled: patients of training and validation whose labels heads were fitted to, the fewer "
    "among the more; means over draws of patients, which the intervals contain. Lead settings of "
    "random leads have their first draw. Bounds: where an end of the interval of the paired "
    "difference crosses 0, between the numbers that were tried on a logarithmic scale."
)


def rows(study: Run) -> pd.DataFrame:
    """Of each number of labelled patients; none where heads saw all labels."""
    return labels_used(study)


def sections(study: Run, rows: pd.DataFrame) -> list[r.Section]:
    """Nothing of a run whose heads saw all labels."""
    if rows.empty:
        return []
    macro = rows[rows["label"] == MACRO]
    parts: list[r.Part] = [
        *_figures(study, macro),
        _exchanged(study, exchange(study)),
        _table(study, rows),
    ]
    return [r.Section(name="labels_used", title=CARD.title, parts=parts)]


def _figures(study: Run, macro: pd.DataFrame) -> list[r.Figure]:
    """Of the first task."""
    task = next(iter(facts.titles_of(study)))
    own = macro[(macro["task"] == task) & macro["value"].notna()]
    heads = [h for h in facts.columns(study) if h.names in {*zip(own["model"], own["policy"])}]
    if own.empty:
        return []
    caption = (
        f"{facts.titles_of(study)[task]}: macro AUROC against the number of labelled patients, a "
        f"line for each set of leads. Bars: 95 % intervals over test patients and draws."
    )
    return [
        r.Figure(
            name="labels_used_curve",
            draw=partial(_draw, own, heads[:PANELS]),
            caption=caption,
            size=(1.2 + 2.7 * max(2, len(heads[:PANELS])), 3.7),
        )
    ]


def _draw(own: pd.DataFrame, heads: list[facts.Head], sheet: "Sheet") -> list[Any]:
    settings = list(dict.fromkeys(own["leads"]))
    (axes,) = sheet.subplots(1, len(heads), squeeze=False, sharex=True, sharey=True)
    for ax, head in zip(axes, heads):
        mine = own[(own["model"] == head.model) & (own["policy"] == head.policy)]
        for at, leads in enumerate(settings):
            line, style = mine[mine["leads"] == leads].sort_values("labelled"), r.look(at)
            x = line["labelled"] * 1.02 ** (at - (len(settings) - 1) / 2)
            ax.vlines(x, 100 * line["low"], 100 * line["high"], color=style["color"], alpha=0.5)
            ax.plot(x, 100 * line["value"], **style, markersize=4, linewidth=1.4)
        ax.set_xscale("log")
        ticks = sorted({*own["labelled"]})
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.minorticks_off()
        ax.set(title=shortened(head.label, 26), xlabel="labelled patients")
    axes[0].set_ylabel("macro AUROC × 100")
    return [r.handle(facts.setting_words(leads), at) for at, leads in enumerate(settings)]


def _exchanged(study: Run, rows: pd.DataFrame) -> r.Table:
    return r.Table(
        name="exchange_rate",
        caption="Labelled patients with twelve leads that score as all patients with fewer leads.",
        columns=[
            facts.task_column(study),
            facts.LEADS,
            facts.model_column(study),
            r.Column("labelled", kind="number", spell="{:,}".format),
            r.Column("equal", kind="number", cell=_equal),
        ],
        rows=rows,
        notes=[_NOTE],
        summary="one row per task, lead setting below twelve and model",
    )


def _equal(row: r.Row) -> Any:
    low, high = (_number(row[f"equal_{end}"]) for end in ("low", "high"))
    return r.TableCell(_number(row["equal"]), small=f"[{low}, {high}]")


def _number(value: float | None) -> str:
    if value is None:
        return "unknown"
    if value == 0:
        return "below the fewest"
    return "beyond all" if value == float("inf") else f"{value:,.0f}"


def _table(study: Run, rows: pd.DataFrame) -> r.Table:
    """As CSV alone."""
    return r.Table(
        name="labels_used",
        rows=rows,
        summary="one row per task, label, lead setting, model and number of labelled patients",
        formats=("csv",),
    )
