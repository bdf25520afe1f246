"""What an import says of its recordings and its table, each once, and what stops it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ecgbench.data.imported import summary
from ecgbench.data.imported.importing import bring
from ecgbench.datasets import own
from ecgbench.errors import BadSetting
from tests.imported.test_import import order

HEAD = "Sample Rate,100\nUnit,mV\nI,II\n"
Change = Callable[[Path], None]


def folder(to: Path, count: int = 16) -> Path:
    (to / "rec").mkdir()
    for i in range(count):
        write(to, f"r{i:02d}")
    rows = [f"r{i:02d},P{i},{i % 2}" for i in range(count)]
    (to / "labels.csv").write_text("\n".join(["record,patient,af", *rows]) + "\n")
    return to


def write(to: Path, name: str, head: str = HEAD, scale: float = 1.0, seconds: int = 3) -> None:
    draw = np.random.default_rng([ord(c) for c in name])
    values = scale * draw.normal(0, 0.5, (100 * seconds, head.splitlines()[-1].count(",") + 1))
    lines = [",".join(f"{v:.6f}" for v in row) for row in values]
    (to / "rec" / f"{name}.csv").write_text(head + "\n".join(lines) + "\n")


def said(to: Path, **more: object) -> str:
    return "\n".join(summary.lines(bring(order(to, **more))))


def several(count: int, change: Callable[[Path, str], None]) -> Change:
    def all_of_them(to: Path) -> None:
        for i in range(count):
            change(to, f"r{i:02d}")

    return all_of_them


def broken(to: Path, name: str) -> None:
    (to / "rec" / f"{name}.csv").write_text("<html>")


CASES: dict[str, tuple[Change, str]] = {
    "signals": (
        several(2, lambda to, name: write(to, name, HEAD.replace("II", "II,Resp"))),
        "note: signals that are no standard lead are ignored: Resp (2)",
    ),
    "swing": (
        several(1, lambda to, name: write(to, name, scale=10)),
        "and 1 record by less or more: r00 (",
    ),
    "held": (
        several(2, lambda to, name: held(to, name, slice(20, 290), slice(1, 2))),
        "(no lead is made of them): II holds one value for 2.7 s (2)",
    ),
    "cut": (
        several(2, lambda to, name: held(to, name, slice(150, 300), slice(0, 2))),
        "note: cut off: 1.50 s at its end that are no ECG (all leads alike) (2)",
    ),
    "most": (several(9, broken), "9 of 16 recordings cannot be used (left_out of records.csv):\n"),
}


def held(to: Path, name: str, samples: slice, leads: slice) -> None:
    values = np.random.default_rng([ord(c) for c in name]).normal(0, 0.5, (300, 2)).round(3)
    values[samples, leads] = 0.25
    lines = [f"{a},{b}" for a, b in values]
    (to / "rec" / f"{name}.csv").write_text(HEAD + "\n".join(lines) + "\n")


@pytest.mark.parametrize("case", CASES)
def test_an_import_says_it_once(case: str, tmp_path: Path) -> None:
    change, words = CASES[case]
    change(folder(tmp_path))
    text = said(tmp_path)
    assert text.count(words) == 1, text


def test_a_question_of_few_files_costs_them_and_of_many_is_asked(tmp_path: Path) -> None:
    bare = several(3, lambda to, name: write(to, name, "I,II\n"))
    bare(folder(tmp_path))
    assert "3 of 16 recordings cannot be used" in said(tmp_path)
    several(9, lambda to, name: write(to, name, "I,II\n"))(tmp_path)
    with pytest.raises(BadSetting, match="--unit"):
        said(tmp_path)


def test_where_most_cannot_be_read_a_refusal_says_why(tmp_path: Path) -> None:
    several(12, broken)(folder(tmp_path))
    with pytest.raises(BadSetting, match=r"too few patients .*; left out: r00: r00.csv holds"):
        said(tmp_path)


def test_a_library_that_fails_on_one_file_costs_that_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder(tmp_path)
    read = own.by_suffix.read

    def fails(path: Path, *more: object) -> object:
        if path.stem == "r03":
            raise RuntimeError("what\never")
        return read(path, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(own.by_suffix, "read", fails)
    assert "quarantined r03: cannot be read (RuntimeError: what" in said(tmp_path)
