"""What a run prints at its end: the opening of its page and the main table."""

from collections.abc import Iterator
from dataclasses import replace

from ecgbench.core.keys import grouped
from ecgbench.core.registry import Room
from ecgbench.core.text import counted, enumerated, visible
from ecgbench.reports._facts import TaskTitle, columns, heads_of, setting_words, tasks
from ecgbench.reports._scores import ranked
from ecgbench.reports._section import Column, Score, Table
from ecgbench.reports._table import NONE, terminal_lines
from ecgbench.reports._text import sure
from ecgbench.results.study import Run


def lines(room: Room, study: Run, width: int | None) -> list[str]:
    """See `reports.summary`."""
    spoken = room.get("verdicts").spoken(study)
    means = enumerated([_labels(study, task) for task in tasks(study)])
    title = f"Macro {study.metrics[study.metric].title} × 100 [95 % interval], mean over {means}"
    tables = [text for part in _parts(_table(study), width) for text in ("", *part)]
    return [visible(text) for text in [*spoken, "", title, *tables]]


def _table(study: Run) -> Table:
    """A row per task and lead setting, a column per model and policy."""
    rows, titles = ranked(study)[study.metric], {task.task: task.title for task in tasks(study)}
    wide = rows.set_index(["task", "leads", "head"])["score"].unstack(sort=False)
    heads, scores = columns(study), []
    for at, weights in sorted(set(zip(rows["head"], rows["weights"]))):
        start = " (random start)" if weights == "random" else ""
        random = " (random weights)" if heads[at].untrained else start
        scores.append(Column(str(at), f"{heads[at].label}{random}", "number", spell=_spelled))
    task = Column("task", spell=titles.__getitem__)
    leads = Column("leads", spell=setting_words)
    wide = wide.reset_index().rename(columns=str)
    return Table(name="summary", rows=wide, columns=[task, leads, *scores])


def _labels(study: Run, task: TaskTitle) -> str:
    """The number of labels that its means are of, for each column where they differ."""
    main, every = study.main, {one.name: one.n_labels for one in study.tasks}[task.task]
    rows = main[(main["task"] == task.task) & (main["metric"] == study.metric)]
    scored = rows[rows["value"].notna()]
    numbers = (scored["n_labels"] - scored["n_undefined"]).astype(int)
    heads = [heads_of(study)[names].label for names in zip(scored["model"], scored["policy"])]
    spans = {
        str(head): " to ".join(map(str, sorted({own.min(), own.max()})))
        for head, own in numbers.groupby(heads, sort=False)
    }
    whose = grouped(spans, spans.__getitem__)
    said = [f"{n} ({enumerated(own)})" if len(whose) > 1 else n for n, own in whose.items()]
    of = f"{enumerated(said or ['0'])} of " if [*whose] != [f"{every}"] else ""
    return f"{of}{counted(every, 'label')} of {task.title}"


def _spelled(score: Score) -> str:
    return NONE if score.value is None else sure(score.value, score.low, score.high)


def _parts(table: Table, width: int | None) -> Iterator[list[str]]:
    """The lines of a table; where they are wider than `width`, of parts of its columns, each with
    task and leads before it.
    """
    task, leads, *scores = table.columns
    while scores:
        number = len(scores)
        while True:
            made = terminal_lines(replace(table, columns=[task, leads, *scores[:number]]))
            if width is None or number == 1 or max(map(len, made)) <= width:
                break
            number -= 1
        yield made
        scores = scores[number:]
