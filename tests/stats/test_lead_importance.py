"""Profiles over leads: against AUROCs computed anew, a planted right lead, and noise."""

from itertools import combinations

import numpy as np
import pytest
import scipy.stats
from sklearn.metrics import roc_auc_score

from ecgbench.stats import lead_importance as stats
from ecgbench.stats.auroc import placements, wins
from ecgbench.stats.components import Components
from ecgbench.stats.lead_importance import Profiles

LEADS = 12


def made(skill, n=400, seed=0, per_patient=2, common=0.7):
    """Scores of twelve leads of which each tells label k by skill[lead, k] standard deviations."""
    skill, random = np.asarray(skill, float), np.random.default_rng(seed)
    labels = skill.shape[1]
    target = (random.random((n, labels)) < 0.3).astype(np.int8)
    noise = np.sqrt(common) * random.standard_normal((n, labels))
    noise = noise + np.sqrt(1 - common) * random.standard_normal((LEADS, n, labels))
    scores = skill[:, None] * target + noise
    patients = np.array([f"p{i // per_patient:04}" for i in range(n)])
    placed = np.stack([placements(target, wins(target, s)) for s in scores])
    names = [f"L{k}" for k in range(labels)]
    return Profiles(target=target, patients=patients, placements=placed, names=names), scores


def test_aurocs_and_halves_are_those_of_sklearn() -> None:
    profiles, scores = made(np.linspace(0.2, 1.5, LEADS)[:, None] * [1, 0.5])
    expected = [[roc_auc_score(profiles.target[:, k], s[:, k]) for k in range(2)] for s in scores]
    np.testing.assert_allclose(profiles.aurocs, expected, atol=1e-12)
    halves = profiles.halves(1, np.random.default_rng(5))
    names = np.unique(profiles.patients)
    half = names[np.random.default_rng(5).permutation(len(names))[: len(names) // 2]]
    for side, mine in enumerate(
        (np.isin(profiles.patients, half), ~np.isin(profiles.patients, half))
    ):
        anew = [
            [roc_auc_score(profiles.target[mine, k], s[mine, k]) for k in range(2)] for s in scores
        ]
        # to first order: about one pair in all pairs apart
        np.testing.assert_allclose(halves[0, side], anew, atol=0.006)


def test_exchangeable_leads_are_found_beyond_their_null_in_one_of_twenty() -> None:
    """Also where the leads share most of their noise, and where a few records are positive."""
    random, beyond, ranges, expected, reliable = np.random.default_rng(2), [], [], [], []
    for seed in range(25):
        profiles, _ = made(np.full((LEADS, 6), 0.7), n=160, seed=seed)
        null = stats.null(profiles.exchanged(100, random))
        ranges += np.ptp(profiles.aurocs, axis=0).tolist()
        beyond += [r > one.bound for r, one in zip(np.ptp(profiles.aurocs, axis=0), null)]
        expected += [one.expected for one in null]
        reliable += stats.reliability(profiles.halves(50, random)).tolist()
    assert np.mean(beyond) == pytest.approx(0.05, abs=0.05)
    assert np.mean(expected) == pytest.approx(np.mean(ranges), rel=0.05)
    assert np.median(reliable) < 0.2


def test_reliability_of_a_known_signal_is_its_share_of_the_variance() -> None:
    """Between-lead variance over itself and the error of all patients."""
    random = np.random.default_rng(3)
    truth = random.normal(size=(LEADS, 1))
    halves = truth[None, None] + np.sqrt(2) * random.normal(size=(400, 2, LEADS, 1))
    signal = truth.var()
    assert stats.reliability(halves)[0] == pytest.approx(signal / (signal + 1), abs=0.12)
    assert np.isnan(stats.reliability(np.full((100, 2, LEADS, 1), np.nan)))[0]


def test_z_is_that_of_scipy_and_undefined_where_nothing_differs() -> None:
    values = np.random.default_rng(4).random((LEADS, 5))
    values[:, 1], values[3, 2] = 0.7, np.nan
    z = stats.z_scores(values)
    np.testing.assert_allclose(z[:, [0, 3, 4]], scipy.stats.zscore(values[:, [0, 3, 4]]))
    assert np.isnan(z[:, 1:3]).all()
    assert np.isnan(stats.points(values)[:, 2]).all()


def test_folds_of_a_label_are_averaged_and_one_without_both_values_is_left_out() -> None:
    whole, _ = made(np.full((LEADS, 1), 1.0), n=90)
    target, placed = np.full((90, 3), -1, np.int8), np.full((LEADS, 90, 3), np.nan)
    for fold in range(3):
        rows = slice(30 * fold, 30 * fold + 30)
        target[rows, fold] = whole.target[rows, 0] if fold < 2 else 0
        for lead in range(LEADS):
            score = whole.placements[lead, rows]
            own = target[rows, fold : fold + 1]
            placed[lead, rows, fold : fold + 1] = placements(own, wins(own, score))
    folds = Profiles(
        target=target, patients=whole.patients, placements=placed, names=["L", "L", "L"]
    )
    assert folds.labels == ("L",)
    each = [
        [np.nanmean(placed[lead, target[:, f] == 1, f]) for f in (0, 1)] for lead in range(LEADS)
    ]
    np.testing.assert_allclose(folds.aurocs[:, 0], np.mean(each, axis=1))
    assert np.isfinite(folds.exchanged(3, np.random.default_rng(0))).all()


def test_shapes_that_do_not_fit_are_told() -> None:
    target, names = np.zeros((3, 2), np.int8), ["A", "B"]
    with pytest.raises(ValueError, match="must fit the target"):
        Profiles(target=target, patients=np.arange(3), placements=np.zeros((12, 3, 1)), names=names)


def test_bounds_of_the_range_hold_in_95_of_100() -> None:
    """With leads that differ as stated, and with leads that are all alike."""
    pairs = list(combinations(range(LEADS), 2))
    apart = np.array([np.eye(LEADS)[a] - np.eye(LEADS)[b] for a, b in pairs])
    for spread in (0.0, 0.5):
        skill = 0.6 + spread * np.linspace(0, 1, LEADS)[:, None] * [1, 0.6, 0.2]
        truth = scipy.stats.norm.cdf(skill / np.sqrt(2)).mean(axis=1)
        held = []
        for seed in range(20):
            profiles, _ = made(skill, n=160, seed=seed)
            components = Components(profiles.target, profiles.patients, profiles.placements)
            found = [components.contrast(c) for c in apart]
            random = np.random.default_rng(seed)
            normal = random.standard_normal((300, components.patients))
            drawn = components.joint(apart, normal, random)
            low, high = stats.simultaneous([e.value for e in found], [e.se for e in found], drawn)
            held.append(max(low.max(), -high.min()) <= np.ptp(truth) <= max(high.max(), -low.min()))
        assert np.mean(held) >= 0.9


def test_leads_that_differ_by_rounding_have_no_order() -> None:
    """The same AUROC from all leads, summed in another order in each half."""
    random = np.random.default_rng(0)
    profile = 1e-16 * np.arange(LEADS)
    halves = 0.7 + profile[:, None] + 1e-17 * random.standard_normal((100, 2, LEADS, 1))
    assert np.isnan(stats.reliability(halves)[0])
    assert np.isnan(stats.z_scores(0.7 + profile)).all()
