"""What reports of probabilities share: the rows of the main table, task by task, with what their
cells say of each label.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from ecgbench.core.text import enumerated
from ecgbench.reports._facts import (
    FULL,
    Head,
    columns,
    leads_of,
    model_column,
    setting_words,
    task_column,
    titles_of,
)
from ecgbench.reports._facts import legend as entries
from ecgbench.reports._scores import reasons
from ecgbench.reports._section import Column, Row
from ecgbench.results import precompute
from ecgbench.results.by_label import (
    LEAST,
    ByLabel,
    Columns,
    Question,
    Repeats,
    Shared,
    There,
    repeats_of,
)
from ecgbench.results.calibration import Calibration
from ecgbench.results.operating import NetBenefit, Operating
from ecgbench.results.study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Sheet

MEAN = "mean of labels"
"""What stands in the column of labels of a CSV file where a row is a mean over them."""
FACTS = ("task", "model", "policy", "weights", "leads", "label")
"""Columns that a row of a CSV file begins with."""
COUNTS = ("labels", "patients", "positives", "negatives")
QUESTIONS: Mapping[str, Sequence[Callable[[], Question]]] = {
    "calibration": (Calibration,),
    "operating": (Operating, NetBenefit),
}
"""Report -> what it reads of labels."""
GREY = "#999999"
Shown = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Line:
    """A row of the main table, and what it answers to a question."""

    label: str
    """Of its column."""
    facts: Shown
    """What a row of a CSV file begins with, its status, and why it has no score."""
    repeats: Repeats
    """Nothing where the row has no score."""
    there: There | None = None
    """None where it has no score."""
    numbers: Mapping[str, Columns]
    """By key; nothing where it has no score."""

    @property
    def leads(self) -> str:
        """As typed."""
        return str(self.facts["leads"])

    def of_label(self, key: str, place: int) -> Shown:
        """Numbers of a label; at 0 of their mean."""
        return {name: values[place] for name, values in self.numbers[key].items()}


@dataclass(frozen=True, kw_only=True)
class OfTask:
    """The rows of a task."""

    place: int
    """Among the tasks of the study, from 1; 0 where it is the only one."""
    title: str
    lines: Sequence[Line]
    shared: Shared

    def file(self, name: str) -> str:
        """What a figure of this task is called."""
        return f"{name}_{self.place}" if self.place else name

    @property
    def on_page(self) -> Sequence[Line]:
        """Rows for the page: those at a number of leads; named leads stand in the CSV file, unless
        there is nothing else. None where no label has a number, which the notes say.
        """
        if not any(self.shared.values()):
            return []
        drawn = [line for line in self.lines if line.leads.isdigit()]
        return drawn if any(line.leads != FULL for line in drawn) else self.lines

    @property
    def ends(self) -> list[str]:
        """Lead settings of a figure: all leads and the fewest, as typed."""
        typed = sorted(
            dict.fromkeys(line.leads for line in self.lines if line.repeats),
            key=lambda leads: (not leads.isdigit(), leads_of(leads)[0]),
        )
        drawn = [leads for leads in typed if leads.isdigit()] or typed
        return list(dict.fromkeys([*drawn[-1:], *drawn[:1]]))

    def at(self, leads: Sequence[str]) -> list[Line]:
        """Its rows at these settings that have a score, setting by setting."""
        return [o for typed in leads for o in self.lines if o.leads == typed and o.repeats]

    def mean(self, line: Line, key: str) -> Shown | None:
        """Of the labels that every row has; None where this row has not all of them."""
        if not self.shared[key] or not line.numbers.get(key):
            return None
        made = line.of_label(key, 0)
        return made if any(value is not None for value in made.values()) else None

    def rows(self, line: Line, key: str, **more: Any) -> Iterator[Shown]:
        """Of a CSV file: the mean of a row of the main table, then its labels. more: other columns
        of them.
        """
        row = {**line.facts, "label": MEAN, **more}
        if line.there is None:
            yield row
            return
        mean, unmet = self.mean(line, key), line.there.unmet[key]
        if mean:
            yield row | {"labels": len(self.shared[key])} | mean
        else:
            known = (why for why, rare in zip(unmet, line.there.lacking) if why and not rare)
            yield row | nothing(next(known, NONE_KNOWN))
        for place, (name, why) in enumerate(zip(line.there.names, unmet)):
            row = {**line.facts, "label": name, **more, **line.there.counts(place)}
            yield row | (nothing(why) if why else line.of_label(key, place + 1))

    def left_out(self, key: str) -> dict[str, str]:
        """Label -> why it has no number in some row, of those that are not too rare."""
        made: dict[str, str] = {}
        for there in self._there:
            every = zip(there.names, there.unmet[key], there.lacking)
            made |= {name: why for name, why, rare in every if why and not rare}
        return made

    @property
    def _there(self) -> list[There]:
        return [line.there for line in self.lines if line.there is not None]

    @property
    def too_rare(self) -> list[str]:
        """Which labels are left out of everything, in a sentence."""
        rare = dict.fromkeys(n for t in self._there for n, w in zip(t.names, t.lacking) if w)
        few = f"fewer than {LEAST} patients with the label or without it"
        return [f"{self.title}: left out {listed(list(rare))}: {few}."] if rare else []


def tasks(study: Study, wanted: ByLabel) -> list[OfTask]:
    """Each task of a study; nothing where none has a row with a score."""
    own = _lines(study)
    if not any(line.repeats for line in own):
        return []
    titles, made = titles_of(study), []
    scored = [[o.repeats for o in own if o.facts["task"] == t and o.repeats] for t in titles]
    precompute.labels(_questions(study, wanted), scored, study.stage)
    for place, (task, title) in enumerate(titles.items(), 1):
        mine = [
            replace(line, there=wanted.there(line.repeats)) if line.repeats else line
            for line in own
            if line.facts["task"] == task
        ]
        shared = wanted.question.shared([o.there for o in mine if o.there is not None])
        mine = [
            replace(o, numbers=wanted.numbers(o.repeats, shared)) if o.repeats else o for o in mine
        ]
        number = place if len(titles) > 1 else 0
        made.append(OfTask(place=number, title=title, lines=mine, shared=shared))
    return made


def _lines(study: Study) -> list[Line]:
    """The rows of a study's first metric, in its order."""
    heads, why, made = {head.names: head for head in columns(study)}, reasons(study), []
    for row in study.main[study.main["metric"] == study.metric].to_dict("records"):
        facts = {name: row[name] for name in ("task", "model", "policy", "weights", "leads")}
        task, model, policy, _, leads = facts.values()
        status, whole = row["status"], row["status"] == "ok"
        reason = "" if whole else why.get((task, model, leads, policy), status)
        cells = study.finished.get((task, model, policy, leads), [])
        made.append(
            Line(
                label=heads[model, policy].label,
                facts=facts | {"status": status, "reason": reason},
                repeats=repeats_of(cells) if whole else [],
                numbers={},
            )
        )
    return made


def _questions(study: Study, wanted: ByLabel) -> list[ByLabel]:
    """What is read now, and what is read later of the same rows."""
    every = [one() for report in QUESTIONS if report in study.together for one in QUESTIONS[report]]
    others = [one for one in every if one.name != wanted.question.name]
    return [wanted, *(replace(wanted, question=one) for one in others)]


NONE_KNOWN = f"no label has {LEAST} patients with it and {LEAST} without"
"""Why a mean over labels has no number."""


def nothing(reason: str) -> dict[str, str]:
    """Status and reason of a label, or a mean over labels, that has no number."""
    return {"status": "left out", "reason": reason}


def listed(names: Sequence[str], most: int = 12) -> str:
    """Names, the first of many."""
    more = len(names) - most
    return enumerated(names) if more <= 0 else f"{', '.join(names[:most])} and {more} more"


def gone(own: Iterable[Line]) -> str:
    """Rows that a figure leaves out, in a sentence; "" where there is none."""
    lost = [f"{o.label} at {o.leads} ({o.facts['status']})" for o in own if not o.repeats]
    return f" Left out: {listed(lost, 6)}." if lost else ""


def with_ends(name: str) -> tuple[str, str, str]:
    """The columns of a number and of the ends of its interval."""
    return name, f"{name}_low", f"{name}_high"


def on_page(made: Sequence[OfTask], rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of a CSV file that a table prints: means over labels."""
    shown = {(line.facts["task"], line.leads) for of in made for line in of.on_page}
    printed = [
        label == MEAN and (task, leads) in shown
        for task, leads, label in zip(rows["task"], rows["leads"], rows["label"])
    ]
    return rows[printed]


def first_columns(study: Study) -> list[Column]:
    """What a table of means over labels begins with."""

    def labels(row: Row) -> Any:
        return row["status"] if row["labels"] is None else row["labels"]

    return [
        task_column(study),
        Column("leads", "Leads", on_page=setting_words),
        model_column(study),
        Column("labels", "Labels", "number", cell=labels),
    ]


def by_column(
    rows: Sequence[Mapping[str, Any]], heads: Sequence[Head]
) -> list[tuple[int, list[Mapping[str, Any]]]]:
    """The places of the columns that have rows, each with its rows."""
    of: dict[int, list[Mapping[str, Any]]] = {}
    places = {head.names: at for at, head in enumerate(heads)}
    for row in rows:
        of.setdefault(places[row["model"], row["policy"]], []).append(row)
    return sorted(of.items())


def legend(heads: Sequence[Head], drawn: Iterable[tuple[int, object]]) -> list[Any]:
    """The entries of a figure's columns."""
    return entries(heads, (at for at, _ in drawn))


def panels(sheet: "Sheet", leads: Sequence[str], across: str, up: str) -> Any:
    """Axes side by side, one for each lead setting, with their titles."""
    axes = sheet.subplots(1, len(leads), squeeze=False, sharey=True)[0]
    for ax, typed in zip(axes, leads):
        ax.set_title(setting_words(typed))
        ax.set_xlabel(across)
    axes[0].set_ylabel(up)
    return axes
