"""What an import says of its recordings and its table, each once, and what stops it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ecgbench.data.imported import summary
from ecgbench.data.imported.importing import bring
from ecgbench.datasets import own
from ecgbench.errors import BadSetting
from tests.imported.test_import import _rooms, folder, order

__all__ = ["_rooms", "folder"]
HEAD = "Sample Rate,100\nUnit,mV\n"


def written(home: Path, number: int, hold: Any = (), head: str = HEAD, **more: Any) -> None:
    """Another recording in the place of A<number>: 3 s, with one value in the part `hold`."""
    names = more.get("names", "I,II")
    values = np.random.default_rng(number).normal(0, 0.5, (300, names.count(",") + 1))
    values[hold if hold != () else slice(0)] = 0.25
    file = next((home / "rec").rglob(f"A{number}.csv"))
    scaled = more.get("scale", 1) * values
    np.savetxt(file, scaled, "%.4f", ",", header=head + names, comments="")


def broken(home: Path, count: int) -> None:
    for i in range(count):
        next((home / "rec").rglob(f"A{i}.csv")).write_text("<html>")


def said(home: Path) -> str:
    return "\n".join(summary.lines(bring(order(home))))


def test_an_import_says_what_is_odd_once(folder: Path) -> None:
    written(folder, 11, names="I,II,Resp")
    written(folder, 12, names="I,II,Resp")
    written(folder, 13, scale=10)
    written(folder, 14, np.s_[20:290, 1])
    written(folder, 15, np.s_[150:300])
    broken(folder, 3)
    text = said(folder)
    for words in (
        "note: signals that are no standard lead are ignored: Resp (2)",
        "and 1 record by less or more: A13 (",
        "(no lead is made of them): II holds one value for 2.7 s (1)",
        "note: cut off: 1.50 s at its end that are no ECG (all leads alike) (1)",
        "note: rates from: the file (27)",
        "3 of 30 recordings cannot be used (left_out of records.csv):\n",
    ):
        assert text.count(words) == 1, text


def test_a_question_of_few_files_costs_them_and_of_many_is_asked(folder: Path) -> None:
    for count in (3, 16):
        for i in range(count):
            written(folder, i, head="")
        if count == 3:
            assert "3 of 30 recordings cannot be used" in said(folder)
    with pytest.raises(BadSetting, match="--unit"):
        said(folder)


def test_where_most_cannot_be_read_a_refusal_says_why(folder: Path) -> None:
    broken(folder, 26)
    with pytest.raises(BadSetting, match=r"too few patients .*; left out: A0: A0.csv holds"):
        said(folder)


def test_a_library_that_fails_on_one_file_costs_that_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = own.by_suffix.read

    def fails(path: Path, *more: Any) -> object:
        if path.stem == "A3":
            raise RuntimeError("what\never")
        return read(path, *more)

    monkeypatch.setattr(own.by_suffix, "read", fails)
    assert "quarantined A3: cannot be read (RuntimeError: what" in said(folder)
