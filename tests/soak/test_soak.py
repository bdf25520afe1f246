"""A sample of the soak, and its judge, which must see what it is there to see."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.soak.judge import Tables, compared, judge, look, tables
from tests.soak.place import Place, Said
from tests.soak.row import BAD, MEANING, Row, Verdict

ROOT = Path(__file__).parents[2]
SAMPLE = 30
HEADING = ("metric", "task", "model", "leads", "policy", "value", "status")
FIRST, SECOND = (("auroc", "demo", "tiny", leads, "zero", "0.7", "ok") for leads in ("12", "I"))
TABLES: Tables = {
    "main_table.csv": [HEADING, FIRST, SECOND],
    "calibration.csv": [("bin", "n"), ("1", "5"), ("2", "6")],
    "index.html": [("Main table",)],
}
FAILED = (*SECOND[:5], "", "failed")
TOLD = [("Main table",), ("validation.parquet is gone",)]
QUIET = Said("ecgbench report", 0, "", "")


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        ({}, "survived"),
        ({"main_table.csv": [HEADING, (*FIRST[:5], "0.8", "ok"), SECOND]}, "silent wrong number"),
        ({"main_table.csv": [HEADING, FIRST]}, "silent wrong number"),
        ({"main_table.csv": [HEADING, FIRST, FAILED]}, "named"),
        ({"calibration.csv": [("bin", "n"), ("1", "5")]}, "silent wrong number"),
        ({"calibration.csv": [("bin", "n"), ("1", "5")], "index.html": TOLD}, "named"),
        (
            {"calibration.csv": [("bin", "n"), ("1", "9")], "index.html": TOLD},
            "silent wrong number",
        ),
        ({"index.html": [("No longer synthetic?",)]}, "named"),
        ({"index.html": [("Trained weights",)]}, "silent wrong number"),
    ],
)
def test_tables_are_compared(change: Tables, outcome: str) -> None:
    assert compared(TABLES, {**TABLES, **change}, [QUIET], acted=False)[0] == outcome


def cell(place: Place) -> Path:
    folder = place.out / "cells" / "demo" / "tiny" / "12" / "key"
    folder.mkdir(parents=True)
    (folder / "cell.json").write_text("{}")
    return folder


LINE = "ecgbench: plan.toml is not what a run wrote; restore it\n"


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        (Said("run", 2, "", LINE), "refused"),
        (Said("run", 2, "", LINE + LINE), "other"),
        (Said("run", -11, "", ""), "other"),
        (Said("run", 1, "", "Traceback (most recent call last):\n  x\nKeyError: 3\n"), "traceback"),
    ],
)
def test_what_was_said_is_judged(said: Said, outcome: str, tmp_path: Path) -> None:
    place = Place(tmp_path)
    cell(place)
    before = look(place)
    place.said.append(said)
    row = Row("family", "name", "small", lambda place: None)
    assert judge(row, place, before, TABLES).outcome == outcome


def test_a_record_that_the_page_names_or_a_cell_excludes_is_no_silence(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.said.append(QUIET)
    (tmp_path / "report").mkdir()
    page = tmp_path / "report" / "index.html"
    page.write_text("<p>Main table</p>")
    heading, value = "task,excluded\n", ",".join(FIRST)
    main = f"{','.join(HEADING)}\n{value}\n"
    (tmp_path / "report" / "main_table.csv").write_text(main)
    file = tmp_path / "report" / "cells.csv"
    file.write_text(f"{heading}demo,0\n")
    row, expected = Row("data", "name", "own", lambda place: None, of="w02"), tables(place)
    file.write_text(f"{heading}demo,1\n")
    assert judge(replace(row, of=""), place, look(place), expected).outcome == BAD[0]
    assert judge(row, place, look(place), expected).outcome == "named"
    file.write_text(f"{heading}other,0\n")
    assert judge(row, place, look(place), expected).outcome == BAD[0]
    page.write_text("<p>Main table</p><script>w02</script>")
    assert judge(row, place, look(place), expected).outcome == BAD[0]
    page.write_text("<p>Main table</p><p>w02 reaches 50 mV</p>")
    assert judge(row, place, look(place), expected).outcome == "named"


def test_what_was_finished_may_be_set_aside_and_not_removed(tmp_path: Path) -> None:
    place = Place(tmp_path)
    folder = cell(place)
    before = look(place)
    place.said.append(Said("run", 2, "", LINE))
    row = Row("family", "name", "small", lambda place: None)
    aside = folder.rename(folder.with_name(".damaged-key-1"))
    assert judge(row, place, before, TABLES).outcome == "refused"
    (aside / "cell.json").write_text("{ }")
    assert judge(row, place, before, TABLES).outcome == "lost"
    assert judge(replace(row, allowed=("survived",)), place, before, TABLES).outcome == "lost"


@pytest.mark.long
def test_a_sample_of_the_faults(tmp_path: Path) -> None:
    words = ("--sample", str(SAMPLE))
    done = subprocess.run(
        [sys.executable, "-m", "tests.soak", *words, "--home", str(tmp_path), "--workers", "1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = (tmp_path / "results.jsonl").read_text().splitlines()
    found = [Verdict(**json.loads(line)) for line in lines]
    assert len(found) == SAMPLE
    assert {v.outcome for v in found} <= set(MEANING)
