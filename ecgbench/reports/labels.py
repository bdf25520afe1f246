"""Labels: the score of each label by itself, as a map of labels and lead settings in colours.

A value is the mean over lead draws and fits, and over the folds in which the label has both values.
Its interval is the mean of theirs: no mean of scores is less sure than they are on average, so it
is as wide as it must be, or wider. labels.csv holds every draw by itself.
"""

import re
from collections.abc import Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ecgbench import reports as r
from ecgbench.cards.rooms import MetricCard
from ecgbench.core.text import counted, enumerated, shortened
from ecgbench.datasets._labels import table
from ecgbench.reports import _facts as facts
from ecgbench.results.study import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Sheet

CARD = r.ReportCard(
    title="Labels", summary="the score of each label by itself", reads="run", order=60
)
DRAWN = 12
"""Columns that a drawing shows; the CSV holds all."""
COLUMNS = ["task", "model", "policy", "leads", "label", "name", "metric", "value", "low", "high"]
_LETTERS = 44
"""Of a label beside a drawing."""
_MOST = 5
"""Members of a class that are named one by one where the class has no name of its own."""


def rows(study: Run) -> pd.DataFrame:
    """Of each cell, metric and label."""
    return study.labels


def sections(study: Run, rows: pd.DataFrame) -> list[r.Section]:
    """A map per metric and task; labels.csv holds all draws."""
    intro = (
        "A value is the mean over lead draws and folds. Grey where a label has no positive or no "
        "negative in the test set."
    )
    maps: list[r.Figure] = []
    titles = []
    for name in study.metrics:
        mine = study.of(name)
        scores, counts = label_scores(mine), _counts(mine)
        for task in facts.tasks(study):
            own = scores[(scores["task"] == task.task) & scores["value"].notna()]
            if len(own):
                stem = "label_map" if name == study.metric else f"label_map_{name}"
                stem += f"_{len(maps) + 1}" if maps else ""
                maps.append(_figure(stem, mine, task, own, counts.loc[[task.task]].droplevel(0)))
                metric = f", {study.metrics[name].title}" if len(study.metrics) > 1 else ""
                titles.append(task.title + metric)
    shown: list[r.Part] = [*maps]
    if len(maps) > 1:
        shown = [
            r.Group(title, [figure], folded=True, unfolded=figure is maps[0])
            for title, figure in zip(titles, maps)
        ]
    summary = "one row per cell, metric and label"
    all_rows = r.Table(name="labels", rows=rows, summary=summary)
    above = [r.Text(intro, "fine")] if maps else []
    title = f"{enumerated([card.title for card in study.metrics.values()])} × 100 of each label"
    parts = [*above, *shown, all_rows]
    return [r.Section(name="labels", page=False, title=title, short=CARD.title, parts=parts)]


def label_scores(study: Run) -> pd.DataFrame:
    """One row per task, label, model, policy and lead setting as typed: value; low and high of a
    metric with placements, NaN else; positives and n (records) over all folds.

    Undefined in one draw is undefined in its fold; the mean is over folds that have a value.
    """
    which = ["task", "model", "setting", "policy"]
    typed = study.cells.drop_duplicates(which)[[*which, "leads"]]
    names = ["task", "label", "model", "policy", "leads"]
    scores = study.labels.merge(typed, how="left").set_index([*names, "fold"])
    by_fold = scores["value"].groupby(level=[*names, "fold"], sort=False, dropna=False)
    means = by_fold.mean().where(by_fold.count().eq(by_fold.size()))
    found = means.groupby(level=names, sort=False).mean().to_frame()
    ends = study.by_label.set_index(names)[["low", "high"]]
    once = scores[["positives", "n"]].groupby(level=[*names, "fold"], sort=False).first()
    counts = once.groupby(level=names, sort=False).sum()
    return found.join(ends).join(counts).reset_index()


def _counts(study: Run) -> pd.DataFrame:
    """Positives and records of each label, by (task, label), over all folds."""
    first = study.labels.drop_duplicates(["task", "label", "fold"])
    return first.groupby(["task", "label"], sort=False)[["positives", "n"]].sum()


def _figure(
    name: str, study: Run, task: facts.TaskTitle, scores: pd.DataFrame, counts: pd.DataFrame
) -> r.Figure:
    """The map of a task by the metric of a study of one."""
    metric = study.metrics[study.metric]
    heads, full = facts.columns(study), full_names(task.task)
    places = {head.names: at for at, head in enumerate(heads)}
    main = study.main
    settings = list(dict.fromkeys(main.loc[main["task"] == task.task, "leads"]))
    rows = scores.assign(
        head=[places[names] for names in zip(scores["model"], scores["policy"])],
        setting=scores["leads"].map(settings.index),
        place=scores["label"].map(list(counts.index).index),
        name=scores["label"].map(lambda label: full.get(label, "")),
        metric=metric.title,
    ).sort_values(["head", "setting", "place"])
    labels = [
        f"{shortened(f'{label}: {full[label]}' if full.get(label) else label, _LETTERS)} "
        f"({some:,} of {every:,})"
        for label, some, every in counts.itertuples()
    ]
    drawn = min(len(heads), DRAWN)
    left = f" The first {DRAWN} of {len(heads)} columns." if len(heads) > DRAWN else ""
    return r.Figure(
        name=name,
        draw=partial(_draw, metric, heads[:DRAWN], settings, rows, labels),
        caption=f"{task.title}: {metric.title} × 100 of {counted(len(counts), 'label')}, by "
        f"measured leads. White: {_ends(metric)[0]:g} and below.{left}",
        size=(4.4 + 0.2 * drawn * (0.5 + len(settings)), 2.4 + 0.17 * len(counts)),
        numbers=rows[COLUMNS],
        summary="the squares of the map",
    )


def _ends(metric: MetricCard) -> tuple[float, float]:
    """Where the colours begin, at chance or at the worst value, and the best value; x 100."""
    worst, best = metric.ends if metric.direction == "higher" else metric.ends[::-1]
    return 100 * (worst if metric.chance is None else metric.chance), 100 * best


def _draw(
    metric: MetricCard,
    heads: Sequence[facts.Head],
    settings: Sequence[str],
    rows: pd.DataFrame,
    labels: Sequence[str],
    sheet: "Sheet",
) -> None:
    """A block of squares per column of the run, all on one axis."""
    ax, step = sheet.subplots(), len(settings) + 0.5
    least, most = sorted(_ends(metric))
    for at, head in enumerate(heads):
        own = rows[rows["head"] == at]
        square = np.full((len(labels), len(settings)), np.nan)
        square[own["place"], own["setting"]] = 100 * own["value"]
        sides = at * step + np.arange(len(settings) + 1), np.arange(len(labels) + 1)
        picture = ax.pcolormesh(
            *sides, square, cmap="Blues", vmin=least, vmax=most, rasterized=True
        )
        random = " (random weights)" if head.untrained else ""
        name = shortened(head.label, r.LONGEST // 2) + random
        middle = at * step + len(settings) / 2
        ax.text(middle, -0.3, name, fontsize=7, rotation=30, ha="left", va="bottom")
    ax.set(facecolor="#eeeeee", ylim=(len(labels), 0), xlim=(-0.1, len(heads) * step - 0.4))
    ax.grid(visible=False)
    places = [at * step + n + 0.5 for at in range(len(heads)) for n in range(len(settings))]
    short = [shortened(leads, r.LONGEST // 3) for leads in settings]
    ax.set_xticks(places, short * len(heads), fontsize=7, rotation=90)
    ax.set_yticks(np.arange(len(labels)) + 0.5, labels, fontsize=7)
    sheet.colorbar(picture, ax=ax, shrink=0.6, label=f"{metric.title} × 100")


@cache
def full_names(task: str) -> dict[str, str]:
    """Label -> its full name, of a task; nothing of a task whose labels no table names.

    >>> full_names("ptbxl_super")["MI"], full_names("ptbxl_sub")["ILBBB"]
    ('Myocardial infarction', 'incomplete left bundle branch block')
    >>> full_names("code15_known")["RBBB"], full_names("no such task")
    ('right bundle branch block', {})
    """
    words = task.split("_")
    for end in range(len(words), 0, -1):  # a task of known labels only has those of its whole
        name = "_".join(words[:end])
        try:
            rows = table(name) if re.fullmatch("[a-z0-9_]+", name) else ()
        except FileNotFoundError:
            continue
        named = {row["code"]: row["name"] for row in rows if "code" in row and "name" in row}
        return {code: _full(code, name) for code, name in named.items()}
    return {}


def _full(code: str, name: str) -> str:
    own, _, members = name.partition("members:")
    if own.strip(" ;") or not members:
        return own.strip(" ;")
    single = {row["scp_code"]: row["description"] for row in table("ptbxl_scp")}
    known = [single.get(member, member) for member in members.split()]
    if code in single and len(known) > 1:
        return f"{single[code]} and related codes"
    return ", ".join(known) if len(known) <= _MOST else f"{len(known)} diagnoses"
