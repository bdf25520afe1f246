"""`ecgbench` from its first import on."""

import os
import signal
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from ecgbench import cli
from ecgbench.__main__ import main


class _Interrupting:
    """Ctrl-C while a module is looked for."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == self.name:
            raise KeyboardInterrupt
        return None


@pytest.mark.parametrize("name", ["ecgbench.cli", "ecgbench.cli.run"])
def test_ctrl_c_during_imports_is_one_line(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for loaded in [m for m in sys.modules if m.startswith("ecgbench.cli")]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setattr(sys, "meta_path", [_Interrupting(name), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    said = capsys.readouterr().err
    assert said.startswith("ecgbench: interrupted; ")
    assert said.count("\n") == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_of_a_scheduler_or_a_closed_terminal_is_one_line(
    number: int, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "app", lambda **_: os.kill(os.getpid(), number))
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == code
    assert capsys.readouterr().err.startswith("ecgbench: interrupted; ")
    assert signal.getsignal(number) is signal.SIG_DFL
