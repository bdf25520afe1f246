"""What several reports of a run share: rows, columns, tasks and gaps; numbers stay
fractions.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ecgbench.core.text import counted, shortened
from ecgbench.reports._figure import LONGEST, handle
from ecgbench.reports._section import Column, Table, TableCell, records
from ecgbench.results.study import FULL, Run, once
from ecgbench.study.store import GOES_ON

MODEL = ("model", "policy")
OWN_WEIGHTS = " (own weights)"
PENDING = "not computed yet"
"""The word for cells that nothing was stored for."""


@dataclass(frozen=True, kw_only=True)
class Head:
    """A column: a model under a policy."""

    model: str
    policy: str
    title: str
    label: str
    """The title, with the policy where the model has several."""
    parameters: int | None
    untrained: bool
    """A frozen encoder with random weights; fine-tuned from a random start is trained."""

    @property
    def names(self) -> tuple[str, str]:
        """Model and policy."""
        return self.model, self.policy

    @property
    def mark(self) -> str:
        """The sign behind its title."""
        return "‡" if self.untrained else ""

    @property
    def cell(self) -> TableCell:
        """Its label and its sign, for a table that names it in a row."""
        return TableCell(self.label, self.mark)


@dataclass(frozen=True, kw_only=True)
class TaskTitle:
    """A task that has rows."""

    task: str
    title: str
    evaluation_only: bool
    synthetic: bool

    @property
    def mark(self) -> str:
        """The sign behind its title."""
        return "†" if self.evaluation_only else ""


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


@once
def columns(study: Run) -> list[Head]:
    """One per model x policy in the order asked."""
    known = {model.name: model for model in study.models}
    untrained, pairs = study.untrained, study.columns
    models = Counter(model for model, _ in pairs)
    titled = {model: known[model].title if model in known else model for model in models}
    called = Counter(titled.values())
    heads = []
    for model, policy in pairs:
        facts, title = known.get(model), titled[model]
        title = f"{title} ({model})" if called[title] > 1 else title
        label = f"{title} {policy}" if models[model] > 1 else title
        label += OWN_WEIGHTS if facts and facts.weights_source.get("own") else ""
        heads.append(
            Head(
                model=model,
                policy=policy,
                title=title,
                label=label,
                parameters=facts.parameters if facts else None,
                untrained=(model, policy) in untrained,
            )
        )
    return heads


def heads_of(study: Run) -> dict[tuple[str, str], Head]:
    """(model, policy) -> its column."""
    return {head.names: head for head in columns(study)}


def task_column(study: Run) -> Column:
    """Groups the rows of a table, of which `task` is the name, by the title of the task."""
    titles = titles_of(study)
    return Column("task", kind="group", cell=lambda row: titles[row["task"]])


def model_column(study: Run, names: tuple[str, str] = MODEL) -> Column:
    """Prints the title of a model, with its policy where it has several and the sign of one that is
    untrained. names: the columns of its name and of its policy.
    """
    heads = heads_of(study)
    return Column(names[0], cell=lambda row: heads[row[names[0]], row[names[1]]].cell)


def titles_of(study: Run) -> dict[str, str]:
    """Task -> title."""
    return {task.task: task.title for task in tasks(study)}


@once
def tasks(study: Run) -> list[TaskTitle]:
    """Tasks that have rows, in the order of the table."""
    present = dict.fromkeys(study.main["task"])
    known = {task.name: task for task in study.tasks}
    synthetic = {data.name for data in study.datasets if data.synthetic}
    titled = {name: known[name].title if name in known else name for name in present}
    called, listed = Counter(titled.values()), []
    for name in [name for name in {**known, **present} if name in present]:
        facts = known.get(name)
        generated = facts is not None and facts.dataset in synthetic
        title = marked(titled[name], generated)
        title = f"{title} ({name})" if called[titled[name]] > 1 else title
        only = facts is not None and facts.evaluation_only
        listed.append(TaskTitle(task=name, title=title, evaluation_only=only, synthetic=generated))
    return listed


@once
def gaps(study: Run) -> list[Gap]:
    """Cells without a number, gathered."""
    lost: dict[tuple[str, ...], Counter[str]] = {}
    planned: Counter[tuple[str, ...]] = Counter()
    for cell in records(study.of(study.metric).cells):
        whose = (cell["task"], cell["model"], cell["policy"])
        leads, pending = cell["leads"], cell["status"] == "missing"
        reason = GOES_ON if pending else cell["reason"] or "no reason was stored"
        planned[*whose, leads] += 1
        if cell["status"] != "ok":
            # what is not computed yet did not fail
            word = PENDING if pending else cell["status"]
            lost.setdefault((*whose, word, reason), Counter())[leads] += 1
    return [
        Gap(
            task=task,
            model=model,
            policy=policy,
            word=word,
            reason=reason,
            leads={
                typed: (n, planned[task, model, policy, typed]) for typed, n in settings.items()
            },
        )
        for (task, model, policy, word, reason), settings in lost.items()
    ]


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
    if not typed.isdigit():
        return f"lead{'s' if '+' in typed else ''} {typed}"
    return f"{typed} leads" if typed == FULL else counted(int(typed), "random lead")


LEADS = Column("leads", spell=setting_words)
"""A lead setting, in words: `1` and `I` look alike."""


def grid(study: Run, cells: Mapping[tuple[str, str, int], TableCell], **table: Any) -> Table:
    """A table of marks: tasks and lead settings as typed down, the columns of the run across."""
    titles, heads = titles_of(study), columns(study)
    known, settings = list(titles), list(dict.fromkeys(study.main["leads"]))
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    # a column that lacks a setting must not move it to the end
    for task, leads, at in sorted(cells, key=lambda c: (known.index(c[0]), settings.index(c[1]))):
        cell = cells[task, leads, at]
        row = rows.setdefault((task, leads), {"task": titles[task], "leads": leads})
        where = f"{heads[at].label}, {setting_words(leads)}"
        row[str(at)] = TableCell(cell.text, small=f"{where}: {cell.small}")
    across = [
        Column(str(at), heads[at].label, mark=heads[at].mark)
        for at in sorted({at for *_, at in cells})
    ]
    by_task = [Column("task", kind="group"), LEADS, *across]
    return Table(columns=by_task, rows=list(rows.values()), grid=True, **table)


def legend(heads: Sequence[Head], places: Iterable[int]) -> list[Any]:
    """The entries of a figure for some columns of a run, by their places."""
    random = {True: " (random weights)", False: ""}
    return [
        handle(shortened(heads[at].label, LONGEST) + random[heads[at].untrained], at)
        for at in places
    ]
