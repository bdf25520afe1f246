"""An ablation: its cells beside the paper's, their differences, what lead sampling is worth, and
whether the order is evidence at this budget.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from ecgbench import published
from ecgbench.core.text import counted, enumerated
from ecgbench.reports import (
    Column,
    Facts,
    Figure,
    Notes,
    Numbers,
    ReportCard,
    Row,
    Section,
    Table,
    bracket,
    handle,
    points,
    signed,
    signed_bracket,
)
from ecgbench.reports._figure import COLOURS
from ecgbench.results.ablation import ENOUGH_SEEDS, NO_EVIDENCE, Ablation
from ecgbench.results.lead_sampling import LOSS

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Sheet

CARD = ReportCard(
    title="Ablation",
    summary="cells of one of the paper's ablations beside its numbers, and what their order says",
    reads="ablation",
    order=10,
)
_CELLS = (
    Column("cell", "Cell"),
    Column("paper", "Paper", "number", points),
    Column("score", "Here", "number", points),
    Column("sd", "SD", "number", points, note="seeds"),
    Column("interval", "95 %", "number", note="patients"),
    Column("before", "0 steps", "number", points),
    Column("half", "Half", "number", points, note="of the steps"),
    Column("seeds", "Seeds", "number"),
    Column("lr", "Rate", "number", "{:g}".format),
    Column("parameters", "Parameters", "number", "{:,}".format),
    Column("encoder_parameters", "of them", "number", "{:,}".format, note="behind the embedder"),
    Column("gflop", "GFLOP", "number", "{:.3f}".format, note="12 leads, forward"),
    Column("state", ""),
)
_READING = {"twelve": "twelve leads", "one": "one lead", "padded": "one lead, padded"}
_SIMULTANEOUS = (
    "Simultaneous: over all rows that the study asks for (Bonferroni), with the spread over seeds "
    "and that over patients; one seed gives none.",
    "Evidence: the interval excludes 0, and after half of the steps, where that was probed, the "
    "sign is the same.",
)
_SAMPLING = (
    "Loss from twelve leads to one: above 0 where the network that was shown some leads loses "
    "less.",
    "As many leads seen: the other network after 13/24 of its steps, for it is shown 12 leads and "
    "this one 6.5 on average.",
)
_DOT: dict[str, Any] = {"color": COLOURS[5], "marker": "o", "markersize": 3.5, "linestyle": ""}
_START: dict[str, Any] = {"color": COLOURS[7], "marker": "D", "markersize": 5, "linestyle": ""}
_PRINTED: dict[str, Any] = {"color": COLOURS[1], "marker": "x", "markersize": 6, "linestyle": ""}
_SURE: dict[str, Any] = {"color": COLOURS[0], "marker": "o", "markersize": 6}
_NOT_SURE: dict[str, Any] = _SURE | {"markerfacecolor": "white"}


def sections(source: Ablation) -> list[Section]:
    """What the order says, the cells, their differences, the rates that were tried, the budget."""
    rows = _differences(source)
    outcome = [*_outcome(source, rows), *([source.warning] if source.warning else [])]
    made = [
        Section(name="outcome", parts=[Notes(outcome, "findings")]),
        Section(name="scores", title="At a glance", parts=[_figure(source, rows)]),
        Section(name="cells", title="Cells", parts=[_cells(source)]),
    ]
    compared = _compared(source, rows)
    if source.readings:  # whose contrasts hold the difference with twelve leads too
        parts = [_leads(source), *([compared] if rows else [])]
        made.append(Section(name="leads", title="With fewer leads", parts=parts))
    else:
        made.append(Section(name="differences", title="Differences", parts=[compared]))
    if source.rates:
        made.append(Section(name="rates", title="Learning rates", parts=[_rates(source)]))
    made.append(Section(name="budget", title="Budget", parts=[Facts(_budget(source))]))
    return made


def _printed(source: Ablation) -> dict[str, float]:
    """The paper's scores of the study, fractions."""
    return {
        setting: score
        for (study, setting), score in published.ablations().items()
        if study == source.facts["about"]["published"]
    }


def _differences(source: Ablation) -> list[dict[str, Any]]:
    """Cells less the reference, or the contrasts of a study of lead sampling; fractions."""
    printed = _printed(source)
    of = printed.get(source.reference)
    found: list[tuple[str, float, Any, int]]
    if source.readings:
        found = [(c.name, c.value, c, len(c.by_seed)) for c in source.contrasts]
    else:
        every = [source.compared(name, source.reference) for name in source.cells]
        found = [(c.name, c.value, c, len(c.by_seed)) for c in every if c is not None]
    rows = []
    for name, value, compared, seeds in found:
        low, high = (None if end != end else end for end in compared.interval)
        rows.append(
            {
                "contrast" if source.readings else "cell": name,
                "name": name,
                "paper": None if of is None or name not in printed else printed[name] - of,
                "difference": value,
                "interval": signed_bracket(low, high),
                "low": low,
                "high": high,
                "half": compared.half,
                "seeds": seeds,
                "evidence": compared.evidence,
            }
        )
    return rows


def _outcome(source: Ablation, rows: Sequence[Row]) -> Iterator[str]:
    """In words what is evidence, and what is not."""
    sure = [row for row in rows if row["evidence"]]
    if source.contrasts:
        yield from [] if sure else [NO_EVIDENCE]
        for row in rows:
            yield from _worth(row)
        return
    for word, sign in (("above", 1), ("below", -1)):
        if names := [row["name"] for row in sure if sign * row["difference"] > 0]:
            yield f"{enumerated(names)}: {word} {source.reference} at this budget."
    if len(sure) < len(rows) or not rows:
        rest = enumerated([row["name"] for row in rows if not row["evidence"]])
        more = f" Not told apart from {source.reference}: {rest}." if sure else ""
        yield f"{NO_EVIDENCE}{more}"


def _worth(row: Row) -> Iterator[str]:
    """What a contrast says of lead sampling."""
    name, more, evidence = row["name"], row["difference"] > 0, row["evidence"]
    who = "The network that was shown some leads"
    size = f"{points(abs(row['difference']))} points"
    interval = f" {row['interval']}" if row["interval"] else ""
    if name.startswith(LOSS):
        yield (
            f"{who} loses {size} {'less' if more else 'more'} from twelve leads to one{interval}, "
            f"{name.removeprefix(f'{LOSS}, ')}: {'evidence' if evidence else 'no evidence'}."
        )
    elif evidence:
        where = "above" if more else "below"
        yield f"{who} is {size} {where} the other{interval}, read with {name}: evidence."


def _cells(source: Ablation) -> Table:
    printed, about = _printed(source), source.facts["about"]
    rows = []
    for name in (*about["cells"], *about["not_reproduced"]):
        row = dict.fromkeys(column.name for column in _CELLS) | {"cell": name, "state": ""}
        row["paper"] = printed.get(name)
        if name in source.cells:
            row |= _row(source, name)
        else:
            lost = name in about["not_reproduced"]
            row["state"] = "not reproduced" if lost else "not trained yet"
        rows.append(row)
    keys = [column.name for column in _CELLS if column.name != "interval"]
    numbers = Numbers(columns=[*keys, "low", "high"], rows=rows, summary="one row per cell")
    which = ": the cells of the paper's ablation" if about["published"] else ""
    return Table(
        name="ablation",
        caption=f"{about['title']}{which}, at the budget below.",
        columns=[c for c in _CELLS if about["published"] or c.name != "paper"],
        rows=rows,
        notes=list(_notes(source, printed)),
        numbers=numbers,
    )


def _row(source: Ablation, name: str) -> dict[str, Any]:
    cell, (low, high) = source.cells[name], source.patient_interval(name)
    return {
        "score": cell.mean(source.steps),
        "sd": cell.sd(source.steps),
        "interval": bracket(low, high),
        "low": low,
        "high": high,
        "before": cell.mean(0),
        "half": cell.mean(source.half) if source.half else None,
        "seeds": len(cell.scores),
        "lr": cell.lr,
        "parameters": cell.parameters,
        "encoder_parameters": cell.encoder_parameters,
        "gflop": None if cell.flop is None else cell.flop / 1e9,
    }


def _notes(source: Ablation, printed: Mapping[str, float]) -> Iterator[str]:
    about = source.facts["about"]
    yield (
        "Scores: macro AUROC × 100 of a linear head on frozen features of twelve leads, "
        f"{source.compared_on}; mean over the seeds. SD: over seeds of weights, codebooks, masks, "
        "windows and order. 95 %: over the patients, the seeds as they are."
    )
    if about["stage"] == 2:
        yield "0 steps: of stage 2, which begins with the network of the shared stage 1."
    for name, why in about["not_reproduced"].items():
        yield f"Not reproduced, {name}: {why}."
    if not about["published"]:
        return
    yield "The paper's are of another task and budget: only the order of cells can be compared."
    tau = source.order_as(printed)
    if tau is not None:
        yield f"Order of the cells beside the paper's: Kendall's tau-b {tau:.2f}."
    else:
        yield (
            f"No rank correlation with the paper's order: it takes {ENOUGH_SEEDS} seeds and three "
            "cells that the paper prints."
        )


def _compared(source: Ablation, rows: Sequence[Row]) -> Table:
    """The differences of a study."""
    sampling, reference = bool(source.readings), source.reference
    paper = (
        [Column("paper", "Paper", "number", signed)] if source.facts["about"]["published"] else []
    )
    key = "contrast" if sampling else "cell"
    numbers = ["difference", "low", "high", "half", "seeds", "evidence"]
    return Table(
        name="ablation_lead_sampling" if sampling else "ablation_differences",
        caption=(
            f"What lead sampling is worth: {reference} less the other, × 100."
            if sampling
            else f"Differences from {reference}, paired by seed, macro AUROC × 100."
        ),
        columns=[
            Column("name", "Contrast" if sampling else f"Less {reference}"),
            *paper,
            Column("difference", "Here", "number", signed),
            Column("interval", "95 %, simultaneous", "number", note="seeds and patients"),
            Column("half", "Half", "number", signed, note="of the steps"),
            Column("seeds", "Seeds", "number"),
            Column("evidence", "Order", "text", lambda yes: "evidence" if yes else "no evidence"),
        ],
        rows=rows,
        notes=[*_SIMULTANEOUS, *(_SAMPLING if sampling else ())],
        numbers=Numbers(
            columns=[key, *([] if sampling else ["paper"]), *numbers],
            rows=rows,
            summary=f"one row per {key}{'' if sampling else ' but the reference'}",
        ),
    )


def _leads(source: Ablation) -> Table:
    """Scores with twelve leads and with one."""
    rows = []
    for key, score in source.readings.items():
        seeds = list(score.by_seed.values())
        sd = float(np.std(seeds, ddof=1)) if len(seeds) > 1 else None
        rows.append({**key._asdict(), "score": score.mean, "sd": sd, "seeds": len(seeds)})
    return Table(
        name="ablation_leads",
        caption="Macro AUROC × 100 with twelve leads and with one.",
        columns=(
            Column("cell", "Leads shown in training"),
            Column("step", "Steps", "number", "{:,}".format),
            Column("reading", "Read with", "text", lambda word: _READING[word]),
            Column("score", "Here", "number", points),
            Column("sd", "SD", "number", points, note="seeds"),
            Column("seeds", "Seeds", "number"),
        ),
        rows=rows,
        notes=[
            "One linear head for each network, fitted to twelve leads. One lead: the mean over the "
            "twelve single leads. Padded: that lead among eleven without signal.",
            "0 steps: the untrained network, which is the same in both cells of a seed.",
        ],
        numbers=Numbers(
            columns=list(rows[0]), rows=rows, summary="one row per network and reading"
        ),
    )


def _rates(source: Ablation) -> Table:
    rates = list(next(iter(source.rates.values())))
    return Table(
        name="ablation_rates",
        caption="Learning rates that were tried: macro AUROC × 100 on the development task.",
        columns=(Column("cell", "Cell"), *(Column(r, r, "number", points) for r in rates)),
        rows=[{"cell": name, **scores} for name, scores in source.rates.items()],
        notes=["At a seed of their own, which no cell is compared at; the best of each is used."],
    )


def _budget(source: Ablation) -> dict[str, Any]:
    budget, about = source.facts["budget"], source.facts["about"]
    stage = budget["stages"][about["stage"] - 1]
    steps = f"{budget['steps']:,} of {stage['batch']:,} recordings"
    facts = {
        "Data": source.data,
        "Recordings": f"{source.facts['trained_on']:,} to train on",
        "Probe": (
            f"{about['task']}: {about['probe_records']:,} training and "
            f"{counted(len(source.target), 'recording')} to compare on, {budget['epochs']} epochs"
        ),
        "Steps": f"{steps} in each stage" if about["stage"] == 2 else steps,
        "Learning rates": ", ".join(f"{rate:g}" for rate in budget["rates"]),
        "Descriptor of stage 1": budget["recipe"]["descriptor"],
    }
    if about["published"] != "codebook_stage1":
        facts["Codes of stage 1"] = ", ".join(map(str, budget["recipe"]["codes"]))
    return facts | {"Precision": stage["precision"]}


def _figure(source: Ablation, rows: Sequence[Row]) -> Figure:
    """Scores of the cells by seed on the left, their differences on the right."""
    scores = list(_scores(source))
    right = ""
    if rows and source.readings:
        right = f"the network that was shown {source.reference} leads less that shown all"
    elif rows:
        right = f"less {source.reference}"
    right = right and f" Right: {right}, simultaneous 95 % intervals over seeds and patients."
    left = "leads shown in training, and leads read" if source.readings else "95 % over patients"
    caption = (
        "Left: macro AUROC × 100 of a linear head on frozen features, "
        f"{source.compared_on}; {left}.{right} Filled: the order is evidence at this budget. "
        f"Data: {source.data}.{' Not finished.' if source.open else ''}"
    )
    probes = [
        {"cell": name, "seed": seed, "step": step, "score": score}
        for name, cell in source.cells.items()
        for seed, by_step in sorted(cell.scores.items())
        for step, score in sorted(by_step.items())
    ]
    summary = "one row per network that was probed"
    return Figure(
        name="ablation_scores",
        draw=partial(_draw, scores, rows),
        caption=caption,
        size=(10.4, 1.9 + 0.34 * max(len(scores), len(rows))),
        numbers=Numbers(columns=list(probes[0]), rows=probes, summary=summary),
    )


def _scores(source: Ablation) -> Iterator[Row]:
    """Lines of the left panel, fractions: name, seeds, score before the first step, interval."""
    for key, score in source.readings.items():
        if key.step == source.steps:
            yield {
                "name": f"{key.cell} shown: {_READING[key.reading]}",
                "seeds": list(score.by_seed.values()),
                "before": source.readings[key._replace(step=0)].mean,
            }
    for name, cell in source.cells.items() if not source.readings else ():
        low, high = source.patient_interval(name)
        seeds = [by_step[source.steps] for by_step in cell.scores.values()]
        yield {"name": name, "seeds": seeds, "before": cell.mean(0), "low": low, "high": high}


def _draw(scores: Sequence[Row], rows: Sequence[Row], sheet: "Sheet") -> list[Any]:
    left, *others = sheet.subplots(1, 2 if rows else 1, squeeze=False)[0]
    for at, row in enumerate(scores):
        seeds = [100 * score for score in row["seeds"]]
        left.plot(seeds, [at + 0.18] * len(seeds), **_DOT)
        left.plot(100 * row["before"], at, zorder=2, **_START)
        _bar(left, at, float(np.mean(row["seeds"])), row, _SURE)
    _label(left, scores, "Scores")
    handles = [
        handle("mean over seeds", **_SURE),
        handle("one seed", **_DOT),
        handle("before the first step", **_START),
    ]
    for right in others:
        right.axvline(0, color="#555555", linewidth=0.9)
        for at, row in enumerate(rows):
            _bar(right, at, row["difference"], row, _SURE if row["evidence"] else _NOT_SURE)
            if row["paper"] is not None:
                right.plot(100 * row["paper"], at, zorder=4, **_PRINTED)
        _label(right, rows, "Differences")
        handles.append(handle("no evidence", **_NOT_SURE))
        if any(row["paper"] is not None for row in rows):
            handles.append(handle("the paper's difference, other task and budget", **_PRINTED))
    return handles


def _bar(ax: Any, at: int, value: float, row: Row, style: Mapping[str, Any]) -> None:
    if row.get("low") is not None:
        ends = [100 * row["low"], 100 * row["high"]]
        ax.plot(ends, [at, at], color=COLOURS[0], linewidth=1.4)
    ax.plot(100 * value, at, zorder=3, linestyle="", **style)


def _label(ax: Any, rows: Sequence[Row], title: str) -> None:
    ax.set_yticks(range(len(rows)), [fill(row["name"], 44) for row in rows])
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.grid(axis="y", visible=False)
    ax.set(title=title, xlabel="macro AUROC × 100")
