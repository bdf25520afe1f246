"""Small files with their own hash, and how one that was altered is named and set aside."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ecgbench.core import aside
from ecgbench.core.sealed import seal, seal_bytes, unsealed, unsealed_bytes

KINDS: dict[str, tuple[Callable[..., None], Callable[[Path], Any], Any]] = {
    "json": (seal, unsealed, {"records": 30, "name": "Ünal"}),
    "bytes": (seal_bytes, unsealed_bytes, bytes(range(200))),
}
CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "a bit of the content": lambda whole: whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:],
    "a bit of the hash": lambda whole: bytes([whole[0] ^ 1]) + whole[1:],
    "it ends early": lambda whole: whole[:-3],
    "nothing": lambda whole: b"",
    "zeros": lambda whole: bytes(len(whole)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_was_altered_is_set_aside_and_named_once(
    kind: str, change: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write, read, value = KINDS[kind]
    file = tmp_path / "known"
    assert read(file) is None, "nothing is there"
    write(file, value)
    assert read(file) == value
    file.write_bytes(CHANGES[change](file.read_bytes()))
    assert read(file) is None
    assert read(file) is None
    assert [p.name for p in tmp_path.iterdir()] == ["known.damaged"]
    assert caplog.messages == [
        f"{file} is not as it was written; set aside as known.damaged, and what it held is "
        f"computed again"
    ]


def test_what_is_set_aside_takes_the_place_of_what_was_before(tmp_path: Path) -> None:
    for content in ("first", "second"):
        (tmp_path / "copy").mkdir()
        (tmp_path / "copy" / "file").write_text(content)
        aside.set_aside(tmp_path / "copy")
    assert (tmp_path / "copy.damaged" / "file").read_text() == "second"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_listener_hears_what_is_named_inside_and_nothing_else(tmp_path: Path) -> None:
    heard: list[str] = []
    with aside.heard(heard.append):
        for number in range(3):
            aside.say_once(tmp_path / "signal", f"record {number} is another\x1b[31m")
    aside.say_once(tmp_path / "other", "nobody listens")
    assert len(heard) == 1, "of one file once"
    assert heard[0].endswith("signal: record 0 is anotherU+001B[31m")
