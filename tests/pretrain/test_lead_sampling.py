"""What lead sampling is worth: against sums by hand, and how often its intervals hold the truth."""

from types import SimpleNamespace

import numpy as np
import pytest

from ecgbench.pretrain import ablation_page as ablation
from ecgbench.pretrain.lead_sampling import LOSS, READINGS, Key, contrasts, scores
from ecgbench.stats.auroc import macro_auroc

STEPS, EQUAL, HALF = 24, 13, 12
PATIENTS = [f"p{i // 2}" for i in range(120)]


def said(
    draw: np.random.Generator, seeds: int, worth: float, spread: float
) -> tuple[np.ndarray, dict[tuple[str, int, int], np.ndarray]]:
    """Two networks whose probabilities part labels by a skill, with one lead by `worth` more in the
    one that was shown some leads; seeds move both readings by `spread`.
    """
    target = (draw.random((120, 3)) < 0.35).astype(np.int8)
    shared = draw.normal(size=(120, 3))
    found = {}
    for cell, more in (("some", worth), ("all", 0.0)):
        for seed in range(seeds):
            moved = spread * draw.normal()
            for step in (HALF, EQUAL, STEPS):
                skill = np.r_[[1.5], np.full(24, 0.7 + more)] + moved
                noise = draw.normal(size=(25, 120, 3))
                found[cell, seed, step] = skill[:, None, None] * target + shared + noise
    return target, found


def test_contrasts_are_sums_of_scores_by_seed() -> None:
    target, found = said(np.random.default_rng(1), 3, 0.4, 0.1)
    every = scores(found, target)

    def score(cell: str, seed: int, step: int, at: slice) -> float:
        return float(np.mean([macro_auroc(target, p) for p in found[cell, seed, step][at]]))

    twelve, one, padded = READINGS.values()
    assert (twelve, one, padded) == (slice(0, 1), slice(1, 13), slice(13, 25))
    for seed in range(3):
        own = every[Key("all", EQUAL, "padded")].by_seed[seed]
        assert own == score("all", seed, EQUAL, padded)
    made = {c.name: c for c in contrasts(every, "some", "all", STEPS, target, PATIENTS)}
    assert len(made) == 10
    for name, step, other in (
        ("loss from twelve leads to one, equal steps", STEPS, one),
        ("loss from twelve leads to one, as many leads seen", EQUAL, one),
        ("loss from twelve leads to one, the other padded, as many leads seen", EQUAL, padded),
    ):
        by_hand = [
            score("some", s, STEPS, one)
            - score("some", s, STEPS, twelve)
            - score("all", s, step, other)
            + score("all", s, step, twelve)
            for s in range(3)
        ]
        assert list(made[name].by_seed.values()) == pytest.approx(by_hand, abs=1e-12)
        assert made[name].value == pytest.approx(np.mean(by_hand), abs=1e-12)


def test_evidence_takes_the_same_sign_after_half_of_the_steps() -> None:
    target, found = said(np.random.default_rng(5), 5, 0.8, 0.02)
    other = {k: v for k, v in found.items() if k[2] != HALF}
    # after half of the steps the networks have changed places with one lead
    for (cell, seed, step), probability in found.items():
        if step == HALF:
            other["all" if cell == "some" else "some", seed, step] = probability
    name = "loss from twelve leads to one, equal steps"
    for given, evident in ((found, True), (other, False)):
        made = contrasts(scores(given, target), "some", "all", STEPS, target, PATIENTS)
        (loss,) = (c for c in made if c.name == name)
        assert loss.interval.low > 0
        assert loss.half is not None
        assert (loss.half > 0) == loss.evidence == evident
    seen = {c.name: c.half for c in made}
    assert seen["loss from twelve leads to one, as many leads seen"] is None


@pytest.mark.long
def test_of_equal_networks_few_studies_show_anything() -> None:
    """200 studies of five seeds whose networks lose equally much: at most 5 % may show any of the
    ten contrasts, and a large difference is seen.
    """
    draw, shown = np.random.default_rng(7), 0
    for _ in range(200):
        target, found = said(draw, 5, 0.0, 0.1)
        made = contrasts(scores(found, target), "some", "all", STEPS, target, PATIENTS)
        shown += any(c.interval.low > 0 or c.interval.high < 0 for c in made)
    assert shown <= 18, shown  # the 0.99 quantile of Binomial(200, 0.05)
    target, found = said(draw, 5, 0.8, 0.02)
    made = contrasts(scores(found, target), "some", "all", STEPS, target, PATIENTS)
    assert all(c.interval.low > 0 for c in made if c.name.startswith(("one", "loss")))


def test_an_interval_of_two_seeds_ends_where_a_difference_can_reach() -> None:
    target, found = said(np.random.default_rng(3), 2, 0.1, 0.5)
    made = contrasts(scores(found, target), "some", "all", STEPS, target, PATIENTS)
    assert (-1, 1) in {tuple(c.interval) for c in made}
    for c in made:
        most = 2 if c.name.startswith("loss") else 1
        assert -most <= c.interval.low < c.interval.high <= most


def test_one_seed_and_different_seeds_have_no_interval() -> None:
    target, found = said(np.random.default_rng(3), 2, 0.1, 0.1)
    for step in (HALF, EQUAL, STEPS):
        del found["all", 1, step]
    for few in (found, {k: v for k, v in found.items() if k[1] == 0}):
        made = contrasts(scores(few, target), "some", "all", STEPS, target, PATIENTS)
        assert all(np.isnan(c.interval).all() and len(c.by_seed) == 1 for c in made)


def test_one_step_has_no_part_that_has_seen_as_many_leads() -> None:
    target, found = said(np.random.default_rng(1), 2, 0.4, 0.1)
    one = {(cell, seed, 1): p for (cell, seed, step), p in found.items() if step == STEPS}
    made = contrasts(scores(one, target), "some", "all", 1, target, PATIENTS)
    assert len(made) == 5
    assert all(contrast.name.endswith("equal steps") for contrast in made)
    # one step has no half, which evidence takes
    assert not any(contrast.evidence for contrast in made)


def test_networks_without_a_seed_in_common_have_no_contrast() -> None:
    target, found = said(np.random.default_rng(1), 2, 0.4, 0.1)
    apart = {(c, s, step): p for (c, s, step), p in found.items() if (c == "some") == (s == 0)}
    assert contrasts(scores(apart, target), "some", "all", STEPS, target, PATIENTS) == []


def test_a_loss_that_is_above_zero_is_called_smaller() -> None:
    """A contrast of losses is above 0 where the network that was shown some leads loses less."""
    target, found = said(np.random.default_rng(5), 5, 0.8, 0.02)
    made = contrasts(scores(found, target), "some", "all", STEPS, target, PATIENTS)
    assert any(c.evidence and c.value > 0 for c in made if c.name.startswith(LOSS))
    source = SimpleNamespace(
        readings=True, contrasts=made, reference="all", facts={"about": {"published": None}}
    )
    text = " ".join(ablation._outcome(source, ablation.rows(source)))
    for one in (c for c in made if c.name.startswith(LOSS) and c.evidence):
        (sentence,) = [part for part in text.split(". ") if one.name in part]
        assert ("smaller than for" in sentence) == (one.value > 0)
