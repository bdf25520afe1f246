"""Own recordings from the folder to the page: a watch, corrections, and the commands of
docs/howto/import_recordings.md.
"""

import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import wfdb

from ecgbench.ecg.leads import LEADS, LIMB_FROM_I_II
from ecgbench.results.study import read
from tests.imported.test_import import change

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.reported]
Here = Callable[..., "subprocess.CompletedProcess[str]"]

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "howto" / "import_recordings.md").read_text(encoding="utf-8")
TUTORIAL = (DOCS / "tutorials" / "your_recordings.md").read_text(encoding="utf-8")
TINY = Path(__file__).parents[1] / "tiny.py"
WATCH = 'Name,"Doe, Jane"\nSample Rate,512 hertz\n\nLead,Lead I\nUnit,µV\n\n'
USUAL = ("--weights", "random", "--seeds", 1, "--engine", "inline")


def beats(number: int, fs: float, seconds: float) -> np.ndarray:
    """A lead I in mV; odd numbers are fast."""
    draw, t = np.random.default_rng(number), np.arange(int(fs * seconds)) / fs
    wave = np.cos(np.pi * (1 + number % 2) * t + draw.uniform(0, 3)) ** 60
    return wave + draw.normal(0, 0.02, len(t))


def watch(file: Path, number: int, seconds: float = 30) -> None:
    values = 1000 * beats(number, 512, seconds)
    file.write_text(WATCH + "\n".join(f"{v:.3f}" for v in values), encoding="utf-8")


def clinic(folder: Path, name: str, number: int) -> None:
    """Twelve leads of 10 s at 500 Hz, as WFDB."""
    draw, one = np.random.default_rng(number), beats(number, 500, 10)
    two = 0.7 * one + draw.normal(0, 0.01, len(one))
    limb = LIMB_FROM_I_II @ np.stack([one, two])
    chest = draw.uniform(0.5, 1.5, (6, 1)) * one
    words = {"fs": 500, "units": ["mV"] * 12, "sig_name": [n.upper() for n in LEADS]}
    words |= {"fmt": ["16"] * 12, "adc_gain": [1000.0] * 12, "baseline": [0] * 12}
    signal = np.vstack([limb, chest]).T
    wfdb.wrsamp(name, p_signal=signal, write_dir=str(folder), **words)


def labels(folder: Path, names: list[str]) -> None:
    rows = [f"{name},P{i},{i % 2}" for i, name in enumerate(names)]
    (folder / "labels.csv").write_text("\n".join(["record,patient,fast", *rows]) + "\n")


@pytest.mark.long
def test_a_run_goes_on_after_a_correction_and_nobody_moves(here: Here, tmp_path: Path) -> None:
    (tmp_path / "watch").mkdir()
    names = [f"ecg_{i:02d}" for i in range(20)]
    for i, name in enumerate(names):
        watch(tmp_path / "watch" / f"{name}.csv", i, seconds=10)
    labels(tmp_path, names)
    words = ("run", "--records", "watch", "--labels", "labels.csv", "--leads", "I", *USUAL)
    words = (*words, "--models", TINY, "--out", "out")

    def done() -> tuple[str, str, pd.DataFrame]:
        ran = here(*words, cwd=tmp_path, ECGBENCH_PREPARED="")
        assert ran.returncode == 0, ran.stderr
        rows = pd.read_csv(tmp_path / "out" / "imported" / "records.csv", dtype=str)
        return ran.stdout, ran.stderr, rows.set_index("record")

    _, _, first = done()
    assert "nothing is left to compute" in here(*words, "--dry-run", cwd=tmp_path).stdout
    table = tmp_path / "labels.csv"
    good = table.read_text()
    train = first.index[~first["fold"].isin(["4", "5"])][0]
    was = first.at[train, "fast"]
    new = str(1 - int(was))
    patient = first.at[train, "patient"]
    table.write_text(good.replace(f"{train},{patient},{was}", f"{train},{patient},{new}"))
    dry = here(*words, "--dry-run", cwd=tmp_path)
    assert "0 of them finished" in dry.stdout
    assert f"fast: 1 record changed ({train}: fast was {was}, is {new} now)" in dry.stderr
    out, _, second = done()
    assert "0 cells computed" not in out
    assert second["fold"].equals(first["fold"])
    # a record of the test split is dropped: it is in no score
    test = first.index[first["fold"] == "5"][0]
    table.write_text(re.sub(rf"{test},.*\n", "", good))
    _, err, _ = done()
    assert f"1 record dropped: {test}" in err
    results = read(tmp_path / "out").results
    assert len(results) == 5
    tested = {r: one.cell.fit.fold[0] for one in results for r in one.predictions()["record"]}
    assert tested == first["fold"].drop(test).to_dict()  # nobody is in another fold than at first
    # edited by hand: used
    change(tmp_path / "out" / "imported" / "records.csv", (f"{train},", f"{train}_,"))
    _, err, rows = done()
    assert "records.csv was edited after the import; it is used as it is" in err
    assert f"{train}_" in rows.index


def test_a_run_advises_options_that_it_has(here: Here, tmp_path: Path) -> None:
    (tmp_path / "rec").mkdir()
    for i in range(8):
        watch(tmp_path / "rec" / f"00{i}.csv", i, seconds=3)
    labels(tmp_path, [*map(str, range(9))])
    words = ("run", "--records", "rec", "--labels", "labels.csv", "-m", TINY, "--weights", "random")
    more: tuple[str, ...] = ()
    for _ in range(3):
        done = here(*words, "-l", "I", *more, "--dry-run", cwd=tmp_path)
        if done.returncode == 0:
            break
        advised = re.findall(r"--set records\.\w+=\w+", done.stderr)
        assert advised, done.stderr
        more = (*more, *shlex.split(advised[0]))
    assert done.returncode == 0, done.stderr
    assert more == ("--set", "records.match_zeros=on", "--set", "records.partial=on")


def test_what_belongs_to_records_needs_them(here: Here, tmp_path: Path) -> None:
    (tmp_path / "rec").mkdir()
    for words, said in (
        (("--labels", "labels.csv"), "--labels belongs to --records FOLDER"),
        (("--records", "rec"), "add --labels labels.csv"),
        (("--records", "rec", "--labels", "labels.csv"), "labels.csv cannot be read"),
        (("--records", "rec", "--labels", "l", "--unit", "mmHg"), "not a unit of voltage"),
    ):
        done = here("run", *words, cwd=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert said in done.stderr


@pytest.mark.long
def test_the_commands_of_the_page_run_on_the_recordings_of_the_tutorial(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Word for word, but with random weights, since MERL's would have to be fetched."""
    code = re.search(r"```python exec[^\n]*\n(.*?)```", TUTORIAL, re.DOTALL)
    assert code
    with monkeypatch.context() as patch:
        patch.chdir(tmp_path)
        exec(compile(code[1], "your_recordings.md", "exec"), {})
    commands = re.findall(r"^    ecgbench (.*?)  +# \d\.", PAGE, re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        extra = ("--weights", "random") if command.startswith("run ") else ()
        done = here(*shlex.split(command), *extra, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    (table,) = tmp_path.glob("runs/*/report/main_table.md")
    text = table.read_text(encoding="utf-8")
    assert re.search(r"^\| Task .*LAEF.*Simple", text, re.MULTILINE)
    assert re.search(
        r"^\| Mine \| lead I \| 100.0", text, re.MULTILINE
    )  # a fast heart is easy to tell
