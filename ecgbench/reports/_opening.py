"""What the page of a run opens with: a sentence, three numbers and the lead curve of one task.

The sentence is of the trained column that scores highest with the fewest leads, in the first task
of real recordings. A share of the skill above chance is said only with its interval, and only where
the score at 12 leads is surely beyond chance (`_skill.skilled`).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ecgbench.core.text import counted, enumerated
from ecgbench.reports import bracket, points
from ecgbench.reports._facts import FULL, Gap, Head, leads_of, setting_words
from ecgbench.reports._grid import Block, Grid
from ecgbench.reports._lead_points import UNDEFINED, alone
from ecgbench.reports._section import Numbers, Opening, Row, Score, Tile
from ecgbench.reports._skill import Kept, kept, skilled
from ecgbench.reports._text import sure
from ecgbench.results.notes import PENDING
from ecgbench.results.study import Study

COLUMNS = ("what", "task", "model", "policy", "leads", "value", "low", "high")


@dataclass(frozen=True, kw_only=True)
class _Case:
    """The column and the task that a page opens with."""

    block: Block
    head: Head
    fewest: str
    """Its setting of the fewest leads; 12 where there is no other."""
    rivals: int
    """Columns like it that have a score there too."""
    share: Kept | None

    def score(self, grid: Grid, leads: str) -> Score | None:
        """Its score at a setting."""
        return _score(grid, self.block, self.head, leads)


def opening(study: Study, grid: Grid, lost: Sequence[Gap]) -> tuple[Opening, Numbers]:
    """Of a study of one metric, and the numbers it shows."""
    case = _case(study, grid)
    if case is None:
        return Opening(sentence=_nothing(study, lost)), Numbers(columns=COLUMNS, rows=[])
    shown = Opening(
        sentence=_harness(grid) or _sentence(grid, case),
        about=_about(study, grid, case),
        tiles=list(_tiles(study, grid, case)),
        figure=alone(study, case.block),
        more="lead_curve" if len(grid.tasks) > 1 else "",
    )
    summary = "the numbers that the page opens with"
    return shown, Numbers(columns=COLUMNS, rows=list(_rows(grid, case)), summary=summary)


def _case(study: Study, grid: Grid) -> _Case | None:
    """Real recordings before synthetic ones, trained columns before untrained ones."""
    found = [
        (block.synthetic or head.untrained, block, head)
        for block in grid.tasks
        for head in grid.columns
        if any(_score(grid, block, head, leads) for leads in block.lines)
    ]
    if not found:
        return None
    _, block, _ = min(found, key=lambda each: each[0])
    heads = [h for weak, b, h in found if b is block]
    heads = [head for head in heads if not head.untrained] or heads
    fewest = _fewest(grid, block, heads)
    there = {h.names: s for h in heads if (s := _score(grid, block, h, fewest))}
    sign = 1 if grid.metric.direction == "higher" else -1
    head = max(
        (h for h in heads if h.names in there), key=lambda h: sign * (there[h.names].value or 0.0)
    )
    share = None
    if fewest != FULL and skilled(_score(grid, block, head, FULL), grid.metric):
        share = kept(study, head, block.task, fewest)
    return _Case(block=block, head=head, fewest=fewest, rivals=len(there) - 1, share=share)


def _fewest(grid: Grid, block: Block, heads: Sequence[Head]) -> str:
    """The setting of the fewest leads in which a column has a score, random leads before named
    ones.
    """
    there = [leads for leads in block.lines if any(_score(grid, block, h, leads) for h in heads)]
    return min(there, key=lambda leads: (leads_of(leads)[1], leads_of(leads)[0]))


def _score(grid: Grid, block: Block, head: Head, leads: str) -> Score | None:
    """The score of a column; None where it has none."""
    line = block.lines.get(leads, ())
    score = next((score for of, score in zip(grid.columns, line) if of is head), None)
    return score if score and score.value is not None else None


def _nothing(study: Study, lost: Sequence[Gap]) -> str:
    """Why no cell has a number of the study's metric."""
    counts: Counter[str] = Counter()
    for gap in lost:
        counts[gap.word] += sum(count for count, _ in gap.leads.values())
    if set(counts) == {PENDING}:
        return f"Nothing is computed yet: {counted(counts[PENDING], 'cell')} to go."
    parts = [f"{count:,} {word}" for word, count in counts.items()]
    if scored := int((study.of(study.metric).cells["status"] == "ok").sum()):
        title = study.metrics[study.metric].title
        parts.append(f"{scored:,} scored without {title}, since {UNDEFINED}")
    return f"No cell of this run has a number: {enumerated(parts) or 'none was asked for'}."


def _harness(grid: Grid) -> str:
    """Why nothing may be read from the numbers of this run; "" where something may."""
    heads = {
        head.names: head
        for block in grid.tasks
        for line in block.lines.values()
        for head, score in zip(grid.columns, line)
        if score and score.value is not None
    }
    real = any(not block.synthetic for block in grid.tasks)
    untrained = all(head.untrained for head in heads.values())
    if real and not untrained:
        return ""
    which = "" if all(head.untrained for head in grid.columns) else " that has a number"
    why = [f"every encoder{which} is untrained"] if untrained else []
    why += [] if real else ["all data are synthetic"]
    what = "a published model" if real else "a model or a patient"
    return (
        f"This run shows the harness at work: {enumerated(why)}, so no number here says "
        f"anything about {what}."
    )


def _sentence(grid: Grid, case: _Case) -> str:
    """One that needs no statistics to be read."""
    where = setting_words(case.fewest)
    on = f" on {case.block.title}" if len(grid.tasks) > 1 else ""
    who = case.head.label
    if case.share:
        share = _percent(case.share)
        return f"With {where}, {who} keeps {share} of its skill above chance{on}."
    score, full = (case.score(grid, leads) for leads in (case.fewest, FULL))
    said = f"With {where}, {who} has macro {grid.metric.title} {_text(score)}{on}"
    rest = f"; with {setting_words(FULL)}, {_text(full)}" if full and case.fewest != FULL else ""
    return f"{said}{rest}."


def _percent(share: Kept) -> str:
    """`53 % [49, 58]`."""
    return f"{points(share.value, 0)} % [{points(share.low, 0)}, {points(share.high, 0)}]"


def _text(score: Score | None) -> str:
    return sure(score.value, score.low, score.high) if score else "--"


def _about(study: Study, grid: Grid, case: _Case) -> str:
    title = grid.metric.title
    said = [f"In brackets: 95 % intervals over {_patients(study, case)}."]
    if case.share:
        said.insert(
            0,
            f"Skill above chance: how far macro {title} lies from {grid.metric.chance:g}, the "
            f"value of guessing; all of it is what {setting_words(FULL)} give.",
        )
    if case.rivals:
        kind = "untrained" if case.head.untrained else "trained"
        best = "highest" if grid.metric.direction == "higher" else "lowest"
        said.append(
            f"{case.head.label} has the {best} score of {case.rivals + 1} {kind} columns at "
            f"{setting_words(case.fewest)}."
        )
    return " ".join(said)


def _patients(study: Study, case: _Case) -> str:
    main = study.main
    mine = main[(main["task"] == case.block.task) & (main["leads"] == case.fewest)]
    most = mine["n_patients"].max()
    return "patients" if most != most else counted(int(most), "test patient")


def _tiles(study: Study, grid: Grid, case: _Case) -> Iterator[Tile]:
    """Three numbers of one column: with 12 leads, with the fewest, and what is kept; where that
    cannot be said, how many patients were tested.
    """
    doubt = [
        *(["synthetic"] if case.block.synthetic else []),
        *(["random weights"] if case.head.untrained else []),
    ]
    mark, who = f" ({enumerated(doubt)})" if doubt else "", case.head.label
    for leads in dict.fromkeys([FULL, case.fewest]):
        if score := case.score(grid, leads):
            yield Tile(
                value=points(score.value),
                interval=bracket(score.low, score.high) or "no interval",
                words=f"macro {grid.metric.title} × 100 of {who}, {setting_words(leads)}{mark}",
            )
    if case.share:
        value, interval = _percent(case.share).split(" [")
        words = f"of its skill above chance kept by {who}, {setting_words(case.fewest)}{mark}"
        yield Tile(value=value, interval=f"[{interval}", words=words)
    else:
        number, _, words = _patients(study, case).partition(" ")
        if words:
            yield Tile(value=number, interval="", words=words)


def _rows(grid: Grid, case: _Case) -> Iterator[Row]:
    """The numbers of the tiles, unrounded."""
    model, policy = case.head.names
    of = {"task": case.block.task, "model": model, "policy": policy}
    for leads in dict.fromkeys([FULL, case.fewest]):
        if score := case.score(grid, leads):
            ends = {"value": score.value, "low": score.low, "high": score.high}
            yield of | {"what": grid.metric.title, "leads": leads} | ends
    if case.share:
        yield of | {"what": "skill kept", "leads": case.fewest} | vars(case.share)
