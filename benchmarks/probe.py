"""The penalties of one fold of `--protocol probe` beside scikit-learn's LogisticRegression, in one
process.

`python benchmarks/probe.py`: generated features with strongly unequal principal axes, as encoders
give them; thirteen penalties from strong to weak, every label to a gradient below 1e-6, each fit
starting from those before it. scikit-learn's lbfgs (one label after the other, warm start) is
asked for a largest entry of the gradient below 1e-6 and may stop earlier; the longest gradient in
which either ends is printed. The two take turns; times are medians. Then where our time goes.
`--rows 13600 --dim 768 --labels 71` is a fold of all of PTB-XL; `--alone` leaves scikit-learn out.
"""

import argparse
import cProfile
import pstats
import time
import warnings

import numpy as np
from laef import machine
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from ecgbench.evaluate.protocols.probe import PENALTIES
from ecgbench.stats import logistic

PARTS = {
    "times": "products: rows x directions",
    "slope": "products: gradients",
    "slope_at": "along a direction",
    "_sigmoid": "probabilities",
    "_times_inverse": "L-BFGS memory",
    "advance": "the rest of a step",
    "of": "standardising, principal axes",
    "diagonal": "second derivatives",
}


def generated(rows: int, dim: int, labels: int) -> tuple[np.ndarray, np.ndarray]:
    """Features (row, dim) float32 and labels of rates from 0.5 % to 40 % (row, label)."""
    draw = np.random.default_rng(0)
    hidden = draw.normal(size=(rows, 64)) * np.exp(-np.arange(64) / 12)
    features = hidden @ draw.normal(size=(64, dim)) + 0.05 * draw.normal(size=(rows, dim))
    score = hidden @ draw.normal(size=(64, labels)) + 2 * draw.normal(size=(rows, labels))
    rates = np.exp(draw.uniform(np.log(0.005), np.log(0.4), labels))
    edges = [np.quantile(s, 1 - rate) for s, rate in zip(score.T, rates)]
    return features.astype(np.float32), (score > edges).astype(np.int8)


def ours(features: np.ndarray, target: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    fits = logistic.path(features, target, np.ones(len(features)), PENALTIES)
    return [(fit.weight, fit.bias) for fit in fits]


def theirs(features: np.ndarray, target: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    standard = logistic.Standard.of(features, np.ones(len(features)))
    x = standard(features)
    found = []
    for label in target.T:
        model = LogisticRegression(tol=1e-6, max_iter=5000, warm_start=True)
        for penalty in PENALTIES:
            model.set_params(C=1 / (penalty * len(x))).fit(x, label)
            found.append((model.coef_[0] / standard.scale, model.intercept_[0]))
    each = [found[i :: len(PENALTIES)] for i in range(len(PENALTIES))]
    weights = [np.stack([w for w, _ in fits]) for fits in each]
    biases = [np.array([b for _, b in fits]) for fits in each]
    return [(w, b - w @ standard.mean) for w, b in zip(weights, biases)]


def gradient(features: np.ndarray, target: np.ndarray, penalty: float, head: tuple) -> float:
    """The longest gradient of a label, over coefficients of standardised features."""
    standard, (weight, bias) = logistic.Standard.of(features, np.ones(len(features))), head
    logits = features.astype(np.float64) @ weight.T + bias
    error = (1 / (1 + np.exp(-logits)) - target) / len(target)
    slope = standard(features).T @ error + penalty * weight.T * standard.scale[:, None]
    return float(np.sqrt((slope**2).sum(axis=0) + error.sum(axis=0) ** 2).max())


def parts(features: np.ndarray, target: np.ndarray) -> None:
    profile = cProfile.Profile()
    profile.runcall(ours, features, target)
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    total = sum(own for _, _, own, _, _ in stats.values())
    for name, meaning in PARTS.items():
        spent = sum(
            cumulative if name in ("of", "diagonal") else own
            for (file, _, function), (_, _, own, cumulative, _) in stats.items()
            if function == name and file.endswith("logistic.py")
        )
        print(f"  {meaning:32}{100 * spent / total:5.0f} %")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, usual in (("rows", 2000), ("dim", 300), ("labels", 5), ("repeat", 3)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--alone", action="store_true")
    given = parser.parse_args()
    features, target = generated(given.rows, given.dim, given.labels)
    print(f"{machine('cpu')}; {given.rows} rows, {given.dim} features, {given.labels} labels")
    runs = {"ours": ours} if given.alone else {"ours": ours, "scikit-learn": theirs}
    taken: dict[str, list[float]] = {name: [] for name in runs}
    heads = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for _ in range(given.repeat):
            for name, run in runs.items():
                started = time.perf_counter()
                heads[name] = run(features, target)
                taken[name].append(time.perf_counter() - started)
    medians = {name: float(np.median(seconds)) for name, seconds in taken.items()}
    for name, seconds in medians.items():
        worst = max(gradient(features, target, p, h) for p, h in zip(PENALTIES, heads[name]))
        ratio = f", ours in {medians['ours'] / seconds:.2f} of that" if name != "ours" else ""
        print(f"  {name:14}{seconds:8.1f} s, longest gradient {worst:.1e}{ratio}")
    parts(features, target)


if __name__ == "__main__":
    main()
