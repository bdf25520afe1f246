"""The door of every room: loose names, strangers by path and by entry point, and what is told to those who may not enter."""

import importlib.metadata
import sys
from importlib.metadata import EntryPoint
from itertools import chain, count
from pathlib import Path

import pytest
import torch

from ecgbench.cards import ModelCard
from ecgbench.errors import BadSetting, EcgbenchError, UnknownName
from ecgbench.layers.features import Features
from ecgbench.room import Room, plain

TINY = Path(__file__).with_name("tiny.py")
_number = count()


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a new package on the path: citizens st_mem and laef, machinery _blocks, both of which say when they are imported."""
    folder = tmp_path / f"house{next(_number)}"
    folder.mkdir()
    for name in ("__init__", "_blocks", "st_mem", "laef"):
        (folder / f"{name}.py").write_text("CARD = __name__\n\ndef build() -> str:\n    return CARD\n")
    monkeypatch.syspath_prepend(tmp_path)
    return folder


def room(house: Path) -> Room:
    return Room(house.name, "model", ("CARD", "build"))


def guests(monkeypatch: pytest.MonkeyPatch, **points: str) -> None:
    """Entry points, name to value, that some installed package announces for every group asked for."""

    def announced(group: str) -> list[EntryPoint]:
        return [EntryPoint(name, value, group) for name, value in points.items()]

    monkeypatch.setattr("ecgbench.room.entry_points", announced)
    assert importlib.metadata.entry_points is not announced


def stranger(folder: Path, name: str, text: str = "CARD = 1\nbuild = dict\n") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_listing_a_room_imports_nothing_and_machinery_is_no_citizen(house: Path) -> None:
    found = room(house)
    assert found.names() == ["laef", "st_mem"]
    assert not [m for m in sys.modules if m.startswith(f"{house.name}.")]
    assert found.get("laef").build() == f"{house.name}.laef"
    assert f"{house.name}.st_mem" not in sys.modules


@pytest.mark.parametrize("spelling", ["st_mem", "stmem", "ST-MEM", "St Mem", "s-t_mem"])
def test_names_are_loose(house: Path, spelling: str) -> None:
    assert room(house).resolve(spelling) == "st_mem"
    assert room(house).get(spelling).build() == f"{house.name}.st_mem"
    assert plain(spelling) == "stmem"


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


def test_two_files_whose_names_compare_equal_are_an_error(house: Path) -> None:
    stranger(house, "stmem.py")
    with pytest.raises(BadSetting, match=r"two citizens.*stmem"):
        room(house).names()


def test_a_citizen_without_its_functions_is_refused(house: Path) -> None:
    stranger(house, "bare.py", "x = 1\n")
    with pytest.raises(BadSetting, match=r"model 'bare' .*bare\.py.* does not define CARD and build"):
        room(house).get("bare")


def test_a_stranger_by_path_becomes_a_citizen(house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, found = stranger(tmp_path, "My-Net.py"), room(house)
    module = found.get(str(path))
    assert found.names() == ["laef", "st_mem", "My-Net"]
    assert found.get("mynet") is module
    monkeypatch.chdir(tmp_path)
    assert found.get("./My-Net.py") is found.get("My-Net.py") is module
    assert room(house).names() == ["laef", "st_mem"]


def test_a_stranger_may_hold_dataclasses_and_live_in_the_home_folder(house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "from __future__ import annotations\nimport dataclasses\n@dataclasses.dataclass\nclass C:\n    x: int = 3\nCARD = C()\nbuild = C\n"
    )
    stranger(tmp_path, "cased.py", text)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert room(house).get("~/cased.py").CARD.x == 3


def test_a_stranger_may_not_take_a_name_that_is_taken(house: Path, tmp_path: Path) -> None:
    found = room(house)
    with pytest.raises(BadSetting, match=r"second model called 'STMEM'; rename"):
        found.get(str(stranger(tmp_path, "STMEM.py")))
    found.get(str(stranger(tmp_path, "foo.py")))
    (tmp_path / "other").mkdir()
    with pytest.raises(BadSetting, match=r"other/foo\.py would be a second model"):
        found.get(str(stranger(tmp_path / "other", "foo.py")))


def test_a_path_without_a_file_is_told_as_such(house: Path, tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match=r"no file .*gone\.py \(given as a model\).*CARD and build"):
        room(house).get(str(tmp_path / "gone.py"))
    (tmp_path / "folder.py").mkdir()
    with pytest.raises(BadSetting, match=r"no file .*folder\.py"):
        room(house).get(str(tmp_path / "folder.py"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\ny = 1 / 0\n", r"ZeroDivisionError at bad\.py:2: division by zero"),
        ("import no_such_package\n", r"ModuleNotFoundError at bad\.py:1: No module named 'no_such_package'"),
        ("def f(:\n", r"SyntaxError: invalid syntax.*line 1"),
        ("import sys\nsys.exit(3)\n", r"SystemExit at bad\.py:2: 3"),
        ("raise ValueError('one\\ntwo')\n", r"ValueError at bad\.py:1: one two"),
        ("CARD = 1\n", r"does not define build"),
    ],
)
def test_a_stranger_is_entered_unread_and_refused_in_one_line_until_it_is_mended(house: Path, tmp_path: Path, text: str, said: str) -> None:
    path, found = stranger(tmp_path, "bad.py", text), room(house)
    assert found.resolve(str(path)) == "bad"
    for name in (str(path), "bad", "BAD"):
        with pytest.raises(BadSetting, match=said) as caught:
            found.get(name)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)
        assert found.names() == ["laef", "st_mem", "bad"]
        assert not [m for m in sys.modules if m.endswith("_bad")]
    path.write_text("CARD = 'mended'\nbuild = dict\n# longer than before, so that no cached bytecode fits\n" + "#" * 100)
    assert found.get(str(path)).CARD == "mended"


def test_strangers_are_known_by_their_paths_and_may_be_forgotten(house: Path, tmp_path: Path) -> None:
    found, path = room(house), stranger(tmp_path, "foo.py")
    assert found.paths() == []
    assert found.resolve(str(path)) == "foo"
    assert found.paths() == [path]
    assert (found.own("laef"), found.own("foo")) == (True, False)
    module = found.get("foo")
    assert sys.modules[module.__name__] is module
    found.forget()
    assert (found.paths(), found.names()) == ([], ["laef", "st_mem"])
    assert module.__name__ not in sys.modules
    with pytest.raises(UnknownName):
        found.get("foo")
    path.write_text("CARD = 'another'\nbuild = dict\n# longer than before, so that no cached bytecode fits\n")
    assert found.get(str(path)).CARD == "another"


def test_cards_of_citizens_strangers_and_guests_are_had_without_importing_them(
    house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unread = '"""Foo."""\nCARD = [__name__]\nbuild = dict\nimport no_such_package\n'
    guests(monkeypatch, far=f"{house.name}._blocks")
    stranger(house, "_blocks.py", unread)
    found, path = room(house), stranger(tmp_path, "unread.py", unread)
    assert found.card("ST-MEM") == f"{house.name}.st_mem"
    assert found.card("far") == [f"{house.name}._blocks"]
    assert found.card(str(path)) == found.card("unread") == ["ecgbench_stranger_model_unread"]
    assert found.declared("unread").docstring == found.declared("far").docstring == "Foo."
    assert not [m for m in sys.modules if m.startswith((f"{house.name}.", "ecgbench_stranger_model_unread"))]
    with pytest.raises(BadSetting, match="No module named 'no_such_package'"):
        found.get("unread")


@pytest.mark.parametrize("text", ["CARD = []\nCARD += [1]\nbuild = dict\n", "if True:\n    CARD, build = [1], dict\n"])
def test_a_card_that_only_the_whole_module_tells_is_asked_of_the_module(house: Path, tmp_path: Path, text: str) -> None:
    assert room(house).card(str(stranger(tmp_path, "foo.py", text))) == [1]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("json:dumps", "json:dumps is no Python file"),
        ("no_such_module", "no_such_module is no Python file"),
        ("sys", "sys is no Python file"),
        ("no_such_package.net", "cannot be imported: ModuleNotFoundError"),
    ],
)
def test_a_guest_without_a_file_is_not_read(house: Path, monkeypatch: pytest.MonkeyPatch, value: str, said: str) -> None:
    guests(monkeypatch, far=value)
    with pytest.raises(BadSetting, match=said):
        room(house).declared("far")


def test_guests_enter_by_entry_point(house: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guests(monkeypatch, **{"Far-Net": f"{house.name}._blocks"})
    found = room(house)
    assert found.names() == ["laef", "st_mem", "Far-Net"]
    assert f"{house.name}._blocks" not in sys.modules
    assert found.resolve("farnet") == "Far-Net"
    assert found.get("far_net").build() == f"{house.name}._blocks"


def test_a_guest_may_not_take_a_name_that_is_taken(house: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guests(monkeypatch, StMem="elsewhere.net")
    with pytest.raises(BadSetting, match=r"two citizens.*'StMem'.*elsewhere\.net"):
        room(house).names()
    guests(monkeypatch, foo="elsewhere.net", Foo="nowhere.net")
    with pytest.raises(BadSetting, match=r"two citizens.*'Foo'.*nowhere\.net"):
        room(house).names()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("no_such_package.net", "'far' .no_such_package.net. cannot be imported: ModuleNotFoundError"),
        ("json:dumps", "'far'.*not a module"),
        ("json", "'far'.*does not define CARD and build"),
    ],
)
def test_a_guest_that_cannot_be_imported_is_one_line(house: Path, monkeypatch: pytest.MonkeyPatch, value: str, said: str) -> None:
    guests(monkeypatch, far=value)
    with pytest.raises(EcgbenchError, match=said) as caught:
        room(house).get("far")
    assert "\n" not in str(caught.value)
    assert room(house).get("laef").CARD


def test_the_tiny_network_enters_the_room_of_models_and_keeps_its_card() -> None:
    """The room is a copy: other tests see the models without it."""
    found = Room("ecgbench.models", "model", ("CARD", "build"))
    module = found.get(str(TINY))
    card, network = module.CARD, module.build().eval()
    assert isinstance(card, ModelCard)
    assert "tiny" in found.names()
    names = [name for name, _ in network.named_parameters()]
    grouped = [[n for n in names if n.startswith(prefixes)] for prefixes in card.groups.values()]
    assert sorted(chain(*grouped)) == sorted(names)
    assert sum(p.numel() for p in network.parameters()) == card.parameters
    signal, measured = torch.randn(5, 12, card.contract("paper").samples), torch.ones(5, 12, dtype=torch.bool)
    with torch.inference_mode():
        features, again = network(signal, measured), network(signal, measured)
        alone = [network(signal[i : i + 1], measured[i : i + 1]).pooled for i in range(5)]
    assert isinstance(features, Features)
    assert features.pooled.shape == (5, card.dim)
    assert features.sequence.shape[::2] == (5, card.dim)
    assert torch.equal(features.pooled, again.pooled)
    torch.testing.assert_close(torch.cat(alone), features.pooled, rtol=0, atol=1e-5)


def test_the_tiny_network_loads_its_own_weights(tmp_path: Path) -> None:
    module = Room("ecgbench.models", "model", ("CARD", "build")).get(str(TINY))
    source = module.build()
    torch.save(source.state_dict(), tmp_path / "tiny.pt")
    loaded = module.build(weights=tmp_path / "tiny.pt").state_dict()
    assert all(torch.equal(t, loaded[name]) for name, t in source.state_dict().items())
    assert not torch.equal(module.build().state_dict()["first.weight"], loaded["first.weight"])
    with pytest.raises(EcgbenchError, match="no weights of Tiny are released"):
        module.build(weights="released")
