"""`ecgbench run --folds`, as it is typed: cross-validation, and a dataset's own split with another
number of folds.
"""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file

from ecgbench.cards.model import InputContract
from ecgbench.data.prepare import prepare
from ecgbench.data.views import View
from ecgbench.results.study import Run, read

pytestmark = pytest.mark.usefixtures("one_thread")
Typed = Callable[..., int]
FOLDS = ("1/3", "2/3", "3/3")

LEARNER = '''"""Learns which recordings it was shown, and fills with zeros."""

import numpy as np


def fit(signals, leads):
    return {"seen": np.sort([np.abs(s).sum(dtype=np.float64) for s in signals])}


def fill(signal, measured, state=None):
    filled = signal.copy()
    filled[~measured] = 0
    return filled
'''


def predictions(study: Run, **of: object) -> dict[str, pd.DataFrame]:
    """Fold -> what its first cell of these predicts."""
    found: dict[str, pd.DataFrame] = {}
    for r in study.results:
        if all(getattr(r.cell, name) == value for name, value in of.items()):
            found.setdefault(r.cell.fit.fold, r.predictions())
    return found


@pytest.fixture(scope="module")
def crossed(typed: Typed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over three folds of two policies, of which one learns, at two lead settings."""
    folder = tmp_path_factory.mktemp("crossed")
    (folder / "learner.py").write_text(LEARNER)
    words = ("--folds", "3", "--leads", "12,2", "--protocol", "probe")
    assert typed(folder / "run", *words, "--policy", f"zero,{folder}/learner.py") == 0
    return folder / "run"


def test_every_record_is_tested_once_with_its_patient(crossed: Path) -> None:
    found = predictions(read(crossed))
    assert tuple(found) == FOLDS
    tested = pd.concat(found.values())
    assert len(tested) == 60
    assert tested["record"].is_unique
    patients = [set(table["patient"]) for table in found.values()]
    assert len(set.union(*patients)) == sum(map(len, patients))


def test_what_learns_sees_the_training_records_of_its_fold_and_no_other(
    crossed: Path, copies: Path
) -> None:
    study = read(crossed)
    tested = {f: set(t["record"]) for f, t in predictions(study).items()}
    by_fold = {r.cell.fit.fold: r.document for r in study.results if r.cell.policy == "learner"}
    contract = study.models[0].contract
    plain = {k: v for k, v in contract.items() if k in InputContract.__dataclass_fields__}
    view = View(prepare("demo", None, copies), InputContract(**plain))
    whole = set.union(*tested.values())
    sums = {r: float(np.abs(view.get(r)).sum(dtype=np.float64)) for r in whole}
    for place, fold in enumerate(FOLDS):
        validating = FOLDS[(place + 1) % 3]
        seen = load_file(crossed / by_fold[fold]["policy_state"])["seen"]
        training = whole - tested[fold] - tested[validating]
        np.testing.assert_allclose(seen, sorted(sums[r] for r in training), rtol=1e-12)
    # a probe is fitted to training and validation records, and says nothing of those it tests
    for r in study.results:
        fitted_to = set(r.validation()["record"])
        assert fitted_to == whole - tested[r.cell.fit.fold]


def test_features_are_shared_by_folds_unless_something_was_learned_in_each(crossed: Path) -> None:
    by_policy: dict[str, set[str]] = {}
    for r in read(crossed).results:
        facts = r.document["key_facts"]
        by_policy.setdefault(r.cell.policy, set()).add(json.dumps(facts["policy_state"]))
    assert {p: len(states) for p, states in by_policy.items()} == {"zero": 1, "learner": 3}
    windows = list((crossed / "features" / "tiny" / "demo" / "windows").iterdir())
    assert len(windows) == 1 + 3
    counts = [sum(len(load_file(s)["rows"]) for s in w.glob("part-*/data")) for w in windows]
    # twelve leads of every record, which all folds share, and each record's own two leads once
    assert max(counts) == 2 * 4 * 60


def test_numbers_are_means_over_folds_and_hold_by_an_independent_computation(
    crossed: Path,
    here: Callable[..., "subprocess.CompletedProcess[str]"],
    recompute: ModuleType,
    tmp_path: Path,
) -> None:
    run = Path(shutil.copytree(crossed, tmp_path / "r"))
    assert here("report", run, cwd=tmp_path).returncode == 0
    found = recompute.recompute(run, run / "report")
    assert found["main_table.value"][0] > 0
    assert {column: apart for column, (_, apart) in found.items() if apart > 1e-9} == {}
    study = read(run)
    for row in study.main.itertuples():
        mine = study.cells[
            (study.cells["leads"] == row.leads) & (study.cells["policy"] == row.policy)
        ]
        assert set(mine["fold"]) == set(FOLDS)
        assert row.value == pytest.approx(mine["value"].mean())
        assert row.n_records == 60
    assert set(pd.read_csv(run / "report" / "labels.csv")["fold"]) == set(FOLDS)


def test_what_is_missing_of_a_fold_is_computed_again_and_nothing_else(
    crossed: Path, typed: Typed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Path(shutil.copytree(crossed, tmp_path / "run"))
    before = read(run)
    lost = before.result("demo", "tiny", "12", "zero", fold="2/3")
    shutil.rmtree(lost.folder)
    words = ("--folds", "3", "--leads", "12,2", "--protocol", "probe")
    words += ("--policy", f"zero,{crossed.parent}/learner.py")
    assert typed(run, *words) == 0
    assert "1 cell computed, 11 were there already" in capsys.readouterr().out
    pd.testing.assert_frame_equal(
        read(run).main.drop(columns="note"), before.main.drop(columns="note")
    )
    assert typed(run, *words, "--folds", "4") == 2
    assert "folds = 4" in capsys.readouterr().err


def test_what_cannot_be_divided_is_refused_before_anything_is_computed(
    here: Callable[..., "subprocess.CompletedProcess[str]"], tmp_path: Path
) -> None:
    tiny = Path(__file__).parents[1] / "tiny.py"
    words = ("--models", tiny, "--tasks", "demo", "--weights", "random", "--engine", "inline")
    for folds in ("demo=5", "ptbxl=5", "reference", "20"):
        done = here("run", *words, "--limit", "20", "--folds", folds, cwd=tmp_path)
        assert done.returncode == 2, folds
        assert f"--folds {folds}:" in done.stderr
        assert not (tmp_path / "runs").exists()
