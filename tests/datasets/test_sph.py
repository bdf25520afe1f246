"""SPH: the grammar of statements, half-precision HDF5, folds by patient."""

from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest

from ecgbench.data.prepare import prepare
from ecgbench.datasets import sph
from ecgbench.errors import MissingData
from tests.datasets.written import change

CODES = ("1", "22", "60+310;147", "1;1", "83", "145+362;30+307+308;1", "50")


def make(data: Path, records: int = 42, files: int = 0) -> Path:
    """metadata.csv of `records` recordings, two in three of one patient, and the first `files`."""
    root = data / "sph"
    (root / "records").mkdir(parents=True)
    rows = [
        {
            "ECG_ID": f"A{1 + i:05d}",
            "AHA_Code": CODES[i % len(CODES)],
            "Patient_ID": f"S{1 + i - i % 3 // 2:05d}",
            "Age": str(15 + i * 7 % 80),
            "Sex": "MF"[i % 2],
            "N": str(5000 + i),
            "Date": "2020-03-04",
        }
        for i in range(records)
    ]
    pd.DataFrame(rows).to_csv(root / "metadata.csv", index=False)
    for i in range(files):
        with h5py.File(root / "records" / f"A{1 + i:05d}.h5", "w") as file:
            file["ecg"] = signal(i)
    return root


def signal(i: int) -> np.ndarray:
    """(12, N) float16 in mV: each lead has its own level, the record's number in the last."""
    levels = np.arange(12)[:, None] / 8 + i / 64
    return (levels + np.arange(5000 + i) % 2 / 4).astype(np.float16)


def test_the_code_before_the_plus_is_the_label(tmp_path: Path) -> None:
    found = sph.index(make(tmp_path)).set_index("record")
    columns = [c for c in found if ":" in c]
    present = [{c.partition(":")[2] for c in columns if row[c]} for _, row in found.iterrows()]
    assert present[: len(CODES)] == [
        {"1"},
        {"22"},
        {"60", "147"},
        {"1"},
        set(),
        {"145", "30", "1"},
        {"50"},
    ]
    assert found[columns].isin([0, 1]).all(axis=None)


def test_folds_hold_labels_and_ages_alike(tmp_path: Path) -> None:
    found = sph.index(make(tmp_path / "a", 600)).set_index("record")
    assert found["patient"].nunique() == 400
    assert set(found["fold"]) == set(range(1, 11))
    assert dict(found.groupby("split")["fold"].agg(set))["test"] == {10}
    # of 171 or so of a label, every fold holds a tenth
    assert found[found["sph:1"] == 1]["fold"].value_counts().between(20, 31).all()
    # and of the 112 of 80 years and above
    old = found["age"].astype(int) >= 80
    assert old.groupby(found["fold"]).sum().between(11, 12).all()


def test_half_precision_millivolts_and_files_that_cannot_be_trusted(tmp_path: Path) -> None:
    root = make(tmp_path, 30, files=30)
    (root / "records" / "A00003.h5").write_bytes(b"<html>")
    (root / "records" / "A00004.h5").unlink()
    wrong = {"A00005": signal(4).T, "A00006": signal(5).copy()}
    wrong["A00006"][3, 7] = np.nan
    for record, array in wrong.items():
        with h5py.File(root / "records" / f"{record}.h5", "w") as file:
            file["ecg"] = array
    copy = prepare("sph", tmp_path, tmp_path / "prepared")
    reasons = copy.quarantined.set_index("record")["reason"].to_dict()
    assert sorted(reasons) == ["A00003", "A00004", "A00005", "A00006"]
    assert "cannot be read as HDF5" in reasons["A00003"]
    assert reasons["A00004"] == "A00004.h5 is missing"
    assert "shape (5004, 12)" in reasons["A00005"]
    assert "1 samples are not finite" in reasons["A00006"]
    for i in (0, 29):
        recording = copy.recording(f"A{1 + i:05d}")
        assert recording.fs == 500.0
        assert recording.signal.shape == (12, 5000 + i)
        assert np.abs(recording.signal - signal(i).astype(float)).max() < 1e-4
    assert copy.excluded.empty


@pytest.mark.parametrize("said", ["", "1;", "999", "60+", "1, 22", "Normal ECG"])
def test_a_line_that_is_no_list_of_statements_stops(tmp_path: Path, said: str) -> None:
    root = make(tmp_path, 12)
    change(root / "metadata.csv", 4, "AHA_Code", said)
    with pytest.raises(MissingData, match="ECG_ID A00005 has AHA_Code"):
        sph.index(root)
