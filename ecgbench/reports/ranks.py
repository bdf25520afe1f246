"""Ranks over datasets: which models tend to come first, and which pairs differ; the
critical-difference diagram.

One task stands for each dataset, since tasks of one dataset share their patients. A rank knows
nothing of how sure the score within a dataset is: two models that differ by 0.1 points count as
those that differ by 10.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ecgbench.core.text import counted, enumerated, shortened
from ecgbench.errors import BadSetting
from ecgbench.reports import (
    LONGEST,
    Column,
    Figure,
    Notes,
    Numbers,
    Part,
    ReportCard,
    Row,
    Section,
    Table,
    look,
)
from ecgbench.reports._facts import Head, columns, main_rows, setting_words, titles_of
from ecgbench.reports._standing import real_tasks, settings, uneven
from ecgbench.results.study import Study
from ecgbench.stats.ranks import Ranked, ranked, smallest_p

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Sheet

CARD = ReportCard(
    title="Ranks over datasets",
    summary="mean ranks, one task a dataset, and the critical-difference diagram",
    reads="run",
    order=47,
)
FEWEST = 3
"""Datasets and models below which nothing is ranked."""
LEVEL = 0.05


@dataclass(frozen=True, kw_only=True)
class _Ranking:
    """One lead setting."""

    leads: str
    heads: Sequence[Head]
    places: Sequence[int]
    """Of the columns among all of the run: models keep their colours."""
    tasks: Sequence[str]
    found: Ranked


def sections(study: Study) -> list[Section]:
    """Nothing of fewer than three datasets or trained columns."""
    blocks = _blocks(study)
    found = [r for leads in settings(study) if (r := _ranking(study, leads, blocks))]
    if not found:
        return []
    said = [
        f"One task stands for each dataset: {_tasks(study, found)} (others: --set report.blocks). "
        f"A rank knows nothing of how sure a score is: a difference of 0.1 points "
        f"counts like one of 10. p: Wilcoxon's signed-rank test for each pair, Holm over all "
        f"pairs of "
        f"a setting; {_limits(found)} before Holm. In the diagram a bar joins models that do "
        f"not differ at "
        f"{LEVEL:g}. This is of these datasets."
    ]
    pairs = [row for r in found for row in _pairs(r)]
    parts: list[Part] = [_table(found), _figure(found, pairs), Notes(said)]
    return [Section(name="ranks", title="Ranks over datasets", short="Ranks", parts=parts)]


def _tasks(study: Study, found: Sequence[_Ranking]) -> str:
    """Which tasks; of each lead setting where they differ."""
    titles = titles_of(study)
    listed = {r.leads: ", ".join(titles[t] for t in r.tasks) for r in found}
    if len(set(listed.values())) == 1:
        return listed[found[0].leads]
    return "; ".join(f"{setting_words(leads)}: {text}" for leads, text in listed.items())


def _limits(found: Sequence[_Ranking]) -> str:
    """The smallest p for each number of datasets that there is."""
    counts = dict.fromkeys(len(r.tasks) for r in found)
    return enumerated(
        [f"with {counted(n, 'dataset')} no p can be below {smallest_p(n):.3g}" for n in counts]
    )


def _blocks(study: Study) -> list[str]:
    """The task that stands for each dataset: that of report.blocks, else its first."""
    real = set(real_tasks(study))
    of = {t.name: t.dataset for t in study.tasks if t.name in real}
    first: dict[str, str] = {}
    for task in study.options.blocks:
        if task not in of:
            raise BadSetting(f"--set report.blocks={task}: no task of this run with genuine data")
        if of[task] in first:
            raise BadSetting(
                f"--set report.blocks={first[of[task]]},{task}: both are of {of[task]}; "
                f"one stands for it"
            )
        first[of[task]] = task
    for task, dataset in of.items():
        first.setdefault(dataset, task)
    return [first[dataset] for dataset in dict.fromkeys(of.values())]


def _ranking(study: Study, leads: str, blocks: Sequence[str]) -> _Ranking | None:
    value = {
        (r["task"], r["model"], r["policy"]): r["value"]
        for r in main_rows(study)
        if r["leads"] == leads and r["metric"] == study.metric and r["value"] is not None
    }
    trained = [h for h in columns(study) if not h.untrained]
    tasks = [t for t in blocks if any((t, *h.names) in value for h in trained)]
    heads = [h for h in trained if all((t, *h.names) in value for t in tasks)]
    less = uneven(study, heads, leads, tasks)
    heads = [h for h in heads if h not in less]
    if len(tasks) < FEWEST or len(heads) < FEWEST:
        return None
    sign = 1 if study.metrics[study.metric].direction == "higher" else -1
    scores = np.array([[sign * value[t, *h.names] for h in heads] for t in tasks])
    places = [at for at, h in enumerate(columns(study)) if h in heads]
    return _Ranking(leads=leads, heads=heads, places=places, tasks=tasks, found=ranked(scores))


def _table(found: Sequence[_Ranking]) -> Table:
    heads = list(dict.fromkeys(h for r in found for h in r.heads))
    rows: list[Row] = []
    for head in heads:
        row: dict[str, Any] = {"model": head.cell}
        for r in found:
            row[r.leads] = (
                float(r.found.ranks[list(r.heads).index(head)]) if head in r.heads else None
            )
        rows.append(row)
    return Table(
        name="ranks",
        caption="Mean rank over datasets; 1 is the best, equal scores share theirs.",
        columns=[
            Column("model", "Model"),
            *(Column(r.leads, setting_words(r.leads), "number", "{:.2f}".format) for r in found),
        ],
        rows=rows,
    )


def _pairs(r: _Ranking) -> list[dict[str, Any]]:
    return [
        {
            "leads": r.leads,
            "model": a.model,
            "policy": a.policy,
            "other_model": b.model,
            "other_policy": b.policy,
            "rank": float(r.found.ranks[i]),
            "other_rank": float(r.found.ranks[j]),
            "p_holm": float(r.found.p[i, j]),
            "datasets": len(r.tasks),
        }
        for i, a in enumerate(r.heads)
        for j, b in enumerate(r.heads)
        if i < j
    ]


def _figure(found: Sequence[_Ranking], pairs: Sequence[dict[str, Any]]) -> Figure:
    height = sum(1.0 + 0.16 * len(r.heads) for r in found)
    return Figure(
        name="ranks_diagram",
        draw=partial(_draw, found),
        caption="Critical-difference diagram: mean ranks, the best on the left; a bar joins "
        "models that do not differ.",
        size=(7.4, height + 0.6),
        numbers=Numbers(
            columns=list(pairs[0]), rows=pairs, summary="one row per lead setting and two columns"
        ),
    )


def _labels(heads: Sequence[Head]) -> list[str]:
    """Of columns in the diagram: short, and whole where two begin alike."""
    short = [shortened(h.label, LONGEST // 2) for h in heads]
    return [s if short.count(s) == 1 else h.label for s, h in zip(short, heads)]


def _draw(found: Sequence[_Ranking], sheet: "Sheet") -> None:
    from pandas import DataFrame
    from scikit_posthocs import critical_difference_diagram

    axes = sheet.subplots(len(found), 1, squeeze=False).ravel()
    for ax, r in zip(axes, found):
        labels = _labels(r.heads)
        ax.grid(visible=False)
        critical_difference_diagram(
            dict(zip(labels, map(float, r.found.ranks))),
            DataFrame(r.found.p, index=labels, columns=labels),
            ax=ax,
            label_props={"fontsize": 8},
            marker_props={"s": 14},
            color_palette={label: look(at)["color"] for label, at in zip(labels, r.places)},
        )
        ax.set_title(setting_words(r.leads), fontsize=9)
