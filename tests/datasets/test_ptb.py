"""PTB: labels from comments of headers, stages of infarctions, fifteen signals in two files."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ecgbench.data.prepare import prepare
from ecgbench.datasets import ptb
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import MissingData
from tests.datasets.written import signal_lines

SIGNALS = (*(lead.lower() for lead in LEADS), "vx", "vy", "vz")
MI = "Myocardial infarction"
COMMENTS = """
# age: 61
# sex: male
# ECG date: {recorded}

# Diagnose:
# Reason for admission: {reason}
# Additional diagnoses: {more}
# Infarction date (acute): {infarction}
# Hemodynamics:
# Catheterization date: {first_catheter}
# Peripheral blood Pressure (syst/diast):  140/80 mmHg
# Therapy:
# Catheterization date: {catheter}"""


def write(
    root: Path, patient: int, record: str, reason: str, *, first: int = 0, **said: str
) -> None:
    """A header with the release's comments and CRLF, and its two signal files: 8 s that count up
    from `first` + 100 times the number of the signal.
    """
    folder = root / f"patient{patient:03d}"
    folder.mkdir(parents=True, exist_ok=True)
    steps = (first + 100 * np.arange(15)[:, None] + np.arange(8_000) % 7).astype("<i2")
    lines = [f"{record} 15 1000 8000"]
    lines += signal_lines(f"{record}.dat", "16", "2000", SIGNALS[:12], steps[:12])
    lines += signal_lines(f"{record}.xyz", "16", "2000", SIGNALS[12:], steps[12:])
    unsaid = dict.fromkeys(("infarction", "first_catheter", "catheter"), "n/a")
    facts = {"recorded": "01/10/1990", "more": "no", "reason": reason, **unsaid, **said}
    lines += COMMENTS.format(**facts).split("\n")
    (folder / f"{record}.hea").write_bytes("\r\n".join(lines).encode() + b"\r\n")
    (folder / f"{record}.dat").write_bytes(steps[:12].T.tobytes())
    (folder / f"{record}.xyz").write_bytes(steps[12:].T.tobytes())


def made(data: Path) -> Path:
    """Fifteen patients with two recordings each, of one of three diagnoses."""
    root, reasons = data / "ptbdb", ("Healthy control", "Dysrhythmia", MI)
    for i in range(30):
        write(root, 1 + i // 2, f"s{i:04d}_re", reasons[i // 2 % 3], first=i)
    return root


def labels(root: Path) -> dict[str, set[str]]:
    found = ptb.index(root).set_index("record")
    columns = [c for c in found if ":" in c]
    return {
        str(record): {c.partition(":")[2] for c in columns if row[c]}
        for record, row in found.iterrows()
    }


def test_variants_of_spelling_become_labels() -> None:
    assert set(ptb.SPELLINGS.values()) <= set(ptb.TASK.labels)
    assert not set(ptb.SPELLINGS) & set(ptb.TASK.labels)


@pytest.mark.parametrize(
    ("recorded", "infarction", "catheter", "stage"),
    [
        ("01/10/1990", "29-Sep-90", "16-Oct-90", "acute catheterized"),
        ("01/10/1990", "29-Sep-90", "29-Sep-90", "acute catheterized"),
        ("01/10/1990", "29-Sep-90", "28-Sep-90", "acute"),
        ("01/10/1990", "01-Oct-90", "-", "acute"),
        ("02/10/1990", "29-Sep-90", "n/a", "acute"),
        ("03/10/1990", "29-Sep-90", "16-Oct-90", "old"),
        ("28/09/1990", "29-Sep-90", "16-Oct-90", "old"),
        ("01/10/1990", "n/a", "16-Oct-90", "old"),
        ("n/a", "29-Sep-90", "16-Oct-90", "old"),
        ("02/01/2000", "31-Dec-99", "1-Jan-00", "acute catheterized"),
    ],
)
def test_an_infarction_has_the_stage_of_its_dates(
    tmp_path: Path, recorded: str, infarction: str, catheter: str, stage: str
) -> None:
    dates = {"recorded": recorded, "infarction": infarction, "catheter": catheter}
    write(tmp_path, 1, "s0001_re", MI, first_catheter="30-Sep-90", **dates)
    assert labels(tmp_path) == {"s0001_re": {f"{MI} {stage}"}}


def test_diagnoses_are_merged_by_spelling_and_what_says_nothing_is_no_label(tmp_path: Path) -> None:
    write(tmp_path, 1, "s0001_re", "n/a", more="n/a")
    write(
        tmp_path,
        2,
        "s0002_re",
        "Dysrhythmia",
        more=" Arterial Hypertension,Hyperlipoproteinemia Type IV, Hyperlipidemia, M. Basedow,Gout",
    )
    write(tmp_path, 3, "s0003lre", "Healthy control", more="unknown", infarction="29-Sep-90")
    write(tmp_path, 4, "s0004_re", "Dysrhythmia", more=f"Recurrent ventricular tachycardias, {MI}")
    assert labels(tmp_path) == {
        "s0001_re": set(),
        "s0002_re": {"Dysrhythmia", "Arterial hypertension", "Hyperlipoproteinemia"},
        "s0003lre": {"Healthy control"},
        "s0004_re": {"Dysrhythmia", "Ventricular tachycardia", f"{MI} old"},
    }


def test_twelve_leads_in_mv_and_folds_by_patient_that_rest_on_names_alone(tmp_path: Path) -> None:
    root = made(tmp_path / "a")
    (root / "other").mkdir()
    (root / "other" / "x.hea").write_text("of no patient\n")
    (root / "patient003" / "s0004_re.dat").write_bytes(b"short")
    copy = prepare("ptb", tmp_path / "a", tmp_path / "prepared")
    assert copy.quarantined["record"].tolist() == ["s0004_re"]
    assert "truncated" in copy.quarantined["reason"][0]
    for i, record in enumerate(sorted(copy.published["record"])):
        if record in copy.rows:
            recording = copy.recording(record)
            assert (recording.signal.shape, recording.fs) == ((12, 8_000), 1000.0)
            wanted = (i + 100 * np.arange(12)) / 2000
            assert np.abs(recording.signal[:, 0] - wanted).max() < 1e-4
    index = copy.published
    assert set(index["fold"]) == {1, 2, 3, 4, 5}
    # fifteen patients, three of each fold: one of each reason
    for reason in ("Healthy control", "Dysrhythmia", f"{MI} old"):
        assert index[index[f"ptb:{reason}"] == 1]["fold"].value_counts().tolist() == [2] * 5


@pytest.mark.parametrize(
    ("line", "instead", "reason"),
    [
        ("# Reason for admission: Healthy control", "#", "'Reason for admission'"),
        ("n/a", "last summer", "'last summer' is no date"),
        ("n/a", "29-Okt-90", "not in"),
    ],
)
def test_a_header_that_cannot_be_understood_is_no_header_without_labels(
    tmp_path: Path, line: str, instead: str, reason: str
) -> None:
    write(tmp_path, 1, "s0001_re", "Healthy control")
    header = tmp_path / "patient001" / "s0001_re.hea"
    header.write_text(header.read_text().replace(line, instead))
    with pytest.raises(MissingData, match=f"s0001_re.hea has no comment.*{reason}"):
        ptb.index(tmp_path)


def test_the_genuine_record_has_its_labels_and_reads_as_wfdb_converts_it(
    tmp_path: Path, real_data: Path
) -> None:
    import wfdb

    samples = real_data / "samples"
    assert labels(samples / "ptbdb") == {
        "s0010_re": {"Diabetes mellitus", f"{MI} acute catheterized"}
    }
    copy = prepare("ptb", samples, tmp_path)
    recording = copy.recording("s0010_re")
    signal, fields = wfdb.rdsamp(str(samples / "ptbdb" / "patient001" / "s0010_re"))
    assert [n.upper() for n in fields["sig_name"][:12]] == [n.upper() for n in LEADS]
    # the store keeps 16 bits of each lead
    assert np.abs(recording.signal - signal.T[:12]).max() < np.abs(signal).max() / 2**15
    row = pd.Series(copy.index.iloc[0])
    assert (row["patient"], row["age"], row["sex"]) == ("patient001", "81", "female")
