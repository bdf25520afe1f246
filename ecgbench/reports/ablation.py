"""An ablation: its cells beside the paper's, their differences, and whether the order is evidence
at this budget.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ecgbench import published
from ecgbench.core.text import counted, enumerated
from ecgbench.reports import (
    Column,
    Facts,
    Notes,
    Numbers,
    ReportCard,
    Section,
    Table,
    bracket,
    points,
    signed,
    signed_bracket,
)
from ecgbench.reports._ablation_figure import READING, scores
from ecgbench.results.ablation import ENOUGH_SEEDS, NO_EVIDENCE, Ablation, Compared
from ecgbench.results.lead_sampling import LOSS, Contrast

CARD = ReportCard(
    title="Ablation",
    summary="cells of one of the paper's ablations beside its numbers, and what their order says",
    reads="ablation",
    order=10,
)
_SCORE = (
    "Scores: macro AUROC × 100 of a linear head on frozen features, {compared_on}, "
    "twelve leads; mean over the seeds."
)
_PAPER = (
    "The paper's are of another task and another budget: only the order of cells can be compared."
)


def sections(source: Ablation) -> list[Section]:
    """What the order says, the cells, their differences, the rates that were tried, the budget."""
    compared = {
        name: found
        for name in source.cells
        if (found := source.compared(name, source.reference)) is not None
    }
    printed = _printed(source)
    made = [
        Section(name="outcome", parts=[Notes(list(_outcome(source, compared)), "findings")]),
        Section(name="scores", title="At a glance", parts=[scores(source, compared, printed)]),
        Section(name="cells", title="Cells", parts=[_cells(source)]),
    ]
    if source.readings:  # whose contrasts hold the difference with twelve leads too
        made.append(Section(name="leads", title="With fewer leads", parts=list(_leads(source))))
    else:
        differences = [_differences(source, compared)]
        made.append(Section(name="differences", title="Differences", parts=differences))
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


def _outcome(source: Ablation, compared: Mapping[str, Compared]) -> Iterator[str]:
    if contrasts := source.contrasts:
        yield from _said(contrasts)
    else:
        yield from _ordered(source, compared)
    if source.warning:
        yield source.warning


def _said(contrasts: Sequence[Contrast]) -> Iterator[str]:
    """What lead sampling is worth, in words."""
    if not any(found.evidence for found in contrasts):
        yield NO_EVIDENCE
    for found in contrasts:
        low, high = (None if end != end else end for end in found.interval)
        interval = f" {between}" if (between := signed_bracket(low, high)) else ""
        size, more = points(abs(found.value)), found.value > 0
        if found.name.startswith(LOSS):
            about = found.name.removeprefix(f"{LOSS}, ")
            yield (
                f"The network that was shown some leads loses {size} points "
                f"{'less' if more else 'more'} from twelve leads to one{interval}, {about}: "
                f"{'evidence' if found.evidence else 'no evidence'}."
            )
        elif found.evidence:
            yield (
                f"The network that was shown some leads is {size} points "
                f"{'above' if more else 'below'} the other{interval}, read with {found.name}: "
                f"evidence."
            )


def _ordered(source: Ablation, compared: Mapping[str, Compared]) -> Iterator[str]:
    shown = [name for name, found in compared.items() if found.evidence]
    if shown:
        above = [n for n in shown if compared[n].difference > 0]
        below = [n for n in shown if compared[n].difference < 0]
        for names, word in ((above, "above"), (below, "below")):
            if names:
                yield f"{enumerated(names)}: {word} {source.reference} at this budget."
    if len(shown) < len(compared) or not compared:
        rest = [name for name in compared if name not in shown]
        told = f" Not told apart from {source.reference}: {enumerated(rest)}." if shown else ""
        yield f"{NO_EVIDENCE}{told}"


def _cells(source: Ablation) -> Table:
    printed, about = _printed(source), source.facts["about"]
    rows = [
        _row(source, name, printed.get(name))
        if name in source.cells
        else {"cell": name, "paper": printed.get(name), "state": _state(about, name)}
        for name in (*about["cells"], *about["not_reproduced"])
    ]
    columns = (
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
        Column(
            "encoder_parameters", "of them", "number", "{:,}".format, note="behind the embedder"
        ),
        Column("gflop", "GFLOP", "number", "{:.3f}".format, note="12 leads, forward"),
        Column("state", ""),
    )
    keys = ("cell", "paper", "score", "sd", "low", "high", "before", "half", "seeds", "lr")
    size = ("parameters", "encoder_parameters", "gflop", "state")
    numbers = [{key: row.get(key) for key in (*keys, *size)} for row in rows]
    return Table(
        name="ablation",
        caption=(
            f"{about['title']}: the cells of the paper's ablation at the budget below."
            if about["published"]
            else f"{about['title']}, at the budget below."
        ),
        columns=[c for c in columns if about["published"] or c.name != "paper"],
        rows=[dict.fromkeys(c.name for c in columns) | {"state": ""} | row for row in rows],
        notes=list(_notes(source, printed)),
        numbers=Numbers(columns=(*keys, *size), rows=numbers, summary="one row per cell"),
    )


def _row(source: Ablation, name: str, printed: float | None) -> dict[str, Any]:
    cell, (low, high) = source.cells[name], source.patient_interval(name)
    return {
        "cell": name,
        "paper": printed,
        "score": cell.mean(source.steps),
        "sd": cell.sd(source.steps),
        "interval": bracket(low, high),
        "low": None if low != low else low,
        "high": None if high != high else high,
        "before": cell.mean(0),
        "half": cell.mean(source.half) if source.half else None,
        "seeds": len(cell.scores),
        "lr": cell.lr,
        "parameters": cell.parameters,
        "encoder_parameters": cell.encoder_parameters,
        "gflop": None if cell.flop is None else cell.flop / 1e9,
        "state": "",
    }


def _state(about: Mapping[str, Any], name: str) -> str:
    return "not reproduced" if name in about["not_reproduced"] else "not trained yet"


def _notes(source: Ablation, printed: Mapping[str, float]) -> Iterator[str]:
    about = source.facts["about"]
    said = _SCORE.format(compared_on=source.compared_on)
    yield f"{said} {_PAPER}" if about["published"] else said
    yield (
        "SD: over seeds of weights, codebooks, masks, windows and order. 95 %: over the "
        "patients, the seeds as they are."
    )
    if about["stage"] == 2:
        yield "0 steps: of stage 2, which begins with the network of the shared stage 1."
    for why in dict.fromkeys(about["not_reproduced"].values()):
        names = [name for name, reason in about["not_reproduced"].items() if reason == why]
        yield f"Not reproduced, {enumerated(names)}: {why}."
    if not about["published"]:
        return
    tau = source.order_as(printed)
    if tau is not None:
        yield f"Order of the cells beside the paper's: Kendall's tau-b {tau:.2f}."
    else:
        yield (
            f"No rank correlation with the paper's order: it takes {ENOUGH_SEEDS} seeds and three "
            f"cells that the paper prints."
        )


def _differences(source: Ablation, compared: Mapping[str, Compared]) -> Table:
    printed = _printed(source)
    of = printed.get(source.reference)
    rows = []
    for name, found in compared.items():
        low, high = (None if end != end else end for end in found.interval)
        paper = printed.get(name)
        rows.append(
            {
                "cell": name,
                "paper": None if paper is None or of is None else paper - of,
                "difference": found.difference,
                "interval": signed_bracket(low, high),
                "low": low,
                "high": high,
                "half": found.half,
                "seeds": found.seeds,
                "evidence": found.evidence,
            }
        )
    columns = (
        Column("cell", f"Less {source.reference}"),
        Column("paper", "Paper", "number", signed),
        Column("difference", "Here", "number", signed),
        Column("interval", "95 %, simultaneous", "number", note="seeds and patients"),
        Column("half", "Half", "number", signed, note="of the steps"),
        Column("seeds", "Seeds", "number"),
        Column("evidence", "Order", "text", lambda told: "evidence" if told else "no evidence"),
    )
    keys = ("cell", "paper", "difference", "low", "high", "half", "seeds", "evidence")
    return Table(
        name="ablation_differences",
        caption=f"Differences from {source.reference}, paired by seed, macro AUROC × 100.",
        columns=[c for c in columns if source.facts["about"]["published"] or c.name != "paper"],
        rows=rows,
        notes=[
            *([] if any(row["evidence"] for row in rows) else [NO_EVIDENCE]),
            "Evidence: the simultaneous interval excludes 0, and after half of the steps the order "
            "is the same.",
            "Simultaneous: over all cells of the study (Bonferroni), with the spread over seeds "
            "and that over patients; one seed gives none.",
        ],
        numbers=Numbers(
            columns=keys,
            rows=[{key: row[key] for key in keys} for row in rows],
            summary="one row per cell but the reference",
        ),
    )


def _leads(source: Ablation) -> Iterator[Table]:
    """Scores with twelve leads and with one, and what lead sampling is worth."""
    rows = [
        {
            "cell": key.cell,
            "step": key.step,
            "reading": key.reading,
            "score": score.mean,
            "sd": float(np.std(list(score.by_seed.values()), ddof=1))
            if len(score.by_seed) > 1
            else None,
            "seeds": len(score.by_seed),
        }
        for key, score in source.readings.items()
    ]
    yield Table(
        name="ablation_leads",
        caption="Macro AUROC × 100 with twelve leads and with one.",
        columns=(
            Column("cell", "Leads shown in training"),
            Column("step", "Steps", "number", "{:,}".format),
            Column("reading", "Read with", "text", lambda word: READING[word]),
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
            columns=tuple(rows[0]), rows=rows, summary="one row per network and reading"
        ),
    )
    if compared := source.contrasts:
        yield _worth(source, compared)


def _worth(source: Ablation, compared: Sequence[Contrast]) -> Table:
    told = []
    for found in compared:
        low, high = (None if end != end else end for end in found.interval)
        told.append(
            {
                "contrast": found.name,
                "difference": found.value,
                "interval": signed_bracket(low, high),
                "low": low,
                "high": high,
                "half": found.half,
                "seeds": len(found.by_seed),
                "evidence": found.evidence,
            }
        )
    keys = ("contrast", "difference", "low", "high", "half", "seeds", "evidence")
    return Table(
        name="ablation_lead_sampling",
        caption=f"What lead sampling is worth: {source.reference} less the other, × 100.",
        columns=(
            Column("contrast", "Contrast"),
            Column("difference", "Here", "number", signed),
            Column("interval", "95 %, simultaneous", "number", note="seeds and patients"),
            Column("half", "Half", "number", signed, note="of the steps"),
            Column("seeds", "Seeds", "number"),
            Column("evidence", "Sign", "text", lambda yes: "evidence" if yes else "no evidence"),
        ),
        rows=told,
        notes=[
            "Loss from twelve leads to one: above 0 where the network that was shown some leads "
            "loses less.",
            "As many leads seen: the other network after 13/24 of its steps, for it is shown 12 "
            "leads and this one 6.5 on average.",
            "Simultaneous: over all rows of this table (Bonferroni).",
            "Evidence: the interval excludes 0, and after half of the steps, where that was "
            "probed, the sign is the same.",
        ],
        numbers=Numbers(
            columns=keys,
            rows=[{key: row[key] for key in keys} for row in told],
            summary="one row per contrast",
        ),
    )


def _rates(source: Ablation) -> Table:
    rates = list(next(iter(source.rates.values())))
    rows = [{"cell": name, **scores} for name, scores in source.rates.items()]
    return Table(
        name="ablation_rates",
        caption="Learning rates that were tried: macro AUROC × 100 on the development task.",
        columns=(Column("cell", "Cell"), *(Column(r, r, "number", points) for r in rates)),
        rows=rows,
        notes=["At a seed of their own, which no cell is compared at; the best of each is used."],
    )


def _budget(source: Ablation) -> dict[str, Any]:
    budget, about = source.facts["budget"], source.facts["about"]
    stage = budget["stages"][about["stage"] - 1]
    codes = ", ".join(map(str, budget["recipe"]["codes"]))
    steps = f"{budget['steps']:,} of {stage['batch']:,} recordings"
    return {
        "Data": source.data,
        "Recordings": f"{source.facts['trained_on']:,} to train on",
        "Probe": (
            f"{about['task']}: {about['probe_records']:,} training and "
            f"{counted(len(source.target), 'recording')} to compare on, {budget['epochs']} epochs"
        ),
        "Steps": f"{steps} in each stage" if about["stage"] == 2 else steps,
        "Learning rates": ", ".join(f"{rate:g}" for rate in budget["rates"]),
        "Descriptor of stage 1": budget["recipe"]["descriptor"],
        **({} if about["published"] == "codebook_stage1" else {"Codes of stage 1": codes}),
        "Precision": stage["precision"],
    }
