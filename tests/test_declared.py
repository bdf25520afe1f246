"""Cards read without their networks are the cards; whatever else a file does, it is imported or it is right."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from ecgbench import adapters, datasets, models, reports
from ecgbench.declared import Declared
from ecgbench.errors import BadSetting
from ecgbench.room import Room

TINY = Path(__file__).parent / "tiny.py"


def _of(module: object) -> Declared:
    return Declared(Path(str(module.__file__)), module.__name__)  # type: ignore[attr-defined]


@pytest.mark.parametrize("room", [models, datasets], ids=["models", "datasets"])
def test_a_card_read_is_the_card_imported(room: object) -> None:
    for name in filter(room.ROOM.own, room.names()):  # type: ignore[attr-defined]  # not what other tests brought in and took away
        module = room.get(name)  # type: ignore[attr-defined]
        assert _of(module).value("CARD") == module.CARD


@pytest.mark.parametrize("room", [models.ROOM, datasets.ROOM, adapters.ROOM, reports.ROOM], ids=lambda room: room.kind)
def test_docstring_and_names_are_those_of_the_module(room: Room) -> None:
    for name in room.names():
        module, read = room.get(name), _of(room.get(name))
        assert read.docstring.strip().splitlines()[0] == str(module.__doc__).strip().splitlines()[0]
        assert set(room.needs) <= read.names
        assert ("fit" in read.names) == hasattr(module, "fit")


def test_a_card_needs_no_torch() -> None:
    files = [str(Path(str(models.get(n).__file__))) for n in models.names()]
    code = "import sys; sys.modules['torch'] = None; from pathlib import Path; from ecgbench.declared import Declared\n"
    code += "for p in sys.argv[1:]: print(Declared(Path(p), 'ecgbench.models.' + Path(p).stem).value('CARD').title)"
    done = subprocess.run([sys.executable, "-c", code, *files, str(TINY)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [models.get(n).CARD.title for n in models.names()] + ["Tiny"]


def _written(folder: Path, text: str) -> Declared:
    file = folder / "mine.py"
    file.write_text(textwrap.dedent(text))
    return Declared(file, "mine")


def test_the_value_rests_on_all_lines_that_bind_what_it_needs(tmp_path: Path) -> None:
    mine = _written(
        tmp_path,
        """
        import no_such_package
        from math import pi as tau
        A, (B, C) = 1, (2, 3)
        def twice(x):
            return 2 * x * SCALE
        SCALE = 10
        CARD = [twice(A), B]
        CARD = [*CARD, C, tau > 3]
        CARD[1] = -B
        network = no_such_package.build(CARD)
        """,
    )
    assert mine.value("CARD") == [20, -2, 3, True]
    assert mine.docstring == ""


@pytest.mark.parametrize(
    "line",
    [
        "CARD.append(2)",
        "CARD += [2]",
        "if True:\n    CARD = [2]",
        "for CARD in [[2]]:\n    pass",
        "change(CARD)",
        "del CARD",
        "HALF.clear()",
    ],
)
def test_what_cannot_be_had_without_the_module_is_refused(line: str, tmp_path: Path) -> None:
    mine = _written(tmp_path, "HALF = [1]\nCARD = [HALF]\n")
    assert mine.value("CARD") == [[1]]
    with pytest.raises(BadSetting, match="CARD needs the whole module"):
        _written(tmp_path, f"HALF = [1]\nCARD = [HALF]\n{line}\n").value("CARD")


@pytest.mark.parametrize("text", ["CARD = 1 / 0", "from nowhere import CARD", "build = 1", "from math import *"])
def test_lines_that_fail_are_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="CARD needs the whole module"):
        _written(tmp_path, text).value("CARD")


def test_what_is_no_python_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="cannot be read as Python"):
        _written(tmp_path, "CARD = (")
    with pytest.raises(BadSetting, match="cannot be read as Python"):
        Declared(tmp_path / "none.py", "none")
