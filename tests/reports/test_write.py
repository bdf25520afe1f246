"""Which reports are written: those that read what there is, those that are named, and those that
come from outside.
"""

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from ecgbench import reports
from ecgbench.errors import BadSetting, MissingData, UnknownName
from ecgbench.profile import stored as profile
from tests import by_hand as make

pytestmark = pytest.mark.rendered


MINE = '''"""Mine: the number of rows."""

import pandas as pd

from ecgbench.reports import Column, Figure, ReportCard, Section, Table

CARD = ReportCard(title="Mine", summary="the number of rows", reads="run", order=15)


def draw(sheet):
    sheet.subplots().plot([1, 2], [3, 4])


def rows(study):
    return pd.DataFrame({"x": [1, 2], "y": [3, 4]})


def sections(study, numbers):
    rows = [{"what": "rows & <more>", "count": len(study.main), "share": 1 / 3}, {"what": "none", "count": None, "share": None}]
    columns = (Column("what"), Column("count", "Count", "number"), Column("share", "Share", "number", "{:.2f}".format))
    parts = [Table(name="NAME", columns=columns, rows=rows), Figure(name="mine_curve", draw=draw, numbers=numbers)]
    return [Section(name="mine", title="My own section", parts=parts)]
'''  # noqa: E501


@pytest.fixture
def mine(tmp_path):
    """A report from outside, by path."""
    path = tmp_path / "mine.py"
    path.write_text(MINE.replace("NAME", "mine"))
    yield str(path)
    reports.ROOM.forget()


@pytest.mark.long
def test_a_report_of_another_package_is_left_alone_until_it_is_named(monkeypatch, tmp_path):
    """Its import may do anything, so a page without it must not begin it."""
    (tmp_path / "far_report.py").write_text("raise SystemError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    far = EntryPoint("far", "far_report", "ecgbench.reports")
    monkeypatch.setitem(vars(reports.ROOM), "_installed", {"far": far})
    assert reports.write(make.two_models(), tmp_path / "to")
    with pytest.raises(BadSetting, match=r"'far' .* imported"):
        reports.write(make.two_models(), tmp_path / "to", also=["far"])
    (tmp_path / "far_report.py").write_text(MINE.replace("NAME", "mine"))
    written = reports.write(make.two_models(), tmp_path / "to", also=["far"])
    assert "mine.csv" in {path.name for path in written}


@pytest.mark.long
def test_a_report_from_outside_appears_on_the_page_and_in_all_formats(mine, tmp_path):
    written = reports.write(make.two_models(), tmp_path / "to", also=[mine])
    names = {path.name for path in written}
    assert {f"mine.{kind}" for kind in ("csv", "md", "tex")} <= names
    assert {f"mine_curve.{kind}" for kind in ("csv", "png", "svg", "pdf")} <= names
    assert "main_table.csv" in names
    texts = {path.name: path.read_text() for path in written if path.suffix not in (".png", ".pdf")}
    page = texts["index.html"]
    places = [page.index(f"{title}</h2>") for title in ("× 100", "My own section")]
    assert places[0] < places[1] < page.index("Skill kept, %")
    assert "rows &amp; &lt;more&gt;" in page
    assert "rows & <more>,12,0.3333333333333333\n" in texts["mine.csv"]
    assert "| rows \\& \\<more\\> | 12 | 0.33 |" in texts["mine.md"]
    assert r"rows \& \textless{}more\textgreater{} & 12 & 0.33 \\" in texts["mine.tex"]
    assert "none & -- & --" in texts["mine.tex"]


def test_the_named_alone(mine, tmp_path):
    wanted = [mine, "MAIN-table", "main_table"]
    names = {p.name for p in reports.write(make.two_models(), tmp_path / "to", only=wanted)}
    assert {"mine.csv", "main_table.csv", "index.html"} <= names
    assert not {"labels.csv", "lead_curve.svg"} & names
    with pytest.raises(UnknownName, match="did you mean main_table"):
        reports.write(make.two_models(), tmp_path / "to", only=["main_tabel"])


@pytest.mark.parametrize("name", ["../x", ""])
def test_a_name_is_that_of_a_file_in_the_folder(name):
    with pytest.raises(BadSetting, match="its name"):
        reports.Table(name=name, columns=(), rows=())


def test_what_a_report_from_outside_raises_is_one_line(mine, tmp_path):
    Path(mine).write_text(MINE.replace("rows = [", "rows = 1 / 0\n    rows = ["))
    with pytest.raises(BadSetting, match=r"'mine' .* mine.py:\d+: ZeroDivisionError"):
        reports.write(make.two_models(), tmp_path / "to", also=[mine])


def test_a_report_of_another_kind_is_refused_and_every_folder_is_known(tmp_path):
    with pytest.raises(BadSetting, match="cost reads a profile"):
        reports.write(make.two_models(), tmp_path, only=["cost"])
    with pytest.raises(MissingData, match="no run in"):
        reports.read(tmp_path)
    profile.save(profile.Costs(), tmp_path)
    assert isinstance(reports.read(tmp_path), profile.Costs)


@pytest.mark.long
def test_nothing_is_left_behind_and_the_bytes_are_the_same_every_time(tmp_path):
    drawn = reports.write(make.two_models(), tmp_path)
    assert len(drawn) == len(set(drawn))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in drawn)
    before = {path: path.read_bytes() for path in drawn}
    reports.write(make.two_models(), tmp_path)
    assert {path: path.read_bytes() for path in drawn} == before


@pytest.mark.long
def test_what_a_report_no_longer_writes_goes_and_what_people_put_there_stays(mine, tmp_path):
    reports.write(make.two_models(), tmp_path, also=[mine])
    (tmp_path / "notes.csv").write_text("mine")
    reports.write(make.two_models(), tmp_path, only=["labels"])
    assert (tmp_path / "mine.csv").exists(), "a part of a report removes nothing"
    reports.write(make.two_models(), tmp_path, also=[mine])
    reports.write(make.two_models(), tmp_path)
    assert not (tmp_path / "mine.csv").exists()
    assert not (tmp_path / "mine_curve.png").exists()
    assert (tmp_path / "notes.csv").read_text() == "mine"
