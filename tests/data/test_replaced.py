"""Recordings that were replaced by others of the same size and time stamp are found, and a data
folder that was moved is not prepared again.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ecgbench.data import manifest, prepare, replaced
from ecgbench.data.verify import verify
from ecgbench.datasets import ptbxl


def _other(file: Path) -> bytes:
    return (np.frombuffer(file.read_bytes(), "<i2") // 2).astype("<i2").tobytes()


def _in_its_place(file: Path) -> None:
    at, content = file.stat(), _other(file)
    file.write_bytes(content)
    os.utime(file, ns=(at.st_atime_ns, at.st_mtime_ns))


def _by_another_file(file: Path) -> None:
    at, other = file.stat(), file.with_name("other")
    other.write_bytes(_other(file))
    os.utime(other, ns=(at.st_atime_ns, at.st_mtime_ns))
    other.rename(file)


def _by_a_copy_of_itself(file: Path) -> None:
    shutil.copy2(file, other := file.with_name("other"))
    other.rename(file)


def _by_a_copy_of_the_folder(file: Path) -> None:
    shutil.copytree(ptb := file.parents[2], other := ptb.with_name("other"))
    shutil.rmtree(ptb)
    other.rename(ptb)


def _unreadable_for_a_while(file: Path) -> None:
    file.chmod(0)
    file.chmod(0o644)


@pytest.mark.parametrize("noted", [True, False])
@pytest.mark.parametrize(
    ("change", "again"),
    [
        (_in_its_place, True),
        (_by_another_file, True),
        (_by_a_copy_of_itself, False),
        (_by_a_copy_of_the_folder, False),
        (_unreadable_for_a_while, False),
    ],
)
def test_other_recordings_of_the_same_size_and_time_are_prepared(
    fake_ptbxl: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Path], None],
    again: bool,
    noted: bool,
) -> None:
    if noted:
        monkeypatch.setattr(manifest, "MANY", 1)
    before = prepare.prepare("ptbxl", fake_ptbxl, None)
    change(fake_ptbxl / "ptbxl" / "records500" / "00000" / "00003_hr.dat")
    problems = verify(prepare.held("ptbxl", fake_ptbxl, None, thorough=True))
    assert [record for record, _ in problems] == ["00003"] * again
    made = before.folder.stat().st_ino
    after = prepare.prepare("ptbxl", fake_ptbxl, None)
    assert after.folder == before.folder
    assert (after.digest != before.digest) == again == (after.folder.stat().st_ino != made)
    assert verify(after) == []
    monkeypatch.setattr(replaced, "_changed", lambda *_: pytest.fail("compared twice"))
    prepare.prepare_and_check("ptbxl", fake_ptbxl, None)


def test_of_many_that_changed_some_are_compared_and_all_by_data_prepare(
    fake_ptbxl: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replaced, "MOST", 3)
    before = prepare.prepare("ptbxl", fake_ptbxl, None)
    drawn = manifest.drawn("ptbxl", before.index.index.tolist(), 3)
    row = next(row for row in range(len(before.index)) if row not in drawn)
    file = fake_ptbxl / "ptbxl" / f"{before.index['path'][row]}.dat"
    _by_a_copy_of_the_folder(file)
    _in_its_place(file)
    assert prepare.prepare("ptbxl", fake_ptbxl, None).digest == before.digest
    assert prepare.prepare_and_check("ptbxl", fake_ptbxl, None).digest != before.digest


def test_another_label_in_a_file_of_the_same_size_and_time(
    fake_ptbxl: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in headers that hold labels."""
    before = prepare.prepare("ptbxl", fake_ptbxl, None)
    plain = ptbxl.index
    _by_a_copy_of_itself(fake_ptbxl / "ptbxl" / "records500" / "00000" / "00003_hr.hea")
    label = next(c for c in before.index.columns if ":" in c)
    monkeypatch.setattr(ptbxl, "index", lambda root: plain(root).assign(**{label: 1}))
    after = prepare.prepare("ptbxl", fake_ptbxl, None)
    assert after.index[label].all()
    assert after.digest != before.digest
