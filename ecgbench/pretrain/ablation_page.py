"""An ablation: its cells beside the paper's, their differences, what lead sampling is worth, and
whether the order is evidence at this budget.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from ecgbench import published
from ecgbench import reports as r
from ecgbench.pretrain import ablation
from ecgbench.pretrain.ablation import ENOUGH_SEEDS, NO_EVIDENCE, Ablation
from ecgbench.pretrain.lead_sampling import LOSS
from ecgbench.pretrain.page import facts_of, heading_of

CARD = r.ReportCard(
    title="Ablation",
    summary="cells of one of the paper's ablations beside its numbers, and what their order says",
    reads="ablation",
    order=10,
)
CELLS = (
    *("cell", "paper", "score", "sd", "before", "half", "seeds", "lr", "parameters"),
    *("encoder_parameters", "gflop", "state", "low", "high"),
)
_PAPER = r.Column("paper", "Paper", "number", r.points)
_COLUMNS = (
    r.Column("score", "Here", "number", r.points),
    r.Column("sd", "SD", "number", r.points, note="seeds"),
    r.Column(
        *("low", "95 %", "number"),
        note="patients",
        cell=lambda row: r.bracket(row["low"], row["high"]),
    ),
    r.Column("before", "0 steps", "number", r.points),
    r.Column("half", "Half", "number", r.points, note="of the steps"),
    r.Column("seeds", "Seeds", "number"),
    r.Column("lr", "Rate", "number", "{:g}".format),
    r.Column("parameters", "Parameters", "number", "{:,}".format),
    r.Column("encoder_parameters", "of them", "number", "{:,}".format, "behind the embedder"),
    r.Column("gflop", "GFLOP", "number", "{:.3f}".format, "12 leads, forward"),
    r.Column("state", "State", cell=lambda row: row["state"] or ""),
)
_READING = {"twelve": "twelve leads", "one": "one lead", "padded": "one lead, padded"}
_SIMULTANEOUS = (
    "Simultaneous: over all rows that the study asks for (Bonferroni), with the spread over seeds "
    "and that over patients; one seed gives none. Evidence: the interval excludes 0, and after "
    "half of the steps, where that was probed, the sign is the same."
)
_SAMPLING = (
    "Loss from twelve leads to one: above 0 where the network that was shown some leads loses "
    "less. As many leads seen: the other network after 13/24 of its steps, for it is shown 12 "
    "leads and this one 6.5 on average."
)


def sections(source: Ablation, rows: pd.DataFrame) -> list[r.Section]:
    """What the order says, the cells, their differences, the rates that were tried, the budget."""
    outcome = [*_outcome(source, rows), *([source.warning] if source.warning else [])]
    made = [
        r.Section(name="outcome", parts=[r.Notes(outcome, "findings")]),
        r.Section(name="cells", title="Cells", parts=[_cells(source), _probes(source)]),
    ]
    compared: list[r.Part] = []
    if len(rows):
        compared = [_figure(source, rows), _compared(source, rows)]
    if source.readings:  # whose contrasts hold the difference with twelve leads too
        parts = [*compared, _leads(source)]
        made.append(r.Section(name="leads", title="With fewer leads", parts=parts))
    elif compared:
        made.append(r.Section(name="differences", title="Differences", parts=compared))
    if source.rates:
        made.append(r.Section(name="rates", title="Learning rates", parts=[_rates(source)]))
    return [*made, r.Section(name="budget", title="Budget", parts=[_budget(source)])]


def _printed(source: Ablation) -> dict[str, float]:
    """The paper's scores of the study, fractions."""
    return {
        setting: score
        for (study, setting), score in published.ablations().items()
        if study == source.facts["about"]["published"]
    }


def rows(source: Ablation) -> pd.DataFrame:
    """Cells less the reference, or the contrasts of a study of lead sampling; fractions."""
    printed = _printed(source)
    lines = [
        {
            "contrast" if source.readings else "cell": found.name,
            "paper": printed.get(found.name, np.nan) - printed.get(source.reference, np.nan),
            "difference": found.value,
            "low": found.interval.low,
            "high": found.interval.high,
            "half": found.half,
            "seeds": len(found.by_seed),
            "evidence": found.evidence,
        }
        for found in source.contrasts
    ]
    made = pd.DataFrame(lines, dtype=object)
    return made.drop(columns="paper") if source.readings and lines else made


def _outcome(source: Ablation, rows: pd.DataFrame) -> Iterator[str]:
    """In words what is evidence, and what is not."""
    names: dict[str, list[str]] = {}
    for row in rows.to_dict("records"):
        name, above = row.get("cell") or row["contrast"], row["difference"] > 0
        word = "above" if above else "below"
        if name.startswith(LOSS):  # above 0 where less is lost
            word = "smaller than for" if above else "larger than for"
        names.setdefault(word if row["evidence"] else "", []).append(name)
    # a contrast is the network that was shown some leads less the other
    other = "the network that was shown all leads" if source.readings else source.reference
    rest = "; ".join(names.pop("", []))
    for word, own in names.items():
        yield f"{'; '.join(own)}: {word} {other} at this budget."
    rest = f"Not told apart from {other}: {rest}." if names and rest else ""
    without = NO_EVIDENCE if not names or (rest and not source.readings) else ""
    if text := f"{without} {rest}".strip():
        yield text


def _cells(source: Ablation) -> r.Table:
    printed, about = _printed(source), source.facts["about"]
    rows: list[dict[str, Any]] = []
    for name in (*about["cells"], *about["not_reproduced"]):
        row: dict[str, Any] = {"cell": name, "paper": printed.get(name)}
        if name in source.cells:
            rows.append(row | _row(source, name))
        else:
            lost = name in about["not_reproduced"]
            rows.append(row | {"state": "not reproduced" if lost else "not trained yet"})
    paper = [_PAPER] if about["published"] else []
    which = ": the cells of the paper's ablation" if paper else ""
    return r.Table(
        name="ablation",
        caption=f"{about['title']}{which}, at the budget below.",
        columns=[r.Column("cell", "Cell"), *paper, *_COLUMNS],
        rows=pd.DataFrame(rows, columns=CELLS, dtype=object),
        notes=list(_notes(source, printed)),
        summary="one row per cell",
    )


def _row(source: Ablation, name: str) -> dict[str, Any]:
    cell, (low, high) = source.cells[name], source.patient_interval(name)
    return {
        "score": cell.mean(source.steps),
        "sd": cell.sd(source.steps),
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


def _compared(source: Ablation, rows: pd.DataFrame) -> r.Table:
    """The differences of a study."""
    sampling, key = bool(source.readings), rows.columns[0]
    signed = partial(r.Column, kind="number", spell=r.signed)
    paper = [signed("paper", "Paper")] if source.facts["about"]["published"] else []
    what = "What lead sampling is worth" if sampling else "Differences, paired by seed"
    words = {True: "evidence", False: "no evidence"}
    return r.Table(
        name=_name(source),
        caption=f"{what}: macro AUROC × 100, less {'the other' if sampling else source.reference}.",
        columns=[
            r.Column(key, key.capitalize()),
            *(paper if "paper" in rows else []),
            r.difference_column(note="95 %, simultaneous, seeds and patients", heading="Here"),
            signed("half", "Half", note="of the steps"),
            r.Column("seeds", "Seeds", "number"),
            r.Column("evidence", "Order", spell=words.__getitem__),
        ],
        rows=rows,
        notes=[_SIMULTANEOUS, *([_SAMPLING] if sampling else [])],
        summary=f"one row per {key}{'' if sampling else ' but the reference'}",
    )


def _leads(source: Ablation) -> r.Table:
    """Scores with twelve leads and with one."""
    rows = []
    for key, score in source.readings.items():
        seeds = list(score.by_seed.values())
        sd = float(np.std(seeds, ddof=1)) if len(seeds) > 1 else None
        rows.append({**key._asdict(), "score": score.mean, "sd": sd, "seeds": len(seeds)})
    return r.Table(
        name="ablation_leads",
        caption="Macro AUROC × 100 with twelve leads and with one.",
        columns=(
            r.Column("cell", "Leads shown in training"),
            r.Column("step", "Steps", "number", "{:,}".format),
            r.Column("reading", "Read with", spell=_READING.__getitem__),
            r.Column("score", "Here", "number", r.points),
            r.Column("sd", "SD", "number", r.points, note="seeds"),
            r.Column("seeds", "Seeds", "number"),
        ),
        rows=pd.DataFrame(rows, dtype=object),
        notes=[
            "One linear head for each network, fitted to twelve leads. One lead: the mean over the "
            "twelve single leads. Padded: that lead among eleven without signal. 0 steps: the "
            "untrained network, which is the same in both cells of a seed."
        ],
        summary="one row per network and reading",
    )


def _rates(source: Ablation) -> r.Table:
    rates = list(next(iter(source.rates.values())))
    return r.Table(
        name="ablation_rates",
        caption="Learning rates that were tried: macro AUROC × 100 on the development task.",
        columns=(
            r.Column("cell", "Cell"),
            *(r.Column(x, x, "number", r.points) for x in rates),
        ),
        rows=[{"cell": name, **scores} for name, scores in source.rates.items()],
        notes=["At a seed of their own, which no cell is compared at; the best of each is used."],
    )


def _budget(source: Ablation) -> r.Part:
    budget, about = source.facts["budget"], source.facts["about"]
    known = {name: of for name, of in budget.items() if name != "stages"}
    return facts_of(
        {
            "data": source.data,
            "recordings": source.facts["trained_on"],
            "task": about["task"],
            "probe_records": about["probe_records"],
            "compared_on": len(source.target),
            **known,
            f"stage {about['stage']}": budget["stages"][about["stage"] - 1],
        }
    )


def _probes(source: Ablation) -> r.Table:
    rows = [
        {"cell": name, "seed": seed, "step": step, "score": score}
        for name, cell in source.cells.items()
        for seed, by_step in sorted(cell.scores.items())
        for step, score in sorted(by_step.items())
    ]
    summary = "one row per network that was probed"
    return r.Table(name="ablation_scores", rows=pd.DataFrame(rows), summary=summary)


def _figure(source: Ablation, rows: pd.DataFrame) -> r.Figure:
    """Differences with their intervals, and the paper's."""
    place = rows.columns[0]
    words = rows["evidence"].map({True: "evidence", False: "no evidence"})
    lines = [rows.assign(series=words, value=rows["difference"])]
    if "paper" in rows:
        paper = rows.assign(series="the paper, other task and budget", value=rows["paper"])
        lines.append(paper.assign(low=np.nan, high=np.nan))
    every = pd.concat(lines).dropna(subset="value")
    every = every.assign(panel="Differences", place=every[place], diamond=False)
    return r.Figure(
        name=_name(source),
        draw=partial(r.draw_intervals, every, 1),
        caption=(
            f"Macro AUROC × 100 of a linear head on frozen features, {source.compared_on}: less "
            f"{'the other' if source.readings else source.reference}, simultaneous 95 % intervals "
            f"over seeds and patients. Data: {source.data}."
            f"{' Not finished.' if source.open else ''}"
        ),
        size=(8.6, 1.9 + 0.34 * len(rows)),
    )


def _name(source: Ablation) -> str:
    return "ablation_lead_sampling" if source.readings else "ablation_differences"


def _heading(source: Ablation) -> r.Heading:
    return heading_of(f"Ablation of LAEF: {source.facts['about']['title']}", source)


KIND = r.Kind(Ablation, ablation.FILES, ablation.read, _heading)
