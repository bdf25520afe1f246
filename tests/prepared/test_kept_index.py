"""An index that took long is read again, and only for the files it was made of."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from ecgbench.datasets import georgia
from ecgbench.prepared import kept_index

CALLS: list[int] = []


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """made(): the index of two headers, kept from the first second on."""
    monkeypatch.setattr(kept_index, "LONG", -1.0)
    CALLS.clear()
    root = tmp_path / "georgia"
    (root / "g1").mkdir(parents=True)
    for name in ("E1", "E2"):
        (root / "g1" / f"{name}.hea").write_text(name)

    def make() -> pd.DataFrame:
        CALLS.append(1)
        names = sorted(f.stem for f in root.rglob("*.hea"))
        return pd.DataFrame({"record": names, "age": [""] * len(names)})

    module: Any = SimpleNamespace(CARD=georgia.CARD, __file__=georgia.__file__)
    return lambda: kept_index.kept("georgia", module, root, tmp_path / "home", make)


def test_it_is_made_once_and_anew_where_a_file_is_new_or_changed(made: Any, tmp_path: Path) -> None:
    first = made()
    assert made().equals(first)
    assert len(CALLS) == 1
    (tmp_path / "georgia" / "g1" / "E3.hea").write_text("E3")
    assert list(made()["record"]) == ["E1", "E2", "E3"]
    os.utime(tmp_path / "georgia" / "g1" / "E3.hea", (1, 1))
    made()
    assert len(CALLS) == 3
    assert len(list((tmp_path / "home" / "georgia").iterdir())) == 1


def test_a_file_that_no_table_names_counts_too(
    made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CODE-15% reads the rows of its parts from the parts themselves."""
    (tmp_path / "georgia" / "part.hdf5").write_bytes(b"1")
    made()
    made()
    (tmp_path / "georgia" / "part.hdf5").write_bytes(b"22")
    made()
    room: Any = SimpleNamespace(source_hash=lambda name: "another helper")
    monkeypatch.setattr(kept_index, "ROOM", room)
    made()
    assert len(CALLS) == 3


def test_one_that_was_altered_is_not_believed(made: Any, tmp_path: Path) -> None:
    first = made()
    (file,) = (tmp_path / "home" / "georgia").iterdir()
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))
    assert made().equals(first)
    assert len(CALLS) == 2


def test_a_folder_that_cannot_be_written_costs_time_alone(made: Any, tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    assert list(made()["record"]) == ["E1", "E2"]
    made()
    assert len(CALLS) == 2


def test_what_is_quick_is_not_kept(
    made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_index, "LONG", 60.0)
    made()
    assert not (tmp_path / "home").exists()
