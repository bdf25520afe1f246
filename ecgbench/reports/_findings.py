"""What the rows of the main table say, in sentences: who is best, whether that could be chance, what skill is kept.

Untrained encoders and synthetic data allow no such sentence. A run of nothing else is told as what it is, with its numbers beside;
in a mixed run they are left out of the comparison, and untrained encoders follow as a reference.
"""

from collections.abc import Sequence

from ecgbench.reports import _facts, _form
from ecgbench.reports._form import Fact
from ecgbench.results.notes import PENDING

MANY = 3
"""With more tasks than this, the sentences count tasks instead of naming each."""

Standing = list[tuple[Fact, Fact]]
"""(column, cell) of one task and setting, the highest score first."""

LEVEL = 0.05
"""Of p after Holm."""


def findings(table: Fact, kept: Sequence[Fact], compared: Sequence[Fact], gaps: Sequence[Fact]) -> list[str]:
    """What the rows say, in sentences; at 12 leads first, then from the fewest random leads."""
    if not any(_standing(table, task, line["leads"]) for task in table["tasks"] for line in task["lines"]):
        return [_nothing(gaps)]
    settings = dict.fromkeys(line["leads"] for task in table["tasks"] for line in task["lines"] if line["leads"].isdigit())
    order = sorted(settings, key=lambda leads: (leads != _facts.FULL, int(leads)))
    shown = order[:3] or list(dict.fromkeys(line["leads"] for task in table["tasks"] for line in task["lines"]))[:3]
    real = [task for task in table["tasks"] if not task["synthetic"]]
    if not real or all(head["random"] for head in table["columns"]):
        return [_harness(table, real), *_numbers(table, shown)]
    if len(real) > MANY:
        return [text for leads in shown if (text := _tally((table, real), leads, compared))]
    said = [text for task in real for leads in shown if (text := _winner((table, task), leads, compared))]
    return said + _kept(table, [row for row in kept if row["task"] in {task["task"] for task in real} and not row["random"]])


def _nothing(gaps: Sequence[Fact]) -> str:
    counts: dict[str, int] = {}
    for gap in gaps:
        counts[gap["word"]] = counts.get(gap["word"], 0) + sum(lost for lost, _ in gap["leads"].values())
    if set(counts) == {PENDING}:
        return f"Nothing is computed yet: {_form.counted(counts[PENDING], 'cell')} to go."
    words = [f"{count:,} {word}" for word, count in counts.items()]
    return f"No cell of this run has a number: {_form.enumerated(words) or 'none was asked for'}."


def _harness(table: Fact, real: Sequence[Fact]) -> str:
    """Why nothing may be read from the numbers of this run."""
    untrained = all(head["random"] for head in table["columns"])
    why = ["every encoder is untrained"] if untrained else []
    why += [] if real else ["all data are synthetic"]
    what = "a published model" if real else "a model or a patient"
    return f"This run shows the harness at work: {_form.enumerated(why)}, so no number here says anything about {what}."


def _numbers(table: Fact, shown: Sequence[str]) -> list[str]:
    if len(table["tasks"]) > MANY:
        return []
    said = []
    for task in table["tasks"]:
        for leads in shown:
            values = [
                f"{head['label']} {_form.points(cell['macro_auroc'])}"
                for head, cell in sorted(_standing(table, task, leads), key=lambda pair: table["columns"].index(pair[0]))
            ]
            if values:
                said.append(f"{_where(table, task, _facts.setting_words(leads))}macro AUROC {', '.join(values)}.")
    return said


def _standing(table: Fact, task: Fact, leads: str) -> Standing:
    here = [(head, cell) for line in task["lines"] if line["leads"] == leads for head, cell in zip(table["columns"], line["cells"])]
    there = [(head, cell) for head, cell in here if cell and cell["macro_auroc"] is not None]
    return sorted(there, key=lambda pair: -pair[1]["macro_auroc"])


def _split(standing: Standing) -> tuple[Standing, Standing]:
    """The trained, and the untrained encoders."""
    return [pair for pair in standing if not pair[0]["random"]], [pair for pair in standing if pair[0]["random"]]


def _winner(where: tuple[Fact, Fact], leads: str, compared: Sequence[Fact]) -> str:
    table, task = where
    trained, untrained = _split(_standing(table, task, leads))
    if not trained:
        return ""
    words = [f"{head['label']} {_form.points(cell['macro_auroc'])}" for head, cell in untrained]
    reference = f" Untrained, for reference: {', '.join(words)}." if words else ""
    said = _where(table, task, _facts.setting_words(leads))
    top = trained[0][1]["macro_auroc"]
    best = [head["label"] for head, cell in trained if cell["macro_auroc"] == top]
    if len(trained) == 1:
        return f"{said}{best[0]} has macro AUROC {_form.points(top)}.{reference}"
    if len(best) > 1:
        return f"{said}{_form.enumerated(best)} are equal at {_form.points(top)}.{reference}"
    best_of = "best of the trained" if untrained else "best"
    return f"{said}{_gap(task, leads, trained, compared, best_of)}{reference}"


def _gap(task: Fact, leads: str, trained: Standing, compared: Sequence[Fact], best_of: str) -> str:
    """The best, and how far it stands above the second."""
    (first, top), (second, following) = trained[:2]
    test = _test(task, leads, (first, second), compared)
    gap = test["difference"] if test else top["macro_auroc"] - following["macro_auroc"]
    said = f"{first['label']} is {best_of} with {_form.points(top['macro_auroc'])}, {_form.points(gap)} points above {second['label']}"
    if test is None or (beyond := _beyond(test)) is None:
        return f"{said}; not tested."
    p = f" (p = {_form.chance(test['p_holm'])} after Holm)" if test["p_holm"] is not None else ""
    return f"{said}, a difference that {'is larger than chance explains' if beyond else 'could be chance'}{p}."


def _beyond(test: Fact) -> bool | None:
    """Whether a difference is larger than chance explains, p after Holm below 0.05: a sentence is picked from many comparisons.

    None where it was not tested. The asterisk of the table follows the paper's rule instead, each interval by itself.
    """
    return None if test["worse"] is None else test["worse"] if test["p_holm"] is None else test["p_holm"] < LEVEL


def _test(task: Fact, leads: str, pair: tuple[Fact, Fact], compared: Sequence[Fact]) -> Fact | None:
    """The paired comparison of two columns, where the first is the best of the row."""
    first, second = ((head["model"], head["policy"]) for head in pair)
    for row in compared:
        if (row["task"], row["leads"], row["model"], row["policy"]) == (task["task"], leads, *second):
            return row if (row["best_model"], row["best_policy"]) == first else None
    return None


def _where(table: Fact, task: Fact, words: str) -> str:
    """The title of the task is said only where there are several."""
    return f"{task['title']}, {words}: " if len(table["tasks"]) > 1 else f"{words[0].upper()}{words[1:]}: "


def _tally(where: tuple[Fact, Sequence[Fact]], leads: str, compared: Sequence[Fact]) -> str:
    table, tasks = where
    wins: dict[str, list[bool]] = {}
    contests = 0
    for task in tasks:
        trained, _ = _split(_standing(table, task, leads))
        if len(trained) < 2:
            continue
        contests += 1
        best = [head for head, cell in trained if cell["macro_auroc"] == trained[0][1]["macro_auroc"]]
        tests = [_test(task, leads, (best[0], head), compared) for head, _ in trained[1:]]
        clear = all(test is not None and bool(_beyond(test)) for test in tests)
        for head in best:
            wins.setdefault(head["label"], []).append(clear)
    ordered = sorted(wins.items(), key=lambda item: -len(item[1]))
    words = [f"{name} is best on {len(won)} (on {sum(won)} of them by more than chance explains)" for name, won in ordered]
    return f"{_facts.setting_words(leads).capitalize()}, {_form.counted(contests, 'task')}: {'; '.join(words)}." if words else ""


def _kept(table: Fact, kept: Sequence[Fact]) -> list[str]:
    said = []
    for task in table["tasks"]:
        words = []
        for row in (row for row in kept if row["task"] == task["task"]):
            shares = sorted((int(k["leads"]), k["share"]) for k in row["kept"] if k["leads"].isdigit() and k["share"] is not None)
            if shares:
                parts = [f"{_form.points(share, 0)} % with {_facts.setting_words(str(number))}" for number, share in shares[:2]]
                words.append(f"{row['label']} keeps {_form.enumerated(parts)}")
        if words:
            said.append(f"{_where(table, task, 'of the skill above chance at 12 leads')}{'; '.join(words)}.")
    return said
