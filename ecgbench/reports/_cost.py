"""What models cost: cost.csv, cost.md, cost.tex, the paper's own figures beside ours, and throughput against measured leads."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ecgbench import models
from ecgbench.files import put
from ecgbench.profiling.cost import CLASSES, COLUMNS, PAPER_COLUMNS, RULES, Costs, beside_the_paper, printed, reciprocal
from ecgbench.reports import _form, lead_curve
from ecgbench.reports._form import Fact

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES = (
    ("params_backbone_m", "Params (M)", 1), ("params_with_head_m", "with head", 1), ("gflop_forward", "GFLOP forward", 3),
    ("gflop_forward_paper", "paper's rule", 3), ("gflop_backward", "backward", 3), ("peak_mb", "Peak (MB)", 1),
    ("throughput_samples_s", "samples/s", 1), ("latency_ms_sample", "ms/sample", 3),
)  # fmt: skip
"""Columns of numbers in cost.md and cost.tex: name in cost.csv, heading, decimals."""
_BESIDE = (
    ("gflop_forward_printed", "Forward, paper", 3), ("gflop_forward_paper", "ours", 3), ("gflop_backward_printed", "Backward, paper", 3),
    ("gflop_backward_alone", "ours alone", 3), ("gflop_forward_and_backward", "with forward", 3),
    ("gflop_backward_by_rule", "by the rule", 3), ("params_printed_m", "Params (M), paper", 1), ("params_backbone_m", "backbone", 1),
    ("params_with_both_heads_m", "with heads", 1),
)  # fmt: skip
_MARKS = dict(zip(RULES, "abcd"))
PAPER_RULE = (
    "Paper's rule: the linear maps and convolutions of the authors' networks, with the attention products of ST-MEM and ECG-JEPA (dense, "
    "all pairs of tokens) and without those of HuBERT-ECG, without FFT and kernel of ECG-CPC and without message passing of LAEF, whatever "
    "way our networks compute: with fewer products where that gives the same (attention of ECG-JEPA, positional convolution of HuBERT-ECG)."
    " For a network from outside: its Linear and Conv modules."
)
KEPT = (
    "Forward leaves out what a network computes once, in its first pass, and keeps for all windows after it: folded norms, the S4 kernels "
    "of ECG-CPC, the spectrum of HuBERT-ECG's positional convolution."
)
MIXED = (
    "The paper's backward column mixes rules. For the seven baselines it is forward and backward together, without the gradient of the "
    "input signal, by a counter that takes the weight gradient of a grouped convolution for one of a single group (ECGFounder, HuBERT-ECG)."
    " For LAEF at 12 leads it is twice the forward: the backward pass alone, with the gradient of the input signal, which training does "
    "not need and which ours alone leaves out (13.705 against 13.735). The paper's figure at 1 lead follows from none of these rules."
)
HEADS = (
    f"With heads: backbone, a linear head of {CLASSES} outputs and the reference benchmark's attention-pooling head; the paper differs for "
    "ST-MEM (90.3: with the decoder of the pre-training checkpoint), HuBERT-ECG (97.2: only the 1127 outputs of its MIMIC-IV task would "
    "give that), ECG-CPC (3.8: with its buffers, or 30 outputs and more), ECGFM-KED (9.7: 9 outputs and more) and LAEF (7.1: no heads)."
)


def facts(costs: Costs, leads: Sequence[int]) -> dict[str, Any]:
    """`rows` (the CSV), `lines` (the table), `paper` (cost_paper.csv), `titles`, `about` (sentences under the table), and the caption."""
    told = asdict(costs)
    groups = [[row for row in costs.rows if row["model"] == name] for name in dict.fromkeys(row["model"] for row in costs.rows)]
    lines = [line for group in groups for line in _lines(group, costs)]
    return {
        "rows": costs.rows, "lines": lines, "paper": beside_the_paper(costs.rows), "titles": costs.titles, "leads": list(leads),
        "about": _about(told), "caption": _caption(told), "timed": any(row["latency_ms_sample"] is not None for row in costs.rows),
    }  # fmt: skip


def _lines(group: Sequence[Fact], costs: Costs) -> Iterator[dict[str, Any]]:
    """One line of the table for each number of leads, or for all where they cost the same; a median over 1 to 12."""
    first = group[0]
    told = {"title": costs.titles[first["model"]], "samples": str(first["samples"])}
    if first["model"] not in costs.any_leads:
        yield told | {"leads": _spans([row["leads"] for row in group]), **{key: _number(first[key], d) for key, _, d in FIGURES}}
        return
    for row in group:
        yield told | {"leads": str(row["leads"]), **{key: _number(row[key], d) for key, _, d in FIGURES}}
    if len(group) == 12:
        yield told | {"leads": "median (min–max)", **{key: _middle([row[key] for row in group], d) for key, _, d in FIGURES}}


def _middle(values: Sequence[float | None], digits: int) -> str:
    there = [v for v in values if v is not None]
    if len(there) < len(values):
        return "--"
    if min(there) == max(there):
        return _number(there[0], digits)
    return f"{statistics.median(there):.{digits}f} ({min(there):.{digits}f}–{max(there):.{digits}f})"


def _number(value: float | None, digits: int) -> str:
    return "--" if value is None else f"{value:.{digits}f}"


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


def _reciprocal() -> str:
    """How the paper's throughput and latency go together."""
    sides: dict[bool, list[str]] = {True: [], False: []}
    for line in printed():
        value, agrees = reciprocal(line)
        name = models.ROOM.card(line["model"]).title + (
            f" at {_form.counted(int(line['leads']), 'lead')}" if line["model"] == "laef" else ""
        )
        told = f"{name} (1000/{line['throughput_samples_s']} = {value}"
        sides[agrees].append(told + (")" if agrees else f", printed {line['latency_ms_sample']})"))
    sides[False].append("LAEF's median (1000/1723.6 = 0.580, printed 0.687)")  # which is in the paper's table and not among `printed`
    return (
        f"The paper's throughput and latency are reciprocal to each other for {_form.enumerated(sides[True])} alone, and not for "
        f"{_form.enumerated(sides[False])}; ours always are."
    )


def _where(told: Fact) -> str:
    return f"{told['about'].get('device', 'none')}, torch {told['about'].get('torch', '--')}"


def _about(told: Fact) -> list[str]:
    """Sentences under the table."""
    batch = next((row["batch"] for row in told["rows"] if row["batch"] is not None), None)
    words = [
        f"Device: {_where(told)}. Inputs as the contract of the reference benchmark gives them; random weights, on which no cost depends.",
        f"GFLOP: 10^9 operations for one window through backbone and a linear head of {CLASSES} outputs, evaluation mode, 2 per "
        "multiply-add. Forward and backward are what our networks execute, operator by operator: products, convolutions with their groups, "
        "fused attention and FFT by formula, everything else by the element. Backward: the gradients of all trained parameters, without "
        "the forward pass.",
        KEPT,
        PAPER_RULE,
    ]
    if batch is not None:
        words += [
            f"Peak: the most memory that weights, input and one pass of a batch of {batch} hold in a fresh process: allocated by torch on "
            "a GPU, resident on a CPU beyond Python and torch; MB of 10^6 bytes.",
            f"Time: median of repeated passes of a batch of {batch} in inference mode after three that warm up, input on the device, "
            "float32, LAEF not compiled. Samples per second are 1000 through the milliseconds per sample.",
        ]
    padded = [title for name, title in told["titles"].items() if name not in told["any_leads"]]
    if padded:
        words.append(
            f"{_form.enumerated(padded)}: absent leads are filled, so the cost is the same at any number of leads, and measured once."
        )
    for name, operators in told["unknown"].items():
        listed = ", ".join(f"{op} ({_form.counted(calls, 'call')})" for op, calls in sorted(operators.items()))
        words.append(f"{told['titles'][name]}: no total count, for no rule covers {listed}.")
    words += [f"{told['titles'][name]}: no count by the paper's rule, for {reason}." for name, reason in told["uncounted"].items()]
    words += [
        f"{told['titles'][name]} reads at most {_form.counted(most, 'lead')}: where more are measured, it costs what it costs at {most}."
        for name, most in told["most"].items()
        if name in told["titles"]
    ]
    words += [f"{name}: not measured ({reason})." for name, reason in told["failed"].items()]
    return words


def _caption(told: Fact) -> str:
    batch = next((row["batch"] for row in told["rows"] if row["batch"] is not None), "--")
    words = f"Median of repeated forward passes of a batch of {batch}, float32. {_where(told)}."
    padded = [name for name in told["titles"] if name not in told["any_leads"]]
    return words + (" Flat lines: networks padded to all of their leads, measured once." if padded else "")


def draw(facts: dict[str, Any], folder: Path) -> list[Path]:
    """Write cost.csv, .md and .tex, cost_paper.csv where the paper has a figure, throughput.png and .svg where time was measured."""
    made: dict[str, str | bytes] = {"cost.csv": _form.table_text(COLUMNS, facts["rows"])}
    made |= {"cost.md": markdown_text(facts), "cost.tex": latex_text(facts)}
    if facts["paper"]:
        made["cost_paper.csv"] = _form.table_text(PAPER_COLUMNS, facts["paper"])
    if facts["timed"]:
        with _figure(facts) as figure:
            made |= {f"throughput.{kind}": lead_curve._bytes(figure, kind) for kind in ("png", "svg")}
    return [put(folder / name, content) for name, content in made.items()]


def _beside(facts: Fact, escape: Callable[[str], str]) -> tuple[list[str], list[list[str]]]:
    """Headings and cells of the comparison with the paper."""
    heads = ["Model", "Leads", *(head for _, head, _ in _BESIDE), "Rule"]
    rows = []
    for row in facts["paper"]:
        numbers = [row[key] if isinstance(row[key], str) else _number(row[key], digits) for key, _, digits in _BESIDE]
        rows.append([escape(facts["titles"][row["model"]]), str(row["leads"]), *numbers, _MARKS.get(row["backward_rule"], "none")])
    return heads, rows


def _notes(facts: Fact) -> list[str]:
    """Sentences under the comparison with the paper."""
    used = {row["backward_rule"] for row in facts["paper"]}
    named = "; ".join(f"{mark}: {rule}" for rule, mark in _MARKS.items() if rule in used)
    rule = f"Rule by which the paper's backward figure comes out{'; ' + named if named else ''}; none: by none that was tried."
    return [rule, MIXED, HEADS, _reciprocal()]


def markdown_text(facts: Fact) -> str:
    """cost.md: the table, its rules, and the paper's figures beside ours."""
    text = _form.markdown
    heads = ["Model", "Leads", "Samples", *(head for _, head, _ in FIGURES)]
    cells = [[text(line["title"]), line["leads"], line["samples"], *(line[key] for key, _, _ in FIGURES)] for line in facts["lines"]]
    parts = ["Cost of models by the number of measured leads.", "", _markdown_table(heads, cells, 1), ""]
    parts += [f"- {text(words)}" for words in facts["about"]]
    if facts["paper"]:
        parts += [
            "",
            "Beside the paper's own figures (cost_paper.csv has them unrounded).",
            "",
            _markdown_table(*_beside(facts, text), 1),
            "",
        ]
        parts += [f"- {text(words)}" for words in _notes(facts)]
    return "\n".join([*parts, ""])


def _markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]], words: int) -> str:
    """`words`: columns of text at the left."""
    lines = [heads, [":--" if i < words else "--:" for i in range(len(heads))], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def latex_text(facts: Fact) -> str:
    """cost.tex: the same two tables, ready for `\\input`; needs booktabs and graphicx."""
    heads = [r"Model", r"$L$", "Samples", *(_form.latex(head) for _, head, _ in FIGURES)]
    cells = [
        [_form.latex(line["title"]), _form.latex(line["leads"]), line["samples"], *(_form.latex(line[key]) for key, _, _ in FIGURES)]
        for line in facts["lines"]
    ]
    caption = r"Cost of models by the number of measured leads $L$."
    parts = [r"% Needs \usepackage{booktabs} and \usepackage{graphicx}.", _latex_table("cost", caption, heads, cells, facts["about"])]
    if facts["paper"]:
        heads, rows = _beside(facts, _form.latex)
        caption = "GFLOP and parameters beside those of the paper that introduced LAEF."
        parts.append(_latex_table("cost-paper", caption, [_form.latex(head) for head in heads], rows, _notes(facts)))
    return "\n".join(parts)


def _latex_table(name: str, caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str]) -> str:
    lines = [
        r"\begin{table}[htb!]", r"\centering", rf"\caption{{{caption}}}", rf"\label{{tab:ecgbench-{name}}}", r"\resizebox{\linewidth}{!}{",
        rf"\begin{{tabular}}{{ll{'r' * (len(heads) - 2)}}}", r"\toprule", " & ".join(heads) + r" \\", r"\midrule",
        *(" & ".join(row) + r" \\" for row in rows), r"\bottomrule", r"\end{tabular}}",
        r"\par\smallskip", r"\begin{minipage}{\linewidth}\scriptsize", *(f"{_form.latex(note)}\\par" for note in notes), r"\end{minipage}",
    ]  # fmt: skip
    return "\n".join([*lines, r"\end{table}", ""])


@contextmanager
def _figure(facts: Fact) -> "Iterator[Figure]":
    import textwrap

    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # a user's matplotlibrc must not change a published figure
        matplotlib.rcParams.update(lead_curve._STYLE)
        figure = Figure(figsize=(7.4, 4.6), layout="constrained", facecolor="white")
        ax = figure.subplots()
        names = list(facts["titles"])
        for at, name in enumerate(names):
            mine = [row for row in facts["rows"] if row["model"] == name and row["throughput_samples_s"] is not None]
            drawn = [row["leads"] for row in mine], [row["throughput_samples_s"] for row in mine]
            ax.plot(*drawn, linewidth=1.6, markersize=6, zorder=3, **lead_curve._look(at))
        _axes(ax, facts["leads"])
        figure.supxlabel(textwrap.fill(facts["caption"], 108), fontsize=7.5, color="#444444", x=0.01, ha="left")
        handles = [lead_curve._handle(at, {"label": facts["titles"][name], "random": False}) for at, name in enumerate(names)]
        figure.legend(handles=handles, loc="outside upper left", ncols=min(len(handles), 5), handlelength=2.4)
        yield figure


def _axes(ax: Any, leads: Sequence[int]) -> None:
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

    lead_axis(ax, leads)
    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(10, subs=(1, 2, 5)))
    ax.yaxis.set_major_formatter(FormatStrFormatter("%g"))
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.margins(y=0.12)
    ax.set(xlabel="measured leads", ylabel="samples per second")


def lead_axis(ax: Any, leads: Sequence[int]) -> None:
    """A logarithmic axis of numbers of leads, of which those have a label that leave room for the next."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    ticks = sorted(set(leads))
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_major_formatter(FixedFormatter([str(n) if len(ticks) <= 6 or n in (1, 2, 3, 4, 6, 8, 12) else "" for n in ticks]))
    ax.xaxis.set_minor_locator(NullLocator())
    margin = 2**0.25 if len(ticks) > 1 else 2
    ax.set_xlim(ticks[0] / margin, ticks[-1] * margin)
