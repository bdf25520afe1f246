"""What happens to a run when its files are not what was written: each damage, and what every
command that reads the run says of it. tests/study/test_reused.py tries what computes it again.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ecgbench.errors import Damaged
from ecgbench.results.study import read
from ecgbench.study.explain import difference, result_of
from ecgbench.study.merge import merge
from ecgbench.study.people import COLUMNS, keep
from ecgbench.study.store import Store
from ecgbench.study.verify import faults
from tests import invented
from tests.invented import Data, Made

MADE = Made(
    data={"first": Data(tasks={"a": 2}, records=40)}, models=("good",), seeds=1, validated=30
)
Spoil = Callable[[Path], object]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two cells, one lead and twelve, on one fit."""
    run = invented.write(tmp_path_factory.mktemp("damages") / "run", MADE).path
    shown = pd.DataFrame({name: ["x"] for name in COLUMNS}).assign(age=50.0, sex="female")
    keep(run, "first", shown)
    return run


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    """The test's own."""
    return Path(shutil.copytree(whole, tmp_path / "run"))


def flip(file: Path) -> None:
    """One bit is another."""
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def hashed(folder: Path) -> None:
    """DONE tells of the files as they are: somebody meant it."""
    files = (file for file in folder.iterdir() if file.name != "DONE")
    hashes = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    (folder / "DONE").write_text(json.dumps(hashes))


def document(**said: Any) -> Spoil:
    """cell.json says something else, and is hashed."""

    def spoil(cell: Path) -> None:
        told = json.loads((cell / "cell.json").read_text())
        (cell / "cell.json").write_text(json.dumps(told | said))
        hashed(cell)

    return spoil


def copied(cell: Path) -> None:
    (other,) = (f for f in cell.parents[1].glob("*/*") if f != cell)
    shutil.rmtree(cell)
    shutil.copytree(other, cell)


def piped(file: Path) -> None:
    """Nobody will ever write into it."""
    file.unlink()
    os.mkfifo(file)


CELL: dict[str, Spoil] = {
    "a pipe of predictions": lambda cell: piped(cell / "predictions.parquet"),
    "a bit of the predictions": lambda cell: flip(cell / "predictions.parquet"),
    "no scores": lambda cell: (cell / "scores.parquet").unlink(),
    "half of cell.json": lambda cell: cut(cell / "cell.json"),
    "half of DONE": lambda cell: cut(cell / "DONE"),
    "DONE without files": lambda cell: (cell / "DONE").write_text("{}"),
    "DONE of brackets": lambda cell: (cell / "DONE").write_text("[" * 100_000),
    "the files of another cell": copied,
    "facts of another key": document(key_facts={"cell": "a"}),
    "another identity": document(identity="a|good|paper|released|fit0|2@seed0|zero"),
    "no model": document(model="0" * 64),
}
PREDICTED = {name for name in CELL if "predictions" in name} | {"no model"}
"""What `why` does not read."""
VALUES = {"no model", "another identity"}
"""What hashes and keys do not tell: a merged run tells it when it is read."""


@pytest.mark.parametrize("damage", CELL)
def test_a_damaged_cell_is_named_and_costs_itself_alone(
    damage: str, run: Path, whole: Path, tmp_path: Path
) -> None:
    one, twelve = Store(run).existing_plan().cells
    folder = Store(run).folder(one)
    assert folder is not None
    CELL[damage](folder)
    study, told = read(run), read(whole)
    states = study.cells.set_index("setting")
    assert states["status"].to_dict() == {"1@seed0": "damaged", "12": "ok"}
    why = states.loc["1@seed0", "reason"]
    assert str(run) in why
    for name in ("value", "low", "high"):
        assert np.isnan(states.loc["1@seed0", name])
        assert states.loc["12", name] == told.cells.set_index("setting").loc["12", name]
    assert study.results[0].cell == twelve
    assert any("1 damaged of 2 cells" in note for note in map(str, study.notes))
    assert list(faults(Store(run))) == [why], "--verify says the same"
    if damage not in PREDICTED:
        with pytest.raises(Damaged) as caught:
            list(difference(*[result_of(Store(run), one.identity)] * 2))
        assert str(caught.value) == why
    if damage not in VALUES:
        other = invented.write(tmp_path / "other", Made(data=MADE.data, models=("good",), seeds=1))
        shutil.rmtree(other.path / "cells")
        assert merge(other.path, run, tmp_path / "both")["damaged"] == 1


FIT: dict[str, Spoil] = {
    "a bit of the validation predictions": lambda fit: flip(fit / "validation.parquet"),
    "half of fit.json": lambda fit: cut(fit / "fit.json"),
    "facts of another fit": lambda fit: (
        (fit / "fit.json").write_text('{"key": "0", "key_facts": {}}'),
        hashed(fit),
    ),
}


@pytest.mark.parametrize("damage", FIT)
def test_cells_of_a_damaged_fit_have_no_number(damage: str, run: Path) -> None:
    FIT[damage](run / invented.fit_folder("a", "good"))
    cells = read(run).cells
    assert set(cells["status"]) == {"damaged"}
    (why,) = set(cells["reason"])
    assert list(faults(Store(run))) == [why]


def replaced(old: str, new: str) -> Spoil:
    def spoil(file: Path) -> None:
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))

    return spoil


PLAN: dict[str, Spoil] = {
    "half": cut,
    "no text": lambda file: file.write_bytes(b"\xff\xfe\x00"),
    "another setting": replaced("seeds = 1", "seeds = 2"),
    "no hash": replaced("# sha256", "# sha512"),
}


@pytest.mark.parametrize("damage", PLAN)
def test_a_damaged_plan_is_one_line(damage: str, run: Path, here: Any, tmp_path: Path) -> None:
    PLAN[damage](run / "plan.toml")
    for words in (
        ("report", run),
        ("runs", "why", run, "a"),
        ("runs", "merge", run, run),
        ("runs", "prune", run),
    ):
        done = here(*words, cwd=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), words
        assert f"{run}/plan.toml" in done.stderr
    listed = here("runs", "ls", run, "--verify", cwd=tmp_path)
    assert listed.returncode == 1
    assert "damaged: " in listed.stderr


def test_an_edited_table_of_people_says_nothing_and_is_said(run: Path) -> None:
    assert list(faults(Store(run))) == []
    file = run / "people" / "first.parquet"
    pd.read_parquet(file).assign(sex="male").to_parquet(file, index=False)
    (note,) = (n for n in map(str, read(run).notes) if n.startswith("DAMAGED: "))
    assert str(file) in note
    assert len(list(faults(Store(run)))) == 1


def test_what_a_policy_learned_is_held_to_its_name(run: Path) -> None:
    file = run / "policies" / f"{hashlib.sha256(b'learned').hexdigest()}.safetensors"
    file.parent.mkdir()
    file.write_bytes(b"learned")
    assert list(faults(Store(run))) == []
    flip(file)
    (fault,) = faults(Store(run))
    assert fault.startswith(f"{file} is not what the run wrote")


def test_a_report_names_damaged_cells_and_goes_on(run: Path, here: Any, tmp_path: Path) -> None:
    """As a person types it; the page and the terminal say the same as of a cell that failed."""
    one, _ = Store(run).existing_plan().cells
    folder = Store(run).folder(one)
    assert folder is not None
    flip(folder / "predictions.parquet")
    done = here("report", run, "--only", "main_table", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 cell damaged" in done.stdout
    assert f"{folder}/predictions.parquet" in done.stderr
    assert (pd.read_csv(run / "report" / "main_table.csv")["status"] == "damaged").sum() == 1
    page = (run / "report" / "index.html").read_text()
    assert "predictions.parquet is not what the run wrote" in page
    refused = here("report", run, "--publish", cwd=tmp_path)
    assert refused.returncode == 2
    assert "1 of 2 cells are damaged; run: " in refused.stderr
