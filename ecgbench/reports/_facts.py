"""What several reports of a run share: its scores as a grid of tasks, lead settings and columns, gaps, and comparisons.

Numbers stay fractions; `_text.py` spells them. Ranks are taken on unrounded values.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ecgbench.cards import MetricCard
from ecgbench.ecg.leads import LEADS, LeadSubset
from ecgbench.reports._section import Score
from ecgbench.results.notes import GRAVE, PENDING
from ecgbench.results.study import Study
from ecgbench.text import counted

_WHOLE = {"n_records", "n_patients", "n_labels", "n_undefined", "n", "positives", "seed", "fit_seed", "excluded", "lost"}
"""Columns that count; pandas makes them float where a row has none."""
_FLAGS = ("best", "not_significantly_worse")
FULL = str(len(LEADS))
"""The setting in which nothing is missing, as typed."""
Names = tuple[str, str, str, str]
"""Task, model, leads, policy."""


@dataclass(frozen=True, kw_only=True)
class Head:
    """A column: a model under a policy."""

    model: str
    policy: str
    title: str
    label: str
    """The title, with the policy where the model has several."""
    parameters: int | None
    random: bool
    """Whether its weights are."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One lead setting of a task."""

    leads: str
    scores: Sequence[Score | None]
    """By column; None where nothing was asked for."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """A task."""

    task: str
    title: str
    evaluation_only: bool
    synthetic: bool
    lines: Sequence[Line] = ()


@dataclass(frozen=True, kw_only=True)
class Grid:
    """All scores of a run by one metric."""

    metric: MetricCard
    columns: Sequence[Head]
    tasks: Sequence[Block]
    footnotes: Sequence[str]
    """Why scores are missing; see Score.footnote."""


@dataclass(frozen=True, kw_only=True)
class Gap:
    """Cells without a number that share a reason."""

    task: str
    model: str
    policy: str
    word: str
    """For their status."""
    reason: str
    leads: Mapping[str, tuple[int, int]]
    """Setting as typed -> cells without a number, cells asked for."""


def plain(value: Any) -> Any:
    """A numpy or pandas scalar as Python's own; whatever stands for "missing" as None."""
    value = value.item() if hasattr(value, "item") else value
    return None if value is None or value is pd.NA or value is pd.NaT or value != value else value


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table as dictionaries of plain values; counts are int."""
    names = [str(name) for name in frame.columns]
    rows = [dict(zip(names, map(plain, row))) for row in frame.itertuples(index=False, name=None)]
    for row in rows:
        row |= {name: int(row[name]) for name in _WHOLE & row.keys() if isinstance(row[name], float)}
    return rows


def main_rows(study: Study) -> list[dict[str, Any]]:
    """Study.main as dictionaries: counts are int, flags bool, `leads` str, missing None."""
    rows = records(study.main)
    for row in rows:
        row["leads"] = str(row["leads"])
        row |= {name: bool(row[name]) for name in _FLAGS}
    return rows


def leads_of(typed: str) -> tuple[int, bool]:
    """How many leads a setting measures, and whether they are named (`I+II`) rather than drawn (`2`).

    >>> leads_of("2"), leads_of("I+II")
    ((2, False), (2, True))
    """
    return (int(typed), False) if typed.isdigit() else (len(LeadSubset.parse(typed)), True)


def columns(study: Study) -> list[Head]:
    """One per model x policy in the order asked."""
    rows = main_rows(study)
    pairs = list(dict.fromkeys((row["model"], row["policy"]) for row in rows))
    known = {model.name: model for model in study.models}
    random = {(row["model"], row["policy"]) for row in [*rows, *records(study.cells)] if row["weights"] == "random"}
    several = {model for model, _ in pairs if sum(other == model for other, _ in pairs) > 1}
    heads = []
    for model, policy in pairs:
        about = known.get(model)
        title = about.title if about else model
        label = f"{title} {policy}" if model in several else title
        label += " (own weights)" if about and (about.weights_source or {}).get("own") else ""
        parameters, untrained = plain(about.parameters) if about else None, (model, policy) in random
        heads.append(Head(model=model, policy=policy, title=title, label=label, parameters=parameters, random=untrained))
    return heads


def labels_of(study: Study) -> dict[tuple[str, str], str]:
    """(model, policy) -> label."""
    return {(head.model, head.policy): head.label for head in columns(study)}


def tasks(study: Study) -> list[Block]:
    """Tasks that have rows, in the order of the table, without lines."""
    present = list(dict.fromkeys(study.main["task"]))
    known = {task.name: task for task in study.tasks}
    synthetic = {data.name for data in study.datasets if data.synthetic}
    blocks = []
    for name in [name for name in known if name in present] + [name for name in present if name not in known]:
        about = known.get(name)
        generated = about is not None and about.dataset in synthetic
        title, only = marked(about.title if about else name, generated), bool(about and about.evaluation_only)
        blocks.append(Block(task=name, title=title, evaluation_only=only, synthetic=generated))
    return blocks


def word(status: str, reason: str) -> str:
    """The status of a cell for readers: what nobody has computed yet did not fail."""
    return PENDING if status == "missing" or reason.startswith(PENDING) else status


def gaps(study: Study) -> list[Gap]:
    """Cells without a number, gathered."""
    lost: dict[tuple[str, ...], dict[str, int]] = {}
    asked: dict[tuple[str, ...], int] = {}
    for cell in records(study.of(study.metric).cells):
        whose = (cell["task"], cell["model"], cell["policy"])
        leads, reason = str(cell["leads"]), str(cell["reason"] or "no reason was stored")
        asked[*whose, leads] = asked.get((*whose, leads), 0) + 1
        if cell["status"] != "ok":
            settings = lost.setdefault((*whose, word(cell["status"], reason), reason), {})
            settings[leads] = settings.get(leads, 0) + 1
    return [
        Gap(
            task=task,
            model=model,
            policy=policy,
            word=status,
            reason=reason,
            leads={leads: (count, asked[task, model, policy, leads]) for leads, count in settings.items()},
        )
        for (task, model, policy, status, reason), settings in lost.items()
    ]


def reasons(study: Study) -> dict[Names, str]:
    """Why a row of the table has no number: the distinct reasons of its cells, failures first."""
    texts: dict[Names, list[str]] = {}
    for gap in sorted(gaps(study), key=lambda gap: ("failed", "skipped", PENDING).index(gap.word)):
        for leads in gap.leads:
            text = gap.reason if gap.word == PENDING else f"{gap.word}: {gap.reason}"
            texts.setdefault((gap.task, gap.model, leads, gap.policy), []).append(text)
    return {names: "; ".join(each) for names, each in texts.items()}


def grids(study: Study) -> dict[str, Grid]:
    """The grid of each metric."""
    return {name: grid(study, name) for name in study.metrics}


def grid(study: Study, metric: str = "") -> Grid:
    """All scores by one metric, the first of the study if left out, ranked."""
    study, card = study.of(metric or study.metric), study.metrics[metric or study.metric]
    heads, rows, why = columns(study), main_rows(study), reasons(study)
    footnotes: list[str] = []
    blocks = []
    for block in tasks(study):
        mine = [row for row in rows if row["task"] == block.task]
        lines = []
        for leads in dict.fromkeys(row["leads"] for row in mine):
            asked = {(row["model"], row["policy"]): row for row in mine if row["leads"] == leads}
            in_order = [asked.get((head.model, head.policy)) for head in heads]
            lines.append(Line(leads=leads, scores=_scores(in_order, why, footnotes, card)))
        blocks.append(Block(**{**vars(block), "lines": lines}))
    return Grid(metric=card, columns=heads, tasks=blocks, footnotes=footnotes)


def _scores(rows: list[dict[str, Any] | None], why: Mapping[Names, str], footnotes: list[str], metric: MetricCard) -> list[Score | None]:
    rank = ranks((row["value"] if row and row["status"] == "ok" else None for row in rows), metric.direction)
    return [None if row is None else _score(row, place, why, footnotes) for row, place in zip(rows, rank)]


def _score(row: dict[str, Any], rank: int | None, why: Mapping[Names, str], footnotes: list[str]) -> Score:
    ok, footnote = row["status"] == "ok", None
    if not ok:
        text = why.get((row["task"], row["model"], row["leads"], row["policy"]), row["status"])
        footnotes += [] if text in footnotes else [text]
        footnote = footnotes.index(text) + 1
    star = ok and row["not_significantly_worse"] and rank is not None and not (row["best"] or rank == 1)
    spread = {name: row[name] for name in ("std", "low", "high")}
    return Score(value=row["value"], rank=rank, star=star, footnote=footnote, **spread)


def ranks(values: Iterable[float | None], direction: str = "higher") -> list[int | None]:
    """1, 2, 3 for the three best distinct values, equal values alike.

    None for the rest, and for all if nothing is compared.

    >>> ranks([0.94, 0.95, None, 0.95, 0.90, 0.80])
    [2, 1, None, 1, 3, None]
    >>> ranks([0.9, None])
    [None, None]
    """
    values = list(values)
    there = [value for value in values if value is not None]
    top = sorted(set(there), reverse=direction == "higher")[:3] if len(there) > 1 else []
    return [top.index(value) + 1 if value in top else None for value in values]


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What a column keeps of its skill above chance in one task."""

    task: str
    head: Head
    full: float
    """Its score at 12 leads."""
    shares: Mapping[str, float | None]
    """Lead setting as typed -> (score - chance) / (score at 12 leads - chance).

    None where the interval at 12 leads reaches chance: a share of nothing says nothing."""


def survival(table: Grid) -> list[Kept]:
    """What is kept of the skill above chance, per task, column and lead setting; nothing where chance is not known."""
    rows = []
    for block in table.tasks if table.metric.chance is not None else ():
        full = next((line for line in block.lines if line.leads == FULL), None)
        others = [line for line in block.lines if line.leads != FULL]
        for at, head in enumerate(table.columns):
            base = full.scores[at] if full else None
            if base is not None and base.value is not None and others:
                shares = {line.leads: _share(line.scores[at], base, table.metric) for line in others}
                rows.append(Kept(task=block.task, head=head, full=base.value, shares=shares))
    return rows


def _share(score: Score | None, base: Score, metric: MetricCard) -> float | None:
    assert base.value is not None
    assert metric.chance is not None
    bound, sign = (base.low, 1) if metric.direction == "higher" else (base.high, -1)
    least = min(sign * (value - metric.chance) for value in (base.value, bound) if value is not None)
    if score is None or score.value is None or least <= 0:
        return None
    return float((score.value - metric.chance) / (base.value - metric.chance))


@dataclass(frozen=True, kw_only=True)
class Compared:
    """The best of a task and lead setting against another column; fractions."""

    task: str
    leads: str
    column: tuple[str, str]
    """Model and policy of the other; likewise `best`."""
    best: tuple[str, str]
    difference: float
    low: float | None
    high: float | None
    p: float | None
    p_holm: float | None
    n_patients: int | None

    @property
    def worse(self) -> bool | None:
        """The paper's verdict: whether the interval of the difference leaves out 0; None where there is no interval."""
        return None if self.low is None or self.high is None else not self.low <= 0 <= self.high


def comparisons(study: Study) -> list[Compared]:
    """Study.comparisons, typed."""
    numbers = ("difference", "low", "high", "p", "p_holm", "n_patients")
    return [
        Compared(
            task=row["task"],
            leads=str(row["leads"]),
            column=(row["model"], row["policy"]),
            best=(row["best_model"], row["best_policy"]),
            **{name: row[name] for name in numbers},
        )
        for row in records(study.comparisons)
    ]


def grave(note: str) -> bool:
    """Whether a note is a banner."""
    return note.startswith(tuple(f"{word}: " for word in GRAVE))


def marked(title: str, synthetic: bool) -> str:
    """A title that says it when its data are synthetic.

    >>> marked("Demo (synthetic)", True), marked("Toy", True)
    ('Demo (synthetic)', 'Toy (synthetic)')
    """
    return title if not synthetic or "synthetic" in title.lower() else f"{title} (synthetic)"


def setting_words(typed: str) -> str:
    """A lead setting in words.

    >>> setting_words("1"), setting_words("12"), setting_words("I+II")
    ('1 random lead', '12 leads', 'leads I+II')
    """
    number, named = leads_of(typed)
    if named:
        return f"lead{'s' if number > 1 else ''} {typed}"
    return f"{typed} leads" if typed == FULL else counted(number, "random lead")
