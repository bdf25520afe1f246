"""A dataset is one file: by path and by entry point, from `ecgbench run` to the page, with the same
numbers.
"""

import csv
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ecgbench import datasets
from ecgbench.check.datasets import check
from ecgbench.data.prepare import prepare

TOY = Path(__file__).with_name("toy_csv.py")
TINY = Path(__file__).parents[1] / "tiny.py"
NAMES = ("time", "AVR", "I", "II", "III", "AVL", "AVF", "V1", "V2", "V3", "V4", "V5", "V6")
SPLITS = [*["train"] * 36, *["val"] * 12, *["test"] * 12]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for --data: waves of 1 or 2 mV and of 1 or 2 Hz, in 60 tables."""
    root = tmp_path_factory.mktemp("data") / "toy_csv"
    (root / "signals").mkdir(parents=True)
    lines, seconds = ["record,patient,split,tall,slow"], np.arange(500) / 100
    for number, split in enumerate(SPLITS):
        tall, slow, generator = number % 2, number // 2 % 2, np.random.default_rng(number)
        wave = (
            1000 * (1 + tall) * np.sin(2 * np.pi * (2 - slow) * seconds + generator.uniform(0, 6))
        )
        leads = wave * generator.uniform(0.9, 1.1, (12, 1)) + generator.normal(0, 20, (12, 500))
        table = np.vstack([seconds, leads]).T
        np.savetxt(
            root / "signals" / f"R{number:02d}.csv",
            table,
            "%.3f",
            ",",
            header=",".join(NAMES),
            comments="",
        )
        lines.append(f"R{number:02d},P{number:02d},{split},{tall},{slow}")
    (root / "records.csv").write_text("\n".join(lines) + "\n")
    return root.parent


def study(task: object, folder: Path, data: Path) -> tuple[tuple[object, ...], ...]:
    """The commands that run and report a study of the tiny network."""
    words = ("--models", TINY, "--weights", "random", "--leads", "12,I", "--seeds", 1)
    places = ("--data", data, "--prepared", folder / "prepared", "--out", folder / "r")
    trained = ("--protocol", "linear", "--set", "training.epochs=30")
    return ("run", "--tasks", task, *words, *trained, *places), ("report", folder / "r")


def main_table(folder: Path) -> list[dict[str, str]]:
    """Its rows; the page is looked at."""
    page = (folder / "r/report/index.html").read_text()
    for said in ("Toy CSV", "Toy waves", "ynthetic"):
        assert said in page
    with (folder / "r/report/main_table.csv").open() as table:
        return list(csv.DictReader(table))


@pytest.mark.long
def test_by_path_and_by_entry_point_to_the_page_with_the_same_numbers(
    here: Callable[..., "subprocess.CompletedProcess[str]"],
    installed: Callable[..., str],
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The models run in a process of their own, which has to find the dataset too."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    site, one, other = (tmp_path / name for name in ("site", "one", "other"))
    for folder in (site / "toy-1.0.dist-info", one, other):
        folder.mkdir(parents=True)
    (site / "toy-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n"
    )
    (site / "toy-1.0.dist-info" / "entry_points.txt").write_text(
        "[ecgbench.datasets]\ntoy_csv = some_package_toy\n"
    )
    (site / "some_package_toy.py").write_text(TOY.read_text())
    for words in study(TOY, one, data):
        done = here(*words, cwd=one)
        assert done.returncode == 0, done.stderr
    rows = main_table(one)
    assert [(row["task"], row["leads"], row["status"]) for row in rows] == [
        ("toy", "12", "ok"),
        ("toy", "I", "ok"),
    ]
    assert float(rows[0]["value"]) > 0.9
    installed(site, other, *study("toy", other, data))
    assert main_table(other) == rows


def test_it_keeps_the_promises_of_a_dataset(data: Path, tmp_path: Path) -> None:
    try:
        assert [row for row in check(str(TOY), data, tmp_path) if not row["ok"]] == []
        signal = prepare("toy_csv", data, tmp_path).recording("R00").signal
        assert 0.85 < np.abs(signal).max() < 1.3, "in mV"
    finally:
        datasets.ROOM.forget()


def test_what_its_author_changes_is_prepared_anew(data: Path, tmp_path: Path) -> None:
    mine = tmp_path / "toy_csv.py"
    digests = []
    try:
        for per_mv in ("1000.0", "2000.0"):
            mine.write_text(TOY.read_text().replace("per_mv=1000.0", f"per_mv={per_mv}"))
            datasets.resolve(str(mine))
            digests.append(prepare("toy_csv", data, tmp_path / "prepared").digest)
            datasets.ROOM.forget()
    finally:
        datasets.ROOM.forget()
    assert digests[0] != digests[1]


def test_a_recording_that_is_replaced_or_gone_is_read_again(data: Path, tmp_path: Path) -> None:
    shutil.copytree(data, tmp_path / "data")
    signals = tmp_path / "data/toy_csv/signals"
    try:
        name = datasets.resolve(str(TOY))
        prepare(name, tmp_path / "data", tmp_path / "prepared")
        shutil.copy(signals / "R03.csv", signals / "R00.csv")
        (signals / "R07.csv").unlink()
        again, fresh = (
            prepare(name, tmp_path / "data", tmp_path / place) for place in ("prepared", "new")
        )
        np.testing.assert_array_equal(again.recording("R00").signal, again.recording("R03").signal)
        assert list(again.quarantined["record"]) == ["R07"]
        assert again.digest == fresh.digest
    finally:
        datasets.ROOM.forget()
