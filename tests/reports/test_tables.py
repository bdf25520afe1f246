"""The tables of a paper: Table 1, leads I and II, and LaTeX that compiles."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ecgbench.reports import main_table
from ecgbench.reports import write as write_report
from ecgbench.results.study import Study, read
from tests.results.made_run import Data, Made, write

MODELS = ("one", "two", "three", "four", "a_b%_$\\input{x}")
MADE = Made(
    data={
        "alpha": Data(tasks={"a": 3, "b": 2}),
        "beta": Data(tasks={"c": 4}, title="B & C_1 100 %"),
        **{f"set{i}": Data(tasks={f"t{i}": 2}, records=40) for i in range(8)},
    },
    models=MODELS,
    leads="1,2,12,I,II",
    seeds=1,
    skill=lambda model, leads: 2.0 - 0.4 * MODELS.index(model),
    lacking=[("c", "two", "I")],
)
PACKAGES = ("booktabs.sty", "xcolor.sty", "longtable.sty", "graphicx.sty", "array.sty")


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Study:
    path = tmp_path_factory.mktemp("tables") / "run"
    write(path, MADE)
    return read(path)


def part(study: Study, name: str) -> Any:
    parts = [part for section in main_table.sections(study) for part in section.parts]
    return next(part for part in parts if getattr(part, "name", "") == name)


def test_table_1_holds_those_who_are_placed_and_their_places_among_all(many: Study) -> None:
    full, short = part(many, "main_table"), part(many, "table1")
    headings = [c.heading for c in short.columns if c.kind == "score"]
    placed = {
        c.heading
        for c in full.columns
        if c.kind == "score"
        and any(row["leads"] in ("1", "2") and row[c.name].rank for row in full.rows)
    }
    assert set(headings) == placed
    assert 3 <= len(placed) < 5
    assert {row["leads"] for row in short.rows} == {"1", "2", "12"}
    at = {c.heading: c.name for c in full.columns}
    for row in short.rows:
        same = next(r for r in full.rows if (r["task"], r["leads"]) == (row["task"], row["leads"]))
        for column in short.columns:
            if column.kind == "score":
                assert row[column.name] == same[at[column.heading]]
    assert "left out: " in short.notes[0]


def test_leads_i_and_ii_are_rows_of_the_main_table(many: Study) -> None:
    whole, own = (part(many, name) for name in ("main_table", "leads_i_ii"))
    assert {row["leads"] for row in own.rows} == {"I", "II"}
    assert len(own.rows) == 2 * 11
    for row in own.rows:
        same = next(r for r in whole.rows if (r["task"], r["leads"]) == (row["task"], row["leads"]))
        scores = [[getattr(r[str(at)], "value", None) for at in range(5)] for r in (row, same)]
        assert scores[0] == scores[1]
    assert "One 2" in own.notes[0]  # windows


def test_what_failed_is_not_blank(many: Study, tmp_path: Path) -> None:
    write_report(many, tmp_path, ["leads_i_ii"])
    text = (tmp_path / "leads_i_ii.md").read_text()
    row = next(line for line in text.splitlines() if line.startswith("| C | I |"))
    (number,) = re.findall(r"--<sup>(\d)</sup>", row)
    assert f"- <sup>{number}</sup> failed: it broke" in text


@pytest.mark.long
def test_latex_compiles_also_over_several_pages(many: Study, tmp_path: Path) -> None:
    if not shutil.which("pdflatex"):
        pytest.skip("no pdflatex (Debian: texlive-latex-base and texlive-latex-recommended)")
    for package in PACKAGES:
        if not subprocess.run(["kpsewhich", package], capture_output=True).stdout:
            pytest.skip(f"no {package} (Debian: texlive-latex-recommended)")
    names = ["main_table", "table1", "leads_i_ii", "across", "data", "models"]
    write_report(many, tmp_path, names)  # by their old names too
    texts = sorted(p.name for p in tmp_path.glob("*.tex"))
    assert {f"{name}.tex" for name in names} == set(texts)
    assert r"\begin{longtable}" in (tmp_path / "main_table.tex").read_text()
    packages = "".join(rf"\usepackage{{{name.removesuffix('.sty')}}}" for name in PACKAGES)
    body = "\n".join(rf"\input{{{name}}}\clearpage" for name in texts)
    (tmp_path / "all.tex").write_text(
        rf"\documentclass{{article}}{packages}\usepackage[margin=1cm]{{geometry}}"
        rf"\begin{{document}}{body}\end{{document}}"
    )
    command = ["pdflatex", "-no-shell-escape", "-halt-on-error", "-interaction=batchmode", "all"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120)
    log = (tmp_path / "all.log").read_text(errors="replace")
    assert done.returncode == 0, log[-1500:]
    assert (tmp_path / "all.pdf").stat().st_size > 20_000
    assert "Missing character" not in log
