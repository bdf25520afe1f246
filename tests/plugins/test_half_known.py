"""Labels that are not known of every record, from `ecgbench run` to the page: each is learnt from
and scored on the records that know it.
"""

import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from ecgbench import datasets
from ecgbench.check.datasets import check
from ecgbench.data.prepare import prepare
from ecgbench.errors import BadRecord

HALF = Path(__file__).with_name("half_known.py")
TINY = Path(__file__).parents[1] / "tiny.py"
LABELS = ("shifted", "tall", "again", "steep", "quick")
Here = Callable[..., "subprocess.CompletedProcess[str]"]
WORDS = ("--engine", "inline", "--models", TINY, "--weights", "random", "--seeds", 1)
PROTOCOLS = {
    "probe": (),
    "linear": ("--protocol", "linear", "--set", "training.epochs=4"),
    "finetune": shlex.split("--protocol finetune --set training.epochs=2 --set training.batch=32"),
}
COUNTS = """
import numpy as np
from ecgbench.cards.rooms import MetricCard
CARD = MetricCard(title="Strict", direction="higher", range=(0, 1), chance=None, summary="",
                  source="")
def value(target, score):
    assert len(target) and set(np.unique(target)) <= {0, 1}, "a metric meets 0 and 1 only"
    return target.mean(axis=0).astype(float)
def influence(target, score):
    assert set(np.unique(target)) <= {0, 1}, "a metric meets 0 and 1 only"
    return target - target.mean(axis=0)
"""


def run(here: Here, folder: Path, protocol: str, half: Path = HALF, metric: str = "") -> Path:
    """A finished run of the dataset under a protocol."""
    metrics = ("--metrics", f"auroc,{metric}") if metric else ()
    leads = ("--leads", "12,II" if metric else "12")
    asked = (*leads, *PROTOCOLS[protocol], *metrics, "--out", protocol)
    words = ("run", "--tasks", half, *WORDS, *asked)
    done = here(*words, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / protocol


@pytest.fixture(scope="module")
def place(here: Here, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `probe` is a run with AUROC and a metric that knows nothing of masks."""
    folder = tmp_path_factory.mktemp("half")
    (folder / "strict.py").write_text(COUNTS)
    run(here, folder, "probe", metric=str(folder / "strict.py"))
    return folder


@pytest.fixture(scope="module")
def report(here: Here, place: Path) -> Path:
    words = ("report", "probe", "--to", "page", "--metrics", f"auroc,{place / 'strict.py'}")
    done = here(*words, cwd=place)
    assert done.returncode == 0, done.stderr
    return place / "page"


def test_every_label_has_the_numbers_of_the_records_that_know_it(place: Path, report: Path) -> None:
    """Recomputed by scikit-learn from what was predicted."""
    (file,) = (place / "probe").glob("cells/half_known/tiny/12/*/predictions.parquet")
    predicted = pd.read_parquet(file)
    labels = pd.read_csv(report / "labels.csv")
    mine = labels[(labels["task"] == "half_known") & (labels["setting"] == "12")]
    found = mine[mine["metric"] == "auroc"].set_index("label")
    assert list(found.index) == list(LABELS)
    for label in LABELS:
        target = predicted[f"target:{label}"]
        known = target >= 0
        row = found.loc[label]
        assert row["n"] == known.sum()
        assert row["positives"] == (target == 1).sum()
        value = roc_auc_score(target[known], predicted.loc[known, f"probability:{label}"])
        assert row["value"] == pytest.approx(value, abs=1e-12)
        assert row["low"] < row["value"] < row["high"]
        (share,) = mine[(mine["metric"] == "strict") & (mine["label"] == label)]["value"]
        assert share == pytest.approx((target == 1).sum() / known.sum())
    assert found["n"].nunique() == 3
    assert found["n"].max() == len(predicted) == 40


def test_every_printed_number_again(place: Path, report: Path, recompute: ModuleType) -> None:
    """By numpy, scipy and scikit-learn alone, from the stored predictions."""
    found = recompute.recompute(place / "probe", report)
    assert {"labels.low", "cells.low", "main_table.df", "main_table.value_distinct"} <= set(found)
    assert {name: apart for name, (_, apart) in found.items() if apart > 1e-9} == {}


def test_the_table_says_which_labels_count_twice(report: Path) -> None:
    labels = pd.read_csv(report / "labels.csv", keep_default_na=False)
    assert dict(zip(labels["label"], labels["same_as"])) == {
        label: "tall" if label == "again" else "" for label in LABELS
    }
    cells = pd.read_csv(report / "cells.csv")
    main = pd.read_csv(report / "main_table.csv")
    for table, leads in ((cells, "setting"), (main, "leads")):
        row = table[
            (table["task"] == "half_known") & (table[leads] == "12") & (table["metric"] == "auroc")
        ].iloc[0]
        own = labels[
            (labels["task"] == "half_known")
            & (labels["setting"] == "12")
            & (labels["metric"] == "auroc")
        ]
        value = dict(zip(own["label"], own["value"].astype(float)))
        assert row["value"] == pytest.approx(np.mean(list(value.values())), abs=1e-12)
        twice = (value["tall"] + value["again"]) / 2
        once = np.mean([value["shifted"], twice, value["steep"], value["quick"]])
        assert row["value_distinct"] == pytest.approx(once, abs=1e-12)
    assert main["n_distinct"].tolist() == [4, 4, 1, 1] * 2


@pytest.mark.long
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_lies_behind_the_mask_moves_nothing(here: Here, tmp_path: Path, protocol: str) -> None:
    files = []
    for name, opposite in (("as_it_is", "False"), ("opposite", "True")):
        folder = tmp_path / name
        folder.mkdir()
        half = folder / "half_known.py"
        half.write_text(HALF.read_text().replace("OPPOSITE = False", f"OPPOSITE = {opposite}"))
        out = run(here, folder, protocol, half)
        done = here("report", protocol, "--to", "page", cwd=folder)
        assert done.returncode == 0, done.stderr
        table = pd.read_csv(folder / "page" / "labels.csv")
        assert np.isfinite(table["value"]).all()
        kept = [
            *sorted(out.glob("fits/**/head.safetensors")),
            *sorted(out.glob("fits/**/encoder.safetensors")),
            *sorted(out.glob("cells/**/scores.parquet")),
            folder / "page" / "labels.csv",
        ]
        assert len(kept) >= 4
        files.append([file.read_bytes() for file in kept])
    assert files[0] == files[1]


def test_it_conforms_and_without_the_word_it_is_refused(place: Path, tmp_path: Path) -> None:
    rows = check(str(HALF), prepared=place / "prepared")
    assert all(row["ok"] for row in rows), rows
    bare = tmp_path / "bare.py"
    text = HALF.read_text().replace("masked=True", "masked=False").replace("half_known", "bare")
    bare.write_text(text)
    try:
        with pytest.raises(BadRecord, match=r"bare:tall .* 0 and 1 \(-1, unknown, is for tasks wi"):
            prepare(str(bare), None, tmp_path / "prepared")
    finally:
        datasets.ROOM.forget()
