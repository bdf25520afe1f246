"""Ribeiro-dev: six labels of CODE's annotations, most patients without a diagnosis left out."""

import csv
from pathlib import Path

import numpy as np
import pytest

from ecgbench.data.prepare import prepare
from ecgbench.datasets import ribeiro_dev
from ecgbench.errors import MissingData
from ecgbench.pretrain import recipe
from ecgbench.pretrain.assemble import development
from tests.datasets.test_corpora import wfdb_record

LEADS = ("DI", "DII", "DIII", "AVR", "AVL", "AVF", "V1", "V2", "V3", "V4", "V5", "V6")
FLAGS = ("1dAVb", "RBBB", "LBBB", "SB", "ST", "AF")
"""In another order than the labels have."""
PATIENTS = 4000


def annotations(root: Path, rows: list[tuple[object, ...]]) -> None:
    with (root / "annotations.csv").open("w", newline="") as out:
        csv.writer(out).writerows([("id_exam", "id_patient", "date_exam", *FLAGS), *rows])


def listed(root: Path, names: list[str]) -> None:
    (root / "wfdb").mkdir(parents=True, exist_ok=True)
    (root / "wfdb" / "RECORDS.txt").write_text("\n".join(f"S0010/{n}" for n in names) + "\n")


def made(data: Path, *more: tuple[object, ...]) -> Path:
    """CODE with the signals of forty patients, most with a diagnosis, and more annotations."""
    root, rows, names = data / "code", [], []
    for i in range(40):
        name = f"TNMG{100 + i}_N1"
        wfdb_record(root / "wfdb" / "S0010", name, LEADS, 400, 1000 + i)
        rows.append((100 + i, 7 * i, "2012-01-01", *(int(k == i % 6) for k in range(6))))
        names.append(name)
    annotations(root, [*rows, *more])
    listed(root, names)
    return root


@pytest.fixture
def minas(tmp_path: Path) -> Path:
    """CODE without signals: each patient has an exam with nothing, each tenth one with a diagnosis
    too, in two records.
    """
    root, rows, names = tmp_path / "code", [], []
    root.mkdir()
    for patient in range(PATIENTS):
        rows.append((10_000 + patient, patient, "2012-01-01", *["0"] * 6))
        names.append(f"TNMG{10_000 + patient}_N1")
        if patient % 10 == 0:
            hot = [int(k == patient // 10 % 6) for k in range(6)]
            rows.append((50_000 + patient, patient, "2013-01-01", *hot))
            names += [f"TNMG{50_000 + patient}_N{i}" for i in (1, 2)]
    names.append("TNMG99_N1")  # without an annotation
    annotations(root, rows)
    listed(root, names)
    return tmp_path


def test_who_has_a_diagnosis_stays_and_of_the_others_few(minas: Path) -> None:
    found = ribeiro_dev.index(minas / "code")
    labels = found[[*ribeiro_dev.COLUMNS.values()]]
    ill = found[labels.any(axis=1)]
    assert len(ill) == PATIENTS // 10 * 2
    healthy = found[~labels.any(axis=1)]
    expected = PATIENTS * (1 - ribeiro_dev.DROPPED)
    assert abs(len(healthy) - expected) < 5 * np.sqrt(expected)
    assert not healthy["patient"].map(ribeiro_dev.dropped).any()
    assert "TNMG99_N1" not in set(found["record"])
    # by name: the table has ST before AF, the labels AF before ST
    row = found.set_index("record").loc["TNMG50040_N2"]
    assert [c for c in labels if row[c]] == ["ribeiro_dev:STACH"]
    assert ribeiro_dev.TASK.labels == ("1AVB", "RBBB", "LBBB", "SBRAD", "AFIB", "STACH")
    assert (found.groupby("patient")["split"].nunique() == 1).all()
    assert found["split"].value_counts(normalize=True).round(1).to_dict() == {
        "train": 0.8, "val": 0.1, "test": 0.1,
    }  # fmt: skip


def test_flags_and_lists_that_are_none(minas: Path) -> None:
    root = minas / "code"
    annotations(root, [(1, 2, "2012-01-01", 0, 0, 0, 0, 0, "yes")])
    with pytest.raises(MissingData, match="id_exam 1 has a flag"):
        ribeiro_dev.index(root)
    annotations(root, [(1, 2, "2012-01-01", 0, 0, 0, 0, 0, 1)])
    with pytest.raises(MissingData, match="names no record of wfdb/RECORDS"):
        ribeiro_dev.index(root)


@pytest.mark.long
def test_signals_are_those_of_code_and_an_exam_that_is_named_twice_is_not_trusted(
    tmp_path: Path,
) -> None:
    made(tmp_path, (103, 5000, "2012-01-01", *["0"] * 6))
    copy = prepare("ribeiro_dev", tmp_path, tmp_path / "prepared")
    lost = {"TNMG103_N1": "annotations.csv names its exam 103 twice"}
    assert dict(copy.quarantined.itertuples(index=False, name=None)) == lost
    whole = prepare("code", tmp_path, tmp_path / "prepared")
    assert dict(whole.quarantined.itertuples(index=False, name=None)) == lost
    assert len(copy.index) == 39
    same = copy.recording("TNMG111_N1").signal == whole.recording("TNMG111_N1").signal
    assert same.all()


def test_pretraining_says_which_task_stands_in() -> None:
    line = "development task: {} on one in {} training patients, who are not trained on"
    told = {name: development(recipe.get(name)) for name in ("paper", "small", "smoke")}
    assert told == {
        "paper": "development task: ribeiro_dev",
        "small": line.format("ptbxl_super", 8) + ", which stands in for the paper's ribeiro_dev",
        "smoke": line.format("demo", 4),
    }
