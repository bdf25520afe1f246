"""Rows of arrays in parts: whole or not there, whoever writes and whatever happens to them."""

import multiprocessing
import os
from pathlib import Path

import pytest

from ecgbench.core import parts as module
from ecgbench.core.parts import Parts


def _rows(*names: str) -> list[tuple[dict[str, object], bytes]]:
    return [({"name": name, "fs": 500.0}, name.encode() * 1000) for name in names]


def _append(folder: Path, name: str) -> None:
    Parts(folder).append(_rows(name))


def test_rows_are_read_by_name_with_their_facts(tmp_path: Path) -> None:
    parts = Parts(tmp_path / "here")
    assert parts.missing(["a", "b", "a"]) == ["a", "b"]
    parts.append(_rows("a", "b"))
    parts.append([])
    parts.append(_rows("c"))
    for each in (parts, Parts(tmp_path / "here")):
        assert each.missing(["a", "b", "c", "d"]) == ["d"]
        assert each.read("b") == b"b" * 1000
        assert each.read("d") is None
        assert each.rows["fs"].tolist() == [500.0] * 3
        assert len(each.names) == 2


def test_of_rows_of_one_name_the_last_counts(tmp_path: Path) -> None:
    Parts(tmp_path).append(_rows("a"))
    Parts(tmp_path).append([({"name": "a", "fs": 250.0}, b"other")])
    assert Parts(tmp_path).read("a") == b"other"
    assert Parts(tmp_path).rows["fs"].tolist() == [250.0]


def test_what_is_damaged_is_as_if_it_were_not_there(tmp_path: Path) -> None:
    parts = Parts(tmp_path)
    parts.append(_rows("a", "b"))
    parts.append(_rows("c"))
    one, two = (tmp_path / name for name in parts.names)
    with (one / "data").open("r+b") as out:
        out.seek(1500)
        out.write(b"x")
    (two / "rows.parquet").write_bytes(b"nothing")
    again = Parts(tmp_path)
    assert again.read("a") == b"a" * 1000
    assert again.read("b") is None, "one byte"
    assert again.missing(["a", "b", "c"]) == ["c"], "its table"
    again.append(_rows("b"))
    os.truncate(one / "data", 10)
    assert Parts(tmp_path).read("b") == b"b" * 1000
    assert Parts(tmp_path).read("a") is None, "cut short"


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = Parts(tmp_path)
    parts.append(_rows("a"))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(module, "put_into", full)
        with pytest.raises(OSError, match="No space"):
            parts.append(_rows("b"))
    assert [path.name for path in tmp_path.iterdir()] == parts.names
    parts.append(_rows("b"))
    assert Parts(tmp_path).missing(["a", "b"]) == []


def test_several_processes_append_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    both = [context.Process(target=_append, args=(tmp_path, name)) for name in ("a", "b", "a")]
    for process in both:
        process.start()
    for process in both:
        process.join()
    parts = Parts(tmp_path)
    assert [parts.read(name) for name in ("a", "b")] == [b"a" * 1000, b"b" * 1000]
