"""The ledger of scored test splits: nothing is lost, mixed or counted twice."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from ecgbench.study import ledger
from ecgbench.study.ledger import Counts, Scoring

LINE = Scoring(
    test="t" * 64,
    dataset="ptbxl",
    records=2158,
    fold="official",
    task="ptbxl_super",
    model="laef",
    weights="w" * 64,
    contract="paper",
    protocol="probe",
    run="r",
    date="2026-01-31T12:00:00Z",
)


def test_runs_at_once_lose_no_line_and_a_cut_line_costs_itself_alone(tmp_path: Path) -> None:
    machine = tmp_path / "machine"

    def scored(n: int) -> None:
        ledger.note([replace(LINE, model=f"m{n}")] * 2, tmp_path / f"run{n % 4}", machine)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(scored, range(80)))
    file = machine / ledger.FILE
    file.write_bytes(file.read_bytes() + b'\n{"test": "t", "data')  # its writer was killed
    scored(80)
    found = ledger.scorings(machine)
    assert len(found) == 2 * 81
    assert {s.model for s in found} == {f"m{n}" for n in range(81)}
    assert sum(len(ledger.scorings(tmp_path / f"run{n}")) for n in range(4)) == 2 * 81


def test_a_run_notes_once_what_was_scored_before_it(tmp_path: Path) -> None:
    machine, run = tmp_path / "machine", tmp_path / "run"
    for model, weights in (("laef", "a"), ("laef", "b"), ("stmem", "c")):
        ledger.note([replace(LINE, model=model, weights=weights)], tmp_path / "other", machine)
    ledger.note([replace(LINE, test="another split")], tmp_path / "other", machine)
    ledger.begin(LINE.test, run, machine, late=False)
    ledger.note([LINE], run, machine)
    ledger.begin(LINE.test, run, machine, late=False)
    (before,) = ledger.before(run)
    assert before.counts == Counts(times=3, models=2, weights=3, settings=1)
    assert ledger.scorings(run) == [LINE]


def test_a_folder_of_prepared_copies_that_is_only_read_stops_no_run(tmp_path: Path) -> None:
    (tmp_path / "machine").write_text("a file where the folder would be")
    ledger.note([LINE], tmp_path / "run", tmp_path / "machine")
    assert ledger.scorings(tmp_path / "run") == [LINE]


def test_lines_that_are_none_are_counted(tmp_path: Path) -> None:
    assert ledger.unread(tmp_path) == 0
    (tmp_path / ledger.FILE).write_bytes(b'{"a": 1}\n\n{"b": \n[1]\n' + bytes(20) + b"\n")
    assert ledger.unread(tmp_path) == 3
    (tmp_path / ledger.FILE).unlink()
    (tmp_path / ledger.FILE).mkdir()
    assert ledger.unread(tmp_path) == 1
