"""What a run finds damaged is set aside, named and computed again; the tables are those of the run
before, byte for byte.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ecgbench.core.files import DAMAGED
from ecgbench.reports import write
from ecgbench.results.study import read
from ecgbench.study.store import Store, cells_of
from ecgbench.study.verify import faults
from tests.results.test_damages import CELL, cut, flip

Typed = Callable[..., int]
DAMAGES = (
    *("a bit of the predictions", "half of cell.json", "DONE without files"),
    *("no scores", "facts of another key", "half of DONE", "no model"),
)
"""Of CELL: one for each lead that is measured."""
LEADS = ("I", "II", "V1", "V2", "V3", "V4", "V5")
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def finished(typed: Typed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("reused") / "run"
    assert typed(run, "--leads", ",".join(("12", *LEADS))) == 0
    return run


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """The test's own."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


def quarantined(run: Path) -> set[str]:
    """Where it was, of what was found damaged."""
    found = run.rglob(f"*{DAMAGED}")
    return {str(path.relative_to(run)).removesuffix(DAMAGED) for path in found}


def again(typed: Typed, run: Path) -> int:
    """The same command."""
    return typed(run, "--leads", ",".join(("12", *LEADS)))


def tables(run: Path, to: Path) -> dict[str, bytes]:
    """What a report prints of it, without what tells when and how fast it was computed."""
    study = read(run)
    write(study, to, only=["main_table"])
    kept = {p.name: p.read_bytes() for p in to.glob("main_table.*")}
    assert kept
    return kept | {"labels": study.labels.to_csv().encode()}


def spoil_facts(run: Path) -> None:
    (facts,) = (run / "datasets").glob("*.json")
    facts.write_text(facts.read_text().replace('"synthetic": true', '"synthetic": false'))
    (facts,) = (run / "models").glob("*.json")
    cut(facts)
    (people,) = (run / "people").glob("*.parquet")
    flip(people)


def test_damaged_cells_are_computed_again(
    finished: Path, run: Path, typed: Typed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = {f.parts[-2]: f for f in cells_of(run)}
    for lead, damage in zip(LEADS, DAMAGES, strict=True):
        CELL[damage](folders[lead])
    features = json.loads((folders["12"] / "cell.json").read_text())["features"]
    flip(run / features["path"])
    spoil_facts(run)
    assert list(faults(Store(run)))
    capsys.readouterr()
    assert again(typed, run) == 0
    told = capsys.readouterr()
    # of one cell only the features were damaged: what it says is what is there
    assert "7 cells computed, 1 were there already" in told.out, told.err
    aside = quarantined(run)
    places = {str(f.relative_to(run)) for lead, f in folders.items() if lead != "12"}
    assert places < aside
    assert len(aside) == len(LEADS) + 4, "features, two files of facts, and people"
    assert told.err.count("computed again\n") == len(aside), told.err
    assert list(faults(Store(run))) == []
    assert tables(run, tmp_path / "b") == tables(finished, tmp_path / "a")
    assert again(typed, run) == 0
    assert "0 cells computed, 8 were there already" in capsys.readouterr().out
    assert quarantined(run) == aside


@pytest.mark.parametrize(
    "spoil",
    [
        lambda fit: flip(fit / "head.safetensors"),
        lambda fit: cut(fit / "fit.json"),
        shutil.rmtree,
    ],
)
def test_a_damaged_fit_is_made_again_and_its_cells_stay(
    spoil: Callable[[Path], None],
    finished: Path,
    run: Path,
    typed: Typed,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (fit,) = (done.parent for done in run.glob("fits/*/*/*/DONE"))
    before = {f: (f / "DONE").stat().st_mtime_ns for f in cells_of(run)}
    spoil(fit)
    capsys.readouterr()
    assert again(typed, run) == 0
    assert "0 cells computed, 8 were there already" in capsys.readouterr().out
    assert {f: (f / "DONE").stat().st_mtime_ns for f in cells_of(run)} == before
    for name in ("head.safetensors", "validation.parquet"):
        own = fit.relative_to(run) / name
        assert (run / own).read_bytes() == (finished / own).read_bytes()
    assert len(quarantined(run)) == (spoil is not shutil.rmtree)
