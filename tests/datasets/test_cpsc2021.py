"""CPSC2021: which windows are taken of a recording, and what their rhythm is."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wfdb

from ecgbench.data.prepare import prepare
from ecgbench.datasets import cpsc2021

FS = 200
NON, SOME, ALL = (f"{word} atrial fibrillation" for word in ("non", "paroxysmal", "persistent"))
Marks = list[tuple[float, str]]
"""Seconds and what is written there."""


def write(root: Path, name: str, seconds: float, comment: str, marks: Marks) -> None:
    """A recording that counts up in steps of 1/500 and 1/250 mV, each lead with a baseline."""
    folder = root / "Training_set_I"
    folder.mkdir(parents=True, exist_ok=True)
    count = round(seconds * FS)
    steps = np.stack([np.arange(count) % 500, np.arange(count) % 300], axis=1)
    wfdb.wrsamp(
        name, FS, ["mV"] * 2, ["I", "II"], d_signal=steps, fmt=["16"] * 2, adc_gain=[500.0, 250.0],
        baseline=[100, -50], comments=[comment], write_dir=str(folder),
    )  # fmt: skip
    beats = [(at, "N", "None") for at in range(30, count - 30, 150)]
    changes = [(min(round(at * FS), count - 1), "+", word) for at, word in marks]
    samples, symbols, notes = zip(*sorted(beats + changes))
    wfdb.wrann(
        name, "atr", np.array(samples), list(symbols), aux_note=list(notes), write_dir=str(folder)
    )


def made(data: Path) -> Path:
    """A recording of 42 s of each of ten patients; every second one fibrillates for 20 s."""
    root = data / "cpsc2021"
    for patient in range(10):
        fibrillates = patient % 2 == 1
        marks: Marks = [(0, "(AFIB"), (20, "(N")] if fibrillates else []
        write(root, f"data_{patient}_1", 42, SOME if fibrillates else NON, marks)
    return root


def windows(root: Path, name: str) -> dict[int, str]:
    """Second at which a window begins -> AFIB, "" or why it is left out."""
    found = cpsc2021.index(root)
    own = found[found["record"].str.startswith(f"{name}@")]
    said = own["excluded"] + np.where(own["cpsc2021:AFIB"] == 1, "AFIB", "")
    assert own["record"].tolist() == [f"{name}@{start:05d}" for start in own["start"]]
    return dict(zip(own["start"], said))


def test_windows_are_afib_not_or_left_out(tmp_path: Path) -> None:
    marks: Marks = [(0, "(N"), (10, "(AFIB"), (25, "(N"), (40, "(AFL"), (50, "(N")]
    write(tmp_path, "data_3_1", 65, SOME, marks)
    # the sample in which an episode ends belongs to it
    changes = cpsc2021.CHANGES
    assert windows(tmp_path, "data_3_1") == {
        0: "", 10: "AFIB", 20: changes, 30: "", 40: "AFIB", 50: changes,
    }  # fmt: skip
    write(tmp_path, "data_3_2", 31, ALL, [(0, "(AFIB"), (31, "(N")])
    assert windows(tmp_path, "data_3_2") == {0: "AFIB", 10: "AFIB", 20: "AFIB"}
    write(tmp_path, "data_3_3", 30, ALL, [(0, "(AFIB")])
    assert windows(tmp_path, "data_3_3") == {0: "AFIB", 10: "AFIB", 20: "AFIB"}


def test_a_long_recording_gives_windows_over_all_of_its_length(tmp_path: Path) -> None:
    write(tmp_path, "data_3_1", 1015, NON, [])
    starts = list(windows(tmp_path, "data_3_1"))
    assert len(starts) == cpsc2021.WINDOWS
    assert (starts[0], starts[-1]) == (0, 1000)
    assert set(np.diff(starts)) <= {110, 120}


def test_two_leads_in_mv_and_every_window_is_accounted_for(tmp_path: Path) -> None:
    root = made(tmp_path)
    write(root, "data_0_2", 9, NON, [])
    write(root, "data_0_3", 20, SOME, [])
    write(root, "data_0_4", 20, NON, [])
    (root / "Training_set_I" / "data_0_4.atr").unlink()
    copy = prepare("cpsc2021", tmp_path, tmp_path / "prepared")
    assert copy.excluded["reason"].value_counts().to_dict() == {
        cpsc2021.CHANGES: 5,
        "shorter than 10 s": 1,
    }
    assert copy.quarantined["record"].tolist() == ["data_0_3@00000", "data_0_4@00000"]
    assert len(copy.index) == 35
    assert copy.index["cpsc2021:AFIB"].sum() == 10
    assert (copy.index.groupby("patient")["fold"].nunique() == 1).all()
    assert copy.index.groupby("fold")["cpsc2021:AFIB"].sum().tolist() == [2] * 5
    recording = copy.recording("data_4_1@00030")
    assert recording.leads == ("I", "II", "III", "aVR", "aVL", "aVF")
    counted = np.arange(30 * FS, 40 * FS)
    one, two = (counted % 500 - 100) / 500, (counted % 300 + 50) / 250
    for lead, right in zip(recording.signal, (one, two, two - one)):
        assert np.abs(lead - right).max() < 1e-4


@pytest.mark.long
def test_a_run_with_each_lead_and_both(tmp_path: Path, here: Callable[..., Any]) -> None:
    for patient in range(20):
        fibrillates = patient % 2 == 1
        marks: Marks = [(0, "(AFIB")] if fibrillates else []
        write(tmp_path / "cpsc2021", f"data_{patient}_1", 10, ALL if fibrillates else NON, marks)
    words = ("run", "--models", "simple_features", "--tasks", "cpsc2021", "--data", tmp_path)
    done = here(*words, "--leads", "I,II,I+II", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    scores = re.findall(r"· (\S+) · native: macro ([\d.]+)", done.stdout + done.stderr)
    assert [leads for leads, _ in scores] == ["I", "II", "I+II"]


def test_genuine_windows_are_as_wfdb_reads_them(real_data: Path) -> None:
    root = real_data / "devices" / "cpsc2021"
    found = cpsc2021.index(root)
    assert found.groupby("patient")["cpsc2021:AFIB"].agg(["size", "sum"]).to_dict("index") == {
        "21": {"size": 30, "sum": 0},
        "35": {"size": 30, "sum": 0},
        "8": {"size": 24, "sum": 24},
    }
    for row in found[::7].to_dict("records"):
        first = row["start"] * FS
        signal, _ = wfdb.rdsamp(str(root / row["path"]), sampfrom=first, sampto=first + 10 * FS)
        assert np.abs(cpsc2021.read(root, row).signal - signal.T).max() < 1e-5
