"""The collections of the Challenge 2021: genuine headers and files, and what may be odd in them."""

import csv
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ecgbench import datasets
from ecgbench.data.prepare import prepare
from ecgbench.datasets._labels import table
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import BadRecord, MissingData
from tests.datasets.written import signal_lines

NAMES = {"cpsc2018": "A{:04d}", "cpsc_extra": "Q{:04d}", "georgia": "E{:05d}", "ningbo": "JS{:05d}"}
COLLECTIONS = [*NAMES]
HEADS = {"ningbo": 20_000}


def write(folder: Path, record: str, dx: str, samples: int = 5000, first: int = 0) -> None:
    """Samples count up from `first` in each lead."""
    store(folder, record, dx, first + np.arange(12)[:, None] * 10 + np.arange(samples) % 7)


def store(folder: Path, record: str, dx: str, steps: np.ndarray) -> None:
    """A header and a MATLAB file of version 4 with (12, time) samples in uV."""
    steps, samples = steps.astype("<i2"), steps.shape[1]
    folder.mkdir(parents=True, exist_ok=True)
    signals = signal_lines(f"{record}.mat", "16x1+24", "1000.0(0)/mV", LEADS, steps)
    comments = ["# Age: 61", "#Sex: Female", f"#Dx:{dx}", "# Rx: Unknown"]
    lines = [f"{record} 12 500 {samples}", *signals, *comments]
    (folder / f"{record}.hea").write_text("\n".join(lines) + "\n")
    head = np.array([30, 12, samples, 0, 4], "<i4").tobytes() + b"val\x00"
    (folder / f"{record}.mat").write_bytes(head + steps.T.tobytes())


def made(root: Path, name: str, records: int = 40) -> Path:
    """A copy with folders g1 and g2, every label in turn."""
    folder = root / datasets.get(name).CARD.folder
    rows = table(name)
    for i in range(records):
        code = rows[i % len(rows)]["snomed_code"].split("|")[-1]
        record = NAMES[name].format(HEADS.get(name, 0) + i + 1)
        write(folder / f"g{1 + i % 2}", record, f" {code},,999999 ,{code},", first=i)
    return root


def test_labels_are_as_many_as_the_papers() -> None:
    """Of every built-in task but those whose labels are counted on the release."""
    known = {name: task for name, (_, _, task) in datasets.tasks().items() if task.paper}
    fixed = {name: task for name, task in known.items() if task.least is None}
    assert {name: len(task.labels) for name, task in fixed.items()} == {
        name: task.paper for name, task in fixed.items()
    }
    assert known.keys() - fixed.keys() == {"ptb", "zzu"}
    for name in (*COLLECTIONS, "sph", "hefei"):
        assert all(int(row["n_pos_release"]) >= 10 for row in table(name))


@pytest.mark.parametrize("name", COLLECTIONS)
def test_nested_folders_and_odd_lists(name: str, tmp_path: Path) -> None:
    root = made(tmp_path / "a", name)
    copy = prepare(name, root, tmp_path / "prepared")
    index, labels = copy.index, [r["code"] for r in table(name)]
    assert len(index) == 40
    assert not len(copy.left_out)
    for i, row in enumerate(index.sort_values("record").to_dict("records")):
        present = {k.partition(":")[2] for k in row if ":" in k and row[k]}
        assert present == {labels[i % len(labels)]}
        signal = copy.recording(row["record"]).signal
        assert np.allclose(signal[:, 0] * 1000, i + 10 * np.arange(12))
    assert (index["age"] == "61").all()
    assert set(index["split"]) == {"train", "val", "test"}


def test_short_records_are_left_out_and_counted_apart_from_damaged_ones(tmp_path: Path) -> None:
    root = made(tmp_path, "georgia", 60)
    folder = root / "georgia" / "g1"
    write(folder, "E00901", "426783006", samples=4999)
    write(folder, "E00902", "426783006", samples=5001)
    write(folder, "E00903", "426783006", first=-(2**15))
    copy = prepare("georgia", root, tmp_path / "prepared")
    assert copy.excluded.to_dict("records") == [{"record": "E00901", "reason": "shorter than 10 s"}]
    (damaged,) = copy.quarantined.to_dict("records")
    assert damaged["record"] == "E00903"
    assert "NaN" in damaged["reason"]
    assert "E00902" in copy.rows
    # a second opening finds the same
    assert prepare("georgia", root, tmp_path / "prepared").left_out.equals(copy.left_out)


def test_a_header_without_diagnoses_is_damage_and_not_a_healthy_heart(tmp_path: Path) -> None:
    root = made(tmp_path, "georgia", 60)
    folder = root / "georgia" / "g1"
    write(folder, "E00901", "426783006")
    header = folder / "E00901.hea"
    header.write_text(header.read_text().partition("# Age")[0])
    write(folder, "E00902", "426783006")
    header = folder / "E00902.hea"
    header.write_text(header.read_text().replace("#Dx:", "# dx: "))
    write(folder, "E00903", "426783006")
    header = folder / "E00903.hea"
    header.write_text(re.sub(r" (I|II|V6)\n", "\n", header.read_text()))
    copy = prepare("georgia", root, tmp_path / "prepared")
    assert dict(copy.quarantined.itertuples(index=False, name=None)) == {
        "E00901": "its header has no Dx",
        "E00903": "E00903.hea does not state the length of the signal, its rate and the name of "
        "every signal",
    }
    assert copy.index.set_index("record").loc["E00902", "georgia:sinus rhythm"] == 1
    shutil.copy(folder / "E00902.hea", root / "georgia" / "g2")
    with pytest.raises(MissingData, match=r"E00902.hea lies 2 times below .*remove all but one"):
        prepare("georgia", root, tmp_path / "other")


def test_where_no_record_can_be_used_the_reasons_are_told(tmp_path: Path) -> None:
    root = tmp_path / "georgia" / "g1"
    for number in range(3):
        write(root, f"E0000{number}", "426783006", samples=4000)
    with pytest.raises(MissingData, match="georgia: no record can be used; E00000: shorter than"):
        prepare("georgia", tmp_path, tmp_path / "prepared")


def test_ningbo_begins_where_chapman_ends(tmp_path: Path) -> None:
    root = tmp_path / "ningbo"
    for record in ("JS10646", "JS10647", "S23074", "X00001"):
        write(root / "g1", record, "426783006")
    assert set(datasets.get("ningbo").index(root)["record"]) == {"JS10647", "S23074"}


@pytest.mark.parametrize("name", COLLECTIONS)
def test_genuine_files_have_the_labels_of_their_headers(
    name: str, tmp_path: Path, real_data: Path
) -> None:
    """The codes of each header are checked against a list that others made of the same files."""
    folder = datasets.get(name).CARD.folder
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / folder).symlink_to(real_data / "samples" / "challenge-2021" / folder)
    copy = prepare(name, tmp_path / "data", tmp_path / "prepared")
    words = {c: r["code"] for r in table(name) for c in r["snomed_code"].split("|")}
    with (
        real_data / "samples" / "challenge-2021" / folder / "labels_crosscheck.csv"
    ).open() as file:
        listed = {r["record"]: r["header_Dx_snomed"] for r in csv.DictReader(file)}
    index = copy.index.set_index("record")
    assert not len(copy.quarantined)
    for record, row in index.iterrows():
        wanted = {words[c] for c in listed[str(record)].split(",") if c in words}
        assert {k.partition(":")[2] for k in row.index if ":" in k and row[k]} == wanted
        signal = copy.recording(str(record)).signal
        limb = np.abs(signal[0] + signal[2] - signal[1]).max()
        assert limb <= 0.0115, (record, limb)
    if name == "ningbo":
        assert index.loc["JS20004", "flat"] == index.loc["JS20008", "flat"] == "V2+V4+V6"


def test_headers_of_early_2020_are_refused_or_quarantined_never_misread(
    tmp_path: Path, real_data: Path
) -> None:
    """Georgia's gains are wrong there; the one of CPSC-Extra is right and lists no diagnosis."""
    quirky = real_data / "samples" / "quirky-2020-headers"
    for row in datasets.get("georgia").index(quirky / "georgia").to_dict("records"):
        with pytest.raises(BadRecord, match=f"^{row['record']}: "):
            datasets.get("georgia").read(quirky / "georgia", row)
    extra = datasets.get("cpsc_extra")
    (row,) = extra.index(quirky / "cpsc_extra").to_dict("records")
    assert not any(row[column] for column in extra.CARD.tasks[0].columns)
    steps = np.fromfile(quirky / "cpsc_extra" / "Q0002.mat", "<i2", offset=24).reshape(-1, 12)
    signal = extra.read(quirky / "cpsc_extra", row).signal
    assert np.allclose(signal, steps.T / 1000, atol=1e-6)


def test_the_tables_hold_no_label_twice() -> None:
    for name in COLLECTIONS:
        rows = pd.DataFrame(table(name))
        assert rows["code"].is_unique
        codes = "|".join(rows["snomed_code"]).split("|")
        assert len(set(codes)) == len(codes)
