"""`ecgbench runs why | merge | runs` as a person types them, on runs of the tiny plug-in."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ecgbench.core.folders import intact
from ecgbench.results.study import read
from ecgbench.study import overview
from ecgbench.study.store import STATES, Store, cells_of

Typed = Callable[..., int]
Told = Callable[..., tuple[int, str, str]]
TINY = Path(__file__).parents[1] / "tiny.py"
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def finished(typed: Typed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "one"
    assert typed(run, "--leads", "12,I") == 0
    return run


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A finished run, the test's own."""
    return Path(shutil.copytree(finished, tmp_path / "one"))


@pytest.fixture
def told(here: Callable[..., Any], tmp_path: Path) -> Told:
    """told(*words): exit code, standard output and error of `ecgbench *words`."""

    def call(*words: object) -> tuple[int, str, str]:
        done = here(*words, cwd=tmp_path)
        return done.returncode, done.stdout, done.stderr

    return call


def folder(run: Path, setting: str) -> Path:
    (found,) = (f for f in cells_of(run) if f.parts[-2] == setting)
    return found


def test_why_prints_what_a_number_rests_on(run: Path, told: Told) -> None:
    cell = folder(run, "I")
    note = json.loads((cell / "cell.json").read_text())
    ways = (
        cell,
        cell.relative_to(run),
        cell.name[:8],
        note["key"][:8],
        note["identity"],
        "demo · tiny · I · zero",
    )
    answers = {told("runs", "why", run, way) for way in ways}
    assert len(answers) == 1, "however the cell is named"
    code, out, err = answers.pop()
    assert (code, err) == (0, "")
    macro = read(run).cells.set_index("setting").loc["I", "value"]
    for line in (
        "setting: I",
        f"key: {note['key']}",
        "fit: seed: 0",
        "fit: training.epochs: 2",
        f"auroc macro: {macro:.6g}",
        "contract.fs: 100",
    ):
        assert f"  {line}\n" in out


def test_why_prints_what_two_numbers_differ_in(run: Path, told: Told) -> None:
    code, out, _ = told("runs", "why", run, folder(run, "I").name[:6], folder(run, "12").name[:6])
    assert code == 0
    facts = out.split("facts that differ\n")[1].split("scores: ")[0]
    assert facts == "  setting: I | 12\n"
    again = told("runs", "why", run, folder(run, "I").name[:6], folder(run, "I").name[:6])[1]
    assert "same facts" in again


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("runs", "why", "RUN", "zzzz"), "is no cell of"),
        (("runs", "why", "RUN/none", "abcd"), "no run in"),
        (("runs", "merge", "RUN", "RUN"), "would be merged with itself"),
        (("runs", "ls", "RUN/none"), "is not a folder"),
        (("runs", "prune", "RUN/none"), "no run in"),
    ],
)
def test_bad_input_is_told_in_one_line(
    words: tuple[str, ...], said: str, finished: Path, told: Told
) -> None:
    code, out, err = told(*(w.replace("RUN", str(finished)) for w in words))
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_merged_runs_hold_what_both_held(
    run: Path, typed: Typed, told: Told, tmp_path: Path
) -> None:
    other, both, whole = tmp_path / "two", tmp_path / "both", tmp_path / "whole"
    assert typed(other, "--leads", "I,II") == 0
    before = {p: p.read_bytes() for r in (run, other) for p in r.rglob("*") if p.is_file()}
    code, out, _ = told("runs", "merge", run, other, "--to", both)
    assert code == 0
    assert "1 cell, 0 fits" in out
    assert {p: p.read_bytes() for p in before} == before, "sources are only read"
    assert all(intact(f) for f in cells_of(both))
    assert typed(whole, "--leads", "12,I,II") == 0
    assert read(both).main.to_csv() == read(whole).main.to_csv()
    code, out, _ = told("runs", "merge", both, other)
    assert code == 0
    assert "0 cells, 0 fits, 0 files" in out
    assert typed(both, "--leads", "12,I,II") == 0, "a run goes on there"


def test_runs_are_listed_with_what_they_take(run: Path, told: Told) -> None:
    old = run.with_name("old")
    old.mkdir()
    (old / "plan.toml").write_text("format = 1")
    code, out, err = told("runs", "ls", run.parent)
    assert code == 0
    assert [line.split()[:2] for line in out.splitlines()[1:]] == [[str(old), "0"], [str(run), "2"]]
    assert "is not what a run wrote" in err
    code, out, _ = told("runs", "ls", run, "--json", "--sizes")
    (row,) = json.loads(out)
    assert [row[s] for s in STATES] == [2, 0, 0, 0, 0]
    assert row["features"] > row["cells"] > 0
    assert sum(row[p] for p in (*overview.PARTS, "other")) == sum(
        p.stat().st_size for p in run.rglob("*") if p.is_file()
    )


def test_pruning_frees_what_no_number_needs(run: Path, typed: Typed, told: Told) -> None:
    table = read(run).main.to_csv()
    spare = Path(shutil.copytree(folder(run, "I"), folder(run, "I").with_name("0" * 64)))
    checkpoint = run / "checkpoints" / "a" / "checkpoint.pt"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_bytes(b"x" * 1000)
    code, out, _ = told("runs", "prune", run)
    assert code == 0
    places = [run / "features", run / "checkpoints", spare]
    assert {line.split()[-1] for line in out.splitlines()[:-1]} == {str(p) for p in places}
    assert spare.exists()
    before, freed = overview.size(run), sum(map(overview.size, places))
    assert told("runs", "prune", run, "--yes")[0] == 0
    assert before - overview.size(run) == freed
    assert told("runs", "prune", run)[1].startswith("nothing to free")
    assert read(run).main.to_csv() == table
    assert typed(run, "--leads", "12,I,II") == 0


def test_a_run_at_work_is_not_pruned(run: Path, told: Told) -> None:
    with Store(run).claim("tiny|demo") as mine:
        assert mine
        code, _, err = told("runs", "prune", run, "--yes")
    assert code == 2
    assert "a run is working" in err
    assert (run / "features").exists()
