"""`ecgbench report` as it is typed: the files of a page, --open, and what a reader asks of it."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from ecgbench.cli import app
from ecgbench.cli.templates import report as template
from ecgbench.errors import BadSetting, UnknownName
from ecgbench.results.study import read
from tests.invented import Data, Made, write


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("run")
    write(place, Made(data={"real": Data(tasks={"heart": 2}, records=60)}, models=("good",)))
    return place


def test_open_shows_the_page(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(typer, "launch", opened.append)
    done = CliRunner().invoke(app, ["report", str(run), "--only", "provenance", "--open"])
    assert done.exit_code == 0, done.output
    assert opened == [(run / "report/index.html").resolve().as_uri()]


def test_predictions_that_are_not_written_are_named(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ecgbench.reports._predictions.MOST", 10)
    done = CliRunner().invoke(app, ["report", str(run), "--to", str(tmp_path), "--figures", "png"])
    assert done.exit_code == 0, done.output
    assert not (tmp_path / "predictions.csv").exists()
    assert "no predictions.csv" in done.output


@pytest.mark.parametrize(
    ("asked", "value"),
    [
        ("--baseline", "good"),
        ("--set", "report.margins=0.005,0.015"),
        ("--set", "report.duplicates=pairs.csv"),
    ],
)
def test_an_option_of_the_reader_stands_alone(
    run: Path, asked: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pairs.csv").write_text("dataset,patient,other dataset,other patient\n")
    words = ["report", str(run), "--only", "provenance", "--to", "page", asked, value]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert Path("page/index.html").is_file()


def test_some_tasks_are_reported_as_if_no_other_had_been_asked_for(tmp_path: Path) -> None:
    both = Data(tasks={"a": 3, "b": 2}, records=60)
    runs = {
        "all": {"d1": both, "d2": Data(tasks={"c": 2}, records=60)},
        "one": {"d1": Data(tasks={"b": 2}, records=60)},
    }
    for name, data in runs.items():
        write(tmp_path / name, Made(data=data, models=("good", "fair", "weak"), leads="1,12"))
    some, alone = read(tmp_path / "all", tasks=["b"]), read(tmp_path / "one")
    same = ["task", "model", "leads", "value", "low", "high", "p", "p_holm", "best"]
    pd.testing.assert_frame_equal(some.main[same], alone.main[same])
    assert some.notes[0].kind == "SOME TASKS ONLY"
    assert some.notes[0].text.endswith("Left out: a and c.")
    every = read(tmp_path / "all", tasks=["c", "a", "b"])
    assert "SOME TASKS ONLY" not in {note.kind for note in every.notes}
    words = ["report", str(tmp_path / "all"), "--tasks", "b"]
    done = CliRunner().invoke(app, [*words, "--only", "main_table", "--figures", "svg"])
    assert done.exit_code == 0, done.output
    assert "Some tasks only" in (tmp_path / "all/report-b/index.html").read_text()
    assert set(pd.read_csv(tmp_path / "all/report-b/main_table.csv")["task"]) == {"b"}
    done = CliRunner().invoke(app, [*words, "--publish"])
    assert isinstance(done.exception, BadSetting)
    assert "a published report is whole" in str(done.exception)
    with pytest.raises(UnknownName, match="'bb'"):
        read(tmp_path / "all", tasks=["bb"])


def _told(*words: object) -> str:
    done = CliRunner().invoke(app, ["report", *map(str, words), "--figures", "svg"])
    assert done.exit_code == 0, done.output
    return done.output


CHANGES: dict[str, Callable[[Path, Path], object]] = {
    "a file of the run": lambda run, to: os.utime(next(run.glob("cells/*/*/*/*/cell.json"))),
    "no table": lambda run, to: (to / "cells.csv").unlink(),
    "no page": lambda run, to: (to / "index.html").unlink(),
    "another table": lambda run, to: (to / "cells.csv").write_text("x"),
    "no note": lambda run, to: (to / "made_from.json").write_text("{"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_report_is_made_again_where_something_has_changed(
    change: str, run: Path, tmp_path: Path
) -> None:
    mine = Path(shutil.copytree(run, tmp_path / "mine"))
    words, to = (mine, "--only", "provenance,main_table"), mine / "report"
    _told(*words)
    before = [file.read_bytes() for file in sorted(to.glob("*.csv"))]
    said = _told(*words)
    assert "up to date" in said
    assert said.splitlines()[-1] == str(to / "index.html")
    CHANGES[change](mine, to)
    assert "up to date" not in _told(*words)
    assert [file.read_bytes() for file in sorted(to.glob("*.csv"))] == before
    assert "up to date" in _told(*words)


def test_a_file_that_no_report_wrote_is_not_replaced(run: Path, tmp_path: Path) -> None:
    to = tmp_path / "to"
    to.mkdir()
    (to / "main_table.csv").write_text("mine")
    words = ["report", str(run), "--to", str(to), "--only", "main_table"]
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, BadSetting)
    assert f"{to / 'main_table.csv'} would be replaced, and no report" in str(done.exception)
    assert [(file.name, file.read_text()) for file in to.iterdir()] == [("main_table.csv", "mine")]
    (to / "main_table.csv").rename(to / "mine.csv")
    assert "index.html" in _told(*words[1:])
    (to / "made_from.json").unlink()
    assert "index.html" in _told(*words[1:])


def test_a_link_in_a_run_to_itself_is_followed_once(run: Path, tmp_path: Path) -> None:
    mine = Path(shutil.copytree(run, tmp_path / "mine"))
    (mine / "loop").symlink_to(".")
    assert "index.html" in _told(mine, "--only", "provenance")
    assert "up to date" in _told(mine, "--only", "provenance")


def test_other_options_other_code_or_a_plug_in_make_it_again(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = (run, "--to", tmp_path / "to", "--only", "main_table")
    _told(*words)
    assert "up to date" not in _told(*words, "--baseline", "good")
    assert "up to date" in _told(*words, "--baseline", "good")
    monkeypatch.setattr("ecgbench.core.provenance.versions", lambda: {"numpy": "another"})
    assert "up to date" not in _told(*words, "--baseline", "good")
    own = shutil.copy(template.__file__, tmp_path / "made_each_time.py")
    for _ in range(2):
        assert "up to date" not in _told(run, "--to", tmp_path / "own", "--only", own)
