"""Challenge 2017: one lead under a name of its own, labels in a table without a head."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from ecgbench.data.prepare import prepare
from ecgbench.datasets import cinc2017
from ecgbench.errors import BadRecord

MAT = np.array([20, 1, 3000, 4, 0, 0], "<i4").tobytes()
"""The 24 bytes before the samples."""


def write(root: Path, labels: Sequence[str], table: str = "REFERENCE-v3.csv") -> None:
    """Recordings of 10 s that count up from their number, in the folders of the release."""
    lines = []
    for i, label in enumerate(labels, start=1):
        record = f"A{i:05d}"
        folder = root / "training" / record[:3]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{record}.hea").write_text(
            f"{record} 1 300 3000 2014-05-16 11:05:25 \n"
            f"{record}.mat 16+24 1000/mV 16 0 {i} 0 0 ECG \n"
        )
        steps = (i + np.arange(3000) % 7).astype("<i2")
        (folder / f"{record}.mat").write_bytes(MAT + steps.tobytes())
        lines.append(f"{record},{label}\n")
    (root / table).write_text("".join(lines))


def test_recordings_are_lead_one_in_mv_with_one_of_four_labels(tmp_path: Path) -> None:
    root = tmp_path / "cinc2017"
    write(root, list("NAO~") * 10)
    (root / "REFERENCE.csv").write_text("A00001,A\n")  # an older table beside it
    copied = root / "validation" / "A00001.hea"  # as the release has it a second time
    copied.parent.mkdir()
    for suffix in (".hea", ".mat"):
        own = root / "training" / "A00" / f"A00001{suffix}"
        copied.with_suffix(suffix).write_bytes(own.read_bytes())
    copy = prepare("cinc2017", tmp_path, tmp_path / "prepared")
    assert (len(copy.index), len(copy.quarantined)) == (40, 0)
    hot = copy.index[cinc2017.TASK.columns].to_numpy()
    assert (hot == np.tile(np.eye(4), (10, 1))).all()
    assert copy.index.groupby("fold")[cinc2017.TASK.columns].sum().eq(1).all(axis=None)
    recording = copy.recording("A00003")
    assert (recording.leads, recording.fs) == (("I",), 300.0)
    assert np.allclose(recording.signal[0], (3 + np.arange(3000) % 7) / 1000)


def test_an_older_table_a_record_without_files_and_a_cut_one(tmp_path: Path) -> None:
    root = tmp_path / "cinc2017"
    write(root, list("NAO~N"), "REFERENCE.csv")
    (root / "training" / "A00" / "A00002.hea").unlink()
    cut = root / "training" / "A00" / "A00004.mat"
    cut.write_bytes(cut.read_bytes()[:-2])
    copy = prepare("cinc2017", tmp_path, tmp_path / "prepared")
    assert copy.index["record"].tolist() == ["A00001", "A00003", "A00005"]
    lost = dict(copy.quarantined.itertuples(index=False))
    assert "header" in lost["A00002"]
    assert "truncated" in lost["A00004"]


@pytest.mark.parametrize("line", ["A00002,X", "record,label", "A00002", "A00002,N,A"])
def test_a_line_that_is_no_label(tmp_path: Path, line: str) -> None:
    (tmp_path / "REFERENCE-v3.csv").write_text(f"A00001,N\n{line}\n")
    with pytest.raises(BadRecord, match=f"REFERENCE-v3.csv: '{line}'"):
        cinc2017.index(tmp_path)


def test_genuine_recordings_are_what_their_integers_say(tmp_path: Path, real_data: Path) -> None:
    from scipy.io import loadmat

    root = real_data / "devices"
    copy = prepare("cinc2017", root, tmp_path)
    assert copy.index[cinc2017.TASK.columns].sum().tolist() == [75, 25, 35, 15]
    assert len(copy.quarantined) == 0
    for record in copy.index["record"][::10]:
        stored = loadmat(root / "cinc2017" / f"{record}.mat")["val"]
        assert (np.rint(copy.recording(record).signal * 1000) == stored).all()
