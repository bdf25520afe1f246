"""Splits of imported records: a split in which a label can be scored in every part is found exactly
where there is one.
"""

from itertools import combinations_with_replacement, product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ecgbench.data.imported import splitting
from ecgbench.data.imported.importing import usual_folds
from ecgbench.datasets import own
from ecgbench.datasets.indexing.tables import person
from ecgbench.errors import BadSetting

KINDS = {"with": (1,), "without": (0,), "both": (0, 1), "unknown": (-1,)}
PARTS = ("train", "val", "test")


def table_of(patients: list[tuple[tuple[int, ...], ...]]) -> pd.DataFrame:
    """A record per patient and value; of each patient its values of each label."""
    rows = [
        (f"P{i:02d}", *values)
        for i, labels in enumerate(patients)
        for values in zip(*(np.resize(one, 2) for one in labels))
    ]
    names = ["patient", *(f"l{k}" for k in range(len(patients[0])))]
    return pd.DataFrame(rows, columns=names)


def scored(table: pd.DataFrame, split: np.ndarray) -> bool:
    """By the words of the rule: a label with both values in every part."""
    return any(
        all({0, 1} <= {*table.loc[split == part, label]} for part in PARTS)
        for label in table.columns[1:]
    )


def found(table: pd.DataFrame, known: dict[str, int] | None = None) -> bool:
    labels = list(table.columns[1:])
    try:
        folds = splitting.count(table, labels)
    except BadSetting:
        return False
    table["fold"] = splitting.dealt(table, labels, folds, known or {})
    split = own.split_of(table)
    assert table.groupby("patient")["fold"].nunique().eq(1).all()
    assert {*table["fold"]} == {*range(1, folds + 1)}
    return scored(table.drop(columns="fold"), split)


def exists(patients: list[tuple[tuple[int, ...], ...]]) -> bool:
    """By trying every split of the patients into three parts."""
    return any(
        all(
            {0, 1} <= {v for values, part in zip(patients, parts) if part == k for v in values[n]}
            for k in range(3)
        )
        for parts in product(range(3), repeat=len(patients))
        for n in range(len(patients[0]))
    )


@pytest.mark.parametrize("count", range(1, 7))
def test_a_split_is_found_exactly_where_one_exists(count: int) -> None:
    for kinds in combinations_with_replacement(KINDS.values(), count):
        patients = [(kind,) for kind in kinds]
        assert found(table_of(patients)) == exists(patients), kinds


def test_as_many_labels_as_can_be_have_both_values_in_every_part() -> None:
    draw = np.random.default_rng(1)
    for _ in range(30):
        rare = draw.random((60, 4)) < [0.1, 0.5, 0.9, 0.08]
        table = table_of([tuple((int(v),) for v in row) for row in rare])
        labels = list(table.columns[1:])
        table["fold"] = splitting.dealt(table, labels, 5, {})
        split = own.split_of(table)
        for label in labels:
            few = min(int((table[label] == value).sum()) / 2 for value in (0, 1))
            every = all({0, 1} <= {*table.loc[split == part, label]} for part in PARTS)
            assert every == (few >= 3)


def test_known_patients_stay_and_new_ones_fill_what_is_missing() -> None:
    known = {f"P{i:02d}": fold for i, fold in enumerate((1, 1, 2, 3, 4, 5))}
    table = table_of([((0,),)] * 6 + [((1,),)] * 6)
    assert found(table, known)
    first = dict(zip(table["patient"].map(person), table["fold"]))
    assert {p: first[p] for p in known} == known


def test_what_is_missing_is_said_by_label() -> None:
    table = table_of([((1,), (0,))] * 2 + [((0,), (0,))] * 9)
    with pytest.raises(BadSetting, match="'l0' has 2 patients with it and 9 without; 'l1' has 0"):
        splitting.count(table, ["l0", "l1"])


@pytest.mark.parametrize(("patients", "folds"), [(60, 5), (277, 5), (999, 5), (1000, None)])
def test_where_a_tenth_of_the_patients_is_few_each_is_tested(
    patients: int, folds: int | None, tmp_path: Path
) -> None:
    said = {"title": "M", "recordings": "", "name": "m", "labels": ("af",), "patients_known": True}
    said |= {"splits": "ours: 10 folds by patient", "request": "", "table": "", "typed": {}}
    (tmp_path / own.CARD).write_text(own.Card(**said).text)
    rows = [f"r{i},r{i}.csv,P{i},{i % 10 + 1},0,I,100,2,0" for i in range(patients)]
    head = "record,file,patient,fold,af,leads,fs,seconds,sha256"
    (tmp_path / own.TABLE).write_text("\n".join([head, *rows]))
    assert usual_folds(tmp_path / own.CARD) == folds


@pytest.mark.parametrize(("patients", "folds"), [(100, 10), (99, 5), (10, 5), (9, 3)])
def test_ten_folds_where_patients_are_enough(patients: int, folds: int) -> None:
    table = table_of([((i % 2,),) for i in range(patients)])
    assert splitting.count(table, ["l0"]) == folds
