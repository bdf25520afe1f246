"""Chapman in both releases: a workbook with CSV files in uV, and WFDB with SNOMED CT codes."""

from pathlib import Path

import numpy as np
import pytest

from ecgbench.data.prepare import prepare
from ecgbench.datasets import chapman
from ecgbench.datasets.indexing import challenge
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import BadRecord, MissingData
from tests import workbook
from tests.datasets import test_challenge as headers

HEAD = ["FileName", "Rhythm", "Beat", "PatientAge", "Gender", "VentricularRate"]
RHYTHMS = ["AF", "AFIB", "AT", "AVNRT", "SA", "SB", "SR", "ST", "SVT", "AVRT", "SAAWR"]
BEATS = ["NONE", "RBBB TWC", "LBBB", "LFBBB", "IDC  IVB", "VEB", "MIFW MILW LRRI"]

CODES = {
    code: label
    for label, own in challenge.snomed("chapman", "wfdb_code").items()
    for code in own.split("|")
}


def name(i: int) -> str:
    return f"MUSE_20180113_{171_000 + i}_{i}000"


def write(root: Path, numbers: list[int]) -> Path:
    """Diagnostics.xlsx with a line for each number; sample t of lead k of number i
    is 10 k + 100 i + t uV. The columns of odd numbers stand in turned order, as do their names.
    """
    folder = root / "chapman"
    (folder / "ECGData").mkdir(parents=True)
    lines = [HEAD] + [[name(i), RHYTHMS[i % 11], BEATS[i % 7], 20 + i, "MALE", 88] for i in numbers]
    workbook.write(folder / "Diagnostics.xlsx", lines)
    for i in numbers if len(numbers) <= 12 else []:
        steps = np.arange(5000)[:, None] + 10 * np.arange(12) + 100 * i
        turn = -1 if i % 2 else 1
        text = "\n".join(",".join(map(str, row)) for row in steps[:, ::turn].tolist())
        (folder / "ECGData" / f"{name(i)}.csv").write_text(f"{','.join(LEADS[::turn])}\n{text}\n")
    return root


def test_labels_that_no_code_stands_for_alone() -> None:
    lacking = {*chapman.TASK.labels} - {*CODES.values()}
    assert lacking == {"LBBB", "LFBBB", "IDC", "IVB", "MIFW", "MILW", "LRRI"}


def test_figshare_microvolts_by_name_and_codes_as_they_stand(tmp_path: Path) -> None:
    root = write(tmp_path / "a", list(range(12)))
    copy = prepare("chapman", root, tmp_path / "prepared")
    assert not len(copy.left_out)
    for i, row in enumerate(copy.index.sort_values("age").to_dict("records")):
        said = {RHYTHMS[i % 11], *BEATS[i % 7].split()}
        found = {c.partition(":")[2] for c in row if ":" in c and row[c]}
        assert found == said - {"NONE", "VEB", "AVRT", "SAAWR"}
        assert (row["record"], row["age"], row["sex"]) == (name(i), str(20 + i), "MALE")
        start = copy.recording(name(i)).signal[:, 0] * 1000
        assert np.allclose(start, 100 * i + 10 * np.arange(12), atol=0.01)


def test_a_workbook_of_other_words_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "RHYTHMS", ["A"] * 11)
    monkeypatch.setitem(globals(), "BEATS", ["B C"] * 7)
    with pytest.raises(MissingData, match="has none of the rhythms"):
        chapman.index(write(tmp_path, list(range(77))) / "chapman")


def test_a_file_without_names_or_with_a_gap_or_outside_is_no_record(tmp_path: Path) -> None:
    folder = write(tmp_path, list(range(8))) / "chapman" / "ECGData"
    lines = (folder / f"{name(0)}.csv").read_text().splitlines()
    (folder / f"{name(0)}.csv").write_text("\n".join(lines[1:]))
    (folder / f"{name(2)}.csv").write_text("\n".join([*lines[:9], lines[9] + ",", *lines[10:]]))
    (folder / f"{name(4)}.csv").write_text("\n".join([*lines[:9], "," * 11, *lines[10:]]))
    (folder / f"{name(6)}.csv").unlink()
    copy = prepare("chapman", tmp_path, tmp_path / "prepared")
    reasons = copy.quarantined.set_index("record")["reason"].to_dict()
    assert set(reasons) == {name(i) for i in (0, 2, 4, 6)}
    assert "none of its signals is a standard lead" in reasons[name(0)]
    assert "12 samples are not finite" in reasons[name(4)]


def test_the_wfdb_release(tmp_path: Path) -> None:
    (tmp_path / "chapman").mkdir()
    with pytest.raises(MissingData, match=r"Diagnostics.xlsx or WFDBRecords not found"):
        prepare("chapman", tmp_path, tmp_path / "prepared")
    folder = tmp_path / "chapman" / "WFDBRecords" / "01" / "010"
    codes = list(CODES)
    for i in range(len(codes)):
        headers.write(folder, f"JS{i + 1:05d}", f"{codes[i]}, ,164909002,698252002,164865005,")
    headers.write(folder, "JS10646", "164890007")
    headers.write(folder, "JS10647", "164890007")
    # two lines of its header have become one
    head = (folder / "JS00002.hea").read_text()
    (folder / "JS00002.hea").write_text(head.replace(" V1\n", " V1"))
    copy = prepare("chapman", tmp_path, tmp_path / "prepared")
    assert [r for r in copy.index["record"] if r > "JS10000"] == ["JS10646"]
    assert copy.quarantined["record"].tolist() == ["JS00002"]
    assert len(copy.index) == len(codes)
    for row in copy.index[copy.index["record"] < "JS10000"].to_dict("records"):
        found = {c.partition(":")[2] for c in row if ":" in c and row[c]}
        assert found == {CODES[codes[int(row["record"][2:]) - 1]]}
    assert np.allclose(copy.recording("JS00001").signal[:, 0] * 1000, 10 * np.arange(12), atol=1e-3)
    # where both lie there the figshare release is read
    write(tmp_path, [0, 1])
    assert set(chapman.index(tmp_path / "chapman")["record"]) == {name(0), name(1)}


def test_genuine_wfdb_files(tmp_path: Path, real_data: Path) -> None:
    (tmp_path / "chapman").symlink_to(real_data / "samples" / "chapman-wfdb")
    copy = prepare("chapman", tmp_path, tmp_path / "prepared")
    index = copy.index.set_index("record")
    found = {r: {c[8:] for c in row.index if ":" in c and row[c]} for r, row in index.iterrows()}
    assert found == {
        "JS00001": {"AFIB", "RBBB", "TWC"},
        "JS00002": {"SB", "TWC"},
        "JS00004": {"SB"},
        "JS00005": {"AF", "STDD", "STTC"},
    }
    for record in found:
        signal = copy.recording(record).signal
        assert np.abs(signal[0] + signal[2] - signal[1]).max() <= 0.0115


def test_a_genuine_csv_file(tmp_path: Path, real_data: Path) -> None:
    """A denoised one, which is published without names, so it is refused until it has some."""
    (file,) = (real_data / "samples" / "chapman" / "ECGDataDenoised").glob("*.csv")
    row = {"record": file.stem, "patient": file.stem, "path": f"ECGData/{file.name}"}
    (tmp_path / "ECGData").mkdir()
    copy = tmp_path / "ECGData" / file.name
    copy.write_text(file.read_text())
    with pytest.raises(BadRecord, match="none of its signals is a standard lead"):
        chapman.read(tmp_path, row)
    copy.write_text(",".join(LEADS) + "\n" + file.read_text())
    signal = chapman.read(tmp_path, row).signal
    assert signal.shape == (12, 5000)
    assert signal[0, 0] == pytest.approx(-0.16533)
    # each lead was denoised by itself
    assert np.abs(signal[0] + signal[2] - signal[1]).max() < 0.2
    assert 0.5 < np.ptp(signal, axis=1).max() < 8
