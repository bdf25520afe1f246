"""What the page of a run opens with: a sentence, three numbers and the lead curve of one task.

The sentence is of the trained column that scores highest with the fewest leads, in the first task
of real recordings; where named leads or own recordings are asked for, it says first whether that is
better than guessing. A share of the skill above chance is printed only with its interval, and only
where the score at 12 leads is surely beyond chance.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import Any

import pandas as pd

from ecgbench.core.text import counted, enumerated
from ecgbench.errors import MissingData
from ecgbench.reports import _answer, bracket, points
from ecgbench.reports._facts import FULL, Head, columns, gaps, leads_of, setting_words, tasks
from ecgbench.reports._section import Figure, Opening, Table, Tile, records
from ecgbench.reports._text import sure
from ecgbench.reports.lead_curve import UNDEFINED, curve, draw
from ecgbench.results.joint import Entry, Share, joint
from ecgbench.results.notes import PENDING
from ecgbench.results.study import Study

COLUMNS = ["what", "task", "model", "policy", "leads", "value", "low", "high"]
LEAST = 0.2
"""Of the way from chance to a perfect score (macro AUROC 0.6): a share of less says little."""


@dataclass(frozen=True, kw_only=True)
class _Case:
    """The column and the task that a page opens with."""

    head: Head
    rows: Mapping[str, Mapping[str, Any]]
    """Of 12 leads and of the fewest, where they have a score: of `ranked`, by setting as typed."""
    fewest: str
    """Its setting of the fewest leads; 12 where there is no other."""
    columns: int
    """Columns like it that have a score there."""
    share: Share | None
    """Of its skill above chance, with the fewest leads."""
    on: str
    """Its task, where a run has several."""
    answers: pd.DataFrame
    """Of its task: see `_answer.answers`."""

    @property
    def first(self) -> Mapping[str, Any]:
        """The row of the fewest leads."""
        return self.rows[self.fewest]


def opening(study: Study, rows: pd.DataFrame) -> list[Opening | Table]:
    """Of a study of one metric and its `ranked` rows, with the tables of the numbers it shows."""
    valued = rows[rows["value"].notna()]
    if valued.empty:
        return [Opening(sentence=_nothing(study))]
    case = _case(study, valued)
    drawn, several = curve(study, task=case.first["task"]), bool(case.on)
    harness, first = _harness(valued), len(case.answers) > 0
    said = [_answer.sentence(study, case.answers) if first else "", harness]
    said += [] if harness or first else [_sentence(study, case)]
    figure = Figure(
        name="opening_curve" if several else "lead_curve",
        draw=partial(draw, drawn),
        size=(5.6, 3.8) if several else drawn.size,
        caption="Bars: 95 % intervals over patients." if several else "",
    )
    shown = Opening(
        sentence=" ".join(filter(None, said)),
        about=_about(study, case),
        tiles=list(_tiles(study, case)),
        figure=figure if drawn.rows["leads"].nunique() > 1 else None,
        more="lead_curve" if several else "",
    )
    numbers = Table(
        name="opening", rows=_numbers(study, case), summary="the numbers that the page opens with"
    )
    answer = [_answer.table(study, case.answers)] if len(case.answers) else []
    return [shown, numbers, *answer]


def _case(study: Study, valued: pd.DataFrame) -> _Case:
    """Real recordings before synthetic ones, trained columns before untrained ones; of settings
    those of the fewest leads, random ones before named ones.
    """
    sound = valued[~valued["synthetic"] & ~valued["untrained"]]
    task = (valued if sound.empty else sound)["task"].iloc[0]
    mine = valued[valued["task"] == task]
    mine = mine if mine["untrained"].all() else mine[~mine["untrained"]]
    fewest = min(mine["leads"], key=lambda leads: leads_of(leads)[::-1])
    there = mine[mine["leads"] == fewest]
    higher = study.metrics[study.metric].direction == "higher"
    at = there["value"].idxmax() if higher else there["value"].idxmin()
    own = mine[mine["head"] == there.loc[at, "head"]]
    found = {row["leads"]: row for row in records(own)}
    head = columns(study)[there.loc[at, "head"]]
    share = None
    if fewest != FULL and FULL in found and _skilled(study, found[FULL]):
        share = _kept(study, head, task, fewest)
    titles = {each.task: each.title for each in tasks(study)}
    return _Case(
        head=head,
        rows={leads: found[leads] for leads in (FULL, fewest) if leads in found},
        fewest=fewest,
        columns=len(there),
        share=share,
        on=titles[task] if len(titles) > 1 else "",
        answers=_answer.answers(study, mine),
    )


def _skilled(study: Study, row: Mapping[str, Any]) -> bool:
    """Whether a score is surely far enough from chance for a share of it to be printed."""
    metric = study.metrics[study.metric]
    if metric.chance is None:
        return False
    higher = metric.direction == "higher"
    bound, perfect = (row["low"], metric.range[1]) if higher else (row["high"], metric.range[0])
    return bound is not None and (bound - metric.chance) / (perfect - metric.chance) > LEAST


def _kept(study: Study, head: Head, task: str, leads: str) -> Share | None:
    """None where its predictions are not at hand, or where its interval has no ends."""
    fewer, full = (Entry(*head.names, each) for each in (leads, FULL))
    chance = study.metrics[study.metric].chance
    assert chance is not None
    try:
        share = joint(study, [fewer, full], [task]).share(fewer, full, chance)
    except MissingData:
        return None
    return share if all(map(isfinite, (share.value, share.low, share.high))) else None


def _nothing(study: Study) -> str:
    """Why no cell has a number of the study's metric."""
    counts: Counter[str] = Counter()
    for gap in gaps(study):
        counts[gap.word] += sum(count for count, _ in gap.leads.values())
    if set(counts) == {PENDING}:
        return f"Nothing is computed yet: {counted(counts[PENDING], 'cell')} to go."
    parts = [f"{count:,} {word}" for word, count in counts.items()]
    if scored := int((study.cells["status"] == "ok").sum()):
        title = study.metrics[study.metric].title
        parts.append(f"{scored:,} scored without {title}, since {UNDEFINED}")
    return f"No cell of this run has a number: {enumerated(parts) or 'none was asked for'}."


def _harness(valued: pd.DataFrame) -> str:
    """Why nothing may be read from the numbers of this run; "" where something may."""
    untrained, synthetic = valued["untrained"].all(), valued["synthetic"].all()
    why = ["every encoder that has a number is untrained"] if untrained else []
    why += ["all data are synthetic"] if synthetic else []
    what = "a model or a patient" if synthetic else "a published model"
    return (
        f"This run shows the harness at work: {enumerated(why)}, so no number here says "
        f"anything about {what}."
        if why
        else ""
    )


def _sentence(study: Study, case: _Case) -> str:
    """One that needs no statistics to be read."""
    where, on = setting_words(case.fewest), f" on {case.on}" if case.on else ""
    if case.share:
        share = " ".join(_percent(case.share))
        return f"With {where}, {case.head.label} keeps {share} of its skill above chance{on}."
    title = study.metrics[study.metric].title
    score, *rest = (
        sure(row["value"], row["low"], row["high"]) for row in reversed(list(case.rows.values()))
    )
    full = f"; with {setting_words(FULL)}, {rest[0]}" if rest else ""
    return f"With {where}, {case.head.label} has macro {title} {score}{on}{full}."


def _percent(share: Share) -> tuple[str, str]:
    """`53 %` and `[49, 58]`."""
    return f"{points(share.value, 0)} %", f"[{points(share.low, 0)}, {points(share.high, 0)}]"


def _about(study: Study, case: _Case) -> str:
    metric, sentences = study.metrics[study.metric], []
    if case.share:
        sentences += [_sentence(study, case)] if len(case.answers) else []
        sentences.append(
            f"Skill above chance: how far macro {metric.title} lies from {metric.chance:g}, as a "
            f"share of that distance at {setting_words(FULL)}."
        )
    sentences.append(f"In brackets: 95 % intervals over {_patients(case)}.")
    if case.columns > 1:
        kind = "untrained" if case.head.untrained else "trained"
        best = "highest" if metric.direction == "higher" else "lowest"
        sentences.append(
            f"{case.head.label} has the {best} score of {case.columns} {kind} columns at "
            f"{setting_words(case.fewest)}."
        )
    return " ".join(sentences)


def _patients(case: _Case) -> str:
    number = case.first["n_patients"]
    return "patients" if number is None else counted(number, "test patient")


def _tiles(study: Study, case: _Case) -> Iterator[Tile]:
    """Three numbers of one column: with 12 leads, with the fewest, and what is kept; where that
    is not known, how many patients were tested.
    """
    doubt = ["synthetic"] if case.first["synthetic"] else []
    doubt += ["random weights"] if case.head.untrained else []
    mark, who = f" ({enumerated(doubt)})" if doubt else "", case.head.label
    title = study.metrics[study.metric].title
    for leads, row in case.rows.items():
        interval = bracket(row["low"], row["high"]) or "no interval"
        words = f"macro {title} × 100 of {who}, {setting_words(leads)}{mark}"
        yield Tile(value=points(row["value"]), interval=interval, words=words)
    if case.share:
        value, interval = _percent(case.share)
        words = f"of its skill above chance kept by {who}, {setting_words(case.fewest)}{mark}"
        yield Tile(value=value, interval=interval, words=words)
    elif case.first["n_patients"] is not None:
        number, _, words = _patients(case).partition(" ")
        yield Tile(value=number, interval="", words=words)


def _numbers(study: Study, case: _Case) -> pd.DataFrame:
    """The numbers of the tiles, unrounded."""
    title = study.metrics[study.metric].title
    rows = [{**row, "what": title} for row in case.rows.values()]
    if case.share:
        rows.append({**case.first, "what": "skill kept", **case.share._asdict()})
    return pd.DataFrame(rows, columns=COLUMNS)
