"""What several reports of a run share: rows, columns, tasks, gaps and comparisons; numbers stay
fractions.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ecgbench.ecg.leads import LEADS, LeadSubset
from ecgbench.results.notes import GRAVE, PENDING
from ecgbench.results.study import Study
from ecgbench.text import counted

_WHOLE = {
    "n_records",
    "n_patients",
    "n_labels",
    "n_undefined",
    "n",
    "positives",
    "seed",
    "fit_seed",
    "excluded",
    "lost",
}
"""Columns that count; pandas makes them float where a row has none."""
_FLAGS = ("best", "not_significantly_worse")
FULL = str(len(LEADS))
"""The setting in which nothing is missing, as typed."""


@dataclass(frozen=True, kw_only=True)
class Head:
    """A column: a model under a policy."""

    model: str
    policy: str
    title: str
    label: str
    """The title, with the policy where the model has several."""
    parameters: int | None
    random: bool
    """Whether its weights are."""

    @property
    def names(self) -> tuple[str, str]:
        """Model and policy."""
        return self.model, self.policy


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task that has rows."""

    task: str
    title: str
    evaluation_only: bool
    synthetic: bool


@dataclass(frozen=True, kw_only=True)
class Gap:
    """Cells without a number that share a reason."""

    task: str
    model: str
    policy: str
    word: str
    """For their status."""
    reason: str
    leads: Mapping[str, tuple[int, int]]
    """Setting as typed -> cells without a number, cells asked for."""


def plain(value: Any) -> Any:
    """A numpy or pandas scalar as Python's own; whatever stands for "missing" as None."""
    value = value.item() if hasattr(value, "item") else value
    return None if value is None or value is pd.NA or value is pd.NaT or value != value else value


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table as dictionaries of plain values; counts are int."""
    names = [str(name) for name in frame.columns]
    rows = [dict(zip(names, map(plain, row))) for row in frame.itertuples(index=False, name=None)]
    for row in rows:
        row |= {
            name: int(row[name]) for name in _WHOLE & row.keys() if isinstance(row[name], float)
        }
    return rows


def main_rows(study: Study) -> list[dict[str, Any]]:
    """Study.main as dictionaries: counts are int, flags bool, `leads` str, missing None."""
    rows = records(study.main)
    for row in rows:
        row["leads"] = str(row["leads"])
        row |= {name: bool(row[name]) for name in _FLAGS}
    return rows


def leads_of(typed: str) -> tuple[int, bool]:
    """How many leads a setting measures, and whether they are named (`I+II`) rather than drawn
    (`2`).

    >>> leads_of("2"), leads_of("I+II")
    ((2, False), (2, True))
    """
    return (int(typed), False) if typed.isdigit() else (len(LeadSubset.parse(typed)), True)


def columns(study: Study) -> list[Head]:
    """One per model x policy in the order asked."""
    rows = main_rows(study)
    pairs = list(dict.fromkeys((row["model"], row["policy"]) for row in rows))
    known = {model.name: model for model in study.models}
    random = {
        (row["model"], row["policy"])
        for row in [*rows, *records(study.cells)]
        if row["weights"] == "random"
    }
    several = {model for model, _ in pairs if sum(other == model for other, _ in pairs) > 1}
    heads = []
    for model, policy in pairs:
        facts = known.get(model)
        title = facts.title if facts else model
        label = f"{title} {policy}" if model in several else title
        label += " (own weights)" if facts and (facts.weights_source or {}).get("own") else ""
        parameters, untrained = (
            plain(facts.parameters) if facts else None,
            (model, policy) in random,
        )
        heads.append(
            Head(
                model=model,
                policy=policy,
                title=title,
                label=label,
                parameters=parameters,
                random=untrained,
            )
        )
    return heads


def labels_of(study: Study) -> dict[tuple[str, str], str]:
    """(model, policy) -> label."""
    return {head.names: head.label for head in columns(study)}


def titles_of(study: Study) -> dict[str, str]:
    """Task -> title."""
    return {task.task: task.title for task in tasks(study)}


def tasks(study: Study) -> list[Task]:
    """Tasks that have rows, in the order of the table."""
    present = list(dict.fromkeys(study.main["task"]))
    known = {task.name: task for task in study.tasks}
    synthetic = {data.name for data in study.datasets if data.synthetic}
    listed = []
    for name in [name for name in known if name in present] + [
        name for name in present if name not in known
    ]:
        facts = known.get(name)
        generated = facts is not None and facts.dataset in synthetic
        title, only = (
            marked(facts.title if facts else name, generated),
            bool(facts and facts.evaluation_only),
        )
        listed.append(Task(task=name, title=title, evaluation_only=only, synthetic=generated))
    return listed


def gaps(study: Study) -> list[Gap]:
    """Cells without a number, gathered."""
    lost: dict[tuple[str, ...], dict[str, int]] = {}
    totals: dict[tuple[str, ...], int] = {}
    for cell in records(study.of(study.metric).cells):
        whose = (cell["task"], cell["model"], cell["policy"])
        leads, reason = str(cell["leads"]), str(cell["reason"] or "no reason was stored")
        totals[*whose, leads] = totals.get((*whose, leads), 0) + 1
        if cell["status"] != "ok":
            # what is not computed yet did not fail
            pending = cell["status"] == "missing" or reason.startswith(PENDING)
            settings = lost.setdefault((*whose, PENDING if pending else cell["status"], reason), {})
            settings[leads] = settings.get(leads, 0) + 1
    return [
        Gap(
            task=task,
            model=model,
            policy=policy,
            word=status,
            reason=reason,
            leads={
                leads: (count, totals[task, model, policy, leads])
                for leads, count in settings.items()
            },
        )
        for (task, model, policy, status, reason), settings in lost.items()
    ]


@dataclass(frozen=True, kw_only=True)
class Compared:
    """The best of a task and lead setting against another column; fractions."""

    task: str
    leads: str
    column: tuple[str, str]
    """Model and policy of the other; likewise `best`."""
    best: tuple[str, str]
    difference: float
    low: float | None
    high: float | None
    p: float | None
    p_holm: float | None
    n_patients: int | None

    @property
    def worse(self) -> bool | None:
        """The paper's verdict: whether the interval of the difference leaves out 0; None where
        there is no interval.
        """
        return None if self.low is None or self.high is None else not self.low <= 0 <= self.high


def comparisons(study: Study) -> list[Compared]:
    """Study.comparisons, typed."""
    numbers = ("difference", "low", "high", "p", "p_holm", "n_patients")
    return [
        Compared(
            task=row["task"],
            leads=str(row["leads"]),
            column=(row["model"], row["policy"]),
            best=(row["best_model"], row["best_policy"]),
            **{name: row[name] for name in numbers},
        )
        for row in records(study.comparisons)
    ]


def grave(note: str) -> bool:
    """Whether a note is a banner."""
    return note.startswith(tuple(f"{word}: " for word in GRAVE))


def marked(title: str, synthetic: bool) -> str:
    """A title that says it when its data are synthetic.

    >>> marked("Demo (synthetic)", True), marked("Toy", True)
    ('Demo (synthetic)', 'Toy (synthetic)')
    """
    return title if not synthetic or "synthetic" in title.lower() else f"{title} (synthetic)"


def setting_words(typed: str) -> str:
    """A lead setting in words.

    >>> setting_words("1"), setting_words("12"), setting_words("I+II")
    ('1 random lead', '12 leads', 'leads I+II')
    """
    number, named = leads_of(typed)
    if named:
        return f"lead{'s' if number > 1 else ''} {typed}"
    return f"{typed} leads" if typed == FULL else counted(number, "random lead")
