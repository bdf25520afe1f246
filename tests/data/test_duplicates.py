"""The same recording under two names: found by the command, by conformance, told by the facts."""

import csv
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.signal import resample_poly

from ecgbench import datasets
from ecgbench.check.datasets import check
from ecgbench.data.duplicates import CROWD, VOTES, Table, candidates, copies_among
from ecgbench.datasets import demo
from ecgbench.ecg.fingerprint import Fingerprint

Here = Callable[..., "subprocess.CompletedProcess[str]"]
CUT = 1.5
PLUGIN = '''"""Recordings of a test, from the demo's hearts."""
from pathlib import Path
import numpy as np
import pandas as pd
from ecgbench.cards.dataset import DatasetCard, Task
from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.recording import Recording

CARD = DatasetCard(
    title="Copied", version="1", doi="", licence="MIT", url="https://example.org", folder="copied",
    synthetic=True, records=6, patients=6, fs=400.0, seconds=10.0, leads=LEADS,
    index_files=("records.csv",), tasks=(Task(name="copied", title="Copied", labels=("a",)),),
    splits="fixed",
)

def index(root):
    table = pd.read_csv(root / "records.csv", dtype=str)
    table["copied:a"] = np.arange(len(table)) % 2
    table["path"] = table["record"] + ".npy"
    return table

def read(root, row):
    return Recording(
        signal=np.load(root / row["path"]).astype(np.float32), unit="mV", leads=LEADS, fs=400.0,
        record=row["record"], patient=row["patient"],
    )
'''


def signal(row: dict) -> np.ndarray:
    return demo.read(None, row).clinical().signal.astype(float)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """copied/: `twin` is the demo's first test record cut and at 400 Hz, in training; `one` and
    `same` are one recording, in training and test.
    """
    root = tmp_path / "copied"
    root.mkdir()
    (tmp_path / "copied.py").write_text(PLUGIN)
    index = demo.index(None)
    own = {
        "twin": index[index["split"] == "test"].iloc[0],
        **{f"new{i}": index.iloc[100 + i] for i in range(3)},
        "one": index.iloc[50],
        "same": index.iloc[50],
    }
    splits = ("train", "train", "val", "test", "train", "test")
    lines = ["record,patient,split"]
    for (name, row), split in zip(own.items(), splits):
        whole = signal(row.to_dict())
        if name.startswith("new"):  # another heart
            whole = whole[:, ::-1]
        start = round(CUT * demo.CARD.fs) if name == "twin" else 0
        changed = resample_poly(whole[:, start:], 4, 5, axis=1)
        np.save(root / f"{name}.npy", np.rint(1000 * changed) / 1000)
        lines.append(f"{name},P{name},{split}")
    (root / "records.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


@pytest.mark.long
def test_the_command_names_pairs_between_training_and_test_first(place: Path, here: Here) -> None:
    for name in ("demo", "./copied.py"):
        done = here("data", "prepare", name, "--data", ".", cwd=place)
        assert done.returncode == 0, done.stderr
    words = ("data", "duplicates", "demo", "./copied.py", "--data", ".")
    done = here(*words, "--within", "--csv", "pairs.csv", cwd=place)
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader((place / "pairs.csv").open()))
    index = demo.index(None)
    tested = index[index["split"] == "test"].iloc[0]["record"]
    found = {(r["record"], r["other record"]): r for r in rows}
    assert set(found) == {
        (tested, "twin"), ("one", "same"), (index.iloc[50]["record"], "one"),
        (index.iloc[50]["record"], "same"),
    }  # fmt: skip
    twin = found[tested, "twin"]
    assert (twin["dataset"], twin["other dataset"]) == ("demo", "copied")
    assert (twin["split"], twin["other split"]) == ("test", "train")
    assert float(twin["shift"]) == pytest.approx(CUT, abs=0.005)
    assert float(twin["correlation"]) > 0.99
    crossing = [{r["split"], r["other split"]} == {"train", "test"} for r in rows]
    assert crossing == sorted(crossing, reverse=True)
    assert "demo and copied: 4 pairs among 186 records" in done.stdout
    assert "between training and test" in done.stdout
    # without --within only pairs of the two datasets
    told = json.loads(here(*words, "--json", cwd=place).stdout)
    assert {(r["record"], r["other record"]) for r in told} == set(found) - {("one", "same")}
    assert [r["leak"] for r in told] == sorted((r["leak"] for r in told), reverse=True)


def test_what_is_not_prepared_or_no_file_is_said_in_a_line(place: Path, here: Here) -> None:
    done = here("data", "duplicates", "demo", cwd=place)
    assert done.returncode == 2
    assert "ecgbench data prepare demo" in done.stderr
    here("data", "prepare", "./copied.py", "--data", ".", cwd=place)
    done = here("data", "duplicates", "./copied.py", "--data", ".", "--csv", ".", cwd=place)
    assert done.returncode == 2
    assert "'--csv': file '.' is a directory" in done.stderr


def test_identical_signals_in_two_splits_break_conformance_and_are_told(
    place: Path, here: Here
) -> None:
    try:
        rows = list(check(str(place / "copied.py"), place, place / "prepared"))
    finally:
        datasets.ROOM.forget()
    broken = [row for row in rows if not row["ok"]]
    assert [row["name"] for row in broken] == ["no signal is in two splits"]
    assert "one (train) = same (test)" in broken[0]["detail"]
    done = here("data", "facts", "./copied.py", "--data", ".", cwd=place)
    assert "identical signals under several records: 1 (one (train) = same (test))" in done.stdout


def prints(rows: list[list[tuple[int, int]]]) -> list[Fingerprint]:
    """Of (hash, ms) pairs."""
    return [
        Fingerprint(
            np.array([h for h, _ in own], np.uint64), np.array([t for _, t in own], np.int32)
        )
        for own in rows
    ]


def test_candidates_are_those_whose_hashes_agree_at_one_shift() -> None:
    own = [(10 + i, 900 * i) for i in range(VOTES)]
    later = [(h, t - 300) for h, t in own]
    scattered = [(h, t - 300 - 100 * i) for i, (h, t) in enumerate(own)]
    few = own[1:]
    made = prints([own, later, scattered, few])
    table = Table.made(made, np.array([4]))
    assert candidates(table, within=True) == [(0, 1, 0.3)]
    assert candidates(table, within=False) == []
    apart = Table.made(made, np.array([1, 4]))
    assert candidates(apart, within=False) == [(0, 1, 0.3)]
    assert candidates(Table.made(prints([[], []]), np.array([2])), within=True) == []


def test_many_copies_are_one_and_an_overlap_is_no_copy() -> None:
    whole = np.random.default_rng(0).normal(size=(12, 1000))
    many = 2 * CROWD
    crowd = [[(h, 1000 * h) for h in range(VOTES + 2)] for _ in range(many)]
    later = [(h, 1000 * (h - 2)) for h in range(2, VOTES + 2)]

    def signal(number: int) -> tuple[np.ndarray, float]:
        return (whole if number < many else whole[:, 200:]), 100

    pairs = [*copies_among(prints([*crowd, later]), signal)]
    assert sum(copy for _, _, copy in pairs) == many - 1
    assert {(one, two) for one, two, copy in pairs if not copy} <= {(i, many) for i in range(many)}
    assert any(not copy for _, _, copy in pairs)
