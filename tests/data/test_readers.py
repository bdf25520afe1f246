"""Several processes read what one would, and a fault of theirs is one line."""

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from ecgbench import datasets
from ecgbench.data import readers
from ecgbench.data.prepare import Prepared, prepare
from ecgbench.data.source import Source, rows
from ecgbench.errors import BadSetting, MissingData

pytestmark = pytest.mark.long

PLUG_IN = """
import os, signal, subprocess, sys
from ecgbench.datasets import demo
from ecgbench.datasets.demo import CARD, index

def read(root, row):
    print("what a reader prints is no answer")
    {fault}
    return demo.read(root, row)
"""


def _bytes(copy: Prepared) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(copy.folder.iterdir())}


def test_the_copy_is_the_same_to_the_byte_whoever_reads(
    fake_ptbxl: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among the records are one that is cut short and one that is gone, and a part was prepared
    before; batches end in another order than they began.
    """
    folder = fake_ptbxl / "ptbxl" / "records500" / "00000"
    os.truncate(folder / "00007_hr.dat", 60_000)
    (folder / "00019_hr.hea").unlink()
    monkeypatch.setattr(readers, "BATCH", 4)
    alone = prepare("ptbxl", fake_ptbxl, tmp_path / "alone", workers=1)
    prepare("ptbxl", fake_ptbxl, tmp_path / "several", limit=6, workers=3)
    several = prepare("ptbxl", fake_ptbxl, tmp_path / "several", workers=3)
    assert sorted(several.quarantined["record"]) == ["00007", "00019"]
    (files,) = (name for name in _bytes(alone) if name.startswith("files-"))
    assert _bytes(several) == _bytes(alone)
    assert set(_bytes(alone)) - {files} == {
        "signal.i16",
        "findings.parquet",
        "gain.npy",
        "index.parquet",
        "left_out.parquet",
        "meta.json",
    }


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        ("", ""),
        ("assert not sys.stdin.read()", ""),
        ("assert not subprocess.run('cat', capture_output=True).stdout", ""),
        ("raise OSError('truncated file')", r"mine: 6 of 180 records cannot .* read \(truncated"),
        ("raise KeyError(5)", r"dataset 'mine' failed at mine.py:8: KeyError: 5"),
        (
            "os.kill(os.getpid(), signal.SIGKILL)",
            r"mine: a process that reads records gave no answer, its process was killed by "
            r"SIGKILL .* --workers 1",
        ),
        ("os._exit(3)", r"mine: .* its process ended with exit code 3; .* --workers 1"),
    ],
)
def test_a_plug_in_given_by_path_is_read_there_and_its_fault_is_one_line(
    tmp_path: Path, fault: str, complaint: str
) -> None:
    (tmp_path / "mine.py").write_text(PLUG_IN.format(fault=fault))
    try:
        if not complaint:
            copy = prepare(str(tmp_path / "mine.py"), None, tmp_path / "prepared", workers=2)
            assert len(copy.index) == 180
            return
        with pytest.raises((BadSetting, MissingData), match=complaint) as said:
            prepare(str(tmp_path / "mine.py"), None, tmp_path / "prepared", workers=2)
        assert "\n" not in str(said.value)
        assert [p.name for p in (tmp_path / "prepared" / "mine").iterdir()] == [".lock"]
    finally:
        datasets.ROOM.forget()


def test_rows_come_to_another_process_as_they_are_here(fake_ptbxl: Path, tmp_path: Path) -> None:
    source = Source.of("ptbxl", fake_ptbxl)
    assert readers._written(source.index, tmp_path / "rows.arrow") == 1
    with pa.memory_map(str(tmp_path / "rows.arrow")) as file:
        there = pa.Table.from_batches([pa.ipc.open_file(file).get_batch(0)]).to_pandas()
    assert repr(list(rows(there))) == repr(list(rows(source.index)))
    for odd in ([1, "a"], [1, None], [["V1"], ["V2"]], ["a", float("nan")]):
        mixed = pd.Series([*odd] * 15, dtype=object)
        table = source.index.assign(odd=mixed)
        assert readers._written(table, tmp_path / "rows.arrow") == 0, odd
    table = source.index.assign(odd=pd.Series(["a", None] * 15, dtype=object))
    assert readers._written(table, tmp_path / "rows.arrow") == 1


def test_few_records_are_read_in_this_process_and_many_by_as_many_as_there_are_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    assert [readers.workers_for(n) for n in (30, 399, 400)] == [1, 1, 8]
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5}, raising=False)
    assert readers.workers_for(10**6) == 1
    assert readers.workers_for(30, 3) == 3


def test_reading_processes_need_no_torch() -> None:
    code = "import sys, ecgbench.data.reading_process; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
