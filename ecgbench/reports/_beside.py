"""Our scores beside printed ones, and what differs between the two beside the number."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ecgbench.core.cells import RANDOM
from ecgbench.core.text import counted
from ecgbench.ecg.leads import LEADS
from ecgbench.evaluate import protocols
from ecgbench.published import FMB, METRIC, Printed, Source, printed
from ecgbench.reports._facts import Head, Task, columns, leads_of, main_rows, tasks
from ecgbench.results.facts import DatasetFacts, ModelFacts, TaskFacts
from ecgbench.results.study import Study

OTHER_PROTOCOL = "another protocol"
UNDEFINED = "undefined label"


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A score of ours and the printed one of the same task, model and leads."""

    run: int
    """From 1: the study, then those beside it."""
    protocol: str
    task: Task
    head: Head
    row: Mapping[str, Any]
    """Of Study.main."""
    theirs: Printed
    labels: tuple[int, int] | None
    """Ours and theirs where the numbers of labels differ."""
    differs: tuple[str, ...]
    """What differs besides, in words; nothing where none is known."""

    @property
    def leads(self) -> str:
        """As typed."""
        return str(self.row["leads"])

    @property
    def column(self) -> tuple[int, str, str]:
        """Run, model and policy."""
        return self.run, *self.head.names

    @property
    def ours(self) -> float | None:
        """A fraction; None where the row has no number."""
        return self.row["value"] if self.row["status"] == "ok" else None

    @property
    def difference(self) -> float | None:
        """Ours less theirs."""
        return None if self.ours is None else self.ours - self.theirs.value

    @property
    def comparable(self) -> bool:
        """Whether there is a difference and nothing is known that differs besides."""
        return self.ours is not None and not self.differs and self.labels is None


def pairs(study: Study, source: Source) -> list[Pair]:
    """All pairs of a study and of those beside it: by task, leads and model, then by run."""
    runs = [study.of(METRIC), *(other.of(METRIC) for other in study.beside)]
    found = [pair for at, run in enumerate(runs, 1) for pair in _of_run(at, run, source)]
    orders: list[dict[Any, None]] = [
        dict.fromkeys(pair.task.task for pair in found),
        dict.fromkeys(pair.leads for pair in found),
        dict.fromkeys(pair.head.names for pair in found),
    ]
    places = [{name: at for at, name in enumerate(order)} for order in orders]
    return sorted(
        found,
        key=lambda pair: (
            places[0][pair.task.task],
            places[1][pair.leads],
            places[2][pair.head.names],
        ),
    )


def _of_run(at: int, study: Study, source: Source) -> Iterator[Pair]:
    heads = {head.names: head for head in columns(study)}
    titled = {task.task: task for task in tasks(study)}
    facts = {task.name: task for task in study.tasks}
    protocol = study.provenance.protocol
    for row in main_rows(study):
        for theirs in _printed(source, row, protocol):
            task = facts.get(row["task"])
            yield Pair(
                run=at,
                protocol=protocol,
                task=titled[row["task"]],
                head=heads[row["model"], row["policy"]],
                row=row,
                theirs=theirs,
                labels=_labels(task, source),
                differs=tuple(_differs(study, row, theirs, source)),
            )


def _printed(source: Source, row: Mapping[str, Any], protocol: str) -> list[Printed]:
    """What is printed of a row's task, model and leads, trained as the protocol does.

    What is called fine-tuning and trained the head alone stands beside every protocol; the paper
    has nothing but fine-tuning.
    """
    wanted = "linear" if protocols.is_frozen(protocol) and source.name == FMB else "finetune"
    named = (row["task"], row["model"], row["leads"])
    return [
        score
        for score in printed(source.name)
        if (score.task, score.model, score.leads) == named
        and (score.trained == wanted or score.head_only)
    ]


def _labels(task: TaskFacts | None, source: Source) -> tuple[int, int] | None:
    """Our number of labels and theirs, where they differ."""
    if task is None:
        return None
    theirs = source.labels.get(task.name, task.paper)
    return None if theirs in (None, task.n_labels) else (task.n_labels, int(theirs or 0))


def _differs(
    study: Study, row: Mapping[str, Any], theirs: Printed, source: Source
) -> Iterator[str]:
    task = next((task for task in study.tasks if task.name == row["task"]), None)
    data = next((d for d in study.datasets if task and d.name == task.dataset), None)
    model = next((model for model in study.models if model.name == row["model"]), None)
    if data:
        yield from _records(data)
    if task and task.counted is False:
        yield "labels not counted on the complete release"
    yield from _weights(row, model)
    yield from _training(study, row, theirs, source)
    yield from _feeding(study, row, model, source)
    if study.provenance.absent != "half" and row["n_undefined"]:
        yield counted(row["n_undefined"], UNDEFINED)


def _records(data: DatasetFacts) -> Iterator[str]:
    # what the card leaves out by its rule, the sources leave out too
    there = data.records + sum(data.excluded.values()) + len(data.quarantined)
    left_out = sum(data.left_out.values())
    if data.limit is not None and data.records < data.records_prepared:
        yield f"--limit {data.limit}: {data.records:,} of {data.records_release:,} records"
    elif there + left_out < data.records_release:
        yield f"{data.records:,} of {data.records_release:,} records"
    if left_out:
        yield f"{counted(left_out, 'record')} left out (data.exclude)"
    if data.quarantined:
        yield f"{counted(len(data.quarantined), 'unreadable record')} left out"
    if data.repaired:
        yield f"{counted(data.repaired, 'record')} repaired"
    if data.folds:
        yield f"{data.folds} folds, theirs one split"
    elif data.division:
        yield f"divided otherwise: {data.division}"


def _weights(row: Mapping[str, Any], model: ModelFacts | None) -> Iterator[str]:
    source = model.weights_source if model else {}
    if row["weights"] == RANDOM:
        yield "random weights"
    elif source.get("own"):
        yield "own weights"
    elif row["weights"] != "released" and not source.get("file"):
        yield f"weights of another file: {row['weights']}"


def _training(
    study: Study, row: Mapping[str, Any], theirs: Printed, source: Source
) -> Iterator[str]:
    made = study.provenance
    if theirs.head_only and not protocols.is_frozen(made.protocol):
        yield "theirs the head alone"
    elif made.protocol != ("linear" if theirs.head_only else theirs.trained):
        yield OTHER_PROTOCOL
    if protocols.uses(made.protocol, "epochs") and made.epochs != source.epochs:
        yield f"{counted(made.epochs, 'epoch')}, theirs {source.epochs}"
    fits = [r.cell.fit for r in study.results if r.cell.fit.model == row["model"]]
    if any(fit.shown for fit in fits):
        yield "trained at the leads that are tested, theirs at twelve"
    elif any(fit.policy for fit in fits):
        yield "trained at random leads, theirs at twelve"


def _feeding(
    study: Study, row: Mapping[str, Any], model: ModelFacts | None, source: Source
) -> Iterator[str]:
    made = study.provenance
    contract = model.contract if model else {}
    if made.contract != "paper":
        yield f"contract {made.contract}"
    number, named = leads_of(row["leads"])
    if number == len(LEADS):
        return
    if row["policy"] != contract.get("policy", row["policy"]):
        yield f"policy {row['policy']}, theirs {contract['policy']}"
    if named:
        return
    if made.draw != "record":
        yield "leads drawn in every window"
    if source.draws and len(made.seeds) != source.draws:
        yield f"{counted(len(made.seeds), 'draw')} of leads, theirs {source.draws}"


def mean_differences(found: Sequence[Pair]) -> list[tuple[Pair, float | None, str]]:
    """For each column and lead setting one of its pairs, the mean difference over all tasks of the
    study whose number of labels is theirs, and how many those are or why there is no mean.

    A mean stands only where every such task has a difference and nothing else differs.
    """
    groups: dict[tuple[Any, ...], list[Pair]] = {}
    for pair in found:
        groups.setdefault((*pair.column, pair.leads, pair.theirs.trained), []).append(pair)
    made = []
    for mine in groups.values():
        first = mine[0]
        wanted = {p.task.task for p in found if p.labels is None and p.leads == first.leads}
        mine = [pair for pair in mine if pair.labels is None]
        said = (text for pair in mine for text in pair.differs)
        why = dict.fromkeys(f"{UNDEFINED}s" if UNDEFINED in text else text for text in said)
        for pair in mine:
            if pair.ours is None:
                why[f"{pair.task.title}: {pair.row['status']}"] = None
        if missing := len(wanted) - len(mine):
            why[f"{counted(missing, 'task')} of other columns missing"] = None
        if not wanted:
            why["no task has their number of labels"] = None
        gaps = [pair.difference for pair in mine if pair.difference is not None]
        value = None if why else sum(gaps) / len(gaps)
        made.append((first, value, "; ".join(why) if why else counted(len(gaps), "task")))
    return made
