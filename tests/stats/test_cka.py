"""Debiased linear CKA: its laws, the n x n computation, and what its draws claim."""

import numpy as np
import pytest

from ecgbench.stats import cka as module
from ecgbench.stats.cka import Products, cka, drawn, ratio, standardised

RNG = np.random.default_rng(0)


def hsic(k: np.ndarray, q: np.ndarray) -> float:
    """The unbiased estimate as Song et al. 2012 write it (equation 5), loops and all."""
    n = len(k)
    k, q = k - np.diag(np.diag(k)), q - np.diag(np.diag(q))
    one = np.ones(n)
    first = np.trace(k @ q)
    second = (one @ k @ one) * (one @ q @ one) / ((n - 1) * (n - 2))
    third = 2 / (n - 2) * (one @ k @ q @ one)
    return float((first + second - third) / (n * (n - 3)))


def by_products(x: np.ndarray, y: np.ndarray) -> float:
    k, q = x @ x.T, y @ y.T
    return hsic(k, q) / float(np.sqrt(hsic(k, k) * hsic(q, q)))


def related(n: int, d: int, e: int, noise: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    shared = RNG.normal(size=(n, 5))
    sides = (shared @ RNG.normal(size=(5, k)) + noise * RNG.normal(size=(n, k)) for k in (d, e))
    first, second = sides
    return first, second


@pytest.mark.parametrize(("n", "d", "e"), [(40, 7, 11), (12, 30, 25), (50, 3, 90), (4, 2, 2)])
def test_it_is_the_unbiased_ratio_of_n_by_n(n: int, d: int, e: int) -> None:
    x, y = related(n, d, e)
    assert cka(x, y) == pytest.approx(by_products(x, y), rel=1e-9)
    # and not moved by where the origin lies
    far = cka(x + 100.0, y - 3.0)
    assert far == pytest.approx(by_products(x, y), rel=1e-6)
    assert ratio(Products.of(x), Products.of(y)) == pytest.approx(cka(x, y), rel=1e-9)


def test_rotation_and_scale_change_nothing_and_itself_is_one() -> None:
    x, y = related(60, 8, 13)
    turn = np.linalg.qr(RNG.normal(size=(8, 8)))[0]
    assert cka(x, x) == pytest.approx(1, abs=1e-12)
    assert cka(x @ turn * 17, y) == pytest.approx(cka(x, y), rel=1e-9)
    assert cka(x, y) == pytest.approx(cka(y, x), rel=1e-12)
    order = RNG.permutation(60)
    assert cka(x[order], y[order]) == pytest.approx(cka(x, y), rel=1e-9)


def test_what_does_not_vary_has_none() -> None:
    x = RNG.normal(size=(30, 4))
    assert np.isnan(cka(x, np.full((30, 3), 0.7)))
    assert np.isnan(cka(np.zeros((30, 2)), x))
    assert np.isnan(cka(x[:3], x[:3]))
    assert np.isnan(ratio(Products.of(x), Products.of(np.full((30, 3), 0.7))))
    broken = x.copy()
    broken[3, 1] = np.nan
    for odd in (broken, x[:, 0]):
        with pytest.raises(ValueError, match="must be"):
            cka(odd, x)
    with pytest.raises(ValueError, match=r"30 records .* 29"):
        cka(x, x[:29])


def test_standardised_columns_count_alike() -> None:
    x, y = related(80, 6, 6)
    loud = x.copy()
    loud[:, 0] = 1e4 * RNG.normal(size=80)
    assert cka(loud, y) < 0.3 < cka(standardised(loud), standardised(y))
    assert (standardised(np.ones((5, 2))) == 0).all()


def test_permutations_and_halves_keep_what_they_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under no relation p is uniform; the interval of a relation covers what many records say."""
    monkeypatch.setattr(module, "DRAWS", 40)
    n, p = 60, []
    for seed in range(80):
        random = np.random.default_rng(seed)
        x, y = random.normal(size=(n, 10)), random.normal(size=(n, 12))
        p.append(drawn(Products.of(x), Products.of(y), n, random).p)
    assert 0.01 <= np.mean(np.array(p) < 0.1) <= 0.2
    assert min(p) >= 1 / 41

    random = np.random.default_rng(1)
    mix = random.normal(size=(3, 8)), random.normal(size=(3, 9))

    def sides(count: int) -> list[np.ndarray]:
        shared = random.normal(size=(count, 3))
        return [shared @ m + 2 * random.normal(size=(count, m.shape[1])) for m in mix]

    truth, covered = cka(*sides(40_000)), 0
    for _ in range(60):
        found = drawn(*map(Products.of, sides(120)), 120, random)
        covered += found.low <= truth <= found.high
    assert 50 <= covered <= 60


def test_the_interval_of_a_larger_set_is_narrower_by_the_root() -> None:
    x, y = map(Products.of, related(100, 6, 7))
    widths = [
        (lambda d: d.high - d.low)(drawn(x, y, records, np.random.default_rng(3)))
        for records in (100, 400)
    ]
    assert widths[0] / widths[1] == pytest.approx(2, rel=1e-9)
