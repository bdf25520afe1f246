"""A report of one file reads the features of two models, from `ecgbench run` to its place on the
page.
"""

import csv
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import ecgbench
from ecgbench import models, reports
from ecgbench.cli import main

PLUGIN = Path(__file__).with_name("similarity.py")
TINY = Path(__file__).parents[1] / "tiny.py"


def typed(*words: object) -> int:
    """The exit code of a command."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["ecgbench", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
    return int(end.value.code or 0)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two tiny models on the demo at one lead, drawn twice, and at twelve."""
    place = tmp_path_factory.mktemp("similarity")
    other = place / "other.py"
    text = (
        TINY.read_text()
        .replace("NARROW, WIDE = 24, 48", "NARROW, WIDE = 16, 40")
        .replace('"Tiny"', '"Other"')
    )
    other.write_text(text)
    words = ["--models", f"{TINY},{other}", "--out", place / "run"]
    words += ["--leads", "1,12", "--seeds", "2", "--protocol", "linear", "--engine", "inline"]
    words += ["--set", "training.epochs=2"]
    assert typed("run", *words, "--prepared", place / "prepared") == 0
    yield place / "run"
    for room in (models.ROOM, reports.ROOM):
        room.forget()


@pytest.mark.long
def test_features_of_two_models_on_the_page(run: Path, tmp_path: Path) -> None:
    assert typed("report", run, "--set", f"report.reports={PLUGIN}", "--to", tmp_path / "to") == 0
    page = (tmp_path / "to/index.html").read_text()
    assert "Features of Tiny and Other</h2>" in page
    assert '<a href="#similarity">Similarity</a>' in page
    assert (
        page.index("Macro AUROC")
        < page.index("Features of Tiny and Other</h2>")
        < page.index("Provenance</h2>")
    )
    rows = {row["leads"]: row for row in csv.DictReader((tmp_path / "to/similarity.csv").open())}
    assert f">{float(rows['12']['cka']):.3f}</td>" in page
    drawn = list(csv.DictReader((tmp_path / "to/similarity_curve.csv").open()))
    assert [row["cka"] for row in drawn] == [rows[leads]["cka"] for leads in ("1", "12")]


def test_its_numbers_are_those_of_the_stored_features(run: Path) -> None:
    study = ecgbench.read(run)
    module = reports.get(reports.resolve(str(PLUGIN)))
    (section,) = module.sections(study)
    rows = {row["leads"]: row for row in section.parts[0].rows}
    _, x = study.result("demo", "tiny", "12", "zero").features()
    _, y = study.result("demo", "other", "12", "zero").features()
    gram = [side @ side.T for side in (part.astype(float) - part.mean(0) for part in (x, y))]
    direct = np.sum(gram[0] * gram[1]) / np.sqrt(np.sum(gram[0] ** 2) * np.sum(gram[1] ** 2))
    assert rows["12"]["cka"] == pytest.approx(direct, rel=1e-6)
    assert 0 < rows["1"]["cka"] < 1
    assert module.linear_cka(x, 3 * x[:, ::-1]) == pytest.approx(1)
