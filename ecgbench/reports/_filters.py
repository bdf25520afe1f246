"""What a row or a column of the page is about, so that one filter acts on all tables: it
is read from the words they show.
"""

from collections.abc import Iterable, Iterator

from markupsafe import Markup

from ecgbench.reports._facts import columns, setting_words, titles_of
from ecgbench.reports._section import SIGNS, Column, Filters, Row
from ecgbench.reports._table import plain
from ecgbench.results.study import Run

_MODEL = ("model", "first")
"""Columns of a table that name a column of the run."""


def filters(study: Run) -> Filters:
    """Of a run."""
    heads = columns(study)
    models = list(dict.fromkeys(head.title for head in heads))
    policies = list(dict.fromkeys(head.policy for head in heads))
    places = [(models.index(head.title), policies.index(head.policy)) for head in heads]
    return Filters(
        tasks=list(dict.fromkeys(titles_of(study).values())),
        models=models,
        policies=policies,
        leads=list(dict.fromkeys(study.main["leads"])),
        columns=dict(zip((head.label for head in heads), places)),
        series=places,
    )


def of_row(by: Filters | None, row: Row) -> Markup:
    """Attributes of a row of a table."""
    return _attributes(_row(by, row)) if by else Markup("")


def of_column(by: Filters | None, column: Column) -> Markup:
    """Attributes of a column of a table that is a column of the run, or a lead setting."""
    return _attributes(_words(by, column.of or column.title)) if by else Markup("")


def of_series(by: Filters | None, at: int) -> Markup:
    """Attributes of what a figure draws of a column of the run, by the place of the column."""
    if by is None or at >= len(by.series):
        return Markup("")
    return _attributes(zip("mp", by.series[at]))


def _row(by: Filters, row: Row) -> Iterator[tuple[str, int]]:
    yield from _task(by, plain(row.get("task", "")))
    for name in _MODEL:
        yield from _head(by, plain(row.get(name, "")))
    yield from _leads(by, plain(row.get("leads", "")))


def _words(by: Filters, words: str) -> Iterator[tuple[str, int]]:
    words = words.rstrip("".join(SIGNS))
    yield from _head(by, words)
    yield from _leads(by, words)


def _head(by: Filters, label: str) -> Iterator[tuple[str, int]]:
    if label in by.columns:
        yield from zip("mp", by.columns[label])


def _leads(by: Filters, words: str) -> Iterator[tuple[str, int]]:
    """A setting as typed, or in words."""
    for at, typed in enumerate(by.leads):
        if words in (typed, setting_words(typed)):
            yield "l", at


def _task(by: Filters, task: str) -> Iterator[tuple[str, int]]:
    if task in by.tasks:
        yield "t", list(by.tasks).index(task)


def _attributes(found: Iterable[tuple[str, int]]) -> Markup:
    return Markup("").join(Markup(' data-{}="{}"').format(*pair) for pair in found)
