"""From cells to rows: seeds averaged, intervals over patients, paired differences with the best of
each lead setting.

Source of the rules: ARCHITECTURE section 3 (score at random leads, interval and p, asterisk); the
LAEF paper's evaluation protocol for the asterisk; docs/explanation/intervals.md for what is not
tested.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from ecgbench.core.keys import grouped
from ecgbench.core.note import Note, Notes
from ecgbench.results.evidence import Evidence, Sure
from ecgbench.results.score import Scored, counted, firsts
from ecgbench.stats.paired import Difference, holm
from ecgbench.study.scores import counting

UNTRAINED = Note("untrained", "untrained encoder: not ranked, not tested")
"""The note of a frozen encoder with random weights."""
UNTESTED = "not tested: "
"""Before the reason why there is no p."""
LEAST_PATIENTS = 30
"""With fewer test patients nothing is tested."""
LEAST_DF = 6
"""With fewer degrees of freedom a difference is not tested."""
LARGEST_SHARE = 0.5
"""Where one label of three or more carries more of the variance, a difference is not tested."""

MAIN_COLUMNS = (
    *("task", "model", "leads", "policy", "weights", "seen", "metric", "value", "std", "low"),
    *("high", "se", "df", "share", "share_label", "n_records", "n_patients", "n_labels"),
    *("n_undefined", "fewest_positives", "value_distinct", "n_distinct", "p", "p_holm", "best"),
    *("not_significantly_worse", "note", "status", "n_leads", "named"),
)
"""Columns of main_table.csv; docs/reference/columns.md says what each is."""
COMPARISON_COLUMNS = (
    *("task", "leads", "metric", "model", "policy", "weights", "best_model", "best_policy"),
    *("best_weights", "difference", "low", "high", "se", "df", "share", "share_label", "p"),
    *("p_holm", "not_significantly_worse", "note", "n_records", "n_patients"),
)

Rescore = Callable[[Scored, frozenset[str]], Scored]
"""The same cell scored on some of its records, with draws over the patients of those alone."""
Paired = tuple[Difference, int, int]
"""A difference of two rows, and how many records and patients it is of."""
EvidenceOf = Callable[[Sequence[Sequence[Scored]]], Evidence]
"""How sure rows of cells and their differences are."""


@dataclass(kw_only=True, eq=False)
class Row:
    """One row of the main table: a metric, a task, a model, a lead setting as typed, a policy."""

    task: str
    model: str
    leads: str
    policy: str
    metric: str
    n_leads: int = 0
    named: bool = False
    """Whether its leads are named, not drawn."""
    sign: int = 1
    """1 where higher values of the metric are better, -1 where lower ones are."""
    weights: str = ""
    """As loaded, or as asked for where none were."""
    seen: str = ""
    """Whether they met the source of the task: yes, part, unknown or no."""
    untrained: bool = False
    """A frozen encoder with random weights: it has an interval and competes with nobody."""
    cells: list[Scored] = field(default_factory=list)
    status: str = "ok"
    ragged: bool = False
    """Whether it averages fewer lead draws, fits or labels than another row of its task and
    setting; it is then compared with none.
    """
    sure: Sure = field(default_factory=lambda: Sure(value=np.nan))
    difference: Difference | None = None
    """Best trained row of the setting minus this one, on the records that both have; None for the
    best itself and where nothing was compared.
    """
    rival: "Row | None" = None
    """That best row."""
    shared: tuple[int, int] = (0, 0)
    """Records and patients that the difference is of."""
    pairs: list[tuple["Row", float]] = field(default_factory=list)
    """The trained rows after it in its setting, each with p of the difference; 1 where it is not
    tested or a number is not there yet.
    """
    p: float = np.nan
    p_holm: float = np.nan
    """After Holm over all pairs of trained rows of its task and setting."""
    best: bool = False
    notes: list[Note] = field(default_factory=list)
    """What must be said of its fits, what its number rests on, and why it is not tested."""

    @property
    def setting(self) -> tuple[str, str, str]:
        """What it is compared within."""
        return self.metric, self.task, self.leads

    def _mean(self, of: Callable[[Scored], float]) -> float:
        """Over folds, fits and lead-drawing seeds."""
        values = [of(c) for c in counted(self.cells)] if self.status == "ok" else [np.nan]
        return float(np.mean(values))

    @property
    def score(self) -> float:
        """Mean over folds, fits and lead-drawing seeds of the mean over the labels."""
        return self._mean(lambda c: c.value)

    @property
    def distinct(self) -> float:
        """The same mean with labels of the very same records counted once."""
        return self._mean(lambda c: c.distinct)

    @property
    def folds(self) -> list[Scored]:
        """The first cell of each fold."""
        return firsts(self.cells)

    @property
    def patients(self) -> int:
        """How many were tested, in all folds together."""
        by_fold = grouped(self.cells, lambda c: c.cell.fit.fold)
        return sum(min(c.n_patients for c in own) for own in by_fold.values())

    @property
    def records(self) -> int:
        """How many were tested, in all folds together."""
        return sum(c.n_records for c in self.folds)

    @property
    def std(self) -> float:
        """Spread over lead-drawing seeds (ddof 1) of the mean over fits; NaN with a single draw."""
        by_seed = grouped(counted(self.cells), lambda c: str(c.cell.setting))
        means = [np.mean([c.value for c in own]) for own in by_seed.values()]
        return float(np.std(means, ddof=1)) if self.status == "ok" and len(means) > 1 else np.nan


def compare(rows: Sequence[Row], rescore: Rescore, evidence: EvidenceOf) -> None:
    """Say how sure the rows of one metric, task and setting are, and compare them with the best.

    Where the records of two rows differ, both are scored anew on the intersection: a difference is
    of the same patients. Rows that are not ok are left out, and rows of untrained encoders have one
    difference to the best trained row, and stand in no family.
    """
    for row in rows:
        row.notes += [UNTRAINED] if row.untrained else []
    done = [r for r in rows if r.status == "ok" and np.isfinite(r.score)]
    shared = _together(done, evidence)
    for at, row in enumerate(done):
        row.sure = shared.rows[at] if shared else evidence([row.cells]).rows[0]
        if np.isnan(row.sure.low):
            one = row.patients < 2
            why = "1 test patient" if one else "no draw differs"
            row.notes.append(Note("test", f"no interval: {why}"))
    able = _able(done)
    if not shared or len(able) < len(done):
        shared = _together(able, evidence)

    def paired(a: Row, b: Row) -> Paired:
        if shared:
            return shared.difference(able.index(a), able.index(b)), a.records, a.patients
        cells = on_common_records([a.cells, b.cells], rescore)
        both = [replace(row, cells=list(own)) for row, own in zip((a, b), cells)]
        found = evidence(cells).difference(0, 1)
        return found, both[0].records, min(r.patients for r in both)

    _against_best(rows, able, paired)


def _together(rows: Sequence[Row], evidence: EvidenceOf) -> Evidence | None:
    """One set of placements for all rows; None where their records or labels are not the same."""
    records = {frozenset((c.cell.fit.fold, c.records, c.known) for c in row.cells) for row in rows}
    return evidence([row.cells for row in rows]) if len(records) == 1 else None


def _able(rows: Sequence[Row]) -> list[Row]:
    """Rows that can be compared: a mean over other draws of leads, other fits or other labels is
    another quantity, which has a number and is in no comparison. Of labels all that any row knows.
    """
    drawn = [
        {(str(c.cell.setting), c.cell.fit.seed, c.cell.fit.fold) for c in r.cells}
        | {(label, 0, "") for c in r.cells for label in c.known}
        for r in rows
    ]
    for row, own in zip(rows, drawn, strict=True):
        row.ragged = own != set().union(*drawn)
        if row.ragged:
            text = "its mean is over other labels, lead draws, fits or folds than those beside it"
            row.notes.append(Note("alone", f"{text}: compared with none"))
    return [r for r in rows if not r.ragged]


def _against_best(
    rows: Sequence[Row], able: Sequence[Row], paired: Callable[[Row, Row], Paired]
) -> None:
    trained = [r for r in able if not r.untrained]
    if not trained:
        return
    best = max(trained, key=lambda r: r.sign * r.score)
    why = _why(best.patients, best.sure)
    best.best = not why
    best.notes += why
    for row in (r for r in able if r is not best):
        row.difference, records, patients = paired(best, row)
        row.rival, row.shared = best, (records, patients)
        if records < max(row.records, best.records):
            text = f"compared with the best on the {records} records that both have"
            row.notes.append(Note("test", text))
        why = _why(patients, row.difference)
        # its interval says whether training helped; it competes with nobody
        row.p = np.nan if why or row.untrained else row.difference.p
        row.notes += [] if row.untrained else why
    # the best was chosen by looking: each pair could have been the reported one
    for a, b in combinations([r for r in rows if r.status != "skipped" and not r.untrained], 2):
        p = 1.0
        if a in trained and b in trained:
            found, _, patients = paired(a, b)
            p = 1.0 if _why(patients, found) or np.isnan(found.p) else found.p
        a.pairs.append((b, p))


def few(patients: int) -> str:
    """Why so few patients are not tested; "" where they are."""
    if patients < LEAST_PATIENTS:
        return f"{UNTESTED}{patients} test patients, fewer than {LEAST_PATIENTS}"
    return ""


def weak(df: float, share: float, carrier: str) -> str:
    """Why what has these degrees of freedom is not tested, or what owes this share of its variance
    to one `carrier`, as "the label MI"; "" where it is.
    """
    if df < LEAST_DF:
        return f"{UNTESTED}{df:.1f} degrees of freedom, fewer than {LEAST_DF}"
    if share > LARGEST_SHARE:
        return f"{UNTESTED}{share:.0%} of the variance comes from {carrier}"
    return ""


def _why(patients: int, of: Sure | Difference) -> list[Note]:
    """Why a row or a difference of so many patients is not tested; nothing where it is."""
    why = few(patients) or weak(of.df, of.share, f"the label {of.share_label}")
    return [Note("test", why)] if why else []


def correct(rows: Sequence[Row]) -> None:
    """Correct p of rows that were compared for all pairs of their setting."""
    for family in grouped(rows, lambda row: row.setting).values():
        pairs = [(a, b, p) for a in family for b, p in a.pairs]
        for (a, b, _), p in zip(pairs, holm([p for _, _, p in pairs]).tolist()):
            for row, other in ((a, b), (b, a)):
                if row.rival is other and np.isfinite(row.p):
                    row.p_holm = p


def on_common_records(
    rows: Sequence[Sequence[Scored]], rescore: Rescore
) -> Sequence[Sequence[Scored]]:
    """Cells of rows as they are, or scored on the records that all of them have in each fold."""
    by_fold = grouped([c for cells in rows for c in cells], lambda c: c.cell.fit.fold)
    common = {
        fold: frozenset.intersection(*(c.names() for c in cells))
        for fold, cells in by_fold.items()
        if len({c.records for c in cells}) > 1
    }

    def alike(c: Scored) -> Scored:
        fold = c.cell.fit.fold
        return rescore(c, common[fold]) if fold in common else c

    return [[alike(c) for c in cells] for cells in rows] if common else rows


def main(rows: Sequence[Row]) -> pd.DataFrame:
    """MAIN_COLUMNS."""
    return pd.DataFrame([_main(r) for r in rows], columns=list(MAIN_COLUMNS))


def _main(row: Row) -> dict[str, Any]:
    """What there is of the columns, and more; what is not there becomes NaN."""
    known = vars(row.sure) | _compared(row) | {"value": row.score, "std": row.std}
    if row.status == "ok":
        folds = [c.columns for c in row.folds]
        valued = np.any([counting(one) for one in folds], axis=0)
        positives = np.sum([one["positives"][1:] for one in folds], axis=0)[valued]
        known |= {
            "n_records": row.records,
            "n_patients": sum(c.n_patients for c in row.folds),
            "n_labels": len(valued),
            "n_undefined": int((~valued).sum()),
            "fewest_positives": float(positives.min()) if len(positives) else np.nan,
            "value_distinct": row.distinct,
            "n_distinct": row.cells[0].n_distinct,
        }
    return known


def _compared(row: Row) -> dict[str, Any]:
    """The fields of a row, its note (what must be said of its fits, what its number rests on, and
    last why it is not tested), and whether it is as good as the best: None where not tested.
    """
    tested = row.difference is not None and np.isfinite(row.p)
    return vars(row) | {
        "note": Notes(row.notes),
        "not_significantly_worse": row.difference.not_significant if tested else None,  # type: ignore[union-attr]
    }


def comparisons(rows: Sequence[Row]) -> pd.DataFrame:
    """COMPARISON_COLUMNS, one row per comparison with the best trained row of a setting."""
    made = [
        vars(row.difference)
        | _compared(row)
        | {f"best_{name}": getattr(row.rival, name) for name in ("model", "policy", "weights")}
        | {"difference": row.difference.difference}
        | dict(zip(("n_records", "n_patients"), row.shared))
        for mine in grouped(rows, lambda row: row.setting).values()
        for row in mine
        if row.difference
    ]
    return pd.DataFrame(made, columns=list(COMPARISON_COLUMNS))
