"""EchoNext: which row of which array a record is, standardised values, flags as they are."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ecgbench.data.prepare import prepare, state
from ecgbench.datasets import echonext
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import MissingData

VALVES = (
    *("aortic_stenosis", "aortic_regurgitation", "mitral_regurgitation"),
    *("tricuspid_regurgitation", "pulmonary_regurgitation"),
)
FLAGS = [
    *("lvef_lte_45_flag", "lvwt_gte_13_flag"),
    *(f"{valve}_moderate_or_greater_flag" for valve in VALVES),
    "rv_systolic_dysfunction_moderate_or_greater_flag",
    *("pericardial_effusion_moderate_large_flag", "pasp_gte_45_flag", "tr_max_gte_32_flag"),
]
QUANTITIES = [
    *(["lvef_value"], ["ivs_measurement", "lvpw_measurement"]),
    *([f"{valve}_value"] for valve in VALVES),
    *(["rv_systolic_function_value"], ["pericardial_effusion_value"]),
    *(["pasp_value"], ["tr_max_velocity_value"]),
]
"""Of each flag."""
SPLITS = ["no_split", "train", "test", "train", "val", "no_split", "test", "train"] * 3


def value(line: int, column: str) -> str:
    """Of a quantity: empty in every second line, of the second thickness in the others' second."""
    empty = line % 4 < 3 if column == "lvpw_measurement" else line % 2 == 1
    return "" if empty else "2.5"


def write(root: Path, name: str = "echonext_metadata_100k.csv") -> Path:
    """Splits take turns in the table; value of a sample: 10 x line + lead + a part of the time."""
    folder = root / "echonext"
    folder.mkdir(parents=True)
    lines = [
        {"ecg_key": f"0{i}", "patient_key": f"p{i // 8 if s == 'train' else 100 + i}", "split": s}
        | {flag: int(i % 11 == k) for k, flag in enumerate(FLAGS)}
        | {"shd_moderate_or_greater_flag": 1}
        | {column: value(i, column) for own in QUANTITIES for column in own}
        for i, s in enumerate(SPLITS)
    ]
    pd.DataFrame(lines).iloc[:, ::-1].to_csv(folder / name, index=False)
    time = np.arange(2500)[:, None] / 2500
    for split in set(SPLITS):
        own = [i for i, s in enumerate(SPLITS) if s == split]
        array = np.stack([[10 * i + np.arange(12) + time] for i in own])
        assert array.shape == (len(own), 1, 2500, 12)
        np.save(folder / f"EchoNext_{split}_waveforms.npy", array)
    return root


def test_labels_are_the_papers() -> None:
    assert [f"{label}_flag" for label in echonext.TASK.labels] == FLAGS


def test_each_record_is_the_row_of_its_split_and_nothing_is_repaired(tmp_path: Path) -> None:
    copy = prepare("echonext", write(tmp_path), tmp_path / "prepared")
    assert copy.unit == "standardised"
    assert not len(copy.left_out)
    assert len(copy.index) == 18
    for row in copy.index.to_dict("records"):
        i = int(row["record"])
        assert (row["record"], row["split"]) == (f"0{i}", SPLITS[i])
        recording = copy.recording(row["record"])
        # Einthoven's law does not hold for these values, and they stay so
        assert np.allclose(recording.signal[:, 0], 10 * i + np.arange(12), rtol=1e-4)
        assert (recording.fs, recording.leads, recording.signal.shape) == (250, LEADS, (12, 2500))
        assert [c for c in echonext.TASK.columns if row[c]] == [echonext.TASK.columns[i % 11]]


def test_a_flag_0_without_a_measured_value_is_unknown_and_a_flag_1_stays(tmp_path: Path) -> None:
    task = echonext.CARD.task("echonext_measured")
    assert (task.masked, task.labels, task.parent) == (True, echonext.TASK.labels, None)
    assert task.columns[9] == "echonext_measured:pasp_gte_45"
    index = prepare("echonext", write(tmp_path), tmp_path / "prepared").index
    for row in index.to_dict("records"):
        i = int(row["record"])
        for k, (column, own) in enumerate(zip(task.columns, QUANTITIES)):
            measured = any(value(i, quantity) for quantity in own)
            assert row[column] == (1 if i % 11 == k else 0 if measured else -1), (i, column)
    # line 3: of two thicknesses one was measured
    third = index.set_index("record").loc["03"]
    assert third["echonext_measured:lvwt_gte_13"] == 0
    assert third["echonext_measured:lvef_lte_45"] == -1


def test_the_table_in_capitals(tmp_path: Path) -> None:
    assert state("echonext", tmp_path, tmp_path / "prepared") == "absent"
    root = write(tmp_path / "a", "EchoNext_metadata_100k.csv")
    lower = echonext.index(write(tmp_path / "b") / "echonext")
    assert echonext.index(root / "echonext").equals(lower)
    assert state("echonext", root, tmp_path / "prepared") == "downloaded"
    (tmp_path / "nowhere" / "echonext").mkdir(parents=True)
    with pytest.raises(MissingData, match=r"echonext_metadata_100k.csv or EchoNext_metadata_100k"):
        prepare("echonext", tmp_path / "nowhere", tmp_path / "prepared")


def test_table_and_arrays_that_do_not_belong_together(tmp_path: Path) -> None:
    root = write(tmp_path) / "echonext"
    file = root / "echonext_metadata_100k.csv"
    table = pd.read_csv(file, dtype=str)
    table.iloc[:-1].to_csv(file, index=False)
    with pytest.raises(MissingData, match="holds 9 recordings, and the table has 8 of split train"):
        echonext.index(root)
    table.assign(pasp_gte_45_flag="").to_csv(file, index=False)
    with pytest.raises(MissingData, match="ecg_key 01 has a flag"):
        echonext.index(root)
    (root / "EchoNext_val_waveforms.npy").unlink()
    with pytest.raises(MissingData, match=r"EchoNext_val_waveforms.npy is missing or no array"):
        echonext.index(root)
