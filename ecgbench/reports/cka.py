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
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ecgbench import reports as r
from ecgbench.core.division import OFFICIAL
from ecgbench.core.seeds import rng
from ecgbench.core.text import enumerated, shortened
from ecgbench.ecg.draw import Fixed
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import MissingData
from ecgbench.reports import _facts as facts
from ecgbench.results import precompute
from ecgbench.results.study import FULL, Run
from ecgbench.stats.cka import DRAWS, MOST, Products, cka, drawn, standardised
from ecgbench.study.recent import Recent
from ecgbench.study.stored import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Sheet

CARD = r.ReportCard(
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
Values = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Cells whose features are the same for all of their tasks."""

    task: str
    """The first of them."""
    title: str
    cells: Mapping[facts.Head, Mapping[str, Mapping[str, Result]]]
    """Column -> setting as typed -> setting as printed -> its cell."""


_READ_LAST: Recent[pd.DataFrame] = Recent(size=lambda one: one.size * 8, most=2**29)


def alike(first: Result, second: Result) -> Values:
    """NUMBERS of two cells on one record of each patient that both have; NaN where one is not
    known.
    """
    sides = [_READ_LAST(one.content, partial(_features, one)) for one in (first, second)]
    return _computed(first, second, *_shared(*sides))


def _computed(first: Result, second: Result, x: np.ndarray, y: np.ndarray) -> Values:
    made = dict.fromkeys(NUMBERS, float("nan")) | {"patients": len(x), "patients_seen": 0}
    if any(result.document.get("blind", 0.0) > 0 for result in (first, second)):
        seen = _seen(x) & _seen(y)
        made["patients_seen"] = int(seen.sum())
        if made["patients_seen"] >= FEWEST:
            made["seen"] = cka(x[seen], y[seen])
    if len(x) < FEWEST:
        return made
    words = first.cell.identity, second.cell.identity
    chosen = np.sort(rng("cka", *words).permutation(len(x))[:MOST])
    sides = Products.of(x[chosen]), Products.of(y[chosen])
    draws, value = drawn(*sides, len(x), rng("cka draws", *words)), cka(x, y)
    return made | {
        "cka": value,
        "low": draws.low + value - draws.value,
        "high": draws.high + value - draws.value,
        "p": draws.p,
        "null": draws.null,
        "standardised": cka(standardised(x), standardised(y)),
    }


def _shared(*sides: pd.DataFrame) -> list[np.ndarray]:
    """The features of both, (record, dim), of the first record of each patient by its name."""
    both = sides[0].index.intersection(sides[1].index).sort_values()
    both = both[~both.get_level_values("patient").duplicated()]
    return [side.loc[both].to_numpy() for side in sides]


def _features(result: Result) -> pd.DataFrame:
    """By record and patient."""
    records, features = result.features()
    table = result.predictions()
    if missing := sorted(set(table["record"]) - set(records)):
        raise MissingData(
            f"{result.folder} has predictions of {missing[0]}, of which its features tell "
            f"nothing; the files of this cell do not belong together"
        )
    whose = table.drop_duplicates("record", keep="last").set_index("record")["patient"].astype(str)
    rows = pd.DataFrame(features.astype(np.float64), index=list(records)).loc[whose.index]
    return rows.set_index(
        pd.MultiIndex.from_arrays([whose.index, whose], names=["record", "patient"])
    )


def _seen(features: np.ndarray) -> np.ndarray:
    """(record,) those with features of their own: a network that is shown nothing gives all such
    records the same.
    """
    _, back, times = np.unique(features, axis=0, return_inverse=True, return_counts=True)
    return np.asarray(times[back.ravel()] == 1)


def rows(study: Run) -> pd.DataFrame:
    """NUMBERS of two columns at each setting that both have, then of each column at twelve leads
    and at another (`second` None); or `reason`, why there are none.
    """
    panels = _panels(study)
    two = [(panel, *both) for panel in panels for both in combinations(panel.cells, 2)]
    one = [(panel, head) for panel in panels for head in panel.cells]
    pieces = [partial(_pair, *which) for which in two]
    pieces += [partial(_kept, *which, study) for which in one]
    try:
        found = precompute.each(study.scorer, study.stage, (CARD.title, "comparisons"), pieces)
    except MissingData as error:
        found = [[{"reason": str(error)}]]
    names = ["task", "first", "second", "leads", "named", *NUMBERS, "within", "score", "reason"]
    return pd.DataFrame([row for own in found for row in own], columns=names, dtype=object)


def sections(study: Run, rows: pd.DataFrame) -> list[r.Section]:
    """Tables and figures of every panel; a sentence where no features were kept."""
    parts: list[r.Part] = [
        r.Notes([f"Not computed: {why}."]) for why in rows["reason"].dropna().unique()
    ]
    two, one = rows["second"].notna(), rows["second"].isna() & rows["reason"].isna()
    pairs: list[Any] = rows[two].drop(columns=["within", "score", "reason"]).to_dict("records")
    kept: list[Any] = rows[one].drop(columns=["second", "named", "reason"]).to_dict("records")
    if pairs or kept:
        parts.append(r.Notes(_notes(study, [*pairs, *kept])))
    if kept:
        parts.append(_table("cka_stability", "Twelve leads against fewer", kept))
    if pairs:
        parts += [*_maps(_panels(study), pairs), _table("cka_pairs", "Two models", pairs)]
    title = "How alike features are"
    return (
        [
            r.Section(
                name="cka", page=not (pairs or kept), title=title, short=CARD.title, parts=parts
            )
        ]
        if parts
        else []
    )


def _panels(study: Run) -> list[Panel]:
    """Tasks with the very same features are one panel; those that are columns of another's
    predictions are in it.
    """
    heads, titles = facts.heads_of(study), facts.titles_of(study)
    found: dict[tuple[str, ...], list[str]] = {}
    for task in titles:
        shas = {str((c.document["features"] or {}).get("sha256", task)) for c in _of(study, task)}
        if shas:
            found.setdefault(tuple(sorted(shas)), []).append(task)
    panels = []
    for tasks in found.values():
        cells: dict[facts.Head, dict[str, dict[str, Result]]] = {h: {} for h in heads.values()}
        for result in _of(study, tasks[0]):
            cell = result.cell
            own = cells[heads[cell.fit.model, cell.policy]].setdefault(cell.setting.typed, {})
            own.setdefault(str(cell.setting), result)
        there = {head: own for head, own in cells.items() if own}
        title = enumerated([titles[task] for task in tasks])
        panels.append(Panel(task=tasks[0], title=title, cells=there))
    return panels


def _of(study: Run, task: str) -> list[Result]:
    """Its cells, of the first fit: a fold of a cross-validation has other records in each."""
    mine = [c for c in study.results if c.cell.task == task and c.cell.fit.fold == OFFICIAL]
    return [c for c in mine if c.cell.fit.seed == mine[0].cell.fit.seed]


def _pair(panel: Panel, first: facts.Head, second: facts.Head) -> list[Values]:
    """Two columns at every setting that both have."""
    made = []
    for typed, mine in panel.cells[first].items():
        others = panel.cells[second].get(typed, {})
        if cells := [(mine[setting], others[setting]) for setting in mine if setting in others]:
            names = {"task": panel.title, "first": _label(first), "second": _label(second)}
            leads = {"leads": typed, "named": isinstance(cells[0][0].cell.setting, Fixed)}
            made.append(names | leads | _numbers(cells))
    return made


def _kept(panel: Panel, head: facts.Head, study: Run) -> list[Values]:
    """A column at twelve leads against each of its other settings."""
    whole = panel.cells[head].get(FULL, {}).get(FULL)
    if whole is None:
        return []
    rows: dict[str, Values] = {
        typed: {"task": panel.title, "first": _label(head), "leads": typed}
        | _numbers([(whole, cell) for cell in cells.values()])
        for typed, cells in panel.cells[head].items()
        if typed != FULL
    }
    ones = [rows[lead]["cka"] for lead in LEADS if lead in rows]
    for typed, row in rows.items():
        every = typed == "1" and len(ones) == len(LEADS)
        row["within"] = float(np.mean(ones)) if every else None
        row["score"] = study.value(panel.task, *head.names, typed)
    return list(rows.values())


def _label(head: facts.Head) -> str:
    return head.label + (" (random weights)" if head.untrained else "")


def _numbers(cells: Sequence[tuple[Result, Result]]) -> Values:
    """NUMBERS over lead draws; what draws of records say is of the first."""
    each = [alike(*pair) for pair in cells]
    means = ("cka", "standardised", "seen")
    return (
        each[0]
        | {name: float(np.mean([one[name] for one in each])) for name in means}
        | {
            "sd": float(np.std([one["cka"] for one in each], ddof=1)) if len(each) > 1 else None,
            "draws": len(each),
            "patients": min(one["patients"] for one in each),
            "patients_seen": min(one["patients_seen"] for one in each) or None,
        }
    )


def _table(name: str, caption: str, rows: Sequence[Values]) -> r.Table:
    sides = {"first": "First", "second": "Second"} if "second" in rows[0] else {"first": "Model"}
    more = () if "second" in sides else ("within", "score")
    blind = any(row["patients_seen"] is not None for row in rows)
    seen = r.Column("seen", kind="number", spell=_number, note="without blind records")
    listed = [
        r.Column("task", kind="group"),
        *(r.Column(key, heading) for key, heading in sides.items()),
        r.Column("leads"),
        r.Column("cka", kind="number", spell=_number),
        r.Column("sd", kind="number", spell=_number, note="over lead draws"),
        r.Column("interval", "95 %", cell=_interval),
        r.Column("p", kind="number", spell=partial(_number, digits=3)),
        r.Column("standardised", kind="number", spell=_number),
        *([seen] if blind else []),
        *(r.Column(key, kind="number", spell=_number) for key in more[:1]),
    ]
    frame = pd.DataFrame(rows, dtype=object)
    return r.Table(
        name=name,
        caption=caption,
        columns=listed,
        rows=frame[["task", *sides, "leads", *NUMBERS, *more]],
        summary="a pair at a lead setting",
        formats=("csv", "html"),
    )


def _number(value: float, digits: int = 2) -> str:
    # what rounds to nothing has no sign
    return f"{round(value, digits) + 0.0:.{digits}f}"


def _interval(row: r.Row) -> str | None:
    return None if row["low"] is None else f"{_number(row['low'])} to {_number(row['high'])}"


def _maps(panels: Sequence[Panel], pairs: Sequence[Values]) -> Iterator[r.Figure]:
    """A heat map of all pairs per panel, a square per number of leads."""
    for number, panel in enumerate(panels):
        mine = [row for row in pairs if row["task"] == panel.title and row["cka"] == row["cka"]]
        typed = list(dict.fromkeys(row["leads"] for row in mine if not row["named"]))
        typed = sorted({*typed} & {FULL, "2", "1"}, key=int, reverse=True) or typed[:3]
        if not typed or len(panel.cells) < 3:
            continue
        wide = 1.5 + 0.42 * len(panel.cells)
        shown = pd.DataFrame([row for row in mine if row["leads"] in typed], dtype=object)
        yield r.Figure(
            name="cka" if len(panels) == 1 else f"cka_{number + 1}",
            draw=partial(_heat, panel, typed, mine),
            caption=(
                f"{panel.title}: debiased linear CKA between the features of two models, by "
                f"measured leads. 0: no more alike than independent features; 1: the same up to "
                f"rotation and scale."
            ),
            size=(1.6 + wide * len(typed), 1.6 + wide),
            numbers=shown[["task", "first", "second", "leads", *NUMBERS]],
            summary="the squares of the figure",
        )


def _heat(panel: Panel, typed: Sequence[str], rows: Sequence[r.Row], sheet: "Sheet") -> None:
    labels = [_label(head) for head in panel.cells]
    names = [shortened(label, WIDTH) for label in labels]
    axes = sheet.subplots(1, len(typed), squeeze=False)[0]
    picture: Any = None
    for at, (ax, leads) in enumerate(zip(axes, typed)):
        square = np.eye(len(labels))
        square[square == 0] = np.nan
        for row in (row for row in rows if row["leads"] == leads):
            i, j = labels.index(row["first"]), labels.index(row["second"])
            square[i, j] = square[j, i] = row["cka"]
        picture = _square(ax, square, names, at == 0)
        ax.set_title(facts.setting_words(leads))
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


def _notes(study: Run, rows: Sequence[r.Row]) -> list[str]:
    """How to read them, and what may mislead."""
    texts = [
        f"CKA of one record a patient; random leads: the mean over lead draws. p is that of no "
        f"relation, from {DRAWS} permutations of patients; intervals are from {DRAWS} halves of at "
        f"most {MOST} patients, of the first lead draw. Standardised: every feature counts alike.",
        "Models that see the same random lead are alike in which lead that was; within, the mean "
        "over the twelve single leads, is free of that.",
    ]
    if few := {row["task"] for row in rows if row["patients"] < FEWEST}:
        texts.append(f"Fewer than {FEWEST} patients: no CKA for {enumerated(sorted(few))}.")
    blind = study.cells[study.cells["blind"].fillna(0) > 0]
    if len(blind):
        models = {m.name: m.title for m in study.models}
        named = enumerated(list(dict.fromkeys(models.get(n, n) for n in blind["model"])))
        texts.append(
            f"In part of the records {named} sees nothing of the measured leads; they are alike to "
            f"it. Seen is without them."
        )
    return texts
