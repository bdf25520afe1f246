"""Cost: operations, memory and time of models by the number of measured leads, beside the paper's
own figures; and LAEF's graph by leads and segments beside the paper's formula.
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
from ecgbench.results.profile import CLASSES, COMPLEXITY, COSTS, PAPER, Complexity, Costs, Profile

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Sheet

CARD = ReportCard(
    title="Cost",
    summary="operations, memory and time of models by measured leads, beside the paper's figures",
    reads="profile",
    order=10,
)
_Shown = Sequence[tuple[str, str, str]]
_COST: _Shown = (
    ("params_backbone_m", "Params (M)", ".1f"),
    ("params_with_head_m", "with head", ".1f"),
    ("gflop_forward", "GFLOP forward", ".3f"),
    ("gflop_forward_paper", "paper's rule", ".3f"),
    ("gflop_backward", "backward", ".3f"),
    ("peak_mb", "Peak (MB)", ".1f"),
    ("throughput_samples_s", "samples/s", ".1f"),
    ("latency_ms_sample", "ms/sample", ".3f"),
)
"""Columns for readers: name in the CSV, heading, format."""
_BESIDE: _Shown = (
    ("gflop_forward_printed", "Forward, paper", ".3f"),
    ("gflop_forward_paper", "ours", ".3f"),
    ("gflop_backward_printed", "Backward, paper", ".3f"),
    ("gflop_backward_alone", "ours alone", ".3f"),
    ("gflop_forward_and_backward", "with forward", ".3f"),
    ("gflop_backward_by_rule", "by the rule", ".3f"),
    ("params_printed_m", "Params (M), paper", ".1f"),
    ("params_backbone_m", "backbone", ".1f"),
    ("params_with_both_heads_m", "with heads", ".1f"),
)
_GRAPH: _Shown = (
    ("segments", "S", "d"),
    ("leads", "L", "d"),
    ("nodes", "Nodes LS", ",.0f"),
    ("edges_intra", "Intra", ",.0f"),
    ("edges_inter", "Inter", ",.0f"),
    ("edges_directed", "Directed, loops", ",.0f"),
    ("cost_paper", "LS² + SL²", ",.0f"),
    ("cost_complete_graph", "(LS)²", ",.0f"),
    ("flop_message_passing", "Passing (MFLOP)", ",.2f"),
    ("flop_per_edge_channel", "FLOP/(edge × channel)", ",.1f"),
    ("flop_maps", "Maps (MFLOP)", ",.1f"),
    ("ms_message_passing", "Passing (ms)", ",.3f"),
    ("ms_layers", "Both layers (ms)", ",.3f"),
)
_GFLOP = (
    f"GFLOP: 10^9 operations for one window through backbone and a linear head of {CLASSES} "
    "outputs, 2 per multiply-add, as our networks execute them; what is computed once and kept for "
    "all windows is left out. Backward: gradients of all trained parameters, without the forward "
    "pass.",
    "Paper's rule: the linear maps and convolutions of the authors' networks, with the attention "
    "products of ST-MEM and ECG-JEPA and without those of HuBERT-ECG, without FFT and kernel of "
    "ECG-CPC and without message passing of LAEF.",
)
_TIME = (
    "Peak: the most memory that weights, input and one pass of a batch of {batch} hold in a fresh "
    "process, on a GPU as torch allocates it, on a CPU beyond Python and torch; MB of 10^6 bytes. "
    "Time: median of repeated passes of that batch in inference mode, float32, not compiled. "
    "Samples per second are 1000 through the milliseconds per sample."
)
_MIXED = (
    "The paper's backward column mixes rules: for the seven baselines forward and backward "
    "together, for LAEF at 12 leads twice the forward, which is the backward pass with the "
    "gradient of the input signal (ours leaves that out). The figure at 1 lead follows from none.",
    f"With heads: backbone, a linear head of {CLASSES} outputs and the reference benchmark's "
    "attention-pooling head. The paper's parameters differ for ST-MEM (with the decoder of the "
    "pre-training), HuBERT-ECG (with the outputs of MIMIC-IV), ECG-CPC (with buffers), ECGFM-KED "
    "(more outputs) and LAEF (no heads).",
)


def sections(profile: Profile) -> list[Section]:
    """Of the models and of LAEF's graph, as far as they were measured."""
    made = []
    if profile.costs is not None and profile.costs.rows:
        title = "Cost by the number of measured leads"
        made.append(Section(name="cost", title=title, short="Cost", parts=_of_models(profile)))
    if profile.complexity is not None:
        parts = _of_graph(profile.complexity)
        title = "Cost of LAEF's graph layers"
        made.append(Section(name="complexity", title=title, short="Complexity", parts=parts))
    return made


def _columns(shown: _Shown) -> list[Column]:
    """Of numbers; text stands as it is."""

    def spelled(form: str, value: Any) -> str:
        return format(value, form) if isinstance(value, int | float) else str(value)

    return [Column(key, head, "number", partial(spelled, form)) for key, head, form in shown]


def _of_models(profile: Profile) -> list[Part]:
    costs = profile.costs
    assert costs is not None
    timed = any(row["latency_ms_sample"] is not None for row in costs.rows)
    batch = next((row["batch"] for row in costs.rows if row["batch"] is not None), None)
    device = f"Device: {profile.device}"
    notes = [
        f"{device}. Inputs as the contract of the reference benchmark gives them; random weights, "
        "on which no cost depends.",
        *_GFLOP,
        *([] if batch is None else [_TIME.format(batch=batch)]),
        *_exceptions(costs),
    ]
    summary = "one row per model and number of leads"
    parts: list[Part] = [
        Table(
            name="cost",
            caption="Cost of models by the number of measured leads.",
            columns=[
                Column("title", "Model"),
                Column("shown", "Leads"),
                Column("samples", "Samples", "number"),
                *_columns(_COST),
            ],
            rows=list(_lines(costs)),
            notes=notes,
            numbers=Numbers(columns=COSTS, rows=costs.rows, summary=summary),
        )
    ]
    if costs.paper:
        parts.append(_beside(costs))
    if timed:
        caption = f"Median of repeated passes of a batch of {batch}, float32. {device}."
        if costs.titles.keys() - costs.any_leads:
            caption += " Flat lines: networks padded to all of their leads, measured once."
        parts.append(Figure(name="throughput", draw=partial(_throughput, costs), caption=caption))
    return parts


def _lines(costs: Costs) -> Iterator[Row]:
    """A line for each number of leads, or for all where they cost the same; a median over 1 to
    12.
    """
    for name, title in costs.titles.items():
        rows = [row for row in costs.rows if row["model"] == name]
        if not rows:
            continue
        same = {"title": title, "samples": rows[0]["samples"]}
        leads = [row["leads"] for row in rows]
        if name not in costs.any_leads:
            shown = "1–12" if leads == list(range(1, 13)) else ", ".join(map(str, leads))
            yield rows[0] | same | {"shown": shown}
            continue
        yield from (row | same | {"shown": str(row["leads"])} for row in rows)
        if len(rows) == 12:
            medians = {key: _median([row[key] for row in rows], form) for key, _, form in _COST}
            yield same | {"shown": Cell("median", small="(min–max)")} | medians


def _median(values: Sequence[float | None], form: str) -> float | Cell | None:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    low, middle, high = min(known), statistics.median(known), max(known)
    return (
        middle if low == high else Cell(f"{middle:{form}}", small=f"({low:{form}}–{high:{form}})")
    )


def _exceptions(costs: Costs) -> Iterator[str]:
    titles = costs.titles
    padded = [title for name, title in titles.items() if name not in costs.any_leads]
    if padded:
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


def _beside(costs: Costs) -> Table:
    """The paper's figures beside ours."""
    letters = dict(zip(costs.rules, "abcdefgh"))
    used = {row["backward_rule"] for row in costs.paper}
    named = [f"; {letter}: {rule}" for rule, letter in letters.items() if rule in used]
    agrees = [line["name"] for line in costs.printed if line["agrees"]]
    notes = [
        f"Rule by which the paper's backward figure comes out{''.join(named)}; none: by none that "
        "was tried.",
        *_MIXED,
        f"The paper's throughput and latency are reciprocal for {enumerated(agrees)} alone; ours "
        "always are.",
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
        rows=[
            row
            | {"title": costs.titles[row["model"]], "leads": str(row["leads"])}
            | {"rule": letters.get(row["backward_rule"], "none")}
            for row in costs.paper
        ],
        notes=notes,
        numbers=Numbers(columns=PAPER, rows=costs.paper, summary="the paper's figures beside ours"),
    )


def _throughput(costs: Costs, sheet: "Sheet") -> list[Any]:
    from matplotlib.ticker import LogLocator

    ax = sheet.subplots()
    for at, name in enumerate(costs.titles):
        mine = [r for r in costs.rows if r["model"] == name and r["throughput_samples_s"]]
        speeds = [row["throughput_samples_s"] for row in mine]
        style = {"linewidth": 1.6, "markersize": 6, "zorder": 3, **look(at)}
        ax.plot([row["leads"] for row in mine], speeds, **style)
    lead_axis(ax, [row["leads"] for row in costs.rows])
    _logarithmic(ax)
    ax.yaxis.set_major_locator(LogLocator(10, subs=(1, 2, 5)))
    ax.margins(y=0.12)
    ax.set(ylabel="samples per second")
    return [handle(title, at) for at, title in enumerate(costs.titles.values())]


def _logarithmic(ax: Any) -> None:
    from matplotlib.ticker import FormatStrFormatter, NullFormatter

    ax.set_yscale("log")
    ax.yaxis.set_major_formatter(FormatStrFormatter("%g"))
    ax.yaxis.set_minor_formatter(NullFormatter())


def _of_graph(complexity: Complexity) -> list[Part]:
    """The figure and the table of LAEF's two graph layers."""
    rows, device = complexity.rows, Profile(complexity=complexity).device
    timed = any(row["ms_layers"] is not None for row in rows)
    batch = next((row["batch"] for row in rows if row["batch"] is not None), None)
    how = f"time per window, median of repeated passes of a batch of {batch}"
    counts = {row["leads"] for row in rows}
    intra = sum(counts) / len(counts) / 12
    inter = sum(n * (n - 1) for n in counts) / len(counts) / (12 * 11)
    notes = [
        "Edges as the paper counts them, undirected: within leads L S(S-1)/2, between leads at the "
        "same time step S L(L-1)/2. The network's graph is directed and has self-loops: "
        "L S² + S L(L-1), of the (LS)² pairs of a complete graph 1/L + 1/S - 1/(LS). The paper's "
        "formula, 1/L + 1/S, counts self-loops twice and exceeds 1 at L = 1.",
        f"With L uniform on these numbers of leads, {intra:.3f} of the edges at 12 leads are "
        f"expected within leads, and {inter:.3f} of those between leads.",
        f"Passing: scores, softmax and sums over neighbours of both layers ({complexity.channels} "
        "channels), without their linear maps, as our network executes them.",
        f"Device: {device}; {how if batch else 'not timed'}. Random weights.",
    ]
    summary = "one row per number of leads and window"
    caption = (
        "Both graph layers of LAEF, one window. Solid: message passing without the linear maps. "
        "Dashed: the paper's L S² + S L², scaled to meet it at 12 leads and S = "
        f"{max(row['segments'] for row in rows)}. Dotted: a complete graph, (L S)², by the same "
        f"scale. {complexity.about['device']}."
    )
    size = (9.6, 4.4) if timed else (7.4, 4.6)
    return [
        Figure(name="complexity", draw=partial(_graph, rows, timed), caption=caption, size=size),
        Table(
            name="complexity",
            caption="LAEF's two graph layers (GATv2) by leads L and segments S; one window.",
            columns=_columns(_GRAPH),
            rows=[
                row | {key: row[key] / 1e6 for key in ("flop_message_passing", "flop_maps")}
                for row in rows
            ],
            notes=notes,
            numbers=Numbers(columns=COMPLEXITY, rows=rows, summary=summary),
        ),
    ]


def _graph(rows: Sequence[Row], timed: bool, sheet: "Sheet") -> list[Any]:
    axes = sheet.subplots(1, 2 if timed else 1, squeeze=False)[0]
    segments = sorted({row["segments"] for row in rows})
    last = max(rows, key=lambda row: (row["segments"], row["leads"]))
    panels = (("flop_message_passing", 1e6, "MFLOP"), ("ms_message_passing", 1.0, "ms"))
    for ax, (key, unit, name) in zip(axes, panels):
        scale = last[key] / unit / last["cost_paper"]
        for at, s in enumerate(segments):
            mine = [row for row in rows if row["segments"] == s]
            leads, style = [row["leads"] for row in mine], look(at)
            line = {"linewidth": 1.6, "markersize": 5, "zorder": 3, **style}
            ax.plot(leads, [row[key] / unit for row in mine], **line)
            for formula, dash in (("cost_paper", "--"), ("cost_complete_graph", ":")):
                thin = {"linewidth": 1.1, "color": style["color"], "linestyle": dash}
                ax.plot(leads, [scale * row[formula] for row in mine], alpha=0.8, **thin)
        lead_axis(ax, [row["leads"] for row in rows])
        _logarithmic(ax)
        ax.set(xlabel="measured leads L", ylabel=f"message passing, {name}")
        ax.set(title="Measured" if name == "ms" else "Counted")
    return [handle(f"S = {s} segments", at) for at, s in enumerate(segments)]
