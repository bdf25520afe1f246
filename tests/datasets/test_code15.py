"""CODE-15%: exams by their number, padding, the rule of 10 s, folds of whole patients."""

import csv
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest

from ecgbench.data.prepare import prepare
from ecgbench.datasets import code15
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import MissingData

FLAGS = ("1dAVb", "RBBB", "LBBB", "SB", "ST", "AF")
"""In the order of exams.csv."""
LABELS = dict(zip(FLAGS, ("1AVB", "RBBB", "LBBB", "SBRAD", "STACH", "AFIB")))


def tracing(exam: int, samples: int = 4096) -> np.ndarray:
    """(4096, 12) float32 in mV: the exam's number and the lead's in the level, zeros around."""
    whole = np.zeros((4096, 12), np.float32)
    start = (4096 - samples) // 2
    whole[start : start + samples] = exam % 1000 / 1000 + np.arange(1, 13) / 4
    whole[start : start + samples : 2] += 0.25
    return whole


def make(data: Path, exams: int = 24) -> Path:
    """exams.csv and two parts whose rows are in another order, each with a row of zeros of exam 0;
    tracings are written by `put`. Every third exam is of the patient of the one before.
    """
    root = data / "code15"
    root.mkdir(parents=True)
    draw = np.random.default_rng(0)
    numbers = [101 + i for i in range(exams)]
    rows = []
    for i, exam in enumerate(numbers):
        flags = {flag: str(i % 7 == k) for k, flag in enumerate(FLAGS)}
        patient = 9000 + i - (i % 3 == 2)
        age, male = str(10 + i * 13 % 85), str(i % 2 == 0)
        row = {"exam_id": exam, "age": age, "is_male": male, "nn_predicted_age": "50.1", **flags}
        row |= {"patient_id": patient, "death": "", "timey": "", "normal_ecg": "False"}
        rows.append(row | {"trace_file": f"exams_part{exam % 2}.hdf5"})
    table = pd.DataFrame(rows)
    table.sample(frac=1, random_state=0).to_csv(root / "exams.csv", index=False)
    for part in (0, 1):
        own = np.append(draw.permutation([n for n in numbers if n % 2 == part]), 0)
        with h5py.File(root / f"exams_part{part}.hdf5", "w") as file:
            file["exam_id"] = own.astype(np.int64)
            shape = (len(own), 4096, 12)
            file.create_dataset("tracings", shape, np.float32, chunks=(1, 4096, 12))
    return root


def put(root: Path, exam: int, array: np.ndarray) -> None:
    with h5py.File(root / f"exams_part{exam % 2}.hdf5", "r+") as file:
        (row,) = np.flatnonzero(file["exam_id"][()] == exam)
        file["tracings"][int(row)] = array


def edit(root: Path, exam: int, column: str, value: str) -> None:
    frame = pd.read_csv(root / "exams.csv", dtype=str, keep_default_na=False)
    frame.loc[frame["exam_id"] == str(exam), column] = value
    frame.to_csv(root / "exams.csv", index=False)


def test_flags_by_name_tracings_by_exam_and_the_rule_of_ten_seconds(tmp_path: Path) -> None:
    root = make(tmp_path)
    lengths = dict.fromkeys(range(101, 125), 4096)
    # 4095: one zero row, of which no half is taken
    lengths |= {103: 2934, 104: 3998, 105: 4000, 106: 4095, 107: 0}
    for exam, samples in lengths.items():
        put(root, exam, tracing(exam, samples))
    # one number is not there, another is there twice
    with h5py.File(root / "exams_part0.hdf5", "r+") as file:
        (row,) = np.flatnonzero(file["exam_id"][()] == 108)
        file["exam_id"][int(row)] = 110
    copy = prepare("code15", tmp_path, tmp_path / "prepared")
    assert copy.excluded["record"].tolist() == ["103", "104"]
    assert set(copy.excluded["reason"]) == {"shorter than 10 s"}
    once = "exams_part0.hdf5 does not hold this exam once"
    assert copy.quarantined.to_dict("list") == {
        "record": ["107", "108", "110"],
        "reason": ["all samples are zero", once, once],
    }
    assert len(copy.index) == 19
    for record in copy.index["record"]:
        exam = int(record)
        signal = copy.recording(record).signal
        assert signal.shape == (12, {105: 4000}.get(exam, 4096))
        level = exam % 1000 / 1000 + np.arange(1, 13) / 4
        assert np.abs(np.sort(signal, axis=1)[:, 100] - level).max() < 1e-3
    found = copy.index.set_index("record")
    for exam in (101, 105, 106, 109):
        flag = FLAGS[(exam - 101) % 7] if (exam - 101) % 7 < 6 else ""
        columns = [c for c in found if ":" in c and found.loc[str(exam), c] == 1]
        assert columns == [f"code15:{LABELS[flag]}", f"code15_known:{LABELS[flag]}"]
    assert found.loc["102", "sex"] == "female"


def test_labels_are_unknown_of_an_exam_with_neither_a_flag_nor_the_mark_of_a_normal_ecg(
    tmp_path: Path,
) -> None:
    root = make(tmp_path)
    # 107 and 114 have no flag; 101 has one, whatever the mark says
    edit(root, 107, "normal_ecg", "True")
    edit(root, 121, "normal_ecg", "")
    found = code15.index(root).set_index("record")
    flags, known = found[code15.TASK.columns], found[code15.KNOWN.columns]
    expected = flags.to_numpy().copy()
    expected[found.index.isin(["114", "121"])] = -1
    np.testing.assert_array_equal(known.to_numpy(), expected)
    assert set(flags.to_numpy().ravel()) == {0, 1}
    edit(root, 107, "normal_ecg", "perhaps")
    with pytest.raises(MissingData, match="exam_id 107 has a flag"):
        code15.index(root)


def test_zeros_within_a_tracing_are_counted_with_its_padding(tmp_path: Path) -> None:
    """The reference benchmark's rule: half of them go at either end, wherever they are."""
    root = make(tmp_path)
    array = tracing(101)
    array[2000:2011] = 0
    put(root, 101, array)
    row = code15.index(root).set_index("record", drop=False).loc["101"].to_dict()
    np.testing.assert_array_equal(code15.read(root, row).signal, array[5:-5].T)


def test_what_a_table_may_not_say(tmp_path: Path) -> None:
    root = make(tmp_path)
    edit(root, 101, "trace_file", "exams_part17.hdf5")
    with pytest.raises(MissingData, match=r"lacks exams_part17.hdf5, which exams.csv names"):
        code15.index(root)
    edit(root, 101, "trace_file", "exams_part1.hdf5")
    (root / "exams_part1.hdf5").write_bytes(b"<html>")
    with pytest.raises(MissingData, match=r"exams_part1.hdf5 does not hold exam_id"):
        code15.index(root)


def test_genuine_tracings_are_millivolts_with_the_statistics_others_found(real_data: Path) -> None:
    """Mean and standard deviation of each lead, which others wrote down of the same exams."""
    root = real_data / "samples" / "code15"
    with (root / "ecgfm_meta.csv").open() as file:
        noted = {row["exam_id"]: row for row in csv.DictReader(file)}
    flawed = {"438277", "358121"}
    spans = []
    for row in code15.index(root).to_dict("records"):
        recording, facts = code15.read(root, row), noted[row["record"]]
        signal = recording.signal.astype(float)
        assert recording.leads == LEADS
        assert signal.shape == (12, int(facts["sample_size"]))
        for lead, values in enumerate(signal):
            assert values.mean() == pytest.approx(float(facts[f"mean_{lead}"]), abs=1e-4)
            assert values.std() == pytest.approx(float(facts[f"std_{lead}"]), rel=1e-3)
        i, ii, iii = signal[:3]
        assert (np.abs(iii - ii + i).max() > 0.05) == (row["record"] in flawed)
        present = {c.partition(":")[2] for c in row if ":" in c and row[c] == 1}
        assert present == {LABELS[flag] for flag in FLAGS if facts[flag] == "True"}
        assert row["patient"] == facts["patient_id"]
        spans.append(np.median(np.ptp(ii[:2800].reshape(7, 400), axis=1)))
    assert len(spans) == 10
    # QRS complexes of lead II; a tenth of this were they in units of 1e-4 V
    assert 1 < np.median(spans) < 3
    assert min(spans) > 0.5


def test_genuine_tracings_of_seven_seconds_are_left_out(tmp_path: Path, real_data: Path) -> None:
    copy = prepare("code15", real_data / "samples", tmp_path)
    assert (len(copy.index), len(copy.excluded), len(copy.quarantined)) == (4, 6, 0)
    assert (copy.index["samples"] == 4096).all()
