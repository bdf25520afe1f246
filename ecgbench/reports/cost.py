"""Cost: operations, memory and time of models by the number of measured leads, beside the paper's
own figures.
"""

import statistics
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ecgbench.core.text import counted, enumerated
from ecgbench.reports import (
    Cell,
    Column,
    Figure,
    Numbers,
    Part,
    ReportCard,
    Row,
    Section,
    Table,
    handle,
    lead_axis,
    look,
)
from ecgbench.results.profile import CLASSES, COSTS, PAPER, Costs, Profile

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Sheet

CARD = ReportCard(
    title="Cost",
    summary=(
        "operations, memory and time of models by the number of measured leads, beside the paper's"
    ),
    reads="profile",
    order=10,
)
_Figures = Sequence[tuple[str, str, int]]
FIGURES: _Figures = (
    ("params_backbone_m", "Params (M)", 1),
    ("params_with_head_m", "with head", 1),
    ("gflop_forward", "GFLOP forward", 3),
    ("gflop_forward_paper", "paper's rule", 3),
    ("gflop_backward", "backward", 3),
    ("peak_mb", "Peak (MB)", 1),
    ("throughput_samples_s", "samples/s", 1),
    ("latency_ms_sample", "ms/sample", 3),
)
"""Columns of numbers for readers: name in cost.csv, heading, decimals."""
_BESIDE = (
    ("gflop_forward_printed", "Forward, paper", 3),
    ("gflop_forward_paper", "ours", 3),
    ("gflop_backward_printed", "Backward, paper", 3),
    ("gflop_backward_alone", "ours alone", 3),
    ("gflop_forward_and_backward", "with forward", 3),
    ("gflop_backward_by_rule", "by the rule", 3),
    ("params_printed_m", "Params (M), paper", 1),
    ("params_backbone_m", "backbone", 1),
    ("params_with_both_heads_m", "with heads", 1),
)
PAPER_RULE = (
    "Paper's rule: the linear maps and convolutions of the authors' networks, with the attention "
    "products of ST-MEM and ECG-JEPA (dense, all pairs of tokens) and without those of HuBERT-ECG, "
    "without FFT and kernel of ECG-CPC and without message passing of LAEF, whatever way our "
    "networks compute: with fewer products where that gives the same (attention of ECG-JEPA, "
    "positional convolution of HuBERT-ECG). For a network from outside: its Linear and Conv "
    "modules."
)
GFLOP = (
    f"GFLOP: 10^9 operations for one window through backbone and a linear head of {CLASSES} "
    "outputs, evaluation mode, 2 per multiply-add. Forward and backward are what our networks "
    "execute, operator by operator: products, convolutions with their groups, fused attention and "
    "FFT by formula, everything else by the element. Backward: the gradients of all trained "
    "parameters, without the forward pass."
)
KEPT = (
    "Forward leaves out what a network computes once, in its first pass, and keeps for all "
    "windows after it: folded norms, the S4 kernels "
    "of ECG-CPC, the spectrum of HuBERT-ECG's positional convolution."
)
MIXED = (
    "The paper's backward column mixes rules. For the seven baselines it is forward and backward "
    "together, without the gradient of the input signal, by a counter that takes the weight "
    "gradient of a grouped convolution for one of a single group (ECGFounder, HuBERT-ECG). For "
    "LAEF at 12 leads it is twice the forward: the backward pass alone, with the gradient of the "
    "input signal, which training does not need and which ours alone leaves out (13.705 against "
    "13.735). The paper's figure at 1 lead follows from none of these rules."
)
HEADS = (
    f"With heads: backbone, a linear head of {CLASSES} outputs and the reference benchmark's "
    "attention-pooling head; the paper differs for ST-MEM (90.3: with the decoder of the "
    "pre-training checkpoint), HuBERT-ECG (97.2: only the 1127 outputs of its MIMIC-IV task would "
    "give that), ECG-CPC (3.8: with its buffers, or 30 outputs and more), ECGFM-KED (9.7: 9 "
    "outputs and more) and LAEF (7.1: no heads)."
)


def sections(profile: Profile) -> list[Section]:
    """The table, the comparison with the paper, and throughput where time was measured."""
    costs = profile.costs
    if costs is None or not costs.rows:
        return []
    timed = any(row["latency_ms_sample"] is not None for row in costs.rows)
    parts: list[Part] = [_table(costs), *([_beside(costs)] if costs.paper else [])]
    parts += [_throughput(costs)] if timed else []
    return [
        Section(
            name="cost", title="Cost by the number of measured leads", short=CARD.title, parts=parts
        )
    ]


def _table(costs: Costs) -> Table:
    names = dict.fromkeys(row["model"] for row in costs.rows)
    groups = [[row for row in costs.rows if row["model"] == name] for name in names]
    return Table(
        name="cost",
        caption="Cost of models by the number of measured leads.",
        columns=[
            Column("title", "Model"),
            Column("leads", "Leads"),
            Column("samples", "Samples", "number"),
            *_columns(FIGURES),
        ],
        rows=[line for group in groups for line in _lines(group, costs)],
        notes=_about(costs),
        numbers=Numbers(
            columns=COSTS, rows=costs.rows, summary="one row per model and number of leads"
        ),
    )


def _lines(group: Sequence[Row], costs: Costs) -> Iterator[Row]:
    """One line for each number of leads, or for all where they cost the same; a median over 1 to
    12.
    """
    first = group[0]
    same = {"title": costs.titles[first["model"]], "samples": first["samples"]}
    if first["model"] not in costs.any_leads:
        yield same | {"leads": _spans([row["leads"] for row in group])} | _figures(first)
        return
    for row in group:
        yield same | {"leads": str(row["leads"])} | _figures(row)
    if len(group) == 12:
        medians = {key: _middle([row[key] for row in group], digits) for key, _, digits in FIGURES}
        yield same | {"leads": Cell("median", small="(min–max)")} | medians


def _columns(figures: _Figures) -> list[Column]:
    return [Column(key, head, "number") for key, head, _ in figures]


def _figures(row: Row, figures: _Figures = FIGURES) -> dict[str, str | None]:
    return {key: _number(row[key], digits) for key, _, digits in figures}


def _number(value: float | str | None, digits: int) -> str | None:
    return f"{value:.{digits}f}" if isinstance(value, int | float) else value


def _middle(values: Sequence[float | None], digits: int) -> str | Cell | None:
    there = [v for v in values if v is not None]
    if len(there) < len(values):
        return None
    if min(there) == max(there):
        return _number(there[0], digits)
    return Cell(
        f"{statistics.median(there):.{digits}f}",
        small=f"({min(there):.{digits}f}–{max(there):.{digits}f})",
    )


def _spans(numbers: Sequence[int]) -> str:
    """Numbers in rising order with runs joined.

    >>> _spans([1, 2, 3, 12])
    '1–3, 12'
    """
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][-1] + 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)


def _beside(costs: Costs) -> Table:
    """The paper's figures beside ours."""
    letters = dict(zip(costs.rules, "abcdefgh"))
    used = {row["backward_rule"] for row in costs.paper}
    named = [f"; {letter}: {rule}" for rule, letter in letters.items() if rule in used]
    rule = (
        f"Rule by which the paper's backward figure comes out{''.join(named)}; none: by none that "
        "was tried."
    )
    rows: list[Row] = [
        {
            "title": costs.titles[row["model"]],
            "leads": str(row["leads"]),
            "rule": letters.get(row["backward_rule"], "none"),
            **_figures(row, _BESIDE),
        }
        for row in costs.paper
    ]
    return Table(
        name="cost_paper",
        caption="GFLOP and parameters beside those of the paper that introduced LAEF.",
        columns=[
            Column("title", "Model"),
            Column("leads", "Leads"),
            *_columns(_BESIDE),
            Column("rule", "Rule", "number"),
        ],
        rows=rows,
        notes=[rule, MIXED, HEADS, _reciprocal(costs)],
        numbers=Numbers(columns=PAPER, rows=costs.paper, summary="the paper's figures beside ours"),
    )


def _reciprocal(costs: Costs) -> str:
    """How the paper's throughput and latency go together."""
    sides: dict[bool, list[str]] = {True: [], False: []}
    for line in costs.printed:
        printed = "" if line["agrees"] else f", printed {line['latency_ms_sample']}"
        ratio = f"1000/{line['throughput_samples_s']} = {line['value']}{printed}"
        sides[line["agrees"]].append(f"{line['name']} ({ratio})")
    # the median is in the paper's table, and not among the lines that are stored
    sides[False].append("LAEF's median (1000/1723.6 = 0.580, printed 0.687)")
    return (
        "The paper's throughput and latency are reciprocal to each other for "
        f"{enumerated(sides[True])} alone, and not for {enumerated(sides[False])}; ours always are."
    )


def _batch(rows: Sequence[Row]) -> int | None:
    return next((row["batch"] for row in rows if row["batch"] is not None), None)


def _about(costs: Costs) -> list[str]:
    """Sentences under the table."""
    return [
        f"Device: {Profile(costs=costs).device}. Inputs as the contract of the reference "
        "benchmark gives them; random weights, on which no cost depends.",
        GFLOP,
        KEPT,
        PAPER_RULE,
        *_timing(_batch(costs.rows)),
        *_exceptions(costs),
    ]


def _timing(batch: int | None) -> list[str]:
    if batch is None:
        return []
    return [
        f"Peak: the most memory that weights, input and one pass of a batch of {batch} hold in a "
        "fresh process: allocated by torch on a GPU, resident on a CPU beyond Python and torch; "
        "MB of 10^6 bytes.",
        f"Time: median of repeated passes of a batch of {batch} in inference mode after three "
        "that warm up, input on the device, float32, LAEF not compiled. Samples per second are "
        "1000 through the milliseconds per sample.",
    ]


def _exceptions(costs: Costs) -> Iterator[str]:
    titles = costs.titles
    padded = [title for name, title in titles.items() if name not in costs.any_leads]
    if padded:
        yield (
            f"{enumerated(padded)}: absent leads are filled, so the cost is the same at any "
            f"number of leads, and measured once."
        )
    for name, operators in costs.unknown.items():
        listed = ", ".join(
            f"{op} ({counted(calls, 'call')})" for op, calls in sorted(operators.items())
        )
        yield f"{titles[name]}: no total count, for no rule covers {listed}."
    for name, reason in costs.uncounted.items():
        yield f"{titles[name]}: no count by the paper's rule, for {reason}."
    for name, most in costs.most.items():
        if name in titles:
            leads = counted(most, "lead")
            yield (
                f"{titles[name]} reads at most {leads}: where more are measured, it costs what "
                f"it costs at {most}."
            )
    for name, reason in costs.failed.items():
        yield f"{name}: not measured ({reason})."


def _throughput(costs: Costs) -> Figure:
    caption = (
        f"Median of repeated forward passes of a batch of {_batch(costs.rows) or '--'}, float32. "
        f"{Profile(costs=costs).device}."
    )
    if costs.titles.keys() - costs.any_leads:
        caption += " Flat lines: networks padded to all of their leads, measured once."
    return Figure(name="throughput", draw=partial(_draw, costs), caption=caption)


def _draw(costs: Costs, sheet: "Sheet") -> list[Any]:
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

    ax = sheet.subplots()
    for at, name in enumerate(costs.titles):
        mine = [r for r in costs.rows if r["model"] == name and r["throughput_samples_s"]]
        speeds = [row["throughput_samples_s"] for row in mine]
        style = {"linewidth": 1.6, "markersize": 6, "zorder": 3, **look(at)}
        ax.plot([row["leads"] for row in mine], speeds, **style)
    lead_axis(ax, [row["leads"] for row in costs.rows])
    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(10, subs=(1, 2, 5)))
    ax.yaxis.set_major_formatter(FormatStrFormatter("%g"))
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.margins(y=0.12)
    ax.set(ylabel="samples per second")
    return [handle(title, at) for at, title in enumerate(costs.titles.values())]
