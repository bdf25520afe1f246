"""What reports of probabilities share: the rows of the main table, task by task, with what their
cells say of each label.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ecgbench.core.text import enumerated, shortened
from ecgbench.reports._facts import FULL, Head, columns, leads_of, titles_of
from ecgbench.reports._figure import LONGEST
from ecgbench.reports._grid import reasons
from ecgbench.reports._section import Format
from ecgbench.results import ahead
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

MEAN = "mean of labels"
"""What stands in the column of labels of a CSV file where a row is a mean over them."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """A row of the main table."""

    task: str
    head: Head
    leads: str
    weights: str
    status: str
    reason: str
    repeats: Repeats
    """Nothing where the row has no score."""

    @property
    def facts(self) -> dict[str, Any]:
        """What a row of a CSV file begins with."""
        named = {"task": self.task, "model": self.head.model, "policy": self.head.policy}
        named |= {"weights": self.weights, "leads": self.leads}
        return named | {"status": self.status, "reason": self.reason}


FACTS = ("task", "model", "policy", "weights", "leads", "label")
"""Columns that a row of a CSV file begins with."""


QUESTIONS: Mapping[str, Callable[[], Question]] = {
    "calibration": Calibration,
    "decisions": NetBenefit,
    "operating": Operating,
}
"""Report -> what it asks of labels."""


def lines(study: Study) -> list[Line]:
    """The rows of a study's first metric, in its order."""
    heads = {head.names: head for head in columns(study)}
    why, made = reasons(study), []
    main = study.main[study.main["metric"] == study.metric]
    for row in main.to_dict("records"):
        names = row["task"], row["model"], row["leads"], row["policy"]
        cells = study.finished.get((row["task"], row["model"], row["policy"], row["leads"]), [])
        whole = row["status"] == "ok"
        made.append(
            Line(
                task=row["task"],
                head=heads[row["model"], row["policy"]],
                leads=row["leads"],
                weights=row["weights"],
                status=row["status"],
                reason="" if whole else why.get(names, row["status"]),
                repeats=repeats_of(cells) if whole else [],
            )
        )
    return made


@dataclass(frozen=True, kw_only=True)
class OfTask:
    """The rows of a task, and what they answer to a question."""

    place: int
    """Among the tasks of the study, from 1; 0 where it is the only one."""
    title: str
    lines: Sequence[Line]
    there: Sequence[There | None]
    """Of each line; None where it has no score."""
    numbers: Sequence[Mapping[str, Columns]]
    """Of each line; nothing where it has no score."""
    shared: Shared

    def file(self, name: str) -> str:
        """What a figure of this task is called."""
        return f"{name}_{self.place}" if self.place else name

    @property
    def on_page(self) -> list[bool]:
        """Whether each line is shown on the page."""
        there = shown(self.lines, any(self.shared.values()))
        return [line in there for line in self.lines]

    def left_out(self, key: str) -> dict[str, str]:
        """Label -> why it has no number in some row."""
        made: dict[str, str] = {}
        for there in self.there:
            if there is not None:
                made |= {n: why for n, why in zip(there.names, there.unmet[key]) if why}
        return made

    @property
    def too_rare(self) -> Iterator[str]:
        """Which labels are left out of everything, in a sentence."""
        rows = [t for t in self.there if t is not None]
        if rare := list(dict.fromkeys(n for t in rows for n, w in zip(t.names, t.lacking) if w)):
            yield (
                f"{self.title}: left out {listed(rare)}: fewer than {LEAST} patients with the "
                f"label or without it."
            )


def tasks(study: Study, asked: ByLabel) -> Iterator[OfTask]:
    """Each task of a study; nothing where none has a row with a score."""
    own = lines(study)
    if not any(line.repeats for line in own):
        return
    titles = titles_of(study)
    scored = [[one.repeats for one in own if one.task == t and one.repeats] for t in titles]
    ahead.labels(_questions(study, asked), scored, study.stage)
    for place, (task, title) in enumerate(titles.items(), 1):
        mine = [line for line in own if line.task == task]
        there = [asked.there(line.repeats) if line.repeats else None for line in mine]
        means = asked.question.shared([t for t in there if t is not None])
        yield OfTask(
            place=place if len(titles) > 1 else 0,
            title=title,
            lines=mine,
            there=there,
            numbers=[asked.numbers(line.repeats, means) if line.repeats else {} for line in mine],
            shared=means,
        )


def _questions(study: Study, asked: ByLabel) -> list[ByLabel]:
    """What is asked now, and what other reports of the same writing will ask."""
    others = [one() for report, one in QUESTIONS.items() if report in study.together]
    mine = [one for one in others if one.name != asked.question.name]
    return [asked, *(replace(asked, question=one) for one in mine)]


def of_label(columns: Columns, place: int) -> dict[str, float | None]:
    """Numbers of a label; at 0 of their mean."""
    return {name: values[place] for name, values in columns.items()}


def shown(own: Sequence[Line], any_label: bool) -> list[Line]:
    """Rows of a task for the page: those at a number of leads; named leads stand in the CSV file,
    unless there is nothing else. None where no label has a number, which the notes say.
    """
    if not any_label:
        return []
    drawn = [line for line in own if line.leads.isdigit()]
    return drawn if any(line.leads != FULL for line in drawn) else list(own)


def ends(own: Iterable[Line]) -> list[str]:
    """Lead settings of a figure: all leads and the fewest, as typed."""
    typed = sorted(
        dict.fromkeys(line.leads for line in own if line.repeats),
        key=lambda leads: (not leads.isdigit(), leads_of(leads)[0]),
    )
    drawn = [leads for leads in typed if leads.isdigit()] or typed
    return list(dict.fromkeys([*drawn[-1:], *drawn[:1]]))


LEFT_OUT = "left out"
"""Status of a label without a number in a row that has one."""


def nothing(reason: str) -> dict[str, str]:
    """Status and reason of a label, or a mean over labels, that has no number."""
    return {"status": LEFT_OUT, "reason": reason}


def none_known() -> str:
    """Why a mean over labels has no number."""
    return f"no label has {LEAST} patients with it and {LEAST} without"


def listed(names: Sequence[str], most: int = 12) -> str:
    """Names, the first of many."""
    more = len(names) - most
    return enumerated(names) if more <= 0 else f"{', '.join(names[:most])} and {more} more"


def gone(own: Iterable[Line]) -> str:
    """Rows that a figure leaves out, in a sentence; "" where there is none."""
    lost = [
        f"{line.head.label} at {line.leads} ({line.status})" for line in own if not line.repeats
    ]
    return f" Left out: {listed(lost, 6)}." if lost else ""


def legend(head: Head) -> str:
    """What a column is called beside its line in a figure."""
    return shortened(head.label, LONGEST) + (" (random weights)" if head.untrained else "")


def formats(rows: Sequence[object]) -> Sequence[Format]:
    """Where a table is shown: where it has no rows, its numbers alone are written."""
    return ("csv", "md", "tex", "html") if rows else ("csv",)
