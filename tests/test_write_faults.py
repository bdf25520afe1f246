"""Every write of the product fails once: no space from there on, an I/O error, an interruption;
then the same command is given again.

A few faults are spread over all steps (tests/faults.py); `make soak` lets more steps fail.
"""

import errno
import hashlib
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ecgbench import models, policies
from ecgbench.cli import main
from ecgbench.core.folders import DONE, intact
from ecgbench.core.seeds import rng
from ecgbench.data.disk import verify
from ecgbench.data.prepare import find, find_any, prepare
from ecgbench.datasets import ptbxl
from ecgbench.ecg.recording import Recording
from ecgbench.results.study import read
from ecgbench.study.store import Store
from tests.faults import KINDS, TOLD, Faults, failing

TINY = Path(__file__).parent / "tiny.py"


def typed(*words: object) -> int:
    """The exit code of a command, given in this process as if it were a new one."""
    models.ROOM.forget()
    policies.ROOM.forget()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["ecgbench", *map(str, words)])
        try:
            main()
        except SystemExit as end:
            return int(end.code or 0)
    return 0


def chosen(steps: list[str], count: int, about: str) -> list[tuple[int, str]]:
    """(step, kind) of the faults to try, spread over steps and kinds."""
    every = [(at, kind) for at in range(1, len(steps) + 1) for kind in KINDS]
    start = int(rng("write faults", about).integers(len(every)))
    drawn = (start + i * len(every) // count + i % len(KINDS) for i in range(count))
    return sorted({every[at % len(every)] for at in drawn})


def contents(folder: Path) -> dict[Path, str]:
    """Hashes of all files, by their paths in the folder."""
    return {
        p.relative_to(folder): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in folder.rglob("*")
        if p.is_file()
    }


def leftovers(folder: Path) -> list[Path]:
    return list(folder.rglob("*.tmp"))


def said_one_line(err: str, kind: str, code: int, place: Path) -> None:
    """What happened and below which folder, once; exit code 2, or 130 for an interruption."""
    told = [line for line in err.splitlines() if line.startswith("ecgbench: ")]
    assert len(told) == 1, err
    assert TOLD[kind] in told[0]
    assert kind == "interrupt" or str(place) in told[0]
    assert "Traceback" not in err
    assert code == (130 if kind == "interrupt" else 2)


# ---- preparing


@pytest.mark.long
def test_preparing_leaves_a_whole_copy_or_none(
    fake_ptbxl: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = fake_ptbxl / "prepared"
    words = ("data", "prepare", "ptbxl", "--data", fake_ptbxl)
    with failing(Faults(fake_ptbxl)) as counted:
        assert typed(*words) == 0
    whole = contents(home)
    for at, kind in chosen(counted.steps, 4, "prepare"):
        shutil.rmtree(home)
        capsys.readouterr()
        with failing(Faults(fake_ptbxl, at, kind)) as faults:
            code = typed(*words)
        assert faults.met
        if code:
            said_one_line(capsys.readouterr().err, kind, code, home)
        else:
            assert counted.steps[at - 1].startswith("mkdir")  # of a folder that was there
        assert leftovers(fake_ptbxl) == []
        # nothing, the lock, what is for people, everything
        assert len(contents(home)) in (0, 1, 2, len(whole)), (at, kind)
        assert typed(*words) == 0
        assert contents(home) == whole, (at, kind)
        assert leftovers(fake_ptbxl) == []
    assert verify(find_any("ptbxl", fake_ptbxl, None)) == []


def test_a_record_that_cannot_be_read_is_not_a_copy_that_cannot_be_written(
    fake_ptbxl: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = ptbxl.read

    def read_or_fail(root: Path | None, row: dict[str, Any]) -> Recording:
        if row["record"] == "00007":
            raise OSError(errno.EIO, os.strerror(errno.EIO), "00007_hr.dat")
        return plain(root, row)

    monkeypatch.setattr(ptbxl, "read", read_or_fail)
    copy = prepare("ptbxl", fake_ptbxl, None)
    assert copy.quarantined.to_dict("list") == {
        "record": ["00007"],
        "reason": ["cannot be read (Input/output error)"],
    }
    assert len(copy.index) == 29


# ---- a run and its report


@dataclass(frozen=True)
class Place:
    """A finished run of one cell in a folder of its own, with what it read."""

    folder: Path
    data: Path

    @property
    def run(self) -> Path:
        return self.folder / "run"

    def command(self) -> tuple[object, ...]:
        """The same run with a lead setting more."""
        words = "--tasks ptbxl_super --weights random --protocol linear --leads 12,I --limit 30"
        words += " --set training.epochs=2 --engine inline"
        places = ("--prepared", self.folder / "prepared", "--out", self.run)
        return ("run", "--models", TINY, *words.split(), "--data", self.data, *places)


@pytest.fixture(scope="module")
def base(_made_ptbxl: Path, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Its run holds the cell of twelve leads; its prepared copy has no views."""
    place = Place(tmp_path_factory.mktemp("base") / "base", _made_ptbxl)
    assert typed(*place.command(), "--leads", "12") == 0
    shutil.rmtree(find("ptbxl", place.data, place.folder / "prepared").folder / "views")
    return place


def numbers(run: Path) -> tuple[bytes, dict[str, str]]:
    """The main table, and the hashes of all that cells hold but the time they took."""
    kept = {
        str(p): h for p, h in contents(run / "cells").items() if p.suffix in (".parquet", ".npy")
    }
    return read(run).main.to_csv(index=False).encode(), kept


def sound(run: Path) -> None:
    """Whatever is called finished is what DONE says, and the plan can be read."""
    assert Store(run).plan() is not None
    for done in run.rglob(DONE):
        assert intact(done.parent)


@pytest.mark.long
def test_a_run_loses_nothing_and_goes_on(
    base: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A grid that grows by a cell: the cell that was there stays to the last byte, and the same
    command completes the table.
    """

    def fresh(name: str) -> Place:
        shutil.rmtree(tmp_path / name, ignore_errors=True)
        return Place(Path(shutil.copytree(base.folder, tmp_path / name)), base.data)

    undisturbed = fresh("undisturbed")
    with failing(Faults(undisturbed.folder)) as counted:
        assert typed(*undisturbed.command()) == 0
    expected, before = numbers(undisturbed.run), contents(base.folder)
    for at, kind in chosen(counted.steps, 7, "run"):
        place = fresh("faulty")
        capsys.readouterr()
        with failing(Faults(place.folder, at, kind)) as faults:
            code = typed(*place.command())
        assert faults.met
        told = capsys.readouterr().err
        if code:  # a run goes on without cached views
            said_one_line(told, kind, code, place.folder)
        else:
            assert "views" in counted.steps[at - 1] or counted.steps[at - 1].startswith("mkdir")
        assert leftovers(place.folder) == [], (at, kind)
        after = contents(place.folder)
        lost = [p.name for p, h in before.items() if after.get(p) != h]
        assert set(lost) <= {"plan.toml", "index.jsonl", "tested.jsonl"}, (at, kind)
        sound(place.run)
        assert typed(*place.command()) == 0, capsys.readouterr().err
        assert numbers(place.run) == expected, (at, kind)
        assert leftovers(place.folder) == []
        sound(place.run)
