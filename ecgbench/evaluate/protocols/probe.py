"""Protocol `probe`: for each label an L2-penalised logistic regression on features of a frozen
encoder, fitted until it has converged.

Rows are all windows of a record, which weigh 1 together. Features are standardised by the mean and
the standard deviation of the rows that are fitted, those of no other row. A label is fitted to the
records that it is known of. One penalty serves all labels of a task: of `PENALTIES` the one whose
log-loss in patient-wise cross-validation over training and validation records together is least.
With it, the heads are fitted to all of those records.

There is no epoch to choose and so no use for a split that only validates: what a fit says about
records it was not fitted on are the predictions of the cross-validation.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors.numpy import load, save

from ecgbench.cards.cell import Fit
from ecgbench.core.files import lines, put_hashed, read_hashed
from ecgbench.core.seeds import rng
from ecgbench.errors import BadSetting
from ecgbench.evaluate import rows
from ecgbench.evaluate.predict import probabilities
from ecgbench.evaluate.protocols import Trained
from ecgbench.evaluate.rows import Needed, Record
from ecgbench.stats import logistic
from ecgbench.stats.auroc import macro_auroc
from ecgbench.stats.known import UNKNOWN, two_valued

if TYPE_CHECKING:
    from ecgbench.evaluate.evaluation import Evaluation

SETTINGS = ("leads",)
SAME_LEADS = True
frozen = True

PENALTIES = tuple(float(f"{10 ** (1 - 2 * i / 3):.6g}") for i in range(13))
"""From strong to weak, over eight decades: of a mean over records, per squared coefficient of
standardised features. scikit-learn's C is 1 / (penalty x records).
"""
FOLDS = 5
LEAD_DRAWS = 20
"""Sets of leads that a record is shown in under `--train-leads random`."""


def facts() -> dict[str, Any]:
    """What of this module can change a fit, for keys."""
    return {
        "penalties": list(PENALTIES),
        "folds": FOLDS,
        "lead_draws": LEAD_DRAWS,
        "tolerance": logistic.TOLERANCE,
    }


@dataclass(frozen=True, kw_only=True, eq=False)
class Windows:
    """Features of windows, those of a record one after the other."""

    features: np.ndarray
    """(window, dim) float32."""
    record_of: np.ndarray
    """(window,) which record a window belongs to, 0..n-1 ascending; every record has one."""

    def of(self, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of the records that are `chosen` (record,) bool: features, record_of, and weights
        that sum to 1 within each record.
        """
        mine = chosen[self.record_of]
        record_of = self.record_of[mine]
        return self.features[mine], record_of, 1 / np.bincount(self.record_of)[record_of]


@dataclass(frozen=True, kw_only=True, eq=False)
class Examples:
    """Training and validation records together."""

    patients: list[str]
    """Of each record."""
    target: np.ndarray
    """(record, label) int8; -1 where a label is not known of a record."""
    fitted: Windows
    """What heads are fitted to, and judged on in the cross-validation."""
    complete: Windows
    """All evaluation windows with twelve leads: what is predicted of records held out."""


Heads = dict[str, np.ndarray]
"""What was fitted to the records outside one fold, a head for each penalty:

- `weight` (penalty, label, dim) for features as they come, `bias` (penalty, label);
- `loss` (penalty,): log-loss of the fold, summed over records, mean over labels; 0 where one is not
  known;
- `gradient` (penalty,): the longest of a label; `steps` (penalty,): L-BFGS steps of the label that
  took most; `missed` (penalty,): labels that did not converge.
"""


@dataclass(frozen=True, kw_only=True, eq=False)
class Probed:
    """The heads of a task and how they came about."""

    chosen: int
    """Which of PENALTIES."""
    loss: np.ndarray
    """(penalty,) cross-validated log-loss, mean over records and their known labels."""
    held_out: np.ndarray
    """(record, label) probability of each record by the heads of its fold."""
    folds: dict[int, Heads]
    """By number; without those that hold no patient."""
    last: logistic.Fitted
    """To all records: the heads that serve."""

    @property
    def log(self) -> list[tuple[Any, ...]]:
        """A row for each head that was fitted: fold ("" for all records), penalty, log-loss of the
        records held out (summed), steps, gradient, labels that did not converge.
        """
        tried: list[tuple[Any, ...]] = [
            (fold, penalty, *(float(h[n][i]) for n in ("loss", "steps", "gradient", "missed")))
            for fold, h in self.folds.items()
            for i, penalty in enumerate(PENALTIES)
        ]
        last = self.last
        return [*tried, ("", last.penalty, "", last.steps, last.gradient, len(last.missed))]

    @property
    def warnings(self) -> list[str]:
        """Warnings that belong to its numbers."""
        found, ends = [], {0: "strongest", len(PENALTIES) - 1: "weakest"}
        if which := ends.get(self.chosen):
            found.append(
                f"the {which} penalty that was tried was chosen: a better one may lie beyond"
            )
        missed = sum(int((h["missed"] > 0).sum()) for h in self.folds.values())
        if missed := missed + bool(self.last.missed):
            found.append(
                f"{missed} of {len(self.folds) * len(PENALTIES) + 1} fits stopped before their "
                f"gradient was below {logistic.TOLERANCE:g}"
            )
        return found


def needs(evaluation: "Evaluation", fit: Fit) -> Needed:
    """What heads are fitted to, and all windows of the same records."""
    evaluation = evaluation.showing(fit)
    drawn, _ = _training_rows(evaluation, fit)
    return Needed([drawn], rows.complete(_records(evaluation)))


def fit(evaluation: "Evaluation", fit: Fit, needed: Needed, checkpoint: Path) -> Trained:
    """Fit the heads to the training and validation records."""
    evaluation, task = evaluation.showing(fit), evaluation.task(fit)
    records = _records(evaluation)
    cache, record_of = evaluation.cache(evaluation.trained(fit)), _training_rows(evaluation, fit)[1]
    table = evaluation.table.loc[rows.positions(records)]
    data = Examples(
        patients=[str(patient) for patient in table["patient"]],
        target=table[task.columns].to_numpy(np.int8),
        fitted=Windows(features=cache.take(needed.drawn[0]), record_of=record_of),
        complete=Windows(
            features=cache.take(needed.complete), record_of=rows.records_of_windows(records)
        ),
    )
    what = f"{evaluation.name}: probe {fit.task}, seed {fit.seed}"
    with evaluation.progress.stage(what, total(fit.seed, data), "penalties") as advance:
        found = probe(fit.seed, data, advance, checkpoint)
    heading = ("fold", "penalty", "log_loss", "steps", "gradient", "not_converged")
    score, penalty = macro_auroc(data.target, found.held_out), PENALTIES[found.chosen]
    return Trained(
        head=(found.last.weight, found.last.bias),
        files={
            "log.csv": lines([heading, *found.log]),
            "validation.parquet": evaluation.predicted(records, task, found.held_out),
        },
        note={
            "fitted_to": "train + val",
            "records": len(records),
            "windows": len(record_of),
            "penalty": penalty,
            "log_loss": dict(zip(map(str, PENALTIES), found.loss.tolist())),
            "validation": None if np.isnan(score) else score,
            "one_valued": [n for n, two in zip(task.labels, two_valued(data.target)) if not two],
            "gradient": found.last.gradient,
        },
        warnings=found.warnings,
        summary=f"penalty {penalty:g}, held-out log-loss {found.loss[found.chosen]:.4f}, "
        f"macro AUROC {score:.4f}",
    )


def _records(evaluation: "Evaluation") -> list[Record]:
    """Training and validation records."""
    return [*evaluation.records["train"], *evaluation.records["val"]]


def _training_rows(evaluation: "Evaluation", fit: Fit) -> tuple[np.ndarray, np.ndarray]:
    """Rows of work that heads are fitted to, and which record each belongs to.

    All windows with the leads that the records have; or LEAD_DRAWS sets of leads, each
    in the next window of the record, from the first one again behind the last. Where there are more
    windows than sets, the sets begin again.
    """
    records = _records(evaluation)
    if evaluation.training.leads != "random":
        return rows.complete(records), rows.records_of_windows(records)
    counts = [max(LEAD_DRAWS, windows) for windows in rows.windows_of(records)]

    def drawn(r: Record) -> np.ndarray:
        each = (("train leads", fit.seed, i, r.name) for i in range(LEAD_DRAWS))
        return np.array([evaluation.training_leads(r, *words) for words in each])

    drawn_rows = [
        rows.encode(r.position, np.arange(count) % r.windows, np.resize(drawn(r), count))
        for r, count in zip(records, counts)
    ]
    return np.concatenate(drawn_rows), np.repeat(np.arange(len(records)), counts)


def fold_of(seed: int, patient: str) -> int:
    """The fold of a patient, whoever else there is.

    >>> fold_of(0, "17") == fold_of(0, "17")
    True
    """
    return int(rng("probe fold", seed, patient).integers(FOLDS))


def times_drawn(seed: int, patients: Sequence[str]) -> np.ndarray:
    """(record,) how often each counts in the last fit.

    Seed 0 takes every record once. A regression has one minimum, so a repeat with another seed
    would show no spread; it takes as many patients, drawn with replacement.
    """
    names, whose = np.unique(np.asarray(patients), return_inverse=True)
    if seed == 0:
        return np.ones(len(whose))
    drawn = rng("probe patients", seed).integers(len(names), size=len(names))
    return np.bincount(drawn, minlength=len(names))[whose].astype(np.float64)


def probe(
    seed: int, data: Examples, advance: Callable[[int], None], folder: Path | None = None
) -> Probed:
    """Choose the penalty and fit the heads; `advance` is called with the penalties just fitted, of
    `total(seed, data)`.

    folder: of this very fit; the heads of a fold are stored there once they are fitted, so that a
    fit which was killed goes on after the last finished fold.

    BadSetting where all patients are in one fold, or no label is known of any record.
    """
    where = _folds(seed, data)
    known = int((data.target != UNKNOWN).sum())
    if not known:
        raise BadSetting(
            f"no label is known of any of the {len(data.target)} training and validation records; "
            f"give more records (--limit), or another task: ecgbench list tasks"
        )
    done = {
        fold: _fold(data, where == fold, advance, folder and folder / f"fold{fold}")
        for fold in np.unique(where).tolist()
    }
    # where all labels are known: by the number of records
    loss = np.sum([h["loss"] for h in done.values()], axis=0) / (known / data.target.shape[1])
    chosen = int(np.argmin(loss))
    times = times_drawn(seed, data.patients)
    features, record_of, weight = data.fitted.of(times > 0)
    (last,) = logistic.path(
        features, data.target[record_of], weight * times[record_of], [PENALTIES[chosen]]
    )
    advance(1)
    held_out = _held_out(data, where, done, chosen)
    return Probed(chosen=chosen, loss=loss, held_out=held_out, folds=done, last=last)


def total(seed: int, data: Examples) -> int:
    """How many penalties `probe` will fit, over all folds and for all records."""
    return len(np.unique(_folds(seed, data))) * len(PENALTIES) + 1


def _folds(seed: int, data: Examples) -> np.ndarray:
    where = np.array([fold_of(seed, patient) for patient in data.patients])
    if len(np.unique(where)) < 2:
        raise BadSetting(
            f"the probe is cross-validated over patients, and the "
            f"{len(set(data.patients))} of training and validation are all in one fold; give more "
            f"records (--limit), or add --protocol linear"
        )
    return where


def _fold(
    data: Examples, held_out: np.ndarray, advance: Callable[[int], None], file: Path | None
) -> Heads:
    """The heads fitted without the records that are `held_out` (record,), and their log-loss there;
    as they lie in `file`, where an earlier process has finished the fold.
    """
    if file and (content := read_hashed(file)) is not None:
        advance(len(PENALTIES))
        return load(content)
    features, record_of, weight = data.fitted.of(~held_out)
    theirs, whose, share = data.fitted.of(held_out)
    found, loss = [], []
    for fitted in logistic.path(features, data.target[record_of], weight, PENALTIES):
        logits = theirs.astype(np.float64) @ fitted.weight.T + fitted.bias
        loss.append(share @ logistic.losses(data.target[whose], logits).mean(axis=1))
        found.append(fitted)
        advance(1)
    columns = {n: [getattr(f, n) for f in found] for n in ("weight", "bias", "gradient", "steps")}
    columns |= {"loss": loss, "missed": [len(f.missed) for f in found]}
    arrays = {name: np.array(values) for name, values in columns.items()}
    if file:
        put_hashed(file, save(arrays))
    return arrays


def _held_out(
    data: Examples, where: np.ndarray, folds: dict[int, Heads], chosen: int
) -> np.ndarray:
    """(record, label) probability, averaged over a record's windows as in the evaluation."""
    predicted = np.empty(data.target.shape)
    for fold, of_fold in folds.items():
        features, record_of, _ = data.complete.of(where == fold)
        _, position = np.unique(record_of, return_inverse=True)
        predicted[where == fold] = probabilities(
            features, position, of_fold["weight"][chosen], of_fold["bias"][chosen]
        )
    return predicted
