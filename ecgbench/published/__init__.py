"""What others have printed, as reference data: the tables of the paper that introduced LAEF, and
the scores that the reference benchmark published at 12 leads.

paper/ is "LAEF: A Lead-Agnostic ECG Foundation Model Towards Point-of-Care Diagnostics" (E. Coppola
et al.), read from its LaTeX source: main.csv (Table 1), extended.csv (all eight models),
lead_i_ii.csv (leads I and II), ablations.csv and cost.csv. AUROC x 100 as printed, with the sd over
five draws of leads; `rank` 1 red, 2 blue, 3 green; `asterisk` 1 where "not significantly worse than
the best" is printed. fmb/ is the reference benchmark, AI4HealthUOL/ecg-fm-benchmarking at commit
6367295 (arXiv 2509.25095), its file Confidence_Interval.xlsx: scores.csv, fractions with the
interval that it prints, without the tasks on MIMIC; labels.csv, how many classes its code has.
claims.csv of both: what each says in words, recomputed from its own tables (tests/published does
the main ones again).
Numbers are quoted as facts, with nothing else of either; tasks and models have the names that
ecgbench gives them. Nothing here is a result of ecgbench.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from ecgbench.core.registry import plain
from ecgbench.errors import UnknownName

FOLDER = Path(__file__).parent
Trained = Literal["finetune", "linear", "attention", "supervised"]
"""What was trained: the whole network, a linear head, an attention head, or all from scratch."""
_MODES: dict[str, Trained] = {
    "finetuning": "finetune",
    "linear": "linear",
    "frozen": "attention",
    "supervised": "supervised",
}
HEAD_ONLY = "stmem"
"""The one model whose encoder the reference benchmark's fine-tuning leaves as it is: the names by
which it gathers parameters match none of this network's (code at commit 6367295).
"""
MODELS = {
    "ecgfounder": "ECGFounder",
    "ecgjepa": "ECG-JEPA",
    "stmem": "ST-MEM",
    "merl": "MERL",
    "ecgfmked": "ECGFM-KED",
    "hubertecg": "HuBERT-ECG",
    "ecgcpc": "ECG-CPC",
    "laef": "LAEF",
}
"""The models of the paper as it prints them, in its order."""
TASKS = {
    "code15": "CODE-15%",
    "ptbxl_all": "PTB-XL All",
    "ptbxl_diag": "PTB-XL Diag",
    "ptbxl_form": "PTB-XL Form",
    "ptbxl_rhythm": "PTB-XL Rhythm",
    "ptbxl_sub": "PTB-XL Sub",
    "ptbxl_super": "PTB-XL Super",
    "echonext": "EchoNext",
    "cpsc2018": "CPSC2018",
    "cpsc_extra": "CPSC-Extra",
    "chapman": "Chapman",
    "chapman_rhythm": "Chapman Rhythm",
    "georgia": "Georgia",
    "hefei": "Hefei",
    "ningbo": "Ningbo",
    "ptb": "PTB",
    "sph": "SPH",
    "zzu": "ZZU pECG",
}
"""The paper's 18 tasks as it prints them, in its order; Hefei is not in the reference benchmark."""
EVALUATED_ONLY = ("ptbxl_diag", "ptbxl_form", "ptbxl_rhythm", "chapman_rhythm")
"""Those with the paper's dagger: columns of another task's predictions."""
LEAD_RANGE = (0.854, 0.857)
"""Lowest and highest macro AUROC of the twelve single leads that the paper prints: LAEF, fine-tuned
with random leads on Cardio-Learning (164 conditions). The figure behind it has no numbers.
"""
AVERAGE = "average"
"""Name of the last rows of the paper's table of leads I and II."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """Who printed numbers, and how these were made."""

    name: str
    title: str
    """As a heading of a column."""
    cited: str
    epochs: int = 100
    draws: int = 0
    """Draws of random leads that are averaged; 0 where it has none."""

    @property
    def labels(self) -> dict[str, int]:
        """Task -> its number of labels there; empty where the cards say it (cards.Task.paper)."""
        rows = _rows("fmb/labels.csv") if self.name == FMB else ()
        return {row["task"]: int(row["labels"]) for row in rows}


@dataclass(frozen=True, kw_only=True)
class Printed:
    """One printed score; fractions."""

    source: str
    task: str
    model: str
    leads: str
    """As typed: 1, 2, 12, I, II."""
    value: float
    trained: Trained
    sd: float | None = None
    """Over draws of random leads."""
    low: float | None = None
    high: float | None = None
    """95 % interval that it prints."""
    rank: int | None = None
    """1, 2, 3 by colour."""
    asterisk: bool = False

    @property
    def head_only(self) -> bool:
        """Whether it is called fine-tuning and trained the head alone, as its scores and the code
        say.
        """
        return self.trained == "finetune" and self.model == HEAD_ONLY


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a source says in words, and what its own tables give: a claim that does not come out is
    no verdict on a study, it tells a reader which printed number to take. Differences are in points
    (AUROC x 100).
    """

    where: str
    """Place in the source."""
    says: str
    found: str
    """From its own numbers."""
    agrees: Literal["yes", "in part", "no", "open"]
    """Whether it comes out; open: the tables do not tell."""


PAPER, FMB = "paper", "fmb"
METRIC = "auroc"
"""What both print, as macro: its name in the room of metrics."""


_SOURCES = (
    Source(
        name=PAPER,
        title="Paper",
        cited="LAEF, E. Coppola et al., tables of the paper as printed",
        draws=5,
    ),
    Source(
        name=FMB,
        title="Reference benchmark",
        cited="AI4HealthUOL/ecg-fm-benchmarking, commit 6367295 (arXiv 2509.25095), "
        "Confidence_Interval.xlsx",
    ),
)
SOURCES = tuple(known.name for known in _SOURCES)
"""Names of the sources."""


def source(name: str) -> Source:
    """A source by its name; UnknownName."""
    for known in _SOURCES:
        if plain(known.name) == plain(name):
            return known
    raise UnknownName("source", name, SOURCES, "See: ecgbench report --help")


@cache
def claims(name: str) -> tuple[Claim, ...]:
    """The claims of a source that its own numbers can answer; UnknownName."""
    return tuple(Claim(**row) for row in _rows(f"{source(name).name}/claims.csv"))  # type: ignore[arg-type]


@cache
def printed(name: str) -> tuple[Printed, ...]:
    """All scores of a source: of the paper its extended table and that of leads I and II without
    the averages, of the reference benchmark all modes; UnknownName.
    """
    if source(name).name == FMB:
        return tuple(map(_benchmark, _rows("fmb/scores.csv")))
    single = (row for row in lead_i_ii() if row.task != AVERAGE)
    return (*extended(), *single)


@cache
def main() -> tuple[Printed, ...]:
    """Table 1 of the paper: six of the eight models; its row of EchoNext at 12 leads and one other
    cell differ from the extended table.
    """
    return _scores("main")


@cache
def extended() -> tuple[Printed, ...]:
    """The paper's extended table: eight models at 1, 2 and 12 leads."""
    return _scores("extended")


@cache
def lead_i_ii() -> tuple[Printed, ...]:
    """The paper's table of lead I and lead II, with its two rows of averages (task AVERAGE)."""
    return _scores("lead_i_ii")


def ablations() -> dict[tuple[str, str], float]:
    """(study, setting) -> macro AUROC of the paper's linear probes, a fraction."""
    return {(r["study"], r["setting"]): float(r["auroc"]) for r in _rows("paper/ablations.csv")}


def cost() -> list[dict[str, str]]:
    """The paper's cost table as it is printed: LAEF at 1 and 12 leads, and its median over numbers
    of leads, of which no GFLOP are printed.
    """
    return list(_rows("paper/cost.csv"))


@cache
def _rows(file: str) -> Sequence[dict[str, str]]:
    with (FOLDER / file).open(newline="", encoding="utf-8") as text:
        return tuple(csv.DictReader(text))


def _scores(table: str) -> tuple[Printed, ...]:
    return tuple(
        Printed(
            source=PAPER,
            task=row["task"],
            model=row["model"],
            leads=row["leads"],
            value=_hundredth(row["auroc"]),
            trained="finetune",
            sd=_hundredth(row["sd"]) if row["sd"] else None,
            rank=int(row["rank"]) if row["rank"] else None,
            asterisk=row["asterisk"] == "1",
        )
        for row in _rows(f"paper/{table}.csv")
    )


def _hundredth(percent: str) -> float:
    """A printed figure as a fraction of so many places that it prints alike again.

    >>> _hundredth("94.6")
    0.946
    """
    return round(float(percent) / 100, len(percent.partition(".")[2]) + 2)


def _benchmark(row: dict[str, str]) -> Printed:
    value, low, high = (float(row[name]) for name in ("auroc", "low", "high"))
    return Printed(
        source=FMB,
        task=row["task"],
        model=row["model"],
        leads="12",
        value=value,
        trained=_MODES[row["mode"]],
        low=low,
        high=high,
    )
