"""The sections of `ecgbench report --against`: rows, means, a scatter, and what the source says of
itself.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ecgbench.core.text import quoted, shortened
from ecgbench.errors import BadSetting
from ecgbench.published import EVALUATED_ONLY, METRIC, PAPER, Source, claims, source
from ecgbench.reports._beside import Pair, mean_differences, pairs
from ecgbench.reports._facts import DAGGER, untrained_marks
from ecgbench.reports._figure import LONGEST, handle, look
from ecgbench.reports._section import (
    Cell,
    Column,
    Figure,
    Notes,
    Numbers,
    Part,
    Row,
    Section,
    Table,
)
from ecgbench.reports._text import bracket, points, signed
from ecgbench.results.study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Sheet

LABELS = "§"
_MARKS = {
    "†": DAGGER,
    LABELS: "its number of labels is not theirs ({}); in no mean",
}
NUMBERS = (
    *("task", "leads", "model", "policy", "run", "protocol", "weights", "status"),
    *("ours", "ours_std", "ours_low", "ours_high"),
    *("theirs", "theirs_trained", "theirs_sd", "theirs_low", "theirs_high"),
    *("difference", "labels", "labels_theirs", "comparable", "differs"),
)
_HOW = (
    "Ours less theirs, in points (AUROC × 100). A difference is no test: the two sides are other "
    "fits, and their predictions are not known. Where anything is known that differs besides, it "
    "stands in the last column, and the difference is in no mean."
)
_WORDS = (
    "Own weights: trained by this project, not by the model's authors. Undefined labels have not "
    "both values in our test set: ours leave them out, the reference benchmark counts 0.5."
)
_EXTENDED = (
    "Scores at 1, 2 and 12 leads are those of its extended table; the last table names the cells "
    "that its Table 1 prints otherwise."
)
_HEAD_ONLY = (
    "ST-MEM: what is printed as its fine-tuning trained the head alone, as its scores and the code "
    "say; so that row stands beside our linear and beside our fine-tuned column."
)


def sections(study: Study, name: str) -> list[Section]:
    """Of a study that has AUROCs; BadSetting where it was read without them."""
    if METRIC not in study.metrics:
        raise BadSetting(
            f"--against {name}: macro AUROCs are printed there, and this report has "
            f"{', '.join(study.metrics)}; run: ecgbench report {quoted(study.path)} "
            f"--against {name} --metrics {METRIC}"
        )
    other = source(name)
    found = pairs(study, other)
    cited = [f"{other.title}: {other.cited}.", *([_EXTENDED] if name == PAPER else [])]
    folders = [f"Run {at}: {run.path.name}." for at, run in enumerate(study.beside, 2)]
    parts: list[Part] = [Notes([*cited, *folders])]
    if found:
        numbers = _numbers(found, f"one row per score of ours and of the {other.title.lower()}")
        parts += [_table(found, other, numbers), _means(found, other)]
        if drawn := [pair for pair in found if pair.ours is not None]:
            parts.append(_figure(drawn, other, numbers))
    else:
        parts.append(Notes([_nothing(study, other)]))
    parts.append(_claims(other))
    words = f"Beside the {other.title.lower()}"
    return [Section(name=f"against_{name}", title=words, short=words, parts=parts)]


def _nothing(study: Study, other: Source) -> str:
    settings = ", ".join(dict.fromkeys(map(str, study.main["leads"])))
    return (
        f"The {other.title.lower()} prints no score of these models on these tasks at these leads "
        f"({settings}), so there is no difference to show."
    )


def _numbers(found: Sequence[Pair], summary: str) -> Numbers:
    return Numbers(columns=NUMBERS, rows=[_plain(pair) for pair in found], summary=summary)


def _plain(pair: Pair) -> Row:
    row, theirs = pair.row, pair.theirs
    known = {"ours": pair.ours} | {f"ours_{n}": row[n] for n in ("std", "low", "high")}
    if pair.ours is None:
        known = {}
    return {
        **{name: row[name] for name in ("task", "leads", "model", "policy", "weights", "status")},
        "run": pair.run,
        "protocol": pair.protocol,
        **known,
        "theirs": theirs.value,
        "theirs_trained": theirs.trained,
        "theirs_sd": theirs.sd,
        "theirs_low": theirs.low,
        "theirs_high": theirs.high,
        "difference": pair.difference,
        "labels": pair.labels[0] if pair.labels else row["n_labels"],
        "labels_theirs": pair.labels[1] if pair.labels else None,
        "comparable": pair.comparable,
        "differs": "; ".join(_said(pair)),
    }


def _said(pair: Pair) -> list[str]:
    labels = [f"{pair.labels[0]} labels, theirs {pair.labels[1]}"] if pair.labels else []
    return [*labels, *pair.differs]


def _table(found: Sequence[Pair], other: Source, numbers: Numbers) -> Table:
    return Table(
        name=f"against_{other.name}",
        caption=f"Macro AUROC × 100 beside the {other.title.lower()}.",
        columns=(
            Column("task", "Task", "group"),
            Column("leads", "Leads"),
            Column("model", "Model"),
            Column("trained", "Trained", note="ours / theirs"),
            Column("ours", "Ours", "number"),
            Column("theirs", other.title, "number"),
            Column("difference", "Ours − theirs", "number"),
            Column("differs", "What differs besides"),
        ),
        rows=[_line(pair) for pair in found],
        notes=[
            _HOW,
            _WORDS,
            *([_HEAD_ONLY] if any(pair.theirs.head_only for pair in found) else []),
        ],
        marks=_signs(found) | untrained_marks(pair.head for pair in found),
        numbers=numbers,
    )


def _line(pair: Pair) -> Row:
    row, theirs = pair.row, pair.theirs
    labels = LABELS if pair.labels else ""
    dagger = "†" if pair.task.evaluation_only or pair.task.task in EVALUATED_ONLY else ""
    ours: Any = Cell(row["status"])
    if pair.ours is not None:
        ours = Cell(points(pair.ours), pair.head.mark, _spread(row["std"], row["low"], row["high"]))
    return {
        "task": Cell(pair.task.title, dagger + labels),
        "leads": pair.leads,
        "model": pair.head.cell,
        "trained": _trained(pair),
        "ours": ours,
        "theirs": Cell(points(theirs.value), small=_spread(theirs.sd, theirs.low, theirs.high)),
        "difference": None if pair.difference is None else signed(pair.difference),
        "differs": "; ".join(_said(pair)) or "nothing known",
    }


def _trained(pair: Pair) -> Cell:
    run = f"run {pair.run}" if pair.run > 1 else ""
    return Cell(f"{pair.protocol} / {pair.theirs.trained}", small=run)


def _spread(sd: float | None, low: float | None, high: float | None) -> str:
    return bracket(low, high) if sd is None else f"({points(sd)})"


def _signs(found: Sequence[Pair]) -> dict[str, str]:
    counts = {p.task.title: p.labels for p in found if p.labels}
    listed = ", ".join(f"{title} {ours} and {theirs}" for title, (ours, theirs) in counts.items())
    used = {"†": any("†" in _line(p)["task"].mark for p in found), LABELS: bool(counts)}
    return {sign: text.format(listed) for sign, text in _MARKS.items() if used[sign]}


def _means(found: Sequence[Pair], other: Source) -> Table:
    rows = [
        {
            "model": pair.head.cell,
            "leads": pair.leads,
            "trained": _trained(pair),
            "difference": None if mean is None else signed(mean),
            "over": why if mean is not None else f"no mean: {why}",
        }
        for pair, mean, why in mean_differences(found)
    ]
    kept = [
        {
            "model": pair.head.model,
            "policy": pair.head.policy,
            "run": pair.run,
            "leads": pair.leads,
            "protocol": pair.protocol,
            "theirs_trained": pair.theirs.trained,
            "mean_difference": mean,
            "over": why,
        }
        for pair, mean, why in mean_differences(found)
    ]
    return Table(
        name=f"against_{other.name}_means",
        caption="Mean of ours − theirs over tasks.",
        columns=(
            Column("model", "Model"),
            Column("leads", "Leads"),
            Column("trained", "Trained", note="ours / theirs"),
            Column("difference", "Ours − theirs", "number"),
            Column("over", "Over"),
        ),
        rows=rows,
        marks=untrained_marks(pair.head for pair in found),
        numbers=Numbers(
            columns=list(kept[0]), rows=kept, summary="mean difference per column and lead setting"
        ),
    )


def _figure(drawn: Sequence[Pair], other: Source, numbers: Numbers) -> Figure:
    open_, some = [pair for pair in drawn if not pair.comparable], len(drawn)
    caption = (
        f"Each marker is a task at a lead setting; on the line both are equal. Filled: nothing is "
        f"known that differs besides the fits ({some - len(open_)} of {some})."
    )
    if open_:
        why = dict.fromkeys(text for pair in open_ for text in _said(pair))
        caption += f" Hollow: something does: {'; '.join(why)}."
    return Figure(
        name=f"against_{other.name}",
        draw=partial(_scatter, drawn, other),
        caption=caption,
        size=(6.4, 6.4),
        numbers=numbers,
    )


def _scatter(drawn: Sequence[Pair], other: Source, sheet: "Sheet") -> list[Any]:
    ax = sheet.subplots()
    series = list(dict.fromkeys(pair.column for pair in drawn))
    several = len({pair.run for pair in drawn}) > 1
    named = {}
    ends = [50.0]
    for pair in drawn:
        assert pair.ours is not None
        at = series.index(pair.column)
        name = shortened(pair.head.label, LONGEST) + (
            " (random weights)" if pair.head.untrained else ""
        )
        named[at] = f"{name}, run {pair.run}: {pair.protocol}" if several else name
        style = look(at) | {"linestyle": "", "markersize": 5}
        style |= {} if pair.comparable else {"markerfacecolor": "none"}
        x, y = 100 * pair.theirs.value, 100 * pair.ours
        ends += [x, y]
        ax.plot(x, y, **style)
    low, high = min(ends) - 2, min(max(ends) + 2, 101)
    ax.plot([low, high], [low, high], color="#999999", linewidth=1, zorder=1)
    ax.set(xlim=(low, high), ylim=(low, high), aspect="equal")
    ax.set_xlabel(f"{other.title}, macro AUROC × 100")
    ax.set_ylabel("ours, macro AUROC × 100")
    return [handle(name, at, linestyle="") for at, name in sorted(named.items())]


def _claims(other: Source) -> Table:
    rows: list[Row] = [vars(claim) for claim in claims(other.name)]
    return Table(
        name=f"claims_{other.name}",
        caption=(
            f"The {other.title.lower()}: what its text says, recomputed from its own tables. "
            f"Nothing here is of this run."
        ),
        columns=(
            Column("where", "Where"),
            Column("says", "It says"),
            Column("found", "Its tables give"),
            Column("agrees", "Agrees"),
        ),
        rows=rows,
        notes=["in part: some of it comes out; open: the tables do not tell."],
    )
