"""The gap budget as a person asks for it: its terms add up and are differences of stored scores."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

from ecgbench.cli import app
from ecgbench.results.columns import meaning


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("gap") / "run"
    words = ["run", "--models", "simple_features", "--leads", "1,I,I+II,12", "--seeds", "2"]
    words += ["--policy", "native,zero", "--tasks", "demo", "--limit", "60", "--out", str(out)]
    words += ["--engine", "inline", "--train-leads", "all,same", "--set", "run.report=no"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert CliRunner().invoke(app, ["report", str(out), "--figures", "png"]).exit_code == 0
    return out


def macro(run: Path, leads: str, policy: str) -> float:
    """Mean over the draws of leads of the mean over labels, from stored predictions."""
    found = []
    for file in run.glob("cells/**/predictions.parquet"):
        note = pd.read_json(file.parent / "cell.json", typ="series")
        if note["setting"].partition("@")[0] != leads or note["policy"] != policy:
            continue
        table = pd.read_parquet(file)
        names = [c.removeprefix("target:") for c in table if c.startswith("target:")]
        both = [n for n in names if table[f"target:{n}"].nunique() == 2]
        values = [roc_auc_score(table[f"target:{n}"], table[f"probability:{n}"]) for n in both]
        found.append(np.mean(values))
    assert found
    return float(np.mean(found))


def test_every_column_has_its_meaning(folder: Path) -> None:
    names = [(n, f.stem) for f in (folder / "report").glob("*.csv") for n in pd.read_csv(f)]
    assert len(names) > 200
    assert [(name, file) for name, file in names if meaning(name, file) is None] == []


@pytest.mark.parametrize("leads", ["1", "I", "I+II"])
@pytest.mark.parametrize("policy", ["native", "zero"])
def test_terms_are_differences_of_scores_and_add_up(folder: Path, leads: str, policy: str) -> None:
    rows = pd.read_csv(folder / "report" / "gap.csv")
    row = rows[(rows["leads"] == leads) & (rows["policy"] == policy) & (rows["label"] == "macro")]
    (found,) = row.to_dict("records")
    heads = folder / "heads" / "same"
    full, value = (macro(folder, which, policy) for which in ("12", leads))
    own = macro(heads, leads, policy)
    assert found["total"] == pytest.approx(value - full, abs=1e-12)
    assert found["head"] == pytest.approx(value - own, abs=1e-12)
    filling = 0.0
    if policy == "zero":
        filling = own - macro(heads, leads, "native")
        assert found["filling"] == pytest.approx(filling, abs=1e-12)
    assert found["information"] + found["head"] + filling == pytest.approx(
        found["total"], abs=1e-12
    )
    labels = rows[(rows["leads"] == leads) & (rows["policy"] == policy)]
    terms = labels[["information", "head", "filling"]].fillna(0).sum(axis=1)
    np.testing.assert_allclose(terms, labels["total"], atol=1e-12)
