"""The studies that lie in reports/ are read by the program of today, and give their own tables."""

import shutil
from pathlib import Path

import pandas as pd
import pytest

from ecgbench import reports

PLACE = Path(__file__).parents[2] / "reports"


@pytest.mark.parametrize("name", ["ablations-small", "lead-sampling-small"])
def test_a_published_study_gives_its_published_tables(name: str, tmp_path: Path) -> None:
    study = shutil.copytree(PLACE / name / "study", tmp_path / "study")
    reports.write(reports.read(study), tmp_path / "report", pictures=())
    published = sorted((PLACE / name / "report").glob("*.csv"))
    assert published
    for file in published:
        ours = pd.read_csv(tmp_path / "report" / file.name)
        pd.testing.assert_frame_equal(ours, pd.read_csv(file), check_like=True, rtol=1e-9)
    assert not list(study.rglob("*.damaged"))


def test_a_loss_that_is_above_zero_is_called_smaller(tmp_path: Path) -> None:
    study = shutil.copytree(PLACE / "lead-sampling-small" / "study", tmp_path / "study")
    outcome, *_ = reports.get("ablation").sections(reports.read(study))
    table = pd.read_csv(PLACE / "lead-sampling-small/report/ablation_lead_sampling.csv")
    loss = table[table["contrast"].str.startswith("loss") & table["evidence"]]
    assert (loss["difference"] > 0).all()
    sentences = [text for part in outcome.parts for text in part.texts]
    (sentence,) = [text for text in sentences if "smaller than for" in text]
    assert sentence.startswith("; ".join(loss["contrast"]))
