"""Whether a model is better than guessing with named leads, or in own recordings: a sentence, and a
table by diagnosis.

results/guessing.py defines the three answers.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from ecgbench.core.text import enumerated
from ecgbench.errors import MissingData
from ecgbench.reports import _facts as facts
from ecgbench.reports._predicted import listed
from ecgbench.reports._section import Column, Row, Table, records
from ecgbench.reports._text import points, sure
from ecgbench.reports.labels import full_names, label_scores
from ecgbench.results.compare import LEAST_PATIENTS
from ecgbench.results.guessing import ANSWERS, BETTER, CHANCE, MACRO, NOT, OPEN, graded
from ecgbench.results.joint import Entry, joint
from ecgbench.results.study import Study

MOST = 40
"""Rows beyond which the table shows all diagnoses together alone."""
NAMED = 4
"""Sets of leads of one answer beyond which the sentence counts them."""
COLUMNS = [
    *("task", "leads", "model", "policy", "label", "name", "patients", "positives"),
    *("value", "low", "high", "answer", "needed"),
]
_DEFINED = (
    "Better than guessing: the 95 % interval of the AUROC lies above 50. Not better: it ends below "
    f"60. Cannot be told: neither, or fewer than {LEAST_PATIENTS} test patients. Each interval is "
    "95 % by itself: of 40 diagnoses that a model cannot find, one looks better than guessing by "
    "chance, and more where the best of several models is shown."
)
_NEEDED = (
    " The number of patients that it takes gives an answer in 4 of 5 studies, if the AUROC and the "
    "share of patients with the diagnosis are as found here."
)


def answers(study: Study, rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of answer.csv: of the best column at each set of named leads (in own recordings at each
    setting) the macro AUROC, then each label. Empty where there is none.

    rows: of `ranked`, with a value, of one task.
    """
    data = {t.name: t.dataset for t in study.tasks}.get(rows["task"].iloc[0])
    own = any(d.name == data and d.licence == "own recordings" for d in study.datasets)
    named = [own or facts.leads_of(typed)[1] for typed in rows["leads"]]
    rows = rows[np.array(named) & (study.metrics[study.metric].chance == CHANCE)]
    best = rows.loc[rows.groupby("leads", sort=False)["value"].idxmax()]
    labels = label_scores(study) if len(best) else best
    made = [graded(one) for row in records(best) for one in _of_setting(study, row, labels)]
    return pd.DataFrame(made, columns=COLUMNS, dtype=object)


def _of_setting(study: Study, row: Row, labels: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """The macro of a row of the main table, then each label where there are several.

    labels: of `label_scores`.
    """
    about = {name: row[name] for name in COLUMNS[:4]} | {"patients": row["n_patients"] or 0}
    yield (
        about
        | {n: row[n] for n in ("value", "low", "high")}
        | {"label": MACRO, "name": "all together"}
    )
    mine = labels[(labels[COLUMNS[:4]] == [row[n] for n in COLUMNS[:4]]).all(axis=1)]
    names, folds = full_names(row["task"]), _over_folds(study, row)
    for own in records(mine) if len(mine) > 1 else ():
        label = own["label"]
        yield about | own | {"name": names.get(label, label)} | folds.get(label, {})


def _over_folds(study: Study, row: Row) -> dict[str, dict[str, float]]:
    """Label -> its interval over the folds of a cross-validation, each of other patients; nothing
    where there is one test set.
    """
    entry = Entry(row["model"], row["policy"], row["leads"])
    if len({r.cell.fit.fold for r in study.finished.get((row["task"], *entry), [])}) < 2:
        return {}
    try:
        (group,) = joint(study, [entry], [row["task"]]).groups
    except MissingData:
        return {}
    return {
        name: group.placed.label_interval(0, k)._asdict() for k, name in enumerate(group.label_names)
    }


def sentence(study: Study, found: pd.DataFrame) -> str:
    """The answer of all diagnoses together; of one set of leads by diagnosis too."""
    macro, labels = found[found["label"] == MACRO], found[found["label"] != MACRO]
    if len(macro) > 1:
        named = macro["leads"].map(lambda x: x if facts.leads_of(x)[1] else facts.setting_words(x))
        sets = {answer: named[macro["answer"] == answer].tolist() for answer in ANSWERS}
        names, on = {_who(study, row) for row in records(macro)}, _on(study, macro["task"].iloc[0])
        who = f"the best of {enumerated(sorted(names))}" if len(names) > 1 else names.pop()
        if len(sets[OPEN]) == len(macro):
            none = f"With none of the {len(macro)} sets of leads{on}"
            return f"{none} can it be told whether {who} is {BETTER}."
        counts = {a: enumerated(own) if len(own) <= NAMED else len(own) for a, own in sets.items()}
        clauses = [f"is {BETTER} with {counts[BETTER] or 'none'}"]
        clauses += [f"with {counts[OPEN]} it {OPEN}"] if counts[OPEN] else []
        clauses += [f"with {counts[NOT]} it is not"] if counts[NOT] else []
        return f"Of {len(macro)} sets of leads{on}, {who} {'; '.join(clauses)}."
    clauses = [_clause(study, row) for row in records(macro)]
    if len(labels):
        by_answer = [(a, labels.loc[labels["answer"] == a, "name"].tolist()) for a in ANSWERS]
        parts = "; ".join(f"{answer}: {listed(own, 6)}" for answer, own in by_answer if own)
        clauses.append(f"By diagnosis, {parts}.")
    return " ".join(clauses)


def _on(study: Study, task: str) -> str:
    """The task, where a run has several or its data are synthetic."""
    (title,) = (t.title for t in facts.tasks(study) if t.task == task)
    return f" on {title}" if len(facts.tasks(study)) > 1 or "synthetic" in title.lower() else ""


def _clause(study: Study, row: Row) -> str:
    where, who = facts.setting_words(row["leads"]), _who(study, row)
    where = f"With {where}{_on(study, row['task'])}, "
    score = f"macro {study.metrics[study.metric].title} {sure(*(row[n] for n in COLUMNS[8:11]))}"
    if row["answer"] == OPEN:
        cannot = (
            f"it cannot be told with these {row['patients']} patients whether {who} is {BETTER}"
        )
        return f"{where}{cannot}: {score}{_enough(row)}."
    by = f", by {points(row['value'] - CHANCE)} points" if row["answer"] == BETTER else ""
    return f"{where}{who} is {row['answer']}{by}: {score}."


def _who(study: Study, row: Row) -> str:
    head = facts.heads_of(study)[row["model"], row["policy"]]
    return head.label + (" (random weights)" if head.untrained else "")


def _enough(row: Row) -> str:
    """How many patients would tell, to two digits."""
    number = row["needed"]
    with_it = "" if row["label"] == MACRO else " with it"
    return f"; it takes about {float(f'{number:.2g}'):,.0f}{with_it}" if number else ""


def table(study: Study, found: pd.DataFrame) -> Table:
    """A row per set of leads and diagnosis, or per set alone where that would be many."""
    few = len(found) <= MOST
    shown = found if few else found[found["label"] == MACRO]
    needed = _NEEDED if any(map(_enough, records(shown))) else ""
    where = Column(
        "leads",
        "Leads",
        "group" if few else "text",
        cell=lambda row: f"{facts.setting_words(row['leads'])}: {_who(study, row)}",
    )
    by = [Column("name", "Diagnosis"), Column("positives", "With it", "number", note="records")]
    return Table(
        name="answer",
        columns=[
            where,
            *(by if few else ()),
            facts.estimate_column("AUROC × 100", ("value", "low", "high")),
            Column("answer", "Answer", cell=lambda row: row["answer"] + _enough(row)),
        ],
        rows=shown,
        numbers=found,
        notes=[_DEFINED + needed + ("" if few else " answer.csv has each diagnosis.")],
        summary="one row per set of leads and diagnosis: whether it is better than guessing",
        formats=("csv", "html"),
    )
