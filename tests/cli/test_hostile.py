"""What comes from outside stays where it belongs: names in paths and pages, plug-ins that cannot be
imported.
"""

import os
from pathlib import Path

import pytest

from ecgbench.cards.cell import Cell, Fit
from ecgbench.core.registry import folder_name
from ecgbench.ecg.draw import Count
from ecgbench.study.store import Store

NAMES = ("<script>alert(1)</script>", "../../x", "..", ".", "/etc/passwd", "\\input{x}", "")
NAMES += ("=cmd()", "a\nb", "\u202ex", "long " * 100, "con:x")


def plugin(site: Path, group: str, name: str, text: str) -> None:
    """Install a package `name` that announces itself as a plug-in of `group`."""
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[ecgbench.{group}]\n{name} = {name}_module\n")
    (site / f"{name}_module.py").write_text(text)


@pytest.mark.parametrize("name", [*NAMES, "...", "\ud800", "é" * 200, "a/../b", " ", "\0"])
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
            (Store(tmp_path).cell_folder(cell), 5),
            (Store(tmp_path).fit_folder(fit, name), 4),
        ):
            inside = Path(os.path.normpath(folder)).relative_to(tmp_path)
            assert len(inside.parts) == depth
            places.add(inside)
    assert len(places) == 2 * len(NAMES)


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


def test_control_characters_of_a_file_never_reach_the_terminal(tmp_path, here):
    (tmp_path / "mine.py").write_text(CONTROLS.format(column="record", text="x"))
    mine = tmp_path / "mine.py"
    shown = "its header says aU+001B[2JbU+009B31mU+202Ec"
    for words in (("prepare", mine), ("facts", mine), ("facts", mine, "--json")):
        done = here("data", *words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert shown in done.stdout
        assert (done.stdout + done.stderr).replace("\n", "").isprintable()


@pytest.mark.long
def test_lists_survive_plug_ins_that_cannot_be_imported(installed, tmp_path):
    site = tmp_path / "site"
    for group in ("models", "policies", "datasets", "reports"):
        plugin(site, group, f"evil{group}", "raise RuntimeError('boom')\n")
    plugin(site, "models", "cardless", "CARD = build = 'none'\n")
    rooms = ("models", "tasks", "policies", "reports")
    printed = installed(site, tmp_path, *(("list", room) for room in rooms))
    for own in ("laef", "ptbxl_super", "zero", "main_table"):
        assert f"\n{own} " in printed
    assert "evil" not in printed
