"""The main table: the CSV is the study, the other forms are that CSV spelled; ranks, signs, escapes and gaps in between."""

import csv
import io
import math
import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from ecgbench.errors import UnknownName
from ecgbench.reports import _facts, _form, main_table
from ecgbench.reports._write import order, write
from ecgbench.results.study import MAIN_COLUMNS

make = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("make_study.py"))))


def texts(study):
    facts = main_table.facts(study)
    return main_table.csv_text(facts), main_table.markdown_text(facts), main_table.latex_text(facts)


def test_csv_is_exactly_the_study():
    study = make.crowded()
    text = texts(study)[0]
    read = list(csv.DictReader(io.StringIO(text)))
    assert text.splitlines()[0] == ",".join(MAIN_COLUMNS)
    assert len(read) == len(study.main)
    for row, (_, true) in zip(read, study.main.iterrows()):
        for name in ("macro_auroc", "std", "low", "high", "p", "p_holm"):
            assert row[name] == ("" if math.isnan(true[name]) else repr(float(true[name])))  # reads back bit for bit
        assert row["n_records"] == ("" if math.isnan(true["n_records"]) else str(int(true["n_records"])))
        assert (row["best"], row["leads"], row["status"]) == (str(bool(true["best"])).lower(), true["leads"], true["status"])
    assert "\r" not in text
    assert text == texts(make.crowded())[0]


def test_every_number_of_the_other_forms_is_one_of_the_csv():
    study = make.crowded()
    _, md, tex = texts(study)
    known = {f"{100 * v:.1f}" for name in ("macro_auroc", "std", "low", "high") for v in study.main[name].dropna()}
    cells = [cell for line in md.splitlines() if line.startswith("| ") and "Task" not in line for cell in line.split("|")[3:-1]]
    rows = [cell for line in tex.splitlines() if line.endswith(r"\\") and re.search(r"\d\.\d|--", line) for cell in line.split("&")[2:]]
    found = re.findall(r"\d+\.\d+", " ".join(cells) + " ".join(row for row in rows if "M)" not in row))
    assert len(found) > 60
    assert set(found) <= known


def test_markdown_cells():
    _, md, _ = texts(make.two_models())
    rows = {line.split("|")[2].strip(): [c.strip() for c in line.split("|")[3:-1]] for line in md.splitlines()[4:10]}
    assert rows["1"] == ["**72.3 (0.6)**", "<ins>57.3 (0.5)</ins>"]
    assert rows["12"] == [r"<ins>92.3</ins>\* [90.3, 94.3]", "**92.6** [90.6, 94.6]"]
    assert md.splitlines()[2] == "| Task | Leads | LAEF (7.1M) | ST-MEM (88.5M) |"
    assert "†" not in md
    assert "‡" not in md


def test_ranks_are_of_unrounded_values_and_ties_share_them():
    table = _facts.grid(make.crowded())
    at_12 = table["tasks"][0]["lines"][1]["cells"]
    assert [cell["rank"] for cell in at_12] == [2, 1, 1, 3]  # 0.95002 is below 0.95004, though both print 95.0
    assert [cell["asterisk"] for cell in at_12] == [True, False, False, False]  # a tie with the best is best: no asterisk
    at_1 = table["tasks"][0]["lines"][0]["cells"]
    assert [cell["rank"] for cell in at_1] == [1, 2, 2, None]


def test_latex_and_markdown_of_the_crowded_study():
    _, md, tex = texts(make.crowded())
    assert r"\due{95.0}* & \uno{95.0} & \uno{95.0} & \tre{51.0}" in tex
    assert r"\uno{74.4 (1.4)} & \due{62.0 (0.4)} & \due{62.0 (0.4)} & --\textsuperscript{1}" in tex
    assert r"PTB-XL Diag$^\dagger$" in tex
    assert "PTB-XL Diag†" in md
    assert "ST-MEM zero & ST-MEM native" in tex
    assert r"A\&B\_\textless{}script\textgreater{}alert(1)\textless{}/script\textgreater{} \$x\$ \textbar{} 50\%$^\ddagger$" in tex
    assert r"\<script\>" in md
    assert r"\| 50%‡" in md
    assert "<sup>2</sup> failed: LeakError: NaN reached the output" in md
    assert r"skipped: none of I \& II \| III is \<read\>" in md
    assert r"-{}-limit 60" in tex
    for note in (*make.GRAVE_NOTES, *make.NOTES):
        assert _form.latex(note) in tex
        assert _form.markdown(note) in md


@pytest.mark.parametrize("study", [make.crowded(), make.two_models()])
def test_latex_is_well_formed(study):
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
    columns = len(re.search(r"\\begin\{tabular\}\{(\w+)\}", tex)[1])
    rows = [line for line in body.splitlines() if line.endswith(r"\\")]
    assert rows
    assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {columns - 1}
    assert all(f"\\providecommand{{\\{name}}}" in tex for name in ("uno", "due", "tre"))


def test_one_model_is_not_ranked():
    csv_text, md, tex = texts(make.build([make.row("ptbxl_super", "laef", "12", 0.9, best=True)]))
    assert "90.0 [88.0, 92.0]" in md
    assert "**" not in md
    assert r"\uno{90" not in tex
    assert "lead draws)" not in md.splitlines()[0]  # one draw: no (std) to explain
    assert ",true,false,ok" in csv_text


def test_nothing_finished_still_reports(tmp_path):
    study = make.build([make.row("ptbxl_super", "laef", "1", status="failed")])
    drawn = write(study, tmp_path)
    assert "failed: it broke" in (tmp_path / "main_table.md").read_text()
    assert {"index.html", "main_table.csv", "main_table.md", "main_table.tex", "lead_curve.png"} <= {path.name for path in drawn}


def test_write_draws_the_page_last_once_and_leaves_nothing_behind(tmp_path):
    assert order()[-1] == "page"
    assert order(["page", "MAIN-table", "main_table"]) == ["main_table", "page"]
    with pytest.raises(UnknownName, match="did you mean main_table"):
        order(["main_tabel"])
    drawn = write(make.two_models(), tmp_path)
    assert len(drawn) == len(set(drawn))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in drawn)
    before = {path: path.read_bytes() for path in drawn}
    write(make.two_models(), tmp_path)
    assert {path: path.read_bytes() for path in drawn} == before
    assert write(make.two_models(), tmp_path / "new" / "folder", only=["main_table"])[0].parent.name == "folder"


def test_survival_is_of_skill_above_chance_and_undefined_where_there_is_none():
    kept = {row["label"]: row for row in _facts.survival(_facts.grid(make.two_models()))}
    shares = {k["leads"]: k["share"] for k in kept["ST-MEM"]["kept"]}
    assert shares["1"] == pytest.approx((0.573 - 0.5) / (0.926 - 0.5))
    none = _facts.survival(_facts.grid(make.crowded()))[3]
    assert none["label"].startswith("A&B")
    assert none["kept"] == [{"leads": "1", "share": None}]


def test_numbers_may_come_as_pandas_likes_them():
    study = make.two_models()
    wide = study.main.astype({"n_records": "Int64", "best": "boolean", "leads": "string", "model": "category"})
    wide.loc[0, "best"] = pd.NA
    rows = _facts.main_rows(type(study)(**{**study.__dict__, "main": wide}))
    assert rows[0]["best"] is False
    assert rows[0]["n_records"] == 198
    assert rows[0]["std"] == 0.006


def test_reports_need_no_torch():
    code = "import sys; sys.modules['torch'] = None; sys.path.insert(0, sys.argv[1]); import make_study\n"
    code += "from pathlib import Path; from ecgbench.reports._write import write; assert 'matplotlib' not in sys.modules\n"
    code += "import tempfile; write(make_study.two_models(), Path(tempfile.mkdtemp()))"
    subprocess.run([sys.executable, "-c", code, str(Path(__file__).parent)], check=True)
