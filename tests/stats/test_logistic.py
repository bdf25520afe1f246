import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from ecgbench.stats import logistic
from ecgbench.stats.logistic import Fitted, Standard, path


def rows(n: int, dim: int, labels: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Features with unequal scales, means and strong correlations, labels that half follow them, of
    which the first is rare, and unequal weights.
    """
    draw = np.random.default_rng(seed)
    hidden = draw.normal(size=(n, 8))
    features = hidden @ draw.normal(size=(8, dim)) + 0.1 * draw.normal(size=(n, dim))
    features = features * np.exp(draw.normal(size=dim)) + 5 * draw.normal(size=dim)
    score = hidden @ draw.normal(size=(8, labels)) + 2 * draw.normal(size=(n, labels))
    target = score > np.quantile(score, np.linspace(0.96, 0.4, labels), axis=0).diagonal()
    return features.astype(np.float32), target.astype(np.int8), draw.choice([1, 0.5, 0.25], n)


def gradients(
    fitted: Fitted, features: np.ndarray, target: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """(label,) length of the gradient, by its definition, over coefficients of standardised
    features.
    """
    share, x = weight / weight.sum(), features.astype(np.float64)
    mean = share @ x
    scale = np.sqrt(share @ (x - mean) ** 2)
    probability = 1 / (1 + np.exp(-(x @ fitted.weight.T + fitted.bias)))
    error = share[:, None] * (probability - target)
    inner = ((x - mean) / scale).T @ error + fitted.penalty * fitted.weight.T * scale[:, None]
    return np.sqrt((inner**2).sum(axis=0) + error.sum(axis=0) ** 2)


@pytest.mark.parametrize(("n", "dim"), [(300, 20), (60, 150)], ids=["tall", "wide"])
def test_equals_scikit_learn(n: int, dim: int) -> None:
    """The same function, intercept free; C is 1 / (penalty x sum of weights). Its lbfgs stops early
    where the penalty is weak, whatever its tolerance; its Newton steps do not.
    """
    features, target, weight = rows(n, dim, 3)
    scaler = StandardScaler().fit(features.astype(np.float64), sample_weight=weight)
    for fitted in path(features, target, weight, [1.0, 1e-2, 1e-4], tolerance=1e-9):
        for label in range(3):
            theirs = LogisticRegression(
                C=1 / (fitted.penalty * weight.sum()),
                solver="lbfgs" if fitted.penalty > 1e-3 else "newton-cholesky",
                tol=1e-10,
                max_iter=100_000,
            )
            x = scaler.transform(features.astype(np.float64))
            theirs.fit(x, target[:, label], sample_weight=weight)
            ours = features.astype(np.float64) @ fitted.weight[label] + fitted.bias[label]
            np.testing.assert_allclose(
                1 / (1 + np.exp(-ours)), theirs.predict_proba(x)[:, 1], atol=1e-6
            )
            np.testing.assert_allclose(
                fitted.weight[label] * scaler.scale_, theirs.coef_[0], atol=1e-5
            )


@pytest.mark.parametrize(("n", "dim"), [(200, 12), (40, 90)])
def test_every_fit_reaches_its_gradient(n: int, dim: int) -> None:
    """Down to penalties at which every label is separated."""
    features, target, weight = rows(n, dim, 5, seed=1)
    for fitted in path(features, target, weight, np.logspace(1, -7, 5)):
        assert fitted.missed == ()
        found = gradients(fitted, features, target, weight)
        assert found.max() < 1.01 * logistic.TOLERANCE
        assert found.max() == pytest.approx(fitted.gradient, rel=0.02)


def test_a_fit_that_stops_too_early_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    features, target, weight = rows(200, 12, 3)
    monkeypatch.setattr(logistic, "STEPS", 3)
    (fitted,) = path(features, target, weight, [1e-6])
    assert fitted.missed == (0, 1, 2)
    assert fitted.steps <= 3
    found = gradients(fitted, features, target, weight)
    assert fitted.gradient == pytest.approx(found.max(), rel=1e-6)


@pytest.mark.parametrize("value", [0.0, 0.1, -3e4])
def test_a_constant_feature_has_no_say(value: float) -> None:
    """0.1 as float32 has a mean with rounding, and so a spread that is not quite 0."""
    features, target, weight = rows(90, 6, 2)
    (without,) = path(features, target, weight, [0.01])
    wider = np.insert(features, 3, np.float32(value), axis=1)
    (fitted,) = path(wider, target, weight, [0.01])
    assert (fitted.weight[:, 3] == 0).all()
    np.testing.assert_allclose(np.delete(fitted.weight, 3, 1), without.weight, atol=1e-5)
    assert Standard.of(wider, weight).constant.nonzero()[0].tolist() == [3]


def test_a_label_with_one_value_gets_its_rate() -> None:
    features, target, weight = rows(90, 6, 3)
    target[:, 0], target[:, 2] = 0, 1
    (fitted,) = path(features, target, weight, [0.01])
    assert (fitted.weight[[0, 2]] == 0).all()
    total = weight.sum()
    rate = 1 / (1 + np.exp(-fitted.bias))
    assert rate[0] == pytest.approx(0.5 / (total + 1))
    assert rate[2] == pytest.approx((total + 0.5) / (total + 1))
    (alone,) = path(features, target[:, 1:2], weight, [0.01])
    np.testing.assert_allclose(fitted.weight[1], alone.weight[0], atol=1e-9)
    (none,) = path(features, target[:, :1], weight, [0.01])
    assert none.missed == ()
    assert none.gradient == 0


def test_what_makes_no_sense_is_refused() -> None:
    features, target, weight = rows(20, 4, 2)
    for penalty in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="above 0"):
            list(path(features, target, weight, [penalty]))
    with pytest.raises(ValueError, match="same rows"):
        list(path(features[:-1], target, weight, [1.0]))
    with pytest.raises(ValueError, match="weights above 0"):
        list(path(features, target, 0 * weight, [1.0]))


def test_losses_do_not_overflow() -> None:
    found = logistic.losses([[1, 1, 0]], [[-800.0, 800.0, 800.0]])
    np.testing.assert_allclose(found, [[800, 0, 800]])
