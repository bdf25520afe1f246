"""Checklists: TRIPOD+AI and STARD-AI, item by item, filled from the store as far as it knows.

What the store cannot know is the authors' to answer, and says so. The subjects are in our own
words; the published checklists are the authority.
"""

from dataclasses import replace

from ecgbench.reports import Column, Group, Notes, Part, ReportCard, Row, Section, Table
from ecgbench.reports._checklist_answers import ANSWERS, Answer, dates
from ecgbench.reports._checklist_items import ITEMS, STARD, TRIPOD, Item
from ecgbench.results.study import Study

CARD = ReportCard(
    title="Checklists",
    summary="TRIPOD+AI and STARD-AI, filled from the store as far as it knows",
    reads="run",
    order=95,
    exploratory=False,
)
AUTHORS = "to be answered by the authors"
NAMES = {TRIPOD: "checklist_tripod_ai", STARD: "checklist_stard_ai"}
_STATES = {True: "answered from the store", False: "in part; the authors complete it"}


def sections(study: Study) -> list[Section]:
    """Both checklists, folded."""
    known = {topic: answer(study) for topic, answer in ANSWERS.items()}
    parts: list[Part] = [Notes(_notes(study))]
    for name, file in NAMES.items():
        items = [item for item in ITEMS if item.checklist == name]
        rows = [_row(item, known.get(item.topic)) for item in items]
        table = _table(name, file, rows)
        parts.append(replace(table, formats=("md",)))  # what is folded is on the page alone
        parts.append(Group(name, [replace(table, formats=("csv", "html"))], folded=True))
    return [Section(name="checklists", title="Reporting checklists", short=CARD.title, parts=parts)]


def _row(item: Item, answer: Answer | None) -> Row:
    return {
        "item": item.number,
        "subject": item.subject,
        "answer": answer.text if answer else AUTHORS,
        "state": _STATES[answer.whole] if answer else AUTHORS,
        "evidence": answer.file if answer else "",
    }


def _table(name: str, file: str, rows: list[Row]) -> Table:
    open_ = sum(row["state"] == AUTHORS for row in rows)
    columns = [
        Column("item", "Item"),
        Column("subject", "Subject"),
        Column("answer", "What the store knows"),
        Column("state", "State"),
        Column("evidence", "Evidence"),
    ]
    return Table(
        name=file,
        caption=f"{name}: {len(rows)} subjects, {open_} of them left to the authors.",
        columns=[c for c in columns if any(row[c.name] for row in rows)],
        rows=rows,
    )


def _notes(study: Study) -> list[str]:
    when = dates(study)
    return [
        "Subjects are paraphrased; the published checklists (TRIPOD+AI: BMJ 2024;385:e078378; "
        "STARD-AI: Nature Medicine 2025) are the authority, and the wording of an answer is the "
        "authors'. An answer here says what the store holds, and is no judgement of quality.",
        *([f"The commands of this run began: {when}."] if when else []),
    ]
