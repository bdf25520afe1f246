"""The figure of the report of subgroups: each group less the rest, at twelve leads and at the
fewest.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ecgbench.core.text import shortened
from ecgbench.reports import LONGEST, Figure, Numbers, handle, look
from ecgbench.reports._facts import FULL, Head, heads_of, leads_of, setting_words, titles_of
from ecgbench.results.study import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Sheet

FIGURES, PANELS = 6, 4
"""Tasks with a figure of their own, and columns in it."""
Found = Mapping[str, Any]
"""A comparison, as `subgroups` holds it."""


def two(row: Found) -> bool:
    """Whether there are two groups alone, each the rest of the other."""
    return bool(row["rest"] != "all others")


def ends_of(leads: Sequence[str]) -> list[str]:
    """Twelve leads and the fewest, of the settings that are there."""
    there = sorted(dict.fromkeys(leads), key=lambda typed: (leads_of(typed), typed))
    return list(dict.fromkeys([FULL if FULL in there else there[-1], there[0]]))


def figures(study: Study, rows: Sequence[Found]) -> Iterator[Figure]:
    """One for each of the first FIGURES tasks, of comparisons of all of them."""
    titles = titles_of(study)
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    for number, task in enumerate(tasks[:FIGURES]):
        own = [row for row in rows if row["task"] == task]
        ends = ends_of([row["leads"] for row in own])
        shown = [row for row in own if row["leads"] in ends]
        places = list(dict.fromkeys((row["variable"], row["group"]) for row in shown))
        heads = [heads_of(study)[n] for n in dict.fromkeys((r["model"], r["policy"]) for r in own)]
        yield Figure(
            name="subgroups_forest" if not number else f"subgroups_forest_{number + 1}",
            draw=partial(_draw, shown, heads[:PANELS], places, ends),
            caption=f"{titles[task]}: each group less the rest in points, with 95 % intervals that "
            f"are not corrected for the number of comparisons; left of 0 the group does worse.",
            size=(9.6, 0.27 * len(places) + 1.5),
            numbers=Numbers(
                columns=_DRAWN,
                rows=[{name: row[name] for name in _DRAWN} for row in shown],
                summary="one row per point",
            ),
        )


_DRAWN = (
    *("task", "model", "policy", "leads", "variable", "group", "rest", "n_patients"),
    *("difference", "difference_low", "difference_high"),
)


def _draw(
    rows: Sequence[Found],
    heads: Sequence[Head],
    places: Sequence[tuple[str, str]],
    ends: Sequence[str],
    sheet: "Sheet",
) -> list[Any]:
    axes = sheet.subplots(1, len(heads), squeeze=False, sharex=True, sharey=True).ravel()
    for ax, head in zip(axes, heads):
        own = [row for row in rows if (row["model"], row["policy"]) == head.names]
        _panel(ax, own, places, ends)
        ax.set_title(shortened(head.label, LONGEST))
        ax.set_xlabel("points", fontsize=8)
    axes[0].set_yticks(range(len(places)))
    names = [g if v in ("sex", "paced") else f"{v} {g}" for v, g in places]
    rest = {(r["variable"], r["group"]): r["rest"] for r in rows if two(r)}
    labels = [n + (f" less {rest[p]}" if p in rest else "") for n, p in zip(names, places)]
    axes[0].set_yticklabels([shortened(label, 28) for label in labels])
    axes[0].set_ylim(len(places) - 0.5, -0.5)
    return [handle(setting_words(leads), at) for at, leads in enumerate(ends)]


def _panel(
    ax: "Axes", rows: Sequence[Found], places: Sequence[tuple[str, str]], ends: Sequence[str]
) -> None:
    ax.axvline(0, color="#999999", linewidth=1, zorder=1)
    for row in rows:
        at = ends.index(row["leads"])
        y = places.index((row["variable"], row["group"])) + (at - (len(ends) - 1) / 2) * 0.36
        style = look(at) | {"linestyle": "none", "markersize": 4}
        if row["difference_low"] is not None:
            reach = [100 * row["difference_low"], 100 * row["difference_high"]]
            ax.plot(reach, [y, y], color=style["color"], linewidth=1.3)
        ax.plot([100 * row["difference"]], [y], **style)
    ax.grid(visible=False, axis="y")
