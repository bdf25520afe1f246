"""From cells to rows: seeds averaged, intervals over patients, paired differences with the best of
each lead setting.

Source of the rules: ARCHITECTURE section 3 (score at random leads, interval and p, asterisk); the
LAEF paper's evaluation protocol for the asterisk; docs/intervals.md for what is not tested.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np

from ecgbench.results.evidence import Evidence, Sure
from ecgbench.results.score import Scored, counted, firsts
from ecgbench.stats.paired import Difference, holm

UNTRAINED = "untrained encoder: not ranked, not tested"
"""The note of a frozen encoder with random weights."""
UNTESTED = "not tested: "
"""How the note of a row begins that has no p."""
FEWER, COMPARED = "scored on ", "compared with the best on "
"""How the notes begin of a row that lacks test records, and of its comparison."""
NO_INTERVAL = "no interval: "
"""How the note of a row begins that has none."""
LEAST_PATIENTS = 30
"""With fewer test patients nothing is tested."""
LEAST_DF = 6
"""With fewer degrees of freedom a difference is not tested."""
LARGEST_SHARE = 0.5
"""Where one label of three or more carries more of the variance, a difference is not tested."""

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
    sign: int = 1
    """1 where higher values of the metric are better, -1 where lower ones are."""
    weights: str = ""
    """As loaded, or as asked for where none were."""
    untrained: bool = False
    """A frozen encoder with random weights: it has an interval and competes with nobody."""
    cells: list[Scored] = field(default_factory=list)
    status: str = "ok"
    ragged: bool = False
    """Whether it averages fewer lead draws or fits than another row of its task and setting; it is
    then compared with none.
    """
    sure: Sure = field(default_factory=lambda: Sure(value=np.nan))
    difference: Difference | None = None
    """Best trained row of the setting minus this one, on the records that both have; None for the
    best itself and where nothing was compared.
    """
    shared: tuple[int, int] = (0, 0)
    """Records and patients that the difference is of."""
    p: float = np.nan
    p_holm: float = np.nan
    """After Holm over all pairs of trained rows of its task and setting."""
    p_holm_all: float = np.nan
    """The same over those of all tasks and settings."""
    best: bool = False
    notes: list[str] = field(default_factory=list)
    """What its number rests on, and why it is not tested."""
    marks: list[str] = field(default_factory=list)
    """What must be said beside the numbers of its fits, each once."""

    @property
    def score(self) -> float:
        """Mean over folds, fits and lead-drawing seeds of the mean over the labels."""
        if self.status != "ok":
            return np.nan
        return float(np.mean([c.value for c in counted(self.cells)]))

    @property
    def folds(self) -> list[Scored]:
        """The first cell of each fold."""
        return firsts(self.cells)

    @property
    def patients(self) -> int:
        """How many were tested, in all folds together."""
        least: dict[str, int] = {}
        for c in self.cells:
            fold = c.cell.fit.fold
            least[fold] = min(c.n_patients, least.get(fold, c.n_patients))
        return sum(least.values())

    @property
    def records(self) -> int:
        """How many were tested, in all folds together."""
        return sum(c.n_records for c in self.folds)

    @property
    def distinct(self) -> float:
        """The same mean with labels of the very same records counted once."""
        if self.status != "ok":
            return np.nan
        return float(np.mean([c.distinct for c in counted(self.cells)]))

    @property
    def std(self) -> float:
        """Spread over lead-drawing seeds (ddof 1) of the mean over fits; NaN with a single draw."""
        by_seed: dict[str, list[float]] = {}
        for c in counted(self.cells):
            by_seed.setdefault(str(c.cell.setting), []).append(c.value)
        means = [np.mean(v) for v in by_seed.values()]
        return float(np.std(means, ddof=1)) if self.status == "ok" and len(means) > 1 else np.nan


@dataclass(kw_only=True, eq=False)
class Group:
    """The rows of one metric, task and lead setting."""

    rows: Sequence[Row]
    best: Row | None = None
    """The highest trained row, with which the others are compared."""
    pairs: dict[tuple[int, int], float] = field(default_factory=dict)
    """p of all pairs of trained rows, by their places among the rows; 1 where it is not tested or
    a number is not there yet.
    """


def compare(rows: Sequence[Row], rescore: Rescore, evidence: EvidenceOf) -> Group:
    """Say how sure the rows of one metric, task and setting are, and compare them with the best.

    Where the records of two rows differ, both are scored anew on the intersection: a difference is
    of the same patients. Rows that are not ok are left out, and rows of untrained encoders have one
    difference to the best trained row, and stand in no family.
    """
    group, able = Group(rows=rows), _able(rows)
    for row in rows:
        row.notes += [UNTRAINED] if row.untrained else []
    done = [r for r in rows if r.status == "ok" and np.isfinite(r.score)]
    if done:
        which = {frozenset((c.cell.fit.fold, c.records) for c in r.cells) for r in done}
        shared = evidence([r.cells for r in done]) if len(which) == 1 else None
        for at, row in enumerate(done):
            own = shared or evidence([row.cells])
            row.sure = own.row(at if shared else 0)
            if np.isnan(row.sure.low):
                one = row.patients < 2
                row.notes.append(NO_INTERVAL + ("1 test patient" if one else "no draw differs"))
    if able:
        alike = len({frozenset((c.cell.fit.fold, c.records) for c in r.cells) for r in able}) == 1
        # one set of placements serves the intervals and the comparisons
        if alike and (len(able) != len(done) or not shared):
            shared = evidence([r.cells for r in able])

        def paired(a: int, b: int) -> Paired:
            both = [able[a], able[b]]
            if alike and shared:
                return shared.difference(a, b), both[0].records, both[0].patients
            cells = on_common_records([r.cells for r in both], rescore)
            both = [replace(r, cells=list(own)) for r, own in zip(both, cells)]
            found = evidence(cells).difference(0, 1)
            return found, both[0].records, min(r.patients for r in both)

        _against_best(group, able, paired)
    return group


def _able(rows: Sequence[Row]) -> list[Row]:
    """Rows that can be compared."""
    able = [r for r in rows if r.status == "ok" and np.isfinite(r.score)]
    # a mean over other draws of leads or other fits is another quantity: such a row has a number
    # and is in no comparison
    drawn = [
        {(str(c.cell.setting), c.cell.fit.seed, c.cell.fit.fold) for c in r.cells} for r in able
    ]
    for row, own in zip(able, drawn, strict=True):
        row.ragged = own != set().union(*drawn)
    return [r for r in able if not r.ragged]


def _against_best(group: Group, able: Sequence[Row], paired: Callable[[int, int], Paired]) -> None:
    trained = [r for r in able if not r.untrained]
    if not trained:
        return
    best = group.best = max(trained, key=lambda r: r.sign * r.score)
    first = able.index(best)
    why = _few(best.patients) or _weak(best.sure)
    best.best = not why
    best.notes += [why] if why else []
    for at, row in enumerate(able):
        if row is not best:
            row.difference, records, patients = paired(first, at)
            row.shared = records, patients
            if records < max(row.records, best.records):
                row.notes.append(f"{COMPARED}the {records} records that both have")
            why = _few(patients) or _weak(row.difference)
            # its interval says whether training helped; it competes with nobody
            row.p = np.nan if why or row.untrained else row.difference.p
            row.notes += [why] if why and not row.untrained else []
    # the best was chosen by looking: each pair could have been the reported one
    places = {id(r): at for at, r in enumerate(group.rows)}
    family = [r for r in group.rows if r.status != "skipped" and not r.untrained]
    group.pairs = {(places[id(a)], places[id(b)]): 1.0 for a, b in combinations(family, 2)}
    for a, b in combinations([at for at, r in enumerate(able) if not r.untrained], 2):
        found, _, patients = paired(a, b)
        pair = (places[id(able[a])], places[id(able[b])])
        untested = _few(patients) or _weak(found) or np.isnan(found.p)
        group.pairs[pair] = 1.0 if untested else found.p


def _few(patients: int) -> str:
    """Why so few patients are not tested; "" where they are."""
    few = f"{UNTESTED}{patients} test patients, fewer than {LEAST_PATIENTS}"
    return few if patients < LEAST_PATIENTS else ""


def weak(df: float, share: float, carrier: str) -> str:
    """Why what has these degrees of freedom is not tested, or what owes this share of its variance
    to one `carrier`, as "the label MI"; "" where it is.
    """
    if df < LEAST_DF:
        return f"{UNTESTED}{df:.1f} degrees of freedom, fewer than {LEAST_DF}"
    if share > LARGEST_SHARE:
        return f"{UNTESTED}{share:.0%} of the variance comes from {carrier}"
    return ""


def _weak(of: Sure | Difference) -> str:
    return weak(of.df, of.share, f"the label {of.share_label}")


def correct(groups: Sequence[Group]) -> None:
    """Correct p for the family of each group, and for that of all groups of a metric."""
    for group in groups:
        _corrected(group, dict(zip(group.pairs, holm(list(group.pairs.values())))), "p_holm")
    for metric in dict.fromkeys(r.metric for g in groups for r in g.rows):
        mine = [g for g in groups if g.rows[0].metric == metric]
        adjusted = iter(holm([p for g in mine for p in g.pairs.values()]))
        for group in mine:
            _corrected(group, dict(zip(group.pairs, adjusted)), "p_holm_all")


def _corrected(group: Group, adjusted: dict[tuple[int, int], float], name: str) -> None:
    for (a, b), p in adjusted.items():
        for row, other in ((group.rows[a], group.rows[b]), (group.rows[b], group.rows[a])):
            if other is group.best and np.isfinite(row.p):
                setattr(row, name, float(p))


def on_common_records(
    rows: Sequence[Sequence[Scored]], rescore: Rescore
) -> Sequence[Sequence[Scored]]:
    """Cells of rows as they are, or scored on the records that all of them have in each fold."""
    by_fold: dict[str, list[Scored]] = {}
    for c in (c for cells in rows for c in cells):
        by_fold.setdefault(c.cell.fit.fold, []).append(c)
    common = {
        fold: frozenset.intersection(*(c.names() for c in cells))
        for fold, cells in by_fold.items()
        if len({c.records for c in cells}) > 1
    }

    def alike(c: Scored) -> Scored:
        fold = c.cell.fit.fold
        return rescore(c, common[fold]) if fold in common else c

    return [[alike(c) for c in cells] for cells in rows] if common else rows
