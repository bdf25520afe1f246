"""Findings: what the rows of the main table say, in sentences: who is best, whether that could be
chance, what skill is kept.

Untrained encoders and synthetic data allow no such sentence. A run of nothing else is called what
it is, with its numbers beside; in a mixed run they are left out of the comparison, and untrained
encoders follow as a reference.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ecgbench.reports import Notes, ReportCard, Section, p_value, points
from ecgbench.reports._facts import FULL, Compared, Gap, Head, comparisons, gaps, setting_words
from ecgbench.reports._grid import Block, Grid, Kept, grid, survival
from ecgbench.results.notes import PENDING
from ecgbench.results.study import Study
from ecgbench.text import counted, enumerated

CARD = ReportCard(
    title="Findings",
    summary="what the rows say: who is best, whether that could be chance, what skill is kept",
    reads="run",
    order=0,
)
MANY = 3
"""With more tasks than this, the sentences count tasks instead of naming each."""
LEVEL = 0.05
"""Of p after Holm."""

Standing = list[tuple[Head, float]]
"""Columns and scores of one task and setting, the best first."""


@dataclass(frozen=True)
class _Table:
    """What the sentences are made of."""

    grid: Grid
    compared: Sequence[Compared]

    @property
    def name(self) -> str:
        return f"macro {self.grid.metric.title}"

    def scores(self, block: Block, leads: str) -> Standing:
        """The columns that have a score, in their order."""
        return [
            (head, score.value)
            for head, score in zip(self.grid.columns, block.lines.get(leads, ()))
            if score and score.value is not None
        ]

    def standing(self, block: Block, leads: str) -> Standing:
        """The columns that have a score, the best first."""
        highest = self.grid.metric.direction == "higher"
        return sorted(self.scores(block, leads), key=lambda pair: pair[1], reverse=highest)

    def where(self, block: Block, rest: str) -> str:
        """The title of the task is said only where there are several."""
        several = len(self.grid.tasks) > 1
        return f"{block.title}, {rest}: " if several else f"{rest[0].upper()}{rest[1:]}: "


def sections(study: Study) -> list[Section]:
    """Sentences for the top of the page."""
    first = study.of(study.metric)
    said = _findings(_Table(grid(first), comparisons(first)), gaps(first))
    return [Section(name="findings", parts=[Notes(said, "findings")])]


def _findings(table: _Table, lost: Sequence[Gap]) -> list[str]:
    """What the rows say; at 12 leads first, then from the fewest random leads."""
    blocks = table.grid.tasks
    settings = list(dict.fromkeys(leads for block in blocks for leads in block.lines))
    if not any(table.scores(block, leads) for block in blocks for leads in settings):
        return [_nothing(lost)]
    counts = sorted(
        (leads for leads in settings if leads.isdigit()),
        key=lambda leads: (leads != FULL, int(leads)),
    )
    shown = (counts or settings)[:3]
    real = [block for block in blocks if not block.synthetic]
    heads = [h for block in blocks for leads in settings for h, _ in table.scores(block, leads)]
    if not real or all(head.untrained for head in heads):
        return [_harness(table.grid, heads, real), *_numbers(table, shown)]
    if len(real) > MANY:
        return [text for leads in shown if (text := _tally(table, real, leads))]
    sentences = [
        text for block in real for leads in shown if (text := _winner(table, block, leads))
    ]
    names = {block.task for block in real}
    return sentences + _kept(
        table, [row for row in survival(table.grid) if row.task in names and not row.head.untrained]
    )


def _nothing(lost: Sequence[Gap]) -> str:
    counts: Counter[str] = Counter()
    for gap in lost:
        counts[gap.word] += sum(count for count, _ in gap.leads.values())
    if set(counts) == {PENDING}:
        return f"Nothing is computed yet: {counted(counts[PENDING], 'cell')} to go."
    parts = [f"{count:,} {word}" for word, count in counts.items()]
    return f"No cell of this run has a number: {enumerated(parts) or 'none was asked for'}."


def _harness(table: Grid, heads: Sequence[Head], real: Sequence[Block]) -> str:
    """Why nothing may be read from the numbers of this run; `heads`: the columns that have one."""
    untrained = all(head.untrained for head in heads)
    which = "" if all(head.untrained for head in table.columns) else " that has a number"
    why = [f"every encoder{which} is untrained"] if untrained else []
    why += [] if real else ["all data are synthetic"]
    what = "a published model" if real else "a model or a patient"
    return (
        f"This run shows the harness at work: {enumerated(why)}, so no number here says "
        f"anything about {what}."
    )


def _numbers(table: _Table, shown: Sequence[str]) -> list[str]:
    sentences = []
    for block in table.grid.tasks if len(table.grid.tasks) <= MANY else ():
        for leads in shown:
            if values := _listed(table.scores(block, leads)):
                place = table.where(block, setting_words(leads))
                sentences.append(f"{place}{table.name} {values}.")
    return sentences


def _listed(scores: Standing) -> str:
    return ", ".join(f"{head.label} {points(value)}" for head, value in scores)


def _split(standing: Standing) -> tuple[Standing, Standing]:
    """The trained, and the untrained encoders."""
    trained = [pair for pair in standing if not pair[0].untrained]
    return trained, [pair for pair in standing if pair[0].untrained]


def _winner(table: _Table, block: Block, leads: str) -> str:
    trained, untrained = _split(table.standing(block, leads))
    if not trained:
        return ""
    reference = f" Untrained, for reference: {_listed(untrained)}." if untrained else ""
    start = table.where(block, setting_words(leads))
    top = trained[0][1]
    best = [head.label for head, value in trained if value == top]
    if len(trained) == 1:
        return f"{start}{best[0]} has {table.name} {points(top)}.{reference}"
    if len(best) > 1:
        return f"{start}{enumerated(best)} are equal at {points(top)}.{reference}"
    best_of = "best of the trained" if untrained else "best"
    return f"{start}{_gap(table, (block.task, leads), trained, best_of)}{reference}"


def _gap(table: _Table, row: tuple[str, str], trained: Standing, best_of: str) -> str:
    """The best, and how far it stands from the second."""
    (first, top), (second, following) = trained[:2]
    test = _test(table, row, first, second)
    gap = abs(test.difference if test else top - following)
    side = "above" if table.grid.metric.direction == "higher" else "below"
    sentence = (
        f"{first.label} is {best_of} with {points(top)}, {points(gap)} points {side} {second.label}"
    )
    if test is None or (beyond := _beyond(test)) is None:
        return f"{sentence}; not tested."
    stated = f"p = {p_value(test.p_holm)}".replace("= <", "< ")
    p = f" ({stated} after Holm)" if test.p_holm is not None else ""
    verdict = "is larger than chance explains" if beyond else "could be chance"
    return f"{sentence}, a difference that {verdict}{p}."


def _beyond(test: Compared) -> bool | None:
    """Whether a difference is larger than chance explains, p after Holm below 0.05: a sentence is
    picked from many comparisons.

    None where it was not tested. The asterisk of the table follows the paper's rule instead, each
    interval by itself.
    """
    if test.worse is None or test.p_holm is None:
        return test.worse
    return test.p_holm < LEVEL


def _test(table: _Table, row: tuple[str, str], first: Head, second: Head) -> Compared | None:
    """The paired comparison of two columns, where the first is the best of the row (task,
    leads).
    """
    wanted = (*row, *first.names, *second.names)
    return next((test for test in table.compared if test.names == wanted), None)


def _tally(table: _Table, blocks: Sequence[Block], leads: str) -> str:
    wins: dict[str, list[bool]] = {}
    contests = 0
    for block in blocks:
        trained, _ = _split(table.standing(block, leads))
        if len(trained) < 2:
            continue
        contests += 1
        best = [head for head, value in trained if value == trained[0][1]]
        tests = [_test(table, (block.task, leads), best[0], head) for head, _ in trained[1:]]
        clear = all(test is not None and bool(_beyond(test)) for test in tests)
        for head in best:
            wins.setdefault(head.label, []).append(clear)
    ordered = sorted(wins.items(), key=lambda item: -len(item[1]))
    parts = [
        f"{name} is best on {len(won)} (on {sum(won)} of them by more than chance explains)"
        for name, won in ordered
    ]
    where = f"{setting_words(leads).capitalize()}, {counted(contests, 'task')}"
    return f"{where}: {'; '.join(parts)}." if parts else ""


def _kept(table: _Table, kept: Sequence[Kept]) -> list[str]:
    sentences = []
    for block in table.grid.tasks:
        parts = []
        for row in (row for row in kept if row.task == block.task):
            known = [leads for leads, share in row.shares.items() if share is not None]
            fewest = sorted(filter(str.isdigit, known), key=int)[:2]
            shown = [f"{points(row.shares[n], 0)} % with {setting_words(n)}" for n in fewest]
            parts += [f"{row.head.label} keeps {enumerated(shown)}"] if shown else []
        if parts:
            place = table.where(block, f"of the skill above chance at {setting_words(FULL)}")
            sentences.append(f"{place}{'; '.join(parts)}.")
    return sentences
