"""Every write of the product fails once: no space from there on, an I/O error, an interruption;
then the same command is given again.

The short version spreads a few faults over all steps (tests/faults.py); with ECGBENCH_SOAK set,
every step fails in every way.
"""

import errno
import hashlib
import os
import runpy
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ecgbench import adapters, models
from ecgbench.cli import main
from ecgbench.core.cards import Filter, InputContract
from ecgbench.core.files import making, put
from ecgbench.core.folders import DONE, intact
from ecgbench.core.seeds import rng
from ecgbench.data.disk import verify
from ecgbench.data.prepare import find, find_any, prepare
from ecgbench.data.views import View
from ecgbench.datasets import ptbxl
from ecgbench.ecg import preprocess
from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.recording import Recording
from ecgbench.errors import WriteError
from ecgbench.results.study import read
from ecgbench.study.store import Store

FAULTS = runpy.run_path(str(Path(__file__).with_name("faults.py")))
Faults, failing, KINDS, TOLD = (FAULTS[name] for name in ("Faults", "failing", "KINDS", "TOLD"))
TINY = Path(__file__).parent / "tiny.py"
SOAK = bool(os.environ.get("ECGBENCH_SOAK"))
pytestmark = [pytest.mark.long] if SOAK else []


def left_name(folder: Path) -> str:
    """The name of what a writer makes in a folder before it is complete."""
    with making(folder / "part") as unfinished:
        return unfinished.name


def typed(*words: object) -> int:
    """The exit code of a command, given in this process as if it were a new one."""
    models.ROOM.forget()
    adapters.ROOM.forget()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["ecgbench", *map(str, words)])
        try:
            main()
        except SystemExit as end:
            return int(end.code or 0)
    return 0


def chosen(steps: list[str], short: int, *about: str) -> list[tuple[int, str]]:
    """(step, kind) of the faults to try: all of them in a soak, else `short` of them, spread over
    steps and kinds.
    """
    every = [(at, kind) for at in range(1, len(steps) + 1) for kind in KINDS]
    if SOAK:
        return every
    start = int(rng("write faults", *about).integers(len(every)))
    return sorted(
        {
            every[(start + i * len(every) // short + i % len(KINDS)) % len(every)]
            for i in range(short)
        }
    )


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


# ---- views

CONTRACT = InputContract(
    name="paper",
    fs=100,
    seconds=5,
    leads=LEADS,
    unit="mV",
    filter=Filter(kind="firwin-filtfilt", low=0.05, high=47),
    normalisation="minmax-per-lead",
    fill="before",
    policy="native",
    absent="nothing",
)


@pytest.mark.long
def test_a_view_keeps_what_was_done_and_can_be_filled_again(fake_ptbxl: Path) -> None:
    copy = prepare("ptbxl", fake_ptbxl, None)
    records = copy.index["record"].tolist()[:6]
    expected = {
        r: preprocess.view(copy.recording(r).signal, 500, CONTRACT.preparation) for r in records
    }
    # filtering takes longer than writing
    known = {copy.recording(r).signal.tobytes(): made for r, made in expected.items()}
    views = copy.folder / "views"

    def fill() -> View:
        made = View(copy, CONTRACT)
        made.fill(records)
        return made

    def fresh() -> None:
        shutil.rmtree(views, ignore_errors=True)
        made = View(copy, CONTRACT)
        made.fill(records[:3])
        left = put(made.folder / left_name(made.folder), "of a process that was killed")
        os.utime(left, (0, 0))

    fresh()
    with failing(Faults(views)) as counted:
        fill()
    for at, kind in chosen(counted.steps, 12, "views"):
        fresh()
        told = ""
        with failing(Faults(views, at, kind)), pytest.MonkeyPatch.context() as patch:
            patch.setattr(preprocess, "view", lambda signal, *_: known[signal.tobytes()])
            try:
                assert (fill().get(records[5]) == expected[records[5]]).all()
            except (WriteError, KeyboardInterrupt) as error:
                told = str(error)
        assert kind == "interrupt" or told.startswith(f"cannot write {views}/" if told else "")
        again = View(copy, CONTRACT)
        assert again.missing(records[:3]) == [], (at, kind)
        for record in records:
            assert (again.get(record) == expected[record]).all(), (at, kind)
        assert leftovers(fake_ptbxl) == []


# ---- preparing


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
        words = (
            "--models",
            TINY,
            "--tasks",
            "ptbxl_super",
            "--weights",
            "random",
            "--protocol",
            "linear",
            "--set",
            "training.epochs=2",
            "--leads",
            "12,I",
            "--limit",
            30,
        )
        return (
            "run",
            *words,
            *IN_PROCESS,
            "--data",
            self.data,
            "--prepared",
            self.folder / "prepared",
            "--out",
            self.run,
        )


IN_PROCESS = (
    "--engine",
    "inline",
)


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


@pytest.mark.long
def test_a_report_is_the_old_one_or_the_new_one(
    base: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Drawn after the run grew, over the report of the smaller one."""
    place = Place(Path(shutil.copytree(base.folder, tmp_path / "place")), base.data)
    assert typed("report", place.run, "--to", tmp_path / "old") == 0
    assert typed(*place.command()) == 0
    new = tmp_path / "new"
    shutil.copytree(tmp_path / "old", new)
    with failing(Faults(new)) as counted:
        assert typed("report", place.run, "--to", new) == 0
    old, drawn = contents(tmp_path / "old"), contents(new)
    to = tmp_path / "to"
    for at, kind in chosen(counted.steps, 2, "report"):
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(tmp_path / "old", to)
        left = put(to / left_name(to), "of a report that was killed")
        os.utime(left, (0, 0))
        capsys.readouterr()
        with failing(Faults(to, at, kind)) as faults:
            code = typed("report", place.run, "--to", to)
        assert faults.met
        if code or kind == "interrupt" or not counted.steps[at - 1].startswith("mkdir"):
            said_one_line(capsys.readouterr().err, kind, code, to)
        assert all(h in (old.get(p), drawn.get(p)) for p, h in contents(to).items()), (at, kind)
        assert typed("report", place.run, "--to", to) == 0
        assert contents(to) == drawn
