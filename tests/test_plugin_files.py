"""Which files a plug-in rests on: a change of one must move its keys, and nothing else may."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ecgbench.plugin_files import PluginFiles
from ecgbench.room import Room

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
