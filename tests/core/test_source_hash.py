"""Which files a plug-in rests on: a change of one must move its keys, and nothing else may."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest

from ecgbench.core.registry import Room
from ecgbench.core.source_hash import SourceFiles

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


class Contract(Protocol):
    CARD: object


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
        ("parts/other.py", False),
        ("far/two.py", True),
        ("beside.py", False),
        ("broken.py", False),
    ],
)
def test_modules_beside_a_file_count_where_it_imports_them(
    folder: Path, changed: str, moves: bool
) -> None:
    before = SourceFiles(folder / "mine.py").sha256
    (folder / changed).write_text("changed = 2\n")
    assert (SourceFiles(folder / "mine.py").sha256 != before) == moves


def test_modules_of_a_package_count_where_they_are_imported(folder: Path) -> None:
    (folder / "parts/deep").mkdir()
    (folder / "parts/deep/__init__.py").write_text("")
    (folder / "parts/deep/model.py").write_text("from ..other import x\nimport beside\n")
    files = SourceFiles(folder / "parts/deep/model.py")
    assert files.folder == folder / "parts"
    seen = files.sha256
    for changed, moves in (("beside.py", True), ("parts/one.py", False), ("parts/other.py", True)):
        (folder / changed).write_text("changed = 2\n")
        assert (files.sha256 != seen) == moves
        seen = files.sha256


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
    files = SourceFiles(folder / "mine.py")
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
    files = SourceFiles(mine)
    before = files.sha256
    with files.reading():
        Path(np.__file__).read_bytes()
    assert files.sha256 == before


def _hashed(*files: Path) -> list[str | None]:
    """In one process: those that come later find modules that the earlier ones have imported."""
    room = Room("ecgbench.metrics", "metric", Contract)
    return [room.source_hash(room.resolve(str(file))) for file in files]


SHARED = {
    "consts.py": "TABLE = open(__file__.replace('consts.py', 't.csv')).read()\n",
    "t.csv": "1",
    "first.py": "import sys\nsys.path.append(__file__[:-9])\nimport consts\nCARD = 1\n",
    "second.py": "import sys\nsys.path.append(__file__[:-10])\nimport consts\nCARD = 2\n",
}


def test_two_plug_ins_that_share_a_module_have_it_both_in_any_order(tmp_path: Path) -> None:
    for name, text in SHARED.items():
        (tmp_path / name).write_text(text)
    first, second = tmp_path / "first.py", tmp_path / "second.py"
    code = (
        "import sys; from pathlib import Path; from tests.core.test_source_hash import _hashed\n"
        "print(*_hashed(*map(Path, sys.argv[1:])))"
    )

    def fresh(*files: Path) -> list[str]:
        command = [sys.executable, "-c", code, *map(str, files)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    alone = fresh(first) + fresh(second)
    assert fresh(first, second) == alone == fresh(second, first)[::-1]
    (tmp_path / "t.csv").write_text("2")
    assert not {*fresh(second, first)} & {*alone}


def test_a_room_hashes_what_a_file_read_when_it_was_imported(folder: Path) -> None:
    (folder / "table.csv").write_text("1")
    (folder / "mine.py").write_text(
        "from pathlib import Path\nCARD = Path(__file__).with_name('table.csv').read_text()\n"
    )

    def hashed() -> str | None:
        room = Room("ecgbench.metrics", "metric", Contract)
        return room.source_hash(room.resolve(str(folder / "mine.py")))

    before = hashed()
    assert hashed() == before
    (folder / "table.csv").write_text("2")
    assert hashed() != before
    assert Room("ecgbench.metrics", "metric", Contract).source_hash("auroc") is None
