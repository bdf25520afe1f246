"""What the rows of the main table say, in sentences: who is best, whether that could be chance, what skill is kept."""

from typing import Any

from ecgbench.reports import _facts, _form
from ecgbench.reports._form import Fact

MANY = 3
"""With more tasks than this, the sentences count tasks instead of naming each."""


def findings(table: Fact, kept: list[dict[str, Any]]) -> list[str]:
    """What the rows say, in sentences; at 12 leads first, then from the fewest random leads."""
    settings = dict.fromkeys(line["leads"] for task in table["tasks"] for line in task["lines"] if line["leads"].isdigit())
    order = sorted(settings, key=lambda leads: (leads != _facts.FULL, int(leads)))
    shown = order[:3] or list(dict.fromkeys(line["leads"] for task in table["tasks"] for line in task["lines"]))[:3]
    if len(table["tasks"]) > MANY:
        return [text for leads in shown if (text := _tally(table, leads))]
    return [text for task in table["tasks"] for leads in shown if (text := _winner(table, task, leads))] + _kept(table, kept)


def _winner(table: Fact, task: Fact, leads: str) -> str:
    where = _where(table, task, _facts.setting_words(leads))
    here = [(head, cell) for line in task["lines"] if line["leads"] == leads for head, cell in zip(table["columns"], line["cells"])]
    there = sorted(
        ((head, cell) for head, cell in here if cell and cell["macro_auroc"] is not None), key=lambda pair: -pair[1]["macro_auroc"]
    )
    if len(there) < 2:
        return f"{where}{_called(there[0][0])} has macro AUROC {_form.points(there[0][1]['macro_auroc'])}." if there else ""
    best = [pair for pair in there if pair[1]["rank"] == 1]
    if len(best) > 1:
        return f"{where}{_form.enumerated([_called(head) for head, _ in best])} are equal at {_form.points(best[0][1]['macro_auroc'])}."
    (first, top), (second, next_) = there[:2]
    gap = _form.points(top["macro_auroc"] - next_["macro_auroc"])
    said = f"{where}{_called(first)} is best with {_form.points(top['macro_auroc'])}, {gap} points above {_called(second)}"
    if next_["p"] is None and not next_["asterisk"]:
        return f"{said}; not tested."
    p = f" (p = {_form.chance(next_['p_holm'])} after Holm)" if next_["p_holm"] is not None else ""
    return f"{said}, a difference that {'could be chance' if next_['asterisk'] else 'is larger than chance explains'}{p}."


def _where(table: Fact, task: Fact, words: str) -> str:
    """The title of the task is said only where there are several."""
    return f"{task['title']}, {words}: " if len(table["tasks"]) > 1 else f"{words[0].upper()}{words[1:]}: "


def _tally(table: Fact, leads: str) -> str:
    wins: dict[str, list[bool]] = {}
    lines = [
        line for task in table["tasks"] for line in task["lines"] if line["leads"] == leads and any(c and c["rank"] for c in line["cells"])
    ]
    for line in lines:
        others = [cell for cell in line["cells"] if cell and cell["macro_auroc"] is not None and cell["rank"] != 1]
        clear = bool(others) and all(cell["p"] is not None and not cell["asterisk"] for cell in others)
        for head, cell in zip(table["columns"], line["cells"]):
            if cell and cell["rank"] == 1:
                wins.setdefault(_called(head), []).append(clear)
    ordered = sorted(wins.items(), key=lambda item: -len(item[1]))
    words = [f"{name} is best on {len(won)} (on {sum(won)} of them by more than chance explains)" for name, won in ordered]
    return f"{_facts.setting_words(leads).capitalize()}, {_form.counted(len(lines), 'task')}: {'; '.join(words)}." if words else ""


def _kept(table: Fact, kept: list[dict[str, Any]]) -> list[str]:
    said = []
    for task in table["tasks"]:
        words = []
        for row in (row for row in kept if row["task"] == task["task"]):
            shares = sorted((int(k["leads"]), k["share"]) for k in row["kept"] if k["leads"].isdigit() and k["share"] is not None)
            if shares:
                parts = [f"{_form.points(share, 0)} % with {_facts.setting_words(str(number))}" for number, share in shares[:2]]
                words.append(f"{_called(row)} keeps {_form.enumerated(parts)}")
        if words:
            said.append(f"{_where(table, task, 'of the skill above chance at 12 leads')}{'; '.join(words)}.")
    return said


def _called(head: Fact) -> str:
    return head["label"] + (" (random weights)" if head["random"] else "")
