"""Splits that follow from an index alone: its own with another number of folds, and folds of a
cross-validation.
"""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecgbench.cards.dataset import DatasetCard, Task
from ecgbench.core.division import Division
from ecgbench.core.parts import Parts
from ecgbench.data import source, splits
from ecgbench.data.copy import Copy
from ecgbench.data.source import Source
from ecgbench.data.splits import (
    by_recorder,
    cross_validation,
    demand_enough,
    resplit,
    split_digest,
    splits_of,
    trainable,
)
from ecgbench.datasets import brugada, ptbxl
from ecgbench.datasets.indexing.folds import TURN, dealt, dealt_again
from ecgbench.errors import BadSetting

LABELS = ("A", "B")
CARD = replace(
    brugada.CARD, tasks=(Task(name="t", title="T", labels=LABELS),), folds=5, folder="toy"
)


def index(patients: int = 60, size: int | None = None) -> pd.DataFrame:
    """Two records of most patients; a third of the patients has no label."""
    names = [f"p{i:03d}" for i in range(patients) for _ in range(1 + i % 2)]
    of = [int(name[1:]) for name in names]
    held = [[label for label in LABELS if i % 3 and i % (3 + (label == "B")) == 1] for i in of]
    columns = {f"t:{n}": [int(n in own) for own in held] for n in LABELS}
    own = dealt("toy", names, held, CARD.folds, size)
    records = {"record": [f"r{i:03d}" for i in range(len(names))], "patient": names}
    return pd.DataFrame({**records, **own, **columns})


def copy(table: pd.DataFrame, card: DatasetCard = CARD, folder: Path = Path("none")) -> Copy:
    module: Any = SimpleNamespace(CARD=card)
    source = Source("toy", module, None, "", False, table)
    there = Copy(source=source, parts=Parts(folder / "copy"))
    return there.divided(table, table.iloc[::2].assign(sha256="0"), "")


@pytest.mark.parametrize("size", [None, 20])
def test_folds_dealt_again_follow_from_the_index_alone(size: int | None) -> None:
    table = index(size=size)
    assert (TURN in table) == (size is not None)
    assert dealt_again("toy", table, CARD.folds).tolist() == table["fold"].tolist()
    order = np.random.default_rng(0).permutation(len(table))
    again = dealt_again("toy", table.iloc[order], 7)
    assert again.tolist() == dealt_again("toy", table, 7)[order].tolist()


def test_another_number_of_folds_divides_published_and_prepared_records_alike() -> None:
    before = copy(index())
    now = resplit(before, Division.parse("toy=10"))
    shares = now.published["split"].value_counts(normalize=True)
    assert 0.05 < shares["test"] < 0.15
    assert before.published["split"].value_counts(normalize=True)["test"] > 0.15
    assert (now.published.groupby("patient")["split"].nunique() == 1).all()
    of = dict(zip(now.published["record"], now.published["split"]))
    assert [of[r] for r in now.index["record"]] == now.index["split"].tolist()
    assert now.digest != before.digest
    assert split_digest(now.published) != split_digest(before.published)
    assert "its split has 10 folds instead of 5 (--folds toy=10)" in now.division
    assert resplit(before, Division.parse("other=10")) is before
    assert resplit(before, Division.parse("5")) is before


def test_as_in_the_reference_patients_without_a_label_train_and_the_others_stay() -> None:
    before = copy(index())
    now = resplit(before, Division(reference=True))
    without = before.published.groupby("patient")[[f"t:{n}" for n in LABELS]].sum().sum(axis=1) == 0
    moved = before.published["patient"].map(without).to_numpy()
    assert set(before.published.loc[moved, "split"]) == {"train", "val", "test"}
    assert set(now.published.loc[moved, "split"]) == {"train"}
    assert now.published.loc[~moved, "split"].equals(before.published.loc[~moved, "split"])
    assert f"{without.sum()} patients without a label are in training" in now.division
    published = copy(index(), ptbxl.CARD)
    assert resplit(published, Division(reference=True)) is published


def test_what_is_dealt_for_long_is_kept_beside_the_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "LONG", -1.0)
    before, asked = copy(index(), folder=tmp_path), Division.parse("toy=10")
    first = resplit(before, asked).published["split"]
    (file,) = tmp_path.glob("folds-*.sealed")
    monkeypatch.setattr(splits, "dealt_again", lambda *_: pytest.fail("dealt once more"))
    assert resplit(before, asked).published["split"].equals(first)
    monkeypatch.undo()
    written = file.read_bytes()
    for spoilt in (b"damaged", written[:-8]):
        file.write_bytes(spoilt)
        assert resplit(before, asked).published["split"].equals(first)
        assert not file.exists(), "set aside"


def test_a_split_that_cannot_be_made_is_refused() -> None:
    with pytest.raises(BadSetting, match="toy has 6 patients, which leaves no record for "):
        resplit(copy(index(6)), Division.parse("toy=50"))
    with pytest.raises(BadSetting, match="has no column 'strata'"):
        resplit(copy(index().drop(columns="strata")), Division.parse("toy=10"))


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.booleans(), st.booleans()), min_size=40, max_size=120
    ),
    st.integers(3, 6),
)
def test_every_record_is_tested_once_and_validates_once_with_its_patient(
    drawn: list[tuple[int, bool, bool]], count: int
) -> None:
    """7, "7.0" and ' 7 ' are one patient, as they are for the splits of a dataset."""
    spelled = [f"{p}.0" if i % 3 else f" {p} " for i, (p, _, _) in enumerate(drawn)]
    table = pd.DataFrame({"record": [f"r{i}" for i in range(len(drawn))], "patient": spelled})
    table[["t:A", "t:B"]] = [[int(a), int(b)] for _, a, b in drawn]
    if len({p for p, _, _ in drawn}) < count:
        with pytest.raises(BadSetting, match="patients in this run, and each fold needs one"):
            cross_validation("toy", CARD.tasks, table, count)
        return
    fold = cross_validation("toy", CARD.tasks, table, count)
    people = pd.Series([p for p, _, _ in drawn])
    assert (pd.Series(fold).groupby(people).nunique() == 1).all()
    splits = [splits_of(fold, f"{k + 1}/{count}") for k in range(count)]
    for own in zip(*splits):
        assert Counter(own) == {"test": 1, "val": 1, "train": count - 2}
    order = np.random.default_rng(count).permutation(len(table))
    assert (
        cross_validation("toy", CARD.tasks, table.iloc[order], count).tolist()
        == fold[order].tolist()
    )


def test_a_fold_by_recorder_is_of_one_that_training_has_not_met() -> None:
    devices = ["A"] * 12 + ["B"] * 9 + ["C"] * 6 + ["D"] * 3 + [""] * 2
    known = pd.DataFrame({"device": devices, "patient": [f"p{i // 2}" for i in range(32)]})
    fold, recorders = by_recorder("toy", known, 4)
    assert recorders == ["A", "B", "C"]
    assert (pd.Series(fold).groupby(known["patient"]).nunique() == 1).all()
    for number, one in enumerate(recorders, 1):
        assert set(known["device"][fold == number]) == {one}
    # patients whom two recorders recorded are in the last fold
    assert set(known["device"][fold == 4]) == {"B", "C", "D", ""}
    assert (fold == 4).sum() == 8
    with pytest.raises(BadSetting, match="name 4 recorders"):
        by_recorder("toy", known, 7)
    with pytest.raises(BadSetting, match="name 2 recorders"):
        by_recorder("toy", known[:20], 3)


def test_labels_have_their_share_in_every_fold() -> None:
    table = index(300)
    fold = cross_validation("toy", CARD.tasks, table, 5)
    for label in LABELS:
        assert np.ptp(table.groupby(fold)[f"t:{label}"].sum()) <= 3
    assert np.ptp(np.bincount(fold)[1:]) <= 3


TOY: Any = SimpleNamespace(name="toy", tasks=CARD.tasks)


def rare(positives: int, patients: int = 40) -> pd.DataFrame:
    names = [f"p{i:02d}" for i in range(patients)]
    table = pd.DataFrame({"record": names, "patient": names, "t:B": 0})
    return table.assign(**{"t:A": [int(i < positives) for i in range(patients)]})


def test_a_task_of_which_no_label_can_be_trained_and_tested_is_refused() -> None:
    (task,) = CARD.tasks
    demand_enough(TOY, [task], rare(10), Division(cross=10))
    assert trainable(rare(10), task, cross_validation("toy", CARD.tasks, rare(10), 10), 10) == ["A"]
    # two patients with the label cannot train, validate and test
    with pytest.raises(BadSetting, match=r"--folds 5: no label of t .* more records"):
        demand_enough(TOY, [task], rare(2), Division(cross=5))
    # three can, in three folds
    demand_enough(TOY, [task], rare(3), Division(cross=3))
    with pytest.raises(BadSetting, match=r"--folds 20: no label of t .*; give fewer folds"):
        demand_enough(TOY, [task], rare(3), Division(cross=20))
