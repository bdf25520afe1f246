"""`--perturb` as a person types it, and its report beside numbers made by hand."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

from ecgbench.cli import app
from ecgbench.results.robustness import robustness
from ecgbench.results.study import read

TINY = Path(__file__).parents[1] / "tiny.py"
WANTED = "em@6,RA/LA,half@1,half@2"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("perturbed") / "run"
    words = ["run", "--models", f"simple_features,{TINY}", "--weights", "tiny=random"]
    words += ["--leads", "I,12", "--engine", "inline", "--tasks", "demo", "--limit", "60"]
    words += ["--out", str(out)]
    done = CliRunner().invoke(app, [*words, "--perturb", WANTED, "--set", "run.report=no"])
    assert done.exit_code == 0, done.output
    assert CliRunner().invoke(app, ["report", str(out), "--figures", "png"]).exit_code == 0
    return out


def predictions(run: Path, model: str, leads: str) -> pd.DataFrame:
    for file in run.glob("cells/**/predictions.parquet"):
        note = pd.read_json(file.parent / "cell.json", typ="series")
        if note["setting"] == leads and f"|{model}|" in note["identity"]:
            return pd.read_parquet(file).set_index("record").sort_index()
    raise AssertionError(f"no cell of {model} at {leads} in {run}")


def macro(table: pd.DataFrame) -> float:
    values = []
    for name in (c.partition(":")[2] for c in table if c.startswith("target:")):
        target = table[f"target:{name}"]
        if target.nunique() == 2:
            values.append(roc_auc_score(target, table[f"probability:{name}"]))
    return float(np.mean(values))


def test_scores_and_decisions_are_those_of_the_stored_predictions(folder: Path) -> None:
    rows = pd.read_csv(folder / "report" / "robustness.csv")
    found = rows[(rows["perturbation"] == "em@6") & (rows["leads"] == "I")]
    one = found[(found["label"] == "macro") & (found["model"] == "tiny")].iloc[0]
    clean = predictions(folder, "tiny", "I")
    other = predictions(folder / "perturbations" / "em@6", "tiny", "I")
    assert not np.allclose(clean.filter(like="prob"), other.filter(like="prob"))
    assert one["clean"] == pytest.approx(macro(clean), abs=1e-12)
    assert one["value"] == pytest.approx(macro(other), abs=1e-12)
    assert one["difference"] == pytest.approx(macro(other) - macro(clean), abs=1e-12)
    labels = found[(found["model"] == "tiny") & found["changed"].notna()]
    assert len(labels)
    for _, row in labels.iterrows():
        target = clean[f"target:{row['label']}"] == 1
        before, after = (t[f"probability:{row['label']}"] for t in (clean, other))
        flagged = [
            threshold
            for threshold in [*before, *after, np.inf]
            if np.isclose((before[target] >= threshold).mean(), row["sensitivity_clean"])
            and np.isclose((before[~target] < threshold).mean(), row["specificity_clean"])
            and np.isclose(((before >= threshold) != (after >= threshold)).mean(), row["changed"])
        ]
        assert flagged, row["label"]


def test_a_model_that_met_the_noise_in_pre_training_is_marked(folder: Path) -> None:
    study = read(folder)
    for weights, marked in ("released", {"em@6"}), ("random", set()):
        met = [replace(m, weights=weights, corpora=("MIMIC-IV-ECG", "NSTDB")) for m in study.models]
        other = replace(study, models=met)
        rows = robustness(other)
        assert set(rows.loc[rows["met"], "perturbation"]) == marked
        assert set(rows["perturbation"]) > marked


def test_heads_are_those_of_the_run(folder: Path) -> None:
    """Nothing is trained on perturbed recordings."""
    fits = {f.parent.name: f.read_bytes() for f in folder.glob("fits/**/fit.json")}
    perturbed = {
        f.parent.name: f.read_bytes() for f in folder.glob("perturbations/*/fits/**/fit.json")
    }
    assert perturbed
    assert all(fits[name] == content for name, content in perturbed.items())


def test_arms_exchanged_at_lead_i_are_its_negative(folder: Path) -> None:
    """A model whose features do not know the sign of a lead gives the same."""
    one, other = (
        predictions(run, "simple_features", "I")
        for run in (folder, folder / "perturbations" / "RA%2FLA")
    )
    assert np.allclose(one.filter(like="prob"), other.filter(like="prob"), atol=1e-3)


def test_a_strip_shorter_than_a_window_is_skipped_with_its_reason(folder: Path) -> None:
    rows = pd.read_csv(folder / "report" / "robustness.csv")
    lost = rows[(rows["perturbation"] == "half@1") & (rows["model"] == "simple_features")]
    assert (lost["status"] == "no number").all()
    assert lost["reason"].str.contains("10 s").all()
    both = pd.read_csv(folder / "report" / "retest.csv")
    assert set(both["model"]) == {"tiny"}
    assert both["icc"].between(-1, 1).all()


def test_a_run_with_perturbations_is_not_computed_again(folder: Path) -> None:
    words = ["run", str(folder), "--out", str(folder), "--perturb", "RA/LA", "--engine", "inline"]
    done = CliRunner().invoke(app, [*words, "--set", "run.report=no"])
    assert done.exit_code == 0, done.output
    assert "0 cells computed, 4 were there already, 0 skipped, 0 failed: perturb" in done.output
