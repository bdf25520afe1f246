"""What comes from outside stays where it belongs: names in paths and pages, plug-ins that cannot be
imported.
"""

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecgbench.core.cards import Task
from ecgbench.core.cells import Cell, Fit
from ecgbench.core.registry import folder_name
from ecgbench.ecg.draw import Count
from ecgbench.errors import BadSetting
from ecgbench.study.store import Store

pytestmark = pytest.mark.rendered

TINY = Path(__file__).parents[1] / "tiny.py"
CODE = "import sys; sys.argv[0] = 'ecgbench'; from ecgbench.cli import main; main()"
NAMES = ("<script>alert(1)</script>", "../../x", "..", ".", "/etc/passwd", "\\input{x}", "")
NAMES += ("=cmd()", "a\nb", "\u202ex", "long " * 100, "con:x")
PLUGIN = (
    "from pathlib import Path\nPath({canary!r}).touch()\nraise RuntimeError('boom\\nfrom a "
    "plug-in')\n"
)
DATASET = """
'''The demo under names that mean harm.'''
from dataclasses import replace
from ecgbench.core.cards import Task
from ecgbench.datasets import demo
EVIL = ("<script>alert(1)</script>", "=cmd()", "../../x", "\\\\input{x}", "+1", "a|b", "$x$", "@SUM(1)")
CARD = replace(demo.CARD, title="=<b>evil</b>", tasks=(Task(name="../../x", title="| $\\\\input{x}$ <i>", labels=EVIL),))
def index(root):
    table = demo.index(root)
    old = dict(zip(demo.CARD.tasks[0].columns, CARD.tasks[0].columns))
    table = table.rename(columns=old)
    table["record"], table["patient"] = "../" + table["record"], "=" + table["patient"]
    return table
def read(root, row):
    hot = {f"demo:{label}": row[f"../../x:{evil}"] for label, evil in zip(demo.LABELS, EVIL)}
    plain = {"record": row["record"].removeprefix("../"), "patient": row["patient"].removeprefix("="), **hot}
    return replace(demo.read(root, plain), record=row["record"], patient=row["patient"])
"""  # noqa: E501


def ecgbench(*words: object, cwd: Path, site: Path) -> subprocess.CompletedProcess:
    """A command in a process that finds the packages of `site`."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("ECGBENCH_")}
    path = os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH"))))
    places = {"ECGBENCH_PREPARED": str(cwd / "prepared"), "XDG_CACHE_HOME": str(cwd / "prepared")}
    return subprocess.run(
        [sys.executable, "-c", CODE, *map(str, words)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        env={**kept, **places, "OMP_NUM_THREADS": "1", "PYTHONPATH": path},
    )


def plugin(site: Path, group: str, name: str, text: str) -> None:
    """Install a package `name` that announces itself as a plug-in of `group`."""
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[ecgbench.{group}]\n{name} = {name}_module\n")
    (site / f"{name}_module.py").write_text(text)


@settings(max_examples=60, deadline=None)
@given(st.text())
def test_a_name_is_one_folder_whatever_it_is(name):
    made = folder_name(name)
    assert Path(made).name == made
    assert made.isascii()
    assert 0 < len(made) <= 120
    assert not made.startswith(".")


def test_cells_and_fits_of_hostile_names_lie_inside_the_run_and_apart(tmp_path):
    places = set()
    for name in NAMES:
        fit = Fit(task=name, model=name, contract="paper", weights="random", seed=0)
        cell = Cell(fit=fit, task=name, setting=Count(1, 0), policy=name)
        for folder, depth in (
            (Store(tmp_path).cell_folder(cell, name), 5),
            (Store(tmp_path).fit_folder(fit, name), 4),
        ):
            inside = Path(os.path.normpath(folder)).relative_to(tmp_path)
            assert len(inside.parts) == depth
            places.add(inside)
    assert len(places) == 2 * len(NAMES)
    assert Store(tmp_path).cell_folder(cell, "ab12").parts[-2:] == ("1@seed0", "ab12")


@pytest.mark.parametrize("name", ["", "a\nb", "x\x1b[2J", "\u202ex", "\udcff"])
def test_names_that_cannot_be_printed_are_refused_where_they_are_declared(name):
    with pytest.raises(BadSetting, match="no name for a task or label"):
        Task(name=name, title="x", labels=("a",))
    with pytest.raises(BadSetting, match="no name for a task or label"):
        Task(name="t", title="x", labels=("a", name))


CONTROLS = """
from dataclasses import replace
from ecgbench.datasets import demo
from ecgbench.errors import BadRecord
CARD = demo.CARD
def index(root):
    table = demo.index(root).groupby("split").head(4).reset_index(drop=True)
    table.loc[5, {column!r}] += {text!r}
    return table
def read(root, row):
    if row["record"] == "D001":
        raise BadRecord("D001: its header says a\\x1b[2Jb\\x9b31m\\u202ec")
    return demo.read(root, row)
"""


@pytest.mark.parametrize(("column", "text"), [("record", "\x1b[2J"), ("patient", "\n")])
def test_an_id_with_a_control_character_is_refused_in_one_line(column, text, tmp_path, here):
    (tmp_path / "mine.py").write_text(CONTROLS.format(column=column, text=text))
    done = here("data", "prepare", tmp_path / "mine.py", cwd=tmp_path)
    assert done.returncode == 2
    assert f"the {column} '" in done.stderr
    assert "holds a control character; correct the table" in done.stderr
    assert (done.stdout + done.stderr).replace("\n", "").isprintable()
    assert done.stderr.count("\n") == 1


def test_control_characters_of_a_file_never_reach_the_terminal(tmp_path, here):
    (tmp_path / "mine.py").write_text(CONTROLS.format(column="record", text="x"))
    mine = tmp_path / "mine.py"
    shown = "its header says aU+001B[2JbU+009B31mU+202Ec"
    for words in (("prepare", mine), ("facts", mine), ("facts", mine, "--json")):
        done = here("data", *words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert shown in done.stdout
        assert (done.stdout + done.stderr).replace("\n", "").isprintable()


def test_a_hostile_study_from_plug_in_to_report(tmp_path):
    """A dataset and a model under such names run and are reported; a broken model plug-in beside
    them is never imported.
    """
    canary, site = tmp_path / "CANARY", tmp_path / "site"
    plugin(site, "models", "evilnet", PLUGIN.format(canary=str(canary)))
    plugin(site, "datasets", "evildata", DATASET)
    model = tmp_path / "=cmd()<script>alert(1)<b>$_.py"
    model.write_text(
        TINY.read_text().replace('"Tiny"', '"=T|{}<script>alert(1)</script>$^\\\\input{x}"')
    )
    place = tmp_path / "a" / "b" / "c"
    place.mkdir(parents=True)
    words = "--tasks ../../x --leads I,1 --seeds 1 --protocol linear --set training.epochs=2"
    words = f"{words} --weights random --limit 60 --out r".split()
    for typed in (["run", "--models", model, *words], ["report", "r"], ["list", "tasks"]):
        done = ecgbench(*typed, cwd=place, site=site)
        assert done.returncode == 0, done.stderr
    assert not canary.exists()
    assert {p.name for p in tmp_path.iterdir()} == {"a", "site", model.name}
    assert {p.name for p in (tmp_path / "a").iterdir()} == {"b"}
    assert {p.name for p in (tmp_path / "a/b").iterdir()} == {"c"}
    assert {p.name for p in place.iterdir()} == {"r", "prepared"}
    page = (place / "r/report/index.html").read_text()
    # ours alone: the data of the page, and the one program that its policy names
    assert set(re.findall(r"<script[^>]*>", page)) <= {
        "<script>",
        *re.findall(r'<script type="text/plain"[^>]*>', page),
    }
    assert page.count("<script>") == 1
    assert "alert(1)</script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "\\input" not in (place / "r/report/main_table.tex").read_text()
    rows = list(csv.DictReader((place / "r/report/main_table.csv").open()))
    assert [(r["task"], r["model"], r["status"]) for r in rows] == [
        ("../../x", "'" + model.stem, "ok")
    ] * 2
    labels = {r["label"] for r in csv.DictReader((place / "r/report/labels.csv").open())}
    assert {"'=cmd()", "'+1", "'@SUM(1)", "<script>alert(1)</script>", "a|b"} <= labels


def test_lists_survive_plug_ins_that_cannot_be_imported(tmp_path):
    canary, site = tmp_path / "CANARY", tmp_path / "site"
    for group in ("models", "adapters", "datasets", "reports"):
        plugin(site, group, f"evil{group}", PLUGIN.format(canary=str(canary)))
    plugin(site, "models", "cardless", "CARD = build = 'none'\n")
    own_names = ("laef", "ptbxl_super", "zero", "main_table")
    for room, own in zip(("models", "tasks", "adapters", "reports"), own_names):
        done = ecgbench("list", room, cwd=tmp_path, site=site)
        assert done.returncode == 0, done.stderr
        assert own in done.stdout
        assert len(done.stderr.splitlines()) == (2 if room == "models" else 1)
        assert "RuntimeError: boom" in done.stderr
