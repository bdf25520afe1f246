from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecgbench.datasets.indexing import folds

WORDS = "abcde"
RECORDS = st.lists(
    st.tuples(st.integers(0, 40), st.lists(st.sampled_from(WORDS), max_size=4)),
    min_size=1,
    max_size=150,
)


def drawn(records: int, seed: int = 0) -> tuple[list[str], list[list[str]]]:
    """Patients of 1 to 4 records, labels of 2 to 40 % of the records, a fifth without any."""
    draw = np.random.default_rng(seed)
    patients = [f"p{n}" for n in np.sort(draw.integers(0, records // 2, records))]
    shares = dict(zip(WORDS, (0.02, 0.05, 0.1, 0.2, 0.4)))
    labels = [[w for w, s in shares.items() if draw.random() < s] for _ in range(records)]
    return patients, labels


@given(RECORDS, st.integers(2, 10))
def test_whole_patients_in_every_order(records: list[tuple[int, list[str]]], count: int) -> None:
    patients, labels = [f"p{p}" for p, _ in records], [own for _, own in records]
    fold = folds.stratified("x", patients, labels, count)
    assert fold.min() >= 1
    assert fold.max() <= count
    of = dict(zip(patients, fold.tolist()))
    assert [of[p] for p in patients] == fold.tolist()
    order = np.random.default_rng(len(records)).permutation(len(records))
    again = folds.stratified("x", [patients[i] for i in order], [labels[i] for i in order], count)
    assert again.tolist() == fold[order].tolist()


def test_every_label_has_its_share_in_every_fold() -> None:
    patients, labels = drawn(3000)
    fold = folds.stratified("x", patients, labels, 10)
    sizes = np.bincount(fold)[1:]
    assert sizes.min() >= 290
    assert sizes.max() <= 310
    for word in WORDS:
        has = np.array([word in own for own in labels])
        counts = np.bincount(fold[has], minlength=11)[1:]
        assert np.abs(counts - has.sum() / 10).max() <= 2, (word, counts)


def test_patients_without_a_label_are_dealt_to_all_folds() -> None:
    """Where the reference leaves them to training."""
    patients = [f"p{i}" for i in range(1000)]
    labels = [["a"] if i < 100 else [] for i in range(1000)]
    fold = folds.stratified("x", patients, labels, 10)
    assert set(np.bincount(fold)[1:]) == {100}
    assert set(Counter(fold[:100].tolist()).values()) == {10}


def test_the_name_is_the_seed() -> None:
    patients, labels = drawn(300)
    one, again, other = (folds.stratified(n, patients, labels, 10) for n in ("x", "x", "y"))
    assert one.tolist() == again.tolist() != other.tolist()


def test_in_turns_patients_stay_whole_and_shares_hold() -> None:
    patients, labels = drawn(4000)
    fold = folds.batched("x", patients, labels, 10, folds.turns_of(patients, 300))
    of = dict(zip(patients, fold.tolist()))
    assert [of[p] for p in patients] == fold.tolist()
    has = np.array(["e" in own for own in labels])
    counts = np.bincount(fold[has], minlength=11)[1:]
    assert np.abs(counts - has.sum() / 10).max() <= 0.1 * has.sum() / 10


@pytest.mark.parametrize("count", [5, 100])
def test_the_last_fold_is_the_test_split(count: int) -> None:
    patients, labels = drawn(2000)
    fold = folds.stratified("x", patients, labels, count)
    split = folds.splits(fold)
    assert set(fold[split == "test"]) == {count}
    assert set(fold[split == "val"]) == {count - 1}
