"""Complete folders: one rename, whatever happens on the way; two writers of one folder leave one
that can be read.
"""

import errno
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ecgbench.core import files, folders
from ecgbench.core.files import as_json, as_npy, as_parquet, sweep
from ecgbench.errors import Damaged, WriteError

pytestmark = pytest.mark.durable


def content() -> dict[str, bytes | str]:
    table = pd.DataFrame({"label": ["macro", "MI"], "value": [0.75, float("nan")]})
    return {
        "scores.parquet": as_parquet(table),
        "numbers.npy": as_npy(np.arange(6.0)),
        "cell.json": as_json({"windows": 2}),
    }


@pytest.mark.parametrize("survived", range(5))
def test_a_folder_gets_its_name_when_all_of_it_is_there(
    survived: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every file inside is on the disk, then the folder with their names, then it is renamed."""
    steps: list[str] = []

    def failing(what: str, plain: Callable[..., None]) -> Callable[..., None]:
        def step(*words: object) -> None:
            if len(steps) == survived:
                raise OSError(errno.ENOSPC, "No space left on device")
            steps.append(what)
            plain(*words)

        return step

    monkeypatch.setattr(files.os, "fsync", failing("sync", os.fsync))
    monkeypatch.setattr(files.os, "rename", failing("rename", os.rename))
    with pytest.raises(WriteError, match="No space"):
        folders.publish(tmp_path / "cell", content())
    assert steps == ["sync"] * survived
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    assert folders.publish(tmp_path / "cell", content())
    assert folders.intact(tmp_path / "cell")


def _writes_forever(folder: Path, ready: Path) -> None:
    def slowly(out: object) -> None:
        ready.write_text("begun")
        time.sleep(60)

    folders.publish(folder, {"a.json": "{}", "b.json": slowly})


def test_what_a_killed_writer_left_is_swept_and_what_a_living_one_writes_is_not(
    tmp_path: Path, kill_when: Callable[..., None]
) -> None:
    run = tmp_path / "run"
    kill_when(_writes_forever, run / "cell", tmp_path / "ready")
    assert len(list(run.glob(".cell.*.tmp"))) == 1

    def sweeping(out: object) -> None:
        sweep(run)
        assert len(list(run.glob(".cell.*.tmp"))) == 1, "the dead one is gone, ours is there"

    assert folders.publish(run / "cell", {"a.json": "{}", "b.json": sweeping})
    assert [p.name for p in run.iterdir()] == ["cell"]


def test_the_second_of_two_writers_is_discarded(tmp_path: Path) -> None:
    """Theirs is finished while ours is half written: two folders, one name, and the first one keeps
    it whole.
    """
    folder = tmp_path / "cell"

    def meanwhile(out: object) -> None:
        assert folders.publish(folder, {"a.json": '"theirs"', "b.json": '"theirs"'})

    assert not folders.publish(folder, {"a.json": '"ours"', "b.json": meanwhile})
    assert folders.intact(folder)
    assert (
        json.loads((folder / "a.json").read_text())
        == json.loads((folder / "b.json").read_text())
        == "theirs"
    )
    assert [p.name for p in tmp_path.iterdir()] == ["cell"]


def test_a_damaged_folder_makes_room_for_a_whole_one(tmp_path: Path) -> None:
    folder = tmp_path / "cell"
    folders.publish(folder, {"a.json": '"first"'})
    (folder / "a.json").write_text('"spoilt"')
    assert not folders.intact(folder)
    assert folders.publish(folder, {"a.json": '"second"'})
    assert folders.intact(folder)
    assert (folder / "a.json").read_text() == '"second"'
    assert (tmp_path / "cell.damaged" / "a.json").read_text() == '"spoilt"'
    assert folders.below(tmp_path.parent, tmp_path.name, 1) == [f"{tmp_path.name}/cell"]


def test_what_was_altered_or_is_gone_is_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "cell"
    folders.publish(folder, content())
    data = (folder / "numbers.npy").read_bytes()
    (folder / "numbers.npy").write_bytes(data[:-1] + b"\x01")
    with pytest.raises(Damaged, match=f"is not what the run wrote; .* sets {folder} aside"):
        folders.read_bytes(folder, "numbers.npy")
    (folder / "scores.parquet").unlink()
    with pytest.raises(Damaged, match=r"scores\.parquet is not what the run wrote"):
        folders.read_table(folder, "scores.parquet")
    assert not folders.intact(folder)


@pytest.mark.parametrize(
    "damage", ["", "[]", "{}", '{"cell.json": 5}', '{"cell.json": "ab', "[" * 100_000]
)
def test_a_damaged_list_of_hashes_is_one_line(damage: str, tmp_path: Path) -> None:
    folder = tmp_path / "cell"
    folders.publish(folder, content())
    (folder / "DONE").write_text(damage)
    assert not folders.intact(folder)
    with pytest.raises(
        Damaged, match=f"cell/DONE is not what the run wrote; .* sets {folder} aside and"
    ):
        folders.read_json(folder, "cell.json")
