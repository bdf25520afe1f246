"""Which files a plug-in rests on: a change of one must move its keys, and nothing else may."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from ecgbench.core import source_hash as plugin_files
from ecgbench.core.registry import Room
from ecgbench.core.source_hash import PluginFiles

FILES = {
    "mine.py": "import json\n\ndef f():\n    from helper import x  # late\n",
    "helper.py": "import parts.one\nx = 1\n",
    "parts/__init__.py": "",
    "parts/one.py": "import far.two\n",
    "parts/other.py": "",
    "far/two.py": "",
    "beside.py": "not_imported = 1\n",
    "broken.py": "def (",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "moves"),
    [
        ("mine.py", True),
        ("helper.py", True),
        ("parts/one.py", True),
        ("parts/other.py", True),
        ("far/two.py", True),
        ("beside.py", False),
        ("broken.py", False),
    ],
)
def test_modules_beside_a_file_count_where_it_imports_them(
    folder: Path, changed: str, moves: bool
) -> None:
    before = PluginFiles(folder / "mine.py").sha256
    (folder / changed).write_text("changed = 2\n")
    assert (PluginFiles(folder / "mine.py").sha256 != before) == moves


def test_all_of_an_installed_package_counts(folder: Path) -> None:
    (folder / "parts/deep").mkdir()
    for name in ("parts/deep/__init__.py", "parts/deep/model.py"):
        (folder / name).write_text("")
    before = PluginFiles(folder / "parts/deep/model.py", package=True)
    assert before.folder == folder / "parts"
    seen = before.sha256
    (folder / "parts/other.py").write_text("changed = 2\n")
    assert PluginFiles(folder / "parts/deep/model.py", package=True).sha256 != seen


@pytest.mark.parametrize(
    "read",
    [
        lambda path: path.read_text(),
        lambda path: np.fromfile(path, np.uint8),
        lambda path: open(str(path), "rb").close(),
    ],
)
def test_a_file_that_is_read_counts_and_one_that_is_written_does_not(
    folder: Path, read: Callable[[Path], object]
) -> None:
    (folder / "table.csv").write_text("1")
    files = PluginFiles(folder / "mine.py")
    unread = files.sha256
    with files.reading():
        (folder / "log.txt").write_text("begun")
    assert files.sha256 == unread
    with files.reading():
        read(folder / "table.csv")
    before = files.sha256
    assert before != unread
    (folder / "table.csv").write_text("2")
    assert files.sha256 != before


def test_what_is_installed_below_the_folder_does_not_count(tmp_path: Path) -> None:
    """A file in the home folder, with its Python environment and this package beside it."""
    mine = Path(sys.prefix) / "mine.py"
    files = PluginFiles(mine)
    before = files.sha256
    with files.reading():
        Path(np.__file__).read_bytes()
    assert files.sha256 == before


ELSEWHERE = {
    "lib/consts.py": "TABLE = open(__file__.replace('consts.py', 't.csv')).read()\n",
    "lib/t.csv": "1",
    "lib/unused.py": "",
    "lib/pack/__init__.py": "",
    "lib/pack/one.py": "from . import two\ndef f():\n    from ... import nothing\n",
    "lib/pack/two.py": "",
    "lib/space/deep/far.py": "from .beside import x\n",
    "lib/space/deep/beside.py": "x = 1\n",
    "lib/late.py": "",
    "lib/loaded.py": "",
    "lib/by_path.py": "",
    "lib/link.py": None,
    "real/link.py": "",
    "own/helper.py": "",
    "own/mine.py": """
import importlib, importlib.util, sys
from pathlib import Path
LIB = Path(__file__).parents[1] / "lib"
sys.path.append(str(LIB))
import consts, helper, link
import pack.one
import space.deep.far
loaded = importlib.import_module("loaded")
spec = importlib.util.spec_from_file_location("anything", LIB / "by_path.py")
spec.loader.exec_module(importlib.util.module_from_spec(spec))
CARD = 1
def f():
    import late
""",
    "own/other.py": "import consts\nCARD = 2\n",
}


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name, text in ELSEWHERE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        if text is None:
            (tmp_path / name).symlink_to(tmp_path / "real" / "link.py")
        else:
            (tmp_path / name).write_text(text)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "own")])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def _hashed(*files: Path) -> list[str | None]:
    """In one process: those that come later find modules that the earlier ones have imported."""
    room = Room("ecgbench.metrics", "metric", ("CARD",))
    return [room.source_hash(room.resolve(str(file))) for file in files]


@pytest.mark.parametrize(
    ("changed", "moves"),
    [
        ("lib/consts.py", True),
        ("lib/t.csv", True),
        ("lib/pack/one.py", True),
        ("lib/pack/two.py", True),
        ("lib/space/deep/beside.py", True),
        ("lib/late.py", True),
        ("lib/loaded.py", True),
        ("lib/by_path.py", True),
        ("real/link.py", True),
        ("own/helper.py", True),
        ("lib/unused.py", False),
        ("own/other.py", False),
    ],
)
def test_a_module_counts_wherever_it_lies(elsewhere: Path, changed: str, moves: bool) -> None:
    file = elsewhere / changed
    before, at = _hashed(elsewhere / "own/mine.py"), file.stat()
    file.write_text(file.read_text()[:-1] + "#" if at.st_size else "#")
    os.utime(file, ns=(at.st_atime_ns, at.st_mtime_ns))
    assert (_hashed(elsewhere / "own/mine.py") != before) == moves


def test_what_is_forgotten_is_imported_as_it_is_now(elsewhere: Path) -> None:
    room = Room("ecgbench.metrics", "metric", ("CARD",))
    own, lib = elsewhere / "own/own.py", elsewhere / "lib/two.py"
    own.write_text(
        f"import sys\nsys.path.insert(0, {str(lib.parent)!r})\nfrom two import x\nCARD = x\n"
    )
    for x in (1, 2):
        at = lib.stat() if lib.exists() else None
        lib.write_text(f"x = {x}\n")
        if at:
            os.utime(lib, ns=(at.st_atime_ns, at.st_mtime_ns))
        assert room.card(str(own)) == x
        room.forget()


def test_two_plug_ins_that_share_a_module_have_it_both_in_any_order(elsewhere: Path) -> None:
    mine, other = elsewhere / "own/mine.py", elsewhere / "own/other.py"
    code = (
        "import sys; sys.path += sys.argv[1:3]; del sys.argv[1:3]\n"
        "from pathlib import Path; from tests.test_plugin_files import _hashed\n"
        "print(*_hashed(*map(Path, sys.argv[1:])))"
    )

    def fresh(*files: Path) -> list[str]:
        command = [sys.executable, "-c", code, str(elsewhere / "own"), str(elsewhere / "lib")]
        command += map(str, files)
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    alone = fresh(mine) + fresh(other)
    assert fresh(mine, other) == alone == fresh(other, mine)[::-1]
    (elsewhere / "lib/t.csv").write_text("2")
    assert not {*fresh(other, mine)} & {*alone}


def test_an_installed_package_counts_by_what_was_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not torch, which this package needs: its versions stand beside each result."""
    about = tmp_path / "lablib-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Name: lablib\nVersion: 1\n")
    (about / "top_level.txt").write_text("lablib\n")
    (tmp_path / "lablib.py").write_text("x = 1\n")
    (tmp_path / "mine.py").write_text("import torch\nimport lablib\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    places = plugin_files._installed() | {tmp_path / "lablib.py"}
    monkeypatch.setattr(plugin_files, "_installed", lambda: places)
    seen = set()
    for written in ("a", "b"):
        (about / "RECORD").write_text(f"lablib.py,sha256={written},6\n")
        plugin_files._installed_as.cache_clear()
        seen.add(PluginFiles(tmp_path / "mine.py").sha256)
    assert len(seen) == 2
    assert plugin_files._installed_as("torch") == plugin_files._installed_as("os") == ""


def test_a_room_hashes_what_a_file_read_when_it_was_imported(folder: Path) -> None:
    (folder / "table.csv").write_text("1")
    (folder / "mine.py").write_text(
        "from pathlib import Path\nCARD = Path(__file__).with_name('table.csv').read_text()\n"
    )

    def hashed() -> str | None:
        room = Room("ecgbench.metrics", "metric", ("CARD",))
        return room.source_hash(room.resolve(str(folder / "mine.py")))

    before = hashed()
    assert hashed() == before
    (folder / "table.csv").write_text("2")
    assert hashed() != before
    assert Room("ecgbench.metrics", "metric", ("CARD",)).source_hash("auroc") is None
