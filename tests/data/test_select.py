from hashlib import sha256
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ecgbench.cards.dataset import Task
from ecgbench.data.select import Selection, permuted
from ecgbench.datasets import demo

TASKS = (
    Task(name="all", title="All", labels=tuple(f"A{i}" for i in range(12))),
    Task(name="form", title="Form", labels=("A1", "A2"), parent="all"),
    Task(name="super", title="Super", labels=("S0", "S1", "S2")),
)
SIZES = {"train": 800, "val": 100, "test": 100}


def prepared(seed: int = 0) -> Any:
    """1,000 records; labels of 2 to 40 %; S2 is in no val record."""
    draw = np.random.default_rng(seed)
    splits = draw.permutation(np.repeat(list(SIZES), list(SIZES.values())))
    table = pd.DataFrame({"record": [f"{i:05d}" for i in range(1000)], "split": splits})
    table["patient"], table["sha256"] = (
        table["record"].str[:4],
        [f"{seed} {i}" for i in range(1000)],
    )
    for i, column in enumerate(sorted({c for t in TASKS for c in t.columns})):
        table[column] = (draw.random(1000) < 0.02 + 0.38 * i / 14).astype(np.int8)
    table.loc[table["split"] == "val", "super:S2"] = 0
    return SimpleNamespace(
        index=table,
        published=table,
        left_out=pd.DataFrame({"record": [], "kind": []}),
        card=SimpleNamespace(tasks=TASKS),
        name="toy",
        digest=f"digest{seed}",
    )


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(300, (240, 30, 30)), (3, (1, 1, 1)), (4, (2, 1, 1)), (999, (799, 100, 100))],
)
def test_a_limit_is_kept_in_the_proportion_of_the_splits(
    limit: int, expected: tuple[int, ...]
) -> None:
    found = Selection(prepared(), limit)
    assert tuple(len(found.of(s)) for s in SIZES) == expected
    assert len(found.index) == found.index["record"].nunique() == limit


def test_the_selection_of_a_limit_stays_what_it_was() -> None:
    """That of published runs."""
    whole = prepared()
    whole.index = whole.published = demo.index(None)
    whole.card, whole.name = demo.CARD, "demo"
    assert (
        sha256(" ".join(Selection(whole, 60).index["record"]).encode()).hexdigest()[:16]
        == "1be52fdfa11eeba6"
    )


def test_every_label_has_both_values_where_the_data_have_them() -> None:
    found = Selection(prepared(), 300)
    columns = sorted({c for t in TASKS for c in t.columns})
    for split in SIZES:
        values, whole = found.of(split)[columns], prepared().index.query("split == @split")[columns]
        expected = whole.nunique() == 2
        assert ((values.nunique() == 2) == expected).all()
        assert expected["super:S2"] == (split != "val")


def test_a_selection_depends_on_the_records_and_the_limit_alone() -> None:
    one, again, other = (
        Selection(prepared(), 60),
        Selection(prepared(), 60),
        Selection(prepared(), 61),
    )
    assert one.index.equals(again.index)
    assert one.digest == again.digest != other.digest
    assert list(one.index["record"]) == sorted(one.index["record"])
    data = prepared()
    data.digest = "of another release"
    assert (data.index.loc[one.index.index, "record"] == one.index["record"]).all()
    used = set(one.index["record"])
    unused = ~data.index["record"].isin(used)
    data.index.loc[unused, "sha256"] = "another signal"
    data.index = data.index.drop(index=data.index.index[unused][:100]).reset_index(drop=True)
    again = Selection(data, None)
    again.__dict__["index"] = data.index[data.index["record"].isin(used)]
    assert (again.digest, again.signals) == (one.digest, one.signals), (
        "records that are not used do not count"
    )


@pytest.mark.parametrize(
    ("column", "moved"),
    [
        ("sha256", {"digest", "signals", "form", "super"}),
        ("patient", {"digest", "form", "super"}),
        ("split", {"digest", "form", "super"}),
        ("all:A1", {"digest", "form"}),
        ("super:S0", {"digest", "super"}),
        ("all:A7", {"digest"}),
    ],
)
def test_each_fact_of_a_record_moves_what_rests_on_it(column: str, moved: set[str]) -> None:
    """Features rest on signals; a fit and a score also on patients, splits and the labels of their
    own task.
    """

    def digests(selection: Selection) -> dict[str, str]:
        labels = {t.name: selection.labelled(t.columns) for t in TASKS[1:]}
        return {"digest": selection.digest, "signals": selection.signals, **labels}

    before, data = digests(Selection(prepared(), None)), prepared()
    data.index.loc[5, column] = 1 - int(data.index.loc[5, column]) if ":" in column else "another"
    after = digests(Selection(data, None))
    assert {name for name in before if before[name] != after[name]} == moved


@pytest.mark.parametrize("limit", [None, 1000, 5000])
def test_a_limit_beyond_the_data_is_all_of_it(limit: int | None) -> None:
    assert Selection(prepared(), limit).index.equals(prepared().index)
    assert Selection(prepared(), limit).digest == Selection(prepared(), None).digest


def test_a_task_that_masks_the_labels_of_another_moves_no_selection() -> None:
    """A masked task of labels of its own is favoured as any other: where it is known."""
    whole, draw = prepared(), np.random.default_rng(1)
    before = list(Selection(whole, 60).index["record"])
    masked = Task(name="known", title="Known", labels=("S0", "S1", "S2"), masked=True)
    own = Task(name="own", title="Own", labels=("rare",), masked=True)
    table = whole.published.copy()
    for label in masked.labels:
        hidden = draw.random(len(table)) < 0.5
        table[f"known:{label}"] = np.where(hidden, -1, table[f"super:{label}"])
    whole.index = whole.published = table
    whole.card = SimpleNamespace(tasks=(*TASKS, masked))
    assert list(Selection(whole, 60).index["record"]) == before

    train = np.flatnonzero(table["split"] == "train")
    table["own:rare"] = -1
    table.loc[train[[300, 600]], "own:rare"] = [1, 0]
    whole.card = SimpleNamespace(tasks=(*TASKS, own))
    assert set(Selection(whole, 60).of("train")["own:rare"]) == {-1, 0, 1}


# ---- permuted labels


def by_patient(counts: dict[str, list[int]]) -> pd.DataFrame:
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
    index = by_patient({"train": [1] * 20 + [2] * 20 + [7], "test": [1] * 30})
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
    index = by_patient({"test": [1] * 12})
    drawn = np.array([permuted(index, "d", k)["t:a"].to_numpy() for k in range(240)])
    assert permuted(index, "d", 5)["t:a"].tolist() == drawn[5].tolist()
    # each label falls to each patient in one of twelve permutations
    counts = np.array([[(drawn[:, at] == label).sum() for label in range(12)] for at in range(12)])
    assert np.sum((counts - 20) ** 2 / 20) < 180  # chi squared, 121 degrees of freedom: p > 0.0004
    assert not np.array_equal(drawn[0], permuted(index, "e", 0)["t:a"])
