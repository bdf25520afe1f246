"""The corpora for pre-training, in tiny copies of their published layouts."""

import csv
from pathlib import Path

import h5py
import numpy as np
import pytest
import wfdb

from ecgbench import datasets
from ecgbench.data.copy import Copy
from ecgbench.data.prepare import prepare
from ecgbench.ecg.leads import LEADS, MIMIC_LEADS
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord, MissingData

FILE_ORDER = ("V1", "V2", "V3", "V4", "V5", "V6", "II", "I")
SHORT = 2500
"""Samples of a record of 5 s."""


def write_table(file: Path, *rows: tuple[object, ...]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="") as out:
        csv.writer(out).writerows(rows)


def counts(seed: int, samples: int, leads: int) -> np.ndarray:
    """(time, lead) counts without a row of padding."""
    return np.random.default_rng(seed).integers(2, 900, (samples, leads)).astype(np.int16)


def lost(copy: Copy) -> dict[str, str]:
    return dict(copy.quarantined[["record", "reason"]].itertuples(index=False))


def ikem(tmp_path: Path) -> Path:
    """IKEM in three parts whose rows are not in the order of the table; exam 104 is of 5 s."""
    root = tmp_path / "ikem"
    exams = (101, 102, 103, 104, 105, 106)
    write_table(
        root / "exams.csv",
        ("exam_id", "patient_id", "age", "sex"),
        *((e, {105: -1}.get(e, 7 if e < 103 else e - 90), -1, "M") for e in exams),
    )
    for part, own in enumerate(((103, 101), (106, 104), (105, 102))):
        tracings = np.stack([counts(exam, 4096, 8) for exam in own])
        lengths = [SHORT if exam == 104 else 5000 for exam in own]
        for row, length in zip(tracings, lengths):
            row[length:] = 0
        with h5py.File(root / f"exams_part{part}.hdf5", "w") as file:
            file["exam_id"], file["real_lengths"] = np.array(own), np.array(lengths, np.int32)
            file["hashes"] = np.array([b"0" * 40] * 2)
            file["tracings"] = tracings
    return tmp_path


def at(name: str, root: Path, record: str) -> Recording:
    module = datasets.get(name)
    return module.read(root, module.index(root).set_index("record", drop=False).loc[record])


def test_ikem_gives_each_exam_its_own_row_in_mv_and_computes_four_leads(tmp_path: Path) -> None:
    prague = ikem(tmp_path)
    for exam in (101, 102, 103):
        recording = at("ikem", prague / "ikem", str(exam)).clinical()
        stored = counts(exam, 4096, 8) / 1000.0
        lead = {n: stored[:, i] for i, n in enumerate(FILE_ORDER)}
        assert recording.leads == LEADS
        np.testing.assert_allclose(recording.signal[0], lead["I"], atol=1e-6)
        np.testing.assert_allclose(recording.signal[1], lead["II"], atol=1e-6)
        np.testing.assert_allclose(recording.signal[2], lead["II"] - lead["I"], atol=1e-6)
        np.testing.assert_allclose(recording.signal[5], lead["II"] - lead["I"] / 2, atol=1e-6)
        np.testing.assert_allclose(recording.signal[6], lead["V1"], atol=1e-6)
        assert recording.seconds == pytest.approx(8.192)


@pytest.mark.parametrize("padding", [0, -1])
@pytest.mark.parametrize("before", [0, 700])
def test_ikem_leaves_out_the_padding_of_short_records(
    tmp_path: Path, padding: int, before: int
) -> None:
    prague = ikem(tmp_path)
    own = counts(104, SHORT, 8)
    with h5py.File(prague / "ikem" / "exams_part1.hdf5", "r+") as file:
        row = np.full((4096, 8), padding, np.int16)
        row[before : before + SHORT] = own
        file["tracings"][1] = row
    recording = at("ikem", prague / "ikem", "104")
    assert recording.seconds == 5.0
    np.testing.assert_allclose(recording.signal[:8], own.T / 1000.0, atol=1e-6)
    assert at("ikem", prague / "ikem", "106").seconds == pytest.approx(8.192)


def test_ikem_index(tmp_path: Path) -> None:
    prague = ikem(tmp_path)
    found = datasets.get("ikem").index(prague / "ikem").set_index("record")
    assert found["patient"].to_dict() == {
        "101": "7", "102": "7", "103": "13", "104": "14", "105": "exam 105", "106": "16",
    }  # fmt: skip
    assert set(found["split"]) == {"train"}
    (prague / "ikem" / "exams_part0.hdf5").unlink()
    copy = prepare("ikem", prague, prague / "prepared")
    assert lost(copy) == dict.fromkeys(("101", "103"), "the exam is in none of the HDF5 files")


def test_ikem_does_not_choose_between_two_exams_of_one_number(tmp_path: Path) -> None:
    prague = ikem(tmp_path)
    with h5py.File(prague / "ikem" / "exams_part2.hdf5", "r+") as part:
        part["exam_id"][1] = 101  # was 102
    twice = "the HDF5 files hold its exam twice"
    copy = prepare("ikem", prague, prague / "prepared")
    gone = "the exam is in none of the HDF5 files"
    assert lost(copy) == {"101": twice, "102": gone}


def test_ikem_refuses_what_disagrees(tmp_path: Path) -> None:
    prague = ikem(tmp_path)
    file = prague / "ikem" / "exams_part1.hdf5"
    with h5py.File(file, "r+") as part:
        part["tracings"][1] = counts(1, 4096, 8)
    with pytest.raises(BadRecord, match=r"^104: 4096 samples .* real length is 2500$"):
        at("ikem", prague / "ikem", "104")
    file.write_bytes(b"<html>")
    with pytest.raises(MissingData, match=r"part1\.hdf5 does not hold exam_id .*download it again"):
        datasets.get("ikem").index(prague / "ikem")


def wfdb_record(folder: Path, name: str, leads: tuple[str, ...], fs: float, gain: float) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    signal = counts(len(name) + sum(map(ord, name)), 1200, 12)
    wfdb.wrsamp(
        name, fs, ["mV"] * 12, list(leads), d_signal=signal.astype(int), fmt=["16"] * 12,
        adc_gain=[gain] * 12, baseline=[0] * 12, write_dir=str(folder),
    )  # fmt: skip


def mimic(tmp_path: Path) -> Path:
    root, rows = tmp_path / "mimic-iv-ecg", []
    for subject, study in ((10000032, 40689238), (10000032, 44458630), (10000117, 45090959)):
        path = f"files/p{subject // 10000}/p{subject}/s{study}"
        wfdb_record(root / path, str(study), MIMIC_LEADS, 500, 200)
        rows.append((subject, study, study, "2180-07-23 08:44:00", f"{path}/{study}"))
    columns = ("subject_id", "study_id", "file_name", "ecg_time", "path")
    write_table(root / "record_list.csv", columns, *rows)
    return tmp_path


def test_mimic_reads_by_name_and_counts_two_studies_of_a_patient_as_one(tmp_path: Path) -> None:
    boston = mimic(tmp_path)
    copy = prepare("mimic_iv_ecg", boston, boston / "prepared")
    assert copy.quarantined.empty
    assert copy.index["patient"].value_counts().to_dict() == {"10000032": 2, "10000117": 1}
    recording = copy.recording("44458630")
    stored = (counts(8 + sum(map(ord, "44458630")), 1200, 12) / 200.0).clip(-3, 3)
    for place, lead in enumerate(MIMIC_LEADS):
        np.testing.assert_allclose(recording.signal[LEADS.index(lead)], stored[:, place], atol=1e-3)
    assert MIMIC_LEADS[4:6] == ("aVF", "aVL")


def test_mimic_fills_short_gaps_limits_peaks_and_tells_of_both(tmp_path: Path) -> None:
    boston = mimic(tmp_path)
    root = boston / "mimic-iv-ecg"
    for study, gap in (("45090959", 25), ("40689238", 26)):
        file = next(root.rglob(f"{study}.dat"))
        samples = np.fromfile(file, "<i2").reshape(-1, 12)
        column, header = samples[:, 0].astype(np.int64), file.with_suffix(".hea")
        samples[40 : 40 + gap, 0] = -(2**15)
        samples.tofile(file)
        lines = header.read_text().splitlines()
        words = lines[1].split()
        moved = int(samples[:, 0].astype(np.int64).sum() - column.sum())
        words[6] = str((int(words[6]) + moved) % 65536)
        header.write_text("\n".join([lines[0], " ".join(words), *lines[2:]]) + "\n")
    table = root / "record_list.csv"
    text = table.read_text()
    table.write_text(text.replace("files/p1000/p10000032/s44458630", "../../elsewhere"))
    copy = prepare("mimic_iv_ecg", boston, boston / "prepared")
    reasons = lost(copy)
    assert reasons["40689238"].startswith("26 samples are missing, up to 0.052 s in a row, where")
    assert reasons["44458630"].startswith("its table names the file '../../elsewhere/44458630'")
    assert copy.index["fixed"].tolist() == ["gaps+clip"]
    filled = copy.recording("45090959").signal
    stored = counts(8 + sum(map(ord, "45090959")), 1200, 12).T / 200.0
    ends = stored[0, [39, 65]]
    along = np.interp(np.arange(40, 65), [39, 65], ends).clip(-3, 3)
    np.testing.assert_allclose(filled[0, 40:65], along, atol=1e-3)
    np.testing.assert_allclose(filled[6, :], stored[6].clip(-3, 3), atol=1e-3)
    said = copy.findings.set_index("kind")["sentence"]
    assert said["gaps"] == "repaired: 25 missing samples filled in, 0.05 s in a row at most"
    assert said["clip"].endswith("limited to 3 mV")


def code(tmp_path: Path) -> Path:
    """CODE: exam 11 has two records, exam 13 no annotation; headers spell the leads with a D."""
    root = tmp_path / "code"
    for name, fs in (
        ("TNMG11_N1", 300),
        ("TNMG11_N2", 600),
        ("TNMG12_N1", 400),
        ("TNMG13_N1", 400),
    ):
        leads = tuple(f"D{n}" if n in ("I", "II", "III") else n.upper() for n in LEADS)
        every = tuple(f"D{n}" for n in LEADS) if fs == 600 else leads
        wfdb_record(root / "wfdb" / "S0010", name, every, fs, 1000)
    records = ["S0010/TNMG12_N1", "S0010/TNMG11_N2", "S0010/TNMG11_N1", "", "S0010/TNMG13_N1"]
    (root / "wfdb" / "RECORDS.txt").write_text("\n".join(records) + "\n")
    columns = ("id_exam", "id_patient", "date_exam", "sex", "age", "1dAVb", "RBBB", "LBBB")
    write_table(
        root / "annotations.csv",
        columns,
        *((e, 900 + e, "2012-01-01", "F", 50, 0, 0, 1) for e in (11, 12)),
    )
    return tmp_path


def test_code_reads_leads_with_a_d_at_their_own_rate(tmp_path: Path) -> None:
    minas = code(tmp_path)
    copy = prepare("code", minas, minas / "prepared")
    assert copy.quarantined.empty
    found = copy.index.set_index("record")
    assert found["patient"].to_dict() == {
        "TNMG11_N1": "911", "TNMG11_N2": "911", "TNMG12_N1": "912", "TNMG13_N1": "exam 13",
    }  # fmt: skip
    assert found["fs"].to_dict() == {
        "TNMG11_N1": 300, "TNMG11_N2": 600, "TNMG12_N1": 400, "TNMG13_N1": 400,
    }  # fmt: skip
    for record in found.index:
        stored = counts(len(record) + sum(map(ord, record)), 1200, 12) / 1000.0
        np.testing.assert_allclose(copy.recording(record).signal, stored.T, atol=1e-4)


def test_code_refuses_a_list_of_something_else(tmp_path: Path) -> None:
    minas = code(tmp_path)
    (minas / "code" / "wfdb" / "RECORDS.txt").write_text("<html>\n")
    with pytest.raises(MissingData, match=r"lists '<html>', where records are called TNMG"):
        datasets.get("code").index(minas / "code")
