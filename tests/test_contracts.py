"""A file that lacks a name or a parameter of its contract is refused in one line."""

from pathlib import Path

import pytest

from ecgbench import metrics, policies
from ecgbench.errors import BadSetting
from ecgbench.study.jobs import ROOMS

LACKING = {
    "policies": ("def fill(signal):\n    return signal\n", r"fill\(signal, measured\)"),
    "metrics": ("def value(target, score):\n    return 0\n", "does not define CARD and influence"),
}


@pytest.mark.parametrize("room", LACKING)
def test_what_a_plug_in_lacks_is_named(room: str, tmp_path: Path) -> None:
    text, why = LACKING[room]
    (tmp_path / f"lacking_{room}.py").write_text(text)
    own = {"policies": policies, "metrics": metrics}[room].ROOM
    with pytest.raises(BadSetting, match=why):
        own.get(str(tmp_path / f"lacking_{room}.py"))
    own.forget()


def test_all_that_comes_with_ecgbench_keeps_its_contract() -> None:
    for room in ROOMS.values():
        assert all(room.get(name) for name in room.names())
