"""Representation analysis: how alike the features of two models are, and how much of a model's own
features at twelve leads stays when only some are measured.

Debiased linear CKA (`stats.cka`) of the features that the head receives, the mean over a record's
windows. One record a patient, the first by its name: two of a patient are alike whatever the
network, and CKA would count that. Both sides have the same records and the same leads. Of random
leads each lead-drawing seed is computed by itself; then their mean and spread. What many models
share about *which* lead was drawn counts in that number; within is free of it: the mean over the
twelve settings of one named lead, where a run has them all.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from ecgbench.core.cells import OFFICIAL
from ecgbench.core.seeds import rng
from ecgbench.core.text import enumerated, shortened
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import MissingData
from ecgbench.reports import (
    Column,
    Figure,
    Notes,
    Numbers,
    Part,
    ReportCard,
    Row,
    Section,
    Table,
    handle,
    look,
)
from ecgbench.reports._facts import FULL, Head, columns, setting_words, titles_of
from ecgbench.reports._means import score
from ecgbench.results import ahead
from ecgbench.results.scorer import Scorer
from ecgbench.results.study import Study
from ecgbench.stats.cka import DRAWS, MOST, Drawn, Products, cka, drawn, standardised
from ecgbench.study.stored import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Sheet

CARD = ReportCard(
    title="Representation analysis",
    summary="debiased linear CKA between models and between numbers of leads",
    reads="run",
    order=60,
)
FEWEST = 20
"""Patients below which nothing is computed."""
WIDTH = 22
"""Letters of a model's name beside a heat map."""
NUMBERS = (
    *("cka", "sd", "low", "high", "p", "null", "standardised", "seen"),
    *("draws", "patients", "patients_seen"),
)
VERSION = 1
"""Raised by hand when the same features begin to give other numbers."""

Shown = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Cells whose features are the same for all of their tasks."""

    task: str
    """The first of them."""
    title: str
    cells: Mapping[Head, Mapping[str, Mapping[str, Result]]]
    """Column -> setting as typed -> setting as printed -> its cell."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """CKA of two cells; NaN where it is not known."""

    patients: int
    patients_seen: int = 0
    value: float = np.nan
    standardised: float = np.nan
    """Of features that all have the same spread."""
    seen: float = np.nan
    """Without records that show one of the two models nothing; NaN where there are none."""
    drawn: Drawn


class Alike:
    """CKA of cells, each computed once and kept in the run."""

    def __init__(self, scorer: Scorer | None) -> None:
        self.scorer = scorer
        self._sides: dict[str, dict[str, tuple[str, np.ndarray]]] = {}

    def __call__(self, first: Result, second: Result) -> Found:
        """On one record of each patient that both have."""
        if self.scorer is None:
            return self._found(first, second)
        facts = {"cka": VERSION, "cells": [first.content, second.content]}
        # without features there is nothing to keep, and what was kept says nothing of them
        for r in (first, second):
            r.feature_file()
        known = self.scorer.kept(facts, lambda: asdict(self._found(first, second)))
        return Found(**known | {"drawn": Drawn(*known["drawn"])})

    def _found(self, first: Result, second: Result) -> Found:
        x, y = self._shared(first, second)
        words = first.cell.identity, second.cell.identity
        nan = float("nan")
        unknown = Drawn(value=nan, low=nan, high=nan, p=nan, null=nan, records=len(x))
        found = Found(patients=len(x), drawn=unknown)
        if any(r.document.get("blind", 0.0) > 0 for r in (first, second)):
            shown = _shown(x) & _shown(y)
            left = int(shown.sum())
            seen = cka(x[shown], y[shown]) if left >= FEWEST else nan
            found = replace(found, patients_seen=left, seen=seen)
        if len(x) < FEWEST:
            return found
        chosen = np.sort(rng("cka", *words).permutation(len(x))[:MOST])
        sides = Products.of(x[chosen]), Products.of(y[chosen])
        return replace(
            found,
            value=cka(x, y),
            standardised=cka(standardised(x), standardised(y)),
            drawn=drawn(*sides, len(x), rng("cka draws", *words)),
        )

    def _shared(self, first: Result, second: Result) -> list[np.ndarray]:
        sides = self._side(first), self._side(second)
        both: dict[str, str] = {}
        for record in sorted(sides[0].keys() & sides[1].keys()):
            both.setdefault(sides[0][record][0], record)
        records = sorted(both.values())
        return [np.array([side[record][1] for record in records]) for side in sides]

    def _side(self, result: Result) -> dict[str, tuple[str, np.ndarray]]:
        """Record -> its patient and its features."""
        if result.content not in self._sides:
            records, features = result.features()
            table = result.predictions()
            whose = dict(zip(table["record"], table["patient"]))
            if lacking := sorted(whose.keys() - set(records)):
                raise MissingData(
                    f"{result.folder} has predictions of {lacking[0]}, of which its features tell "
                    f"nothing; the files of this cell do not belong together"
                )
            self._sides[result.content] = {
                record: (str(whose[record]), row.astype(np.float64))
                for record, row in zip(records, features)
                if record in whose
            }
        return self._sides[result.content]


def _shown(features: np.ndarray) -> np.ndarray:
    """(record,) those with features of their own: a network that is shown nothing gives all such
    records the same.
    """
    _, back, times = np.unique(features, axis=0, return_inverse=True, return_counts=True)
    return np.asarray(times[back.ravel()] == 1)


def sections(study: Study) -> list[Section]:
    """Tables and figures of every panel; a sentence where no features were kept."""
    panels, alike = _panels(study), Alike(study.scorer)
    two = [(panel, *both) for panel in panels for both in combinations(panel.cells, 2)]
    one = [(panel, head) for panel in panels for head in panel.cells]
    pieces = [partial(_pair, *which, alike) for which in two]
    pieces += [partial(_kept, *which, alike, study) for which in one]
    parts: list[Part] = []
    try:
        ahead.each(study.scorer, study.stage, (CARD.title, "comparisons"), pieces)
        pairs = [row for which in two for row in _pair(*which, alike)]
        kept = [row for which in one for row in _kept(*which, alike, study)]
    except MissingData as error:
        parts.append(Notes([f"Not computed: {error}."]))
    else:
        if pairs or kept:
            parts.append(Notes(_notes(study, [*pairs, *kept])))
        if kept:
            parts += [_table("cka_stability", "Twelve leads against fewer", kept), *_scatter(kept)]
        if pairs:
            parts += [*_maps(panels, pairs), _table("cka_pairs", "Two models", pairs)]
    title = "How alike features are"
    return [Section(name="cka", title=title, short=CARD.title, parts=parts)] if parts else []


def _panels(study: Study) -> list[Panel]:
    """Tasks with the very same features are one panel; those that are columns of another's
    predictions are in it.
    """
    heads, titles = columns(study), titles_of(study)
    found: dict[tuple[str, ...], list[str]] = {}
    for task in titles:
        shas = {str((r.document["features"] or {}).get("sha256", task)) for r in _of(study, task)}
        if shas:
            found.setdefault(tuple(sorted(shas)), []).append(task)
    panels = []
    for tasks in found.values():
        cells: dict[Head, dict[str, dict[str, Result]]] = {head: {} for head in heads}
        for r in _of(study, tasks[0]):
            head = next(h for h in heads if h.names == (r.cell.fit.model, r.cell.policy))
            own = cells[head].setdefault(r.cell.setting.typed, {})
            own.setdefault(str(r.cell.setting), r)
        there = {head: own for head, own in cells.items() if own}
        title = enumerated([titles[task] for task in tasks])
        panels.append(Panel(task=tasks[0], title=title, cells=there))
    return panels


def _of(study: Study, task: str) -> list[Result]:
    """Its cells, of the first fit: a fold of a cross-validation has other records in each."""
    mine = [r for r in study.results if r.cell.task == task and r.cell.fit.fold == OFFICIAL]
    return [r for r in mine if r.cell.fit.seed == mine[0].cell.fit.seed]


def _pair(panel: Panel, first: Head, second: Head, alike: Alike) -> list[Shown]:
    """Two columns at every setting that both have."""
    made = []
    for typed, mine in panel.cells[first].items():
        others = panel.cells[second].get(typed, {})
        cells = [(mine[setting], others[setting]) for setting in mine if setting in others]
        if cells:
            names = {"first": _label(first), "second": _label(second)}
            where = {"task": panel.title, "leads": typed}
            made.append({**where, **names, **_numbers(cells, alike)})
    return made


def _kept(panel: Panel, head: Head, alike: Alike, study: Study) -> list[Shown]:
    """A column at twelve leads against each of its other settings."""
    whole = panel.cells[head].get(FULL, {}).get(FULL)
    if whole is None:
        return []
    rows: dict[str, Shown] = {
        typed: {"task": panel.title, "leads": typed, "first": _label(head)}
        | _numbers([(whole, cell) for cell in cells.values()], alike)
        for typed, cells in panel.cells[head].items()
        if typed != FULL
    }
    ones = [rows[lead]["cka"] for lead in LEADS if lead in rows]
    all_known = len(ones) == len(LEADS) and None not in ones
    for typed, row in rows.items():
        row["within"] = float(np.mean(ones)) if all_known and typed == "1" else None
        row["score"] = score(study, panel.task, head, typed)
    return list(rows.values())


def _label(head: Head) -> str:
    return head.label + (" (random weights)" if head.untrained else "")


def _numbers(cells: Sequence[tuple[Result, Result]], alike: Alike) -> Shown:
    """NUMBERS over lead draws; what draws of records say is of the first."""
    each = [alike(*pair) for pair in cells]
    values, first = [e.value for e in each], each[0].drawn
    found = {
        "cka": float(np.mean(values)),
        "sd": float(np.std(values, ddof=1)) if len(values) > 1 else None,
        "low": first.low + values[0] - first.value,
        "high": first.high + values[0] - first.value,
        "p": first.p,
        "null": first.null,
        "standardised": float(np.mean([e.standardised for e in each])),
        "seen": float(np.mean([e.seen for e in each])),
        "draws": len(values),
        "patients": min(e.patients for e in each),
        "patients_seen": min(e.patients_seen for e in each) or None,
    }
    return {k: None if isinstance(v, float) and np.isnan(v) else v for k, v in found.items()}


def _table(name: str, caption: str, rows: Sequence[Row]) -> Table:
    two = "second" in rows[0]
    sides = ["first", "second"] if two else ["first"]
    more = () if two else ("within", "score")
    listed = [
        Column("task", "Task", "group"),
        *([Column("first", "First"), Column("second", "Second")] if two else []),
        *([] if two else [Column("first", "Model")]),
        Column("leads", "Leads"),
        Column("cka", "CKA", "number", _number),
        Column("sd", "SD", "number", _number, "over lead draws"),
        Column("interval", "95 %"),
        Column("p", "p", "number", partial(_number, digits=3)),
        Column("standardised", "standardised", "number", _number),
        Column("seen", "seen", "number", _number, "without blind records"),
        *([] if two else [Column("within", "within", "number", _number)]),
    ]
    blind = any(row["seen"] is not None for row in rows)
    return Table(
        name=name,
        caption=caption,
        columns=[c for c in listed if blind or c.name != "seen"],
        rows=[row | {"interval": _interval(row)} for row in rows],  # type: ignore[operator]
        numbers=Numbers(
            columns=("task", *sides, "leads", *NUMBERS, *more),
            rows=rows,
            summary="a pair at a lead setting",
        ),
        formats=("csv", "html"),
    )


def _number(value: float | None, digits: int = 2) -> str:
    # what rounds to nothing has no sign
    return "--" if value is None else f"{round(value, digits) + 0.0:.{digits}f}"


def _interval(row: Row) -> str:
    return "--" if row["low"] is None else f"{_number(row['low'])} to {_number(row['high'])}"


def _maps(panels: Sequence[Panel], pairs: Sequence[Row]) -> Iterator[Figure]:
    """A heat map of all pairs per panel, a square per number of leads."""
    for number, panel in enumerate(panels):
        mine = [row for row in pairs if row["task"] == panel.title and row["cka"] is not None]
        typed = [t for t in dict.fromkeys(str(row["leads"]) for row in mine) if t.isdigit()]
        typed = sorted({*typed} & {FULL, "2", "1"}, key=int, reverse=True) or typed[:3]
        if not typed or len(panel.cells) < 3:
            continue
        wide = 1.5 + 0.42 * len(panel.cells)
        yield Figure(
            name="cka" if len(panels) == 1 else f"cka_{number + 1}",
            draw=partial(_heat, panel, typed, mine),
            caption=(
                f"{panel.title}: debiased linear CKA between the features of two models, by "
                f"measured leads. 0: no more alike than independent features; 1: the same up to "
                f"rotation and scale."
            ),
            size=(1.6 + wide * len(typed), 1.6 + wide),
            numbers=Numbers(
                columns=("task", "first", "second", "leads", *NUMBERS),
                rows=[row for row in mine if row["leads"] in typed],
                summary="the squares of the figure",
            ),
        )


def _heat(panel: Panel, typed: Sequence[str], rows: Sequence[Row], sheet: "Sheet") -> None:
    labels = [_label(head) for head in panel.cells]
    names = [shortened(label, WIDTH) for label in labels]
    axes = sheet.subplots(1, len(typed), squeeze=False)[0]
    picture: Any = None
    for at, (ax, leads) in enumerate(zip(axes, typed)):
        square = np.full((len(labels), len(labels)), np.nan)
        np.fill_diagonal(square, 1.0)
        for row in rows:
            if row["leads"] == leads:
                i, j = labels.index(row["first"]), labels.index(row["second"])
                square[i, j] = square[j, i] = row["cka"]
        picture = _square(ax, square, names, at == 0)
        ax.set_title(setting_words(leads))
    sheet.colorbar(picture, ax=list(axes), shrink=0.7, label="CKA")


def _square(ax: "Axes", square: np.ndarray, names: Sequence[str], first: bool) -> Any:
    ax.grid(visible=False)
    picture = ax.imshow(square, cmap="viridis", vmin=0, vmax=1)
    places = range(len(names))
    ax.set_xticks(places, names, rotation=90, fontsize=7)
    ax.set_yticks(places, names if first else [""] * len(names), fontsize=7)
    for (i, j), value in np.ndenumerate(square):
        if i != j and np.isfinite(value):
            colour = "white" if value < 0.6 else "black"
            ax.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=6, color=colour)
    return picture


def _scatter(rows: Sequence[Row]) -> Iterator[Figure]:
    """What stays of the features against the score, where there are models to compare."""
    points = [r for r in rows if r["cka"] is not None and r["score"] == r["score"]]
    points = [r for r in points if r["leads"].isdigit()]
    if len({r["first"] for r in points}) < 3:
        return
    yield Figure(
        name="cka_score",
        draw=partial(_dots, points),
        caption=(
            "Each dot is a model at a number of leads: what stays of its features at twelve leads "
            "against its score there. Features that stay say nothing of what they are worth: "
            "anything that averages over leads keeps them."
        ),
        numbers=Numbers(
            columns=("task", "first", "leads", "cka", "score"), rows=points, summary="the dots"
        ),
    )


def _dots(points: Sequence[Row], sheet: "Sheet") -> list[Any]:
    ax, names = sheet.subplots(), list(dict.fromkeys(r["first"] for r in points))
    for r in points:
        place = r["cka"], 100 * r["score"]
        ax.plot(*place, **{**look(names.index(r["first"])), "linestyle": ""})
        ax.annotate(r["leads"], place, (4, 3), fontsize=7, textcoords="offset points")
    ax.set_xlim(min(-0.05, *(r["cka"] - 0.02 for r in points)), 1.05)
    ax.set_xlabel("CKA with its own features at 12 leads")
    ax.set_ylabel("macro score × 100")
    return [handle(shortened(name, WIDTH), at) for at, name in enumerate(names)]


def _notes(study: Study, rows: Sequence[Row]) -> list[str]:
    """How to read them, and what may mislead."""
    texts = [
        f"CKA of one record a patient; random leads: the mean over lead draws. p is that of no "
        f"relation, from {DRAWS} permutations of patients (at least {1 / (DRAWS + 1):.3f}); "
        f"intervals are from {DRAWS} halves of at most {MOST} patients, of the first lead draw. "
        f"Standardised: every feature counts alike; a few loud ones rule the other number.",
        "Models that see the same random lead are alike in which lead that was, whatever else they "
        "hold; within, the mean over the twelve single leads, is free of that.",
    ]
    few = {row["task"] for row in rows if row["patients"] < FEWEST}
    if few:
        texts.append(f"Fewer than {FEWEST} patients: no CKA for {enumerated(sorted(few))}.")
    blind = study.cells[study.cells["blind"].fillna(0) > 0]
    if len(blind):
        models = {m.name: m.title for m in study.models}
        named = enumerated(list(dict.fromkeys(models.get(n, n) for n in blind["model"])))
        texts.append(
            f"In part of the records {named} sees nothing of the measured leads; those records are "
            f"alike to it, and its numbers there say so; seen is without them."
        )
    return texts
