"""The lead curve: scores against the number of measured leads, one panel per task, one line per
model and policy; the skill that is kept with fewer leads; and what mixing leads costs.

Random leads (one subset per record) form the curve; named sets (I, II, I+II) are separate hollow
markers beside their number of leads and never part of it. Where there are many, as the twelve
single leads, they are not drawn. The x axis is logarithmic: most of what is lost is lost between
one lead and three. lead_curve.csv holds exactly the numbers drawn, as fractions.

One lead: the mean of the scores within each of the twelve leads, beside the score of one random
lead per record, in which records with different leads are ranked together. A record seen in V1 may
score higher or lower as a whole than one seen in II; the difference is what that costs.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd

from ecgbench import reports as r
from ecgbench.cards.rooms import MetricCard
from ecgbench.core.keys import grouped
from ecgbench.core.text import enumerated, shortened
from ecgbench.ecg.leads import LEADS
from ecgbench.evaluate import protocols
from ecgbench.reports import _facts as facts
from ecgbench.reports._facts import setting_words
from ecgbench.reports._scores import ranked
from ecgbench.results import precompute
from ecgbench.results.joint import Entry, joint, why_missing
from ecgbench.results.study import AUROC, FULL, Run
from ecgbench.results.verdicts import MACRO, verdicts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Sheet

CARD = r.ReportCard(
    title="Lead curve",
    summary="scores against the number of measured leads, and the skill that is kept with fewer",
    reads="run",
    order=30,
)
COLUMNS = [
    *("task", "model", "policy", "weights", "leads", "n_leads", "named", "metric"),
    *("value", "low", "high"),
]
"""Columns of lead_curve.csv; every row is also a row of main_table.csv."""
UNDEFINED = "no label has both values among the test records"
"""Why a cell that was scored has no score."""
CROWD = 4
"""Named sets of one number of leads beyond which they are not drawn."""
_GAP = 0.045
"""Distance between neighbouring lines at one number of leads, in doublings of that number."""
_MOST = 6
"""Cells without a number that the caption names."""
MIXED = "1"
"""One random lead per record, as typed."""
ONE_LEAD = [
    *("task", "model", "policy", "metric", "within", "mixed", "difference", "low", "high"),
    *("status", "reason"),
]


def rows(study: Run) -> pd.DataFrame:
    """The points of the curves of all metrics."""
    return pd.concat([curve(study, name).rows[COLUMNS] for name in study.metrics])


def sections(study: Run, rows: pd.DataFrame) -> list[r.Section]:
    """One figure per metric; what skill is kept; one lead, where a run has all twelve."""
    figures: list[r.Part] = []
    for name in study.metrics:
        drawn = curve(study, name)
        if drawn.rows["leads"].nunique() == 1:  # one point is no curve
            words = "one row per task and model"
            figures.append(r.Table(name="lead_curve", rows=drawn.rows[COLUMNS], summary=words))
            break
        figures.append(
            r.Figure(
                name="lead_curve" if name == study.metric else f"lead_curve_{name}",
                draw=partial(draw, drawn),
                caption=_caption(study, drawn),
                size=drawn.size,
                numbers=drawn.rows[COLUMNS],
                summary="the points of the figure",
            )
        )
    titles = enumerated([card.title for card in study.metrics.values()])
    title = f"Macro {titles} against the number of measured leads"
    shown = r.Section(name="lead_curve", title=title, short=CARD.title, parts=figures)
    return [shown, _skill_kept(study), *_one_lead(study)]


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """What a figure shows: scores by one metric against the number of leads."""

    metric: MetricCard
    heads: Sequence[facts.Head]
    tasks: Sequence[facts.TaskTitle]
    rows: pd.DataFrame
    """Finished rows of `ranked`."""
    crowded: bool
    """Whether named sets are left out, as there are too many."""

    @property
    def undefined(self) -> set[str]:
        """Tasks of which cells were scored and none has a score."""
        there = self.rows["value"].notna()
        return set(self.rows["task"]) - set(self.rows.loc[there, "task"])

    @property
    def across(self) -> int:
        """Panels side by side."""
        count = len(self.tasks)
        return 2 if count in (2, 4) else min(count, 3) or 1

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches."""
        down = max(1, math.ceil(len(self.tasks) / self.across))
        return (7.4, 4.6) if self.across == 1 else (9.6, 2.9 * down + 1.1)


def curve(study: Run, metric: str = "", task: str = "") -> Curve:
    """The curve by one metric, the first if left out; of one task, or of all."""
    rows = ranked(study)[metric or study.metric]
    rows = rows[rows["status"] == "ok"].sort_values("line")
    sets = rows[rows["named"]].drop_duplicates("leads").groupby("n_leads").size()
    crowded = bool(sets.max() > CROWD)
    return Curve(
        metric=study.metrics[metric or study.metric],
        heads=facts.columns(study),
        tasks=[one for one in facts.tasks(study) if task in ("", one.task)],
        rows=rows[~rows["named"]] if crowded else rows,
        crowded=crowded,
    )


def _caption(study: Run, drawn: Curve) -> str:
    """What the curve shows, and what it leaves out."""
    titles, heads = facts.titles_of(study), facts.heads_of(study)
    points = drawn.rows[drawn.rows["value"].notna()]
    named = points["named"].any()
    random = (~points["named"] & (points["n_leads"] < len(LEADS))).any()
    filled = "Filled markers: leads" if named else "Leads"
    sentences = [_fitted(study, drawn)] if len(points) else []
    sentences += [f"{filled} drawn at random for each record."] if random else []
    sentences += ["Hollow markers: the named leads in every record."] if named else []
    sentences += ["Named leads stand in the main table."] if drawn.crowded else []
    sentences += ["Bars: 95 % intervals over patients."] if len(points) else []
    sentences += [
        f"{data.title}: {data.limit} records only (--limit)."
        for data in study.datasets
        if data.limit is not None
    ]
    if undefined := [title for task, title in titles.items() if task in drawn.undefined]:
        sentences.append(f"No {drawn.metric.title} for {enumerated(undefined)}: {UNDEFINED}.")
    lost = [
        f"{heads[gap.model, gap.policy].label} at {', '.join(gap.leads)}, {titles[gap.task]} "
        f"({gap.word})"
        for gap in facts.gaps(study)
    ]
    if lost:
        rest = f"; and {len(lost) - _MOST} more" if len(lost) > _MOST else ""
        sentences.append(f"Left out: {'; '.join(lost[:_MOST])}{rest}.")
    return " ".join(sentences)


def _fitted(study: Run, drawn: Curve) -> str:
    """How the heads were trained, and what the columns read in place of a missing lead."""
    protocol = study.provenance.protocol
    trained = "encoder frozen" if protocols.is_frozen(protocol) else "all weights trained"
    shown = [drawn.heads[at] for at in sorted(set(drawn.rows["head"]))]
    filled = []
    for policy, heads in grouped(shown, lambda head: head.policy).items():
        whose = f" for {enumerated([head.title for head in heads])}"
        words = "left out" if policy == "native" else "filled"
        filled.append(f"{words} ({policy}){whose if len(heads) < len(shown) else ''}")
    return f"Heads by protocol {protocol}, {trained}. Missing leads: {'; '.join(filled)}."


def draw(drawn: Curve, sheet: "Sheet") -> list[Any]:
    """A panel per task; returns the legend."""
    down = math.ceil(len(drawn.tasks) / drawn.across) or 1
    axes = sheet.subplots(down, drawn.across, squeeze=False).ravel().tolist()
    for ax, task in zip(axes, drawn.tasks):
        _panel(ax, drawn, task)
    for ax in axes[len(drawn.tasks) :]:
        ax.set_visible(False)
    sheet.supylabel(f"Macro {drawn.metric.title} × 100", fontsize=9)
    scored = drawn.rows.loc[drawn.rows["value"].notna(), "head"]
    return facts.legend(drawn.heads, sorted(set(scored)))


def _panel(ax: "Axes", drawn: Curve, task: facts.TaskTitle) -> None:
    rows = drawn.rows
    mine = rows[(rows["task"] == task.task) & rows["value"].notna()]
    mine = mine.sort_values("n_leads", kind="stable")
    where = _right_of_their_number(mine)
    heads = sorted(set(mine["head"]))
    for place, at in enumerate(heads):
        own = mine[mine["head"] == at]
        # lines that would cover one another stand a little apart
        shift = place - (len(heads) - 1) / 2
        base = own["leads"].map(where).fillna(own["n_leads"])
        own = own.assign(x=base * 2 ** (shift * min(_GAP, 0.12 / len(heads))))
        _line(ax, own[~own["named"]], at)
        _line(ax, own[own["named"]], at, hollow=True)
    upright = len(where) > 4 or len(drawn.tasks) > 1
    for leads, x in where.items():
        ends: Any = mine.loc[mine["leads"] == leads, ["value", "high"]].max(axis=None)
        _name(ax, leads, (x, 100 * float(ends)), upright)
    counts = sorted(set(mine["n_leads"]))
    r.lead_axis(ax, counts, max([*counts, *where.values()], default=len(LEADS)))
    _scale(ax, drawn.metric)
    ax.set_title(shortened(task.title, r.LONGEST))
    if mine.empty:
        why = UNDEFINED if task.task in drawn.undefined else "no number yet"
        ax.set(xticks=[], yticks=[])
        ax.text(0.5, 0.5, why, transform=ax.transAxes, ha="center", color="#777777")


def _right_of_their_number(mine: pd.DataFrame) -> dict[str, float]:
    """Where each named set stands: right of its number of leads, short of the next number, in the
    order of the run.
    """
    counts = sorted(set(mine["n_leads"]))
    named = mine[mine["named"]].sort_values("line").drop_duplicates("leads")
    found: dict[str, float] = {}
    for count in sorted(set(named["n_leads"])):
        sets = named.loc[named["n_leads"] == count, "leads"]
        following = next((more for more in counts if more > count), 2 * count)
        step = min(0.2, 0.8 * math.log2(following / count) / (len(sets) + 1))
        found |= {leads: count * 2 ** (step * (i + 1)) for i, leads in enumerate(sets)}
    return found


def _line(ax: "Axes", points: pd.DataFrame, at: int, hollow: bool = False) -> None:
    style = r.look(at)
    # from its own ends: an estimate may lie outside its interval
    bars = points.dropna(subset=["low", "high"])
    thin: Any = {"linewidth": 1.3, "alpha": 0.75, "gid": f"column-{at}"}
    ax.vlines(bars["x"], 100 * bars["low"], 100 * bars["high"], color=style["color"], **thin)
    style |= {"linewidth": 1.6, "markersize": 6, "zorder": 3, "gid": f"column-{at}"}
    if hollow:
        style |= {"linestyle": "none", "markerfacecolor": "white", "markersize": 5}
    ax.plot(points["x"], 100 * points["value"], **style)


def _name(ax: "Axes", leads: str, where: tuple[float, float], upright: bool) -> None:
    from matplotlib.patheffects import withStroke

    ax.annotate(
        leads,
        where,
        (0, 3),
        textcoords="offset points",
        ha="center",
        va="bottom",
        fontsize=7,
        zorder=4,
        rotation=90 if upright and "+" in leads else 0,
        path_effects=[withStroke(linewidth=2.5, foreground="white")],
    )


def _scale(ax: "Axes", metric: MetricCard) -> None:
    """What the metric can reach, and the line of chance."""
    ax.margins(y=0.12)
    low, high = ax.get_ylim()
    lowest, highest = (100 * end for end in metric.ends)
    ax.set_ylim(max(low, lowest), min(high, highest + 2))
    if metric.chance is not None and low < (level := 100 * metric.chance) < high:
        ax.axhline(level, color="#999999", linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        ax.annotate(
            "chance",
            (1, level),
            (3, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            va="center",
            fontsize=7,
            color="#777777",
        )


def _skill_kept(study: Run) -> r.Section:
    """One table per metric whose chance is known, of the models that have a score at 12 leads."""
    tables = [_kept(study, name) for name, card in study.metrics.items() if card.chance is not None]
    title = f"Skill kept, % of the skill above chance at {setting_words(FULL)}"
    parts = [table for table in tables if table.rows]
    return r.Section(name="survival", title=title, short="Skill kept", parts=parts)


def _kept(study: Run, metric: str) -> r.Table:
    """A row per task and column; its share of the skill at each setting."""
    rows, card = ranked(study)[metric], study.metrics[metric]
    chance, higher = card.chance or 0.0, card.direction == "higher"
    names = ["task", *facts.MODEL]
    full = rows.loc[rows["leads"] == FULL, [*names, "value", "low", "high"]]
    rows = rows[rows["leads"] != FULL].merge(full, on=names, suffixes=("", "_full"))
    rows = rows[rows["value_full"].notna()]
    # the ends of an interval count where there is one: a share of nothing says nothing
    bound, sign = (rows["low_full"], 1) if higher else (-rows["high_full"], -1)
    surely = (bound - sign * chance).fillna(math.inf)
    there = (surely > 0) & (sign * (rows["value_full"] - chance) > 0)
    share = (rows["value"] - chance) / (rows["value_full"] - chance)
    rows = rows.assign(share=share.where(there)).rename(columns={"value_full": "full"})
    wide = rows.set_index([*names, "full", "leads"])["share"].unstack(sort=False)
    settings, words = list(map(str, wide)), setting_words(FULL)
    if metric == AUROC:  # of which the verdicts have intervals
        macro = verdicts(study)
        macro = macro[macro["label"] == MACRO]
        for typed in settings:
            own = macro[macro["leads"] == typed].set_index(names)
            for end in ("low", "high"):
                wide = wide.join(own[f"kept_{end}"].rename(f"{typed}_{end}"))
    return r.Table(
        name=f"survival_{metric}",
        rows=wide.reset_index(),
        columns=[
            *([facts.task_column(study)] if len(facts.tasks(study)) > 1 else []),
            facts.model_column(study),
            r.Column("full", words, "number", r.points, f"macro {card.title}"),
            *(
                r.Column(typed, setting_words(typed), "number", cell=partial(_share, typed))
                for typed in settings
            ),
        ],
        notes=[
            f"({card.title} − {chance}) / ({card.title} at {words} − {chance}); -- where there is "
            f"no number, or where the interval at {words} reaches chance. In brackets, for AUROC: "
            f"95 % intervals (Fieller)."
        ],
        summary="one row per task and model: the share of its skill that each setting keeps",
    )


def _share(typed: str, row: r.Row) -> Any:
    """What a setting keeps, with its interval (Fieller) where it has an end on both sides."""
    if row[typed] is None:
        return None
    ends = [row.get(f"{typed}_{end}") for end in ("low", "high")]
    known = all(end is not None and math.isfinite(end) for end in ends)
    low, high = (r.points(end, 0) for end in ends) if known else ("", "")
    return r.TableCell(r.points(row[typed], 0), small=f"[{low}, {high}]" if known else "")


def _one_lead(study: Run) -> list[r.Section]:
    """One table, where a run has one random lead and all twelve single ones."""
    if study.scorer is None or not {MIXED, *LEADS} <= set(study.main["leads"]):
        return []
    wanted = [(task, head) for task in facts.titles_of(study) for head in facts.columns(study)]
    pieces = [partial(_within_and_mixed, study, *one) for one in wanted]
    found = precompute.each(study.scorer, study.stage, ("One lead", "models of a task"), pieces)
    rows = [row for row in found if row]
    if not rows:
        return []
    table = r.Table(
        name="one_lead",
        caption=f"Macro {study.metrics[study.metric].title} × 100 at one lead: within each lead, "
        f"and with leads mixed.",
        rows=pd.DataFrame(rows, columns=ONE_LEAD),
        columns=[
            facts.task_column(study),
            facts.model_column(study),
            r.Column("within", kind="number", spell=r.points, note="mean of the twelve leads"),
            r.Column("mixed", kind="number", spell=r.points, note="one random lead per record"),
            r.difference_column(),
            r.Column("status"),
        ],
        notes=[
            "Mixed, a record seen in one lead is ranked among records seen in others: the "
            "difference is what it costs that scores of different leads do not share a scale."
        ],
        summary="one row per task and model; fractions",
    )
    title = "One lead: within leads, and mixed"
    return [r.Section(name="one_lead", page=False, title=title, short="One lead", parts=[table])]


def _within_and_mixed(study: Run, task: str, head: facts.Head) -> Mapping[str, Any] | None:
    """A row of one_lead.csv; None where the run does not have the column at these settings."""
    settings = (MIXED, *LEADS)
    entries = [Entry(*head.names, leads) for leads in settings]
    status = {study.scores.get((task, *head.names, leads), ("", 0.0))[0] for leads in settings}
    if not all(status):
        return None
    row = {"task": task, "model": head.model, "policy": head.policy, "metric": study.metric}
    if why := why_missing(study, entries, [task]).get(task):
        return row | {"status": min(status - {"ok"}, default="undefined"), "reason": why}
    found = joint(study, entries, [task])
    difference = found.contrast([-1.0, *[1 / len(LEADS)] * len(LEADS)])
    low, high = difference.as_difference()
    return row | {
        "within": float(found.values[1:].mean()),
        "mixed": float(found.values[0]),
        "difference": difference.value,
        "low": low,
        "high": high,
        "status": "ok",
        "reason": "",
    }
