"""What reports of probabilities share: for each row of the main table and each label, what its
predictions say; and the means over labels.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from ecgbench.core.keys import grouped
from ecgbench.core.text import enumerated
from ecgbench.reports import _facts as facts
from ecgbench.reports._scores import reasons
from ecgbench.reports._section import Column, Row, records
from ecgbench.results.by_label import LEAST, NOT_KNOWN, TOO_RARE, Question
from ecgbench.results.questions import Answer, answers
from ecgbench.results.study import FULL, Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Sheet

MEAN = "mean of labels"
"""What stands in the column of labels of a CSV file where a row is a mean over them."""
FACTS = ("task", "model", "policy", "weights", "leads", "label")
"""Columns that a row of a CSV file begins with."""
COUNTS = ("labels", "patients", "positives", "negatives")
LEFT_OUT = "left out"
"""Status of a label, or a mean over labels, that has no number."""
NONE_KNOWN = f"no label has {LEAST} patients with it and {LEAST} without"
"""Why a mean over labels has no number."""
GREY = "#999999"


def _main(study: Run) -> list[dict[str, Any]]:
    """The rows of the main table by its first metric."""
    names = ["task", "model", "policy", "weights", "leads", "n_leads", "named", "status"]
    main = study.main.loc[study.main["metric"] == study.metric, names]
    return records(main)


def frame(study: Run, kind: type[Question]) -> pd.DataFrame:
    """A row for the mean over labels, then for each label, of each key of a question and each row
    of the main table: FACTS, key, row (its place there), COUNTS, the numbers of the question,
    status and reason. Empty where no row has a score.
    """
    found, why = answers(study, kind), reasons(study)
    made: list[dict[str, Any]] = []
    numbered = grouped(enumerate(_main(study)), lambda each: each[1]["task"])
    for task in facts.titles_of(study):
        for at, row in numbered.get(task, []):
            model, leads, policy, status = (row[n] for n in ("model", "leads", "policy", "status"))
            reason = "" if status == "ok" else why.get((task, model, leads, policy), status)
            answer = found.get((task, model, policy, leads))
            for key in kind.keys:
                made += _rows(row | {"row": at, "reason": reason, "key": key}, answer)
    if not any(row["status"] in ("ok", LEFT_OUT) and "patients" in row for row in made):
        return pd.DataFrame()
    return pd.DataFrame(made).astype(dict.fromkeys(COUNTS, "Int64"))


def _rows(row: dict[str, Any], answer: Answer | None) -> Iterator[dict[str, Any]]:
    """Of a key."""
    mean = row | {"label": MEAN, "labels": None}
    if answer is None:
        yield mean
        return
    there, numbers = answer.labels, answer.numbers[row["key"]]
    unmet, shared = there[row["key"]], len(answer.shared[row["key"]])
    of_mean = {name: values[0] for name, values in numbers.items()}
    if shared and any(value is not None for value in of_mean.values()):
        yield mean | {"labels": shared} | of_mean
    else:
        found = (why for why in unmet if why and not why.endswith((TOO_RARE, NOT_KNOWN)))
        yield mean | {"status": LEFT_OUT, "reason": next(found, NONE_KNOWN)}
    for place, why in enumerate(unmet):
        own = row | {name: there[name][place] for name in ("label", *COUNTS[1:])}
        if why:
            yield own | {"status": LEFT_OUT, "reason": why}
        else:
            yield own | {name: values[place + 1] for name, values in numbers.items()}


def by_task(study: Run, rows: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """The title of each task, what the names of its files end in, and its rows of `frame`."""
    titles = facts.titles_of(study)
    for place, (task, title) in enumerate(titles.items(), 1):
        yield title, f"_{place}" if len(titles) > 1 else "", rows[rows["task"] == task]


def scored(rows: pd.DataFrame) -> pd.Series:
    """Which rows are of a row of the main table that has a score."""
    return rows["status"].isin(["ok", LEFT_OUT])


def ends(rows: pd.DataFrame) -> list[str]:
    """Lead settings of a figure of a task: all leads and the fewest, as typed."""
    there = rows[scored(rows)].drop_duplicates("leads").sort_values("n_leads", kind="stable")
    # named leads where there is nothing else
    typed = list(there.loc[there["named"] == there["named"].min(), "leads"])
    return list(dict.fromkeys([*typed[-1:], *typed[:1]]))


def unmet(rows: pd.DataFrame) -> pd.DataFrame:
    """Those of labels that have no number, and are known and not too rare."""
    rows = rows[(rows["label"] != MEAN) & (rows["status"] == LEFT_OUT)]
    return rows[~rows["reason"].str.endswith((TOO_RARE, NOT_KNOWN))]


def too_rare(title: str, rows: pd.DataFrame) -> list[str]:
    """Which labels are left out of everything, a sentence for each cause."""
    few = f"fewer than {LEAST} patients with the label or without it"
    said = []
    for end, why in ((TOO_RARE, few), (NOT_KNOWN, NOT_KNOWN)):
        if names := rows["label"][rows["reason"].str.endswith(end)].unique().tolist():
            said.append(f"{title}: left out {listed(names)}: {why}.")
    return said


def listed(names: Sequence[str], most: int = 12) -> str:
    """Names, the first of many."""
    more = len(names) - most
    return enumerated(names) if more <= 0 else f"{', '.join(names[:most])} and {more} more"


def missing(study: Run, rows: pd.DataFrame) -> str:
    """Rows of the main table that a figure leaves out, in a sentence; "" where there is none."""
    heads = facts.heads_of(study)
    lost = [
        f"{heads[row['model'], row['policy']].label} at {row['leads']} ({row['status']})"
        for row in rows[~scored(rows)].drop_duplicates("row").to_dict("records")
    ]
    return f" Left out: {listed(lost, 6)}." if lost else ""


def with_ends(name: str) -> tuple[str, str, str]:
    """The columns of a number and of the ends of its interval."""
    return name, f"{name}_low", f"{name}_high"


def on_page(rows: pd.DataFrame) -> pd.DataFrame:
    """Means over labels that a table prints: those at a number of leads; named leads stand in the
    CSV file, unless there is nothing else. None of a task in which no label has a number, which
    the notes say.
    """
    rows = rows[rows["label"] == MEAN]
    known = rows.groupby("task")["labels"].transform("count") > 0
    drawn = ~rows["named"]
    fewer = (drawn & (rows["leads"] != FULL)).groupby(rows["task"]).transform("any")
    return rows[known & (drawn | ~fewer)]


def first_columns(study: Run) -> list[Column]:
    """What a table of means over labels begins with."""

    def labels(row: Row) -> Any:
        return row["status"] if row["labels"] is None else row["labels"]

    return [
        facts.task_column(study),
        facts.LEADS,
        facts.model_column(study),
        Column("labels", kind="number", cell=labels),
    ]


def by_column(study: Run, rows: pd.DataFrame) -> list[tuple[int, pd.DataFrame]]:
    """The places of the columns that have rows, each with its rows."""
    found = [
        (at, rows[(rows["model"] == head.model) & (rows["policy"] == head.policy)])
        for at, head in enumerate(facts.columns(study))
    ]
    return [(at, own) for at, own in found if len(own)]


def legend(study: Run, drawn: Sequence[tuple[int, object]]) -> list[Any]:
    """The entries of a figure's columns."""
    return facts.legend(facts.columns(study), (at for at, _ in drawn))


def panels(sheet: "Sheet", leads: Sequence[str], across: str, up: str) -> Any:
    """Axes side by side, one for each lead setting, with their titles."""
    axes = sheet.subplots(1, len(leads), squeeze=False, sharey=True)[0]
    for ax, typed in zip(axes, leads):
        ax.set_title(facts.setting_words(typed))
        ax.set_xlabel(across)
    axes[0].set_ylabel(up)
    return axes
