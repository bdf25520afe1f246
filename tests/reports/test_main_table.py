"""The main table: the CSV is the study, the other forms are that CSV spelled; ranks, signs, escapes
and gaps in between.
"""

import csv
import math
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from ecgbench import metrics, reports
from ecgbench.results.study import Study

make = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("make_study.py"))))


@pytest.fixture
def texts(tmp_path: Path) -> "Iterator[object]":
    """CSV, Markdown and LaTeX of a study."""

    def write(study: Study) -> list[str]:
        reports.write(study, tmp_path, only=["main_table"])
        return [(tmp_path / f"main_table.{kind}").read_text() for kind in ("csv", "md", "tex")]

    return write


def section(name: str, study: Study) -> reports.Section:
    """A section of the reports of the main table and the lead curve."""
    found = [s for r in ("main_table", "lead_curve") for s in reports.get(r).sections(study)]
    return next(s for s in found if s.name == name)


def table(study: Study) -> reports.Table:
    return section("main_table", study).parts[0]


def scored(row: reports.Row) -> list[reports.Score]:
    return [value for value in row.values() if isinstance(value, reports.Score)]


def test_csv_is_exactly_the_study(texts):
    study = make.crowded()
    text = texts(study)[0]
    read = list(csv.DictReader(text.splitlines()))
    assert text.splitlines()[0] == ",".join(study.main.columns)
    assert len(read) == len(study.main)
    for row, (_, true) in zip(read, study.main.iterrows()):
        for name in ("value", "std", "low", "high", "p", "p_holm"):
            # reads back bit for bit
            assert row[name] == ("" if math.isnan(true[name]) else repr(float(true[name])))
        assert row["n_records"] == (
            "" if math.isnan(true["n_records"]) else str(int(true["n_records"]))
        )
        assert (row["best"], row["leads"], row["status"]) == (
            str(bool(true["best"])).lower(),
            true["leads"],
            true["status"],
        )
    assert "\r" not in text
    assert text == texts(make.crowded())[0]


def test_every_number_of_the_other_forms_is_one_of_the_csv(texts):
    study = make.crowded()
    _, md, tex = texts(study)
    known = {
        f"{100 * v:.1f}"
        for name in ("value", "std", "low", "high")
        for v in study.main[name].dropna()
    }
    cells = [
        cell
        for line in md.splitlines()
        if line.startswith("| ") and "Task" not in line
        for cell in line.split("|")[3:-1]
    ]
    rows = [
        cell
        for line in tex.splitlines()
        if line.endswith(r"\\") and re.search(r"\d\.\d|--", line)
        for cell in line.split("&")[2:]
    ]
    found = re.findall(
        r"\d+\.\d+", " ".join(cells) + " ".join(row for row in rows if "M)" not in row)
    )
    assert len(found) > 60
    assert set(found) <= known


def test_markdown_cells(texts):
    _, md, _ = texts(make.two_models())
    rows = {
        line.split("|")[2].strip(): [c.strip() for c in line.split("|")[3:-1]]
        for line in md.splitlines()[4:10]
    }
    assert rows["1"] == ["**72.3**", "0.6", "<ins>57.3</ins>", "0.5"]
    assert rows["12"] == [r"<ins>92.3</ins>\*", "", "**92.6**", ""]
    heads = "| Task | Leads | LAEF (7.1M) | Std (draws) | ST-MEM (88.5M) | Std (draws) |"
    assert md.splitlines()[2] == heads
    assert "†" not in md
    assert "‡" not in md


def test_ranks_are_of_unrounded_values_and_ties_share_them():
    at_1, at_12 = (scored(row) for row in table(make.crowded()).rows[:2])
    # 0.95002 is below 0.95004, though both print 95.0
    assert [score.rank for score in at_12] == [2, 1, 1, None]
    # whatever is compared with the best may have an asterisk, a tie with it as well
    assert [score.star for score in at_12] == [True, False, True, False]
    assert [score.rank for score in at_1] == [1, 2, 2, None]


def test_ranks_follow_the_direction_of_the_metric():
    study = make.crowded()
    lower = replace(study, metrics={"auroc": replace(study.metrics["auroc"], direction="lower")})
    at_12 = scored(table(lower).rows[1])
    assert [score.rank for score in at_12] == [1, 2, 2, None]


def test_latex_and_markdown_of_the_crowded_study(texts):
    _, md, tex = texts(make.crowded())
    assert r"\due{95.0}* &  & \uno{95.0} &  & \uno{95.0}* &  & 51.0 \\" in tex
    at_1 = r"\uno{74.4} & 1.4 & \due{62.0} & 0.4 & \due{62.0} & 0.4 & --\textsuperscript{1}"
    assert at_1 in tex
    assert r"PTB-XL Diag$^\dagger$" in tex
    assert "PTB-XL Diag†" in md
    assert "ST-MEM zero & ST-MEM native" in tex
    assert (
        r"A\&B\_\textless{}script\textgreater{}alert(1)\textless{}/script\textgreater{} \$x\$ "
        r"\textbar{} 50\%$^\ddagger$"
    ) in tex
    assert r"\<script\>" in md
    assert r"\| 50%‡" in md
    assert "<sup>2</sup> failed: LeakError: NaN reached the output" in md
    assert r"skipped: none of I \& II \| III is \<read\>" in md
    assert r"-{}-limit 60" in tex
    assert r"A \& B: 3 labels have \textless{} 5 test positives (\_x\_, 50 \%)." in tex
    assert r"A \& B: 3 labels have \< 5 test positives (\_x\_, 50 %)." in md
    # tables travel without the page's banners
    for said in ("SYNTHETIC DATA", "RANDOM WEIGHTS", "LIMITED", "INCOMPLETE"):
        assert f"{said}: " in tex
        assert f"{said}: " in md


@pytest.mark.parametrize("study", [make.crowded(), make.two_models()])
def test_latex_is_well_formed(study, texts):
    tex = texts(study)[2]
    body = re.sub(r"(?<!\\)%.*", "", tex)
    opened = re.findall(r"\\(begin|end)\{(\w+)\}", body)
    stack: list[str] = []
    for what, name in opened:
        if what == "begin":
            stack.append(name)
        else:
            assert stack.pop() == name
    assert not stack
    bare = re.sub(r"\\[{}]", "", body)
    assert bare.count("{") == bare.count("}")
    assert bare.replace(r"\$", "").count("$") % 2 == 0
    for one in body.split(r"\begin{tabular}")[1:]:
        columns = len(re.match(r"\{(\w+)\}", one)[1])
        rows = [line for line in one.splitlines() if line.endswith(r"\\")]
        assert rows
        assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {columns - 1}
    assert all(f"\\providecommand{{\\{name}}}" in tex for name in ("uno", "due", "tre"))


def test_nothing_finished_still_reports(tmp_path):
    study = make.build([make.row("ptbxl_super", "laef", "1", status="failed")])
    drawn = reports.write(study, tmp_path)
    assert "failed: it broke" in (tmp_path / "main_table.md").read_text()
    assert {
        "index.html",
        "main_table.csv",
        "main_table.md",
        "main_table.tex",
        "lead_curve.png",
    } <= {path.name for path in drawn}


def test_survival_is_of_skill_above_chance_and_undefined_where_there_is_none():
    kept = {r["model"].text: r for r in section("survival", make.two_models()).parts[0].rows}
    assert kept["ST-MEM"]["1"] == pytest.approx((0.573 - 0.5) / (0.926 - 0.5))
    none = section("survival", make.crowded()).parts[0].rows[3]
    assert none["model"].text.startswith("A&B")
    assert none["1"] is None


OTHER = """from ecgbench.core.cards import MetricCard
CARD = MetricCard(title="Other", direction="higher", range=(0, 1), chance=None, summary="a test's", source="none")
def value(target, score): ...
def influence(target, score): ...
"""  # noqa: E501


def test_a_second_metric_has_its_own_table_and_rows(texts, tmp_path):
    (tmp_path / "other.py").write_text(OTHER)
    name = metrics.resolve(str(tmp_path / "other.py"))
    study = make.two_models()
    other = study.main.assign(metric=name, value=study.main["value"] / 2)
    cards = {**study.metrics, name: metrics.card(name)}
    both = replace(study, main=pd.concat([study.main, other], ignore_index=True), metrics=cards)
    csv_text, md, tex = texts(both)
    metrics.ROOM.forget()
    assert len(csv_text.splitlines()) == 1 + 2 * len(study.main)
    for text in (md, tex):
        assert "Macro AUROC" in text
        assert "Macro Other" in text
        assert "36.1" in text


@pytest.mark.long
def test_reports_need_no_torch():
    code = (
        "import sys; sys.modules['torch'] = None; sys.path.insert(0, sys.argv[1]); import "
        "make_study\n"
    )
    code += (
        "from pathlib import Path; from ecgbench.reports import write; assert 'matplotlib' "
        "not in sys.modules\n"
    )
    code += "import tempfile; write(make_study.two_models(), Path(tempfile.mkdtemp()))"
    subprocess.run([sys.executable, "-c", code, str(Path(__file__).parent)], check=True)
