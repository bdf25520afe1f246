"""LaTeX that compiles, of many tasks and names that mean harm."""

import shutil
import subprocess
from pathlib import Path

import pytest

from ecgbench.reports import write as write_report
from tests.invented import Data, Made, make

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


@pytest.mark.long
def test_latex_compiles_also_over_several_pages(tmp_path: Path) -> None:
    if not shutil.which("pdflatex"):
        pytest.skip("no pdflatex (Debian: texlive-latex-base and texlive-latex-recommended)")
    for package in PACKAGES:
        if not subprocess.run(["kpsewhich", package], capture_output=True).stdout:
            pytest.skip(f"no {package} (Debian: texlive-latex-recommended)")
    names = ["main_table", "across", "data", "models", "non_inferiority"]
    write_report(make(tmp_path / "run", MADE), tmp_path, names)
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
