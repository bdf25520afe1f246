"""Paths on the command line: `~` is the home folder wherever it is typed, and a printed command can
be pasted.
"""

import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from ecgbench import cli, datasets
from ecgbench.data.source import data_folder, root_of, where
from ecgbench.errors import MissingData

HOME = os.path.expanduser("~")


APP: Any = typer.main.get_command(cli.app)


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (["run", "--data=~/x"], "data", Path(HOME, "x")),
        (["run", "--data=x/~/y"], "data", Path("x/~/y")),
        (["run", "--data=~nobody-of-that-name/y"], "data", Path("~nobody-of-that-name/y")),
        (["report", "~/runs/a"], "folder", Path(HOME, "runs/a")),
    ],
)
def test_a_tilde_is_the_home_folder(words: list[str], name: str, value: object) -> None:
    context = APP.commands[words[0]].make_context("ecgbench", words[1:])
    assert context.params[name] == value


def test_a_tilde_in_a_variable_is_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECGBENCH_DATA", "~/ecg")
    monkeypatch.setenv("ECGBENCH_PREPARED", "~/copies")
    assert (data_folder(None), where(None, None)) == (Path(HOME, "ecg"), Path(HOME, "copies"))
    assert APP.commands["run"].make_context("", []).params["data"] == Path(HOME, "ecg")


@pytest.mark.parametrize("folder", ["a b", "it's (here)/a b", "plain"])
def test_a_printed_command_can_be_pasted(
    folder: str, typed: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / folder
    assert typed(place / "run") == 0
    (command,) = re.findall("next: (.*)", capsys.readouterr().out)
    assert shlex.split(command) == ["ecgbench", "report", str(place / "run")]
    with pytest.raises(MissingData) as error:
        root_of("ptbxl", datasets.get("ptbxl").CARD, place)
    command = str(error.value).rpartition("then: ")[2]
    assert shlex.split(command) == ["ecgbench", "data", "prepare", "ptbxl", "--data", str(place)]
