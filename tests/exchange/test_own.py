"""`ecgbench runs export`: every byte of what is given away, also of what is compressed."""

import re
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ecgbench.results.study import read

TINY = Path(__file__).parents[1] / "tiny.py"
pytestmark = pytest.mark.usefixtures("one_thread")
AGES = [63.517, 64.517, 65.517, 66.517, 67.517]


def everything(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of all files, and what is compressed inside."""
    for file in sorted(folder.rglob("*")):
        yield "names", str(file.relative_to(folder)).encode()
        if not file.is_file():
            continue
        content = file.read_bytes()
        yield file.name, content
        if file.suffix == ".parquet":
            yield file.name, pd.read_parquet(file).to_csv().encode()
        for at in (m.start() for m in re.finditer(rb"x[\x01\x5e\x9c\xda]", content)):
            try:
                yield file.name, zlib.decompressobj().decompress(content[at:])
            except zlib.error:
                continue


def told_of(folder: Path, secrets: list[str]) -> set[tuple[str, str]]:
    lower = [s.lower().encode() for s in secrets]
    return {
        (name, secret.decode())
        for name, content in everything(folder)
        for secret in lower
        if secret in content.lower()
    }


def study_of_a_clinic(folder: Path) -> list[str]:
    (folder / "zebrafinkklinik").mkdir()
    rows, names = ["record,patient,age,sex,fast"], []
    for i in range(40):
        draw, t = np.random.default_rng(i), np.arange(5000) / 500
        wave = np.cos(np.pi * (1 + i % 2) * t + draw.uniform(0, 3)) ** 60
        signal = wave[:, None] * np.linspace(0.5, 1, 12) + draw.normal(0, 0.02, (5000, 12))
        name = f"maierhoferekg{i:02d}"
        text = "\n".join(",".join(f"{v:.4f}" for v in row) for row in signal)
        head = "I,II,III,aVR,aVL,aVF,V1,V2,V3,V4,V5,V6"
        (folder / "zebrafinkklinik" / f"{name}.csv").write_text(f"{head}\n{text}\n")
        rows.append(f"{name},okapiperson{i:02d},{AGES[i % 5]},{'FM'[i % 2]},{i // 2 % 2}")
        names += [name, f"okapiperson{i:02d}"]
    (folder / "zebrafinkklinik" / f"{names[0]}.csv").write_text("<html>")
    (folder / "quokkatabelle.csv").write_text("\n".join(rows) + "\n")
    return names


@pytest.mark.long
def test_nothing_of_own_recordings_is_told(here: Callable[..., Any], tmp_path: Path) -> None:
    home = tmp_path / "axolotlhome"
    home.mkdir()
    names = study_of_a_clinic(home)
    shutil.copy(TINY, home / "tiny.py")
    words = "--records zebrafinkklinik --labels quokkatabelle.csv --fs 500 --unit mV --folds 3"
    words = f"{words} --models ./tiny.py --weights random --leads I,12 --seeds 1 --engine inline"
    done = here("run", *words.split(), "--out", "out", cwd=home)
    assert done.returncode == 0, done.stderr
    run, to = home / "out", home / "gift"
    done = here("runs", "export", run, "--to", to, cwd=home)
    assert done.returncode == 0, done.stderr
    secrets = [*names, "zebrafink", "quokka", "axolotl", str(tmp_path), *map(str, AGES)]
    assert told_of(to, secrets) == set()
    assert {"index.html", "main_table.csv", "lead_curve.png"} <= {p.name for p in to.iterdir()}
    # the numbers are those of the run, and the numbers of patients those of their records
    study, given = read(run), read(to)
    assert not given.main["note"].astype(str).str.contains("scored on").any()
    same = ["leads", "value", "low", "high", "n_records", "n_patients"]
    for (_, one), (_, other) in zip(study.main[same].iterrows(), given.main[same].iterrows()):
        assert one.tolist() == pytest.approx(other.tolist())
    own = study.predictions(study.tasks[0].name, "tiny", "I", "zero")
    mine = given.predictions("own_task_1", "tiny", "I", "zero")
    columns = ["fold", "probability", "target"]
    for one in (own, mine):
        assert one.groupby("record")["patient"].nunique().eq(1).all()
    keys = [one[columns].sort_values(columns).to_numpy().tolist() for one in (own, mine)]
    assert keys[0] == keys[1]
    order = own.merge(mine, on=columns)[["record_x", "record_y"]].drop_duplicates()
    assert not order.sort_values("record_x")["record_y"].is_monotonic_increasing
    # what `report` writes beside the tables is what study.predictions gives
    done = here("report", run, cwd=home)
    assert done.returncode == 0, done.stderr
    written = pd.read_csv(run / "report" / "predictions.csv")
    same_rows = written[written["leads"] == "I"].reset_index(drop=True)
    assert {"zebrafink", "quokka"} <= {secret for _, secret in told_of(run / "report", secrets)}
    assert same_rows[list(own)].astype(str).equals(own.astype(str))
    assert here("runs", "export", run, "--to", to, cwd=home).returncode == 2, "it is not empty"
