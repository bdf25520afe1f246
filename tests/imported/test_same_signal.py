"""The same signal under two names: one patient, and refused with two labels or in two splits."""

from pathlib import Path

import numpy as np
import pytest
from scipy.signal import resample_poly

from ecgbench.data.imported import summary
from ecgbench.data.imported.importing import Imported, bring
from ecgbench.errors import BadSetting
from tests.imported.test_import import order

COUNT, FS = 12, 100
Signal = np.ndarray


def mv(number: int) -> Signal:
    """10 s of lead I."""
    return np.random.default_rng(number).normal(size=10 * FS)


def write(home: Path, name: str, signal: Signal, unit: str = "mV", fs: int = FS) -> None:
    (home / "rec").mkdir(exist_ok=True)
    head = f"Sample Rate,{fs}\nUnit,{unit}\nI"
    np.savetxt(home / "rec" / f"{name}.csv", signal, "%.4f", header=head, comments="")


def imported(home: Path, more: str = "", head: str = "record,af") -> Imported:
    """COUNT recordings, every other one with the label, and more rows."""
    for i in range(COUNT):
        write(home, f"r{i:02d}", mv(i))
    columns = len(head.split(",")) - 2
    rows = [f"r{i:02d},{i % 2}" + f",P{i}" * columns for i in range(COUNT)]
    (home / "labels.csv").write_text("\n".join([head, *rows]) + f"\n{more}")
    return bring(order(home))


COPIES = {
    "exact": lambda x: (x, "mV", FS),
    "inverted": lambda x: (-x, "mV", FS),
    "offset and gain": lambda x: (2 * x + 3, "mV", FS),
    "noise": lambda x: (x + 0.1 * mv(99), "mV", FS),
    "another rate": lambda x: (resample_poly(x, 2, 1), "mV", 2 * FS),
}


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_is_of_the_same_patient_and_named(how: str, tmp_path: Path) -> None:
    write(tmp_path, "copy", *COPIES[how](mv(4)))
    made = imported(tmp_path, "copy,0\n")
    assert made.table.set_index("record").at["copy", "patient"] == "r04"
    assert made.table["patient"].nunique() == COUNT
    assert any("r04 = copy" in line for line in summary.lines(made))
    # what is written says so too, and a second import agrees
    assert made.table["fold"].groupby(made.table["patient"]).nunique().max() == 1
    assert not made.said.patients_known
    assert not [note for note in imported(tmp_path, "copy,0\n").notes if "changed" in note]


def test_a_copy_joins_all_records_of_two_patients(tmp_path: Path) -> None:
    for name, number in (("a", 20), ("b", 20), ("c", 21), ("d", 21)):
        write(tmp_path, name, mv(number))
    made = imported(tmp_path, "a,1,Q1\nb,1,Q2\nc,0,Q2\nd,0,P3\n", "record,af,patient")
    rows = made.table.set_index("record")
    assert {*rows.loc[["a", "b", "c", "d", "r03"], "patient"]} == {"P3"}


def test_two_labels_of_one_signal_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "copy", -mv(4))
    with pytest.raises(BadSetting, match=r"af: r04 \(0\) and copy \(1\); .*labels.csv"):
        imported(tmp_path, "copy,1\n")
    write(tmp_path, "third", 2 * mv(4))
    with pytest.raises(BadSetting, match=r"af: r04 \(0\) and third \(1\);"):
        imported(tmp_path, "copy,\nthird,1\n")
    imported(tmp_path, "copy,\nthird,0\n")  # unknown is no other label


def test_two_splits_of_one_signal_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "copy", mv(4))
    rows = "".join(f"s{i},{i // 3 % 2},{('train', 'val', 'test')[i % 3]}\n" for i in range(6))
    for i in range(6):
        write(tmp_path, f"s{i}", mv(30 + i))
    (tmp_path / "labels.csv").write_text(f"record,af,split\n{rows}copy,0,train\nr04,0,test\n")
    write(tmp_path, "r04", mv(4))
    with pytest.raises(BadSetting, match=r"split: copy \(train\) and r04 \(test\)"):
        bring(order(tmp_path))


def test_parts_of_one_recording_are_of_one_patient_and_have_their_own_labels(
    tmp_path: Path,
) -> None:
    long = np.cumsum(np.random.default_rng(7).normal(size=20 * FS)) / 10
    write(tmp_path, "begin", long[: 14 * FS])
    write(tmp_path, "cut", long[: 12 * FS])
    made = imported(tmp_path, "begin,0\ncut,1\n")
    rows = made.table.set_index("record")
    assert rows.at["begin", "patient"] == rows.at["cut", "patient"]


def test_recordings_without_a_signal_are_not_one(tmp_path: Path) -> None:
    for i in range(4):
        write(tmp_path, f"flat{i}", np.full(10 * FS, 0.5 + i % 2))
    made = imported(tmp_path, "".join(f"flat{i},{i % 2}\n" for i in range(4)))
    assert (made.table["patient"] == made.table["record"]).all()
