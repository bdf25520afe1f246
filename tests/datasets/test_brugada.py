"""Brugada-HUCA: three tasks of one table, and the whole genuine release."""

import tarfile
from pathlib import Path

import numpy as np
import pytest

from ecgbench.data.prepare import prepare
from ecgbench.datasets import brugada
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import BadRecord
from tests.datasets.written import change, signal_lines


def write(root: Path, persons: int = 60) -> Path:
    """Class 1 of every fifth person, 2 of every 20th; a pattern of every tenth."""
    lines = ["patient_id,basal_pattern,sudden_death,brugada"]
    for i in range(persons):
        kind = 2 if i % 20 == 1 else int(i % 5 == 0)
        lines.append(f"{188_981 + i},{int(i % 10 == 0)},{int(i == 7)},{kind}")
    root.mkdir(parents=True, exist_ok=True)
    (root / "metadata.csv").write_text("\n".join(lines) + "\n")
    return root


def signals(folder: Path, person: str, fs: int = 100, gain: int = 1000) -> None:
    steps = (np.arange(1200)[:, None] % 7 + 10 * np.arange(12)).astype("<i2")
    folder.mkdir(parents=True)
    signals = signal_lines(f"{person}.dat", "16", f"{gain}.0(0)/mV", LEADS, steps.T)
    lines = [f"{person} 12 {fs} 1200", *signals]
    (folder / f"{person}.hea").write_text("\n".join(lines) + "\n")
    (folder / f"{person}.dat").write_bytes(steps.tobytes())


def test_the_three_tasks_and_their_folds(tmp_path: Path) -> None:
    found = brugada.index(write(tmp_path / "a"))
    hot = [task.columns[0] for task in brugada.CARD.tasks]
    assert found[hot].sum().tolist() == [12, 15, 6]
    assert found.loc[1, hot].tolist() == [0, 1, 0]
    assert found["split"].value_counts().to_dict() == {"train": 36, "val": 12, "test": 12}
    assert found.groupby("fold")[hot[0]].sum().between(2, 3).all()


def test_100_hz_in_mv_and_other_headers_are_refused(tmp_path: Path) -> None:
    root = write(tmp_path / "brugada_huca", 5)
    for i, person in enumerate(brugada.index(root)["record"]):
        odd = {3: {"fs": 500}, 4: {"gain": 200}}.get(i, {})
        signals(root / "files" / person, person, **odd)
    copy = prepare("brugada", tmp_path, tmp_path / "prepared")
    assert len(copy.index) == 3
    assert sorted(copy.quarantined["reason"]) == [
        "gain 200 per mV, expected 1000 per mV",
        "sampling rate 500 Hz, expected 100 Hz",
    ]
    recording = copy.recording("188981")
    assert (recording.fs, recording.signal.shape) == (100, (12, 1200))
    assert np.allclose(recording.signal[:, 0], np.arange(12) / 100)


@pytest.mark.parametrize("value", ["3", "", "1.0"])
def test_a_class_that_does_not_exist(tmp_path: Path, value: str) -> None:
    file = write(tmp_path, 3) / "metadata.csv"
    change(file, 1, "brugada", value)
    with pytest.raises(BadRecord, match=f"^188982: brugada '{value}' in"):
        brugada.index(tmp_path)


def test_the_genuine_release(tmp_path: Path, real_data: Path) -> None:
    archive = real_data / "brugada_huca" / "brugada-huca-1.0.0.tar.xz"
    root = tmp_path / "brugada_huca"
    with tarfile.open(archive) as files:
        files.extractall(root, filter="data")
    found = brugada.index(root)
    assert len(found) == brugada.CARD.records == found["patient"].nunique() + len(brugada.SAME)
    assert set(found.loc[found["damaged"] != "", "record"]) == {*brugada.TWO_LABELS}
    hot = [task.columns[0] for task in brugada.CARD.tasks]
    assert found[hot].sum().tolist() == [69, 76, 46]
    test = found[found["split"] == "test"]
    assert (len(test), test[hot[0]].sum()) == (73, 14)
    # the limb leads of this release are not exact copies of one another
    for row in found.iloc[::15].to_dict("records"):
        recording = brugada.read(root, row)
        assert recording.leads == LEADS
        assert (recording.fs, recording.seconds) == (100, 12)
        one, two, three = recording.signal[:3].astype(float)
        assert 0 < (one + three - two).std() < 0.2 * recording.signal[:3].std()
        assert 0.2 < np.ptp(recording.signal, axis=1).max() < 12
