"""Cost: operations, memory and time of models by the number of measured leads, with the paper's
own figures.
"""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd

from ecgbench import reports as r
from ecgbench.core.text import counted, enumerated
from ecgbench.profile import stored
from ecgbench.profile.stored import CLASSES, COSTS, PAPER, Costs, medians

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Sheet

CARD = r.ReportCard(
    title="Cost",
    summary="operations, memory and time of models by measured leads, beside the paper's figures",
    reads="profile",
    order=10,
)
_COST = {
    "params_backbone_m": ("Params (M)", ".1f"),
    "params_with_head_m": ("with head", ".1f"),
    "gflop_forward": ("GFLOP forward", ".3f"),
    "gflop_forward_paper": ("paper's rule", ".3f"),
    "gflop_backward": ("backward", ".3f"),
    "peak_mb": ("Peak (MB)", ".1f"),
    "throughput_samples_s": ("samples/s", ".1f"),
    "latency_ms_sample": ("ms/sample", ".3f"),
}
"""Columns for readers: name in the CSV -> heading, format."""
_PAPER = {
    "gflop_forward_printed": ("Forward, paper", ".3f"),
    "gflop_forward_paper": ("ours", ".3f"),
    "gflop_backward_printed": ("Backward, paper", ".3f"),
    "gflop_backward_alone": ("ours alone", ".3f"),
    "gflop_forward_and_backward": ("with forward", ".3f"),
    "gflop_backward_by_rule": ("by the rule", ".3f"),
    "params_printed_m": ("Params (M), paper", ".1f"),
    "params_backbone_m": ("backbone", ".1f"),
    "params_with_both_heads_m": ("with heads", ".1f"),
}
_COUNTED = (
    f"GFLOP: 10^9 operations for one window through backbone and a linear head of {CLASSES} "
    "outputs; random weights, on which no cost depends. docs/explanation/performance.md says what "
    "is counted, what the paper's rule is and what memory and time are of."
)


def rows(costs: Costs) -> pd.DataFrame:
    """Of each model and number of leads, and the median over all twelve where they differ."""
    own = [row for row in medians(costs.rows) if row["model"] in costs.any_leads]
    return pd.DataFrame([*costs.rows, *own], columns=COSTS, dtype=object)


def sections(costs: Costs, rows: pd.DataFrame) -> list[r.Section]:
    """Nothing where no model could be measured."""
    if rows.empty:
        return []
    title = "Cost by the number of measured leads"
    return [r.Section(name="cost", title=title, short="Cost", parts=list(_parts(costs, rows)))]


def _columns(shown: dict[str, tuple[str, str]]) -> list[r.Column]:
    """Of numbers; text stands as it is."""

    def spelled(form: str, value: Any) -> str:
        return format(value, form) if isinstance(value, int | float) else str(value)

    return [
        r.Column(key, heading, "number", partial(spelled, form))
        for key, (heading, form) in shown.items()
    ]


def _parts(costs: Costs, numbers: pd.DataFrame) -> Iterator[r.Part]:
    timed = any(row["latency_ms_sample"] is not None for row in costs.rows)
    batch = next((row["batch"] for row in costs.rows if row["batch"] is not None), None)
    yield r.Table(
        name="cost",
        caption="Cost of models by the number of measured leads.",
        columns=[
            r.Column("title", "Model"),
            r.Column("shown", "Leads"),
            r.Column("samples", "Samples", "number"),
            *_columns(_COST),
        ],
        rows=list(_lines(costs)),
        notes=[f"Device: {costs.device}.", _COUNTED, *_exceptions(costs)],
        numbers=numbers,
        summary="one row per model and number of leads, and the median over them",
    )
    if costs.paper:
        yield _with_the_paper(costs)
    if timed:
        caption = (
            f"Median of repeated passes of a batch of {batch}, float32. Device: {costs.device}. "
            "Flat lines: networks padded to all of their leads, measured once."
        )
        yield r.Figure(name="throughput", draw=partial(_throughput, costs), caption=caption)


def _lines(costs: Costs) -> Iterator[r.Row]:
    """A line for each number of leads, or for all where they cost the same."""
    for name, title in costs.titles.items():
        rows = [row | {"title": title} for row in costs.rows if row["model"] == name]
        if name in costs.any_leads:
            yield from (row | {"shown": str(row["leads"])} for row in [*rows, *medians(rows)])
        elif rows:
            leads = [row["leads"] for row in rows]
            every = leads == list(range(1, 13))
            yield rows[0] | {"shown": "1–12" if every else ", ".join(map(str, leads))}


def _exceptions(costs: Costs) -> Iterator[str]:
    titles = costs.titles
    if padded := [title for name, title in titles.items() if name not in costs.any_leads]:
        yield f"{enumerated(padded)}: absent leads are filled, at the same cost for any number."
    for name, operators in costs.unknown.items():
        calls = [f"{op} ({counted(n, 'call')})" for op, n in sorted(operators.items())]
        yield f"{titles[name]}: no total count, for no rule covers {', '.join(calls)}."
    for name, reason in costs.uncounted.items():
        yield f"{titles[name]}: no count by the paper's rule, for {reason}."
    for name, most in costs.most.items():
        if name in titles:
            yield f"{titles[name]} reads at most {counted(most, 'lead')}."
    for name, reason in costs.failed.items():
        yield f"{name}: not measured ({reason})."


def _with_the_paper(costs: Costs) -> r.Table:
    return r.Table(
        name="cost_paper",
        caption="GFLOP and parameters beside those of the paper that introduced LAEF.",
        columns=[
            r.Column("title", "Model"),
            r.Column("leads", "Leads"),
            *_columns(_PAPER),
            r.Column("backward_rule", "Rule", spell=lambda rule: rule or "none"),
        ],
        rows=[row | {"title": costs.titles[row["model"]]} for row in costs.paper],
        notes=[
            "Rule: by which the paper's backward figure comes out. "
            "docs/explanation/performance.md says where its figures differ.",
            "The paper's throughput and latency are reciprocal for LAEF at 12 leads alone.",
        ],
        numbers=pd.DataFrame(costs.paper, columns=PAPER, dtype=object),
        summary="the paper's figures beside ours",
    )


def _throughput(costs: Costs, sheet: "Sheet") -> list[Any]:
    from matplotlib.ticker import LogLocator

    ax = sheet.subplots()
    for at, name in enumerate(costs.titles):
        mine = [row for row in costs.rows if row["model"] == name and row["throughput_samples_s"]]
        speeds = [row["throughput_samples_s"] for row in mine]
        style = {"linewidth": 1.6, "markersize": 6, "zorder": 3, **r.look(at)}
        ax.plot([row["leads"] for row in mine], speeds, **style)
    r.lead_axis(ax, [row["leads"] for row in costs.rows])
    _logarithmic(ax)
    ax.yaxis.set_major_locator(LogLocator(10, subs=(1, 2, 5)))
    ax.margins(y=0.12)
    ax.set(ylabel="samples per second")
    return [r.handle(title, at) for at, title in enumerate(costs.titles.values())]


def _logarithmic(ax: Any) -> None:
    from matplotlib.ticker import FormatStrFormatter, NullFormatter

    ax.set_yscale("log")
    ax.yaxis.set_major_formatter(FormatStrFormatter("%g"))
    ax.yaxis.set_minor_formatter(NullFormatter())


def _heading(source: Costs) -> r.Heading:
    return r.Heading(title="What models cost", lines=[f"Device: {source.device}"])


KIND = r.Kind(Costs, [stored.FILE], stored.read, _heading)
