"""A table of predictions is read as an export is: scores from it alone, in any of its forms."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

import ecgbench
from ecgbench.data.prepare import prepare
from ecgbench.data.select import Selection
from ecgbench.datasets.demo import LABELS
from ecgbench.errors import BadSetting
from ecgbench.study import lent

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def split(copies: Path) -> pd.DataFrame:
    """The test split of the demo."""
    return Selection(prepare("demo", None, copies), None).of("test")


@pytest.fixture(scope="module")
def table(split: pd.DataFrame) -> pd.DataFrame:
    """record, label, probability, target, patient."""
    random = np.random.default_rng(3)
    target = split[[f"demo:{label}" for label in LABELS]].to_numpy()
    probability = 1 / (1 + np.exp(-(target + random.standard_normal(target.shape))))
    whose = (split[name].repeat(len(LABELS)).to_numpy() for name in ("record", "patient"))
    columns = dict(zip(("record", "patient"), whose))
    columns["label"] = list(LABELS) * len(split)
    made = pd.DataFrame({**columns, "probability": probability.ravel(), "target": target.ravel()})
    return made.sample(frac=1, random_state=0)


def macro(table: pd.DataFrame) -> float:
    own = table.groupby("label")[["target", "probability"]]
    return float(np.mean([roc_auc_score(of["target"], of["probability"]) for _, of in own]))


def arrays(table: pd.DataFrame, file: Path) -> None:
    wide = {kind: table.pivot(index="record", columns="label", values=kind) for kind in KINDS}
    of_record = table.groupby("record")["patient"].first()
    named = {"record": of_record.index.to_numpy(str), "patient": of_record.to_numpy(str)}
    label = wide["target"].columns.to_numpy(str)
    np.savez(file, label=label, **named, **{k: w.to_numpy() for k, w in wide.items()})


KINDS = ("probability", "target")
FORMS: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    ".csv": lambda table, file: table.to_csv(file, index=False),
    ".tsv": lambda table, file: table.to_csv(file, index=False, sep="\t"),
    ".parquet": lambda table, file: table.to_parquet(file),
    ".npz": arrays,
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_has_the_score_of_its_predictions(
    form: str, table: pd.DataFrame, tmp_path: Path
) -> None:
    FORMS[form](table, file := tmp_path / f"mine{form}")
    study = ecgbench.read(file, tasks="demo", by="me", leads="I")
    (row,) = study.main.to_dict("records")
    assert row["value"] == pytest.approx(macro(table), abs=1e-12)
    assert (row["model"], row["leads"], row["n_labels"]) == ("mine", "I", len(LABELS))
    assert row["n_patients"] == table["patient"].nunique() < row["n_records"]
    assert str(row["note"]).startswith(f"{lent.MARK}: measured by me")


@pytest.mark.long
def test_targets_and_patients_come_from_the_copy_and_the_folder_passes_the_check(
    table: pd.DataFrame, copies: Path, tmp_path: Path, here: Callable[..., Any]
) -> None:
    file, to = tmp_path / "mine.csv", tmp_path / "sent"
    table[["record", "label", "probability"]].to_csv(file, index=False)
    words = ("read", file, "--task", "demo", "--model", "Mine 2", "--to", to)
    done = here(*words, "--prepared", copies, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"{100 * macro(table):.1f} [" in done.stdout
    study = ecgbench.read(to)
    assert study.main["n_patients"].tolist() == [table["patient"].nunique()]
    done = here("check", "results", to, "--prepared", copies, cwd=tmp_path)
    assert done.returncode == 0, done.stdout


WRONG: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "a label of another task": lambda t: t.replace({"label": {"IMI": "XXX"}}),
    "a probability above 1": lambda t: t.assign(probability=t["probability"] + 1),
    "a probability is missing": lambda t: t.iloc[1:],
    "twice": lambda t: pd.concat([t, t.iloc[:1]]),
    "other records": lambda t: t[t["record"] != t["record"].min()],
    "other targets": lambda t: t.assign(target=1 - t["target"]),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_no_table_of_predictions_is_one_line(
    wrong: str, table: pd.DataFrame, copies: Path, tmp_path: Path
) -> None:
    file = tmp_path / "mine.csv"
    WRONG[wrong](table).to_csv(file, index=False)
    with pytest.raises(BadSetting, match=r"mine\.csv") as caught:
        ecgbench.read(file, tasks="demo", prepared=copies, to=tmp_path / "sent")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "sent").exists()


@pytest.mark.real
def test_published_predictions_have_their_published_score(real_data: Path) -> None:
    file = real_data.parent / "spec" / "published" / "xresnet1d101_ptbxl_all_fold10.npz"
    if not file.exists():
        pytest.skip("needs published predictions beside the genuine recordings")
    study = ecgbench.read(file, tasks="ptbxl_all")
    with np.load(file) as held:
        wanted = roc_auc_score(held["target"], held["probability"], average="macro")
    assert study.main["value"].tolist() == pytest.approx([wanted], abs=1e-12)
    assert f"{wanted:.8f}" == f"{study.main['value'][0]:.8f}"
