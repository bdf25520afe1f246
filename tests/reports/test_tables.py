"""The tables of a paper: Table 1, leads I and II, and LaTeX that compiles."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ecgbench.reports import leads_i_ii, main_table, table1
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
PACKAGES = ("booktabs.sty", "xcolor.sty", "longtable.sty", "graphicx.sty")


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Study:
    path = tmp_path_factory.mktemp("tables") / "run"
    write(path, MADE)
    return read(path)


def part(section: Any, name: str) -> Any:
    return next(p for p in section.parts if getattr(p, "name", "") == name)


def test_table_1_holds_those_who_are_placed_and_their_places_among_all(many: Study) -> None:
    (whole,) = main_table.sections(many)
    (few,) = table1.sections(many)
    full, short = part(whole, "main_table"), part(few, "table1")
    headings = [c.heading for c in short.columns if c.kind == "score"]
    placed = {
        c.heading
        for c in full.columns
        if c.kind == "score"
        and any(
            row["leads"] in ("1", "2") and c.name in row and row[c.name].rank for row in full.rows
        )
    }
    assert set(headings) == placed
    assert 3 <= len(placed) < 5
    assert {row["leads"] for row in short.rows} == {"1", "2", "12"}
    at = {c.heading: c.name for c in full.columns}
    for row in short.rows:
        same = next(r for r in full.rows if (r["task"], r["leads"]) == (row["task"], row["leads"]))
        for column in short.columns:
            if column.kind == "score":
                score = replace(row[column.name], footnote=None)
                assert score == replace(same[at[column.heading]], footnote=None)
    assert "left out: " in short.notes[0]


def test_leads_i_and_ii_and_what_has_no_mean(many: Study) -> None:
    (section,) = leads_i_ii.sections(many)
    rows = {(r["leads"], r["model"]): r for r in part(section, "leads_i_ii_means").numbers.rows}
    value = many.main.set_index(["leads", "task", "model"])["value"].unstack()
    lead_two = value.loc["II"]
    means = [lead_two.loc[["a", "b"]].mean(), *(lead_two.loc[t] for t in lead_two.index[2:])]
    expected = sum(m["one"] for m in means) / len(means)
    assert rows["II", "one"]["value"] == pytest.approx(expected)
    assert rows["II", "one"]["value_by_task"] == pytest.approx(lead_two["one"].mean())
    assert rows["II", "one"]["windows"] == 2
    first = (lead_two.rank(axis=1, ascending=False)["one"] == 1).sum()
    assert rows["II", "one"]["first"] == first
    random = value.loc["1"]
    expected = [random.loc[["a", "b"], "one"].mean(), *random["one"].iloc[2:]]
    assert rows["II", "one"]["random"] == pytest.approx(sum(expected) / len(expected))
    assert rows["I", "two"]["value"] is None
    notes = part(section, "leads_i_ii_means").notes
    assert notes == ["Two, lead I: no score in c (two at I: failed)"]
    shown = part(section, "leads_i_ii").rows
    assert {row["leads"] for row in shown} == {"I", "II"}
    assert len(shown) == 2 * 11


def test_what_failed_is_not_blank(many: Study, tmp_path: Path) -> None:
    write_report(many, tmp_path, ["main_table", "leads_i_ii"])
    text = (tmp_path / "leads_i_ii.md").read_text()
    row = next(line for line in text.splitlines() if line.startswith("| C | I |"))
    (number,) = re.findall(r"--<sup>(\d)</sup>", row)
    assert f"- <sup>{number}</sup> failed: it broke" in text


def test_latex_compiles_also_over_several_pages(many: Study, tmp_path: Path) -> None:
    if not shutil.which("pdflatex"):
        pytest.skip("no pdflatex (Debian: texlive-latex-base and texlive-latex-recommended)")
    for package in PACKAGES:
        if not subprocess.run(["kpsewhich", package], capture_output=True).stdout:
            pytest.skip(f"no {package} (Debian: texlive-latex-recommended)")
    names = ["main_table", "table1", "leads_i_ii", "across", "ranks", "data", "models"]
    write_report(many, tmp_path, names)
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


def test_counts_stand_beside_every_number(many: Study) -> None:
    row = many.main.set_index(["task", "model", "leads"]).loc[("a", "one", "12")]
    labels = many.labels[(many.labels["task"] == "a") & (many.labels["model"] == "one")]
    assert row["fewest_positives"] == labels["positives"].min()
    empty = replace(many, main=many.main[many.main["status"] != "ok"])
    assert empty.main["fewest_positives"].isna().all()
