from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from ecgbench.errors import BadSetting
from ecgbench.evaluate.protocols import probe
from ecgbench.evaluate.protocols.probe import (
    FOLDS,
    PENALTIES,
    Examples,
    Windows,
    fold_of,
    times_drawn,
)
from ecgbench.stats import logistic


def nothing(done: int) -> None:
    pass


def examples(patients: int = 60, dim: int = 6, labels: int = 3, seed: int = 0) -> Examples:
    """One or two records of each patient, one to three windows each; label k is the sign of feature
    k with noise.
    """
    draw = np.random.default_rng(seed)
    owner_of = np.repeat(np.arange(patients), np.resize([1, 2], patients))
    n = len(owner_of)
    hearts = 3 + draw.normal(size=(n, dim)) * np.arange(1, dim + 1)
    counts = np.resize([1, 3, 2], n)
    record_of = np.repeat(np.arange(n), counts)
    features = hearts[record_of] + 0.3 * draw.normal(size=(len(record_of), dim))
    score = (hearts - 3)[:, :labels] + draw.normal(size=(n, labels))
    windows = Windows(features=features.astype(np.float32), record_of=record_of)
    return Examples(
        patients=[f"p{i}" for i in owner_of],
        target=(score > 0).astype(np.int8),
        fitted=windows,
        complete=windows,
    )


def folds(data: Examples, seed: int = 0) -> np.ndarray:
    return np.array([fold_of(seed, patient) for patient in data.patients])


def test_the_folds_are_of_patients_and_of_nothing_else() -> None:
    """All five are used, about alike; another seed gives others."""
    of = np.array([fold_of(0, str(i)) for i in range(2000)])
    assert np.bincount(of).min() > 300
    assert len(np.bincount(of)) == FOLDS
    assert (of != [fold_of(1, str(i)) for i in range(2000)]).mean() > 0.7


def test_predictions_of_held_out_records_are_those_of_scikit_learn() -> None:
    """The whole path for one fold: rows of the others, weighted 1 per record, standardised by
    themselves, one penalty for all labels, windows averaged.
    """
    data = examples()
    found, where = probe.probe(0, data, nothing), folds(data)
    counts = np.bincount(data.fitted.record_of)
    for fold in range(FOLDS):
        mine = np.flatnonzero(where == fold)
        learn = ~np.isin(data.fitted.record_of, mine)
        weight = 1 / counts[data.fitted.record_of[learn]]
        x = data.fitted.features.astype(np.float64)
        scaler = StandardScaler().fit(x[learn], sample_weight=weight)
        for label in range(data.target.shape[1]):
            theirs = LogisticRegression(
                C=1 / (PENALTIES[found.chosen] * weight.sum()), tol=1e-9, max_iter=10_000
            )
            target = data.target[data.fitted.record_of[learn], label]
            theirs.fit(scaler.transform(x[learn]), target, sample_weight=weight)
            each = theirs.predict_proba(scaler.transform(x))[:, 1]
            expected = [each[data.complete.record_of == record].mean() for record in mine]
            np.testing.assert_allclose(found.held_out[mine, label], expected, atol=1e-5)


def test_a_fold_learns_nothing_of_the_records_held_out() -> None:
    """Neither from their features (not even their mean) nor from their labels, but it judges
    them.
    """
    data = examples()
    held = folds(data) == 2
    shifted = data.fitted.features + np.where(held[data.fitted.record_of], 50, 0)[:, None]
    windows = replace(data.fitted, features=shifted.astype(np.float32))
    other = replace(
        data,
        target=np.where(held[:, None], 1 - data.target, data.target),
        fitted=windows,
        complete=windows,
    )
    was, now = probe.probe(0, data, nothing), probe.probe(0, other, nothing)
    np.testing.assert_array_equal(was.folds[2]["weight"], now.folds[2]["weight"])
    assert (was.folds[2]["loss"] != now.folds[2]["loss"]).all()
    assert (was.folds[1]["weight"] != now.folds[1]["weight"]).any()


def test_noise_takes_the_strongest_penalty_and_says_so() -> None:
    data = examples()
    noise = np.random.default_rng(5).integers(0, 2, (len(data.patients), 40)).astype(np.int8)
    found = probe.probe(0, replace(data, target=noise), nothing)
    assert found.chosen == 0
    assert found.warnings == [
        "the strongest penalty that was tried was chosen: a better one may lie beyond"
    ]


class Killed(Exception):
    pass


def killed_after(penalties: int) -> Callable[[int], None]:
    done = 0

    def advance(n: int) -> None:
        nonlocal done
        done += n
        if done > penalties:
            raise Killed

    return advance


def test_a_killed_fit_goes_on_behind_its_last_fold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = examples()
    whole = probe.probe(0, data, nothing)
    with pytest.raises(Killed):
        probe.probe(0, data, killed_after(3 * len(PENALTIES)), tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["fold0", "fold1", "fold2"]
    damaged = tmp_path / "fold1"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"\1")
    fitted, path = [], logistic.path

    def counted(features: np.ndarray, *words: object) -> object:
        fitted.append(len(features))
        return path(features, *words)  # type: ignore[arg-type]

    monkeypatch.setattr(logistic, "path", counted)
    done: list[int] = []
    again = probe.probe(0, data, done.append, tmp_path)
    assert len(fitted) == 1 + 2 + 1, "the damaged fold, two that were missing, and the last head"
    np.testing.assert_array_equal(again.last.weight, whole.last.weight)
    np.testing.assert_array_equal(again.held_out, whole.held_out)
    assert again.log == whole.log
    assert sum(done) == probe.total(0, data)


def test_a_repeat_with_another_seed_draws_patients_and_shows_a_spread() -> None:
    """A regression has one minimum: repeats on all records would differ by their folds alone."""
    data = examples()
    assert (times_drawn(0, data.patients) == 1).all()
    times = times_drawn(1, data.patients)
    by_patient = {p: {t for t, q in zip(times, data.patients) if q == p} for p in data.patients}
    assert all(len(t) == 1 for t in by_patient.values())
    assert sum(t.pop() for t in by_patient.values()) == 60
    assert 0.2 < (times == 0).mean() < 0.55
    found = probe.probe(1, data, nothing)
    counts = np.bincount(data.fitted.record_of)
    weight = (times / counts)[data.fitted.record_of]
    kept = weight > 0
    features = data.fitted.features[kept].astype(float)
    scaler = StandardScaler().fit(features, sample_weight=weight[kept])
    scaled = scaler.transform(features)
    for label in range(3):
        theirs = LogisticRegression(
            C=1 / (PENALTIES[found.chosen] * weight.sum()), tol=1e-10, max_iter=10_000
        ).fit(scaled, data.target[data.fitted.record_of][kept, label], sample_weight=weight[kept])
        np.testing.assert_allclose(
            found.last.weight[label] * scaler.scale_, theirs.coef_[0], atol=1e-4
        )
    apart = np.abs(probe.probe(2, data, nothing).last.weight - found.last.weight).max()
    assert apart > 0.01


def test_a_label_is_fitted_to_the_records_that_know_it() -> None:
    """scikit-learn on those records alone, their features on the scale of all rows that know a
    label; the loss that chooses the penalty is of known entries alone.
    """
    data, draw = examples(), np.random.default_rng(7)
    unknown = draw.random(data.target.shape) < [0.0, 0.4, 0.5]
    unknown[:6] = True
    data = replace(data, target=np.where(unknown, -1, data.target))
    record_of, some = data.fitted.record_of, ~unknown.all(axis=1)
    weight = 1 / np.bincount(record_of)[record_of]
    x, target = data.fitted.features.astype(np.float64), data.target[record_of]
    scaler = StandardScaler().fit(x[some[record_of]], sample_weight=weight[some[record_of]])
    (head,) = logistic.path(x, target, weight, [0.01])
    for k in range(3):
        known = target[:, k] >= 0
        theirs = LogisticRegression(C=100 / weight[known].sum(), tol=1e-10, max_iter=10_000)
        theirs.fit(scaler.transform(x[known]), target[known, k], sample_weight=weight[known])
        np.testing.assert_allclose(head.weight[k] * scaler.scale_, theirs.coef_[0], atol=1e-5)
        bias = head.bias[k] + head.weight[k] @ scaler.mean_
        assert bias == pytest.approx(theirs.intercept_[0], abs=1e-5)

    probed, where = probe.probe(0, data, nothing), folds(data)
    total = 0.0
    for fold in range(FOLDS):
        learn = where[record_of] != fold
        (head,) = logistic.path(x[learn], target[learn], weight[learn], [PENALTIES[probed.chosen]])
        logits = x[~learn] @ head.weight.T + head.bias
        p = np.where(target[~learn] == 1, 1 / (1 + np.exp(-logits)), 1 / (1 + np.exp(logits)))
        total += float((-np.log(p) * (target[~learn] >= 0) * weight[~learn, None]).sum())
    known = (data.target >= 0).sum()
    assert probed.loss[probed.chosen] == pytest.approx(total / known, rel=1e-3)


def test_a_label_that_a_fold_or_nobody_knows() -> None:
    data = examples()
    target = data.target.copy()
    target[:, 0] = -1
    target[folds(data) != 1, 1] = -1
    found = probe.probe(0, replace(data, target=target), nothing)
    assert np.isfinite(found.held_out).all()
    # of no record known: a rate of one half, and no coefficient
    assert not found.last.weight[0].any()
    assert found.last.bias[0] == 0
    with pytest.raises(BadSetting, match="no label is known of any of the"):
        probe.probe(0, replace(data, target=np.full_like(target, -1)), nothing)
