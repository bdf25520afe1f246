"""Robustness: what noise, exchanged cables and other faults of a device cost each model at each set
of leads, over the same patients; decisions at thresholds that recordings without them gave; and how
well the two halves of a recording agree.

A run has it where `ecgbench run --perturb` computed it. docs/explanation/perturbations.md says what
each perturbation does. All of them are simulated on the recordings of the run.
"""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd

from ecgbench import perturbations
from ecgbench import reports as r
from ecgbench.core.text import enumerated, shortened
from ecgbench.errors import EcgbenchError
from ecgbench.reports import _facts as facts
from ecgbench.results.robustness import retest, robustness
from ecgbench.results.study import Run
from ecgbench.study.scores import MACRO

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Sheet

CARD = r.ReportCard(
    title="Robustness",
    summary="what noise, exchanged cables and other faults of a device cost at each set of leads",
    reads="run",
    order=34,
)
MOST = 6
"""Lead settings that the page shows, and lines of a panel."""
PANELS = 4
"""Models of the figure."""
MET = " (met this noise)"
"""Of a model whose pre-training had it."""
SIMULATED = "Simulated on the recordings of this run, not recorded by another device."
_NOTES = (
    f"{SIMULATED} Each number is macro AUROC × 100 on perturbed test recordings less that on the "
    "same recordings as they are, paired over patients, with heads that saw no perturbation; first "
    "draw of leads and first fit. In colour: the interval does not hold 0. robustness.csv has "
    "every label, and decisions at the thresholds that unperturbed validation recordings gave."
)


def rows(study: Run) -> pd.DataFrame:
    """Of each perturbation; none of a run without any."""
    return robustness(study)


def sections(study: Run, rows: pd.DataFrame) -> list[r.Section]:
    """Nothing of a run without perturbations."""
    if rows.empty:
        return []
    macro = rows[rows["label"] == MACRO]
    parts: list[r.Part] = [_table(study, rows, macro), *_figures(study, macro)]
    parts += [_retest(study, both)] if len(both := retest(study)) else []
    return [r.Section(name="robustness", title=CARD.title, parts=parts)]


def title_of(name: str) -> str:
    """Of a perturbation; its name where it is one of your own that is not here.

    >>> title_of("em@6"), title_of("RA/LA")
    ('electrode motion, 6 dB', 'RA/LA exchanged')
    """
    try:
        return perturbations.one(name).title
    except EcgbenchError:
        return name


def _table(study: Run, rows: pd.DataFrame, macro: pd.DataFrame) -> r.Table:
    heads, titles = facts.heads_of(study), facts.titles_of(study)
    there = {*macro["leads"]}
    settings = [s for s in dict.fromkeys(study.main["leads"]) if s in there][:MOST]
    lines: dict[tuple[str, ...], dict[str, Any]] = {}
    known = list(titles)
    for row in sorted(r.records(macro), key=lambda row: known.index(row["task"])):
        key = row["task"], row["perturbation"], row["model"], row["policy"]
        head = heads[row["model"], row["policy"]]
        line = lines.setdefault(
            key,
            {
                "task": titles[row["task"]],
                "perturbation": title_of(row["perturbation"]) + (MET if row["met"] else ""),
                "model": head.cell,
            },
        )
        if row["leads"] in settings:
            line[row["leads"]] = _cost(row)
    return r.Table(
        name="robustness",
        caption="What perturbed test recordings cost, in points of macro AUROC.",
        columns=[
            *([r.Column("task", kind="group")] if len(titles) > 1 else []),
            r.Column("perturbation"),
            r.Column("model"),
            *(r.Column(typed, facts.setting_words(typed), "number") for typed in settings),
        ],
        rows=list(lines.values()),
        numbers=rows,
        notes=[_NOTES, *_left_out(macro)],
        summary="one row per perturbation, task, label, lead setting and model",
    )


def _left_out(macro: pd.DataFrame) -> Iterator[str]:
    """Why there are gaps, each reason once."""
    lost = macro[macro["difference"].isna()]
    for reason, own in lost.groupby("reason", sort=False):
        names = [title_of(name) for name in dict.fromkeys(own["perturbation"])]
        yield f"Without a number: {enumerated(names)}; {reason}."


def _cost(row: r.Row) -> Any:
    if row["difference"] is None:
        return "--"
    low, high = row["difference_low"], row["difference_high"]
    sure = not row["reason"] and low is not None
    tone: Any = "bad" if sure and high < 0 else "good" if sure and low > 0 else ""
    return r.TableCell(r.signed(row["difference"]), small=r.signed_bracket(low, high), tone=tone)


def _figures(study: Run, macro: pd.DataFrame) -> Iterator[r.Figure]:
    """Scores against the signal-to-noise ratio, of the first task: where a noise has two levels."""
    task = next(iter(facts.titles_of(study)))
    own = macro[(macro["task"] == task) & macro["value"].notna()]
    if own.empty:
        return
    kinds = own["perturbation"].str.partition("@")
    own = own.assign(kind=kinds[0], level=pd.to_numeric(kinds[2], errors="coerce"))
    noises = [n for n in perturbations.names() if perturbations.card(n).acts_on == "noise"]
    own = own[own["kind"].isin(noises)]
    shown = [kind for kind in noises if own.loc[own["kind"] == kind, "level"].nunique() > 1]
    if not shown:
        return
    heads = [h for h in facts.columns(study) if h.names in {*zip(own["model"], own["policy"])}]
    heads = heads[:PANELS]
    yield r.Figure(
        name="robustness_noise",
        draw=partial(_draw, study, own, shown, heads),
        caption=f"{facts.titles_of(study)[task]}: macro AUROC against the signal-to-noise ratio, a "
        f"line for each set of leads; right, without noise. Bars: 95 % intervals over patients. "
        f"{SIMULATED}",
        size=(1.2 + 2.7 * max(2, len(heads)), 1.4 + 2.3 * len(shown)),
        numbers=own.drop(columns=["kind", "level"]),
        summary="the points of the figure",
    )


def _draw(
    study: Run,
    own: pd.DataFrame,
    kinds: list[str],
    heads: list[facts.Head],
    sheet: "Sheet",
) -> list[Any]:
    settings = [s for s in dict.fromkeys(study.main["leads"]) if s in {*own["leads"]}][:MOST]
    axes = sheet.subplots(len(kinds), len(heads), squeeze=False, sharex=True, sharey=True)
    levels = sorted(own["level"].unique())
    right = levels[-1] + 8
    axes[0, 0].set_xticks([*levels, right], [*(f"{level:g}" for level in levels), "none"])
    for across, kind in zip(axes, kinds):
        for ax, head in zip(across, heads):
            mine = own[(own["kind"] == kind) & (own["model"] == head.model)]
            mine = mine[mine["policy"] == head.policy].sort_values("level")
            for at, leads in enumerate(settings):
                line, style = mine[mine["leads"] == leads], r.look(at)
                if line.empty:
                    continue
                ax.vlines(line["level"], 100 * line["low"], 100 * line["high"], **_bar(style))
                ax.plot(line["level"], 100 * line["value"], **style, markersize=4, linewidth=1.4)
                clean = 100 * line["clean"].iloc[0]
                ax.plot([right], [clean], **style | {"linestyle": ""}, markersize=4)
            ax.set_title(shortened(head.label, 26) if kind == kinds[0] else "")
        across[0].set_ylabel(perturbations.card(kind).title.partition(",")[0])
    sheet.supxlabel("dB", fontsize=9)
    return [r.handle(facts.setting_words(leads), at) for at, leads in enumerate(settings)]


def _bar(style: dict[str, Any]) -> dict[str, Any]:
    return {"color": style["color"], "linewidth": 1.0, "alpha": 0.5}


def _retest(study: Run, both: pd.DataFrame) -> r.Table:
    """Means over labels on the page, every label in the file."""
    names = ["task", "leads", "model", "policy"]
    means = both.groupby(names, sort=False)[["icc", "kappa"]].mean().reset_index()
    return r.Table(
        name="retest",
        caption="The first half of each recording against the second: means over labels.",
        columns=[
            facts.task_column(study),
            r.Column("leads", spell=facts.setting_words),
            facts.model_column(study),
            r.Column("icc", kind="number", spell="{:.2f}".format, note="of the probability"),
            r.Column("kappa", kind="number", spell="{:.2f}".format, note="of the decision"),
        ],
        rows=means,
        numbers=both,
        notes=["1: both halves say the same. Decisions: at 95 % specificity in validation."],
        summary="one row per task, label, lead setting and model",
        formats=("csv", "md", "html"),
    )
