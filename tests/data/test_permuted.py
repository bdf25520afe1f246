"""Labels dealt anew: what stays together, what is counted, and that nobody is favoured."""

import numpy as np
import pandas as pd
from ecgbench.data.permuted import permuted


def table(counts: dict[str, list[int]]) -> pd.DataFrame:
    """Split -> records of each patient; the label rows tell whose they were."""
    rows = [
        (split, f"{split}{p}", n)
        for split, numbers in counts.items()
        for p, n in enumerate(numbers)
        for _ in range(n)
    ]
    made = pd.DataFrame(rows, columns=["split", "patient", "of"])
    made["record"] = [f"r{i}" for i in range(len(made))]
    made["t:a"] = np.arange(len(made))
    made["t:b"] = made["t:a"] + 1000
    return made


def test_splits_keep_their_rows_of_labels_and_patients_theirs_together() -> None:
    index = table({"train": [1] * 20 + [2] * 20 + [7], "test": [1] * 30})
    made = permuted(index, "d", 0)
    other = [c for c in index.columns if ":" not in c]
    assert made[other].equals(index[other])
    assert (made["t:b"] - made["t:a"] == 1000).all()
    for split, own in made.groupby("split"):
        assert sorted(own["t:a"]) == sorted(index.loc[index["split"] == split, "t:a"])
    # two records: both come from one patient, but for those who share with the one of seven
    source = index["patient"].to_numpy()[made["t:a"]]
    pairs = pd.Series(source)[(index["of"] == 2).to_numpy()].groupby(index["patient"])
    assert (pairs.nunique() == 1).sum() >= 15
    alone = pd.Series(source)[(index["of"] == 1) & (index["split"] == "train")]
    assert alone.str.removeprefix("train").astype(int).max() < 20


def test_a_permutation_is_its_own_and_favours_nobody() -> None:
    index = table({"test": [1] * 12})
    drawn = np.array([permuted(index, "d", k)["t:a"].to_numpy() for k in range(240)])
    assert permuted(index, "d", 5)["t:a"].tolist() == drawn[5].tolist()
    # each label falls to each patient in one of twelve permutations
    counts = np.array([[(drawn[:, at] == label).sum() for label in range(12)] for at in range(12)])
    assert np.sum((counts - 20) ** 2 / 20) < 180  # chi squared, 121 degrees of freedom: p > 0.0004
    assert not np.array_equal(drawn[0], permuted(index, "e", 0)["t:a"])
