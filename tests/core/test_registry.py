"""Every room: loose names, plug-ins by path and by entry point, and what is said of those that
cannot be had.
"""

import importlib.metadata
import random
import sys
from importlib.metadata import EntryPoint
from itertools import count
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest
import torch

from ecgbench.core import registry
from ecgbench.core.registry import Room, plain
from ecgbench.errors import BadSetting, EcgbenchError, UnknownName

_number = count()


class Contract(Protocol):
    CARD: object

    def build(self) -> object: ...


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a new package on the path: plug-ins st_mem and laef, and _blocks, which is
    none.
    """
    folder = tmp_path / f"house{next(_number)}"
    folder.mkdir()
    for name in ("__init__", "_blocks", "st_mem", "laef"):
        (folder / f"{name}.py").write_text(
            "CARD = __name__\n\ndef build() -> str:\n    return CARD\n"
        )
    monkeypatch.syspath_prepend(tmp_path)
    return folder


def room(house: Path) -> Room:
    return Room(house.name, "model", Contract)


def installed(monkeypatch: pytest.MonkeyPatch, **points: str) -> None:
    """Entry points, name to value, that some installed package announces for every group asked
    for.
    """

    def announced(group: str) -> list[EntryPoint]:
        return [EntryPoint(name, value, group) for name, value in points.items()]

    monkeypatch.setattr("ecgbench.core.registry.entry_points", announced)
    assert importlib.metadata.entry_points is not announced


def written(folder: Path, name: str, text: str = "CARD = 1\nbuild = dict\n") -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("spelling", ["st_mem", "stmem", "ST-MEM", "St Mem", "s-t_mem"])
def test_names_are_loose(house: Path, spelling: str) -> None:
    assert room(house).resolve(spelling) == "st_mem"
    assert room(house).get(spelling).build() == f"{house.name}.st_mem"
    assert plain(spelling) == "stmem"


def test_a_file_of_ones_own_that_a_built_in_name_hides_is_named_once(
    house: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (house.parent / "adapters").mkdir()
    written(house.parent / "adapters", "stmem.py")
    monkeypatch.chdir(house.parent)
    registry._name_unused.cache_clear()
    for spelling in ("ST-MEM", "st_mem"):
        assert room(house).get(spelling).build() == f"{house.name}.st_mem"
    assert capsys.readouterr().err == (
        "ecgbench: adapters/stmem.py is not used, as st_mem is the model that comes with "
        "ecgbench; rename the file to use it\n"
    )


def test_a_file_of_ones_own_is_suggested_to_who_nearly_spells_it(
    house: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (house.parent / "adapters").mkdir()
    written(house.parent / "adapters", "mynet.py")
    monkeypatch.chdir(house.parent)
    with pytest.raises(UnknownName, match="did you mean mynet"):
        room(house).resolve("mynett")
    with pytest.raises(UnknownName, match=r"Known: laef, st_mem\. "):
        room(house).resolve("zzzz")


ENDING = {
    "the process": "import os\nos._exit(0)\n",
    "by a signal": "import os\nos.abort()\n",
    "as no Exception": "class Odd(BaseException): ...\nraise Odd\n",
}


@pytest.mark.parametrize("text", ENDING.values(), ids=ENDING)
def test_a_file_that_ends_the_process_is_refused(text: str, house: Path, tmp_path: Path) -> None:
    here = room(house)
    with pytest.raises(BadSetting, match="cannot be imported"):
        here.get(str(written(tmp_path, "deadly.py", text)))
    assert here.get(str(written(tmp_path, "sound.py"))).CARD == 1


def test_an_unknown_name_suggests_the_nearest_in_one_line(house: Path) -> None:
    with pytest.raises(UnknownName) as caught:
        room(house).get("leaf")
    told = str(caught.value)
    assert told.startswith("unknown model 'leaf'; did you mean laef? Known: laef, st_mem. ")
    assert "\n" not in told
    assert ".." not in told
    for name in ("", "_blocks", "__init__", "zzzz"):
        with pytest.raises(UnknownName, match="Known: laef, st_mem"):
            room(house).resolve(name)


def test_a_file_given_by_path_is_in_the_room(
    house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, found = written(tmp_path, "My-Net.py"), room(house)
    module = found.get(str(path))
    assert found.names() == ["laef", "st_mem", "My-Net"]
    assert found.get("mynet") is module
    monkeypatch.chdir(tmp_path)
    assert found.get("./My-Net.py") is found.get("My-Net.py") is module
    assert room(house).names() == ["laef", "st_mem"]


def test_a_file_may_hold_dataclasses_and_live_in_the_home_folder(
    house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "from __future__ import annotations\nimport dataclasses\n@dataclasses.dataclass\nclass "
        "C:\n    x: int = 3\nCARD = C()\nbuild = C\n"
    )
    written(tmp_path, "cased.py", text)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert room(house).get("~/cased.py").CARD.x == 3


def test_a_file_may_not_take_a_name_that_is_taken(house: Path, tmp_path: Path) -> None:
    found = room(house)
    with pytest.raises(BadSetting, match=r"second model called 'STMEM'; rename"):
        found.get(str(written(tmp_path, "STMEM.py")))
    found.get(str(written(tmp_path, "foo.py")))
    (tmp_path / "other").mkdir()
    with pytest.raises(BadSetting, match=r"other/foo\.py would be a second model"):
        found.get(str(written(tmp_path / "other", "foo.py")))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\ny = 1 / 0\n", r"at bad\.py:2: ZeroDivisionError: division by zero"),
        (
            "import no_such_package\n",
            r"at bad\.py:1: ModuleNotFoundError: No module named 'no_such_package'",
        ),
        ("def f(:\n", r"SyntaxError: invalid syntax.*line 1"),
        ("import sys\nsys.exit(3)\n", r"at bad\.py:2: SystemExit: 3"),
        ("raise ValueError('one\\ntwo')\n", r"at bad\.py:1: ValueError: one two"),
        ("CARD = 1\n", r"does not define build"),
    ],
)
def test_a_file_is_resolved_unread_and_refused_in_one_line_until_it_is_mended(
    house: Path, tmp_path: Path, text: str, said: str
) -> None:
    path, found, before = written(tmp_path, "bad.py", text), room(house), set(sys.modules)
    assert found.resolve(str(path)) == "bad"
    for name in (str(path), "bad", "BAD"):
        with pytest.raises(BadSetting, match=said) as caught:
            found.get(name)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)
        assert found.names() == ["laef", "st_mem"]
        assert not [m for m in set(sys.modules) - before if m.endswith("_bad")]
    path.write_text(
        "CARD = 'mended'\nbuild = dict\n# longer than before, so that no cached bytecode fits\n"
        + "#" * 100
    )
    assert found.get(str(path)).CARD == "mended"
    assert found.names() == ["laef", "st_mem", "bad"]


LINES = {
    "from mynets.blocks import X": "mynets/blocks.py",
    "import mynets.blocks\nX = mynets.blocks.X": "mynets/blocks.py",
    "from .helper import X": "helper.py",
    "from .mynets.blocks import X": "mynets/blocks.py",
    "from helper import X": "helper.py",
}


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("package", [False, True])
def test_code_beside_a_file_is_found_and_is_its_own(
    house: Path, tmp_path: Path, line: str, package: bool
) -> None:
    """Of two files in two folders, each with neighbours of the same names."""
    found, modules = room(house), []
    for number in (1, 2):
        folder = tmp_path / f"folder{number}"
        (folder / "mynets").mkdir(parents=True)
        if package:
            written(folder / "mynets", "__init__.py", "")
        (folder / LINES[line]).write_text(f"X = {number}\n")
        path = written(folder, f"net{number}.py", f"{line}\nCARD = X\nbuild = dict\n")
        modules.append(found.get(str(path)))
        before = found.source_hash(f"net{number}")
        (folder / LINES[line]).write_text(f"X = {number} + 0\n")
        assert found.source_hash(f"net{number}") != before
    assert [module.CARD for module in modules] == [1, 2]


@pytest.mark.parametrize("how", ["PYTHONPATH", "../lib"])
def test_a_module_elsewhere_on_the_path_counts_among_a_files_sources(
    house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    (tmp_path / "lib").mkdir()
    name = f"elsewhere{next(_number)}"
    module = written(tmp_path / "lib", f"{name}.py", "X = 1\n")
    (tmp_path / "mine").mkdir()
    start = f"import sys\nsys.path.insert(0, {str(tmp_path / 'lib')!r})\n"
    if how == "PYTHONPATH":
        monkeypatch.syspath_prepend(tmp_path / "lib")
        start = "import numpy\n"
    path = written(tmp_path / "mine", "far.py", f"{start}import {name}\nCARD = 1\nbuild = dict\n")
    found = room(house)
    before = found.source_hash(found.resolve(str(path)))
    assert before == found.source_hash("far")
    module.write_text("X = 2\n")
    assert found.source_hash("far") != before


def test_what_a_file_switches_is_as_before_once_it_is_imported(house: Path, tmp_path: Path) -> None:
    text = (
        "import random, numpy, torch\ntorch.set_default_dtype(torch.float64)\n"
        "torch.set_grad_enabled(False)\ntorch.set_default_device('meta')\n"
        "torch.autograd.set_detect_anomaly(True)\nnumpy.seterr(all='raise')\n"
        "CARD = random.random(), numpy.random.rand()\nbuild = dict\n"
    )
    numbers, state = [], (random.getstate(), np.random.get_state()[1].tolist())
    for _ in range(2):
        found = room(house)
        numbers.append(found.get(str(written(tmp_path, "switches.py", text))).CARD)
    assert numbers[0] == numbers[1]
    assert (random.getstate(), np.random.get_state()[1].tolist()) == state
    assert torch.get_default_dtype() == torch.float32
    assert torch.get_default_device() == torch.device("cpu")
    assert torch.is_grad_enabled()
    assert not torch.is_anomaly_enabled()
    assert np.geterr()["invalid"] == "warn"


def test_a_file_that_reads_the_command_line_is_told(house: Path, tmp_path: Path) -> None:
    text = (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('data')\np.parse_args()\n"
    )
    with pytest.raises(BadSetting, match="argparse"):
        room(house).get(str(written(tmp_path, "script.py", text)))


def test_files_are_known_by_their_paths_and_may_be_forgotten(house: Path, tmp_path: Path) -> None:
    found, path = room(house), written(tmp_path, "foo.py")
    assert found.paths() == []
    assert found.resolve(str(path)) == "foo"
    assert found.paths() == [path]
    assert (found.argument("foo"), found.argument("laef")) == (str(path), "laef")
    assert (found.built_in("laef"), found.built_in("foo")) == (True, False)
    module = found.get("foo")
    assert sys.modules[module.__name__] is module
    found.forget()
    assert (found.paths(), found.names()) == ([], ["laef", "st_mem"])
    with pytest.raises(UnknownName):
        found.get("foo")
    path.write_text(
        "CARD = 'another'\nbuild = dict\n# longer than before, so that no cached bytecode fits\n"
    )
    assert found.get(str(path)).CARD == "another"


def test_a_card_that_asks_for_a_name_is_told_what_the_plug_in_is_called(
    house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By file, by path and by entry point; `build` sees it too."""
    text = (
        "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass Card:\n    title: str\n   "
        " name: str = ''\n"
        "CARD = Card('Mine')\ndef build():\n    return CARD.name\n"
    )
    written(house, "own.py", text)
    written(house, "_far.py", text)
    installed(monkeypatch, **{"Far-Net": f"{house.name}._far"})
    plug_ins, path = room(house), str(written(tmp_path, "My-Net.py", text))
    for asked, name in (
        ("OWN", "own"),
        ("farnet", "Far-Net"),
        (path, "My-Net"),
        ("mynet", "My-Net"),
    ):
        assert (plug_ins.card(asked).name, plug_ins.card(asked).title) == (name, "Mine")
        assert plug_ins.get(asked).build() == name
    assert plug_ins.card("laef") == f"{house.name}.laef"
    monkeypatch.setattr(registry, "ends", None)  # an import is tried once, whoever asks again
    assert plug_ins.get("farnet").build() == "Far-Net"


def test_an_entry_point_may_not_take_a_name_that_is_taken(
    house: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(monkeypatch, StMem="elsewhere.net")
    with pytest.raises(BadSetting, match=r"two plug-ins.*'StMem'.*elsewhere\.net"):
        room(house).names()
    installed(monkeypatch, foo="elsewhere.net", Foo="nowhere.net")
    with pytest.raises(BadSetting, match=r"two plug-ins.*'Foo'.*nowhere\.net"):
        room(house).names()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            "no_such_package.net",
            "'far' .no_such_package.net. cannot be imported.*: ModuleNotFoundError",
        ),
        ("json:dumps", "'far'.*not a module"),
        ("json", "'far'.*does not define CARD and build"),
    ],
)
def test_an_entry_point_that_cannot_be_imported_is_one_line(
    house: Path, monkeypatch: pytest.MonkeyPatch, value: str, said: str
) -> None:
    installed(monkeypatch, far=value)
    with pytest.raises(EcgbenchError, match=said) as caught:
        room(house).get("far")
    assert "\n" not in str(caught.value)
    assert room(house).get("laef").CARD


def test_a_package_whose_list_cannot_be_read_is_left_out(
    house: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    about = tmp_path / "torn-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: torn\nVersion: 1.0\n")
    (about / "entry_points.txt").write_bytes(b"\x80\x81\xff")
    assert room(house).names() == ["laef", "st_mem"]
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("ecgbench: each model of an installed package is left out, as ")
