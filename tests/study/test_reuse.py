"""A run that finds what an earlier one kept, after the disk has changed some of it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


def _spoil(file: Path, at: int, content: bytes) -> None:
    with file.open("r+b") as out:
        out.seek(at)
        out.write(content)


def test_what_changed_on_the_disk_is_named_and_no_number_moves(
    typed: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prepared, out = tmp_path / "prepared", tmp_path / "run"
    words = ("--prepared", str(prepared), "--set", "run.keep_features=yes")

    def predictions() -> dict[str, bytes]:
        return {p.parent.name: p.read_bytes() for p in out.rglob("predictions.parquet")}

    assert typed(out, *words) == 0
    first = predictions()
    assert first
    said = capsys.readouterr().err
    assert "not as it was" not in said

    shards = list(out.glob("features/*/*/windows/*/part-*/data"))
    for shard in shards:
        _spoil(shard, shard.stat().st_size - 400, bytes(300))
    (view,) = prepared.glob("demo/*/views/*/part-*/data")
    _spoil(view, 0, bytes(view.stat().st_size))
    (signal,) = prepared.glob("demo/*/part-*/data")
    _spoil(signal, 0, bytes(5000))
    for made in ("cells", "fits"):
        shutil.rmtree(out / made)
    assert typed(out, *words) == 0
    assert predictions() == first
    said = capsys.readouterr().err
    for place in (*shards, f"{view.parents[1]}: ", f"{signal.parents[1]}: "):
        assert said.count(str(place)) == 1, place

    _spoil(signal.with_name("rows.parquet"), 500, bytes(2))
    shutil.rmtree(out / "cells")
    assert typed(out, *words) == 0
    assert predictions() == first
    assert f"set aside as {signal.parent.name}.damaged" in capsys.readouterr().err
