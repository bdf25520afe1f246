"""An ablation as a report reads it, from the files that `ecgbench ablate` leaves, finished or
not.

Cells are paired: at a seed all have the same data, codes, masks and order. A difference is the mean
over the seeds of the differences at each seed. Its variance has two parts that are taken as
independent: that of the seeds (their spread over their number) and that of the patients
(`stats.components`, placements averaged over the seeds). Each has its own degrees of freedom in
`components.reach`, which errs on the safe side; with Satterthwaite's for their sum, three seeds
told equal cells apart twice as often as allowed. All differences of a study are judged together
(Bonferroni).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ecgbench.core.files import array_of, facts_of, read_proved, sha256_of
from ecgbench.core.keys import key
from ecgbench.core.text import counted
from ecgbench.errors import BadWeights, MissingData
from ecgbench.pretrain.lead_sampling import Contrast, Key, Score, Signs, contrasts, judged, scores
from ecgbench.pretrain.stored import SYNTHETIC, compared_on, read_file
from ecgbench.stats.auroc import placements, wins
from ecgbench.stats.components import Components, Interval

STUDY, CELLS, RATES, TRAINING = "ablation.json", "cells.json", "rates.json", "training.json"
RECORDS = "records.parquet"
FILES = (STUDY,)
"""A folder that holds this is an ablation."""
NO_EVIDENCE = "At this budget the order is not evidence."
ENOUGH_SEEDS = 5
"""From which on the order of all cells may be compared with the paper's by a rank correlation."""


def probe_file(kind: str) -> str:
    """Name of the file with the scores of a probe."""
    return f"{kind}.json"


def probability_file(kind: str, step: int) -> str:
    """Name of the file with its probabilities after a step."""
    return f"{kind}_{step:06d}.npy"


def records_digest(table: pd.DataFrame) -> str:
    """sha256 (hex) of the recordings that cells are compared on: names, patients, labels."""
    return key({str(name): column.tolist() for name, column in table.items()})


@dataclass(frozen=True, kw_only=True, eq=False)
class Measured:
    """What was measured of one cell."""

    name: str
    lr: float
    scores: Mapping[int, Mapping[int, float]]
    """Seed -> steps -> macro AUROC on the development task."""
    placed: np.ndarray
    """(record, label) placements after all steps, averaged over the seeds."""
    parameters: int
    encoder_parameters: int
    flop: float | None
    """Of one window of twelve leads."""

    def mean(self, step: int, seeds: Sequence[int] | None = None) -> float:
        """Over the seeds."""
        every = sorted(self.scores) if seeds is None else seeds
        return float(np.mean([self.scores[seed][step] for seed in every]))

    def sd(self, step: int) -> float | None:
        """Over the seeds; None of one."""
        values = [of[step] for of in self.scores.values()]
        return float(np.std(values, ddof=1)) if len(values) > 1 else None


@dataclass(frozen=True, kw_only=True, eq=False)
class Ablation:
    """What there is of a study at a budget."""

    study: str
    facts: Mapping[str, Any]
    """ablation.json."""
    cells: Mapping[str, Measured]
    """Finished at one seed or more, in the order of the study."""
    rates: Mapping[str, Mapping[str, float]]
    """Cell -> learning rate -> score at the seed that chooses it; empty where one was given."""
    target: np.ndarray
    patients: Sequence[str]
    readings: Mapping[Key, Score] = field(default_factory=dict)
    """Of a study that reads single leads too."""

    @cached_property
    def contrasts(self) -> list[Contrast]:
        """Of its readings, or of each cell less the reference, as far as both cells are there."""
        names, last, half = self.facts["about"]["cells"], self.steps, self.half
        others = [name for name in names if name != self.reference]
        if self.readings:
            return contrasts(
                self.readings, self.reference, others[0], last, self.target, self.patients
            )
        every = {
            Key(name, step, "twelve"): {seed: of[step] for seed, of in cell.scores.items()}
            for name, cell in self.cells.items()
            for step in {half or last, last}
        }

        def less(step: int) -> Signs:
            reference = Key(self.reference, step, "twelve")
            return {n: {Key(n, step, "twelve"): 1, reference: -1} for n in others}

        halves = less(half) if half else {name: {} for name in others}
        rows = [Key(name, last, "twelve") for name in self.cells]
        # of the whole study, so that they do not widen while cells are added
        return judged(every, less(last), halves, len(others), (self._components, rows))

    @property
    def compared_on(self) -> str:
        """In words: the recordings that cells are compared on."""
        return compared_on(self.facts["about"]["task"], self.facts["budget"]["recipe"].get("apart"))

    @property
    def reference(self) -> str:
        """The cell with which all others are compared."""
        return str(self.facts["about"]["reference"])

    @property
    def open(self) -> str:
        """A sentence where cells are missing, or seeds of some, else empty."""
        wanted, about = self.facts["about"]["cells"], self.facts["about"]
        missing = [name for name in wanted if name not in self.cells]
        fewest, most = (end(len(cell.scores) for cell in self.cells.values()) for end in (min, max))
        seeds = about.get("seeds", most)
        if not missing and fewest == seeds:
            return ""
        unfinished = f"{counted(len(missing), 'cell')} of {len(wanted)} not trained yet. "
        fewer = f"{counted(most, 'seed')} of {seeds} so far. " if most < seeds else ""
        if fewest < most:
            fewer = "Cells have different seeds. "
        return f"{unfinished if missing else ''}{fewer}The same ecgbench ablate goes on."

    def order_as(self, printed: Mapping[str, float]) -> float | None:
        """Kendall's tau-b between the mean scores and printed ones, over the cells that have both;
        None with fewer than ENOUGH_SEEDS seeds that all have, or three cells, where it would say
        nothing.
        """
        both = [name for name in self.cells if name in printed]
        if len(both) < 3:
            return None
        seeds = sorted(set.intersection(*({*self.cells[n].scores} for n in both)))
        if len(seeds) < ENOUGH_SEEDS:
            return None
        from scipy.stats import kendalltau  # a third of a second to import

        ours = [self.cells[name].mean(self.steps, seeds) for name in both]
        return float(kendalltau(ours, [printed[name] for name in both]).statistic)

    @property
    def steps(self) -> int:
        """Of the budget."""
        return int(self.facts["budget"]["steps"])

    @property
    def half(self) -> int | None:
        """Half of them; None where there is no half."""
        return self.steps // 2 or None

    @property
    def data(self) -> str:
        """Its datasets, in words."""
        names = self.facts["budget"]["recipe"]["datasets"]
        return ", ".join(f"{n} (synthetic)" if n == "demo" else n for n in names)

    @property
    def warning(self) -> str:
        """A sentence where its recordings are synthetic, else empty."""
        return SYNTHETIC if "demo" in self.facts["budget"]["recipe"]["datasets"] else ""

    @cached_property
    def _components(self) -> Components:
        placed = np.stack([cell.placed for cell in self.cells.values()])
        return Components(self.target, np.asarray(self.patients), placed)

    def patient_interval(self, name: str) -> Interval:
        """95 % interval of a cell's mean score, over patients alone."""
        return self._components.interval(list(self.cells).index(name))


def read(folder: Path) -> Ablation:
    """A study. MissingData: no cell is finished yet; BadWeights: a damaged file."""
    facts = read_file(folder / STUDY, _facts)
    listed = read_proved(folder / CELLS) or {}
    try:
        records = pd.read_parquet(folder / RECORDS)
    except (OSError, ValueError) as error:
        raise BadWeights(f"{folder / RECORDS} cannot be read; {_AGAIN}") from error
    if facts["about"]["compared"] != records_digest(records):
        raise BadWeights(f"{folder / RECORDS} is not what was written there; {_AGAIN}")
    target = records.drop(columns=["record", "patient"]).to_numpy(np.int8)
    ordered = [name for name in facts["about"]["cells"] if name in listed]
    probed: dict[tuple[str, int, int], np.ndarray] = {}
    cells = {name: _cell(folder, name, listed[name], facts, target, probed) for name in ordered}
    if not cells:
        raise MissingData(
            f"no cell of the study in {folder} is finished yet; run the same ecgbench ablate again"
        )
    return Ablation(
        study=facts["study"],
        facts=facts,
        cells=cells,
        rates=read_proved(folder / RATES) or {},
        target=target,
        patients=records["patient"].tolist(),
        readings=scores(probed, target),
    )


_AGAIN = "run the same ecgbench ablate again, or choose another folder"


def _facts(text: str) -> dict[str, Any]:
    facts = facts_of(json.loads(text))
    _ = facts["about"]["compared"], facts["budget"]["steps"]
    return facts


def _cell(
    folder: Path,
    name: str,
    rows: Mapping[str, Any],
    facts: Mapping[str, Any],
    target: np.ndarray,
    probed: dict[tuple[str, int, int], np.ndarray],
) -> Measured:
    """One cell; where it read single leads, `probed` gets the probabilities of every step."""
    of_seeds, placed = {}, []
    last = facts["budget"]["steps"]
    for seed, row in sorted((int(seed), row) for seed, row in rows.items()):
        at, leads = folder / "trainings" / row["training"][:24], row["probe"] == "readings"
        files = [read_proved(at / file) for file in (probe_file(row["probe"]), TRAINING)]
        if None in files:
            raise BadWeights(f"{at} lacks what cell {name} had at seed {seed}; {_AGAIN}")
        probe, trained = (file or {} for file in files)
        if not row["training"] == probe["training"] == trained["training"]:
            raise BadWeights(f"{at} has files of another training or study; {_AGAIN}")
        of_seeds[seed] = {int(step): float(score) for step, score in probe["scores"].items()}
        found = {
            step: _probabilities(at / probability_file(row["probe"], step), probe, step)
            for step in of_seeds[seed]
            if step == last or leads
        }
        if leads:
            probed |= {(name, seed, step): every for step, every in found.items()}
        # with twelve leads, where single ones were read too
        complete = found[last][0] if leads else found[last]
        placed.append(placements(target, wins(target, complete)))
    sizes = {n: trained[n] for n in ("parameters", "encoder_parameters", "flop")}
    return Measured(name=name, lr=row["lr"], scores=of_seeds, placed=np.mean(placed, 0), **sizes)


def _probabilities(path: Path, probe: Mapping[str, Any], step: int) -> np.ndarray:
    """What a probe wrote; BadWeights where it is not that, or gone."""
    if not path.is_file() or sha256_of(path) != probe["probabilities"][str(step)]:
        raise BadWeights(f"{path} is not what was written there; {_AGAIN}")
    return array_of(path.read_bytes())
